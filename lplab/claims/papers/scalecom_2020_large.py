"""ScaleCom with the paper's number of examples for each learner, batch norm, momentum and a warm-up, on real pictures.

The small experiment gives 64 learners one example each, and an element waits for a sixth of the training. Here 4
learners have 32 examples each, as in the paper's runs, and 64 learners 11 each at a learning rate that is scaled up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lplab.claims.framework.branches import above, paired_result, paired_text, within
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.drawing import MEAN
from lplab.claims.framework.float32_end import Float32End
from lplab.claims.framework.parity import ParityRow
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words, median_and_range
from lplab.claims.papers import scalecom_2020 as small
from lplab.claims.papers.scalecom_2020 import SCALECOM_2020
from lplab.compression import Compressor, Dense, ScaleCom, WarmUp

CHUNK, MOMENTUM, RATE = 50, 0.9, 0.1  # the learning rate belongs to batches of 128
WARM_UP = 0.05  # of the steps: uncompressed, and where the rate is scaled, it rises to its value
FALLS = (0.5, 0.75)  # shares of the steps after which the learning rate is a tenth
BASE = 128


@dataclass(frozen=True)
class Setting:
    """How many learners, with how many examples each, for how many steps; the rate grows with the batch.

    ``lost`` is what the paper's table of this setting loses at most, in points of error.
    """

    learners: int
    examples: int
    steps: int
    lost: float

    @property
    def rate(self) -> float:
        """The learning rate at its highest: linear in the global batch."""
        return RATE * self.learners * self.examples / BASE


FEW, MANY = Setting(4, 32, 4500, lost=0.45), Setting(64, 11, 700, lost=0.57)
DENSE, PLAIN, FILTERED = "dense", "plain", "filtered"  # uncompressed; β = 1; β = 0.1
BETAS = {PLAIN: 1.0, FILTERED: 0.1}


def _points(setting: Setting, *methods: str) -> tuple[Point, ...]:
    return tuple({"learners": setting.learners, "method": method} for method in methods)


POINTS: tuple[Point, ...] = (*_points(FEW, DENSE, PLAIN), *_points(MANY, DENSE, FILTERED, PLAIN))
SETTINGS = {setting.learners: setting for setting in (FEW, MANY)}

# ResNet-34 on CIFAR-10: 160 epochs of 391 batches of 128 by 4 workers, one of 92 elements sent. ResNet-18 on ImageNet:
# 90 epochs of 626 batches of 2,048 by 64 workers, one of 112.
_CIFAR_STEPS, _IMAGENET_STEPS = 160 * 391, 90 * 626
_SMALL_EXAMPLES = [64 / n for worlds in small.WORLDS.values() for n in worlds]  # of global batches of 64
_SMALL_WAITS = [chunk / steps for steps, chunk in small.FAMILIES.values()]
_SMALL_SHARES = [1 / chunk for _, chunk in small.FAMILIES.values()]

claim = ClaimBuilder.larger(
    SCALECOM_2020,
    experiment=f"Fashion-MNIST as four channels of 14 × 14, a residual net of eight layers with batch norm for each "
    f"learner alone, SGD with momentum {MOMENTUM} behind the average, one element of {CHUNK} sent, the first "
    f"{100 * WARM_UP:.0f} % of the steps uncompressed, a tenth of the learning rate after half and after three "
    f"quarters of the steps. {FEW.learners} learners with {FEW.examples} examples each for {FEW.steps:,} steps at a "
    f"learning rate of {FEW.rate} and β = 1; {MANY.learners} learners with {MANY.examples} examples each for "
    f"{MANY.steps:,} steps at {MANY.rate:.2f}, to which it rises while nothing is compressed, with β = 0.1 and, to see "
    "what the filter does, with β = 1. Weights, batches and their order are those of the uncompressed run.",
    points=POINTS,
    seeds=(0, 1, 2, 3, 4),
    budget_seconds=3900,
    float32_ends=tuple(
        Float32End(
            "fashion_resnet8",
            {"learners": each.learners, "method": DENSE},
            f"half as wide, {each.learners} learners",
            each.steps,
            each.learners * each.examples,
        )
        for each in (FEW, MANY)
    ),
    limits="One data set, one small net: tensors below 1,024 elements, a seventh of its weights, are sent whole. No "
    "weight decay and no changed pictures. The learning rate was not tuned, neither for ScaleCom nor for uncompressed "
    "gradients.",
    parity=(
        ParityRow(
            "how long an element waits before it is sent, as a share of the steps: 4 learners", 92 / _CIFAR_STEPS,
            "92 times second-hand, 160 epochs recalled", (min(_SMALL_WAITS), max(_SMALL_WAITS)), CHUNK / FEW.steps,
            f"A factor of three takes {round(CHUNK * _CIFAR_STEPS / 92 / 3, -2):,.0f} steps: two and a half times as "
            "many.",
        ),
        ParityRow(
            "how long an element waits before it is sent, as a share of the steps: 64 learners", 112 / _IMAGENET_STEPS,
            "112 times second-hand, 90 epochs recalled", (min(_SMALL_WAITS), max(_SMALL_WAITS)), CHUNK / MANY.steps,
            f"A factor of three takes {round(CHUNK * _IMAGENET_STEPS / 112 / 3, -2):,.0f} steps of 64 learners: some "
            "four hours on one core.",
        ),
        ParityRow(
            "examples of each learner", 32, "second-hand", (min(_SMALL_EXAMPLES), max(_SMALL_EXAMPLES)),
            (MANY.examples, FEW.examples),
        ),
        ParityRow("learners", (4, 64), "second-hand", (4, 64), (FEW.learners, MANY.learners)),
        ParityRow(
            "share of the elements sent", 1 / 92, "ResNet-34, second-hand", (min(_SMALL_SHARES), max(_SMALL_SHARES)),
            1 / CHUNK,
        ),
        ParityRow(
            "learning rate over 1 − momentum: 4 learners", 0.1 / (1 - 0.9), "recalled", None,
            FEW.rate / (1 - MOMENTUM),
        ),
        ParityRow(
            "learning rate over 1 − momentum: 64 learners", 0.8 / (1 - 0.9), "0.1 for 256, linear, recalled",
            None, MANY.rate / (1 - MOMENTUM),
        ),
        ParityRow(
            "share of the steps without compression", 5 / 90, "recalled", small.WARM_UP, WARM_UP,
        ),
        ParityRow("layers with weights", 18, "ResNet-18, second-hand", (3, 5), 8),
        ParityRow("β at the scaled learning rate", 0.1, "second-hand", None, BETAS[FILTERED]),
    ),
    tried=(
        "Uncompressed gradients alone, seed 0, 2,500 steps of 128 examples at the rate 0.1 with momentum 0.9, to "
        "choose how the first convolution takes the pictures: 11.05 % wrong with 2 × 2 pixels of 14 × 14, "
        "11.55 % with 3 × 3, 11.38 % with 4 × 4 of 28 × 28. The stored runs take 3 × 3 of four channels.",
        "20 steps of each arm to time them. Nothing else was tried before, and no compressed training.",
    ),
)  # fmt: skip


def schedule_of(setting: Setting, steps: int) -> Any:
    """The factor of the learning rate at each step: a rise where the rate is scaled up, then two falls to a tenth.

    >>> few, many = (schedule_of(setting, 100) for setting in (FEW, MANY))
    >>> [round(few(step), 3) for step in (0, 49, 50, 75)], round(many(0), 3), many(4)
    ([1.0, 1.0, 0.1, 0.01], 0.345, 1.0)
    """
    rise, lowest = WARM_UP * steps, RATE / setting.rate

    def factor(step: int) -> float:
        fallen: float = 0.1 ** sum(step >= share * steps for share in FALLS)
        return fallen * min(1.0, lowest + (1 - lowest) * (step + 1) / rise)

    return factor


def compressor_of(method: str, steps: int) -> Compressor:
    """The compressor of a method; ScaleCom begins after the steps without compression.

    >>> compressor_of("filtered", 700).dense_steps, compressor_of("filtered", 700).compressor.beta
    (35, 0.1)
    """
    if method == DENSE:
        return Dense()
    return WarmUp(ScaleCom(chunk=CHUNK, beta=BETAS[method]), round(WARM_UP * steps))


def run(learners: int, method: str, seed: int, steps: int) -> dict[str, float]:
    """Train once; the numbers that are stored."""
    from lplab.claims.framework import learner_models
    from lplab.claims.framework.learner_trainings import train

    setting = SETTINGS[learners]
    task = replace(learner_models.fashion_resnet(setting.examples), lr=setting.rate, options=(("momentum", MOMENTUM),))
    finished = train(
        task,
        compressor_of(method, steps),
        learners,
        steps,
        seed,
        batch=learners * setting.examples,
        engine="stacked",
        schedule=schedule_of(setting, steps),
        watch=lambda run: run.ledger.clear() if run.ledger else None,
    )
    return finished.numbers()


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Train once."""
    return run(point["learners"], point["method"], seed, SETTINGS[point["learners"]].steps)


