"""Micikevicius et al. 2018: float16 trains as float32 does where the loss is scaled; small gradients vanish otherwise.

The factor at issue is how small the gradients are. It is varied here by a constant loss scale: a scale of 2⁻⁸ is what
a loss divided by 256 does to the backward pass, a mean over 256 micro-batches for example.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import (
    clearly_above,
    join_words,
    median_and_range,
    power_of_two,
    within_noise,
)
from lplab.claims.framework.trainings import train

if TYPE_CHECKING:
    from lplab.training import Recorder

STEPS = 200
SCALES = (-12, -8, -4, 0, 8, 24)  # log2 of the constant loss scales
SMALL_LOG2 = -8  # gradients of this size vanish
GRADIENTS = "output_gradient_dx"
SCORES, LINEAR = "*.attention/matmul", "*.mlp.down"  # products whose output gradients are watched
CLEAR_LOSS = 0.1  # bits a character: a loss of quality that nobody would overlook

POINTS: tuple[Point, ...] = (
    {"recipe": "fp32"},
    {"recipe": "fp16_mixed", "scale": "dynamic"},
    *({"recipe": "fp16_mixed", "scale": exponent} for exponent in SCALES),
)

claim = ClaimBuilder(
    id="micikevicius_2018",
    title="float16 trains as float32 does with a loss scale; without one, small gradients vanish",
    paper=cite("micikevicius_2018"),
    where="abstract; section 3.2",
    statement="Networks train in IEEE half precision with float32 master weights, and as well as in float32, if the "
    "loss is scaled so that small gradients do not become zero.",
    published="accuracy of float32 (abstract, read); a detector (SSD) that diverges "
    "without a scale, and networks that need none (recalled)",
    experiment=f"The character Transformer, {STEPS} steps, everything that goes into a product or comes out of it in "
    "float16: dynamic loss scaling and constant scales. A scale of 2⁻⁸ stands for gradients 256 times smaller, as a "
    "mean over 256 times as many characters has them.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=310,
    limits="A Transformer of 164 thousand parameters on batches of 1,024 characters: its gradients are large, and it "
    "needs no scale; small ones are made by dividing the loss. Sums are float32's; float16 is emulated in float32.",
)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Train the character Transformer: losses, and which shares of two kinds of gradients became zero."""
    from lplab.training import Recorder, recipes

    switches = {"loss_scale": _scale(point["scale"])} if point["recipe"] == "fp16_mixed" else {}
    recorder = Recorder(every=40, roles=(GRADIENTS,))
    done = train("transformer", recipes.get(point["recipe"], **switches), STEPS, seed, recorder=recorder)
    return {**done.numbers(), "scores_lost": _lost(recorder, SCORES), "linear_lost": _lost(recorder, LINEAR)}


def _lost(recorder: Recorder, layers: str) -> float:
    """The share of these layers' output gradients that became zero; 0 in float32, which rounds none."""
    values = [record.underflowed for record in recorder.records if fnmatchcase(record.layer, layers)]
    return round(float(np.mean(values)), 6) if values else 0.0


def _scale(scale: int | str) -> float | str:
    return scale if isinstance(scale, str) else 2.0**scale


def _losses(results: Results, scale: int | str, number: str = "loss") -> np.ndarray:
    return results.values(number, recipe="fp16_mixed", scale=scale)


def _float32(results: Results) -> np.ndarray:
    return results.values("loss", recipe="fp32")


@claim.criterion("With loss scaling float16 is as good as float32")
def scaled_is_as_good(results: Results) -> CheckResult:
    """With a dynamic loss scale: as good as float32 within the seeds' own spread."""
    scaled, base = _losses(results, "dynamic"), _float32(results)
    return CheckResult(
        within_noise(scaled, base),
        f"float16 with dynamic loss scaling {median_and_range(scaled)}, float32 {median_and_range(base)} bits a "
        "character.",
    )


@claim.criterion("Without it small gradients vanish, and the network learns clearly less")
def small_gradients_vanish(results: Results) -> CheckResult:
    """Where gradients are 256 times smaller: clearly worse than float32 on every seed."""
    small, base = _losses(results, SMALL_LOG2), _float32(results)
    gap = float(np.median(small) - np.median(base))
    return CheckResult(
        clearly_above(small, base) and gap > CLEAR_LOSS,
        f"Gradients {2**-SMALL_LOG2} times smaller, not scaled up: {median_and_range(small)} bits a character, "
        f"{gap:+.2f} against float32.",
    )


