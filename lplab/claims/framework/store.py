"""Measured numbers as files: ``data/claims/ID.json``, with who measured them, when, and with which versions."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from lplab.claims.framework.claim import QUICK, Claim
from lplab.claims.framework.portable import NAME, instructions
from lplab.claims.framework.results import Numbers, Point, Results, key
from lplab.datasets import data_folder

PACKAGES = ("lplab", "numpy", "numba", "torch")


def default_folder() -> Path:
    """Where results are stored: ``data/claims`` of the checkout, or of the installed package."""
    return data_folder() / "claims"


def versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Python, the machine's kind, and the installed packages among ``packages``, without importing them."""
    result = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "instructions": instructions(),
    }
    for package in packages:
        try:
            result[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return result


@dataclass(frozen=True)
class Session:
    """One run of measurements: date (UTC), command, how many points in how many seconds, and the versions.

    ``core_seconds`` is the processor time, which the budget limits; wall time also depends on the load of the machine.
    It is 0 where it was not measured. ``budget`` is "quick" or "long"; all that was stored before there were two is of
    the quick one.
    """

    date: str
    command: str
    points: int
    seconds: float
    jobs: int
    versions: dict[str, str]
    core_seconds: float = 0.0
    budget: str = QUICK

    @classmethod
    def now(
        cls, command: str, points: int, seconds: float, jobs: int, core_seconds: float = 0.0, budget: str = QUICK
    ) -> Session:
        """The session that just ended."""
        date = datetime.now(UTC).strftime("%Y-%m-%d")
        return cls(date, command, points, round(seconds, 1), jobs, versions(), round(core_seconds, 1), budget)

    @property
    def cost(self) -> float:
        """Core seconds, or, where they were not measured, the seconds of all processes."""
        return self.core_seconds or self.seconds * self.jobs


@dataclass(frozen=True)
class Stored:
    """The stored numbers of a claim by key (:func:`lplab.claims.framework.claim.key`), and their provenance."""

    numbers: dict[str, Numbers]
    sessions: tuple[Session, ...] = ()

    def results(self, claim: Claim) -> Results:
        """The stored numbers of the claim's points and seeds."""
        rows = ((point, seed, self.numbers.get(key(point, seed))) for point, seed in claim.measurements())
        return Results((point, seed, numbers) for point, seed, numbers in rows if numbers is not None)

    def missing(self, claim: Claim) -> list[tuple[Point, int]]:
        """The measurements that are not stored yet."""
        return [(point, seed) for point, seed in claim.measurements() if key(point, seed) not in self.numbers]

    @property
    def provenance(self) -> str:
        """One line for a figure: date, command, budget, versions.

        >>> Stored({}).provenance
        'not measured yet'
        """
        if not self.sessions:
            return "not measured yet"
        last = self.sessions[-1]
        seconds = math.fsum(session.seconds for session in self.sessions)  # exact: the same in all versions of Python
        with_ = ", ".join(
            f"{name} {v}" for name, v in last.versions.items() if name not in ("machine", "torch", "instructions")
        )
        return (
            f"measured on {last.date} by “{last.command}” in {seconds:.0f} s ({last.budget} budget; {with_}; "
            f"{last.versions['machine']}{f', {NAME}' * (last.versions.get('instructions') == NAME)})"
        )

    def provenance_of(self, claim: Claim) -> str:
        """One line for the page of a claim: :attr:`provenance`, the experiment's version, and what is still to measure.

        >>> from lplab import claims
        >>> Stored({}).provenance_of(claims.get("gupta_2015"))
        'not measured yet: 965 measurements of the quick budget, “lplab claims run gupta_2015”'
        """
        missing = len(self.missing(claim))
        to_do = f"{missing} measurement{'s' if missing > 1 else ''} of the {claim.budget} budget, “{claim.command}”"
        if not self.sessions:
            return f"not measured yet: {to_do}" if missing else "not measured"
        how = self.provenance.replace("measured on", "computed on", 1) if claim.modelled else self.provenance
        version = f"{how[:-1]}; version {claim.version} of the experiment)"
        return f"{version}; not yet: {to_do}" if missing else version


def stored(claim: Claim, folder: str | Path | None = None) -> Stored:
    """The stored numbers of a claim; empty if there is no file, or only one of another version of the claim.

    Raises:
        ValueError: the file cannot be read, or is of another claim.
    """
    path = path_of(claim, folder)
    if not path.is_file():
        return Stored({})
    try:
        result = json.loads(path.read_text("utf-8"))
        if result["claim"] != claim.id:
            raise ValueError(f"{path} holds the claim {result['claim']!r}, not {claim.id!r}")
        if result["version"] != claim.version:
            return Stored({})
        sessions = tuple(Session(**session) for session in result["sessions"])
        return Stored({key(p["point"], p["seed"]): p["numbers"] for p in result["measurements"]}, sessions)
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is no file of results ({error}); delete it to measure anew") from None


def save(claim: Claim, numbers: Stored, folder: str | Path | None = None) -> Path:
    """Write the file atomically, one measurement a line.

    Raises:
        ValueError: the folder cannot be written.
    """
    path = path_of(claim, folder)
    rows: list[dict[str, Any]] = [
        {"point": dict(point), "seed": seed, "numbers": dict(numbers.numbers[key(point, seed)])}
        for point, seed in claim.measurements()
        if key(point, seed) in numbers.numbers
    ]
    head = {"claim": claim.id, "version": claim.version, "sessions": [asdict(s) for s in numbers.sessions]}
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    text = json.dumps(head, indent=1)[:-2] + f',\n "measurements": [\n{lines}\n ]\n}}\n'
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".json.partial")
        partial.write_text(text, "utf-8")
        os.replace(partial, path)
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror}; give another folder") from None
    return path


def path_of(claim: Claim, folder: str | Path | None = None) -> Path:
    """The file of a claim's results."""
    return (default_folder() if folder is None else Path(folder)) / f"{claim.id}.json"
