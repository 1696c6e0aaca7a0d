"""A simulated cluster, live: one step on a time axis, and how efficient more or fewer devices would be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ipywidgets

from lplab import figures
from lplab.figures.lazy_figure import as_dicts
from lplab.widgets.controls import line, set_text, show_errors
from lplab.widgets.explorer_base import Explorer
from lplab.widgets.live.live_figure import LiveFigure

from . import cluster_state as cs

NONE = "(none)"


class ClusterExplorer(Explorer):
    """A training step on a simulated cluster behind controls for chips, network, bits and compressor.

    Args:
        **position: fields of `ClusterState`; Reset returns to them.

    Raises:
        ValueError: a value that is not allowed.

    >>> explorer = ClusterExplorer(devices=8)
    >>> explorer.figure.layout.meta["title"]
    '8 devices do the work of 2.3'
    """

    _copy_tooltip = "Python that simulates this step"
    _figure_flex = "3 1 480px"

    def __init__(self, **position: Any) -> None:
        super().__init__(cs.ClusterState(**position))
        self.preset.observe(show_errors(self.error_line, lambda change: self._preset(change["new"])), "value")

    def _build(self, state: cs.ClusterState) -> tuple[list[ipywidgets.Widget], list[ipywidgets.Widget]]:
        w = ipywidgets
        self.controls = {
            "chip": w.Dropdown(options=list(cs.CHIPS), description="chip"),
            "utilization": w.SelectionSlider(options=_percent(cs.UTILIZATIONS), description="share of peak"),
            "devices": w.SelectionSlider(options=[(f"{n:,}", n) for n in cs.DEVICES], description="devices"),
            "per_node": w.ToggleButtons(options=list(cs.NODES), description="in a node"),
            "gigabits": w.SelectionSlider(options=[(f"{g:g}", g) for g in cs.GIGABITS], description="link, Gb/s"),
            "microseconds": w.SelectionSlider(options=_latencies(), description="latency, µs"),
            "recipe": w.Dropdown(options=list(cs.RECIPES), description="bits"),
            "compressor": w.Dropdown(options=list(cs.COMPRESSORS), description="compressor"),
            "overlap": w.SelectionSlider(options=_percent(cs.SHARES), description="overlap"),
            "batch": w.SelectionSlider(options=list(cs.BATCHES), description="batch each"),
            "sharded": w.Checkbox(description="shared update", indent=False),
        }
        self.preset = w.Dropdown(options=[NONE, *cs.PRESETS], description="preset")
        self.figure = LiveFigure(cs.figure(state))
        self.summary = line(cs.summary(state), "lp-quiet", "lp-live")
        return self._side(), [self.figure, self.summary]

    def _side(self) -> list[ipywidgets.Widget]:
        c = self.controls
        chips = [c[name] for name in ("chip", "utilization", "devices", "per_node")]
        cluster = [line("The cluster", "lp-heading"), self.preset, *chips]
        network = [c["gigabits"], c["microseconds"]]
        training = [line("The training", "lp-heading"), *(c[n] for n in ("recipe", "compressor", "overlap", "batch"))]
        return [*cluster, *network, *training, c["sharded"]]

    def _preset(self, name: str) -> None:
        if not self._setting_controls and name in cs.PRESETS:
            self.set(**cs.PRESETS[name])

    def _update_options(self, state: cs.ClusterState) -> None:
        self.preset.value = cs.preset_of(state) or NONE

    def _draw(self, state: cs.ClusterState) -> None:
        set_text(self.summary, cs.summary(state))
        with as_dicts():
            figures.update(self.figure, cs.figure(state))


def _latencies() -> list[tuple[str, float]]:
    return [(f"{m:,g}", m) for m in cs.MICROSECONDS]


def _percent(shares: Sequence[float]) -> list[tuple[str, float]]:
    return [(f"{share:.0%}", share) for share in shares]
