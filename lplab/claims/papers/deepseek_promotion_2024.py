"""DeepSeek-V3 2024: FP8 products of long sums need a float32 total, to which partial sums of 128 are added.

The tensor cores of Hopper keep about 14 bits while they add. Two readings are measured: every product is added by
itself, as the recipe of the library does it, or 32 products at a time, as one instruction of the chip adds them. The
criteria were written before the measurement.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np

from lplab import arithmetic, formats
from lplab.arithmetic import Accumulator
from lplab.claims.bibliography import cite
from lplab.claims.framework.branches import surely_above
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.models import branch_transformer
from lplab.claims.framework.operands import operands
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words
from lplab.training.recipe.recipe import FOURTEEN_BITS, PROMOTED

ROUNDING = PROMOTED.rounding
ROWS = 32  # rows and columns of the results
RANDOM, POSITIVE, TRAINED = "random numbers", "random numbers, one sign", "weight gradient"
BY_ONE, BY_32 = 1, 32  # products that are added at once
LENGTHS = (512, 4096)
INTERVALS = (32, 64, 128, 256, 512, 1024)  # products between two additions to the float32 total
NEVER = 0  # the interval where nothing is promoted
BEFORE, BATCHES, LAYER = 500, 8, "blocks.0.mlp.up"  # where the weight gradient comes from: 8 × 512 tokens
GAIN = 4.0  # times: what counts as much better

POINTS: tuple[Point, ...] = tuple(
    {"matrices": matrices, "length": length, "at_once": at_once, "interval": interval}
    for matrices in (RANDOM, POSITIVE, TRAINED)
    for length in (LENGTHS if matrices == RANDOM else LENGTHS[-1:])
    for at_once in (BY_ONE, BY_32)
    for interval in ((NEVER, *INTERVALS) if length == LENGTHS[-1] else (NEVER, 128))
)

claim = ClaimBuilder(
    id="deepseek_promotion_2024",
    title="FP8 sums of 4,096 products need a float32 total, every 128 of them",
    paper=cite("deepseek_2024"),
    where="section on the precision of sums (3.3.2)",
    statement="The tensor cores keep about 14 bits when they add FP8 products. For sums of 4,096 the largest relative "
    "error is nearly 2 %. Adding partial sums to a float32 total every 128 products makes sums precise; 128 is the "
    "shortest interval that does so without much overhead.",
    published="about 14 bits; nearly 2 % at most for random matrices with sums of 4,096 (second-hand); an interval of "
    "128 (recalled, not checked)",
    experiment=f"Products of {ROWS} × 4,096 by 4,096 × {ROWS} numbers in E4M3: random ones, random ones of one sign, "
    f"and a weight gradient of a character Transformer after {BEFORE} steps, a sum over 4,096 tokens. Sums are "
    "truncated to 14 bits after every product or every 32, and go to a float32 total after each interval, or never. "
    "The error is that of the sums alone: against exact sums of the same FP8 numbers.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=15,
    limits="What the chip does within an instruction is not published: truncation of a running sum is our reading. "
    "Whether a training would notice is not measured here.",
)


@cache
def pair(matrices: str, length: int, seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Both operands in E4M3, the axis of the sum last in the first and first in the second: [32, n], [n, 32], float32.

    Each operand is scaled as a whole so that its largest number is 448.

    Returns:
        The operands, and the error that rounding them to E4M3 makes in the product, relative to it.
    """
    rng = np.random.default_rng(seed)
    if matrices == TRAINED:
        layer = operands(branch_transformer(), seed, BEFORE, BATCHES)[LAYER]
        a, b = layer.gradient.T[:ROWS, :length], layer.activation[:length, :ROWS]
    else:
        a, b = rng.standard_normal((ROWS, length)), rng.standard_normal((length, ROWS))
    if matrices == POSITIVE:
        a, b = np.abs(a), np.abs(b)
    e4m3 = formats.get("e4m3fn")
    scaled = [np.ascontiguousarray(x / np.abs(x).max() * e4m3.max, dtype=np.float32) for x in (a, b)]
    left, right = (e4m3.quantize(x) for x in scaled)
    exact = scaled[0].astype(np.float64) @ scaled[1]
    product = left.astype(np.float64) @ right
    return left, right, float(np.linalg.norm(product - exact) / np.linalg.norm(exact))


