"""A round of federated learning, live: what a phone computes, receives and sends, and the same in a data centre."""

from __future__ import annotations

from typing import Any

import ipywidgets

from lplab import figures
from lplab.figures.light import light
from lplab.hardware.footprint import rounds

from . import edge_state as es
from .controls import line, say
from .live_figure import LiveFigure, one_frame
from .positioned import PositionedExplorer


class EdgeExplorer(PositionedExplorer):
    """One client of a federated round behind four controls: network, device, way to the server, local epochs.

    Args:
        **position: fields of `Position`: ``network``, ``device``, ``way``, ``epochs``. Reset comes back to them.

    Raises:
        ValueError: a position that does not exist.

    >>> EdgeExplorer().figure.layout.meta["title"]
    'The radio takes 87 % at 32 bits; FP8 and 1 % up leave 18 % of all'
    """

    def __init__(self, **position: Any) -> None:
        super().__init__(es.Position(**position), es.PRESETS)

    def _build(self, at: es.Position) -> tuple[list[ipywidgets.Widget], list[ipywidgets.Widget]]:
        w = ipywidgets
        self.controls = {
            "network": w.Dropdown(options=list(es.NETWORKS), description="network"),
            "epochs": w.IntSlider(min=es.EPOCHS[0], max=es.EPOCHS[1], description="epochs"),
            "device": w.Dropdown(options=[(rounds.device(d).label, d) for d in es.DEVICES], description="device"),
            "way": w.ToggleButtons(options=[(rounds.radio(r).label, r) for r in es.WAYS], description="way"),
        }
        self.figure = LiveFigure(es.figure(at))
        self.statement = line(es.statement(at), "lp-quiet", "lp-live")
        return [line("A client", "lp-heading"), self.presets, *self.controls.values()], [self.figure, self.statement]

    def _draw(self, at: es.Position) -> None:
        say(self.statement, es.statement(at))
        with one_frame(), light():
            figures.update(self.figure, es.figure(at))
