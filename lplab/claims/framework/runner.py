"""Measuring a claim: missing measurements run in parallel, and finished ones are saved.

A claim of the long budget is measured seed by seed and saved after each of its measurements, so that whoever stops it
loses none that is finished, and has whole seeds (:func:`lplab.claims.dask_cluster` has the computers of a cluster
measure).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lplab.claims.framework.claim import LONG, Claim
from lplab.claims.framework.claim_verdict import claim_named
from lplab.claims.framework.portable import portable_arithmetic
from lplab.claims.framework.results import Numbers, Point, key
from lplab.claims.framework.store import Session, Stored, processor_name, read_stored, save

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
        claim: the claim or larger experiment, or the id of one of :func:`lplab.claims.experiments`.
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
    claim = claim_named(claim)
    known = Stored({}) if fresh else read_stored(claim, folder)
    missing = known.missing(claim)
    if not missing:
        return known
    if claim.budget == LONG:
        missing.sort(key=lambda each: claim.seeds.index(each[1]))  # all points of a seed, then the next seed
    jobs = 1 if claim.timed else jobs
    start = last = time.monotonic()
    new: dict[str, Numbers] = {}
    busy, processors = 0.0, set[str]()
    try:
        for name, numbers, cpu, processor in _measured(claim, missing, jobs):
            new[name] = numbers
            busy += cpu
            processors.add(processor)
            if watch:
                watch(len(new), len(missing))
            if claim.budget == LONG or time.monotonic() - last > SAVE_INTERVAL:
                _keep(claim, known, new, folder, command, (time.monotonic() - start, busy), jobs, processors)
                last = time.monotonic()
    finally:
        result = _keep(claim, known, new, folder, command, (time.monotonic() - start, busy), jobs, processors)
    return result


Measured = tuple[str, Numbers, float, str]  # key, numbers, core seconds, processor


def _measured(claim: Claim, missing: Sequence[tuple[Point, int]], jobs: int) -> Iterable[Measured]:
    from joblib import Parallel, delayed

    if claim.timed:
        return (_one(claim, point, seed) for point, seed in missing)
    work = (delayed(_one)(claim, point, seed) for point, seed in missing)
    results: Iterable[Measured]
    results = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)(work)
    return results


def _one(claim: Claim, point: Point, seed: int) -> Measured:
    start = time.process_time()
    return key(point, seed), measure(claim, point, seed), time.process_time() - start, processor_name()


def _keep(
    claim: Claim,
    known: Stored,
    new: Mapping[str, Numbers],
    folder: str | Path | None,
    command: str,
    seconds: tuple[float, float],
    jobs: int,
    processors: set[str],
) -> Stored:
    """Write old and new numbers together, if there are new ones; ``seconds`` are wall time and core time."""
    if not new:
        return known
    asked = command or f"run_claim({claim.id!r})"
    ran_on = " and ".join(sorted(processors))
    session = Session.now(asked, len(new), seconds[0], jobs, seconds[1], claim.budget, ran_on)
    now = replace(known, numbers={**known.numbers, **new}, sessions=(*known.sessions, session))
    save(claim, now, folder)
    return now
