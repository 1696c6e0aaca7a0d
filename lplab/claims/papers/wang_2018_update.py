"""Wang et al. 2018: small updates do not move 16-bit weights under round to nearest; stochastic rounding moves them.

Everything but the update is float32 here, so that the rounding of the weights is all that differs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import clearly_above, join_words, median_and_range, within_noise
from lplab.claims.framework.trainings import train

if TYPE_CHECKING:
    from lplab.training import Recipe, Trainer

STEPS = 1000
LEARNING_RATES = (0.05, 0.005, 0.0005)
VARIANTS = ("float32", "nearest", "stochastic")
SMALLEST_RATE = LEARNING_RATES[-1]
SAMPLE_INTERVAL = 100  # every so many steps: which weights moved

POINTS: tuple[Point, ...] = tuple({"rate": rate, "update": way} for rate in LEARNING_RATES for way in VARIANTS)

claim = ClaimBuilder(
    id="wang_2018_update",
    title="Small updates of 16-bit weights are lost by round to nearest, and kept on average by stochastic rounding",
    paper=cite("wang_2018"),
    where="abstract; ablation of the update (second-hand)",
    statement="Weights and their update can be held in 16 bits (1-6-9) if the update is rounded stochastically; round "
    "to nearest costs accuracy.",
    published="nearest costs about 4 points of accuracy, stochastic rounding none (second-hand)",
    experiment=f"Three linear layers on 8 × 8 digits, {STEPS} steps of SGD with momentum; weights and momentum in "
    "1-6-9 without a copy in more bits; three learning rates.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=40,
    limits="The small learning rate stands for the late part of a long training: at the learning rate that suits this "
    "network best, nearest does no visible harm in so few steps.",
)


def recipe(way: str) -> Recipe:
    """Weights and momentum in 1-6-9 without a master copy, all three steps of the update rounded."""
    from lplab.training import QuantSpec, Recipe, Update
    from lplab.training.recipe.published_8bit import STOCHASTIC_14

    rules = {"nearest": QuantSpec("dlfloat16", "nearest_even"), "stochastic": QuantSpec("dlfloat16", STOCHASTIC_14)}
    rule = rules.get(way, QuantSpec())
    return Recipe(name=way, update=Update(weight=rule, momentum=rule))


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Train three linear layers on the digits; losses, and the share of weights that a step moves."""
    moved: list[float] = []
    kept: list[np.ndarray] = []

    def watch(trainer: Trainer) -> None:
        if trainer.step % SAMPLE_INTERVAL > 1 or not trainer.step:
            return
        now = np.concatenate([p.detach().numpy().ravel().copy() for p in trainer.model.parameters() if p.ndim > 1])
        if trainer.step % SAMPLE_INTERVAL == 1 and kept:
            moved.append(float((now != kept[-1]).mean()))
        kept[:] = [now]

    done = train("mlp", recipe(point["update"]), STEPS, seed, lr=point["rate"], watch=watch)
    return {**done.numbers(), "moved": round(float(np.mean(moved)), 6)}


def _of(results: Results, way: str, rate: float = SMALLEST_RATE, number: str = "train_loss") -> np.ndarray:
    return results.values(number, rate=rate, update=way)


@claim.criterion("At a small learning rate round to nearest learns clearly less")
def nearest_loses(results: Results) -> CheckResult:
    """At the smallest learning rate every seed learns clearly less with nearest than in float32."""
    nearest, base = _of(results, "nearest"), _of(results, "float32")
    wrong, right = _of(results, "nearest", number="error"), _of(results, "float32", number="error")
    return CheckResult(
        clearly_above(nearest, base) and clearly_above(wrong, right),
        f"Learning rate {SMALLEST_RATE:g}: nearest {median_and_range(nearest)} bits and {median_and_range(wrong, 0)} % "
        f"wrong, float32 {median_and_range(base)} bits and {median_and_range(right, 0)} %.",
    )


@claim.criterion("Stochastic rounding is as good as float32 at every learning rate")
def stochastic_does_not(results: Results) -> CheckResult:
    """With stochastic rounding every learning rate ends as float32 does, within the spread of its seeds."""
    pairs = {rate: [_of(results, way, rate) for way in ("stochastic", "float32")] for rate in LEARNING_RATES}
    fine = [within_noise(stochastic, base) for stochastic, base in pairs.values()]
    text = join_words(
        [f"{np.median(ours) - np.median(base):+.3f} bits at {rate:g}" for rate, (ours, base) in pairs.items()]
    )
    return CheckResult(all(fine), f"Stochastic rounding against float32: {text.replace('-', '−')}.")


@claim.explanation("The smaller the learning rate, the fewer weights move")
def small_learning_rates_lose_more(results: Results) -> CheckResult:
    """The loss of nearest against float32 grows as the learning rate falls."""
    pairs = [[np.median(_of(results, way, rate, "moved")) for way in ("nearest", "float32")] for rate in LEARNING_RATES]
    ratios = [float(nearest / base) for nearest, base in pairs]
    text = join_words([f"{100 * ratio:.2g} % at {rate:g}" for ratio, rate in zip(ratios, LEARNING_RATES, strict=True)])
    return CheckResult(
        ratios[0] > ratios[1] > ratios[2],
        f"Of the weights that a step moves in float32, nearest moves {text}: the smaller the learning rate, the fewer.",
    )


@claim.explanation("Stochastic rounding moves more of them")
def stochastic_moves_others_each_time(results: Results) -> CheckResult:
    """Stochastic rounding moves only a few weights in a hundred at each step, and that is enough."""
    stochastic, nearest = (
        float(np.median(_of(results, way, SMALLEST_RATE, "moved"))) for way in ("stochastic", "nearest")
    )
    return CheckResult(
        stochastic > 2 * nearest,
        f"At {SMALLEST_RATE:g} a step moves {100 * stochastic:.2g} % of the weights with stochastic rounding, "
        f"{100 * nearest:.2g} % with nearest: there always the same large updates get through.",
    )


@claim.summary
def measured(results: Results) -> str:
    """Test errors at the smallest learning rate, median and spread."""
    each = (f"{way} {median_and_range(_of(results, way, number='error'), 0, ' %')}" for way in VARIANTS)
    return f"median share wrong at learning rate {SMALLEST_RATE:g}: {', '.join(each)}"


claim.draw(
    f"wrong at learning rate {SMALLEST_RATE:g}, %",
    lambda results: {way: _of(results, way, number="error") for way in VARIANTS},
)

claim.compared(theirs_on="ImageNet, AlexNet", ours_on="8 × 8 digits, three linear layers")
claim.found(
    nearest_loses,
    holds="at a small learning rate nearest learns clearly less",
    fails="nearest learns as well at a small learning rate",
)
claim.found(
    stochastic_does_not, holds="stochastic rounding as good as float32", fails="stochastic rounding worse than float32"
)

WANG_2018_UPDATE = claim.build()
