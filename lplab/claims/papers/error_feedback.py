"""Karimireddy et al. 2019: error feedback: what is not sent must be added later. Top-k and signs, with and without."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.branches import above, paired_result, paired_text, surely_above, surely_within, within
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.drawing import MEAN
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words, seed_range
from lplab.claims.papers.scalecom_2020 import CONV, FC, TEXT
from lplab.compression import Compressor, Dense, EFSign, TopK

if TYPE_CHECKING:
    from lplab.training.loop.tasks import Task

STEPS = 300
RATES = {FC: 0.1, CONV: 0.3, TEXT: 0.3}
"""Learning rates: those of convolutions and Transformer are the best of three, by the median test loss with dense
gradients (of 0.1, 0.2 and 0.3; of 0.1, 0.3 and 1)."""
FAMILIES = tuple(RATES)
ADAM = "Transformer, Adam"
LEARNERS, DENSITY = 2, 0.02
TOPK, SIGN, DENSE = "top-k", "sign", "dense"
CLOSED = 0.1  # of the gap to dense without error feedback: with it, less is left

POINTS: tuple[Point, ...] = (
    *(
        {"family": family, "method": method, "memory": memory}
        for family in FAMILIES
        for method, memory in ((DENSE, True), (TOPK, True), (TOPK, False), (SIGN, True), (SIGN, False))
    ),
    *({"family": ADAM, "method": SIGN, "memory": memory} for memory in (True, False)),
)

claim = ClaimBuilder(
    id="error_feedback",
    version=2,
    title="What is not sent must be remembered",
    paper=cite("karimireddy_2019"),
    where="the theorems and the experiments",
    statement="Biased compressors such as signs and top-k need not converge; if what was not sent is added to the next "
    "gradient, they train as well as plain SGD.",
    published="counterexamples and a proof; on CIFAR error feedback closes the gap in generalization (recalled)",
    experiment=f"{LEARNERS} learners train the three small networks of scalecom_2020 by plain SGD, {STEPS} steps each, "
    f"with the largest {100 * DENSITY:.0f} % of each tensor, or with signs and one scale, with error feedback and "
    "without; the same weights and batches, compared seed by seed. Learning rates are the best of three for dense "
    "gradients.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=175,
    limits="Short trainings of small networks at one learning rate each, the same for all methods: signs or top-k may "
    "do better at others.",
)


def task_of(family: str) -> Task:
    """The task of a family, by SGD without momentum; the Transformer by Adam, too, without its first moment.

    >>> task_of("Transformer").optimizer, task_of("Transformer, Adam").optimizer
    ('sgd', 'adam')
    """
    from lplab.claims.framework import learner_models

    if family == ADAM:
        return replace(learner_models.transformer(), options=(("betas", (0.0, 0.999)),))
    makers = {FC: learner_models.fully_connected, CONV: learner_models.convolutions, TEXT: learner_models.transformer}
    return replace(makers[family](), optimizer="sgd", lr=RATES[family], options=())


def compressor_of(method: str, memory: bool) -> Compressor:
    """The compressor of a point.

    >>> compressor_of("sign", memory=False)
    EFSign(error_feedback=False)
    """
    return {
        DENSE: Dense(),
        TOPK: TopK(DENSITY, error_feedback=memory),
        SIGN: EFSign(error_feedback=memory),
    }[method]


def run(family: str, method: str, memory: bool, seed: int, steps: int) -> dict[str, float]:
    """Train once; losses, and the share of the large tensors that never changed.

    >>> result = run("fully connected", "top-k", memory=False, seed=0, steps=2)
    >>> 0.9 < result["still"] < 1
    True
    """
    from lplab.claims.framework.learner_trainings import train

    task = task_of(family)
    before = {n: p.detach().clone() for n, p in task.model(seed).named_parameters() if p.ndim > 1}
    finished = train(task, compressor_of(method, memory), LEARNERS, steps, seed, engine="stacked")
    after = dict(finished.run.model.named_parameters())
    numel = sum(p.numel() for p in before.values())
    still = sum(int((after[name] == p).sum()) for name, p in before.items()) / numel
    return {**finished.numbers(), "still": round(still, 6)}


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Train once."""
    return run(point["family"], point["method"], point["memory"], seed, STEPS)


def _of(results: Results, family: str, method: str, memory: bool = True, number: str = "loss") -> np.ndarray:
    return results.values(number, family=family, method=method, memory=memory)


def _lost(results: Results, family: str, method: str) -> np.ndarray:
    """What leaving error feedback out costs, seed by seed, in bits of the test loss."""
    return _of(results, family, method, False) - _of(results, family, method, True)


def _left(results: Results, family: str, method: str) -> tuple[np.ndarray, float]:
    """The gap to dense with error feedback, seed by seed, and the mean of the gap without it."""
    base = _of(results, family, DENSE)
    left, without = (_of(results, family, method, memory) - base for memory in (True, False))
    return left, float(without.mean())


def _feedback_helps(method: str, name: str) -> Any:
    def check(results: Results) -> CheckResult:
        gaps = {family: _lost(results, family, method) for family in FAMILIES}
        text = [f"{paired_text(gap, 3)} ({family})" for family, gap in gaps.items()]
        return paired_result(
            f"{name}, test loss without error feedback above that with it, in bits: {join_words(text)}.",
            *map(above, gaps.values()),
        )

    return check


