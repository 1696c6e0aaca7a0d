"""Chen et al. 2020 (ScaleCom): as accurate as dense at 4 to 64 learners; what momentum does to it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.branches import above, paired_result, paired_text, within
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import clearly_above, join_words, median_and_range, within_noise
from lplab.compression import Compressor, Dense, LocalMomentum, ScaleCom, WarmUp

if TYPE_CHECKING:
    from lplab.training.loop.tasks import Task

FC, CONV, TEXT = "fully connected", "convolutional", "Transformer"
FAMILIES = {FC: (300, 50), CONV: (160, 25), TEXT: (200, 25)}  # steps, chunk
WORLDS = {FC: (4, 16, 64), CONV: (4, 64), TEXT: (4, 64)}
WARM_UP = 0.1  # of the steps, uncompressed
MOMENTUM = 0.9
BEHIND, BEFORE, CLEARED = PLACES = ("behind the average", "before what is sent", "before, cleared where sent")
SLOWER, SLOW_STEPS = 0.3, 1000  # the rate of the slow trainings, and their steps: as far as the others in all


def _point(family: str, learners: int, momentum: float = 0.0, beta: float = 1.0, warm_up: bool = True) -> Point:
    return {
        "family": family, "method": "scalecom", "learners": learners,
        "beta": beta, "momentum": momentum, "warm_up": warm_up,
    }  # fmt: skip


def _place(place: str) -> Point:
    """A single learner with momentum at a place, without a warm-up, in which nothing waits."""
    return {**_point(FC, 1, MOMENTUM, warm_up=False), "place": place}


SLOW: tuple[Point, ...] = (
    {**_place(BEHIND), "slow": True},
    {"family": FC, "method": "dense", "momentum": MOMENTUM, "slow": True},
)
"""The same at a lower rate, and dense beside it."""


POINTS: tuple[Point, ...] = (
    *({"family": f, "method": "dense", "momentum": m} for f in FAMILIES for m in (0.0, MOMENTUM)),
    *(_point(f, n) for f in FAMILIES for n in WORLDS[f]),
    *(_point(f, 4, MOMENTUM, beta) for f in FAMILIES for beta in (1.0, 0.3)),
    *(_point(f, 1, MOMENTUM) for f in (FC, CONV)),
    _point(FC, 4, warm_up=False),
    *(_place(place) for place in PLACES),
    *SLOW,
)

claim = ClaimBuilder(
    id="scalecom_2020",
    title="ScaleCom is as accurate as uncompressed gradients with 4 to 64 learners",
    paper=cite("scalecom_2020"),
    where="tables 2 and 3",
    statement="With one element of 47 to 400 sent, accuracy stays that of uncompressed gradients for 4 to 64 workers; "
    "a low-pass filter of the residual (β = 0.1) keeps it so for large batches and learning rates.",
    published="ResNet-50 75.99 % with 8 workers (uncompressed 76.44 %) and 75.90 % with 64 (uncompressed 76.47 %); up "
    "to 0.57 points lost (second-hand); momentum 0.9 outside the residual (recalled)",
    experiment="4 to 64 learners share global batches of 64: three linear layers (300 steps, one element of 50) and "
    "four convolutions (160 steps, one of 25) on the digits by plain SGD, a Transformer of one block on characters "
    "(200 steps, one of 25) by Adam without its first moment; a tenth of the steps uncompressed. Then the same with "
    "momentum 0.9 and a tenth of the learning rate (Adam: its first moment). Last a single learner with momentum at "
    "three places: of the optimizer, behind the average; of the learner, before what is sent; and there, set to zero "
    f"where something was sent, as Deep Gradient Compression does; and the first for {SLOW_STEPS:,} steps at a lower "
    "rate.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=180,
    limits="Short trainings: an element waits 25 or 50 of 160 to 300 steps, in the paper some 100 of 60,000. 64 "
    "learners have one example each, where the paper gives each 32; learning rates are not scaled up with the "
    "learners.",
)


def task_of(family: str, momentum: float) -> Task:
    """The task of a family; with momentum, plain SGD has a learning rate that is smaller by 1 − momentum.

    >>> task_of("fully connected", 0.9).lr.__round__(6), task_of("Transformer", 0.9).lr
    (0.01, 0.003)
    """
    from lplab.claims.framework import learner_models

    makers = {FC: learner_models.fully_connected, CONV: learner_models.convolutions, TEXT: learner_models.transformer}
    task = makers[family]()
    if task.optimizer == "adam":
        return replace(task, options=(("betas", (momentum, 0.999)),))
    return replace(task, lr=task.lr * (1 - momentum), options=(("momentum", momentum),))


def compressor_of(point: Point) -> Compressor:
    """The compressor of a point: dense, or ScaleCom after its warm-up, or with momentum before it."""
    steps, chunk = FAMILIES[point["family"]]
    if point["method"] == "dense":
        return Dense()
    if point.get("place") in (BEFORE, CLEARED):
        return LocalMomentum(ScaleCom(chunk=chunk), MOMENTUM, clear=point["place"] == CLEARED)
    return WarmUp(ScaleCom(chunk=chunk, beta=point["beta"]), round(WARM_UP * steps) if point["warm_up"] else 0)


def run(point: Point, seed: int, steps: int) -> dict[str, float]:
    """Train once; the numbers that are stored.

    >>> point = {"family": "fully connected", "method": "dense", "momentum": 0.0}
    >>> sorted(run(point, seed=0, steps=2))
    ['error', 'loss', 'skipped', 'train_loss']
    """
    from lplab.claims.framework.learner_trainings import train

    task = task_of(point["family"], point["momentum"])
    if point.get("place") in (BEFORE, CLEARED):
        task = replace(task, options=())  # the compressor has the momentum
    if point.get("slow"):
        task = replace(task, lr=task.lr * SLOWER)
    return train(task, compressor_of(point), point.get("learners", 1), steps, seed, engine="stacked").numbers()


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Train once."""
    return run(point, seed, SLOW_STEPS if point.get("slow") else FAMILIES[point["family"]][0])