def summed(a: np.ndarray, b: np.ndarray, at_once: int, interval: int) -> np.ndarray:
    """a · b whose sums are truncated to 14 bits, and go to a float32 total after each interval.

    Args:
        a, b: float32 [rows, n] and [n, columns].
        at_once: products that are added before the sum is truncated; 32 of them are added exactly enough in float32.
        interval: products after which the sum goes to the total; 0 for never. A multiple of ``at_once``.

    >>> ones = np.ones((1, 40000), np.float32)
    >>> float(summed(ones, ones.T, 1, 0)[0, 0]), float(summed(ones, ones.T, 1, 128)[0, 0])
    (16384.0, 40000.0)
    """
    length = a.shape[1]
    step = interval or length
    if at_once == 1:
        accumulator = Accumulator(FOURTEEN_BITS, rounding=ROUNDING)
    else:
        accumulator = Accumulator("fp32", chunk=at_once, outer=FOURTEEN_BITS, rounding=ROUNDING)
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for start in range(0, length, step):
        part = np.ascontiguousarray(a[:, start : start + step]), np.ascontiguousarray(b[start : start + step])
        total += arithmetic.matmul(*part, accumulator).astype(np.float32)
    return total


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """The errors of the sums: all together, and the largest; and the error of rounding the operands.

    Returns:
        ``error``: the norm of all errors over that of all results. ``largest``: the largest error over the root mean
        square of the results. ``operands``: as ``error``, of rounding to E4M3 alone.
    """
    a, b, rounding = pair(point["matrices"], point["length"], seed)
    exact = a.astype(np.float64) @ b
    wrong = summed(a, b, point["at_once"], point["interval"]) - exact
    typical = float(np.sqrt(np.mean(exact**2)))
    return {
        "error": round(float(np.linalg.norm(wrong) / np.linalg.norm(exact)), 9),
        "largest": round(float(np.abs(wrong).max()) / typical, 9),
        "operands": round(rounding, 9),
    }


def _of(
    results: Results, interval: int, at_once: int, matrices: str = RANDOM, length: int = 4096, number: str = "error"
) -> np.ndarray:
    return results.values(number, matrices=matrices, length=length, at_once=at_once, interval=interval)


def _percent(values: np.ndarray) -> str:
    return f"{100 * np.median(values):.2g} %"


WAYS = {"every product truncated": BY_ONE, "every 32": BY_32}


def _largest(results: Results) -> dict[str, str]:
    """The largest error of random sums without a float32 total, as text, by what is truncated."""
    return {way: _percent(_of(results, NEVER, at_once, number="largest")) for way, at_once in WAYS.items()}


@claim.criterion("Sums of 4,096 have errors of a per cent and more")
def long_sums_are_wrong(results: Results) -> CheckResult:
    """The largest error of random sums of 4,096 without a float32 total is at least 1 % in one of the readings.

    The paper has nearly 2 %.
    """
    largest = {way: _of(results, NEVER, at_once, number="largest") for way, at_once in WAYS.items()}
    text = join_words([f"{percent} ({way})" for way, percent in _largest(results).items()])
    return CheckResult(
        any(surely_above(values, 0.01) for values in largest.values()),
        f"The largest error of a sum of 4,096 products of random numbers, 14 bits and no promotion: {text}. The paper "
        "has nearly 2 %.",
    )


@claim.criterion("Promotion every 128 makes them at least four times as precise")
def promotion_helps(results: Results) -> CheckResult:
    """On all three kinds of numbers, in both readings, and on every seed."""
    gains = {
        matrices: [_of(results, NEVER, way, matrices) / _of(results, 128, way, matrices) for way in WAYS.values()]
        for matrices in (RANDOM, POSITIVE, TRAINED)
    }
    text = join_words(
        [f"{numbers} {each[0].min():.0f} and {each[1].min():.0f} times" for numbers, each in gains.items()]
    )
    return CheckResult(
        all(bool((gain > GAIN).all()) for each in gains.values() for gain in each),
        f"With a float32 total every 128 products errors of sums of 4,096 are smaller by at least, in both readings: "
        f"{text}.",
    )


@claim.criterion("At 128 the sums are more precise than their operands")
def below_the_operands(results: Results) -> CheckResult:
    """With promotion every 128 the error of sums is below a tenth of what rounding to FP8 costs; on every seed.

    So a shorter interval would bring little, as the paper says of 128.
    """
    shares = [
        _of(results, 128, way, numbers) / _of(results, 128, way, numbers, number="operands")
        for way in WAYS.values()
        for numbers in (RANDOM, TRAINED)
    ]
    worst = max(float(share.max()) for share in shares)
    return CheckResult(
        worst < 0.1,
        f"Promoted every 128, sums of 4,096 add at most {100 * worst:.1f} % of the error that rounding the operands to "
        "E4M3 makes anyway.",
    )


