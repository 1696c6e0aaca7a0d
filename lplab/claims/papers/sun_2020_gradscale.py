"""Sun et al. 2020: layers want gradient scales octaves apart; a scale for each recovers most of what one loses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.claim import CheckResult, Numbers, Point, Results
from lplab.claims.framework.compare import join_words, median_and_range, power_of_two, seed_range
from lplab.claims.framework.models import small_transformer
from lplab.claims.framework.trainings import cosine, train
from lplab.claims.papers.sun_2020_radix4 import FLOAT, GRADIENTS, ONE_SCALE, PER_LAYER, recipe_of

if TYPE_CHECKING:
    from lplab.training import Recorder

STEPS = 120
SCALES = (10, 14, 18)  # log2 of the one scale of all layers
MIN_OCTAVES_APART = 3  # octaves: what counts as several
MIN_RECOVERED = 0.5  # a share of what is lost
MAX_ZEROED = 0.5  # a share of a layer's gradients

POINTS: tuple[Point, ...] = (
    {"gradients": FLOAT},
    {"gradients": PER_LAYER},
    *({"gradients": ONE_SCALE, "scale": scale} for scale in SCALES),
)

claim = ClaimBuilder(
    id="sun_2020_gradscale",
    title="A gradient scale for each layer recovers most of what one for all loses",
    paper=cite("sun_2020"),
    where="section 3.2, figure 3",
    statement="The scales that the layers' gradients want lie several octaves apart; a scale for each layer, which "
    "follows its gradient by factors of two (GradScale), recovers most of what one loss scale for all loses.",
    published="ResNet-18 on ImageNet: one scale loses more than 1.5 %, GradScale about 0.5 %; scales 5 to 6 octaves "
    "apart (read)",
    experiment=f"A character Transformer of two blocks, {STEPS} steps, output gradients in radix-4 FP4, one phase, all "
    "else float32: GradScale, and one scale for all layers at three places.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=90,
    limits="Two blocks behind layer norms: gradients lie closer together than in a deep network. The paper compares "
    "with a dynamic loss scale; a format that saturates never shows it an infinity, so constant scales stand in here.",
)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Train once: losses (bits); how many octaves the scales of the layers span; what becomes zero or saturates.

    Returns:
        Besides the losses ``octaves`` between the largest and the smallest scale of a layer at the end, ``zeros`` and
        ``saturated``: of the layer that is worst off, the share of its gradients, mean over the recorded steps.
    """
    from lplab.training import Recorder

    recorder = Recorder(every=29, roles=(GRADIENTS,))
    recipe = recipe_of({"radix": 4, **point})
    done = train(small_transformer(), recipe, STEPS, seed, schedule=cosine(STEPS), recorder=recorder)
    if point["gradients"] == FLOAT:
        return {**done.numbers(), "octaves": 0.0, "zeros": 0.0, "saturated": 0.0}
    return {**done.numbers(), **_layers(recorder, point)}


def _layers(recorder: Recorder, point: Point) -> dict[str, float]:
    layers = [layer for layer, _ in recorder.names() if layer.startswith("blocks.")]
    series = [recorder.series(layer, GRADIENTS) for layer in layers]
    scales = [float(np.log2(one["scale"][-1])) for one in series]
    return {
        "octaves": max(scales) - min(scales) if point["gradients"] == PER_LAYER else 0.0,
        "zeros": round(max(float(one["underflowed"].mean()) for one in series), 6),
        "saturated": round(max(float(one["saturated"].mean()) for one in series), 6),
    }


def _numbers(results: Results, scale: int | str, number: str = "loss") -> np.ndarray:
    if isinstance(scale, str):
        return results.values(number, gradients=scale)
    return results.values(number, gradients=ONE_SCALE, scale=scale)


def _best(results: Results) -> int:
    return min(SCALES, key=lambda scale: float(np.median(_numbers(results, scale))))


