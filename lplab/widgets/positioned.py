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
    the side and in the middle; in ``_draw`` it brings everything that is shown up to date. Where options or ends of
    controls depend on the position, it also writes ``_fit``; where controls show more than its fields, ``_values``.

    Args:
        start: where the controls stand at first, a frozen dataclass with a property ``code``: Python that gives the
            numbers of this position. Reset comes back to it.
        presets: names of buttons, and the fields of the position that they set.
    """

    position = traitlets.Any(help="Where the controls stand.")
    _copies = "Python that gives these numbers"  # the tooltip of "Copy as code"
    _room: str | None = "3 1 520px"  # flex of the figures; with less room than that the controls go on top

    def __init__(self, start: Any, presets: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        presets = presets or {}
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
        text = self._code(self.position)
        say(self.code_line, *text.splitlines())
        self._helper.copy(text)

    # -- what a subclass writes -----------------------------------------------------------------------------------

    def _build(self, at: Any) -> tuple[Sequence[ipywidgets.Widget], Sequence[ipywidgets.Widget]]:
        """Make ``controls`` and figures; return what stands at the side and in the middle."""
        raise NotImplementedError

    def _draw(self, at: Any) -> None:
        """Bring figures and texts to a position."""
        raise NotImplementedError

    def _fit(self, at: Any) -> None:
        """Bring to a position what values of controls depend on: options, ends; no control calls back meanwhile."""

    def _values(self, at: Any) -> dict[str, Any]:
        """What every control shows at a position."""
        return {name: getattr(at, name) for name in self.controls}

    def _code(self, at: Any) -> str:
        """Python that gives the numbers of a position."""
        return str(at.code)

    # -- the rest -------------------------------------------------------------------------------------------------

    def _parts(self, presets: Mapping[str, Any]) -> None:
        """The members that every explorer has."""
        w = ipywidgets
        self.error_line, self.code_line = line("", "lp-error", "lp-live"), line("", "lp-code")
        for each in (self.error_line, self.code_line):
            say(each, "")
        self.preset_buttons = {name: w.Button(description=name, tooltip="put the controls there") for name in presets}
        self.reset_button = w.Button(description="Reset", tooltip="back to where it was at first")
        self.copy_button = w.Button(description="Copy as code", tooltip=self._copies)
        self.presets = w.Box(list(self.preset_buttons.values()))
        self.buttons = w.HBox([self.reset_button, self.copy_button])
        self._helper = Helper()
        for row in (self.presets, self.buttons):
            row.add_class("lp-row")
        self.presets.layout.flex_flow = "row wrap"

    def _columns(self, side: Sequence[ipywidgets.Widget], main: Sequence[ipywidgets.Widget]) -> ipywidgets.Box:
        boxes = [ipywidgets.VBox([*side, self.buttons, self.code_line]), ipywidgets.VBox(list(main))]
        boxes[1].layout.flex = self._room
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
            self._fit(at)
            for name, value in self._values(at).items():
                self.controls[name].value = value
        finally:
            self._setting = False

    def _react(self, at: Any) -> None:
        self._set_controls(at)
        if self.code_line.value:
            say(self.code_line, *self._code(at).splitlines())
        self._draw(at)

    @traitlets.validate("position")
    def _known(self, proposal: Any) -> Any:
        if not isinstance(proposal["value"], type(self._start)):
            wanted, got = type(self._start).__name__, type(proposal["value"]).__name__
            raise traitlets.TraitError(f"position must be a {wanted}, got {got}")
        return proposal["value"]


def offer(control: Any, options: Sequence[Any]) -> None:
    """Give a control that chooses other options; the same options are left alone, and with them what is chosen.

    >>> shown = ipywidgets.Dropdown(options=["a", "b"], value="b")
    >>> offer(shown, ("a", "b"))
    >>> shown.value
    'b'
    """
    if list(control.options) != list(options):
        control.options = options