def _of(results: Results, setting: Setting, method: str, number: str = "error") -> np.ndarray:
    return results.values(number, learners=setting.learners, method=method)


def _gap(results: Results, setting: Setting, method: str, number: str = "error") -> np.ndarray:
    """A method minus uncompressed, seed by seed."""
    return _of(results, setting, method, number) - _of(results, setting, DENSE, number)


def _as_good(setting: Setting, method: str) -> Any:
    def check(results: Results) -> CheckResult:
        """The error is surely at most that much above the uncompressed one which the paper's own tables lose."""
        gap = _gap(results, setting, method)
        return paired_result(
            f"{setting.learners} learners, β = {BETAS[method]:g}, minus uncompressed: {paired_text(gap, 2)} points of "
            f"error (uncompressed {median_and_range(_of(results, setting, DENSE))} %), in the test loss "
            f"{paired_text(_gap(results, setting, method, 'loss'))} bits. The paper's table of this setting loses up "
            f"to {setting.lost} points: each pair must surely lose less.",
            within(gap, setting.lost),
        )

    return check


claim.criterion("As accurate as uncompressed with 4 learners")(_as_good(FEW, PLAIN))
claim.criterion("As accurate as uncompressed with 64 learners, a scaled learning rate and the filter")(
    _as_good(MANY, FILTERED)
)


