"""Many learners, live: how the sum of their messages grows, what each sends, how alike their residuals are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from lplab import figures
from lplab.figures.many_learners import bytes_word, learners_word
from lplab.figures.panel import panel
from lplab.number_text import percent
from lplab.recordings import BETAS, CHUNKS, LEARNERS, LEARNING_RATES, LearnerRun, LearnerSetting, many_learners
from lplab.widgets.explorer_base import Explorer
from lplab.widgets.fields import Buttons, ExplorerState, Steps, control

RATE_NAMES = {"standard": LEARNING_RATES[0], "ten times": LEARNING_RATES[1]}  # as the control calls them
PRESETS: dict[str, dict[str, Any]] = {  # settings that were published; the network here is a small one
    "ResNet18, 8 learners, 1 of 112": {"learners": 8, "chunk": 112, "beta": 1.0, "learning_rate": "standard"},
    "ResNet18, 64 learners, 1 of 112, β 0.1": {"learners": 64, "chunk": 112, "beta": 0.1, "learning_rate": "ten times"},
    "the same without a filter": {"learners": 64, "chunk": 112, "beta": 1.0, "learning_rate": "ten times"},
    "LSTM, 4 learners, 1 of 400": {"learners": 4, "chunk": 400, "beta": 1.0, "learning_rate": "standard"},
}
OWN_AND_LEADER = {"ScaleCom": "scalecom", "own top-k": "topk"}  # as texts call them, and as the recordings do


@dataclass(frozen=True)
class LearnersState(ExplorerState):
    """The value of every control.

    Attributes:
        learners: 1 to 64, a power of two.
        chunk: 25, 50, 112 or 400 elements, of which one is sent.
        beta: of ScaleCom's low-pass filter: 1, 0.5, 0.3 or 0.1.
        learning_rate: "standard" (0.1) or "ten times" (1).

    >>> LearnersState().setting("topk").name
    'topk, 64 learners, 1 of 112, beta 1, rate 0.1'
    """

    refusal = "{name} must be one of {allowed}, got {value!r}"

    learners: int = control(64, Steps("learners", LEARNERS, unit="learners"))
    chunk: int = control(112, Steps("one sent of", CHUNKS, unit="elements"))
    beta: float = control(1.0, Steps("beta", {f"{beta:g}": beta for beta in sorted(BETAS)}))
    learning_rate: str = control("standard", Buttons("learning rate", list(RATE_NAMES)))

    def setting(self, compressor: str, learners: int | None = None, beta: float | None = None) -> LearnerSetting:
        """The recorded run of a compressor in this state, or at another number of learners or beta."""
        n, rate = learners or self.learners, RATE_NAMES[self.learning_rate]
        if compressor == "dense":
            return LearnerSetting("dense", n, learning_rate=rate)
        if compressor == "topk":
            return LearnerSetting("topk", n, self.chunk, learning_rate=rate)
        return LearnerSetting("scalecom", n, self.chunk, self.beta if beta is None else beta, rate)

    def run(self, compressor: str, learners: int | None = None, beta: float | None = None) -> LearnerRun:
        """The measurements of that run."""
        return many_learners(self.setting(compressor, learners, beta))

    @property
    def code(self) -> str:
        """Python that gives the numbers of ScaleCom in this state."""
        s = self.setting("scalecom")
        made = (
            f'LearnerSetting("scalecom", {s.learners}, {s.chunk}, beta={s.beta:g}, learning_rate={s.learning_rate:g})'
        )
        return f"run = many_learners({made})\nrun.union.mean(), run.sent_bytes, run.cosine, run.test_error"


@lru_cache(maxsize=64)
def _scaling(chunk: int, beta: float, learning_rate: str) -> figures.LearnerScaling:
    """Every number against the number of learners; shares are means over the recorded steps."""
    state = LearnersState(1, chunk, beta, learning_rate)
    own, leader, dense = ([state.run(kind, n) for n in LEARNERS] for kind in ("topk", "scalecom", "dense"))
    return figures.LearnerScaling(
        LEARNERS,
        [float(run.union.mean()) for run in own],
        [float(run.union.mean()) for run in leader],
        [run.sent_bytes for run in own],
        [run.sent_bytes for run in leader],
        [run.sent_bytes for run in dense],
    )


def figure(state: LearnersState) -> Any:
    """The figure of a state."""
    run, plain = state.run("scalecom"), state.run("scalecom", beta=1.0)
    series = (run.steps, run.cosine, run.missed, plain.cosine)
    similarity = figures.LearnerSimilarity(*(values.tolist() for values in series))
    density = float(np.mean(state.run("topk").density))
    scaling = _scaling(state.chunk, state.beta, state.learning_rate)
    return figures.many_learners(scaling, similarity, state.learners, density)


def summary(state: LearnersState) -> str:
    """Bytes and test errors, in one line.

    >>> summary(LearnersState())[:28]
    'A step sends, per learner: S'
    """
    runs = {name: state.run(kind) for name, kind in (OWN_AND_LEADER | {"dense": "dense"}).items()}
    sent = ", ".join(f"{name} {bytes_word(run.sent_bytes)}" for name, run in runs.items())
    wrong = ", ".join(f"{name} {percent(run.test_error)}" for name, run in runs.items())
    learners = learners_word(state.learners)
    return f"A step sends, per learner: {sent}. Test error after 120 steps with {learners}: {wrong}."


class LearnersExplorer(Explorer):
    """Recorded trainings of 1 to 64 learners behind four controls: learners, chunk, beta, learning rate.

    Args:
        **position: fields of `LearnersState`; Reset returns to them.

    Raises:
        ValueError: a combination that was not recorded.

    >>> explorer = LearnersExplorer(learners=8)
    >>> explorer.position.learners, explorer.figure.layout.meta["title"][:10]
    (8, '8 learners')
    """

    imports = ("from lplab.recordings import LearnerSetting, many_learners",)
    state_class, preset_fields = LearnersState, PRESETS
    side: ClassVar = {
        "Who": ("learners", "chunk"),
        "What is kept back": ("beta", "learning_rate"),
        "Published settings, our network": ("presets",),
    }
    _preset_layout: ClassVar = {"flex_flow": "column", "align_items": "flex-start"}

    figure_names: ClassVar = {
        "shares": "How much of the weights the sum of all messages holds",
        "bytes": "What a learner sends in a step",
        "distance": "How far apart the learners' residuals are",
    }

    def _figures(self, state: LearnersState) -> dict[str, Any]:
        return {"figure": figure(state)}

    def _panels(self, state: LearnersState) -> dict[str, Any]:
        whole = figure(state)
        runs = {name: bytes_word(state.run(kind).sent_bytes) for name, kind in OWN_AND_LEADER.items()}
        sent = ", ".join(f"{name} {count}" for name, count in runs.items())
        last = state.run("scalecom").cosine[-1]
        distance = f"Residuals at the last step: distance {last:.2f}" if state.learners > 1 else "One learner"
        key, gap = whole.layout.annotations[0].text, " " * 4
        own, independent, leader, dense = whole.layout.meta["subtitle"].split(gap)
        shares, sizes = gap.join((own, independent, leader)), gap.join((own, leader, dense))
        return {
            "shares": panel(whole, "y", height=340, subtitle=shares),
            "bytes": panel(whole, "y2", height=340, title=f"A learner sends, in a step: {sent}", subtitle=sizes),
            "distance": panel(whole, "y3", height=340, title=distance, subtitle=key.replace("<br>", gap)),
        }

    def _summary(self, state: LearnersState) -> str:
        return summary(state)
