"""A long sum in a narrow register, live: chunk, accumulator, mean and spread of the numbers."""

from typing import Any

import ipywidgets

from lplab import figures
from lplab.figures.lazy_figure import as_dicts
from lplab.widgets.controls import line, set_text
from lplab.widgets.explorer_base import Explorer
from lplab.widgets.live.live_figure import LiveFigure

from . import sum_state as sums


class SumExplorer(Explorer):
    """A sum of 65,536 numbers behind four controls: chunk, accumulator, mean and spread of the numbers.

    Args:
        **position: fields of `SumState`; Reset returns to them.

    >>> explorer = SumExplorer(chunk=64)
    >>> explorer.figure.layout.meta["title"]
    'Sum 65,664 of 65,565 (0.2 % off)'
    """

    _copy_tooltip = "Python that makes this sum"
    _figure_flex = None

    def __init__(self, **position: Any) -> None:
        super().__init__(sums.SumState(**position))

    def _build(self, state: sums.SumState) -> tuple[list[ipywidgets.Widget], list[ipywidgets.Widget]]:
        w = ipywidgets
        powers = [(f"{2**k:,}", 2**k) for k in range(sums.MAX_CHUNK_LOG2 + 1)]
        mean, spread = sums.RANGES["mean"], sums.RANGES["spread"]
        self.controls = {
            "chunk": w.SelectionSlider(options=powers, description="chunk"),
            "preset": w.Dropdown(options=list(sums.PRESETS), description="accumulator"),
            "mean": w.FloatSlider(min=mean[0], max=mean[1], step=0.25, readout_format=".2f", description="mean"),
            "spread": w.FloatSlider(
                min=spread[0], max=spread[1], step=0.25, readout_format=".2f", description="spread"
            ),
        }
        self.figure = LiveFigure(sums.figure(state))
        self.summary = line(sums.summary(state), "lp-quiet", "lp-live")
        sum_, data = line("The sum", "lp-heading"), line("The numbers", "lp-heading")
        chunk, preset, *rest = self.controls.values()
        return [sum_, chunk, preset, data, *rest], [self.figure, self.summary]

    def _draw(self, state: sums.SumState) -> None:
        set_text(self.summary, sums.summary(state))
        with as_dicts():
            figures.update(self.figure, sums.figure(state))
