"""Tseng et al. 2025: nearest rounding in MXFP4 biases gradients; stochastic rounding after a pre-scale does not.

Gradients are compared at the same weights and batches, so that nothing but the rounding of the backward pass differs:
the forward pass is float32. A slope below 1 is a gradient that shrinks. Two things can shrink it, and they are measured
apart: the scale of OCP, which clips the largest numbers, and rounding to the nearest value, which makes small numbers
zero. The criteria were written before the measurement.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.branches import above, checkpoint, paired_result, surely_above, within
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.models import branch_transformer
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import median_and_range
from lplab.claims.framework.trainings import one_thread

if TYPE_CHECKING:
    from lplab.training import Recipe

BEFORE, BATCHES, DRAWS = 500, 2, 12  # steps in float32; batches; gradients that are averaged
SHRUNK, UNBIASED = 0.95, 0.02  # a slope below is shrunk; a slope so close to 1 is not
FLOOR, PRE_SCALED, UP = "OCP", "OCP, 3/4", "rounded up"
SCALES: dict[str, dict[str, Any]] = {
    FLOOR: {"pre_scale": 1.0},
    PRE_SCALED: {"pre_scale": 0.75},
    UP: {"pre_scale": 1.0, "scale_rule": "rceil"},
}
"""The switches of the recipe behind each way to choose the scales."""
NEAREST, STOCHASTIC = "nearest_even", "stochastic"
PLAIN = {"format": "MXFP4", "rounding": NEAREST, "scale": FLOOR, "hadamard": 0}
PUBLISHED_RECIPE = {"format": "MXFP4", "rounding": STOCHASTIC, "scale": PRE_SCALED, "hadamard": 32}
UNCLIPPED = {**PLAIN, "scale": PRE_SCALED}
UNCLIPPED_UP = {**PLAIN, "scale": UP}
CLIPPED_DRAWS = {**PLAIN, "rounding": STOCHASTIC}
DRAWN = {**PUBLISHED_RECIPE, "hadamard": 0}
NVFP4 = {"format": "NVFP4", "rounding": NEAREST}

POINTS: tuple[Point, ...] = (PLAIN, UNCLIPPED, UNCLIPPED_UP, CLIPPED_DRAWS, DRAWN, PUBLISHED_RECIPE, NVFP4)

claim = ClaimBuilder(
    id="mxfp4_shrink_2025",
    title="MXFP4 rounded to nearest shrinks gradients; stochastic rounding, averaged, does not",
    paper=cite("tseng_2025"),
    where="abstract; section on unbiased rounding",
    statement="MXFP4 in place of BF16 degrades a model. With stochastic rounding, after a pre-scale of 3/4 so that "
    "nothing is clipped, gradients are unbiased; the Hadamard transform bounds their variance.",
    published="345 million parameters, validation loss: BF16 2.49, MXFP4 2.60, with stochastic rounding and Hadamard "
    "2.51 (second-hand); no slopes",
    experiment=f"A character Transformer of two blocks after {BEFORE} steps in float32: its gradient g, and ĝ with all "
    f"operands of the backward pass in MXFP4, at the same weights and {BATCHES} batches. The slope is ⟨ĝ, g⟩ / ⟨g, g⟩, "
    f"the error ‖ĝ − g‖ / ‖g‖; of stochastic rounding for one draw and for the mean of {DRAWS}.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=30,
    limits="A Transformer of 114 thousand parameters; in a long training many steps average draws, at weights that "
    "move. The paper publishes losses; the slope is our measure of what it calls bias. That unbiased gradients are "
    "what matters is disputed: arXiv 2605.09825 (its abstract read) finds that stochastic rounding does not help at 8 "
    "billion parameters.",
)


def recipe_of(point: Point) -> Recipe:
    """The recipe of a point: the backward pass in four bits, all else float32.

    >>> recipe_of(PLAIN).weight_dx.format.label, recipe_of(PLAIN).weight.format.label
    ('mxfp4', 'fp32')
    """
    from lplab.training import recipes

    backward_only = {"forward": "fp32", "wide": "fp32"}
    if point["format"] == "NVFP4":
        plain = {"hadamard": 0, "weight_tile": None, "late": 0.0}
        return recipes.get("nvfp4_2025", rounding=point["rounding"], **plain, **backward_only)
    how = {"rounding": point["rounding"], "hadamard": point["hadamard"], **SCALES[point["scale"]]}
    return recipes.get("mxfp4_2025", **how, **backward_only)


@cache
def _checkpoint(seed: int) -> Any:
    model = branch_transformer().model(seed)
    model.load_state_dict(checkpoint(branch_transformer(), seed, BEFORE)["model"])
    return model


def gradient(recipe: str | Recipe, seed: int, batch: int, draw: int = 0) -> np.ndarray:
    """The gradient of all matrices inside the blocks at the checkpoint, one after the other, float64.

    Args:
        recipe: of the products.
        seed: of the checkpoint and its batches.
        batch: counted from the checkpoint on.
        draw: of the random bits.
    """
    import torch
    from torch.nn import functional

    from lplab.training import quantize_model

    task = branch_transformer()
    model = quantize_model(_checkpoint(seed), recipe, seed=draw).train()
    inputs, targets = task.data(task.batch, seed)(BEFORE + batch)
    with one_thread():
        functional.cross_entropy(model(inputs).flatten(0, -2), targets.flatten()).backward()
    parts = [p.grad.flatten() for name, p in model.named_parameters() if name.startswith("blocks.") and p.ndim == 2]
    return torch.cat(parts).numpy().astype(np.float64)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Slope and error of one gradient and of the mean of several draws; means over the batches.

    Without stochastic rounding all draws are one, and both pairs of numbers are the same.
    """
    recipe = recipe_of(point)
    draws = DRAWS if point["rounding"] == STOCHASTIC else 1
    rows = []
    for batch in range(BATCHES):
        exact = gradient("fp32", seed, batch)
        rounded = np.stack([gradient(recipe, seed, batch, draw) for draw in range(draws)])
        mean = rounded.mean(0)
        single = [_compared(one, exact) for one in rounded]
        rows.append([*np.mean(single, axis=0), *_compared(mean, exact)])
    names = ("slope", "error", "slope_of_mean", "error_of_mean")
    return {name: round(float(value), 6) for name, value in zip(names, np.mean(rows, axis=0), strict=True)}