def _loss(results: Results, point: Point) -> np.ndarray:
    return results.values("loss", **point)


def _dense(results: Results, family: str, momentum: float = 0.0) -> np.ndarray:
    return results.values("loss", family=family, method="dense", momentum=momentum)


def _as_good_at(family: str) -> Any:
    def check(results: Results) -> CheckResult:
        base = _dense(results, family)
        numbers = {n: _loss(results, _point(family, n)) for n in WORLDS[family]}
        text = join_words([f"{median_and_range(numbers[n])} with {n}" for n in WORLDS[family]])
        return CheckResult(
            all(within_noise(values, base) for values in numbers.values()),
            f"{family[0].upper()}{family[1:]}, without momentum: test loss {text} learners; uncompressed "
            f"{median_and_range(base)} bits.",
        )

    return check


for family in FAMILIES:
    claim.criterion(f"{family}: as good as uncompressed at 4 to 64 learners")(_as_good_at(family))


@claim.explanation("With momentum it is clearly worse")
def _momentum_spoils_it(results: Results) -> CheckResult:
    """With momentum behind the average, as the paper has it by our recollection."""
    above, each = [], []
    for family in FAMILIES:
        values, base = _loss(results, _point(family, 4, MOMENTUM)), _dense(results, family, MOMENTUM)
        above.append(clearly_above(values, base))
        each.append(f"{median_and_range(values)} against {median_and_range(base)} ({family})")
    return CheckResult(
        all(above), f"With momentum {MOMENTUM}, 4 learners, β = 1, against uncompressed: {join_words(each)} bits."
    )


@claim.explanation("It is momentum and waiting, not the leader")
def _one_learner_too(results: Results) -> CheckResult:
    """Not the choice of a leader for others: with one learner it is as bad."""
    each, above = [], []
    for family in (FC, CONV):
        values, base = _loss(results, _point(family, 1, MOMENTUM)), _dense(results, family, MOMENTUM)
        above.append(clearly_above(values, base))
        each.append(f"{median_and_range(values)} against {median_and_range(base)} ({family})")
    return CheckResult(
        all(above),
        f"With momentum a single learner, who chooses for nobody else, is worse than without compression, too: "
        f"{join_words(each)} bits. So it is waiting and momentum together, not the leader.",
    )


@claim.explanation("With momentum the low-pass filter helps")
def _filter_helps(results: Results) -> CheckResult:
    """The low-pass filter forgets a part of what waits, and so softens the bursts."""
    pairs = {f: [_loss(results, _point(f, 4, MOMENTUM, beta)) for beta in (0.3, 1.0)] for f in FAMILIES}
    text = [
        f"{median_and_range(soft)} against {median_and_range(plain)} ({family})"
        for family, (soft, plain) in pairs.items()
    ]
    return CheckResult(
        all(np.median(soft) < np.median(plain) for soft, plain in pairs.values()),
        f"With momentum, β = 0.3 against β = 1: {join_words(text)} bits.",
    )


@claim.explanation("The warm-up matters little")
def _warm_up_matters_little(results: Results) -> CheckResult:
    """A warm-up without compression against none."""
    cold, warm = (_loss(results, _point(FC, 4, warm_up=w)) for w in (False, True))
    return CheckResult(
        within_noise(cold, warm),
        f"Fully connected, 4 learners: {median_and_range(cold)} bits without a warm-up, {median_and_range(warm)} after "
        f"{100 * WARM_UP:.0f} % of the steps uncompressed.",
    )


