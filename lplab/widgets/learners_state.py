"""Where the controls of many learners stand, and what follows: figures and sentences, no widgets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from lplab import figures
from lplab.figures.many_learners import bytes_word, learners_word
from lplab.figures.words import percent
from lplab.recordings import BETAS, CHUNKS, LEARNERS, RATES, LearnerRun, Setting, many_learners

RATE_NAMES = {"standard": RATES[0], "ten times": RATES[1]}
PRESETS: dict[str, dict[str, Any]] = {  # settings that were published; the network here is a small one
    "ResNet18, 8 learners, 1 of 112": {"learners": 8, "chunk": 112, "beta": 1.0, "rate": "standard"},
    "ResNet18, 64 learners, 1 of 112, β 0.1": {"learners": 64, "chunk": 112, "beta": 0.1, "rate": "ten times"},
    "the same without a filter": {"learners": 64, "chunk": 112, "beta": 1.0, "rate": "ten times"},
    "LSTM, 4 learners, 1 of 400": {"learners": 4, "chunk": 400, "beta": 1.0, "rate": "standard"},
}


@dataclass(frozen=True)
class LearnersPosition:
    """Where the controls stand.

    Attributes:
        learners: 1 to 64, a power of two.
        chunk: 25, 50, 112 or 400: of so many elements one is sent.
        beta: of ScaleCom's filter: 1, 0.5, 0.3 or 0.1.
        rate: "standard" (learning rate 0.1) or "ten times".

    >>> LearnersPosition().setting("topk").name
    'topk, 64 learners, 1 of 112, beta 1, rate 0.1'
    """

    learners: int = 64
    chunk: int = 112
    beta: float = 1.0
    rate: str = "standard"

    def __post_init__(self) -> None:
        given = (("learners", LEARNERS), ("chunk", CHUNKS), ("beta", BETAS), ("rate", tuple(RATE_NAMES)))
        for field, allowed in given:
            if getattr(self, field) not in allowed:
                every = ", ".join(map(str, allowed))
                raise ValueError(f"{field} must be one of {every}, got {getattr(self, field)!r}")

    def setting(self, compressor: str, learners: int | None = None, beta: float | None = None) -> Setting:
        """The recorded run of a compressor at this position, or at another number of learners or beta."""
        n, rate = learners or self.learners, RATE_NAMES[self.rate]
        if compressor == "dense":
            return Setting("dense", n, rate=rate)
        if compressor == "topk":
            return Setting("topk", n, self.chunk, rate=rate)
        return Setting("scalecom", n, self.chunk, self.beta if beta is None else beta, rate)

    def run(self, compressor: str, learners: int | None = None, beta: float | None = None) -> LearnerRun:
        """What was measured in that run."""
        return many_learners(self.setting(compressor, learners, beta))

    @property
    def code(self) -> str:
        """Python that gives the numbers of ScaleCom at this position."""
        s = self.setting("scalecom")
        made = f'Setting("scalecom", {s.learners}, {s.chunk}, beta={s.beta:g}, rate={s.rate:g})'
        got = f"run = many_learners({made})\nrun.union.mean(), run.sent_bytes, run.cosine, run.test_error"
        return f"from lplab.recordings import Setting, many_learners\n\n{got}"


@lru_cache(maxsize=64)
def _scaling(chunk: int, beta: float, rate: str) -> figures.Scaling:
    """Everything against the number of learners; shares are means over the recorded steps."""
    at = LearnersPosition(1, chunk, beta, rate)
    own, leader, dense = ([at.run(kind, n) for n in LEARNERS] for kind in ("topk", "scalecom", "dense"))
    return figures.Scaling(
        LEARNERS,
        [float(run.union.mean()) for run in own],
        [float(run.union.mean()) for run in leader],
        [run.sent_bytes for run in own],
        [run.sent_bytes for run in leader],
        [run.sent_bytes for run in dense],
    )


def picture(at: LearnersPosition) -> Any:
    """The figure at a position."""
    run, plain = at.run("scalecom"), at.run("scalecom", beta=1.0)
    likeness = figures.Likeness(*(values.tolist() for values in (run.steps, run.cosine, run.missed, plain.cosine)))
    density = float(np.mean(at.run("topk").density))
    return figures.many_learners(_scaling(at.chunk, at.beta, at.rate), likeness, at.learners, density)


def statement(at: LearnersPosition) -> str:
    """Bytes and test errors, in one line.

    >>> statement(LearnersPosition())[:28]
    'A step sends, per learner: S'
    """
    order = {"ScaleCom": "scalecom", "own top-k": "topk", "dense": "dense"}
    runs = {name: at.run(kind) for name, kind in order.items()}
    sent = ", ".join(f"{name} {bytes_word(run.sent_bytes)}" for name, run in runs.items())
    wrong = ", ".join(f"{name} {percent(run.test_error)}" for name, run in runs.items())
    return f"A step sends, per learner: {sent}. Test error after 120 steps with {learners_word(at.learners)}: {wrong}."
