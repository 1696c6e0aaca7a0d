"""Sun et al. 2019: two 8-bit formats, one for the forward pass and one for gradients, train as float32 does."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.branches import (
    BranchPlan,
    above,
    branch,
    loss_gaps,
    loss_gaps_text,
    paired_result,
    paired_text,
    within,
    worse,
)
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.drawing import MEAN
from lplab.claims.framework.models import branch_transformer
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import median_and_range, seed_range
from lplab.claims.framework.trainings import TrainingResult, one_thread

PLAN = BranchPlan(before=500, steps=100)
BOUND = 0.01  # of float32's loss: "within 1 %", the paper's words
GRADIENTS = "output_gradient_dx"
FLOAT, HYBRID, ONE = "float32", "hybrid", "1-5-2 everywhere"
FINE, FINE_SCALED = "1-4-3 gradients, no scale", "1-4-3 gradients, scale 1000"
FINE_DYNAMIC, ONE_UNSCALED = "1-4-3 gradients, dynamic scale", "1-5-2 everywhere, no scale"
FINE_FORMAT, WIDE_FORMAT = "hfp8_forward", "fp8_152"

SWITCHES: dict[str, dict[str, Any]] = {
    HYBRID: {},
    ONE: {"forward": WIDE_FORMAT},
    ONE_UNSCALED: {"forward": WIDE_FORMAT, "loss_scale": 1.0},
    FINE: {"backward": FINE_FORMAT, "loss_scale": 1.0},
    FINE_SCALED: {"backward": FINE_FORMAT, "loss_scale": 1000.0},
    FINE_DYNAMIC: {"backward": FINE_FORMAT},
}
"""The switches of the recipe behind each point; float32 has none."""

POINTS: tuple[Point, ...] = ({"recipe": FLOAT}, *({"recipe": name} for name in SWITCHES))

claim = ClaimBuilder(
    id="hfp8_2019",
    title="Hybrid FP8 trains as float32 does where 1-5-2 for everything loses",
    paper=cite("hfp8_2019"),
    where="abstract; results",
    statement="1-5-2 for all tensors degrades networks such as MobileNet and Transformer, because the forward pass "
    "needs precision and the backward pass range; 1-4-3 forward and 1-5-2 backward train them without loss.",
    published="hybrid within 1 % of float32 across models (second-hand); MobileNetV2 71.81 → 71.61, Transformer-base "
    "27.53 → 27.27 (recalled, not checked)",
    experiment=f"A character Transformer of two blocks, trained for {PLAN.before} steps in float32. From there each "
    f"recipe goes on for {PLAN.steps} steps with the same batches, its learning rate falling to zero: hybrid, 1-5-2 "
    "for everything, and 1-4-3 for gradients, each with and without a loss scale. Compared with float32 seed by seed: "
    "the mean training loss of the last half, and the loss of 32,768 test characters.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=80,
    limits="A Transformer of 114 thousand parameters, whose 8 bits last for a sixth of a short training: what a "
    "mantissa bit costs a large one over its whole training is not seen here. Sums are float32's; the paper's are "
    "1-6-9.",
    version=2,
)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """One branch: losses (bits), the share of gradients that became zero, and, of float32, what rounding it costs."""
    from lplab.training import Recorder, recipes

    name = point["recipe"]
    recipe = recipes.get("hfp8_2019", **SWITCHES[name]) if name in SWITCHES else recipes.get("fp32")
    recorder = Recorder(every=40, roles=(GRADIENTS,))
    done = branch(branch_transformer(), recipe, seed, PLAN, recorder=recorder)
    values = done.numbers()
    if name == FLOAT:
        return {**values, **{f"in_{kind}": _rounded_loss(done, kind) for kind in (FINE_FORMAT, WIDE_FORMAT)}}
    layers = {layer for layer, _ in recorder.names()}
    lost = [float(np.mean(recorder.series(layer, GRADIENTS)["underflowed"])) for layer in layers]
    return {**values, "lost": round(float(np.median(lost)), 6)}


def _rounded_loss(done: TrainingResult, kind: str) -> float:
    """The held-out loss of the trained network with weights and activations rounded to a format, in bits."""
    from torch.nn import functional

    from lplab.training import dequantize_model, quantize_for_inference

    model = quantize_for_inference(dequantize_model(done.trainer.model), kind, ends="fp32")
    inputs, targets = done.task.test()
    with one_thread():
        loss = functional.cross_entropy(model(inputs).detach().flatten(0, -2), targets.flatten())
    return round(float(loss) / float(np.log(2)), 6)


def _losses(results: Results, name: str, number: str = "loss") -> np.ndarray:
    return results.values(number, recipe=name)


def _gaps(results: Results, name: str, other: str = FLOAT) -> tuple[np.ndarray, np.ndarray]:
    """Differences of the training losses and of the test losses, seed by seed."""
    return loss_gaps(results, {"recipe": name}, {"recipe": other})


@claim.criterion("The hybrid is within 1 % of float32")
def hybrid_is_as_good(results: Results) -> CheckResult:
    """Training and test loss of the hybrid are surely within 1 % of float32's: the paper's bound."""
    gaps = _gaps(results, HYBRID)
    bounds = [BOUND * float(_losses(results, FLOAT, number).mean()) for number in ("train_loss", "loss")]
    text = f"Hybrid against float32: {loss_gaps_text(gaps)}; 1 % is {bounds[1]:.3f} bits."
    return paired_result(text, *map(within, gaps, bounds))


@claim.criterion("1-5-2 for everything is worse than the hybrid")
def one_format_is_worse(results: Results) -> CheckResult:
    """1-5-2 for everything, loss scaled, against the hybrid: surely in training, and on every seed in the test."""
    gaps = _gaps(results, ONE, HYBRID)
    return paired_result(f"1-5-2 everywhere against the hybrid: {loss_gaps_text(gaps)}.", *worse(*gaps))


@claim.criterion("1-4-3 for gradients without a scale is worst")
def fine_gradients_vanish(results: Results) -> CheckResult:
    """1-4-3 for gradients, without a scale, is worse than each of the others."""
    pairs = {other: _gaps(results, FINE, other) for other in (ONE, ONE_UNSCALED, HYBRID)}
    nearest = min(pairs.values(), key=lambda gaps: float(gaps[0].mean()))
    return paired_result(
        f"1-4-3 for gradients without a scale against the next best: {loss_gaps_text(nearest)}.",
        *(condition for gaps in pairs.values() for condition in worse(*gaps)),
    )


@claim.explanation("Without pairs the seeds would hide it")
def seeds_would_hide_it(results: Results) -> CheckResult:
    """Why the branches are compared in pairs: the seeds of float32 lie further apart than the formats."""
    gap, apart = float(_gaps(results, ONE, HYBRID)[1].mean()), seed_range(_losses(results, FLOAT))
    return CheckResult(
        apart > gap,
        f"The third mantissa bit is worth {gap:.4f} bits a character in the test, and the seeds of float32 lie "
        f"{apart:.3f} apart.",
    )


@claim.explanation("1-5-2 everywhere costs several times what the hybrid costs")
def costs_several_times(results: Results) -> CheckResult:
    """The size of the effect against float32, in the training loss."""
    one, hybrid = (float(_gaps(results, name)[0].mean()) for name in (ONE, HYBRID))
    percent = 100 * one / float(_losses(results, FLOAT, "train_loss").mean())
    return CheckResult(
        0 < 2 * hybrid < one,
        f"Against float32 the hybrid costs {hybrid:+.4f} and 1-5-2 everywhere {one:+.4f} bits in training. That is "
        f"{percent:.1f} % of the loss.",
    )


@claim.explanation("It is worse by about what rounding costs")
def worse_by_what_rounding_costs(results: Results) -> CheckResult:
    """1-5-2 is worse than the hybrid by about what rounding a trained network alone costs."""
    gap = float(_gaps(results, ONE, HYBRID)[1].mean())
    cost = _losses(results, FLOAT, f"in_{WIDE_FORMAT}") - _losses(results, FLOAT, f"in_{FINE_FORMAT}")
    ratio = gap / float(cost.mean())
    return CheckResult(
        0.5 < ratio < 2,
        f"The float32 networks with weights and activations rounded afterwards lose {paired_text(cost)} bits more in "
        f"1-5-2 than in 1-4-3; trained in it, 1-5-2 is worse by {ratio:.1f} times that.",
    )


@claim.explanation("1-4-3 fails by underflow")
def why_it_vanishes(results: Results) -> CheckResult:
    """The range is to blame: most gradients of a layer become zero in 1-4-3, few in 1-5-2 or with a scale."""
    lost = {name: float(np.median(_losses(results, name, "lost"))) for name in (FINE, ONE_UNSCALED, FINE_SCALED)}
    return CheckResult(
        lost[FINE] > 0.5 > 0.1 > lost[FINE_SCALED] and lost[FINE] > 2 * lost[ONE_UNSCALED],
        f"Of the gradients of a layer become zero: {100 * lost[FINE]:.0f} % in 1-4-3, {100 * lost[ONE_UNSCALED]:.0f} % "
        f"in 1-5-2, {100 * lost[FINE_SCALED]:.1f} % in 1-4-3 with the loss times 1,000.",
    )


@claim.explanation("A constant scale makes up for the range")
def a_scale_is_enough(results: Results) -> CheckResult:
    """With a constant loss scale 1-4-3 is good enough for gradients here: range was missing, not precision."""
    gaps = _gaps(results, FINE_SCALED)
    return paired_result(
        f"1-4-3 for gradients with the loss times 1,000 against float32: {loss_gaps_text(gaps)}; here 30 / 2⁻¹³ is "
        "range enough.",
        within(gaps[1], BOUND * float(_losses(results, FLOAT).mean())),
    )


@claim.explanation("A dynamic scale does not see saturation")
def dynamic_scale_cannot_see(results: Results) -> CheckResult:
    """A dynamic loss scale waits for infinity; a format that saturates never shows one, and too large a scale stays."""
    gaps = _gaps(results, FINE_DYNAMIC, FINE_SCALED)
    return paired_result(
        f"A dynamic scale against the constant one: {loss_gaps_text(gaps)}. It begins at 65,536 and falls when a "
        "gradient becomes infinite, and 1-4-3 saturates instead.",
        above(gaps[0]),
    )


@claim.summary
def measured(results: Results) -> str:
    """Test loss of float32; the others' differences to it."""
    each = "; ".join(f"{name} {paired_text(_gaps(results, name)[1])}" for name in (HYBRID, ONE, FINE))
    return f"float32 {median_and_range(_losses(results, FLOAT))} bits; against it {each}"


