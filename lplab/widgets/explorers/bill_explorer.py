"""The bill of a training, live: energy of a step by part, and carbon by place and precision."""

from __future__ import annotations

from typing import Any

import ipywidgets

from lplab import figures
from lplab.figures.lazy_figure import as_dicts
from lplab.hardware import footprint
from lplab.widgets.controls import line, set_text
from lplab.widgets.explorer_base import Explorer
from lplab.widgets.live.live_figure import LiveFigure, single_redraw

from . import bill_state as bs


class BillExplorer(Explorer):
    """A training's energy and carbon behind seven controls: job, precision, network, place.

    Args:
        **position: fields of `BillState`: ``job``, ``precision``, ``waiting``, ``compression``, ``place``, ``pue``,
            ``price``. Reset returns to them.

    Raises:
        ValueError: a value that is not allowed.

    >>> explorer = BillExplorer(precision="16 bits", compression=100)
    >>> explorer.figures["parts"].layout.meta["title"]
    '16 bits, 100 × fewer bytes: 66 % of the energy of plain 16 bits'
    """

    def __init__(self, **position: Any) -> None:
        super().__init__(bs.BillState(**position), bs.PRESETS)

    def _build(self, state: bs.BillState) -> tuple[list[ipywidgets.Widget], list[ipywidgets.Widget]]:
        w, (low, high) = ipywidgets, bs.WAITING
        places = [(f"{p.label}, {p.grams_per_kwh:.0f} g", p.name) for p in footprint.regions().values()]
        times = [(f"{c} ×", c) for c in bs.COMPRESSIONS]
        self.controls = {
            "job": w.Dropdown(options=list(bs.JOBS), description="training"),
            "precision": w.ToggleButtons(options=list(bs.PRECISIONS), description="numbers"),
            "waiting": w.FloatSlider(min=low, max=high, step=0.04, readout_format=".0%", description="waiting"),
            "compression": w.SelectionSlider(options=times, description="fewer bytes"),
            "place": w.Dropdown(options=places, description="place"),
            "pue": w.FloatSlider(min=bs.PUES[0], max=bs.PUES[1], step=0.02, readout_format=".2f", description="PUE"),
            "price": w.FloatSlider(
                min=bs.PRICES[0], max=bs.PRICES[1], step=0.01, readout_format=".2f", description="$ per kWh"
            ),
        }
        self.figures = {"parts": LiveFigure(bs.parts_figure(state)), "places": LiveFigure(bs.places_figure(state))}
        self.summary = line(bs.summary(state), "lp-quiet", "lp-live")
        job, precision, waiting, compression, *place = self.controls.values()
        heads = [line(text, "lp-heading") for text in ("The training", "The network", "The place")]
        side = [heads[0], self.presets, job, precision, heads[1], waiting, compression, heads[2], *place]
        return side, [self.figures["parts"], self.summary, self.figures["places"]]

    def _on_control_change(self, **position: Any) -> None:
        """Choosing another training also sets the network fields to that training's defaults."""
        super()._on_control_change(**position, **(bs.default_network(position["job"]) if "job" in position else {}))

    def _draw(self, state: bs.BillState) -> None:
        set_text(self.summary, bs.summary(state))
        with single_redraw(), as_dicts():
            figures.update(self.figures["parts"], bs.parts_figure(state))
            figures.update(self.figures["places"], bs.places_figure(state))