@claim.explanation("At the scaled learning rate the filter helps")
def filter_helps(results: Results) -> CheckResult:
    """Without the filter 64 learners lose more, in pairs."""
    gaps = {method: _gap(results, MANY, method) for method in (PLAIN, FILTERED)}
    return paired_result(
        f"{MANY.learners} learners at a learning rate of {MANY.rate:.2f}: {paired_text(gaps[PLAIN], 2)} points of "
        f"error above uncompressed with β = 1, {paired_text(gaps[FILTERED], 2)} with β = 0.1.",
        above(gaps[PLAIN] - gaps[FILTERED]),
    )


@claim.explanation("What is lost, is lost in training, too")
def training_loss(results: Results) -> CheckResult:
    """The training loss of the last tenth of the steps against uncompressed, in each setting."""
    gaps = [_gap(results, setting, method, "train_loss") for setting, method in ((FEW, PLAIN), (MANY, FILTERED))]
    return paired_result(
        "Training loss of the last tenth of the steps above uncompressed, in bits: "
        + join_words([f"{paired_text(gap)} with {n} learners" for gap, n in zip(gaps, SETTINGS, strict=True)])
        + ".",
        *map(above, gaps),
    )


@claim.summary
def measured(results: Results) -> str:
    """Right answers with 4 and 64 learners."""
    parts = []
    for setting, method in ((FEW, PLAIN), (MANY, FILTERED)):
        ours, dense = (100 - _of(results, setting, m).mean() for m in (method, DENSE))
        parts.append(f"{ours:.2f} % right with {setting.learners} learners (uncompressed {dense:.2f} %)")
    return f"means: {'; '.join(parts)}"


claim.draw(
    "points of error above uncompressed",
    lambda results: {
        f"{setting.learners} learners, β = {BETAS[method]:g}": _gap(results, setting, method)
        for setting, method in ((FEW, PLAIN), (MANY, FILTERED), (MANY, PLAIN))
    },
    {f"{FEW.learners} learners, β = 1": FEW.lost, f"{MANY.learners} learners, β = 0.1": MANY.lost},
    statistic=MEAN,
    differences=True,
)
claim.compared(theirs_on="ImageNet, ResNet-50 and others", ours_on="Fashion-MNIST, a residual net of eight layers")
claim.found(claim.criteria[0].test, holds="as accurate with 4 learners", fails="less accurate with 4 learners")
claim.found(
    claim.criteria[1].test,
    holds=f"with 64 at a scaled rate and with the filter, less than {MANY.lost:g} points lost",
    fails=f"with 64 learners at a scaled rate, {MANY.lost:g} points and more lost",
)

SCALECOM_2020_LARGE = claim.build()
