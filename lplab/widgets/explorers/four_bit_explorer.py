"""Real gradients over grids of four bits, live: which grid, which scale, which layer, which moment."""

from dataclasses import replace
from typing import Any

import ipywidgets

from lplab import figures
from lplab.figures.lazy_figure import as_dicts
from lplab.quantizers import GRADIENT_GRIDS
from lplab.widgets.controls import line, set_text
from lplab.widgets.explorer_base import Explorer, set_options
from lplab.widgets.live.live_figure import LiveFigure, single_redraw

from . import four_bit_state as fb


class FourBitExplorer(Explorer):
    """Gradients of a real training behind five controls: grid, scale, moment, layer, what to draw against the scale.

    Args:
        **position: fields of `FourBitState`: ``grid``, ``scale``, ``moment``, ``layer``, ``measure``. Reset returns to
            them.

    Raises:
        ValueError: a value that is not allowed.

    >>> explorer = FourBitExplorer(grid="radix4_even")
    >>> explorer.figures["grids"].layout.meta["title"]
    'One scale 2¹⁴: radix 2 zeroes 76.4 %, radix 4 12.0 %'
    """

    def __init__(self, **position: Any) -> None:
        super().__init__(fb.FourBitState(**position), fb.PRESETS)

    def set(self, **position: Any) -> None:
        """Set controls by name: the fields of `FourBitState`. Another network has other layers: then all are shown."""
        moment = position.get("moment", self.position.moment)
        layer = position.get("layer", self.position.layer)
        if "layer" not in position and moment in fb.moments() and layer not in fb.gradients(moment):
            position["layer"] = fb.ALL
        self.position = replace(self.position, **position)

    def _build(self, state: fb.FourBitState) -> tuple[list[ipywidgets.Widget], list[ipywidgets.Widget]]:
        w = ipywidgets
        scales = [(fb.raised(f"2^{k}"), k) for k in fb.SCALES] + [("per layer", fb.PER_LAYER)]
        grids = [(grid.label, name) for name, grid in GRADIENT_GRIDS.items()]
        measures = [(label, name) for name, (label, *_) in fb.MEASURES.items()]
        self.controls = {
            "grid": w.Dropdown(options=grids, description="grid"),
            "scale": w.SelectionSlider(options=scales, description="scale"),
            "moment": w.Dropdown(options=list(fb.moments()), description="gradients"),
            "layer": w.Dropdown(options=[fb.ALL, *fb.gradients(state.moment)], description="layer"),
            "measure": w.Dropdown(options=measures, description="curve"),
        }
        self.figures = {"grids": LiveFigure(fb.grids_figure(state)), "errors": LiveFigure(fb.errors_figure(state))}
        self.summary = line(fb.summary(state), "lp-quiet", "lp-live")
        grid, scale, *data, measure = self.controls.values()
        heads = [line(text, "lp-heading") for text in ("Four bits", "Gradients", "Against the scale")]
        side = [heads[0], self.presets, grid, scale, heads[1], *data, heads[2], measure]
        return side, [self.figures["grids"], self.summary, self.figures["errors"]]

    def _update_options(self, state: fb.FourBitState) -> None:
        set_options(self.controls["layer"], [fb.ALL, *fb.gradients(state.moment)])

    def _draw(self, state: fb.FourBitState) -> None:
        set_text(self.summary, fb.summary(state))
        with single_redraw(), as_dicts():
            figures.update(self.figures["grids"], fb.grids_figure(state))
            figures.update(self.figures["errors"], fb.errors_figure(state))
