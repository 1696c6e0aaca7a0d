"""Error feedback on a residual net with batch norm, as the paper has it: one learner, batches of 128, plain SGD.

The convolutional net of the small experiment has no normalization, and its seeds differ by more than signs cost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lplab.claims.framework.branches import above, paired_result, paired_text, within
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.drawing import MEAN
from lplab.claims.framework.float32_end import Float32End
from lplab.claims.framework.parity import ParityRow
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words, mean_and_range
from lplab.claims.papers import error_feedback as small
from lplab.claims.papers.error_feedback import DENSE, DENSITY, ERROR_FEEDBACK, SIGN, TOPK, compressor_of

STEPS, LEARNERS, BATCH = 2000, 1, 128
RATES = {(DENSE, True): 1.0, (TOPK, True): 1.0, (TOPK, False): 1.0, (SIGN, True): 1.0, (SIGN, False): 1.0}
"""The learning rate of each method, with memory and without: the best of :data:`TRIED_RATES` for each."""
TRIED_RATES = (0.1, 0.3, 1.0, 3.0)
FALLS = (0.5, 0.75)  # shares of the steps after which the learning rate is a tenth
AS_GOOD = 0.5  # points of error above dense: "as well as plain SGD"
METHODS = {TOPK: "Top-k", SIGN: "Signs"}

POINTS: tuple[Point, ...] = tuple({"method": method, "memory": memory} for method, memory in RATES)
_STEPS_OF_THE_PAPER = 200 * 391

claim = ClaimBuilder.larger(
    ERROR_FEEDBACK,
    experiment=f"One learner trains a residual net of eight layers with batch norm on Fashion-MNIST, as four channels "
    f"of 14 × 14, by plain SGD: {STEPS:,} steps of {BATCH} examples, a tenth of the learning rate after half and after "
    f"three quarters of them, with the largest {100 * DENSITY:.0f} % of each tensor, or with signs and one scale, with "
    "error feedback and without; the same weights and batches, compared seed by seed. Each method has the best of "
    f"{len(TRIED_RATES)} learning rates, as in the paper; for all of them it is {RATES[DENSE, True]:g}.",
    points=POINTS,
    seeds=(0, 1, 2, 3, 4),
    budget_seconds=1800,
    float32_ends=(
        Float32End(
            "fashion_resnet8", {"method": DENSE, "memory": True}, "half as wide", STEPS, LEARNERS * BATCH
        ),
    ),
    limits="One small net; learning rates half a decade apart, chosen in short runs of one seed. No weight decay "
    "and no changed pictures.",
    parity=(
        ParityRow(
            "steps", _STEPS_OF_THE_PAPER, "200 epochs of CIFAR-10, recalled", small.STEPS, STEPS,
            "Twenty-five runs of a third as many steps are three hours on one core.",
        ),
        ParityRow(
            "how long an element waits before it is sent, as a share of the steps: top-k", None,
            "none: its runs are of signs, recalled",
            1 / DENSITY / small.STEPS, 1 / DENSITY / STEPS,
        ),
        ParityRow("learners", 1, "recalled", small.LEARNERS, LEARNERS),
        ParityRow("examples in a step", 128, "recalled", 64, BATCH),
        ParityRow("layers with weights", 18, "ResNet-18, recalled", (3, 5), 8),
        ParityRow("momentum", 0, "recalled", 0, 0),
        ParityRow("learning rate at the end, of that at the beginning", 0.01, "recalled", 1, 0.1 ** len(FALLS)),
        ParityRow(
            "learning rates that were tried for each method", 9, "recalled", 1, len(TRIED_RATES),
        ),
    ),
    tried=(
        "The learning rates 0.1, 0.3, 1 and 3 for each method, 500 steps of a seed that is not stored, in the order of "
        "these rates, test loss in bits: dense 0.629, 0.566, 0.558, 0.589; top-k with error feedback 0.640, 0.576, "
        "0.551, 0.589, without 1.006, 0.758, 0.688, 0.729; signs with it 0.631, 0.563, 0.543, 0.560, without 0.685, "
        "0.570, 0.562, 0.577. Of each the best is 1.",
        "Dense gradients alone at 0.1, 0.3 and 1 for 1,000 steps of that seed: 0.542, 0.508 and 0.495 bits.",
        "20 steps of each arm to time them. Nothing else was tried before.",
    ),
)  # fmt: skip


def schedule_of(steps: int) -> Any:
    """The factor of the learning rate at each step.

    >>> [round(schedule_of(100)(step), 3) for step in (0, 49, 50, 75)]
    [1.0, 1.0, 0.1, 0.01]
    """
    return lambda step: 0.1 ** sum(step >= share * steps for share in FALLS)


def run(method: str, memory: bool, seed: int, steps: int) -> dict[str, float]:
    """Train once; losses, and the share of the large tensors that never changed."""
    from lplab.claims.framework import learner_models
    from lplab.claims.framework.learner_trainings import train

    task = replace(learner_models.fashion_resnet(BATCH), lr=RATES[method, memory])
    before = {n: p.detach().clone() for n, p in task.model(seed).named_parameters() if p.ndim > 1}
    finished = train(
        task,
        compressor_of(method, memory),
        LEARNERS,
        steps,
        seed,
        batch=BATCH,
        schedule=schedule_of(steps),
        watch=lambda run: run.ledger.clear() if run.ledger else None,
    )
    after = dict(finished.run.model.named_parameters())
    still = sum(int((after[name] == p).sum()) for name, p in before.items()) / sum(p.numel() for p in before.values())
    return {**finished.numbers(), "still": round(still, 6)}


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Train once."""
    return run(point["method"], point["memory"], seed, STEPS)


