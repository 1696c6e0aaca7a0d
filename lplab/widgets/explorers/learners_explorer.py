"""Many learners, live: how the sum of their messages grows, what each sends, how alike their memories are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ipywidgets

from lplab import figures
from lplab.figures.lazy_figure import as_dicts
from lplab.recordings import BETAS, CHUNKS, LEARNERS
from lplab.widgets.controls import line, set_text
from lplab.widgets.explorer_base import Explorer
from lplab.widgets.live.live_figure import LiveFigure

from . import learners_state as ls


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

    def __init__(self, **position: Any) -> None:
        super().__init__(ls.LearnersState(**position), ls.PRESETS)

    def _build(self, state: ls.LearnersState) -> tuple[Sequence[ipywidgets.Widget], Sequence[ipywidgets.Widget]]:
        w = ipywidgets
        self.controls = {
            "learners": w.SelectionSlider(options=LEARNERS, description="learners"),
            "chunk": w.SelectionSlider(options=CHUNKS, description="one sent of"),
            "beta": w.SelectionSlider(options=[(f"{b:g}", b) for b in BETAS], description="beta"),
            "learning_rate": w.ToggleButtons(options=list(ls.RATE_NAMES), description="learning rate"),
        }
        self.figure = LiveFigure(ls.figure(state))
        self.summary = line(ls.summary(state), "lp-quiet", "lp-live")
        learners, chunk, beta, rate = self.controls.values()
        headings = ("Who", "What is kept back", "Published settings, our network")
        who, how, as_published = (line(text, "lp-heading") for text in headings)
        self.presets.layout.flex_flow, self.presets.layout.align_items = "column", "flex-start"
        side = [who, learners, chunk, how, beta, rate, as_published, self.presets]
        return side, [self.figure, self.summary]

    def _draw(self, state: ls.LearnersState) -> None:
        set_text(self.summary, ls.summary(state))
        with as_dicts():
            figures.update(self.figure, ls.figure(state))