claim.draw(
    "test loss above float32, bits a character",
    lambda results: {name: _gaps(results, name)[1] for name in (HYBRID, FINE_SCALED, ONE, ONE_UNSCALED, FINE)},
    log=True,
    statistic=MEAN,
)


def in_their_unit(results: Results) -> str:
    """The test losses above float32's, in percent of it."""
    base = float(_losses(results, FLOAT).mean())
    names = {"two formats": HYBRID, "1-4-3 alone": FINE_SCALED, "1-5-2 alone": ONE}
    each = [f"{100 * float(_gaps(results, name)[1].mean()) / base:.1f} % ({label})" for label, name in names.items()]
    return f"loss above float32: {', '.join(each)}"


claim.compared(
    theirs_on="MobileNetV2 and others; translation, a Transformer",
    ours_on="characters, a Transformer of two blocks",
    rows=(
        {
            HYBRID: "two formats (hybrid)",
            FINE_SCALED: "1-4-3 alone, loss scale",
            ONE: "1-5-2 alone, loss scale",
            FINE: "1-4-3 alone, no scale",
        },
    ),
    ours=in_their_unit,
)
claim.found(
    hybrid_is_as_good, holds="two formats within 1 % of float32", fails="two formats not surely within 1 % of float32"
)
claim.found(
    a_scale_is_enough,
    holds="so is 1-4-3 alone with a loss scale",
    fails="1-4-3 alone is not, even with a loss scale",
    limits=True,
)
claim.found(one_format_is_worse, holds="1-5-2 alone is worse", fails="1-5-2 alone is no worse")
claim.found(fine_gradients_vanish, holds="1-4-3 without a scale is worst", fails="1-4-3 without a scale is not worst")

HFP8_2019 = claim.build()
