"""Choi et al. 2019 (SAWB): where the clip's coefficients come from, and what the clip does for weights of 2 bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import clearly_above, median_and_range
from lplab.claims.framework.trainings import cosine, train
from lplab.quantizers import SAWB
from lplab.quantizers.sawb import SAWB_ROWS, on_levels
from lplab.quantizers.sawb_fit import COUNT, fit

if TYPE_CHECKING:
    from lplab.training import Recipe

STEPS = 300
BITS = 2
PUBLISHED = {4: "2bit", 15: "403", 16: "4bit"}  # levels → row of the coefficients
WITHIN = {4: 1, 15: 5, 16: 5}  # whole percents
FITS = (4, 15, 16, 32)

POINTS: tuple[Point, ...] = (
    *({"levels": levels} for levels in FITS),
    *({"weights": weights} for weights in ("float32", "sawb", "minmax")),
)

claim = ClaimBuilder(
    id="sawb_2019",
    title="Two statistics of the weights give the best clip, and weights of 2 bits need it",
    paper=cite("sawb_2019"),
    where="abstract; coefficients from published code",
    statement="The clip of a uniform quantizer with the least squared error is close to c1·√E[w²] − c2·E|w|, with "
    "coefficients fitted to six kinds of distributions; weights and activations of 2 bits then keep their accuracy.",
    published="c1, c2: 3.12, 2.064 (2 bits), 12.68, 12.80 (16 levels), 12.035, 12.03 (15 levels) (read "
    "in code); weights of 2 bits: SAWB 77.0 %, min-max 70.0 %, float 77.9 % right (second-hand)",
    experiment="The regression over samples of the six distributions, in three sizes; and a residual net of depth 8 on "
    f"cluttered digits, {STEPS} steps, weights on four levels under either clip.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=80,
    limits="Which six distributions, and with which parameters, is known second-hand; activations are float32 here, so "
    "that the clip of the weights is all that differs. A net this small loses several points with 2-bit weights.",
)


@dataclass(frozen=True)
class MinMax:
    """SAWB's levels over ±max|w| instead of ±α.

    >>> MinMax(levels=4).quantize(np.array([-3.0, 0.4, 1.8]))
    array([-3.,  1.,  1.])
    """

    levels: int = 2**BITS

    def quantize(self, w: Any) -> Any:
        """Weights on the grid, as the array or tensor they came as."""
        if isinstance(w, np.ndarray):
            return on_levels(np, w, np.abs(w).max(), self.levels)
        import torch

        values = w.detach()
        return on_levels(torch, values, values.abs().max(), self.levels)


def recipe(weights: str) -> Recipe:
    """Weights on four levels; first, last and shortcut layers float32, and so is everything else."""
    from lplab.training import LayerRules, QuantSpec, Recipe

    quantizer = {"sawb": SAWB(BITS), "minmax": MinMax()}.get(weights)
    wide = dict.fromkeys(("first", "last", "shortcut"), LayerRules())
    return Recipe(name=weights, weight=QuantSpec(quantizer=quantizer), exceptions=wide)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Fit the coefficients for a number of levels (the seed halves the samples); or train the residual net."""
    if "levels" in point:
        values = fit(point["levels"], COUNT >> seed)
        return {"c1": round(values.c1, 6), "c2": round(values.c2, 6), "worst_error": round(values.worst_error, 6)}
    from lplab.training import Recorder

    recorder = Recorder(every=50, roles=("weight",), sample=2**16)
    done = train("resnet", recipe(point["weights"]), STEPS, seed, schedule=cosine(STEPS), recorder=recorder)
    errors = [record.relative_error for record in recorder.records if record.layer.startswith("blocks")]
    return {**done.numbers(), "weight_error": round(float(np.mean(errors or [0.0])), 6)}


def _errors(results: Results, weights: str, number: str = "error") -> np.ndarray:
    return results.values(number, weights=weights)


def off(results: Results, levels: int) -> float:
    """How far the fitted coefficients lie from the published ones, the worse of both and of all samples; percent."""
    row = SAWB_ROWS[PUBLISHED[levels]]
    pairs = ((results.values("c1", levels=levels), row.c1), (results.values("c2", levels=levels), row.c2))
    return 100 * max(float(np.abs(fitted / published - 1).max()) for fitted, published in pairs)


