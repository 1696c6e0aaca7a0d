"""The roofline, live: any workload on any chip in any recipe, and where the time of its step goes."""

from __future__ import annotations

from typing import Any

import ipywidgets

from lplab import figures
from lplab.figures.lazy_figure import as_dicts
from lplab.widgets.controls import line, set_text
from lplab.widgets.explorer_base import Explorer, set_options
from lplab.widgets.live.live_figure import LiveFigure, single_redraw

from . import roofline_state as rs


class RooflineExplorer(Explorer):
    """A training step under the roofline of a chip, behind six controls.

    Args:
        **position: fields of `RooflineState`: ``workload``, ``chip``, ``precision``, ``batch``, ``fused``, ``view``.
            Reset returns to them.

    Raises:
        ValueError: a value that is not allowed.

    >>> explorer = RooflineExplorer(chip="h100", precision="bf16")
    >>> explorer.figure.layout.meta["title"]
    'ResNet-50: the step does 18 % of what BF16 multipliers could'
    """

    def __init__(self, **position: Any) -> None:
        super().__init__(rs.make_consistent(rs.RooflineState(), **position), rs.PRESETS)

    def set(self, **position: Any) -> None:
        """Move controls by name; a recipe that a new chip cannot run becomes the 16-bit one."""
        self.position = rs.make_consistent(self.position, **position)

    def _build(self, state: rs.RooflineState) -> tuple[list[ipywidgets.Widget], list[ipywidgets.Widget]]:
        w = ipywidgets
        self.controls = {
            "workload": w.Dropdown(options=list(rs.WORKLOADS.items()), description="network"),
            "batch": w.SelectionSlider(options=[(f"{b:,}", b) for b in rs.BATCHES], description="batch"),
            "chip": w.Dropdown(options=list(rs.CHIPS.items()), description="chip"),
            "precision": w.Dropdown(options=_recipes(state.chip), description="recipe"),
            "fused": w.Dropdown(options=list(rs.FUSED.items()), description="the rest"),
            "view": w.ToggleButtons(options=list(rs.VIEWS), description="bars for"),
        }
        self.figure = LiveFigure(rs.figure(state))
        self.summary = line(rs.summary(state), "lp-quiet", "lp-live")
        c, heads = self.controls, [line(text, "lp-heading") for text in ("Presets", "The work", "The machine")]
        side = [heads[0], self.presets, heads[1], c["workload"], c["batch"], heads[2], c["chip"], c["precision"]]
        return [*side, c["fused"], c["view"]], [self.figure, self.summary]

    def _update_options(self, state: rs.RooflineState) -> None:
        set_options(self.controls["precision"], _recipes(state.chip))

    def _draw(self, state: rs.RooflineState) -> None:
        set_text(self.summary, rs.summary(state))
        with single_redraw(), as_dicts():
            figures.update(self.figure, rs.figure(state))


def _recipes(chip: str) -> list[tuple[str, str]]:
    return [(label, name) for label, name in rs.RECIPES.items() if name in rs.runs_on(chip)]
