"""Dettmers et al. 2022, Xiao et al. 2023: outlier channels break 8 bits, and two repairs bring them back.

LLM.int8() multiplies the few channels with values above 6 in 16 bits; SmoothQuant moves the outliers into the weights.
Both abstracts say that accuracy is kept where 8 bits alone lose it. From this the criteria were written, before the
first measurement.
"""

from __future__ import annotations

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.branches import above, paired_result, paired_text, within
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.drawing import MEAN
from lplab.claims.framework.few_bits_models import (
    OUTLIER,
    SEEDS,
    losses_by,
    rise,
)
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results

NAIVE, SPLIT, SMOOTH = "one scale", "channels above 6 apart", "smoothed"
RULES = {
    NAIVE: "w8a8:per=tensor,group=row,kind=symmetric",
    SPLIT: "w8a8_llmint8:per=tensor",
    SMOOTH: "w8a8_smoothquant:per=tensor",
}
"""The rule behind each way."""
POINTS: tuple[Point, ...] = tuple({"way": way, "outliers": outliers} for outliers in (True, False) for way in RULES)
BOUND = 0.01  # of float32's loss: what 8 bits alone must cost before there is something to repair

claim = ClaimBuilder(
    id="llm_int8_2022",
    title="Outlier channels break 8 bits; multiplied apart, or smoothed away, they do little harm",
    paper=cite("llm_int8_2022", "smoothquant_2023"),
    where="abstracts; figures of outlier features",
    statement="A few channels of activations with values up to 20 times as large as the others break 8-bit inference "
    "of large language models. Accuracy stays if the channels that hold a value above a threshold of 6.0 are "
    "multiplied in 16 bits, or if their size is moved into the weights.",
    published="outliers in some half a dozen channels, up to 20 times the others (second-hand); SmoothQuant, scales "
    "for each token: Llama-2-7B 5.474 to 5.515 in perplexity, which is 2 to the power of the bits a token (read in the "
    "repository)",
    experiment=f"A Llama of two blocks, trained on characters in float32 for 1,250 steps. Small networks have no "
    f"outlier channels, so one is planted behind each norm: its weight there is {OUTLIER} times as large, the weights "
    "that read it are as much smaller, and the network computes the same. Weights (a scale for each row) and inputs "
    "(one scale for a tensor) of all linear layers but the last are rounded to 8 bits: as they are, with the channels "
    "that hold a value above the threshold 6 multiplied apart, or smoothed. Compared seed by seed: the loss of 32,768 "
    "test characters, in bits a character, above that of float32.",
    points=POINTS,
    seeds=SEEDS,
    budget_seconds=60,
    limits="Smoothing undoes exactly what was planted. Every linear layer is smoothed, the published code smooths "
    "those behind norms.",
)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """The loss (bits) in float32 and rounded."""
    return losses_by(RULES, point, seed)


def _rise(results: Results, way: str, outliers: bool = True) -> np.ndarray:
    """What a way costs, bits above float32, seed by seed."""
    return rise(results, way=way, outliers=outliers)


def _bound(results: Results) -> float:
    return BOUND * float(results.values("float", way=NAIVE, outliers=True).mean())


@claim.criterion("With outliers 8 bits cost more than 1 % of the loss")
def outliers_break_eight_bits(results: Results) -> CheckResult:
    """With planted outliers and one scale for a tensor the loss rises surely by more than 1 % of float32's."""
    rise, bound = _rise(results, NAIVE), _bound(results)
    return paired_result(f"One scale for a tensor: {paired_text(rise)} bits; 1 % is {bound:.3f}.", above(rise, bound))


@claim.criterion("Each repair leaves less than half of it")
def repairs_leave_less_than_half(results: Results) -> CheckResult:
    """The rise with split channels and that with smoothed ones are surely less than half of the rise without."""
    naive, rises = _rise(results, NAIVE), {way: _rise(results, way) for way in (SPLIT, SMOOTH)}
    text = "; ".join(f"{way}: {paired_text(rise)} bits" for way, rise in rises.items())
    return paired_result(
        f"{NAIVE.capitalize()}: {paired_text(naive)} bits; {text}.",
        *(above(naive / 2 - rise) for rise in rises.values()),
    )


@claim.explanation("Without outliers 8 bits cost less than 1 %")
def nothing_to_repair_without(results: Results) -> CheckResult:
    """In the network as it was trained the loss rises surely by less than 1 % of float32's, with one scale."""
    rise, bound = _rise(results, NAIVE, outliers=False), _bound(results)
    return paired_result(f"Without outliers: {paired_text(rise)} bits; 1 % is {bound:.3f}.", within(rise, bound))


@claim.explanation("Channels multiplied apart cost less than smoothed ones")
def split_costs_less(results: Results) -> CheckResult:
    """The rise with split channels is surely below that with smoothed ones."""
    gap = _rise(results, SMOOTH) - _rise(results, SPLIT)
    return paired_result(f"Smoothed against apart: {paired_text(gap)} bits.", above(gap))


@claim.summary
def measured(results: Results) -> str:
    """The rises of all ways, mean and range over the seeds."""
    each = "; ".join(f"{way} {paired_text(_rise(results, way))}" for way in RULES)
    return f"bits a character above float32, with outliers: {each}; without: {NAIVE} " + paired_text(
        _rise(results, NAIVE, outliers=False)
    )


claim.draw(
    "loss above float32 with outliers, bits a character",
    lambda results: {way: _rise(results, way) for way in RULES},
    statistic=MEAN,
    differences=True,
)

claim.compared(
    theirs_on="language models of 6.7 billion parameters and more", ours_on="characters, a Llama of 116 thousand"
)
claim.found(
    outliers_break_eight_bits,
    holds="outliers make 8 bits cost more than 1 %",
    fails="outliers do not make 8 bits surely cost more than 1 %",
)
claim.found(
    repairs_leave_less_than_half,
    holds="each repair leaves less than half",
    fails="not each repair surely leaves less than half",
)
claim.leaves_out("outliers were planted")

LLM_INT8_2022 = claim.build()
