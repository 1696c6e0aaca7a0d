"""Measured numbers as files: ``data/claims/ID.json``, with who measured them, when, and with which versions."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from itertools import takewhile
from pathlib import Path
from typing import Any

from lplab.claims.framework.claim import LONG, QUICK, Claim
from lplab.claims.framework.portable import NAME, instructions
from lplab.claims.framework.results import Numbers, Point, Results, key
from lplab.datasets import data_folder

PACKAGES = ("lplab", "numpy", "numba", "torch")
LEAST_SEEDS = 3
"""A claim of the long budget is judged before all of its seeds are there if so many are whole."""


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


@cache
def processor_name() -> str:
    """The name of the processor of this machine, as its system tells it."""
    from lplab.hardware.processor import processor  # what only reads stored numbers does not load the tables of chips

    return " ".join(processor()[0].split())


def threads_allowed(environment: Mapping[str, str] = os.environ) -> int:
    """How many threads OpenMP and the libraries for matrices may take in this process.

    >>> threads_allowed({"OMP_NUM_THREADS": "2"}), threads_allowed({}) == os.cpu_count()
    (2, True)
    """
    asked = environment.get("OMP_NUM_THREADS", "").partition(",")[0]
    return int(asked) if asked.isdigit() else os.cpu_count() or 1


@dataclass(frozen=True)
class Session:
    """One run of measurements: date (UTC), command, how many points in how many seconds, and the versions.

    ``core_seconds`` is the processor time, which the budget limits; wall time also depends on the load of the machine.
    It is 0 where it was not measured. ``budget`` is "quick" or "long"; all that was stored before there were two is of
    the quick one. ``processor`` is the name of the processors that measured, "" where nobody noted it; ``threads`` is
    how many threads the libraries of one process may take (a training takes one), and 0 where nobody noted it.
    """

    date: str
    command: str
    points: int
    seconds: float
    jobs: int
    versions: dict[str, str]
    core_seconds: float = 0.0
    budget: str = QUICK
    processor: str = ""
    threads: int = 0

    @classmethod
    def now(
        cls,
        command: str,
        points: int,
        seconds: float,
        jobs: int,
        core_seconds: float = 0.0,
        budget: str = QUICK,
        processor: str = "",
    ) -> Session:
        """The session that just ended; without a ``processor`` it ran on the one of this machine."""
        date = datetime.now(UTC).strftime("%Y-%m-%d")
        ran_on = processor or processor_name()
        spent = round(seconds, 1), jobs, versions(), round(core_seconds, 1)
        return cls(date, command, points, *spent, budget, ran_on, threads_allowed())

    @property
    def cost(self) -> float:
        """Core seconds, or, where they were not measured, the seconds of all processes."""
        return self.core_seconds or self.seconds * self.jobs


@dataclass(frozen=True)
class Stored:
    """The stored numbers of a claim by key (:func:`lplab.claims.framework.claim.key`), and their provenance."""

    numbers: dict[str, Numbers]
    sessions: tuple[Session, ...] = ()

    def __repr__(self) -> str:
        """In a line: the numbers of a claim can fill many pages.

        >>> Stored({"a": {"loss": 1.0}})
        Stored(1 measurement of 0 runs)
        """
        count, runs = len(self.numbers), len(self.sessions)
        return f"Stored({count} measurement{'s' * (count != 1)} of {runs} run{'s' * (runs != 1)})"

    def results(self, claim: Claim) -> Results:
        """The stored numbers of the claim's points, and of its seeds that count (:meth:`seeds`)."""
        counted = self.seeds(claim)
        rows = ((point, seed, self.numbers.get(key(point, seed))) for point, seed in claim.measurements())
        return Results((p, seed, numbers) for p, seed, numbers in rows if numbers is not None and seed in counted)

    def missing(self, claim: Claim) -> list[tuple[Point, int]]:
        """The measurements that are not stored yet."""
        return [(point, seed) for point, seed in claim.measurements() if key(point, seed) not in self.numbers]

    def seeds(self, claim: Claim) -> tuple[int, ...]:
        """The seeds that count in a verdict: all of the claim, or the first ones of a long claim that are whole.

        A claim of the quick budget needs all of its measurements. A long one whose run was stopped is judged on the
        seeds that are whole, if there are at least three. These are the first ones of its list, up to the first seed
        that lacks a measurement, so that nobody can leave out a seed in the middle.
        """
        if claim.budget != LONG:
            return claim.seeds
        lacking = {seed for _, seed in self.missing(claim)}
        whole = tuple(takewhile(lambda seed: seed not in lacking, claim.seeds))
        return whole if len(whole) >= LEAST_SEEDS else claim.seeds

    @property
    def provenance(self) -> str:
        """One line for a figure: date, command, seconds by the clock and of a core, budget, versions.

        Date, command and versions are those of the last run; seconds are of all runs together.

        >>> Stored({}).provenance
        'not measured yet'
        """
        if not self.sessions:
            return "not measured yet"
        last = self.sessions[-1]
        seconds = math.fsum(session.seconds for session in self.sessions)  # exact: the same in all versions of Python
        core = math.fsum(session.core_seconds for session in self.sessions)
        how, took = "measured on", f"in {seconds:.0f} s"
        if len(self.sessions) > 1:
            how, took = f"measured in {len(self.sessions)} runs, the last on", f"in {seconds:.0f} s together"
        if all(session.core_seconds for session in self.sessions):
            took += f", {core:.0f} s of a core"
        with_ = ", ".join(
            f"{name} {v}" for name, v in last.versions.items() if name not in ("machine", "torch", "instructions")
        )
        return (
            f"{how} {last.date} by “{last.command}” {took} ({last.budget} budget; {with_}; "
            f"{last.versions['machine']}{f', {NAME}' * (last.versions.get('instructions') == NAME)}"
            f"{f', {last.processor}' * bool(last.processor)}{f', {_threads(last.threads)}' * bool(last.threads)})"
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
        how = self.provenance.replace("measured", "computed", 1) if claim.modelled else self.provenance
        version = f"{how[:-1]}; version {claim.version} of the experiment)"
        counted = self.seeds(claim)
        if counted != claim.seeds:
            version += f"; judged on the first {len(counted)} of {len(claim.seeds)} seeds"
        return f"{version}; not yet: {to_do}" if missing else version


def _threads(count: int) -> str:
    return f"{count} thread{'s' if count > 1 else ''}"


def read_stored(claim: Claim, folder: str | Path | None = None) -> Stored:
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