def _compared(rounded: np.ndarray, exact: np.ndarray) -> tuple[float, float]:
    """Slope and relative error of a rounded gradient.

    >>> _compared(np.array([1.0, 0.0]), np.array([2.0, 0.0]))
    (0.5, 0.5)
    """
    slope = float(rounded @ exact) / float(exact @ exact)
    return slope, float(np.linalg.norm(rounded - exact) / np.linalg.norm(exact))


def _of(results: Results, point: Point, number: str) -> np.ndarray:
    return results.values(number, **point)


@claim.criterion("Nearest rounding shrinks the gradient")
def nearest_shrinks(results: Results) -> CheckResult:
    """The slope of MXFP4 as OCP has it, rounded to nearest, is surely below 0.95."""
    slope = _of(results, PLAIN, "slope")
    text = f"MXFP4 with OCP's scales, rounded to nearest: slope {median_and_range(slope, 3)}."
    return paired_result(text, within(slope, SHRUNK))


@claim.criterion("Stochastic rounding after the pre-scale does not")
def draws_do_not_shrink(results: Results) -> CheckResult:
    """The slope of the mean of the draws is within 0.02 of 1 on every seed, with the transform and without it."""
    slopes = {way: _of(results, point, "slope_of_mean") for way, point in _published_ways().items()}
    text = "; ".join(f"{way} {median_and_range(slope, 3)}" for way, slope in slopes.items())
    return CheckResult(
        all(bool((abs(slope - 1) < UNBIASED).all()) for slope in slopes.values()),
        f"Slope of the mean of {DRAWS} draws after a pre-scale of 3/4: {text}.",
    )


def _published_ways() -> dict[str, Point]:
    return {"without Hadamard": DRAWN, "with Hadamard": PUBLISHED_RECIPE}


@claim.criterion("The mean of draws comes closer than nearest rounding")
def averaging_repairs(results: Results) -> CheckResult:
    """The error of the mean of the draws is less than half of a single draw's, and surely below that of nearest."""
    nearest, one, many = (
        _of(results, point, number) for point, number in ((PLAIN, "error"), (DRAWN, "error"), (DRAWN, "error_of_mean"))
    )
    return CheckResult(
        surely_above(nearest - many) and bool((many < one / 2).all()),
        f"Error of the gradient: nearest {100 * np.median(nearest):.0f} %, one draw {100 * np.median(one):.0f} %, the "
        f"mean of {DRAWS} draws {100 * np.median(many):.0f} %.",
    )


