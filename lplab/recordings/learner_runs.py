"""Recorded trainings with 1 to 64 learners under different compressors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from lplab.datasets import data_folder

LEARNERS = (1, 2, 4, 8, 16, 32, 64)
CHUNKS = (25, 50, 112, 400)  # elements for one that is sent
BETAS = (1.0, 0.5, 0.3, 0.1)
LEARNING_RATES = (0.1, 1.0)


@dataclass(frozen=True)
class LearnerSetting:
    """One training of :func:`many_learners`.

    Attributes:
        compressor: "topk" (each learner its own choice), "scalecom" (the leader's) or "dense".
        learners: 1 to 64, a power of two.
        chunk: 25, 50, 112 or 400: one of so many elements is sent. 1 if dense.
        beta: of ScaleCom's low-pass filter: 1, 0.5, 0.3 or 0.1.
        learning_rate: 0.1 or 1.

    >>> LearnerSetting("scalecom", 8, 112).name
    'scalecom, 8 learners, 1 of 112, beta 1, rate 0.1'
    """

    compressor: str
    learners: int
    chunk: int = 1
    beta: float = 1.0
    learning_rate: float = 0.1

    @property
    def name(self) -> str:
        """The key of the run in the file."""
        how = f"1 of {self.chunk}, beta {self.beta:g}, rate {self.learning_rate:g}"
        return f"{self.compressor}, {self.learners} learners, {how}"


@dataclass(frozen=True, eq=False)
class LearnerRun:
    """Measurements of a training with many learners. Series are float32 [20]: every sixth of 120 steps.

    Attributes:
        steps: their numbers, from 1: int64 [20].
        union: share of the weights that at least one learner sent; NaN if dense, as the next three.
        density: share that one learner sent.
        cosine: mean pairwise cosine distance of the residuals, before the step.
        missed: of the leader's choice, the share that the sum of all learners would not have chosen.
        loss: mean over learners and the last six steps.
        sent_bytes: that a learner sends in a step, by the formulas of ring collectives, mean of the learners.
        test_error: in the end.
    """

    steps: np.ndarray
    union: np.ndarray
    density: np.ndarray
    cosine: np.ndarray
    missed: np.ndarray
    loss: np.ndarray
    sent_bytes: float
    test_error: float


@cache
def _many_learners() -> tuple[dict[str, int], dict[str, np.ndarray]]:
    with np.load(data_folder() / "many_learners" / "mlp.npz", allow_pickle=False) as stored:
        columns = {name: stored[name] for name in stored.files}
    names = {str(name): row for row, name in enumerate(columns.pop("names"))}
    for column in columns.values():
        column.setflags(write=False)
    return names, columns


def many_learners(setting: LearnerSetting) -> LearnerRun:
    """A small network on the digits, trained by 1 to 64 learners (``data/record_many_learners.py`` makes it again).

    Raises:
        ValueError: no such run.

    >>> run = many_learners(LearnerSetting("scalecom", 64, 112))
    >>> topk = many_learners(LearnerSetting("topk", 64, 112))
    >>> run.union[-1] == run.density[-1], topk.union[-1] > 20 * run.density[-1]
    (np.True_, np.True_)
    """
    names, columns = _many_learners()
    if setting.name not in names:
        raise ValueError(
            f"no run {setting.name!r}; recorded are learners {LEARNERS}, chunk {CHUNKS}, beta {BETAS}, "
            f"rate {LEARNING_RATES}"
        )
    row: dict[str, Any] = {name: column[names[setting.name]] for name, column in columns.items() if name != "steps"}
    row |= {name: float(row[name]) for name in ("sent_bytes", "test_error")}
    return LearnerRun(steps=columns["steps"], **row)
