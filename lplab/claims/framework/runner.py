"""Measuring a claim: missing measurements run in parallel, and finished ones are saved.

A claim of the long budget is saved after each of its measurements, so that whoever stops it loses none that is finished
(:func:`lplab.claims.dask_cluster` has the computers of a cluster measure).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lplab.claims.framework.claim import LONG, Claim
from lplab.claims.framework.portable import portable_arithmetic
from lplab.claims.framework.results import Numbers, Point, key
from lplab.claims.framework.store import Session, Stored, save, stored

SAVE_INTERVAL = 5.0  # seconds between two writes of what is finished of a quick claim


def measure(claim: Claim, point: Point, seed: int) -> Numbers:
    """One measurement: the claim's numbers as Python floats.

    Raises:
        ValueError: a number is NaN or infinite, which no check can judge.
    """
    with portable_arithmetic():
        numbers = {name: float(value) for name, value in claim.measure(point, seed).items()}
    wrong = [name for name, value in numbers.items() if not np.isfinite(value)]
    if wrong:
        raise ValueError(f"{claim.id}: {', '.join(wrong)} is not finite at {key(point, seed)}")
    return numbers


def run_claim(
    claim: Claim | str,
    *,
    folder: str | Path | None = None,
    jobs: int = 1,
    fresh: bool = False,
    command: str = "",
    watch: Callable[[int, int], Any] | None = None,
) -> Stored:
    """Measure what is missing of a claim and store it; finished measurements survive an interruption.

    Args:
        claim: the claim, or the id of one of :func:`lplab.claims.names`.
        folder: of the results; by default ``data/claims``.
        jobs: processes (joblib; −1 for all cores). Around the call, :func:`lplab.claims.dask_cluster` switches to the
            workers of a Dask cluster, ``joblib.parallel_config(backend=...)`` to others that joblib knows. A claim that
            is ``timed`` is measured here, one measurement at a time.
        fresh: measure everything again.
        command: for the provenance.
        watch: called with (finished, wanted) after every measurement.

    Returns:
        All that is stored now.

    Raises:
        ValueError: an unknown id, the folder cannot be written, or a measurement is not finite.
    """
    if isinstance(claim, str):
        from lplab.claims.claim_catalogue import get  # which imports every claim, and they this package

        claim = get(claim)
    known = Stored({}) if fresh else stored(claim, folder)
    missing = known.missing(claim)
    if not missing:
        return known
    jobs = 1 if claim.timed else jobs
    start = last = time.monotonic()
    new: dict[str, Numbers] = {}
    busy = 0.0
    try:
        for name, numbers, cpu in _measured(claim, missing, jobs):
            new[name] = numbers
            busy += cpu
            if watch:
                watch(len(new), len(missing))
            if claim.budget == LONG or time.monotonic() - last > SAVE_INTERVAL:
                _keep(claim, known, new, folder, command, (time.monotonic() - start, busy), jobs)
                last = time.monotonic()
    finally:
        result = _keep(claim, known, new, folder, command, (time.monotonic() - start, busy), jobs)
    return result


def _measured(claim: Claim, missing: Sequence[tuple[Point, int]], jobs: int) -> Iterable[tuple[str, Numbers, float]]:
    from joblib import Parallel, delayed

    if claim.timed:
        return (_one(claim, point, seed) for point, seed in missing)
    work = (delayed(_one)(claim, point, seed) for point, seed in missing)
    results: Iterable[tuple[str, Numbers, float]]
    results = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)(work)
    return results


def _one(claim: Claim, point: Point, seed: int) -> tuple[str, Numbers, float]:
    start = time.process_time()
    return key(point, seed), measure(claim, point, seed), time.process_time() - start


def _keep(
    claim: Claim,
    known: Stored,
    new: Mapping[str, Numbers],
    folder: str | Path | None,
    command: str,
    seconds: tuple[float, float],
    jobs: int,
) -> Stored:
    """Write old and new numbers together, if there are new ones; ``seconds`` are wall time and core time."""
    if not new:
        return known
    asked = command or f"run_claim({claim.id!r})"
    session = Session.now(asked, len(new), seconds[0], jobs, seconds[1], claim.budget)
    now = replace(known, numbers={**known.numbers, **new}, sessions=(*known.sessions, session))
    save(claim, now, folder)
    return now