@claim.explanation("A window of constant scales does as well")
def a_window_of_scales_is_good(results: Results) -> CheckResult:
    """One constant scale does as well, within a window: too small loses gradients, too large overflows."""
    base = _float32(results)
    good = [k for k in SCALES if within_noise(_losses(results, k), base)]
    low, high = (_losses(results, k, n) for k, n in ((SCALES[0], "loss"), (SCALES[-1], "diverged")))
    text = f"good are {join_words([power_of_two(k) for k in good])}" if good else "none is good"
    return CheckResult(
        len(good) >= 2 and clearly_above(low, base) and bool(high.min() == 1),
        f"Of {len(SCALES)} constant scales that were tried ({', '.join(map(power_of_two, SCALES))}) {text}; at "
        f"{power_of_two(SCALES[-1])} {int(high.sum())} of {len(high)} runs overflow.",
    )


@claim.explanation("The attention scores lose far more of their gradients than the layers after them")
def attention_goes_first(results: Results) -> CheckResult:
    """Why: all but all gradients of the attention scores become zero, and less than half of those after them.

    That is said of shares of elements. Whether it hurts depends on the length that goes with them: the gradients of
    the head are smaller still, and lose next to none of it (lab 03).
    """
    scores, linear = (
        {k: float(np.median(_losses(results, k, number))) for k in (SMALL_LOG2, 0, 8)}
        for number in ("scores_lost", "linear_lost")
    )
    text = join_words([f"{100 * share:.2g} % at {power_of_two(k)}" for k, share in scores.items()])
    return CheckResult(
        scores[SMALL_LOG2] > 0.9 > scores[0] > scores[8] and linear[SMALL_LOG2] < 0.5 * scores[SMALL_LOG2],
        f"Of the gradients of the attention scores become zero: {text}; of those of the layers after them "
        f"{100 * linear[SMALL_LOG2]:.2g} % at {power_of_two(SMALL_LOG2)}.",
    )


@claim.explanation("At its own size of gradients the small network needs no scale")
def not_needed_here(results: Results) -> CheckResult:
    """At its own size of gradients this network needs no scale: its batches are small, so its gradients are large."""
    plain, base = _losses(results, 0), _float32(results)
    return CheckResult(
        within_noise(plain, base),
        f"With its own gradients, a mean over 1,024 characters, the network needs no scale: {median_and_range(plain)} "
        "bits.",
    )


@claim.summary
def measured(results: Results) -> str:
    """Bits a character, median and spread."""
    parts = [
        f"float32 {median_and_range(_float32(results))}",
        f"dynamic scale {median_and_range(_losses(results, 'dynamic'))}",
    ]
    parts += [f"no scale {median_and_range(_losses(results, 0))}"]
    return "; ".join(
        [
            *parts,
            f"gradients {2**-SMALL_LOG2} times smaller {median_and_range(_losses(results, SMALL_LOG2))} bits a "
            "character",
        ]
    )


claim.draw(
    "test loss, bits a character",
    lambda results: {
        "float32": _float32(results),
        "float16, dynamic scale": _losses(results, "dynamic"),
        "float16, no scale": _losses(results, 0),
        f"gradients {2**-SMALL_LOG2} times smaller": _losses(results, SMALL_LOG2),
    },
)

claim.compared(
    theirs_on="a wide variety of networks",
    ours_on="characters, a small Transformer",
    rows=(
        {
            "float32": "float32",
            "float16, dynamic scale": "float16, loss scale",
            "float16, no scale": "float16, no scale",
            "gradients 256 times smaller": "float16, no scale, gradients 256 times smaller",
        },
    ),
)
claim.found(
    scaled_is_as_good, holds="with a loss scale as good as float32", fails="with a loss scale worse than float32"
)
claim.found(not_needed_here, holds="without one, too", fails="without one it is worse", limits=True)
claim.found(
    small_gradients_vanish,
    holds="worse only with gradients made 256 times smaller",
    fails="not worse with gradients made 256 times smaller",
)

MICIKEVICIUS_2018 = claim.build()
