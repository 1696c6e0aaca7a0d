"""Sun et al. 2020: seven powers of four cover the gradients of all layers at one scale; seven powers of two do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.models import deep_mlp
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import clearly_above, median_and_range, power_of_two, within_noise
from lplab.claims.framework.trainings import cosine, train

if TYPE_CHECKING:
    from lplab.training import Recipe

STEPS = 200
SCALES = tuple(range(0, 21, 2))  # log2 of the one scale of all layers
RADICES = (4, 2)
OCTAVES = {4: 12, 2: 6}  # between the smallest and the largest magnitude
VANISHING_SCALE = -24  # log2 of a scale at which every gradient becomes zero in radix 2
END_LAYERS = ("layers.0", "layers.4")  # 1-6-9
GOOD_WITHIN = 0.25  # bits above the best scale: still good
GRADIENTS = "output_gradient_dx"
FLOAT, ONE_SCALE, PER_LAYER = "float32", "one scale", "scale per layer"

POINTS: tuple[Point, ...] = (
    {"gradients": FLOAT},
    {"gradients": ONE_SCALE, "radix": 2, "scale": VANISHING_SCALE},
    *({"gradients": PER_LAYER, "radix": radix} for radix in RADICES),
    *({"gradients": ONE_SCALE, "radix": radix, "scale": scale} for radix in RADICES for scale in SCALES),
)

claim = ClaimBuilder(
    id="sun_2020_radix4",
    title="With one scale for all layers, radix 4 has many more good scales than radix 2",
    paper=cite("sun_2020"),
    where="section 3.1, figure 1a",
    statement="With one loss scale for the network, gradients in radix-2 FP4 lose 10 to 30 % accuracy, because three "
    "exponent bits do not cover them; radix 4 doubles the range, and no loss is visible.",
    published="FP4 for dx alone: radix 2 loses 10–30 % accuracy, radix 4 nothing visible (read)",
    experiment=f"Five linear layers without normalization on the digits, {STEPS} steps of Adam, all in float32 but for "
    f"the output gradients: FP4 for dx, FP8 for dW, and one scale for all layers, from {power_of_two(SCALES[0])} to "
    f"{power_of_two(SCALES[-1])}. How wide the window of good scales is, that is the result.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=45,
    limits="A small network: the gradients of a deep one spread over more octaves than these. Weights and activations "
    "stay float32 here, so that nothing but the grid of the gradients differs; the paper's are INT4.",
)


def recipe_of(point: Point) -> Recipe:
    """The recipe behind a point: float32 but for the output gradients: sign and three exponent bits for dx, FP8 for dW.

    First and last layer, embedding and shortcuts are 1-6-9, as in the whole recipe of the paper.

    >>> recipe_of({"gradients": ONE_SCALE, "radix": 4, "scale": 14}).loss_scale
    16384.0
    """
    from lplab.training import recipes

    if point["gradients"] == FLOAT:
        return recipes.get("fp32")
    scale = "layer" if point["gradients"] == PER_LAYER else 2.0 ** point["scale"]
    whole = recipes.get("int4_fp4_2020", phases="single", radix=point["radix"], scale=scale, dw="fp8")
    return whole.replace(weight=None, activation=None)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Train once: losses (bits); of the layers' shares of gradients that become zero, the median and the largest."""
    from lplab.training import Recorder

    recorder = Recorder(every=30, roles=(GRADIENTS,))
    done = train(deep_mlp(), recipe_of(point), STEPS, seed, schedule=cosine(STEPS), recorder=recorder)
    layers = [layer for layer, _ in recorder.names() if point["gradients"] != FLOAT]
    series = [recorder.series(layer, GRADIENTS) for layer in layers if layer not in END_LAYERS]
    lost = [float(np.mean(np.where(one["zeros"] == 1, 1.0, one["underflowed"]))) for one in series] or [0.0]
    cut = [float(np.mean(one["saturated"])) for one in series] or [0.0]
    return {
        **done.numbers(),
        "lost": round(float(np.median(lost)), 6),
        "most_lost": round(max(lost), 6),
        "most_saturated": round(max(cut), 6),
    }


