"""Many learners, live: how the sum of their messages grows, what each sends, how alike their memories are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ipywidgets

from lplab import figures
from lplab.figures.light import light
from lplab.recordings import BETAS, CHUNKS, LEARNERS

from . import learners_state as ls
from .controls import line, say
from .live_figure import LiveFigure
from .positioned import PositionedExplorer


class LearnersExplorer(PositionedExplorer):
    """Recorded trainings of 1 to 64 learners behind four controls: learners, chunk, beta, learning rate.

    Args:
        **position: fields of `LearnersPosition`; Reset comes back to them.

    Raises:
        ValueError: a position that was not recorded.

    >>> explorer = LearnersExplorer(learners=8)
    >>> explorer.position.learners, explorer.figure.layout.meta["title"][:10]
    (8, '8 learners')
    """

    def __init__(self, **position: Any) -> None:
        super().__init__(ls.LearnersPosition(**position), ls.PRESETS)

    def _build(self, at: ls.LearnersPosition) -> tuple[Sequence[ipywidgets.Widget], Sequence[ipywidgets.Widget]]:
        w = ipywidgets
        self.controls = {
            "learners": w.SelectionSlider(options=LEARNERS, description="learners"),
            "chunk": w.SelectionSlider(options=CHUNKS, description="one sent of"),
            "beta": w.SelectionSlider(options=[(f"{b:g}", b) for b in BETAS], description="beta"),
            "rate": w.ToggleButtons(options=list(ls.RATE_NAMES), description="learning rate"),
        }
        self.figure = LiveFigure(ls.picture(at))
        self.statement = line(ls.statement(at), "lp-quiet", "lp-live")
        learners, chunk, beta, rate = self.controls.values()
        headings = ("Who", "What is kept back", "Published settings, our network")
        who, how, as_published = (line(text, "lp-heading") for text in headings)
        self.presets.layout.flex_flow, self.presets.layout.align_items = "column", "flex-start"
        side = [who, learners, chunk, how, beta, rate, as_published, self.presets]
        return side, [self.figure, self.statement]

    def _draw(self, at: ls.LearnersPosition) -> None:
        say(self.statement, ls.statement(at))
        with light():
            figures.update(self.figure, ls.picture(at))
