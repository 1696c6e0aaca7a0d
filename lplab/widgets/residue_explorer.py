"""Recorded trainings under AdaComp, live: what every layer sends, what its residue holds back, and what that saves."""

from __future__ import annotations

from typing import Any

import ipywidgets

from lplab import figures
from lplab.figures.light import light
from lplab.residue_recording import residue_recording

from . import residue_state as rs
from .controls import line, say, table
from .live_figure import LiveFigure, one_frame
from .positioned import PositionedExplorer

_HEADS = ("", "this step", "all steps")


class ResidueExplorer(PositionedExplorer):
    """What four learners send under AdaComp, behind four controls: length of the bins, threshold, layer, step.

    Args:
        **position: fields of `Position`: ``bin``, ``factor``, ``layer``, ``moment``. Reset comes back to them.

    Raises:
        ValueError: a position that does not exist.

    >>> explorer = ResidueExplorer(bin=1)
    >>> explorer.figures["courses"].layout.meta["title"][:28]
    'Bins of 1: convolution sends'
    """

    def __init__(self, **position: Any) -> None:
        super().__init__(rs.Position(**position), rs.PRESETS)

    def _build(self, at: rs.Position) -> tuple[list[ipywidgets.Widget], list[ipywidgets.Widget]]:
        w, recorded = ipywidgets, residue_recording()
        self.controls = {
            "bin": w.SelectionSlider(options=[(rs.bin_label(b), b) for b in rs.bins()], description="bin"),
            "factor": w.Dropdown(options=list(rs.FACTORS.items()), description="threshold"),
            "layer": w.Dropdown(options=list(recorded.layers), description="layer"),
            "moment": w.SelectionSlider(options=list(recorded.moments), description="step"),
        }
        self.figures = {"courses": LiveFigure(rs.courses_figure(at)), "bins": LiveFigure(rs.bins_figure(at))}
        self.statement, self.table = line(rs.statement(at), "lp-quiet", "lp-live"), line("", "lp-quiet")
        self.table.value = table(_HEADS, rs.table(at))
        bin, factor, layer, moment = self.controls.values()
        bin.add_class("lp-wide-readout")  # "50 | 500"
        heads = [line(text, "lp-heading") for text in ("AdaComp", "Look at", "This layer, times smaller")]
        side = [heads[0], self.presets, bin, factor, heads[1], layer, moment, heads[2], self.table]
        return side, [self.figures["courses"], self.statement, self.figures["bins"]]

    def _draw(self, at: rs.Position) -> None:
        say(self.statement, rs.statement(at))
        self.table.value = table(_HEADS, rs.table(at))
        with one_frame(), light():
            figures.update(self.figures["courses"], rs.courses_figure(at))
            figures.update(self.figures["bins"], rs.bins_figure(at))
