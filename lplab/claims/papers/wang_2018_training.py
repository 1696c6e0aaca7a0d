"""Wang et al. 2018: the weight gradient of an FP8 training whose sums, in 1-6-9, have no chunks, or chunks of 64.

A short training cannot tell: from one small batch to the next a gradient changes by more than its sums change it. So
the gradient itself is measured, at the same weights and on the same batches, with sums of more than a hundred thousand
terms.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from lplab import arithmetic
from lplab.arithmetic import Accumulator
from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import median_and_range
from lplab.claims.papers.wang_2018_chunks import captured, in_fp8

POSITIONS = 16 * 16  # of a picture: each is a term of the sum
LONG, SHORT = 512, 64  # pictures a batch
BATCHES = 4
NONE, CHUNKED, LONGER, FLOAT = SUMS = ("chunk 1", "chunk 64", "chunk 256", "float32")

POINTS: tuple[Point, ...] = tuple({"sums": sums, "pictures": count} for count in (LONG, SHORT) for sums in SUMS)

claim = ClaimBuilder(
    id="wang_2018_training",
    version=2,
    title="FP8 training, with sums in 16 bits, needs chunks",
    paper=cite("wang_2018"),
    where="abstract; figures of the training curves (second-hand)",
    statement="With sums in 16 bits (1-6-9) FP8 training loses accuracy or fails if the sums have no chunks; with "
    "chunks of 64 it ends where float32 does.",
    published="chunk-based accumulation makes 16-bit sums possible without loss of accuracy (abstract, read); without "
    "it the training fails (recalled, not checked)",
    experiment="The weight gradient of the first 3 × 3 convolution of a residual net on cluttered digits, at the same "
    f"weights, over {BATCHES} batches of {LONG} pictures: sums of {LONG * POSITIONS:,} products of FP8 operands, every "
    "addition rounded. Its distance from exact sums is compared with what rounding the operands to FP8 does, which the "
    "paper finds harmless.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=25,
    limits="One layer of a small net, and its gradients, not its training. Our bound is half of the error of FP8 "
    "operands, which a training bears, as the paper found.",
)


def accumulator(sums: str) -> Accumulator:
    """How sums are carried out: each addition in float32, or rounded to 1-6-9, with chunks or without.

    >>> accumulator("chunk 64").chunk, accumulator("float32").chunk
    (64, None)
    """
    if sums == FLOAT:
        return Accumulator("fp32")
    return Accumulator("dlfloat16", chunk=int(sums.removeprefix("chunk ")), rounding="nearest_away")


@cache
def _gradients(seed: int, pictures: int) -> tuple[list[dict[str, np.ndarray]], np.ndarray, np.ndarray]:
    """FP8 operands of each batch, and exact gradients of the operands in float32 and in FP8: float64 [batches, ...]."""
    batches = [captured(seed, pictures, batch) for batch in range(BATCHES)]
    rounded = [in_fp8(parts) for parts in batches]
    plain, fp8 = (
        np.stack([parts["dy"].T.astype(np.float64) @ parts["x"].astype(np.float64) for parts in each])
        for each in (batches, rounded)
    )
    return rounded, plain, fp8


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """What rounded sums do to the gradient g, the exact sums of FP8 operands; means over the batches.

    Returns:
        ``error``: ‖ĝ − g‖ / ‖g‖. ``slope``: ⟨ĝ, g⟩ / ⟨g, g⟩, 1 without a bias along the gradient. ``steady``: the error
        of the mean over all batches, relative to that mean: what more batches do not average away. ``operands``: the
        error of g itself against operands in float32. ``sampling``: the distance of the gradients of two batches.
        ``terms`` of each sum.
    """
    rounded, plain, exact = _gradients(seed, point["pictures"])
    how = accumulator(point["sums"])
    sums = np.stack([
        arithmetic.matmul(np.ascontiguousarray(parts["dy"].T), parts["x"], how).astype(np.float64) for parts in rounded
    ])  # fmt: skip
    slopes = [float((ours * g).sum() / (g * g).sum()) for ours, g in zip(sums, exact, strict=True)]
    numbers = {
        "error": _mean_error(sums, exact),
        "slope": float(np.mean(slopes)),
        "steady": _relative(sums.mean(axis=0), exact.mean(axis=0)),
        "operands": _mean_error(exact, plain),
        "sampling": _mean_error(np.roll(exact, 1, axis=0), exact),
        "terms": float(len(rounded[0]["x"])),
    }
    return {name: round(value, 6) for name, value in numbers.items()}


def _mean_error(values: np.ndarray, references: np.ndarray) -> float:
    return float(np.mean([_relative(one, reference) for one, reference in zip(values, references, strict=True)]))


def _relative(values: np.ndarray, reference: np.ndarray) -> float:
    return float(np.linalg.norm(values - reference) / np.linalg.norm(reference))


def _of(results: Results, sums: str, number: str, pictures: int = LONG) -> np.ndarray:
    return results.values(number, sums=sums, pictures=pictures)


def _adds_half(results: Results) -> np.ndarray:
    """On which seeds sums in chunks of 64 add half of the operands' error or more."""
    error, operands = (_of(results, CHUNKED, number) for number in ("error", "operands"))
    return np.asarray(error >= operands / 2)


def _seeds_with_half(results: Results) -> str:
    add = _adds_half(results)
    return f"{add.sum()} of {len(add)} seeds"