claim.criterion("Top-k needs error feedback")(_feedback_helps(TOPK, "Top-k"))
claim.criterion("Signs need it")(_feedback_helps(SIGN, "Signs"))


def _closes_the_gap(method: str, name: str) -> Any:
    def check(results: Results) -> CheckResult:
        conditions, text = [], []
        for family in FAMILIES:
            left, without = _left(results, family, method)
            conditions.append(within(left, CLOSED * without))
            text.append(f"{paired_text(left, 3)} of {without:.3f} ({family})")
        return paired_result(
            f"{name}, of the gap to dense there is left with error feedback, in bits: {join_words(text)}.", *conditions
        )

    return check


claim.criterion("With it top-k loses less than a tenth of the gap to dense")(_closes_the_gap(TOPK, "Top-k"))
claim.criterion("With it signs do, too")(_closes_the_gap(SIGN, "Signs"))


@claim.explanation("Signs leave no weight out, top-k most of them")
def _signs_all_move(results: Results) -> CheckResult:
    """Why signs need error feedback less: they leave no element out."""
    shares = {m: [100 * float(np.median(_of(results, f, m, False, "still"))) for f in FAMILIES] for m in (TOPK, SIGN)}
    text = [f"{join_words([f'{x:.0f}' for x in values])} % ({method})" for method, values in shares.items()]
    return CheckResult(
        max(shares[SIGN]) < min(shares[TOPK]),
        f"Without error feedback these shares of the weights never changed, {join_words([*FAMILIES])}: "
        f"{join_words(text)}.",
    )


@claim.explanation("The criteria hold in the other two networks")
def _others_show_it(results: Results) -> CheckResult:
    """All criteria, for the other two networks alone."""
    others = [
        surely_above(_lost(results, family, method)) and surely_within(left, CLOSED * without)
        for family in (FC, TEXT)
        for method in (TOPK, SIGN)
        for left, without in [_left(results, family, method)]
    ]
    return CheckResult(
        all(others), f"The criteria hold for {sum(others)} of 4 pairs of the other two networks and a method."
    )


@claim.explanation("With signs, the convolutional net is too noisy to tell")
def _convolutions_are_noisy(results: Results) -> CheckResult:
    """Whether pairs of the convolutional net with signs scatter by more than what error feedback brings."""
    left, gap = _left(results, CONV, SIGN)
    return CheckResult(
        seed_range(left) > gap,
        f"With signs and error feedback the seeds of the convolutional net differ by {seed_range(left):.3f} bits in "
        f"their distance from dense. To leave error feedback out costs {gap:.3f} bits on average. Only seeds that "
        "differ by more would be too noisy to tell.",
    )


@claim.explanation("Under Adam signs need it less")
def _adam_needs_it_less(results: Results) -> CheckResult:
    """The Transformer under Adam loses less without error feedback than under SGD, seed by seed."""
    sgd, adam = (_lost(results, family, SIGN) for family in (TEXT, ADAM))
    return paired_result(
        f"The Transformer with signs, without error feedback above with it: {paired_text(sgd, 3)} bits by SGD, "
        f"{paired_text(adam, 3)} by Adam. Adam divides by the size of each weight's gradient, as signs do: that "
        "this is the reason is our guess, not measured.",
        above(sgd - adam),
    )


@claim.summary
def measured(results: Results) -> str:
    """Losses with and without error feedback."""
    parts = []
    for family in FAMILIES:
        values = [_of(results, family, m, k) for m, k in ((TOPK, True), (TOPK, False), (SIGN, True), (SIGN, False))]
        values.append(_of(results, family, DENSE))
        parts.append("{}: top-k {:.2f} with, {:.2f} without, signs {:.2f} with, {:.2f} without, dense {:.2f}".format(
            family, *map(np.mean, values)))  # fmt: skip
    return f"mean test loss in bits, with error feedback and without; {'; '.join(parts)}"


claim.draw(
    "test loss, bits above dense",
    lambda results: {
        f"{family}, {method} {'with' if memory else 'without'} error feedback": _of(results, family, method, memory)
        - _of(results, family, DENSE)
        for family in FAMILIES
        for method in (TOPK, SIGN)
        for memory in (True, False)
    },
    statistic=MEAN,
    differences=True,
)

claim.compared(
    theirs_on="CIFAR, residual nets",
    ours_on="8 × 8 digits, two networks; characters, a Transformer",
    rows=(
        {
            "fully connected, top-k with error feedback": "fully connected, top-k, error feedback",
            "fully connected, top-k without error feedback": "fully connected, top-k, without",
            "convolutional, sign with error feedback": "convolutional, signs, error feedback",
            "convolutional, sign without error feedback": "convolutional, signs, without",
        },
    ),
)
claim.found(
    claim.criteria[0].test,
    claim.criteria[1].test,
    holds="worse without error feedback",
    fails="not worse without error feedback everywhere",
)
claim.found(
    claim.criteria[2].test,
    claim.criteria[3].test,
    holds="with it near uncompressed",
    fails="with error feedback not near uncompressed everywhere",
)

ERROR_FEEDBACK = claim.build()