@claim.explanation("Momentum before what is sent does less harm than behind the average")
def _momentum_in_front(results: Results) -> CheckResult:
    """A single learner with momentum at three places, pair by pair."""
    losses = {place: _loss(results, _place(place)) for place in PLACES}
    text = join_words([f"{median_and_range(values)} {place}" for place, values in losses.items()])
    return paired_result(
        f"A single learner, fully connected, test loss in bits with momentum: {text}; uncompressed "
        f"{median_and_range(_dense(results, FC, MOMENTUM))}. Seed by seed the second is "
        f"{paired_text(losses[BEFORE] - losses[BEHIND], 2)} bits from the first.",
        above(losses[BEHIND] - losses[BEFORE]),
    )


@claim.explanation("At a lower rate momentum does no harm, at the paper's place")
def _lower_rate_is_enough(results: Results) -> CheckResult:
    """A training with a lower rate and as many more steps: less than a tenth of the harm is left."""
    behind, dense = (results.values("loss", **point) for point in SLOW)
    harm = _loss(results, _place(BEHIND)) - _dense(results, FC, MOMENTUM)
    return paired_result(
        f"With {SLOWER} times the rate and {SLOW_STEPS:,} steps in place of {FAMILIES[FC][0]}, momentum {BEHIND} is "
        f"{paired_text(behind - dense, 3)} bits above uncompressed training; at the full rate {paired_text(harm, 3)}. "
        "Momentum goes on for ten steps with what waited up to fifty: at a high rate it overshoots.",
        within(behind - dense, 0.1 * float(harm.mean())),
    )


def place_losses() -> dict[str, np.ndarray]:
    """The stored test losses of a single learner with momentum at each place, and of "dense", in bits: [seeds].

    >>> [*place_losses()][:2]
    ['dense', 'behind the average']
    """
    from lplab.claims.framework.store import read_stored

    results = read_stored(SCALECOM_2020).results(SCALECOM_2020)
    rows = {place: _loss(results, _place(place)) for place in PLACES}
    slow = {f"behind, {SLOWER} × the rate": results.values("loss", **SLOW[0])}
    return {"dense": _dense(results, FC, MOMENTUM), **rows, **slow}


@claim.summary
def measured(results: Results) -> str:
    """Losses with 64 learners, and with momentum."""
    parts = []
    for family in FAMILIES:
        values = [_loss(results, _point(family, 64)), _dense(results, family)]
        values += [_loss(results, _point(family, 4, MOMENTUM)), _dense(results, family, MOMENTUM)]
        many, base, few, few_base = map(np.median, values)
        parts.append(
            f"{family} {many:.2f} bits with 64 learners (uncompressed {base:.2f}), with momentum {few:.2f} "
            f"(uncompressed {few_base:.2f})"
        )
    return "; ".join(parts)


claim.draw(
    "test loss, bits",
    lambda results: {
        f"{family}, {name}{', momentum' if momentum else ''}": values
        for family in FAMILIES
        for n, momentum in ((64, 0.0), (4, MOMENTUM))
        for name, values in (
            (f"{n} learners", _loss(results, _point(family, n, momentum))),
            ("uncompressed", _dense(results, family, momentum)),
        )
    },
)


def in_their_unit(results: Results) -> str:
    """Right answers in percent: with 64 learners, and uncompressed."""
    parts = []
    for family in FAMILIES:
        ours = results.values("error", **_point(family, 64))
        dense = results.values("error", family=family, method="dense", momentum=0.0)
        parts.append(
            f"{family} {100 - np.median(ours):.1f} % right with 64 learners "
            f"(uncompressed {100 - np.median(dense):.1f} %)"
        )
    return "; ".join(parts)


claim.compared(
    theirs_on="ImageNet, ResNet-50 and others",
    ours_on="8 × 8 digits, two networks; characters, a Transformer",
    rows=(
        {
            "fully connected, 64 learners": "fully connected, 64 learners",
            "fully connected, uncompressed": "fully connected, uncompressed",
            "Transformer, 64 learners": "Transformer, 64 learners",
            "Transformer, uncompressed": "Transformer, uncompressed",
        },
    ),
    ours=in_their_unit,
)
claim.found(
    claim.criteria[0].test,
    claim.criteria[1].test,
    holds="two networks for digits as good as uncompressed",
    fails="networks for digits worse than uncompressed",
)
claim.found(claim.criteria[2].test, holds="the Transformer, too", fails="the Transformer is worse")
claim.found(
    _momentum_spoils_it, holds="all three are worse with momentum", fails="with momentum not all three are worse"
)

SCALECOM_2020 = claim.build()
