"""Real gradients over grids of four bits, live: which grid, which scale, which layer, which moment."""

from dataclasses import replace
from typing import Any

import ipywidgets

from lplab import figures
from lplab.figures.light import light
from lplab.quantizers import GRADIENT_GRIDS

from . import four_bit_state as fb
from .controls import line, say
from .live_figure import LiveFigure, one_frame
from .positioned import PositionedExplorer, offer


class FourBitExplorer(PositionedExplorer):
    """Gradients of a real training behind five controls: grid, scale, moment, layer, what to draw against the scale.

    Args:
        **position: fields of `Position`: ``grid``, ``scale``, ``moment``, ``layer``, ``measure``. Reset comes back to
            them.

    Raises:
        ValueError: a position that does not exist.

    >>> explorer = FourBitExplorer(grid="radix4_even")
    >>> explorer.figures["grids"].layout.meta["title"]
    'One scale 2¹⁴: radix 2 zeroes 76.4 %, radix 4 12.0 %'
    """

    def __init__(self, **position: Any) -> None:
        super().__init__(fb.Position(**position), fb.PRESETS)

    def set(self, **position: Any) -> None:
        """Move controls by name: the fields of `Position`. Another network has other layers: then all are shown."""
        at = position.get("moment", self.position.moment)
        layer = position.get("layer", self.position.layer)
        if "layer" not in position and at in fb.moments() and layer not in fb.gradients(at):
            position["layer"] = fb.ALL
        self.position = replace(self.position, **position)

    def _build(self, at: fb.Position) -> tuple[list[ipywidgets.Widget], list[ipywidgets.Widget]]:
        w = ipywidgets
        scales = [(fb.raised(f"2^{k}"), k) for k in fb.SCALES] + [("per layer", fb.PER_LAYER)]
        grids = [(grid.label, name) for name, grid in GRADIENT_GRIDS.items()]
        measures = [(label, name) for name, (label, *_) in fb.MEASURES.items()]
        self.controls = {
            "grid": w.Dropdown(options=grids, description="grid"),
            "scale": w.SelectionSlider(options=scales, description="scale"),
            "moment": w.Dropdown(options=list(fb.moments()), description="gradients"),
            "layer": w.Dropdown(options=[fb.ALL, *fb.gradients(at.moment)], description="layer"),
            "measure": w.Dropdown(options=measures, description="curve"),
        }
        self.figures = {"grids": LiveFigure(fb.grids_figure(at)), "errors": LiveFigure(fb.errors_figure(at))}
        self.statement = line(fb.statement(at), "lp-quiet", "lp-live")
        grid, scale, *data, measure = self.controls.values()
        heads = [line(text, "lp-heading") for text in ("Four bits", "Gradients", "Against the scale")]
        side = [heads[0], self.presets, grid, scale, heads[1], *data, heads[2], measure]
        return side, [self.figures["grids"], self.statement, self.figures["errors"]]

    def _fit(self, at: fb.Position) -> None:
        offer(self.controls["layer"], [fb.ALL, *fb.gradients(at.moment)])

    def _draw(self, at: fb.Position) -> None:
        say(self.statement, fb.statement(at))
        with one_frame(), light():
            figures.update(self.figures["grids"], fb.grids_figure(at))
            figures.update(self.figures["errors"], fb.errors_figure(at))