def losses(results: Results, radix: int, scale: int | str, number: str = "loss") -> np.ndarray:
    """A number of one radix at one scale (its log2, or ``PER_LAYER``), one a seed."""
    if scale == PER_LAYER:
        return results.values(number, gradients=PER_LAYER, radix=radix)
    return results.values(number, gradients=ONE_SCALE, radix=radix, scale=scale)


def best(results: Results, radix: int) -> int:
    """The log2 of the best scale of a radix."""
    return min(SCALES, key=lambda scale: float(np.median(losses(results, radix, scale))))


def window(results: Results, radix: int) -> list[int]:
    """The log2 of the good scales around the best one: their medians lie within ``GOOD_WITHIN`` bits of it."""
    medians = [float(np.median(losses(results, radix, scale))) for scale in SCALES]
    place = SCALES.index(best(results, radix))
    low = high = place
    while low > 0 and medians[low - 1] <= medians[place] + GOOD_WITHIN:
        low -= 1
    while high < len(SCALES) - 1 and medians[high + 1] <= medians[place] + GOOD_WITHIN:
        high += 1
    return list(SCALES[low : high + 1])


@claim.criterion("The window of good scales is wider in radix 4")
def radix_4_is_wider(results: Results) -> CheckResult:
    """The window of good scales: at least four octaves (of the six of range) wider in radix 4."""
    values = {radix: window(results, radix) for radix in RADICES}
    gap = _octaves(values[4]) - _octaves(values[2])
    return CheckResult(
        gap >= 4,
        f"Scales within {GOOD_WITHIN} bits of the best: radix 4 {_text(values[4])}; radix 2 {_text(values[2])}.",
    )


@claim.criterion("At scales that are good for radix 4, radix 2 fails")
def radix_2_loses_where_4_trains(results: Results) -> CheckResult:
    """At some scale that is good for radix 4, radix 2 is clearly worse and has more than ten points more errors."""
    worst = max(window(results, 4), key=lambda scale: float(np.median(losses(results, 2, scale))))
    four, two = losses(results, 4, worst), losses(results, 2, worst)
    wrong = [float(np.median(losses(results, radix, worst, "error"))) for radix in RADICES]
    return CheckResult(
        clearly_above(two, four) and wrong[1] - wrong[0] > 10,
        f"At {power_of_two(worst)}: radix 4 {median_and_range(four)} bits ({wrong[0]:.0f} % wrong), radix 2 "
        f"{median_and_range(two)} ({wrong[1]:.0f} % wrong).",
    )


@claim.criterion("Radix 4 loses nothing visible")
def radix_4_loses_nothing(results: Results) -> CheckResult:
    """At its best scale radix 4 stays within the spread of float32: "no visible loss"."""
    four, base = losses(results, 4, best(results, 4)), results.values("loss", gradients=FLOAT)
    nothing = losses(results, 2, VANISHING_SCALE)
    return CheckResult(
        within_noise(four, base),
        f"Radix 4 at its best scale, {power_of_two(best(results, 4))}: {median_and_range(four)} bits; float32 "
        f"{median_and_range(base)}; with no gradient in the inner layers {median_and_range(nothing)}.",
    )


@claim.explanation("The windows begin as far apart as the ranges differ")
def range_is_why(results: Results) -> CheckResult:
    """The windows begin as far apart as the ranges differ, and where radix 2 fails its gradients become zero."""
    low = {radix: window(results, radix)[0] for radix in RADICES}
    lost = {radix: float(np.median(losses(results, radix, low[4], "lost"))) for radix in RADICES}
    gap, wanted = low[2] - low[4], OCTAVES[4] - OCTAVES[2]
    return CheckResult(
        abs(gap - wanted) <= 2 and lost[2] > lost[4],
        f"The good scales begin at {power_of_two(low[4])} in radix 4 and at {power_of_two(low[2])} in radix 2: {gap} "
        f"octaves apart; the ranges differ by {wanted}. At {power_of_two(low[4])}, {100 * lost[4]:.0f} % of a layer's "
        f"gradients become zero in radix 4 and {100 * lost[2]:.0f} % in radix 2.",
    )


