"""Wang et al. 2018: weights of 16 bits stand still under round to nearest where updates are small; a coin moves them.

Everything but the update is float32 here, so that the rounding of the weights is all that differs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lplab.claims.claim import Check, Claim, Finding, Numbers, Point, Results
from lplab.claims.compare import as_good, clearly_above, listed, spread
from lplab.claims.trainings import train

if TYPE_CHECKING:
    from lplab.training import Recipe, Trainer

STEPS = 1000
RATES = (0.05, 0.005, 0.0005)
WAYS = ("float32", "nearest", "stochastic")
SMALL = RATES[-1]
LOOK = 100  # every so many steps: which weights moved


def recipe(way: str) -> Recipe:
    """Weights and momentum in 1-6-9 without a master copy, all three steps of the update rounded."""
    from lplab.training import Recipe, Rule, Update
    from lplab.training.published import STOCHASTIC_14

    rules = {"nearest": Rule("dlfloat16", "nearest_even"), "stochastic": Rule("dlfloat16", STOCHASTIC_14)}
    rule = rules.get(way, Rule())
    return Recipe(name=way, update=Update(weight=rule, momentum=rule))


def measure(point: Point, seed: int) -> Numbers:
    """Train three linear layers on the digits; losses, and the share of weights that a step moves."""
    moved: list[float] = []
    kept: list[np.ndarray] = []

    def watch(trainer: Trainer) -> None:
        if trainer.step % LOOK > 1 or not trainer.step:
            return
        now = np.concatenate([p.detach().numpy().ravel().copy() for p in trainer.model.parameters() if p.ndim > 1])
        if trainer.step % LOOK == 1 and kept:
            moved.append(float((now != kept[-1]).mean()))
        kept[:] = [now]

    done = train("mlp", recipe(point["update"]), STEPS, seed, lr=point["rate"], watch=watch)
    return {**done.numbers(), "moved": round(float(np.mean(moved)), 6)}


POINTS: tuple[Point, ...] = tuple({"rate": rate, "update": way} for rate in RATES for way in WAYS)


def _of(results: Results, way: str, rate: float = SMALL, number: str = "train_loss") -> np.ndarray:
    return results.values(number, rate=rate, update=way)


def nearest_loses(results: Results) -> Finding:
    """At the smallest rate every seed learns clearly less with nearest than in float32."""
    nearest, base = _of(results, "nearest"), _of(results, "float32")
    wrong, right = _of(results, "nearest", number="error"), _of(results, "float32", number="error")
    return Finding(
        clearly_above(nearest, base) and clearly_above(wrong, right),
        f"Learning rate {SMALL:g}: nearest {spread(nearest)} bits and {spread(wrong, 0)} % wrong, float32 "
        f"{spread(base)} bits and {spread(right, 0)} %.",
    )


def coin_does_not(results: Results) -> Finding:
    """With stochastic rounding every rate ends as float32 does, within the spread of its seeds."""
    fine = [as_good(_of(results, "stochastic", rate), _of(results, "float32", rate)) for rate in RATES]
    gaps = [
        float(np.median(_of(results, "stochastic", rate)) - np.median(_of(results, "float32", rate))) for rate in RATES
    ]
    said = listed([f"{gap:+.3f} bits at {rate:g}" for gap, rate in zip(gaps, RATES, strict=True)])
    return Finding(all(fine), f"Stochastic rounding against float32: {said.replace('-', '−')}.")


def large_rates_hide_it(results: Results) -> Finding:
    """The loss of nearest against float32 grows as the learning rate falls."""
    ratios = [
        float(np.median(_of(results, "nearest", rate, "moved")) / np.median(_of(results, "float32", rate, "moved")))
        for rate in RATES
    ]
    said = listed([f"{100 * ratio:.2g} % at {rate:g}" for ratio, rate in zip(ratios, RATES, strict=True)])
    return Finding(
        ratios[0] > ratios[1] > ratios[2],
        f"Of the weights that a step moves in float32, nearest moves {said}: the smaller the rate, the fewer.",
    )


def the_coin_moves_others_each_time(results: Results) -> Finding:
    """The coin moves hardly more weights a step than a few in a hundred, and that is enough."""
    coin, nearest = (float(np.median(_of(results, way, SMALL, "moved"))) for way in ("stochastic", "nearest"))
    return Finding(
        coin > 2 * nearest,
        f"At {SMALL:g} a step moves {100 * coin:.2g} % of the weights with stochastic rounding, {100 * nearest:.2g} % "
        "with nearest: there always the same large updates get through.",
    )


def ours(results: Results) -> str:
    """Test errors at the smallest rate, median and spread."""
    each = (f"{way} {spread(_of(results, way, number='error'), 0, ' %')}" for way in WAYS)
    return f"learning rate {SMALL:g}: {', '.join(each)}"


WANG_2018_UPDATE = Claim(
    id="wang_2018_update",
    version=1,
    title="Small updates of 16-bit weights are lost by round to nearest, and kept on average by a coin",
    paper="N. Wang, J. Choi, D. Brand, C.-Y. Chen, K. Gopalakrishnan: Training deep neural networks with 8-bit "
    "floating point numbers, NeurIPS 2018",
    where="abstract; ablation of the update (second-hand)",
    states="Weights and their update can be held in 16 bits (1-6-9) if the update is rounded stochastically; round to "
    "nearest costs accuracy.",
    theirs="AlexNet: nearest costs about 4 points of accuracy, stochastic rounding none (second-hand)",
    experiment=f"Three linear layers on 8 × 8 digits, {STEPS} steps of SGD with momentum; weights and momentum in "
    "1-6-9 without a copy in more bits; three learning rates.",
    points=POINTS,
    seeds=(0, 1, 2),
    measure=measure,
    shape=(
        Check("At a small learning rate round to nearest learns clearly less", nearest_loses),
        Check("Stochastic rounding is as good as float32 at every rate", coin_does_not),
    ),
    ours=ours,
    explained=(
        Check("The smaller the rate, the fewer weights move", large_rates_hide_it),
        Check("The coin moves more of them", the_coin_moves_others_each_time),
    ),
    budget_seconds=90,
    limits="The small learning rate stands for the late part of a long training: at the rate that suits this network "
    "best, nearest does no visible harm in so few steps.",
)