@claim.criterion("The scales of the layers lie several octaves apart")
def scales_lie_apart(results: Results) -> CheckResult:
    """The scales of the layers span several octaves, on every seed."""
    octaves = _numbers(results, PER_LAYER, "octaves")
    return CheckResult(
        bool(octaves.min() >= MIN_OCTAVES_APART),
        f"At the end the scales of the layers span {octaves.min():.0f} to {octaves.max():.0f} octaves.",
    )


@claim.criterion("A scale for each layer is better than the best single one")
def per_layer_is_better(results: Results) -> CheckResult:
    """A scale for each layer ends lower than the best single scale, seed by seed."""
    best = _best(results)
    gaps = _numbers(results, best) - _numbers(results, PER_LAYER)
    return CheckResult(
        bool(gaps.min() > 0),
        f"A scale for each layer {median_and_range(_numbers(results, PER_LAYER))} bits, the best single scale, "
        f"{power_of_two(best)}, {median_and_range(_numbers(results, best))}: {gaps.min():+.3f} to {gaps.max():+.3f} "
        "bits above it, seed by seed.",
    )


@claim.criterion("It recovers most of what a single scale loses")
def most_is_recovered(results: Results) -> CheckResult:
    """Of what the best single scale loses against float32, a scale for each layer takes back more than half."""
    single, own, base = (_numbers(results, which) for which in (_best(results), PER_LAYER, FLOAT))
    lost, back = single - base, single - own
    share = float(np.median(back / np.where(lost > 0, lost, np.inf)))
    return CheckResult(
        share > MIN_RECOVERED,
        f"The best single scale loses {lost.min():.3f} to {lost.max():.3f} bits against float32 "
        f"({median_and_range(base)}); a scale for each layer takes back {100 * share:.0f} % of it in the median.",
    )


@claim.explanation("A single scale leaves some layer without most of its gradients")
def single_scales_hurt_some_layer(results: Results) -> CheckResult:
    """Why: at any single scale some layer loses most of its gradients to zero, or saturates."""
    values = {s: [float(np.median(_numbers(results, s, kind))) for kind in ("zeros", "saturated")] for s in SCALES}
    own = [float(np.median(_numbers(results, PER_LAYER, kind))) for kind in ("zeros", "saturated")]
    text = join_words(
        [f"{power_of_two(s)}: {100 * a:.0f} % zero, {100 * b:.0f} % saturated" for s, (a, b) in values.items()]
    )
    return CheckResult(
        all(max(pair) > max(own) for pair in values.values()) and max(values[SCALES[0]]) > MAX_ZEROED,
        f"In the layer that is worst off, at one scale of {text}; with scales of their own {100 * own[0]:.0f} % zero, "
        f"{100 * own[1]:.1f} % saturated.",
    )


@claim.explanation("Any single scale is about as good here")
def any_scale_is_about_as_good(results: Results) -> CheckResult:
    """Why so little: in the range of radix 4 any of the single scales is about as good."""
    medians = [float(np.median(_numbers(results, scale))) for scale in SCALES]
    apart = seed_range(_numbers(results, FLOAT))
    return CheckResult(
        max(medians) - min(medians) < apart,
        f"Single scales {SCALES[-1] - SCALES[0]} octaves apart end within {max(medians) - min(medians):.3f} bits of "
        f"each other, seeds of float32 {apart:.3f} apart: which scale it is hardly counts in this network.",
    )


@claim.summary
def measured(results: Results) -> str:
    """Bits a character, and how far the scales lie apart."""
    octaves = _numbers(results, PER_LAYER, "octaves")
    single = "; ".join(f"one scale {power_of_two(s)} {median_and_range(_numbers(results, s))}" for s in SCALES)
    return (
        f"scale per layer {median_and_range(_numbers(results, PER_LAYER))}; {single}; float32 "
        f"{median_and_range(_numbers(results, FLOAT))} bits; scales span {np.median(octaves):.0f} octaves"
    )


claim.draw(
    "test loss, bits a character",
    lambda results: {
        "float32": _numbers(results, FLOAT),
        "scale for each layer": _numbers(results, PER_LAYER),
        **{f"one scale, {power_of_two(scale)}": _numbers(results, scale) for scale in SCALES},
    },
)

SUN_2020_GRADSCALE = claim.build()
