"""Real gradients over grids of four bits, live: which grid, which scale, which layer, which moment."""

from dataclasses import replace
from typing import Any

import ipywidgets
import traitlets

from lplab import figures
from lplab.figures.light import light
from lplab.quantizers import GRADIENT_GRIDS

from . import four_bit_state as fb
from .controls import Helper, guarded, line, say
from .live_figure import LiveFigure, one_frame


class FourBitExplorer(ipywidgets.VBox):
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

    position = traitlets.Instance(fb.Position, help="Where the controls stand.")

    def __init__(self, **position: Any) -> None:
        self._start, self._setting = fb.Position(**position), False
        self._build(self._start)
        super().__init__([self._columns, self.error_line, self._helper], position=self._start)
        self.add_class("lp-controls")
        self._set_controls(self._start)
        self.observe(guarded(self.error_line, lambda change: self._react(change["new"])), "position")
        for name, control in self.controls.items():
            moved = guarded(self.error_line, lambda change, name=name: self._moved(**{name: change["new"]}))
            control.observe(moved, "value")
        for name, button in self.preset_buttons.items():
            button.on_click(guarded(self.error_line, lambda _, name=name: self.set(**fb.PRESETS[name])))
        self.reset_button.on_click(guarded(self.error_line, lambda _: self.reset()))
        self.copy_button.on_click(guarded(self.error_line, lambda _: self.copy_code()))

    # -- what a notebook may use ----------------------------------------------------------------------------------

    def set(self, **position: Any) -> None:
        """Move controls by name: the fields of `Position`. Another network has other layers: then all are shown."""
        at = position.get("moment", self.position.moment)
        layer = position.get("layer", self.position.layer)
        if "layer" not in position and at in fb.moments() and layer not in fb.gradients(at):
            position["layer"] = fb.ALL
        self.position = replace(self.position, **position)

    def reset(self) -> None:
        """Put every control back to where it was at first."""
        self.position = self._start

    def copy_code(self) -> None:
        """Show Python that gives the numbers of the chosen grid, and copy it to the clipboard."""
        say(self.code_line, *self.position.code.splitlines())
        self._helper.copy(self.position.code)

    # -- display --------------------------------------------------------------------------------------------------

    def _build(self, at: fb.Position) -> None:
        w = ipywidgets
        scales = [(fb.raised(f"2^{k}"), k) for k in fb.SCALES] + [("per layer", fb.PER_LAYER)]
        grids = [(grid.label, name) for name, grid in GRADIENT_GRIDS.items()]
        measures = [(label, name) for name, (label, *_) in fb.MEASURES.items()]
        self.controls: dict[str, Any] = {
            "grid": w.Dropdown(options=grids, description="grid"),
            "scale": w.SelectionSlider(options=scales, description="scale"),
            "moment": w.Dropdown(options=list(fb.moments()), description="gradients"),
            "layer": w.Dropdown(options=[fb.ALL, *fb.gradients(at.moment)], description="layer"),
            "measure": w.Dropdown(options=measures, description="curve"),
        }
        self.preset_buttons = {
            name: w.Button(description=name, tooltip="put the controls there") for name in fb.PRESETS
        }
        self.figures = {"grids": LiveFigure(fb.grids_figure(at)), "errors": LiveFigure(fb.errors_figure(at))}
        self.statement = line(fb.statement(at), "lp-quiet", "lp-live")
        self.error_line, self.code_line = line("", "lp-error", "lp-live"), line("", "lp-code")
        say(self.error_line, "")
        say(self.code_line, "")
        self.reset_button = w.Button(description="Reset", tooltip="back to where it was at first")
        self.copy_button = w.Button(description="Copy as code", tooltip="Python that gives these numbers")
        self._helper = Helper()
        self._columns = w.Box(self._boxes())
        self._columns.add_class("lp-columns")

    def _boxes(self) -> list[ipywidgets.VBox]:
        w = ipywidgets
        presets, buttons = w.Box(list(self.preset_buttons.values())), w.HBox([self.reset_button, self.copy_button])
        for row in (presets, buttons):
            row.add_class("lp-row")
        presets.layout.flex_flow = "row wrap"
        grid, scale, *data, measure = self.controls.values()
        heads = [line(text, "lp-heading") for text in ("Four bits", "Gradients", "Against the scale")]
        side = w.VBox([heads[0], presets, grid, scale, heads[1], *data, heads[2], measure, buttons, self.code_line])
        main = w.VBox([self.figures["grids"], self.statement, self.figures["errors"]])
        main.layout.flex = "3 1 520px"  # the rows need the room: on a narrow screen the controls go on top
        for box, css in ((side, "lp-side"), (main, "lp-main")):
            box.add_class(css)
        return [side, main]

    def _moved(self, **position: Any) -> None:
        if not self._setting:
            self.set(**position)

    def _set_controls(self, at: fb.Position) -> None:
        """Put the controls where the position says, without their calling back."""
        self._setting = True
        try:
            layers = (fb.ALL, *fb.gradients(at.moment))
            if self.controls["layer"].options != layers:
                self.controls["layer"].options = layers
            for name, control in self.controls.items():
                control.value = getattr(at, name)
        finally:
            self._setting = False

    def _react(self, at: fb.Position) -> None:
        self._set_controls(at)
        say(self.statement, fb.statement(at))
        if self.code_line.value:
            say(self.code_line, *at.code.splitlines())
        with one_frame(), light():
            figures.update(self.figures["grids"], fb.grids_figure(at))
            figures.update(self.figures["errors"], fb.errors_figure(at))
