"""A simulated cluster, live: one step on a time axis, and how efficient more or fewer devices would be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import ipywidgets
import traitlets

from lplab import figures
from lplab.figures.light import light

from . import cluster_state as cs
from .controls import Helper, guarded, line, say
from .live_figure import LiveFigure

NONE = "(none)"


class ClusterExplorer(ipywidgets.VBox):
    """A training step on a simulated cluster behind controls for chips, network, bits and compressor.

    Args:
        **position: fields of `ClusterPosition`; Reset comes back to them.

    Raises:
        ValueError: a position that does not exist.

    >>> explorer = ClusterExplorer(devices=8)
    >>> explorer.figure.layout.meta["title"]
    '8 devices do the work of 2.3'
    """

    position = traitlets.Instance(cs.ClusterPosition, help="Where the controls stand.")

    def __init__(self, **position: Any) -> None:
        self._start, self._setting = cs.ClusterPosition(**position), False
        self._build(self._start)
        super().__init__([self._columns, self.error_line, self._helper], position=self._start)
        self.add_class("lp-controls")
        self._set_controls(self._start)
        self.observe(guarded(self.error_line, lambda change: self._react(change["new"])), "position")
        for name, control in self.controls.items():
            moved = guarded(self.error_line, lambda change, name=name: self._moved(**{name: change["new"]}))
            control.observe(moved, "value")
        self.preset.observe(guarded(self.error_line, lambda change: self._preset(change["new"])), "value")
        self.reset_button.on_click(guarded(self.error_line, lambda _: self.reset()))
        self.copy_button.on_click(guarded(self.error_line, lambda _: self.copy_code()))

    def set(self, **position: Any) -> None:
        """Move controls by name: the fields of `ClusterPosition`."""
        self.position = replace(self.position, **position)

    def reset(self) -> None:
        """Put every control back to where it was at first."""
        self.position = self._start

    def copy_code(self) -> None:
        """Show the simulation as Python, and copy it to the clipboard."""
        say(self.code_line, self.position.code)
        self._helper.copy(self.position.code)

    # -- display --------------------------------------------------------------------------------------------------

    def _build(self, at: cs.ClusterPosition) -> None:
        w = ipywidgets
        self.controls: dict[str, Any] = {
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
        self.figure = LiveFigure(cs.picture(at))
        self.statement = line(cs.statement(at), "lp-quiet", "lp-live")
        self.error_line, self.code_line = line("", "lp-error", "lp-live"), line("", "lp-code")
        say(self.error_line, "")
        say(self.code_line, "")
        self.reset_button = w.Button(description="Reset", tooltip="back to where it was at first")
        self.copy_button = w.Button(description="Copy as code", tooltip="Python that simulates this step")
        self._helper = Helper()
        self._columns = w.Box([self._side(), self._main()])
        self._columns.add_class("lp-columns")

    def _side(self) -> ipywidgets.VBox:
        c, buttons = self.controls, ipywidgets.HBox([self.reset_button, self.copy_button])
        buttons.add_class("lp-row")
        chips = [c[name] for name in ("chip", "utilization", "devices", "per_node")]
        cluster = [line("The cluster", "lp-heading"), self.preset, *chips]
        network = [c["gigabits"], c["microseconds"]]
        training = [line("The training", "lp-heading"), *(c[n] for n in ("recipe", "compressor", "overlap", "batch"))]
        side = ipywidgets.VBox([*cluster, *network, *training, c["sharded"], buttons, self.code_line])
        side.add_class("lp-side")
        return side

    def _main(self) -> ipywidgets.VBox:
        main = ipywidgets.VBox([self.figure, self.statement])
        main.layout.flex = "3 1 480px"
        main.add_class("lp-main")
        return main

    def _preset(self, name: str) -> None:
        if not self._setting and name in cs.PRESETS:
            self.set(**cs.PRESETS[name])

    def _moved(self, **position: Any) -> None:
        if not self._setting:
            self.set(**position)

    def _set_controls(self, at: cs.ClusterPosition) -> None:
        """Put the controls where the position says, without their calling back."""
        self._setting = True
        try:
            for name, control in self.controls.items():
                control.value = getattr(at, name)
            self.preset.value = cs.preset_of(at) or NONE
        finally:
            self._setting = False

    def _react(self, at: cs.ClusterPosition) -> None:
        self._set_controls(at)
        say(self.statement, cs.statement(at))
        if self.code_line.value:
            say(self.code_line, at.code)
        with light():
            figures.update(self.figure, cs.picture(at))


def _latencies() -> list[tuple[str, float]]:
    return [(f"{m:,g}", m) for m in cs.MICROSECONDS]


def _percent(shares: Sequence[float]) -> list[tuple[str, float]]:
    return [(f"{share:.0%}", share) for share in shares]
