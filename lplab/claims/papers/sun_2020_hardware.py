"""Sun et al. 2020: what four bits bring on a chip, as arithmetic of the paper's own area model. Nothing is timed.

A step of training is three products of equal work: forward, dx and dW. A multiplier of 55 % of the area that does four
products at once gives 4 / 0.55 times the work on a given area. The time of a step is the sum of the times of its parts.
"""

from __future__ import annotations

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words

AREAS = (0.55, 0.545, 0.555)  # as stated, and both ends of what rounds to it: one a seed
LANES = 4
FP16, FP8 = 1.0, 2.0  # products in a given time and area
FOUR_BITS = "INT4/FP4"

MIXES: dict[str, tuple[str, str, str]] = {  # the formats of forward, dx and dW
    "FP8/FP8": ("fp8", "fp8", "fp8"),
    "INT4/FP16": ("fp4", "fp16", "fp16"),
    "INT4/FP8": ("fp4", "fp8", "fp8"),
    FOUR_BITS: ("fp4", "fp4", "fp4"),
    "dx FP4, dW FP8": ("fp4", "fp4", "fp8"),
}
PUBLISHED = {
    "FP8/FP8": 2.0,
    "INT4/FP16": 1.4,
    "INT4/FP8": 2.7,
    FOUR_BITS: 7.3,
    "dx FP4, dW FP8": 3.9,
    "all 1 × 1 FP8": 4.0,
    "bottom 1 × 1 FP8": 5.2,
}
"""Products in a given time and area against FP16, section 6 and figure 6c (read)."""
EIGHTS = {
    "all 1 × 1 FP8": ("reducing", "expanding"),
    "reducing FP8": ("reducing",),
    "expanding FP8": ("expanding",),
}
STRIDES = ("3 × 3", "1 × 1")
STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))  # ResNet-50: blocks, and channels inside them

POINTS: tuple[Point, ...] = (
    *({"mix": mix} for mix in MIXES),
    *({"mix": mix, "stride": stride} for mix in EIGHTS for stride in STRIDES),
)

claim = ClaimBuilder(
    id="sun_2020_hardware",
    title="Four bits bring more than seven times the products per area: an estimate, as arithmetic",
    paper=cite("sun_2020"),
    where="section 6, figure 6c",
    statement="A unit for INT4 × FP4 needs 55 % of the area of an FP16 unit and does four products at once: 7.3 times "
    "the products in a given area; mixes with FP8 and FP16 lie between.",
    published="against FP16: FP8/FP8 2.0, INT4/FP16 1.4, INT4/FP8 2.7, INT4/FP4 7.3, dx FP4 with dW FP8 3.9, all 1 × 1 "
    "FP8 4.0, bottom 1 × 1 FP8 5.2 (read; model estimates in the paper, too)",
    experiment="Arithmetic of the model: the area of 55 %, FP8 at twice FP16, three products of equal work, and the "
    "multiplications of ResNet-50 counted layer by layer. The seeds are the area as stated and both ends of what "
    "rounds to it.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=5,
    modelled=True,
    limits="No chip was timed, neither by the paper nor here: the 55 % and the factor 2 of FP8 are taken from it. "
    "Memory, the last layers and everything that is no product are left out.",
)


def products(stride: str = "3 × 3") -> dict[str, int]:
    """Multiplications of a forward pass of ResNet-50 at 224 × 224, by kind of layer (He et al. 2015, table 1).

    Args:
        stride: which convolution of a block halves the image: "1 × 1", the reducing one, as printed, or "3 × 3", as
            in PyTorch's model.

    >>> round(sum(products("1 × 1").values()) / 1e9, 2), round(sum(products().values()) / 1e9, 2)
    (3.86, 4.09)
    """
    values = {"stem": 112**2 * 64 * 3 * 49, "reducing": 0, "3 × 3": 0, "expanding": 0, "shortcut": 0, "head": 2048_000}
    before, size = 64, 56
    for blocks, inner in STAGES:
        for block in range(blocks):
            first, came = block == 0, size
            size //= 2 if first and inner > 64 else 1
            values["reducing"] += (came if stride == "3 × 3" else size) ** 2 * before * inner
            values["3 × 3"] += size**2 * 9 * inner**2
            values["expanding"] += size**2 * inner * 4 * inner
            values["shortcut"] += size**2 * before * 4 * inner if first else 0
            before = 4 * inner
    return values


def speed(formats: tuple[str, ...] | str, area: float = AREAS[0], eights: float = 0.0) -> float:
    """Products in a given time and area against FP16, if three products of equal work have these formats.

    Args:
        formats: "fp16", "fp8" or "fp4" of forward, dx and dW.
        area: of the four-bit unit against one of FP16.
        eights: the share of the layers whose gradients are FP8 anyway.

    >>> round(speed(("fp4", "fp16", "fp16")), 2), round(speed(("fp4", "fp4", "fp4")), 2)
    (1.4, 7.27)
    """
    speeds = {"fp16": FP16, "fp8": FP8, "fp4": LANES / area}
    forward, *backward = (1 / speeds[name] for name in formats)
    return len(formats) / (forward + sum((1 - eights) * time + eights / FP8 for time in backward))


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """The speed of a mix and, where layers differ, the share of those with FP8 gradients."""
    mix, area = point["mix"], AREAS[seed]
    if mix in MIXES:
        return {"speed": round(speed(MIXES[mix], area), 6), "share": 0.0}
    work = products(point["stride"])
    share = sum(work[kind] for kind in EIGHTS[mix]) / sum(work.values())
    return {"speed": round(speed(MIXES[FOUR_BITS], area, share), 6), "share": round(share, 6)}