def _of(results: Results, method: str, memory: bool = True, number: str = "loss") -> np.ndarray:
    return results.values(number, method=method, memory=memory)


def _gap(results: Results, method: str, memory: bool, number: str = "loss") -> np.ndarray:
    """A method minus dense, seed by seed."""
    return _of(results, method, memory, number) - _of(results, DENSE, True, number)


def _needs_it(method: str) -> Any:
    def check(results: Results) -> CheckResult:
        """Without memory the test loss is surely higher than with it."""
        lost = _of(results, method, False) - _of(results, method, True)
        errors = _of(results, method, False, "error") - _of(results, method, True, "error")
        return paired_result(
            f"{METHODS[method]}, without error feedback above with it: {paired_text(lost)} bits in the test loss, "
            f"{paired_text(errors, 2)} points of error.",
            above(lost),
        )

    return check


def _as_good(method: str) -> Any:
    def check(results: Results) -> CheckResult:
        """With memory the error is surely less than half a point above that of dense gradients."""
        gap = _gap(results, method, True, "error")
        return paired_result(
            f"{METHODS[method]} with error feedback minus dense: {paired_text(gap, 2)} points of error (dense "
            f"{mean_and_range(_of(results, DENSE, True, 'error'))} %), {paired_text(_gap(results, method, True))} "
            f"bits in the test loss. Each pair must surely be less than {AS_GOOD} points above.",
            within(gap, AS_GOOD),
        )

    return check


for _method, _name in METHODS.items():
    claim.criterion(f"{_name} need{'s' * (_method == TOPK)} error feedback")(_needs_it(_method))
for _method, _name in METHODS.items():
    claim.criterion(f"With it {_name[0].lower()}{_name[1:]} train{'s' * (_method == TOPK)} as well as plain SGD")(
        _as_good(_method)
    )


@claim.explanation("Signs leave no weight out, top-k most of them")
def signs_all_move(results: Results) -> CheckResult:
    """Why signs need error feedback less: they leave no element out."""
    shares = {method: 100 * float(np.median(_of(results, method, False, "still"))) for method in METHODS}
    return CheckResult(
        shares[SIGN] < shares[TOPK],
        f"Without error feedback {shares[TOPK]:.0f} % of the weights never changed with top-k, {shares[SIGN]:.0f} % "
        "with signs.",
    )


@claim.explanation("Error feedback makes up for most of the training loss")
def closes_the_gap(results: Results) -> CheckResult:
    """With memory less than a tenth is left of what the training loss without it is above dense, in each pair."""
    conditions, text = [], []
    for method, name in METHODS.items():
        left, without = (_gap(results, method, memory, "train_loss") for memory in (True, False))
        conditions.append(above(0.1 * without - left))
        text.append(f"{paired_text(left)} of {paired_text(without)} ({name[0].lower()}{name[1:]})")
    return paired_result(
        f"Training loss above dense in bits, with error feedback and without: {join_words(text)}.", *conditions
    )


@claim.summary
def measured(results: Results) -> str:
    """Errors with and without error feedback."""
    error = {point: float(np.mean(_of(results, *point, "error"))) for point in RATES}
    return (
        f"mean test error: top-k {error[TOPK, True]:.2f} % with error feedback, {error[TOPK, False]:.2f} % without; "
        f"signs {error[SIGN, True]:.2f} % with it, {error[SIGN, False]:.2f} % without; dense {error[DENSE, True]:.2f} %"
    )


claim.draw(
    "points of error above dense",
    lambda results: {
        f"{name}, {'with' if memory else 'without'} error feedback": _gap(results, method, memory, "error")
        for method, name in METHODS.items()
        for memory in (True, False)
    },
    statistic=MEAN,
    differences=True,
)
claim.compared(theirs_on="CIFAR, residual nets", ours_on="Fashion-MNIST, a residual net of eight layers")
claim.found(
    *(check.test for check in claim.criteria[:2]),
    holds="worse without error feedback",
    fails="not surely worse without error feedback, with each method",
)
for _check, _method in zip(claim.criteria[2:], ("top-k", "signs"), strict=True):
    claim.found(
        _check.test,
        holds=f"{_method} with it as accurate as plain SGD",
        fails=f"{_method} with error feedback less accurate than plain SGD",
    )

ERROR_FEEDBACK_LARGE = claim.build()
