"""Liu et al. 2025: below 3 bits a model must be trained again, above it rounding well is nearly enough.

The abstract sees a transition between 2 and 3 bits: above it training compensates near the old weights, below it the
model learns new ones. From this, and from EfficientQAT's tables, the criteria were written, before the first
measurement.
"""

from __future__ import annotations

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.branches import above, branch, paired_result, paired_text, within
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.drawing import MEAN
from lplab.claims.framework.few_bits_models import PLAN, SEEDS, held_out_loss, rounded_loss, trained
from lplab.claims.framework.models import branch_llama
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results

BITS, GROUP = (4, 2), 32
POINTS: tuple[Point, ...] = tuple({"bits": bits} for bits in BITS)
MOST = 0.5  # of what GPTQ costs at 2 bits: training leaves less
LITTLE = 0.1  # of what training saves at 2 bits: at 4 it saves less

claim = ClaimBuilder(
    id="paretoq_2025",
    title="At 2 bits training again recovers most of what rounding loses, at 4 there is little to recover",
    paper=cite("paretoq_2025"),
    where="abstract; the authors' repository",
    statement="Between 2 and 3 bits there is a transition: above it training with rounded weights compensates for "
    "little, below it the model learns anew, and training is needed.",
    published="perplexity (2 to the power of the bits a token) 15.1 in 16 bits: trained with 4 bits 14.1, 3 bits 15.0, "
    "2 bits 18.2 (read in the repository)",
    experiment="The Llama of gptq_2023. After 1,000 steps in float32 it goes on for 250 steps with the same batches, "
    "its learning rate falling to zero: in float32, and then rounded by GPTQ; or with weights of all linear layers but "
    "the last rounded to nearest in each step. Both have 4 or 2 bits, and groups of 32 neighbours share a scale and a "
    "zero, the integer that stands for 0. "
    "Compared seed by seed: the loss of 32,768 test characters above that of float32.",
    points=POINTS,
    seeds=SEEDS,
    budget_seconds=175,
    limits="A fifth of a short training has rounded weights. Scales follow the weights, where ParetoQ trains them.",
)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Losses (bits) in float32, by GPTQ, trained with rounded weights; at 2 bits on other levels, too."""
    bits, model = point["bits"], trained(seed)
    kinds = {"trained": "asymmetric"} | ({"no_zero": "no_zero", "zero": "full_range"} if bits == 2 else {})
    return {
        "float": held_out_loss(model),
        "gptq": rounded_loss(model, f"w{bits}a16_gptq:group={GROUP}", seed),
        **{name: _trained_loss(bits, kind, seed) for name, kind in kinds.items()},
    }


def _trained_loss(bits: int, kind: str, seed: int) -> float:
    """The loss (bits) after the last steps with weights on a grid."""
    from lplab.quantizers import WeightGrid
    from lplab.training import LayerRules, QuantSpec, Recipe

    weight = QuantSpec(quantizer=WeightGrid(bits, GROUP, kind))
    recipe = Recipe(weight=weight, exceptions={"last": LayerRules(), "embedding": LayerRules()}, name="rounded weights")
    return held_out_loss(branch(branch_llama(), recipe, seed, PLAN).trainer.model.eval())


def _rise(results: Results, way: str, bits: int) -> np.ndarray:
    """What a way costs, bits above float32, seed by seed."""
    return results.values(way, bits=bits) - results.values("float", bits=bits)


def _saved(results: Results, bits: int) -> np.ndarray:
    """What training saves against GPTQ, bits, seed by seed."""
    return results.values("gptq", bits=bits) - results.values("trained", bits=bits)


@claim.criterion("At 2 bits training recovers most of what GPTQ loses")
def training_recovers_most(results: Results) -> CheckResult:
    """At 2 bits the rise of the loss with rounded weights in training is surely less than half of GPTQ's."""
    by_gptq, by_training = (_rise(results, way, 2) for way in ("gptq", "trained"))
    return paired_result(
        f"Bits above float32 at 2 bits: GPTQ {paired_text(by_gptq)}, trained {paired_text(by_training)}.",
        above(MOST * by_gptq - by_training),
    )


@claim.criterion("At 4 bits training saves little")
def little_at_four_bits(results: Results) -> CheckResult:
    """What training saves against GPTQ at 4 bits is surely less than a tenth of what it saves at 2."""
    four, two = (_saved(results, bits) for bits in BITS)
    return paired_result(
        f"Bits that training saves against GPTQ: {paired_text(four)} at 4 bits, {paired_text(two)} at 2.",
        above(LITTLE * two - four),
    )


@claim.explanation("At 4 bits both are within 1 % of float32")
def both_are_near_at_four_bits(results: Results) -> CheckResult:
    """At 4 bits GPTQ's rise and that of training are surely below 1 % of float32's loss."""
    bound = 0.01 * float(results.values("float", bits=4).mean())
    rises = {name: _rise(results, way, 4) for name, way in (("GPTQ", "gptq"), ("trained", "trained"))}
    text = ", ".join(f"{name} {paired_text(rise)}" for name, rise in rises.items())
    return paired_result(
        f"Bits above float32 at 4 bits: {text}; 1 % is {bound:.3f}.", *(within(rise, bound) for rise in rises.values())
    )


@claim.explanation("At 2 bits four even levels without a zero train better than −2 … 1")
def levels_without_zero(results: Results) -> CheckResult:
    """At 2 bits the grid without a zero, SAWB's and ParetoQ's, ends surely below the integers −2 … 1."""
    gap = results.values("zero", bits=2) - results.values("no_zero", bits=2)
    rises = (paired_text(_rise(results, way, 2)) for way in ("no_zero", "zero"))
    return paired_result(f"Bits above float32: {' without a zero, '.join(rises)} with −2 … 1.", above(gap))


@claim.summary
def measured(results: Results) -> str:
    """The rises of both ways, mean and range over the seeds."""
    return "; ".join(
        f"{bits} bits: GPTQ {paired_text(_rise(results, 'gptq', bits))}, trained "
        f"{paired_text(_rise(results, 'trained', bits))} bits a character above float32"
        for bits in BITS
    )


claim.draw(
    "loss above float32, bits a character",
    lambda results: {
        f"{name}, {bits} bits": _rise(results, way, bits)
        for bits in BITS
        for name, way in (("GPTQ", "gptq"), ("trained", "trained"))
    },
    statistic=MEAN,
    differences=True,
)

claim.compared(theirs_on="MobileLLM-125M", ours_on="characters, a Llama of 116 thousand parameters")
claim.found(
    training_recovers_most,
    holds="at 2 bits training recovers most of what GPTQ loses",
    fails="at 2 bits training does not surely recover most of what GPTQ loses",
)
claim.found(little_at_four_bits, holds="at 4 bits it saves little", fails="at 4 bits it saves more than little")
claim.found(
    levels_without_zero,
    holds="levels without a zero train better than −2 … 1",
    fails="levels without a zero train no better than −2 … 1",
)

PARETOQ_2025 = claim.build()