@claim.criterion("With chunks of 64 the sums add less error than half of the operands'")
def chunks_are_harmless(results: Results) -> CheckResult:
    """On every seed the error of sums in chunks is less than half of what FP8 operands cost, and the slope 1 to 1 %."""
    error, operands, slope = (_of(results, CHUNKED, number) for number in ("error", "operands", "slope"))
    return CheckResult(
        bool(not _adds_half(results).any() and (np.abs(slope - 1) < 0.01).all()),
        f"With chunks of 64 sums change the gradient by {median_and_range(100 * error, 1)} %, FP8 operands by "
        f"{median_and_range(100 * operands, 1)} %, and sums by more than half of that on "
        f"{_seeds_with_half(results)}; the slope along the exact gradient is {median_and_range(slope, 3)}.",
    )


@claim.criterion("Without chunks the sums do more than the operands")
def unchunked_error_exceeds_operand_error(results: Results) -> CheckResult:
    """On every seed the error of sums without chunks is larger than what FP8 operands cost."""
    error, operands = (_of(results, NONE, number) for number in ("error", "operands"))
    return CheckResult(
        bool((error > operands).all()),
        f"Without chunks sums of {LONG * POSITIONS:,} terms change the gradient by {median_and_range(100 * error, 1)} "
        f"%, FP8 operands by {median_and_range(100 * operands, 1)} %.",
    )


@claim.explanation("Without chunks the gradient is biased: it becomes too long")
def no_chunks_lengthen(results: Results) -> CheckResult:
    """On every seed the gradient without chunks is longer along the exact one, by five times what chunks leave.

    A sum of both signs that has gone far stays there: what would bring it back is too small for its register.
    """
    none, chunked = (_of(results, sums, "slope") for sums in (NONE, CHUNKED))
    return CheckResult(
        bool((none - 1 > 5 * np.abs(1 - chunked)).all()),
        f"The slope ⟨ĝ, g⟩ / ⟨g, g⟩ without chunks: {median_and_range(none, 3)}; with chunks of 64: "
        f"{median_and_range(chunked, 3)}. We had expected less than 1. Our guess is that a sum that went far away does "
        "not come back, as what would bring it back is too small for its register.",
    )


@claim.explanation("Longer chunks are no way out")
def longer_chunks_are_worse(results: Results) -> CheckResult:
    """Chunks of 256, which the paper names, too, have more error than those of 64, on every seed."""
    short, long, operands = (
        _of(results, *which) for which in ((CHUNKED, "error"), (LONGER, "error"), (CHUNKED, "operands"))
    )
    return CheckResult(
        bool((long > short).all()),
        f"Chunks of 256: {median_and_range(100 * long, 1)} %, of 64: {median_and_range(100 * short, 1)} %. "
        f"Half of what FP8 operands cost is {median_and_range(50 * operands, 1)} %.",
    )


@claim.explanation("The length of the sums does it")
def length_does_it(results: Results) -> CheckResult:
    """An eighth of the terms, at the same weights: less than half of the error without chunks."""
    long, short = (_of(results, NONE, "error", count) for count in (LONG, SHORT))
    return CheckResult(
        bool((short < long / 2).all()),
        f"Without chunks {SHORT * POSITIONS:,} terms have an error of {median_and_range(100 * short, 1)} %, "
        f"{LONG * POSITIONS:,} one of {median_and_range(100 * long, 1)} %.",
    )


@claim.explanation("More batches do not average it away")
def batches_do_not_help(results: Results) -> CheckResult:
    """The mean over batches keeps more than half of the error, where independent errors of its size would be halved."""
    once, steady = (_of(results, NONE, number) for number in ("error", "steady"))
    return CheckResult(
        bool((steady > once / 2).all()),
        f"Without chunks the mean over {BATCHES} batches is {median_and_range(100 * steady, 1)} % off, a single one "
        f"{median_and_range(100 * once, 1)} %: independent errors would be halved.",
    )


@claim.explanation("With small batches the noise between them hides it")
def less_than_sampling(results: Results) -> CheckResult:
    """Why short trainings with small batches do not show it: the gradient of another batch lies further away."""
    error, sampling = (_of(results, NONE, number, SHORT) for number in ("error", "sampling"))
    large = [100 * float(np.median(_of(results, NONE, number))) for number in ("sampling", "error")]
    return CheckResult(
        bool((error < sampling).all()),
        f"From one batch of {SHORT} pictures to the next the gradient changes by {median_and_range(100 * sampling, 0)} "
        f"%, its sums without chunks change it by {median_and_range(100 * error, 0)} %; with batches of {LONG} it is "
        f"{large[0]:.0f} and {large[1]:.0f} %.",
    )


@claim.summary
def measured(results: Results) -> str:
    """Error and slope of the weight gradient."""
    parts = [
        f"{sums}: median error {median_and_range(100 * _of(results, sums, 'error'), 1)} %, slope "
        f"{median_and_range(_of(results, sums, 'slope'), 3)}"
        for sums in (NONE, CHUNKED)
    ]
    return f"{'; '.join(parts)}; FP8 operands {median_and_range(100 * _of(results, NONE, 'operands'), 1)} %"


claim.draw(
    "error of the weight gradient, %",
    lambda results: {
        "sums without chunks": 100 * _of(results, NONE, "error"),
        "sums with chunks of 64": 100 * _of(results, CHUNKED, "error"),
        "FP8 operands, exact sums": 100 * _of(results, NONE, "operands"),
    },
)

claim.compared(
    theirs_on="trainings in FP8",
    ours_on="cluttered digits, one convolution of a residual net",
)
claim.found(
    unchunked_error_exceeds_operand_error,
    holds="sums without chunks err more than FP8 operands",
    fails="sums without chunks err no more than FP8 operands",
)
claim.found(
    chunks_are_harmless,
    holds="with chunks of 64 they add less than half of that",
    fails=lambda results: f"on {_seeds_with_half(results)}, chunks of 64 add more than half of the operands' error",
)
claim.leaves_out("one gradient, no training was run")

WANG_2018_TRAINING = claim.build()
