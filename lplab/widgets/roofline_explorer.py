"""The roofline, live: any workload on any chip in any recipe, and where the time of its step goes."""

from __future__ import annotations

from typing import Any

import ipywidgets

from lplab import figures
from lplab.figures.light import light

from . import roofline_state as rs
from .controls import line, say
from .live_figure import LiveFigure, one_frame
from .positioned import PositionedExplorer, offer


class RooflineExplorer(PositionedExplorer):
    """A training step under the roofline of a chip, behind six controls.

    Args:
        **position: fields of `Position`: ``workload``, ``chip``, ``precision``, ``batch``, ``way``, ``view``. Reset
            comes back to them.

    Raises:
        ValueError: a position that does not exist.

    >>> explorer = RooflineExplorer(chip="h100", precision="bf16")
    >>> explorer.figure.layout.meta["title"]
    'ResNet-50: the step does 18 % of what BF16 multipliers could'
    """

    def __init__(self, **position: Any) -> None:
        super().__init__(rs.settled(rs.Position(), **position), rs.PRESETS)

    def set(self, **position: Any) -> None:
        """Move controls by name; a recipe that a new chip cannot run becomes the 16-bit one."""
        self.position = rs.settled(self.position, **position)

    def _build(self, at: rs.Position) -> tuple[list[ipywidgets.Widget], list[ipywidgets.Widget]]:
        w = ipywidgets
        self.controls = {
            "workload": w.Dropdown(options=list(rs.WORKLOADS.items()), description="network"),
            "batch": w.SelectionSlider(options=[(f"{b:,}", b) for b in rs.BATCHES], description="batch"),
            "chip": w.Dropdown(options=list(rs.CHIPS.items()), description="chip"),
            "precision": w.Dropdown(options=_recipes(at.chip), description="recipe"),
            "way": w.Dropdown(options=list(rs.WAYS), description="the rest"),
            "view": w.ToggleButtons(options=list(rs.VIEWS), description="bars for"),
        }
        self.figure = LiveFigure(rs.picture(at))
        self.statement = line(rs.statement(at), "lp-quiet", "lp-live")
        c, heads = self.controls, [line(text, "lp-heading") for text in ("Presets", "The work", "The machine")]
        side = [heads[0], self.presets, heads[1], c["workload"], c["batch"], heads[2], c["chip"], c["precision"]]
        return [*side, c["way"], c["view"]], [self.figure, self.statement]

    def _fit(self, at: rs.Position) -> None:
        offer(self.controls["precision"], _recipes(at.chip))

    def _draw(self, at: rs.Position) -> None:
        say(self.statement, rs.statement(at))
        with one_frame(), light():
            figures.update(self.figure, rs.picture(at))


def _recipes(chip: str) -> list[tuple[str, str]]:
    return [(label, name) for label, name in rs.RECIPES.items() if name in rs.runs_on(chip)]
