"""Recorded trainings under AdaComp, live: what every layer sends, its residual, and the compression ratio."""

from __future__ import annotations

from typing import Any

import ipywidgets

from lplab import figures
from lplab.figures.lazy_figure import as_dicts
from lplab.recordings.adacomp import adacomp_recording
from lplab.widgets.controls import line, set_text, table
from lplab.widgets.explorer_base import Explorer
from lplab.widgets.live.live_figure import LiveFigure, single_redraw

from . import residual_state as rs

_HEADS = ("", "this step", "all steps")


class ResidualExplorer(Explorer):
    """What four learners send under AdaComp, behind four controls: length of the bins, threshold, layer, step.

    Args:
        **position: fields of `ResidualState`: ``bin``, ``factor``, ``layer``, ``moment``. Reset returns to them.

    Raises:
        ValueError: a value that is not allowed.

    >>> explorer = ResidualExplorer(bin=1)
    >>> explorer.figures["history"].layout.meta["title"][:28]
    'Bins of 1: convolution sends'
    """

    def __init__(self, **position: Any) -> None:
        super().__init__(rs.ResidualState(**position), rs.PRESETS)

    def _build(self, state: rs.ResidualState) -> tuple[list[ipywidgets.Widget], list[ipywidgets.Widget]]:
        w, recorded = ipywidgets, adacomp_recording()
        self.controls = {
            "bin": w.SelectionSlider(options=[(rs.bin_label(b), b) for b in rs.bins()], description="bin"),
            "factor": w.Dropdown(options=list(rs.FACTORS.items()), description="threshold"),
            "layer": w.Dropdown(options=list(recorded.layers), description="layer"),
            "moment": w.SelectionSlider(options=list(recorded.moments), description="step"),
        }
        self.figures = {"history": LiveFigure(rs.history_figure(state)), "bins": LiveFigure(rs.bins_figure(state))}
        self.summary, self.table = line(rs.summary(state), "lp-quiet", "lp-live"), line("", "lp-quiet")
        self.table.value = table(_HEADS, rs.table(state))
        bin, factor, layer, moment = self.controls.values()
        bin.add_class("lp-wide-readout")  # "50 | 500"
        heads = [line(text, "lp-heading") for text in ("AdaComp", "Look at", "This layer, times smaller")]
        side = [heads[0], self.presets, bin, factor, heads[1], layer, moment, heads[2], self.table]
        return side, [self.figures["history"], self.summary, self.figures["bins"]]

    def _draw(self, state: rs.ResidualState) -> None:
        set_text(self.summary, rs.summary(state))
        self.table.value = table(_HEADS, rs.table(state))
        with single_redraw(), as_dicts():
            figures.update(self.figures["history"], rs.history_figure(state))
            figures.update(self.figures["bins"], rs.bins_figure(state))
