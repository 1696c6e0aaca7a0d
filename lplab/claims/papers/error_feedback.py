"""Karimireddy et al. 2019: error feedback: what is not sent must be added later. Top-k and signs, with and without."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.claim import CheckResult, Numbers, Point, Results
from lplab.claims.framework.compare import clearly_above, join_words, median_and_range, seed_range, within_noise
from lplab.claims.papers.scalecom_2020 import CONV, FC, TEXT, task_of
from lplab.compression import Compressor, Dense, EFSign, TopK

STEPS = {FC: 300, CONV: 160, TEXT: 120}
LEARNERS, DENSITY = 2, 0.02
TOPK, SIGN, DENSE = "top-k", "sign", "dense"

POINTS: tuple[Point, ...] = tuple(
    {"family": family, "method": method, "memory": memory}
    for family in STEPS
    for method, memory in ((DENSE, True), (TOPK, True), (TOPK, False), (SIGN, True), (SIGN, False))
)

claim = ClaimBuilder(
    id="error_feedback",
    title="What is not sent must be remembered",
    paper=cite("karimireddy_2019"),
    where="the theorems and the experiments",
    statement="Biased compressors such as signs and top-k need not converge; if what was not sent is added to the next "
    "gradient, they train as well as plain SGD.",
    published="counterexamples and a proof; on CIFAR error feedback closes the gap in generalization (recalled)",
    experiment=f"{LEARNERS} learners train the three small networks of scalecom_2020 without momentum (300, 160 and "
    f"120 steps) with the largest {100 * DENSITY:.0f} % of each tensor, or with signs and one scale, with error "
    "feedback and without.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=100,
    limits="Short trainings of small networks at one learning rate each; Adam, under which the Transformer trains, "
    "rescales each weight by itself.",
)


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

    >>> found = run("fully connected", "top-k", memory=False, seed=0, steps=2)
    >>> 0.9 < found["still"] < 1
    True
    """
    from lplab.claims.framework.learner_trainings import train

    task = task_of(family, 0.0)
    before = {n: p.detach().clone() for n, p in task.model(seed).named_parameters() if p.ndim > 1}
    finished = train(task, compressor_of(method, memory), LEARNERS, steps, seed, engine="stacked")
    after = dict(finished.run.model.named_parameters())
    numel = sum(p.numel() for p in before.values())
    still = sum(int((after[name] == p).sum()) for name, p in before.items()) / numel
    return {**finished.numbers(), "still": round(still, 6)}


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Train once."""
    return run(point["family"], point["method"], point["memory"], seed, STEPS[point["family"]])


def _of(results: Results, family: str, method: str, memory: bool = True, number: str = "loss") -> np.ndarray:
    return results.values(number, family=family, method=method, memory=memory)


def _feedback_helps(method: str, name: str) -> Any:
    def check(results: Results) -> CheckResult:
        good, text = [], []
        for family in STEPS:
            kept, lost = (_of(results, family, method, memory) for memory in (True, False))
            good.append(clearly_above(lost, kept))
            text.append(f"{median_and_range(kept)} with and {median_and_range(lost)} without ({family})")
        return CheckResult(all(good), f"{name}, test loss in bits: {'; '.join(text)}.")

    return check


claim.criterion("Top-k needs error feedback")(_feedback_helps(TOPK, "Top-k"))
claim.criterion("Signs need it")(_feedback_helps(SIGN, "Signs"))


@claim.criterion("With it both are as good as dense")
def _as_good_as_dense(results: Results) -> CheckResult:
    good, text = [], []
    for family in STEPS:
        for method in (TOPK, SIGN):
            kept, base = _of(results, family, method), _of(results, family, DENSE)
            good.append(within_noise(kept, base))
            text.append(f"{method} {median_and_range(kept)} against {median_and_range(base)} ({family})")
    return CheckResult(all(good), f"With error feedback against dense: {'; '.join(text)}.")


@claim.explanation("Signs leave no weight out, top-k most of them")
def _signs_all_move(results: Results) -> CheckResult:
    """Why signs need error feedback less: they leave no element out."""
    shares = {m: [100 * float(np.median(_of(results, f, m, False, "still"))) for f in STEPS] for m in (TOPK, SIGN)}
    text = [f"{join_words([f'{x:.0f}' for x in values])} % ({method})" for method, values in shares.items()]
    return CheckResult(
        max(shares[SIGN]) < min(shares[TOPK]),
        f"Without error feedback these shares of the weights never changed, {join_words([*STEPS])}: "
        f"{join_words(text)}.",
    )


@claim.explanation("Under Adam signs need it less")
def _adam_needs_it_less(results: Results) -> CheckResult:
    """Where signs without error feedback are as good: under Adam."""
    (kept, lost), (kept_sgd, lost_sgd) = ([_of(results, f, SIGN, m) for m in (True, False)] for f in (TEXT, FC))
    return CheckResult(
        within_noise(lost, kept) and clearly_above(lost_sgd, kept_sgd),
        f"Signs under Adam (Transformer): {median_and_range(lost)} bits without error feedback, "
        f"{median_and_range(kept)} with; under SGD (fully connected): {median_and_range(lost_sgd)} without, "
        f"{median_and_range(kept_sgd)} with. Adam divides by the size of each weight's gradient, as signs do: that "
        "this is the reason is our guess, not measured.",
    )


@claim.explanation("The convolutional net starts late")
def _the_convolutions_start_late(results: Results) -> CheckResult:
    """Why the convolutional net decides little: its seeds lie far apart, with dense gradients too."""
    base, kept, lost = (
        _of(results, CONV, DENSE),
        *(_of(results, CONV, TOPK, memory) for memory in (True, False)),
    )
    pairs = [f"{b:.2f} against {a:.2f}" for a, b in zip(kept, lost, strict=True)]
    return CheckResult(
        seed_range(base) > 1 and bool((lost > kept).all()),
        f"After {STEPS[CONV]} steps the convolutional net is further or less far, by seed: dense "
        f"{median_and_range(base)} bits, so that spreads overlap. Seed by seed top-k without error feedback is worse: "
        f"{join_words(pairs)}.",
    )


@claim.summary
def measured(results: Results) -> str:
    """Losses with and without error feedback."""
    parts = []
    for family in STEPS:
        values = [_of(results, family, m, k) for m, k in ((TOPK, True), (TOPK, False), (SIGN, True), (SIGN, False))]
        values.append(_of(results, family, DENSE))
        parts.append("{}: top-k {:.2f} with, {:.2f} without, signs {:.2f} with, {:.2f} without, dense {:.2f}".format(
            family, *map(np.median, values)))  # fmt: skip
    return f"test loss in bits; {'; '.join(parts)}"


claim.draw(
    "test loss, bits above dense",
    lambda results: {
        f"{family}, {method} {'with' if memory else 'without'} memory": _of(results, family, method, memory)
        - _of(results, family, DENSE)
        for family in STEPS
        for method in (TOPK, SIGN)
        for memory in (True, False)
    },
)

ERROR_FEEDBACK = claim.build()