@claim.explanation("The scale rule is a part of it, the rounding another")
def two_parts(results: Results) -> CheckResult:
    """What shrinks: draws with OCP's scales have clipping alone, nearest rounding after the pre-scale none of it."""
    clipped = 1 - _of(results, CLIPPED_DRAWS, "slope_of_mean")
    rounded = 1 - _of(results, UNCLIPPED, "slope")
    whole = 1 - _of(results, PLAIN, "slope")
    up = 1 - _of(results, UNCLIPPED_UP, "slope")
    return paired_result(
        f"Of the {100 * np.median(whole):.1f} % that nearest rounding with OCP's scales takes away: clipping alone "
        f"(OCP's scales, stochastic) takes {100 * np.median(clipped):.1f} %, rounding to nearest alone (3/4, nothing "
        f"clipped) {100 * np.median(rounded):.1f} %, and with scales rounded up, which clip nothing either, "
        f"{100 * np.median(up):.1f} %.",
        above(clipped),
        above(rounded),
    )


@claim.explanation("NVFP4 shrinks less than half as much")
def nvfp4_shrinks_less(results: Results) -> CheckResult:
    """NVFP4 has smaller blocks and finer scales, and clips nothing."""
    mxfp4, nvfp4 = (1 - _of(results, point, "slope") for point in (PLAIN, NVFP4))
    return CheckResult(
        bool((nvfp4 < mxfp4 / 2).all()),
        f"NVFP4 rounded to nearest takes away {100 * np.median(nvfp4):.1f} % of the gradient, MXFP4 "
        f"{100 * np.median(mxfp4):.1f} %.",
    )


@claim.explanation("A single draw is further off than nearest rounding")
def one_draw_is_worse(results: Results) -> CheckResult:
    """Why draws need averaging: one of them has a larger error than nearest rounding."""
    one, nearest = _of(results, DRAWN, "error"), _of(results, UNCLIPPED, "error")
    return paired_result(
        f"One draw is {100 * np.median(one):.0f} % off, nearest rounding after the same pre-scale "
        f"{100 * np.median(nearest):.0f} %: without bias is not without error.",
        above(one - nearest),
    )


@claim.explanation("The Hadamard transform makes draws scatter less")
def transform_bounds_the_variance(results: Results) -> CheckResult:
    """The paper's second sentence: the error of a single draw is smaller with the transform."""
    plain, transformed = (_of(results, point, "error") for point in (DRAWN, PUBLISHED_RECIPE))
    return paired_result(
        f"One draw is {100 * np.median(plain):.0f} % off without the transform and {100 * np.median(transformed):.0f} "
        "% with it.",
        above(plain - transformed),
    )


@claim.summary
def measured(results: Results) -> str:
    """Slopes of nearest and stochastic rounding, and errors."""
    nearest, nvfp4 = (median_and_range(_of(results, point, "slope"), 3) for point in (PLAIN, NVFP4))
    drawn = median_and_range(_of(results, DRAWN, "slope_of_mean"), 3)
    return (
        f"slope of MXFP4 to nearest {nearest}, of NVFP4 {nvfp4}, of stochastic MXFP4 {drawn}. "
        f"{averaging_repairs(results).sentence.removesuffix('.')}"
    )


ROWS: dict[str, tuple[Point, str]] = {
    "MXFP4, nearest": (PLAIN, "slope"),
    "3/4, nearest": (UNCLIPPED, "slope"),
    "OCP's scales, draws": (CLIPPED_DRAWS, "slope_of_mean"),
    "3/4, draws": (DRAWN, "slope_of_mean"),
    "3/4, Hadamard, draws": (PUBLISHED_RECIPE, "slope_of_mean"),
    "NVFP4, nearest": (NVFP4, "slope"),
}

claim.draw(
    "slope of the rounded gradient; 1 has the right length",
    lambda results: {name: _of(results, point, number) for name, (point, number) in ROWS.items()},
    axis=(0.8, 1.05),
)
claim.draw(
    "error of the gradient, %",
    lambda results: {
        "MXFP4, nearest": 100 * _of(results, PLAIN, "error"),
        "3/4, one draw": 100 * _of(results, DRAWN, "error"),
        f"3/4, mean of {DRAWS}": 100 * _of(results, DRAWN, "error_of_mean"),
    },
    axis=(0, 40),
)

claim.compared(
    theirs_on="a language model of 345 million parameters",
    ours_on="characters, a small Transformer",
    rows=(
        {
            "MXFP4, nearest": "MXFP4, nearest",
            "3/4, draws": "MXFP4, by chance, scaled by 3/4",
            "NVFP4, nearest": "NVFP4, nearest",
        },
    ),
)
claim.found(
    nearest_shrinks, holds="rounded to nearest, gradients shrink", fails="rounded to nearest, gradients do not shrink"
)
claim.found(draws_do_not_shrink, holds="rounded by chance they do not", fails="rounded by chance they shrink, too")
claim.found(averaging_repairs, holds="the mean of 12 draws is closer", fails="the mean of 12 draws is no closer")
claim.leaves_out("no training was run")

MXFP4_SHRINK_2025 = claim.build()