@claim.explanation("The error grows with the length, and promotion stops it")
def error_grows(results: Results) -> CheckResult:
    """Eight times as long: without promotion at least four times the error, with it less than twice."""
    short, long = ({i: float(np.median(_of(results, i, BY_ONE, length=n))) for i in (NEVER, 128)} for n in LENGTHS)
    return CheckResult(
        long[NEVER] > 4 * short[NEVER] and long[128] < 2 * short[128],
        f"From sums of {LENGTHS[0]} to sums of 4,096 the error goes from {100 * short[NEVER]:.2g} to "
        f"{100 * long[NEVER]:.2g} % without promotion, from {100 * short[128]:.2g} to {100 * long[128]:.2g} % with it.",
    )


@claim.explanation("Shorter intervals are more precise still")
def shorter_is_finer(results: Results) -> CheckResult:
    """The error falls with the interval all the way: 128 is a price, not a valley as with Wang's 16-bit totals."""
    errors = [float(np.median(_of(results, interval, BY_ONE))) for interval in INTERVALS]
    text = join_words([f"{100 * e:.2g} % at {i}" for i, e in zip(INTERVALS, errors, strict=True)])
    return CheckResult(
        all(a < b for a, b in pairwise(errors)),
        f"Error of random sums by the interval: {text}. The total is float32, so there is no valley as with chunks "
        "whose total is rounded (wang_2018_chunks).",
    )


@claim.explanation("Sums of one sign are worst")
def one_sign_is_worst(results: Results) -> CheckResult:
    """Truncation always loses in the same direction: where all products are positive it adds up."""
    signed, positive = (float(np.median(_of(results, NEVER, BY_ONE, numbers))) for numbers in (RANDOM, POSITIVE))
    return CheckResult(
        positive > signed,
        f"Without promotion, every product truncated: {100 * signed:.2g} % with both signs, {100 * positive:.2g} % "
        "with one.",
    )


@claim.explanation("In a weight gradient the sums lose more than FP8 operands do, for one of the two ways")
def gradients_notice(results: Results) -> CheckResult:
    """Without promotion, whether the error of the sums is above that of rounding the operands to FP8."""
    shares = {
        way: _of(results, NEVER, at_once, TRAINED) / _of(results, NEVER, at_once, TRAINED, number="operands")
        for way, at_once in WAYS.items()
    }
    text = join_words([f"{100 * float(np.median(share)):.0f} % of it ({way})" for way, share in shares.items()])
    return CheckResult(
        max(float(np.median(share)) for share in shares.values()) > 1,
        f"The weight gradient without promotion: the error of the sums, against that of rounding to E4M3: {text}.",
    )


@claim.summary
def measured(results: Results) -> str:
    """Largest errors of random sums; errors of these and of the weight gradient, without and with promotion."""
    largest = join_words([f"{_percent(_of(results, NEVER, w, number='largest'))} ({way})" for way, w in WAYS.items()])
    parts = []
    for numbers in (RANDOM, TRAINED):
        pairs = {way: [_percent(_of(results, i, w, numbers)) for i in (NEVER, 128)] for way, w in WAYS.items()}
        parts.append(f"{numbers}: {join_words([f'{a} to {b} ({way})' for way, (a, b) in pairs.items()])}")
    means = f"all errors, without and with promotion every 128: {'; '.join(parts)}"
    return f"largest error of sums of 4,096: {largest}; {means}"


claim.draw(
    "error of sums of 4,096 random products, %",
    lambda results: {
        f"{'never' if i == NEVER else f'every {i:,}'}, {'one' if way == BY_ONE else '32'} at once": 100
        * _of(results, i, way)
        for way in WAYS.values()
        for i in (NEVER, 1024, 128, 32)
    },
    log=True,
)

claim.compared(
    theirs_on="random matrices",
    ours_on="random matrices; a gradient of a small Transformer",
    rows=(
        {
            "never, one at once": "no float32 total, every product truncated",
            "every 128, one at once": "the same, float32 total every 128",
            "never, 32 at once": "no float32 total, every 32 truncated",
            "every 128, 32 at once": "the same, float32 total every 128",
        },
    ),
)
claim.found(
    long_sums_are_wrong,
    holds=lambda results: f"largest error of sums {' or '.join(_largest(results).values())}, by what is truncated",
    fails="largest error of sums below one per cent",
)
claim.found(
    promotion_helps,
    below_the_operands,
    holds="a float32 total every 128 brings it below that of FP8",
    fails="a float32 total every 128 does not bring it below that of FP8",
)
claim.leaves_out("no training was run")

DEEPSEEK_PROMOTION_2024 = claim.build()
