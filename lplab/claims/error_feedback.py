"""Karimireddy et al. 2019: what a compressor does not send has to be remembered. Top-k and signs, with and without."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.claims.claim import Check, Claim, Finding, Numbers, Point, Results
from lplab.claims.compare import as_good, clearly_above, listed, noise, spread
from lplab.claims.scalecom_2020 import CONV, FC, TEXT, task_of
from lplab.compression import Compressor, Dense, EFSign, TopK

STEPS = {FC: 300, CONV: 160, TEXT: 120}
LEARNERS, DENSITY = 2, 0.02
TOPK, SIGN, DENSE = "top-k", "sign", "dense"


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
    from lplab.claims.learner_runs import train

    task = task_of(family, 0.0)
    before = {n: p.detach().clone() for n, p in task.model(seed).named_parameters() if p.ndim > 1}
    finished = train(task, compressor_of(method, memory), LEARNERS, steps, seed, engine="stacked")
    after = dict(finished.run.model.named_parameters())
    numel = sum(p.numel() for p in before.values())
    still = sum(int((after[name] == p).sum()) for name, p in before.items()) / numel
    return {**finished.numbers(), "still": round(still, 6)}


def measure(point: Point, seed: int) -> Numbers:
    """Train once."""
    return run(point["family"], point["method"], point["memory"], seed, STEPS[point["family"]])


POINTS: tuple[Point, ...] = tuple(
    {"family": family, "method": method, "memory": memory}
    for family in STEPS
    for method, memory in ((DENSE, True), (TOPK, True), (TOPK, False), (SIGN, True), (SIGN, False))
)


def _of(results: Results, family: str, method: str, memory: bool = True, number: str = "loss") -> np.ndarray:
    return results.values(number, family=family, method=method, memory=memory)


def _memory_helps(method: str, name: str) -> Any:
    def check(results: Results) -> Finding:
        good, said = [], []
        for family in STEPS:
            kept, lost = (_of(results, family, method, memory) for memory in (True, False))
            good.append(clearly_above(lost, kept))
            said.append(f"{spread(kept)} with and {spread(lost)} without ({family})")
        return Finding(all(good), f"{name}, test loss in bits: {'; '.join(said)}.")

    return check


def _as_good_as_dense(results: Results) -> Finding:
    good, said = [], []
    for family in STEPS:
        for method in (TOPK, SIGN):
            kept, base = _of(results, family, method), _of(results, family, DENSE)
            good.append(as_good(kept, base))
            said.append(f"{method} {spread(kept)} against {spread(base)} ({family})")
    return Finding(all(good), f"With memory against dense: {'; '.join(said)}.")


def _signs_all_move(results: Results) -> Finding:
    """Why signs need their memory less: they leave no element out."""
    shares = {m: [100 * float(np.median(_of(results, f, m, False, "still"))) for f in STEPS] for m in (TOPK, SIGN)}
    said = [f"{listed([f'{x:.0f}' for x in values])} % ({method})" for method, values in shares.items()]
    return Finding(
        max(shares[SIGN]) < min(shares[TOPK]),
        f"Without memory these shares of the weights never changed, {listed([*STEPS])}: {listed(said)}.",
    )


def _adam_needs_it_less(results: Results) -> Finding:
    """Where signs without memory are as good: under Adam."""
    (kept, lost), (kept_sgd, lost_sgd) = ([_of(results, f, SIGN, m) for m in (True, False)] for f in (TEXT, FC))
    return Finding(
        as_good(lost, kept) and clearly_above(lost_sgd, kept_sgd),
        f"Signs under Adam (Transformer): {spread(lost)} bits without memory, {spread(kept)} with; under SGD (fully "
        f"connected): {spread(lost_sgd)} without, {spread(kept_sgd)} with. Adam divides by the size of each weight's "
        "gradient, as signs do: that this is the reason is our guess, not measured.",
    )


def _the_convolutions_start_late(results: Results) -> Finding:
    """Why the convolutional net decides little: its seeds lie far apart, with dense gradients too."""
    base, kept, lost = (
        _of(results, CONV, DENSE),
        *(_of(results, CONV, TOPK, memory) for memory in (True, False)),
    )
    pairs = [f"{b:.2f} against {a:.2f}" for a, b in zip(kept, lost, strict=True)]
    return Finding(
        noise(base) > 1 and bool((lost > kept).all()),
        f"After {STEPS[CONV]} steps the convolutional net is further or less far, by seed: dense {spread(base)} "
        f"bits, so that spreads overlap. Seed by seed top-k without memory is worse: {listed(pairs)}.",
    )


def ours(results: Results) -> str:
    """Losses with and without memory."""
    parts = []
    for family in STEPS:
        values = [_of(results, family, m, k) for m, k in ((TOPK, True), (TOPK, False), (SIGN, True), (SIGN, False))]
        values.append(_of(results, family, DENSE))
        parts.append("{}: top-k {:.2f} with, {:.2f} without, signs {:.2f} with, {:.2f} without, dense {:.2f}".format(
            family, *map(np.median, values)))  # fmt: skip
    return f"test loss in bits; {'; '.join(parts)}"


ERROR_FEEDBACK = Claim(
    id="error_feedback",
    version=1,
    title="What is not sent must be remembered",
    paper="S. P. Karimireddy et al.: Error feedback fixes signSGD and other gradient compression schemes, ICML 2019",
    where="the theorems and the experiments",
    states="Biased compressors such as signs and top-k need not converge; if what was not sent is added to the next "
    "gradient, they train as well as plain SGD.",
    theirs="counterexamples and a proof; on CIFAR error feedback closes the gap in generalization (recalled)",
    experiment=f"{LEARNERS} learners train the three small networks of scalecom_2020 without momentum (300, 160 and "
    f"120 steps) with the largest {100 * DENSITY:.0f} % of each tensor, or with signs and one scale, with memory and "
    "without.",
    points=POINTS,
    seeds=(0, 1, 2),
    measure=measure,
    shape=(
        Check("Top-k needs its memory", _memory_helps(TOPK, "Top-k")),
        Check("Signs need it", _memory_helps(SIGN, "Signs")),
        Check("With it both are as good as dense", _as_good_as_dense),
    ),
    ours=ours,
    explained=(
        Check("Signs leave no weight out, top-k most of them", _signs_all_move),
        Check("Under Adam signs need it less", _adam_needs_it_less),
        Check("The convolutional net starts late", _the_convolutions_start_late),
    ),
    budget_seconds=100,
    limits="Short trainings of small networks at one learning rate each; Adam, under which the Transformer trains, "
    "rescales each weight by itself.",
)
