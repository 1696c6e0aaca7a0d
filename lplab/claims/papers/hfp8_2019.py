"""Sun et al. 2019: two 8-bit formats, one for the forward pass and one for gradients, train as float32 does."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.claim import CheckResult, Numbers, Point, Results
from lplab.claims.framework.compare import (
    clearly_above,
    median_and_range,
    median_and_range_signed,
    seed_range,
    within_noise,
)
from lplab.claims.framework.models import small_transformer
from lplab.claims.framework.trainings import TrainingResult, cosine, one_thread, train

STEPS = 200
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
    experiment=f"A character Transformer of two blocks, {STEPS} steps: hybrid, 1-5-2 for everything, and 1-4-3 for "
    "gradients, each with and without a loss scale.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=240,  # seconds of the clock, on a busy machine: measured before sessions counted those of a core
    limits="A Transformer of 67 thousand parameters, trained for a minute: what a second mantissa bit costs a large "
    "one at the end of its training is not seen here. Sums are float32's; the paper's are 1-6-9.",
)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Train once: losses (bits), the share of gradients that became zero, and, of float32, what rounding it costs."""
    from lplab.training import Recorder, recipes

    name = point["recipe"]
    recipe = recipes.get("hfp8_2019", **SWITCHES[name]) if name in SWITCHES else recipes.get("fp32")
    recorder = Recorder(every=40, roles=(GRADIENTS,))
    done = train(small_transformer(), recipe, STEPS, seed, schedule=cosine(STEPS), recorder=recorder)
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


@claim.criterion("The hybrid is as good as float32")
def hybrid_is_as_good(results: Results) -> CheckResult:
    """The hybrid stays within the spread of float32's seeds."""
    hybrid, base = _losses(results, HYBRID), _losses(results, FLOAT)
    return CheckResult(
        within_noise(hybrid, base),
        f"Hybrid {median_and_range(hybrid)}, float32 {median_and_range(base)} bits a character.",
    )


@claim.criterion("1-5-2 for everything is worse than the hybrid")
def one_format_is_worse(results: Results) -> CheckResult:
    """1-5-2 for everything, loss scaled: on every seed worse than the hybrid, and outside the spread of float32."""
    one, hybrid, base = (_losses(results, name) for name in (ONE, HYBRID, FLOAT))
    gaps = one - hybrid
    return CheckResult(
        bool(gaps.min() > 0) and clearly_above(one, base),
        f"1-5-2 everywhere {median_and_range(one)}: {median_and_range_signed(gaps, 4)} against the hybrid, seed by "
        f"seed; the seeds of float32 lie {seed_range(base):.3f} apart.",
    )


@claim.criterion("1-4-3 for gradients without a scale is worst")
def fine_gradients_vanish(results: Results) -> CheckResult:
    """1-4-3 for gradients, without a scale, is the worst of all, on every seed."""
    fine = _losses(results, FINE)
    others = [_losses(results, name) for name in (ONE, ONE_UNSCALED, HYBRID)]
    return CheckResult(
        all(clearly_above(fine, other) for other in others),
        f"1-4-3 for gradients without a scale {median_and_range(fine)}, 1-5-2 without a scale "
        f"{median_and_range(_losses(results, ONE_UNSCALED))} bits.",
    )


@claim.explanation("1-5-2 does no harm here: rounding costs less than a seed")
def rounding_costs_little_here(results: Results) -> CheckResult:
    """Why one format does no harm here: what rounding the trained float32 network costs is far below the spread."""
    base = _losses(results, FLOAT)
    fine, wide = (_losses(results, FLOAT, f"in_{kind}") - base for kind in (FINE_FORMAT, WIDE_FORMAT))
    return CheckResult(
        bool(abs(wide).max() < seed_range(base)) and float(np.median(wide)) > float(np.median(fine)),
        f"The float32 networks with weights and activations rounded afterwards: {median_and_range_signed(fine, 4)} in "
        f"1-4-3 and {median_and_range_signed(wide, 4)} in 1-5-2, while the seeds lie {seed_range(base):.3f} apart: "
        "this network does not need the third bit.",
    )


@claim.explanation("Seed by seed it is worse by what rounding costs")
def worse_by_what_rounding_costs(results: Results) -> CheckResult:
    """Seed by seed 1-5-2 is worse than the hybrid, and by about what rounding alone costs: the direction is there."""
    gaps = _losses(results, ONE) - _losses(results, HYBRID)
    cost = _losses(results, FLOAT, f"in_{WIDE_FORMAT}") - _losses(results, FLOAT, f"in_{FINE_FORMAT}")
    ratio = float(np.median(gaps) / np.median(cost))
    return CheckResult(
        bool(gaps.min() > 0) and 0.5 < ratio < 2,
        f"Compared seed by seed, 1-5-2 everywhere is worse than the hybrid on {int((gaps > 0).sum())} of {len(gaps)}, "
        f"by {median_and_range_signed(gaps, 4)}: {ratio:.1f} times what the third mantissa bit is worth when a trained "
        "network is rounded.",
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
    scaled, base = _losses(results, FINE_SCALED), _losses(results, FLOAT)
    return CheckResult(
        within_noise(scaled, base),
        f"1-4-3 for gradients with the loss times 1,000: {median_and_range(scaled)} bits; here 30 / 2⁻¹³ is range "
        "enough.",
    )


@claim.explanation("A dynamic scale does not see saturation")
def dynamic_scale_cannot_see(results: Results) -> CheckResult:
    """A dynamic loss scale waits for infinity; a format that saturates never shows one, and too large a scale stays."""
    dynamic, constant = _losses(results, FINE_DYNAMIC), _losses(results, FINE_SCALED)
    return CheckResult(
        clearly_above(dynamic, constant),
        f"The same with a dynamic scale: {median_and_range(dynamic)} bits. It begins at 65,536 and falls when a "
        "gradient becomes infinite, and 1-4-3 saturates instead.",
    )


@claim.summary
def measured(results: Results) -> str:
    """Bits a character, median and spread."""
    return (
        "; ".join(f"{name} {median_and_range(_losses(results, name))}" for name in (FLOAT, HYBRID, ONE, FINE)) + " bits"
    )


claim.draw(
    "test loss, bits a character",
    lambda results: {name: _losses(results, name) for name in (FLOAT, HYBRID, ONE, FINE)},
)

HFP8_2019 = claim.build()