@claim.criterion("The regression gives the published coefficients")
def regression_gives_the_coefficients(results: Results) -> CheckResult:
    """For 4 levels to 1 %, for 15 and 16 levels to 5 %, both in whole percents."""
    values = {levels: off(results, levels) for levels in PUBLISHED}
    pairs = {n: (results.median("c1", levels=n), results.median("c2", levels=n)) for n in PUBLISHED}
    text = "; ".join(
        f"{n} levels {pairs[n][0]:.3f}, {pairs[n][1]:.3f} (published {SAWB_ROWS[PUBLISHED[n]].c1:g}, "
        f"{SAWB_ROWS[PUBLISHED[n]].c2:g}: {values[n]:.1f} % off)"
        for n in PUBLISHED
    )
    return CheckResult(
        all(round(values[n]) <= WITHIN[n] for n in PUBLISHED),
        f"Fitted c1 and c2, medians of three sizes of sample: {text}.",
    )


@claim.criterion("Weights of 2 bits: SAWB is clearly better than min-max")
def better_than_min_max(results: Results) -> CheckResult:
    """With 2-bit weights every seed is better under SAWB's clip than under max|w|."""
    sawb, minmax, base = (_errors(results, name) for name in ("sawb", "minmax", "float32"))
    return CheckResult(
        clearly_above(minmax, sawb),
        f"Weights of 2 bits: SAWB {median_and_range(sawb, 1)} % wrong, min-max {median_and_range(minmax, 1)} %; "
        f"float32 {median_and_range(base, 1)} %.",
    )


@claim.explanation("SAWB rounds the weights better")
def rounds_the_weights_better(results: Results) -> CheckResult:
    """Why: on four levels over ±max|w| most weights are far from a level."""
    sawb, minmax = (_errors(results, name, "weight_error") for name in ("sawb", "minmax"))
    return CheckResult(
        clearly_above(minmax, sawb),
        "What rounding does to the weights, as a root mean square relative to theirs: SAWB "
        f"{100 * np.median(sawb):.0f} %, min-max {100 * np.median(minmax):.0f} %.",
    )


@claim.explanation("The line is good for few levels alone")
def a_line_fits_few_levels(results: Results) -> CheckResult:
    """The line through six distributions is a good clip for 4 levels, and a poor one for 32."""
    few, many = (results.median("worst_error", levels=levels) for levels in (4, 32))
    return CheckResult(
        few < 0.05 < 0.15 < many,
        f"The line misses the best clip of a distribution by at most {100 * few:.0f} % for 4 levels, and by up to "
        f"{100 * many:.0f} % for 32.",
    )


@claim.summary
def measured(results: Results) -> str:
    """The coefficients for 4 levels, and errors, median and spread."""
    fitted = f"{results.median('c1', levels=4):.3f} and {results.median('c2', levels=4):.3f} for 2 bits"
    each = [f"{name} {median_and_range(_errors(results, name), 1, ' %')}" for name in ("float32", "sawb", "minmax")]
    return f"{fitted}; error, 2-bit weights: {', '.join(each)}"


claim.draw(
    "coefficients of the clip, 2 bits",
    lambda results: {"c1": results.values("c1", levels=4), "c2": results.values("c2", levels=4)},
    {"c1": SAWB_ROWS["2bit"].c1, "c2": SAWB_ROWS["2bit"].c2},
    axis=(0, 4),
)
claim.draw(
    "wrong with weights of 2 bits, %",
    lambda results: {name: _errors(results, name) for name in ("float32", "sawb", "minmax")},
)


def in_their_unit(results: Results) -> str:
    """The coefficients for 2 bits, and right answers in percent, in the order of the published ones."""
    c1, c2 = (results.median(name, levels=4) for name in ("c1", "c2"))
    right = [100 - float(np.median(_errors(results, name))) for name in ("sawb", "minmax", "float32")]
    answers = "weights of 2 bits: SAWB {:.1f} %, min-max {:.1f} %, float {:.1f} % right".format(*right)
    return f"c1, c2: {c1:.2f}, {c2:.3f} (2 bits); {answers}"


claim.compared(
    theirs_on="CIFAR-100, a residual net",
    ours_on="cluttered digits, a residual net of depth 8",
    rows=(
        {},
        {"float32": "float32", "sawb": "2-bit weights, SAWB's clip", "minmax": "2-bit weights, clip at the largest"},
    ),
    ours=in_their_unit,
)
claim.found(
    regression_gives_the_coefficients, holds="the paper's coefficients", fails="other coefficients than the paper's"
)
claim.found(
    better_than_min_max,
    holds="better than min-max with 2-bit weights",
    fails="no better than min-max with 2-bit weights",
)
claim.leaves_out("activations stayed in float32")

SAWB_2019 = claim.build()