@claim.explanation("With a scale for each layer radix 2 is as good")
def a_scale_per_layer_helps_radix_2(results: Results) -> CheckResult:
    """With a scale for each layer range is no longer the problem, and radix 2, the finer grid, is at least as good."""
    four, two = (losses(results, radix, PER_LAYER) for radix in RADICES)
    return CheckResult(
        float(np.median(two)) <= float(np.median(four)),
        f"With a scale for each layer: radix 2 {median_and_range(two)}, radix 4 {median_and_range(four)} bits: the "
        "finer grid wins where range is no longer the problem.",
    )


@claim.explanation("Radix 4 pays for its range with a coarser grid")
def radix_4_is_coarser(results: Results) -> CheckResult:
    """What the range costs: at the best scale of each, radix 4 stays further from float32 than radix 2."""
    values = {r: float(np.median(losses(results, r, best(results, r)))) for r in RADICES}
    text = "; ".join(f"radix {r} {values[r]:.2f} bits at {power_of_two(best(results, r))}" for r in RADICES)
    base = results.median("loss", gradients=FLOAT)
    return CheckResult(values[4] > values[2], f"At the best scale of each: {text}; float32 {base:.2f}.")


def _octaves(good: list[int]) -> int:
    return good[-1] - good[0]


def _text(good: list[int]) -> str:
    # the window may end where the sweep does
    beyond = "at least " if good[0] == SCALES[0] or good[-1] == SCALES[-1] else ""
    return f"{power_of_two(good[0])} to {power_of_two(good[-1])}, {beyond}{_octaves(good)} octaves"


@claim.summary
def measured(results: Results) -> str:
    """The window of scales of radix 2 and of radix 4, and the best loss within each, as text."""
    parts = []
    for radix in RADICES:
        lowest = float(np.median(losses(results, radix, best(results, radix))))
        parts.append(f"radix {radix} good from {_text(window(results, radix))}, at best {lowest:.2f} bits")
    return "; ".join([*parts, f"float32 {results.median('loss', gradients=FLOAT):.2f}"])


claim.draw(
    "octaves of good scales",
    lambda results: {f"radix {radix}": _octaves(window(results, radix)) for radix in RADICES},
    axis=(0, 20),
)
claim.draw(
    "test loss at the best scale, bits",
    lambda results: {
        "float32": results.values("loss", gradients=FLOAT),
        **{f"radix {radix}": losses(results, radix, best(results, radix)) for radix in RADICES},
    },
)


def in_their_unit(results: Results) -> str:
    """Points of accuracy lost against float32, where radix 2 is worst among the good scales of radix 4; its loss."""
    worst = max(window(results, 4), key=lambda scale: float(np.median(losses(results, 2, scale))))
    base = results.median("error", gradients=FLOAT)
    four, two = (float(np.median(losses(results, radix, worst, "error"))) - base for radix in RADICES)
    loss = results.median("loss", gradients=FLOAT)
    return f"at {power_of_two(worst)} radix 2 loses {two:.0f} points, radix 4 {four:.0f}; float32 has {loss:.2f} bits"


claim.compared(
    theirs_on="CIFAR-10, ResNet-18",
    ours_on="8 × 8 digits, five linear layers",
    rows=(
        {"radix 4": "radix 4", "radix 2": "radix 2"},
        {"radix 4": "radix 4", "radix 2": "radix 2"},
    ),
    ours=in_their_unit,
)
claim.found(radix_4_is_wider, holds="radix 4 has more good scales", fails="radix 4 has no more good scales")
claim.found(radix_2_loses_where_4_trains, holds="at some of them radix 2 fails", fails="radix 2 trains there, too")
claim.found(
    radix_4_loses_nothing,
    holds="at its best scale radix 4 loses nothing visible",
    fails="radix 4 loses even at its best scale",
)

SUN_2020_RADIX4 = claim.build()
