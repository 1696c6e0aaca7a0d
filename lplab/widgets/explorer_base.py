"""The base class of the explorers: controls, presets, Reset and "copy as code" set one state, which figures show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import ipywidgets
import traitlets

from .controls import ControlGroup, line, set_text, show_errors


class Explorer(ipywidgets.VBox):
    """Controls beside figures. A subclass builds both and redraws the figures when the state changes.

    A subclass implements ``_build``, which fills ``controls`` (by the name of the field that each one sets) and returns
    the widgets of the side and of the main column, and ``_draw``, which updates everything that is shown. Where options
    or limits of controls depend on the state, it overrides ``_update_options``; where a control shows something else
    than a field of the state, ``_control_values``. The summary line is ``summary``.

    Args:
        start: the first state, a frozen dataclass with a property ``code``: Python that gives the numbers of this
            state. Reset returns to it.
        presets: names of buttons, and the fields of the state that they set.
    """

    position = traitlets.Any(help="The state: the value of every control.")
    _copy_tooltip = "Python that gives these numbers"  # the tooltip of "Copy as code"
    _figure_flex: str | None = "3 1 520px"  # CSS flex of the main column; on narrower pages the controls go on top
    summary: ipywidgets.HTML

    def __init__(self, start: Any, presets: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        presets = presets or {}
        self._start, self._setting_controls = start, False
        self.controls: dict[str, Any] = {}
        self._make_common(presets)
        side, main = self._build(start)
        super().__init__([self._columns(side, main), self.error_line, self._control_group], position=start)
        self.add_class("lp-controls")
        self._set_controls(start)
        self.observe(show_errors(self.error_line, lambda change: self._on_state_change(change["new"])), "position")
        for name, control in self.controls.items():
            moved = show_errors(
                self.error_line, lambda change, name=name: self._on_control_change(**{name: change["new"]})
            )
            control.observe(moved, "value")
        for name, button in self.preset_buttons.items():
            button.on_click(show_errors(self.error_line, lambda _, name=name: self.set(**presets[name])))
        self.reset_button.on_click(show_errors(self.error_line, lambda _: self.reset()))
        self.copy_button.on_click(show_errors(self.error_line, lambda _: self.copy_code()))

    # -- what a notebook may use ----------------------------------------------------------------------------------

    @property
    def statement(self) -> ipywidgets.HTML:
        """The line ``summary``, by its earlier name."""
        return self.summary

    def set(self, **position: Any) -> None:
        """Set controls by name: the fields of the state."""
        self.position = replace(self.position, **position)

    def reset(self) -> None:
        """Set every control back to its first value."""
        self.position = self._start

    def copy_code(self) -> None:
        """Show Python that gives the numbers of this state, and copy it to the clipboard."""
        text = self._code(self.position)
        set_text(self.code_line, *text.splitlines())
        self._control_group.copy(text)

    # -- what a subclass implements -------------------------------------------------------------------------------

    def _build(self, state: Any) -> tuple[Sequence[ipywidgets.Widget], Sequence[ipywidgets.Widget]]:
        """Make ``controls`` and figures; return the widgets of the side and of the main column."""
        raise NotImplementedError

    def _draw(self, state: Any) -> None:
        """Update figures and texts to a state."""
        raise NotImplementedError

    def _update_options(self, state: Any) -> None:
        """Update options and limits of controls that depend on the state; callbacks are off meanwhile."""

    def _control_values(self, state: Any) -> dict[str, Any]:
        """The value of every control in a state."""
        return {name: getattr(state, name) for name in self.controls}

    def _code(self, state: Any) -> str:
        """Python that gives the numbers of a state."""
        return str(state.code)

    # -- internals ------------------------------------------------------------------------------------------------

    def _make_common(self, presets: Mapping[str, Any]) -> None:
        """Make the widgets that every explorer has."""
        w = ipywidgets
        self.error_line, self.code_line = line("", "lp-error", "lp-live"), line("", "lp-code")
        for each in (self.error_line, self.code_line):
            set_text(each, "")
        self.preset_buttons = {name: w.Button(description=name, tooltip="put the controls there") for name in presets}
        self.reset_button = w.Button(description="Reset", tooltip="back to where it was at first")
        self.copy_button = w.Button(description="Copy as code", tooltip=self._copy_tooltip)
        self.presets = w.Box(list(self.preset_buttons.values()))
        self.buttons = w.HBox([self.reset_button, self.copy_button])
        self._control_group = ControlGroup()
        for row in (self.presets, self.buttons):
            row.add_class("lp-row")
        self.presets.layout.flex_flow = "row wrap"

    def _columns(self, side: Sequence[ipywidgets.Widget], main: Sequence[ipywidgets.Widget]) -> ipywidgets.Box:
        boxes = [ipywidgets.VBox([*side, self.buttons, self.code_line]), ipywidgets.VBox(list(main))]
        boxes[1].layout.flex = self._figure_flex
        columns = ipywidgets.Box(boxes)
        for box, css in zip((*boxes, columns), ("lp-side", "lp-main", "lp-columns"), strict=True):
            box.add_class(css)
        return columns

    def _on_control_change(self, **position: Any) -> None:
        if not self._setting_controls:
            self.set(**position)

    def _set_controls(self, state: Any) -> None:
        """Set the controls to the state, with callbacks off."""
        self._setting_controls = True
        try:
            self._update_options(state)
            for name, value in self._control_values(state).items():
                self.controls[name].value = value
        finally:
            self._setting_controls = False

    def _on_state_change(self, state: Any) -> None:
        self._set_controls(state)
        if self.code_line.value:
            set_text(self.code_line, *self._code(state).splitlines())
        self._draw(state)

    @traitlets.validate("position")
    def _check_type(self, proposal: Any) -> Any:
        if not isinstance(proposal["value"], type(self._start)):
            wanted, got = type(self._start).__name__, type(proposal["value"]).__name__
            raise traitlets.TraitError(f"position must be a {wanted}, got {got}")
        return proposal["value"]


def set_options(control: Any, options: Sequence[Any]) -> None:
    """Set the options of a selection control; where they are the same, nothing changes, the chosen value included.

    >>> shown = ipywidgets.Dropdown(options=["a", "b"], value="b")
    >>> set_options(shown, ("a", "b"))
    >>> shown.value
    'b'
    """
    if list(control.options) != list(options):
        control.options = options
