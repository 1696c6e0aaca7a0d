"""Kumar et al. 2025: the longer a model was trained, the more rounding its weights costs.

The abstract says that what post-training quantization costs grows with the training data, and that more data is harmful
in the end. From this the criteria were written, before the first measurement.
"""

from __future__ import annotations

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.branches import BranchPlan, above, paired_result, paired_text
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.drawing import MEAN
from lplab.claims.framework.few_bits_models import SEEDS, held_out_loss, rounded_loss, trained
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results

STEPS = (125, 250, 500, 1000)  # with a constant learning rate; a quarter more while it falls
BITS, WAYS = (4, 3, 2), {"nearest": "w{}a16:group=32", "gptq": "w{}a16_gptq:group=32"}
NAMES = {"nearest": "nearest", "gptq": "GPTQ"}
POINTS: tuple[Point, ...] = tuple({"steps": steps} for steps in STEPS)
SURE_BITS = (3, 2)  # at 4 bits rounding costs less than the test set can tell

claim = ClaimBuilder(
    id="kumar_2025",
    title="The longer a model was trained, the more rounding its weights costs",
    paper=cite("kumar_2025"),
    where="abstract",
    statement="The loss that post-training quantization adds grows with the number of tokens that a model was trained "
    "on, the more so the fewer bits; in the end more data makes the rounded model worse.",
    published="a power law of the training tokens, from 465 trainings of 30 to 220 million parameters with GPTQ "
    "(second-hand)",
    experiment="The Llama of gptq_2023, trained for 125, 250, 500 and 1,000 steps of 512 characters, each with a "
    "quarter more steps while the learning rate falls to zero. Its weights are rounded to 4, 3 and 2 bits in groups "
    "of 32, to nearest and by GPTQ. Compared seed by seed: the loss of 32,768 test characters above that of float32.",
    points=POINTS,
    seeds=SEEDS,
    budget_seconds=210,
    limits="The longest training has seen 640 thousand characters, 5.5 for each parameter. Large models see 20 and "
    "more tokens for each.",
)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Losses (bits) of a training in float32 and of each way with each number of bits."""
    model = trained(seed, BranchPlan(before=point["steps"], steps=point["steps"] // 4))
    rounded = {
        f"{way}_{bits}": rounded_loss(model, rule.format(bits), seed) for way, rule in WAYS.items() for bits in BITS
    }
    return {"float": held_out_loss(model), **rounded}


def _rises(results: Results, way: str, bits: int) -> np.ndarray:
    """What a way costs, bits above float32: [lengths, seeds]."""
    losses = [results.values(f"{way}_{bits}", steps=steps) for steps in STEPS]
    return np.array(losses) - _floats(results)


def _floats(results: Results) -> np.ndarray:
    return np.array([results.values("float", steps=steps) for steps in STEPS])


def _slopes(results: Results, way: str, bits: int) -> np.ndarray:
    """How many octaves what rounding costs grows with each doubling, from the shortest to the longest training.

    A cost that is not positive counts as one in a million of a bit.
    """
    ends = np.log2(np.maximum(_rises(results, way, bits)[[0, -1]], 1e-6))
    return (ends[1] - ends[0]) / np.log2(STEPS[-1] / STEPS[0])


@claim.criterion("Rounding costs more with every doubling")
def costs_grow(results: Results) -> CheckResult:
    """At 3 and 2 bits, by both ways, the rise of the loss is surely larger after each doubling of the steps."""
    growth = {(way, bits): np.diff(_rises(results, way, bits), axis=0) for bits in SURE_BITS for way in WAYS}
    text = "; ".join(
        f"{NAMES[way]} to {bits} bits: " + ", ".join(f"{rise:.4f}" for rise in _rises(results, way, bits).mean(1))
        for way, bits in growth
    )
    return paired_result(
        f"Bits above float32 after {', '.join(map(str, STEPS))} steps: {text}.".replace("-", "−"),
        *(above(step) for steps in growth.values() for step in steps),
    )


@claim.criterion("It grows as a power of the training")
def costs_grow_as_a_power(results: Results) -> CheckResult:
    """At 3 and 2 bits, by both ways, the exponent between the shortest and the longest training is surely above 0."""
    slopes = {(way, bits): _slopes(results, way, bits) for bits in SURE_BITS for way in WAYS}
    text = "; ".join(f"{NAMES[way]} to {bits} bits {paired_text(slope, 2)}" for (way, bits), slope in slopes.items())
    return paired_result(f"Exponent of the training's length: {text}.", *map(above, slopes.values()))


@claim.criterion("The fewer bits, the more it grows")
def fewer_bits_grow_more(results: Results) -> CheckResult:
    """By both ways the rise grows surely by more at 2 bits than at 3, from the shortest to the longest training."""
    grown = {
        (way, bits): _rises(results, way, bits)[-1] - _rises(results, way, bits)[0]
        for way in WAYS
        for bits in SURE_BITS
    }
    text = "; ".join(f"{NAMES[way]} to {bits} bits {paired_text(gap)}" for (way, bits), gap in grown.items())
    return paired_result(
        f"By how many bits the cost grows: {text}.", *(above(grown[way, 2] - grown[way, 3]) for way in WAYS)
    )


@claim.explanation("More data makes the rounded model worse")
def more_is_harmful(results: Results) -> CheckResult:
    """Rounded to nearest with 2 bits, the model of the longest training is surely worse than that of half of it."""
    rounded = _rises(results, "nearest", 2) + _floats(results)
    losses = ", ".join(f"{loss:.3f}" for loss in rounded.mean(1))
    return paired_result(f"Loss with 2 bits to nearest: {losses} bits.", above(rounded[-1] - rounded[-2]))


@claim.summary
def measured(results: Results) -> str:
    """The rises after the shortest and the longest training, mean over the seeds."""
    each = "; ".join(
        f"{NAMES[way]} to {bits} bits "
        + " to ".join(f"{rise:.4f}" for rise in _rises(results, way, bits)[[0, -1]].mean(1)).replace("-", "−")
        for bits in BITS
        for way in WAYS
    )
    return f"bits a character above float32, from {STEPS[0]} to {STEPS[-1]} steps: {each}"


claim.draw(
    "loss above float32 at 2 bits, to nearest, bits a character",
    lambda results: {f"{steps} steps": rise for steps, rise in zip(STEPS, _rises(results, "nearest", 2), strict=True)},
    statistic=MEAN,
    differences=True,
)
claim.draw(
    "loss above float32 at 3 bits, to nearest, bits a character",
    lambda results: {f"{steps} steps": rise for steps, rise in zip(STEPS, _rises(results, "nearest", 3), strict=True)},
    statistic=MEAN,
    differences=True,
)

claim.compared(
    theirs_on="language models of 30 to 220 million parameters", ours_on="characters, a Llama of 116 thousand", rows=(
        {f"{steps} steps": f"{steps} steps" for steps in STEPS},
    )
)  # fmt: skip
claim.found(
    costs_grow_as_a_power,
    holds="rounding costs more the longer the training",
    fails="rounding does not cost more the longer the training",
)
claim.found(costs_grow, holds="with every doubling", fails="not with every doubling")
claim.found(fewer_bits_grow_more, holds="the more so the fewer bits", fails="no more with fewer bits")
claim.found(
    more_is_harmful,
    holds="the rounded model gets worse in the end",
    fails="the rounded model still gets better",
)

KUMAR_2025 = claim.build()
