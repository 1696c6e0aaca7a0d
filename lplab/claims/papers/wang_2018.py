"""Wang et al. 2018: long sums in sixteen bits stop without chunks, and hold with chunks of 32 to 256."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from lplab import arithmetic
from lplab import formats as F
from lplab.arithmetic import Accumulator
from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results

COUNT = 65_536
FORMAT = "dlfloat16"  # 1-6-9, the accumulator of the paper
CHUNKS = tuple(2**k for k in range(17))
ROUNDINGS = ("nearest_even", "stochastic", "toward_zero")
STOPS = 4096.0
PUBLISHED_CHUNKS = range(32, 257)  # chunks that the paper's figure and text name
MAX_ERROR_HELD, MIN_ERROR_LOST = 0.03, 0.5  # relative errors: below, a sum has held; above, it has not

POINTS: tuple[Point, ...] = (
    *({"rounding": "nearest_even", "chunk": chunk} for chunk in CHUNKS),
    *({"rounding": rounding, "chunk": 1} for rounding in ROUNDINGS[1:]),
)

claim = ClaimBuilder(
    id="wang_2018",
    title="Sums in sixteen bits stop without chunks, and hold with chunks of 32 to 256",
    paper=cite("wang_2018"),
    where="figure 3b",
    statement="A sum of numbers of mean 1 and standard deviation 1 in a 16-bit accumulator (1-6-9) stops growing at a "
    "length of 4,096; chunk-based accumulation, with chunks of 32 to 256, follows the sum in 32 bits, and so does "
    "stochastic rounding.",
    published="stops at a length of 4,096 without chunks; no visible error with chunks from 32 (read off the figure)",
    experiment="The same sum of 65,536 uniform numbers of ten significant bits, every addition rounded to 1-6-9.",
    points=POINTS,
    seeds=(0, 1, 2, 3, 4),
    budget_seconds=10,
    limits="Sums alone: the paper's trainings with FP8 operands are not run here. How an exact tie is rounded is not "
    "established for the paper; a sum of equal numbers would go on to twice the length with ties away from zero.",
)


def numbers(mean: float = 1.0, spread: float = 1.0, *, seed: int = 0, count: int = COUNT) -> np.ndarray:
    """Uniform numbers, rounded to ten significant bits (1-6-9): float64 [count].

    Args:
        mean, spread: the mean and the standard deviation before rounding.
        seed: of the generator; the same seed gives the same shape of data at every mean and spread.
        count: how many.

    >>> x = numbers()
    >>> float(x.sum().round(1)), float(x.min()) > 1 - 3**0.5 - 0.001
    (65565.1, True)
    """
    width = spread * np.sqrt(3.0)
    return F.get(FORMAT).quantize(np.random.default_rng(seed).uniform(mean - width, mean + width, count))


def running_sum(x: np.ndarray, accumulator: Accumulator, points: int = 32, seed: int = 0) -> np.ndarray:
    """What the sum of the first n numbers is, for n = len(x)/points, 2·len(x)/points, …, len(x): float64 [points].

    One matrix product: row k of the left matrix has ones for the numbers that sum k takes, and adding zeros changes no
    register. With stochastic rounding every sum has draws of its own.

    Args:
        x: numbers that float32 holds, [n].
        accumulator: format, chunk and rounding of every addition.
        points: how many sums; a divisor of n.
        seed: for stochastic rounding.

    Raises:
        ValueError: points do not divide the length of x.

    >>> running_sum(np.ones(4096), Accumulator("dlfloat16"), points=4)
    array([1024., 1024., 1024., 1024.])
    >>> running_sum(np.ones(4096), Accumulator("dlfloat16", chunk=64), points=4)
    array([1024., 2048., 3072., 4096.])
    """
    if len(x) % points:
        raise ValueError(f"{points} points do not divide {len(x)} numbers evenly")
    taken = np.repeat(np.tri(points, dtype=np.float32), len(x) // points, axis=1)
    return np.asarray(arithmetic.matmul(taken, x.astype(np.float32), accumulator, seed=seed), np.float64)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """The sum of the first 4,096, 16,384 and all 65,536 numbers, and the relative error of the last."""
    x = numbers(seed=seed)
    settings: dict[str, Any] = {"chunk": point["chunk"], "rounding": point["rounding"], "seed": seed}
    values = {f"sum_{n}": float(arithmetic.sum(x[:n], FORMAT, **settings)) for n in (4096, 16384, COUNT)}
    true = float(x.sum())
    return {**values, "true": true, "error": round(abs(values[f"sum_{COUNT}"] - true) / true, 6)}


def _errors(results: Results, chunks: Sequence[int], rounding: str = "nearest_even") -> np.ndarray:
    """Relative errors, [chunks · seeds]."""
    each = (results.values("error", rounding=rounding, chunk=chunk) for chunk in chunks)
    return np.array(list(chain.from_iterable(each)))


def _sums(results: Results, number: str, rounding: str = "nearest_even", chunk: int = 1) -> np.ndarray:
    return results.values(number, rounding=rounding, chunk=chunk)


@claim.criterion("Without chunks the sum stops at 4,096")
def stops_without_chunks(results: Results) -> CheckResult:
    """Without chunks every seed has stopped at 4,096 after 16,384 numbers, and is still there at the end."""
    middle, end = (_sums(results, name) for name in ("sum_16384", f"sum_{COUNT}"))
    lost = _errors(results, [1])
    return CheckResult(
        bool((middle == STOPS).all() and (end == STOPS).all()),
        f"Without chunks: {_range(middle)} after 16,384 numbers, {_range(end)} after {COUNT:,} ({100 * lost.min():.0f} "
        "% lost).",
    )


@claim.criterion("Chunks of 32 to 256 hold to 65,536")
def holds_from_32(results: Results) -> CheckResult:
    """With chunks of 32 to 256 every seed stays close to the true sum, and with half of 32 none does."""
    held, short = _errors(results, [c for c in CHUNKS if c in PUBLISHED_CHUNKS]), _errors(results, [16])
    return CheckResult(
        bool(held.max() < MAX_ERROR_HELD < short.min()),
        f"Chunks of 32 to 256: at most {100 * held.max():.1f} % off; chunks of 16: at least {100 * short.min():.0f} %.",
    )


@claim.criterion("Stochastic rounding holds without chunks")
def stochastic_follows(results: Results) -> CheckResult:
    """Stochastic rounding follows the true sum without any chunks."""
    errors = _errors(results, [1], "stochastic")
    return CheckResult(
        bool(errors.max() < 2 * MAX_ERROR_HELD),
        f"Stochastic rounding without chunks: {100 * errors.min():.1f} to {100 * errors.max():.1f} % off.",
    )


@claim.explanation("Very long chunks fail as no chunks do")
def long_chunks_fail_again(results: Results) -> CheckResult:
    """The bound n/c + c has a valley: chunks of 64 to 1,024 are good, and chunks of 16,384 stop as a plain sum does."""
    middle, long = _errors(results, [c for c in CHUNKS if 64 <= c <= 1024]), _errors(results, [16384, COUNT])
    between = _errors(results, [4096])
    return CheckResult(
        bool(middle.max() < MAX_ERROR_HELD < between.min() and long.min() > MIN_ERROR_LOST),
        f"Chunks of 64 to 1,024: at most {100 * middle.max():.1f} % off; 4,096: at least {100 * between.min():.0f} %; "
        f"16,384 and more: at least {100 * long.min():.0f} %.",
    )


@claim.explanation("Cutting digits off stops even earlier")
def cutting_off_stops_earlier(results: Results) -> CheckResult:
    """A register that cuts digits off stops even earlier."""
    cut = _sums(results, f"sum_{COUNT}", "toward_zero")
    return CheckResult(
        bool(cut.max() < STOPS), f"Digits cut off instead of rounded: {_range(cut)} after {COUNT:,} numbers."
    )


def _range(values: np.ndarray) -> str:
    low, high = values.min(), values.max()
    return f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"


@claim.summary
def measured(results: Results) -> str:
    """The sums without chunks and the errors with some, medians over the seeds."""
    some = ", ".join(f"{100 * np.median(_errors(results, [c])):.2g} % at {c}" for c in (16, 32, 64, 256))
    return f"the sum stops at {_range(_sums(results, f'sum_{COUNT}'))} without chunks; median error {some}"


claim.draw(
    "error of the sum, %",
    lambda results: {f"chunks of {chunk}": 100 * _errors(results, [chunk]) for chunk in (1, 16, 32, 64, 256)},
    axis=(0, 100),
)

claim.compared(
    theirs_on="sums of random numbers",
    ours_on="sums of random numbers",
    rows=(
        {
            "chunks of 1": "no chunks",
            "chunks of 16": "chunks of 16",
            "chunks of 32": "chunks of 32",
            "chunks of 256": "chunks of 256",
        },
    ),
)
claim.found(
    stops_without_chunks,
    holds="without chunks the sum stops at 4,096",
    fails="without chunks the sum does not stop at 4,096",
)
claim.found(holds_from_32, holds="chunks of 32 to 256 follow it", fails="chunks of 32 to 256 do not all follow it")
claim.found(stochastic_follows, holds="so does stochastic rounding", fails="stochastic rounding does not follow it")

WANG_2018 = claim.build()
