"""Lab 10: up to eight learners choose what to send, each for itself or one for all, and the rest stays with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.compression import Compressor, ScaleCom, TopK, exchange

from .mechanism import Mechanism

LEARNERS, ELEMENTS, SENT, STEPS = 8, 16, 2, 4
CHOICES: dict[str, Compressor] = {"own": TopK(SENT / ELEMENTS), "leader": ScaleCom(chunk=ELEMENTS // SENT)}


def data() -> dict[str, Any]:
    """For both ways to choose and each number of learners, what happens in each step.

    >>> [len(data()["runs"][choice][7][0]["union"]) for choice in CHOICES]  # of 16 elements, with eight learners
    [9, 2]
    """
    runs = {choice: [run(choice, learners) for learners in range(1, LEARNERS + 1)] for choice in CHOICES}
    return {"elements": ELEMENTS, "sent": SENT, "steps": STEPS, "runs": runs}


def gradients() -> np.ndarray:
    """Whole numbers, [step, learner, element]: a part that all learners see, and one of each learner."""
    rng = np.random.default_rng(10)
    shared, own = rng.normal(0, 3, (STEPS, 1, ELEMENTS)), rng.normal(0, 4, (STEPS, LEARNERS, ELEMENTS))
    return np.round(shared + own)


def run(choice: str, learners: int) -> list[dict[str, Any]]:
    """For each step what each learner would like to send, what stays with it, and which elements the sum holds.

    With learners in rows: ``wanted`` is residual plus gradient, ``after`` the new residual.
    """
    compressor = CHOICES[choice]
    states = [compressor.init((ELEMENTS,)) for _ in range(learners)]
    after, steps = np.zeros((learners, ELEMENTS), np.float32), []
    for step, every in enumerate(gradients()[:, :learners].astype(np.float32)):
        wanted = after + every
        mean = exchange(compressor, list(every), states, step=step)
        for state in states:
            state.commit()
        after = np.stack([state.arrays()["residual"] for state in states])
        found = {"wanted": wanted.astype(int).tolist(), "after": after.astype(int).tolist()}
        steps.append({**found, "union": np.flatnonzero(mean).tolist()})
    return steps


MECHANISM = Mechanism(
    name="union",
    title="What the sum of all messages holds",
    todo="Drag the *orange: number of learners* downwards, to add learners. Then let *one leader* choose.",
    alt="A row of 16 elements for each learner, darker where it has more to send, and a mark on each element that it "
    "sends. A row below shows which elements the sum of all messages holds, and two bars count them: with own choices, "
    "and with the choice of one leader.",
    data=data,
)
