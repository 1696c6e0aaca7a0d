"""A round of federated learning, live: what a phone computes, receives and sends, and the same in a data centre."""

from __future__ import annotations

from typing import Any

import ipywidgets

from lplab import figures
from lplab.figures.lazy_figure import as_dicts
from lplab.hardware.footprint import rounds
from lplab.widgets.controls import line, set_text
from lplab.widgets.explorer_base import Explorer
from lplab.widgets.live.live_figure import LiveFigure, single_redraw

from . import edge_state as es


class EdgeExplorer(Explorer):
    """One client of a federated round behind four controls: network, device, radio, local epochs.

    Args:
        **position: fields of `EdgeState`: ``network``, ``device``, ``radio``, ``epochs``. Reset returns to them.

    Raises:
        ValueError: a value that is not allowed.

    >>> EdgeExplorer().figure.layout.meta["title"]
    'The radio takes 87 % at 32 bits; FP8 and 1 % up leave 18 % of all'
    """

    def __init__(self, **position: Any) -> None:
        super().__init__(es.EdgeState(**position), es.PRESETS)

    def _build(self, state: es.EdgeState) -> tuple[list[ipywidgets.Widget], list[ipywidgets.Widget]]:
        w = ipywidgets
        self.controls = {
            "network": w.Dropdown(options=list(es.NETWORKS), description="network"),
            "epochs": w.IntSlider(min=es.EPOCHS[0], max=es.EPOCHS[1], description="epochs"),
            "device": w.Dropdown(options=[(rounds.device(d).label, d) for d in es.DEVICES], description="device"),
            "radio": w.ToggleButtons(options=[(rounds.radio(r).label, r) for r in es.RADIOS], description="way"),
        }
        self.figure = LiveFigure(es.figure(state))
        self.summary = line(es.summary(state), "lp-quiet", "lp-live")
        return [line("A client", "lp-heading"), self.presets, *self.controls.values()], [self.figure, self.summary]

    def _draw(self, state: es.EdgeState) -> None:
        set_text(self.summary, es.summary(state))
        with single_redraw(), as_dicts():
            figures.update(self.figure, es.figure(state))
