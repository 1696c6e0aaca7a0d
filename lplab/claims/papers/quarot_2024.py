"""Ashkboos et al. 2024: with weights and activations of 4 bits a rotation does what smoothing cannot.

QuaRot and SpinQuant report rounding to nearest, SmoothQuant and rotations at 4 bits for weights and activations:
smoothed models are useless, rotated ones lose little. From this the criteria were written, before the first
measurement.
"""

from __future__ import annotations

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.branches import above, paired_result, paired_text
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.drawing import MEAN
from lplab.claims.framework.few_bits_models import (
    OUTLIER,
    SEEDS,
    losses_by,
    rise,
)
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results

NAIVE, SMOOTH, ROTATED = "as it is", "smoothed", "rotated"
RULES = {
    NAIVE: "w4a4:group=32",
    SMOOTH: "w4a4_smoothquant:group=32,kind=asymmetric",
    ROTATED: "w4a4_hadamard:group=32,size=64",
}
"""The rule behind each way."""
POINTS: tuple[Point, ...] = tuple({"way": way, "outliers": outliers} for outliers in (True, False) for way in RULES)

claim = ClaimBuilder(
    id="quarot_2024",
    title="With 4 bits for weights and activations rotating costs less than smoothing, smoothing less than no repair",
    paper=cite("quarot_2024"),
    where="abstract; table of SpinQuant's repository",
    statement="With weights and activations of 4 bits a language model whose activations were rotated before rounding "
    "loses little, one that was smoothed loses much more, as does one that was left as it is.",
    published="all in 4 bits, perplexity (2 to the power of the bits a token) 5.5 in 16: rounding to nearest 2,000, "
    "SmoothQuant 600, QuaRot 6.4 (read in SpinQuant's repository)",
    experiment=f"The Llama of llm_int8_2022 with an outlier channel of {OUTLIER} times planted behind each norm. "
    "Weights (groups of 32 neighbours share a scale and a zero, the integer that stands for 0) and inputs (a scale for "
    "each token) of all linear layers but the last are rounded to 4 bits: as they are, smoothed with α = 0.5, or after "
    "a Hadamard transform of each 64 neighbours. Compared seed by seed: the loss of 32,768 test characters, in bits a "
    "character, above that of float32.",
    points=POINTS,
    seeds=SEEDS,
    budget_seconds=30,
    limits="The transform runs before every layer, where QuaRot merges most of it into the weights. Keys and values "
    "stay in float32. An outlier channel spreads over 64 channels here, over 4,096 there. The last two explanations "
    "were added after the measurement.",
)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """The loss (bits) in float32 and rounded."""
    return losses_by(RULES, point, seed)


def _rise(results: Results, way: str, outliers: bool = True) -> np.ndarray:
    """What a way costs, bits above float32, seed by seed."""
    return rise(results, way=way, outliers=outliers)


def _against(results: Results, worse: str, better: str, outliers: bool = True) -> CheckResult:
    """Whether one way costs surely more than another."""
    gap = _rise(results, worse, outliers) - _rise(results, better, outliers)
    rises = (f"{way} {paired_text(_rise(results, way, outliers))}" for way in (worse, better))
    return paired_result(f"Bits above float32: {'; '.join(rises)}.", above(gap))


@claim.criterion("Rotating costs less than smoothing")
def rotation_beats_smoothing(results: Results) -> CheckResult:
    """With outliers the rise of the loss with a Hadamard transform is surely below that with smoothing."""
    return _against(results, SMOOTH, ROTATED)


@claim.criterion("Smoothing costs less than leaving activations as they are")
def smoothing_beats_nothing(results: Results) -> CheckResult:
    """With outliers the rise of the loss with smoothing is surely below that without any repair."""
    return _against(results, NAIVE, SMOOTH)


@claim.explanation("Without outliers rotating helps, too")
def rotation_helps_without_outliers(results: Results) -> CheckResult:
    """In the network as it was trained the rise with a Hadamard transform is surely below that without."""
    return _against(results, NAIVE, ROTATED, outliers=False)


@claim.explanation("Without outliers rotating costs less than smoothing")
def rotation_beats_smoothing_without_outliers(results: Results) -> CheckResult:
    """In the network as it was trained the rise with a Hadamard transform is surely below that with smoothing."""
    return _against(results, SMOOTH, ROTATED, outliers=False)


@claim.explanation("Smoothing undoes what was planted")
def smoothing_undoes_outliers(results: Results) -> CheckResult:
    """The loss with smoothing is the same with and without planted outliers, within a thousandth of a bit."""
    planted, plain = (_rise(results, SMOOTH, outliers) for outliers in (True, False))
    return CheckResult(
        bool((abs(planted - plain) < 1e-3).all()),
        f"Smoothed: {paired_text(planted)} bits with and {paired_text(plain)} without outliers.",
    )


@claim.summary
def measured(results: Results) -> str:
    """The rises of all ways, mean and range over the seeds."""
    return "; ".join(
        f"{'with' if outliers else 'without'} outliers: "
        + ", ".join(f"{way} {paired_text(_rise(results, way, outliers))}" for way in RULES)
        for outliers in (True, False)
    ) + (" bits a character above float32")


claim.draw(
    "loss above float32 with outliers, bits a character",
    lambda results: {way: _rise(results, way) for way in RULES},
    statistic=MEAN,
    differences=True,
)

claim.compared(theirs_on="Llama-2-7B, WikiText-2", ours_on="characters, a Llama of 116 thousand parameters")
claim.found(
    rotation_beats_smoothing,
    holds="rotating costs less than smoothing",
    fails="rotating costs more than smoothing",
)
claim.found(
    rotation_beats_smoothing_without_outliers,
    holds="without outliers rotating is better",
    fails="without outliers rotating is not surely better",
)
claim.found(
    smoothing_beats_nothing,
    holds="smoothing costs less than no repair",
    fails="smoothing does not surely cost less than no repair",
)
claim.leaves_out("outliers were planted")

QUAROT_2024 = claim.build()
