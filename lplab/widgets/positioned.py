"""What explorers share: a position that controls, presets, Reset and "copy as code" move, and that figures follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import ipywidgets
import traitlets

from .controls import Helper, guarded, line, say


class PositionedExplorer(ipywidgets.VBox):
    """Controls beside figures. A subclass builds both and says how figures follow the position.

    A subclass sets, in ``_build``, ``controls`` by the name of the field that each moves, and returns what stands at
    the side and in the middle; in ``_draw`` it brings everything that is shown up to date.

    Args:
        start: where the controls stand at first, a frozen dataclass with a property ``code``: Python that gives the
            numbers of this position. Reset comes back to it.
        presets: names of buttons, and the fields of the position that they set.
    """

    position = traitlets.Any(help="Where the controls stand.")

    def __init__(self, start: Any, presets: Mapping[str, Mapping[str, Any]]) -> None:
        self._start, self._setting = start, False
        self.controls: dict[str, Any] = {}
        self._parts(presets)
        side, main = self._build(start)
        super().__init__([self._columns(side, main), self.error_line, self._helper], position=start)
        self.add_class("lp-controls")
        self._set_controls(start)
        self.observe(guarded(self.error_line, lambda change: self._react(change["new"])), "position")
        for name, control in self.controls.items():
            moved = guarded(self.error_line, lambda change, name=name: self._moved(**{name: change["new"]}))
            control.observe(moved, "value")
        for name, button in self.preset_buttons.items():
            button.on_click(guarded(self.error_line, lambda _, name=name: self.set(**presets[name])))
        self.reset_button.on_click(guarded(self.error_line, lambda _: self.reset()))
        self.copy_button.on_click(guarded(self.error_line, lambda _: self.copy_code()))

    # -- what a notebook may use ----------------------------------------------------------------------------------

    def set(self, **position: Any) -> None:
        """Move controls by name: the fields of the position."""
        self.position = replace(self.position, **position)

    def reset(self) -> None:
        """Put every control back to where it was at first."""
        self.position = self._start

    def copy_code(self) -> None:
        """Show Python that gives the numbers of this position, and copy it to the clipboard."""
        say(self.code_line, *self.position.code.splitlines())
        self._helper.copy(self.position.code)

    # -- what a subclass writes -----------------------------------------------------------------------------------

    def _build(self, at: Any) -> tuple[Sequence[ipywidgets.Widget], Sequence[ipywidgets.Widget]]:
        """Make ``controls`` and figures; return what stands at the side and in the middle."""
        raise NotImplementedError

    def _draw(self, at: Any) -> None:
        """Bring figures and texts to a position."""
        raise NotImplementedError

    # -- the rest -------------------------------------------------------------------------------------------------

    def _parts(self, presets: Mapping[str, Any]) -> None:
        """The members that every explorer has."""
        w = ipywidgets
        self.error_line, self.code_line = line("", "lp-error", "lp-live"), line("", "lp-code")
        for each in (self.error_line, self.code_line):
            say(each, "")
        self.preset_buttons = {name: w.Button(description=name, tooltip="put the controls there") for name in presets}
        self.reset_button = w.Button(description="Reset", tooltip="back to where it was at first")
        self.copy_button = w.Button(description="Copy as code", tooltip="Python that gives these numbers")
        self.presets = w.Box(list(self.preset_buttons.values()))
        self.buttons = w.HBox([self.reset_button, self.copy_button])
        self._helper = Helper()
        for row in (self.presets, self.buttons):
            row.add_class("lp-row")
        self.presets.layout.flex_flow = "row wrap"

    def _columns(self, side: Sequence[ipywidgets.Widget], main: Sequence[ipywidgets.Widget]) -> ipywidgets.Box:
        boxes = [ipywidgets.VBox([*side, self.buttons, self.code_line]), ipywidgets.VBox(list(main))]
        boxes[1].layout.flex = "3 1 520px"  # on a narrow screen the controls go on top
        columns = ipywidgets.Box(boxes)
        for box, css in zip((*boxes, columns), ("lp-side", "lp-main", "lp-columns"), strict=True):
            box.add_class(css)
        return columns

    def _moved(self, **position: Any) -> None:
        if not self._setting:
            self.set(**position)

    def _set_controls(self, at: Any) -> None:
        """Put the controls where the position says, without their calling back."""
        self._setting = True
        try:
            for name, control in self.controls.items():
                control.value = getattr(at, name)
        finally:
            self._setting = False

    def _react(self, at: Any) -> None:
        self._set_controls(at)
        if self.code_line.value:
            say(self.code_line, *at.code.splitlines())
        self._draw(at)