def _speeds(results: Results, mix: str, **more: str) -> np.ndarray:
    return results.values("speed", mix=mix, **more)


@claim.criterion("4 / 0.55 is the 7.3 of the paper")
def four_bits_bring_seven(results: Results) -> CheckResult:
    """4 / 0.55 rounds to the 7.3 of the paper, and the whole range of areas that round to 55 % stays above 7."""
    speeds = _speeds(results, FOUR_BITS)
    return CheckResult(
        round(float(speeds[0]), 1) == PUBLISHED[FOUR_BITS] and bool(speeds.min() > 7),
        f"Four bits on 55 % of the area: {LANES} / {AREAS[0]} = {speeds[0]:.2f} times the products of FP16 "
        f"({speeds.min():.2f}–{speeds.max():.2f} for areas that round to 55 %).",
    )


@claim.criterion("The paper's mixes follow from three products of equal work")
def the_mixes_follow(results: Results) -> CheckResult:
    """Three products of equal work give the paper's other numbers, to 0.1."""
    values = {mix: float(_speeds(results, mix)[0]) for mix in MIXES if mix != FOUR_BITS}
    text = join_words([f"{mix} {value:.2f} ({PUBLISHED[mix]})" for mix, value in values.items()])
    return CheckResult(
        all(abs(value - PUBLISHED[mix]) < 0.1 for mix, value in values.items()),
        f"Ours, and the paper's in brackets: {text}.",
    )


@claim.criterion("Four bits forward alone bring less than FP8 everywhere")
def a_step_is_as_slow_as_its_slowest_product(results: Results) -> CheckResult:
    """INT4 forward alone is slower than FP8 throughout: two of three products are gradients."""
    forward, eights = (float(_speeds(results, mix)[0]) for mix in ("INT4/FP16", "FP8/FP8"))
    return CheckResult(
        forward < eights,
        f"INT4 for the forward product alone brings {forward:.1f} ×, less than FP8 for all three ({eights:.1f} ×).",
    )


@claim.explanation("Which 1 × 1 convolutions are “bottom”")
def bottom_means_reducing(results: Results) -> CheckResult:
    """Which 1 × 1 convolutions the paper calls "bottom": by the speed, the reducing ones of PyTorch's ResNet-50."""
    theirs = PUBLISHED["bottom 1 × 1 FP8"]
    values = {
        (k, s): float(_speeds(results, f"{k} FP8", stride=s)[0]) for k in ("reducing", "expanding") for s in STRIDES
    }
    nearest = min(values, key=lambda which: abs(values[which] - theirs))
    text = join_words([f"{value:.2f} ({kind}, stride in the {stride})" for (kind, stride), value in values.items()])
    return CheckResult(
        nearest == ("reducing", "3 × 3") and abs(values[nearest] - theirs) < 0.05,
        f"FP8 gradients for half of ResNet-50's 1 × 1 convolutions: {text}; the paper's “bottom” ones give {theirs}.",
    )


@claim.explanation("All 1 × 1 convolutions in FP8")
def all_pointwise(results: Results) -> CheckResult:
    """All 1 × 1 convolutions with FP8 gradients: near the paper's 4.0, without the convolutions in the shortcuts."""
    values = {stride: float(_speeds(results, "all 1 × 1 FP8", stride=stride)[0]) for stride in STRIDES}
    text = " or ".join(f"{value:.2f} (stride in the {stride})" for stride, value in values.items())
    theirs = PUBLISHED["all 1 × 1 FP8"]
    return CheckResult(
        abs(values["3 × 3"] - theirs) < 0.2,
        f"FP8 gradients for all 1 × 1 convolutions but those of shortcuts: {text}; the paper says {theirs}.",
    )


@claim.summary
def measured(results: Results) -> str:
    """The speeds of the mixes, as the model gives them."""
    parts = [f"{mix} {_speeds(results, mix)[0]:.1f}" for mix in MIXES]
    return "; ".join([*parts, f"all 1 × 1 FP8 {_speeds(results, 'all 1 × 1 FP8', stride='3 × 3')[0]:.1f}"]) + " (model)"


claim.draw(
    "products on an area, times FP16",
    lambda results: {
        **{mix: _speeds(results, mix) for mix in MIXES},
        "all 1 × 1 FP8": _speeds(results, "all 1 × 1 FP8", stride="3 × 3"),
    },
    {mix: times for mix, times in PUBLISHED.items() if mix != "bottom 1 × 1 FP8"},
    axis=(0, 8),
    over="areas that round to the stated one",
)

claim.compared(
    theirs_on="a model of the unit",
    ours_on="the same arithmetic",
    rows=(
        {
            "FP8/FP8": "FP8",
            "INT4/FP8": "INT4 forward, FP8 backward",
            "INT4/FP4": "INT4 forward, FP4 backward",
            "dx FP4, dW FP8": "the same, FP8 for dW",
        },
    ),
)
claim.found(
    four_bits_bring_seven, holds="7.3 times the products on an area", fails="not 7.3 times the products on an area"
)
claim.found(the_mixes_follow, holds="the mixes follow", fails="the mixes do not follow")
claim.found(
    a_step_is_as_slow_as_its_slowest_product,
    holds="four bits forward alone bring less than FP8",
    fails="four bits forward alone bring more than FP8",
)

SUN_2020_HARDWARE = claim.build()
