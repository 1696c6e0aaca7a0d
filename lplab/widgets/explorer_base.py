"""The base class of the explorers: controls, presets, Reset and "copy as code" set one state, which figures show."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar

import ipywidgets
import traitlets

from lplab import figures
from lplab.figures.lazy_figure import as_dicts

from .controls import ControlGroup, line, set_text, show_errors, table
from .fields import Choice, ExplorerState, Slider, Steps, preset_of
from .live.live_figure import LiveFigure, single_redraw


class Explorer(ipywidgets.VBox):
    """Controls beside figures. A subclass declares its state, the order on the page, its figures and its sentence.

    An explorer is one module: a frozen `ExplorerState` whose fields have controls, a function that draws a state, one
    that says it in a sentence, and a subclass with `state_class`, `side`, `_figures` and `_summary`. Its name in
    ``lplab/widgets/__init__.py`` brings it to notebooks, and to the tests of all explorers. Where options depend on
    more than the state, it overrides `_options`; where a control shows something else than a field,
    `_control_values`; where other fields follow a change, `ExplorerState.changed`; where a control changes nothing,
    `_off`.

    Args:
        **position: fields of the state; Reset returns to them.

    Raises:
        ValueError: a value that is not allowed.
    """

    position = traitlets.Any(help="The state: the value of every control.")

    state_class: ClassVar[type[ExplorerState]]
    side: ClassVar[Mapping[str, Sequence[str]]]  # headings, and what stands below each: fields, "presets" or "table"
    preset_fields: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # names, and the fields that each sets
    no_preset: ClassVar[str] = ""  # where presets are a list instead of buttons: its entry for all other states
    table_heads: ClassVar[Sequence[str]] = ()  # where there is a table: the heads of its columns
    figure_names: ClassVar[Mapping[str, str]] = {}  # what each figure shows, in words that answer no question
    imports: ClassVar[Sequence[str]] = ()  # lines for the names in the code of a state, which has none itself
    _copy_tooltip = "Python that gives these numbers"  # the tooltip of "Copy as code"
    _figure_flex: str | None = "3 1 520px"  # CSS flex of the main column; on narrower pages the controls go on top
    _preset_layout: ClassVar[Mapping[str, str]] = {"flex_flow": "row wrap"}
    _summary_css: tuple[str, ...] = ("lp-quiet", "lp-live")
    summary: ipywidgets.HTML
    figures: dict[str, LiveFigure]
    _columns: ipywidgets.Box

    def __init__(self, **position: Any) -> None:
        self._start = start = self._after(self.state_class(), position)
        self._setting_controls = self._is_apart = False
        self._make_common()
        self._make(start)
        super().__init__(self._rows(), position=start)
        self.add_class("lp-controls")
        self._set_controls(start)
        self.observe(show_errors(self.error_line, lambda change: self._on_state_change(change["new"])), "position")
        for name, control in self.controls.items():
            moved = show_errors(
                self.error_line, lambda change, name=name: self._on_control_change(**{name: change["new"]})
            )
            control.observe(moved, "value")
        for name, button in self.preset_buttons.items():
            pressed = show_errors(self.error_line, lambda _, name=name: self.set(**self.preset_fields[name]))
            button.on_click(pressed)
        self.reset_button.on_click(show_errors(self.error_line, lambda _: self.reset()))
        self.copy_button.on_click(show_errors(self.error_line, lambda _: self.copy_code()))

    # -- what a notebook may use ----------------------------------------------------------------------------------

    @property
    def figure(self) -> LiveFigure:
        """The figure, where there is one; more than one are in ``figures``, by name."""
        if len(self.figures) != 1:
            raise AttributeError(f"{type(self).__name__} has no single figure; its figures: {', '.join(self.figures)}")
        return next(iter(self.figures.values()))

    @property
    def statement(self) -> ipywidgets.HTML:
        """The line ``summary``, by its earlier name."""
        return self.summary

    def set(self, **position: Any) -> None:
        """Set controls by name: the fields of the state; where presets are a list, also ``preset``."""
        self.position = self._moved(self.position, position)

    def state_at(self, **position: Any) -> Any:
        """The state that `set` would lead to from the first position; nothing moves."""
        return self._moved(self._start, position)

    def reset(self) -> None:
        """Set every control back to its first value."""
        self.position = self._start

    def copy_code(self) -> None:
        """Show Python that gives the numbers of this state, and copy it to the clipboard."""
        text = self.copied_code(self.position)
        set_text(self.code_line, *text.splitlines())
        self._control_group.copy(text)

    def copied_code(self, state: Any) -> str:
        """Python that gives the numbers of a state, with its imports: it runs in a new notebook."""
        return "\n".join([*self.imports, self._code(state)])

    def take_apart(self) -> None:
        """Make each panel a figure of its own, so that one can be shown alone; ``figures`` then has them by name.

        An explorer whose figures have one panel each stays as it is.
        """
        if self._is_apart or type(self)._panels is Explorer._panels:
            return
        self._is_apart = True
        for figure in self.figures.values():
            figure.close()
        self.figures = {name: LiveFigure(figure) for name, figure in self._shown_figures(self.position).items()}
        self._columns.children[1].children = self._main()

    # -- what a subclass implements -------------------------------------------------------------------------------

    def _figures(self, state: Any) -> dict[str, Any]:
        """The figures of a state by name; the first one stands above the summary."""
        raise NotImplementedError

    def _summary(self, state: Any) -> str:
        """What the state shows, in a sentence or two."""
        raise NotImplementedError

    def _table(self, state: Any) -> Sequence[Sequence[str]]:
        """The rows of the table, where there are `table_heads`."""
        raise NotImplementedError

    # -- what a subclass may override -----------------------------------------------------------------------------

    def _panels(self, state: Any) -> dict[str, Any]:
        """The panels of a state by name, where `_figures` stacks them: drawn together, they follow a slider faster."""
        return self._figures(state)

    def _changed(self, state: Any, changes: dict[str, Any]) -> Any:
        """The state after changes."""
        return state.changed(**changes)

    def _parts(self, state: Any) -> dict[str, list[Any]]:
        """Further widgets that `side` names."""
        return {}

    def _options(self, state: Any) -> dict[str, list[Any]]:
        """The options of every list, slider and row of buttons in a state."""
        return {
            name: field.offered(state)
            for name, field in self.state_class.controls().items()
            if isinstance(field, Choice)
        }

    def _control_values(self, state: Any) -> dict[str, Any]:
        """The value of every control in a state."""
        values = {name: getattr(state, name) for name in self.state_class.controls()}
        return values | ({"preset": preset_of(state, self.preset_fields, self.no_preset)} if self.no_preset else {})

    def _code(self, state: Any) -> str:
        """Python that gives the numbers of a state."""
        return str(state.code)

    def _off(self, state: Any) -> dict[str, str]:
        """The controls that change nothing in a state, by name, and why: they are grey, and the tooltip says why."""
        return {}

    def _update_options(self, state: Any) -> None:
        """Update what controls offer in a state; callbacks are off meanwhile."""
        for name, options in self._options(state).items():
            set_options(self.controls[name], options)
        reasons, declared = self._off(state), self.state_class.controls()
        for name, control in self.controls.items():
            control.disabled = name in reasons
            control.tooltip = reasons.get(name) or getattr(declared.get(name), "tooltip", "") or None

    def _draw(self, state: Any) -> None:
        """Update everything that is shown to a state."""
        if self.code_line.value:
            set_text(self.code_line, *self.copied_code(state).splitlines())
        set_text(self.summary, self._summary(state))
        if self.table_heads:
            self.table.value = table(self.table_heads, self._table(state))
        with single_redraw(), as_dicts():  # only what differs is sent
            for name, figure in self._shown_figures(state).items():
                figures.update(self.figures[name], figure)

    def _main(self) -> list[ipywidgets.Widget]:
        """The widgets of the main column."""
        first, *others = self.figures.values()
        return [first, self.summary, *others]

    def _rows(self) -> list[ipywidgets.Widget]:
        """The widgets of the explorer, from the top."""
        return [self._columns, self.error_line, self._control_group]

    @classmethod
    def _keyword_hint(cls, value: str) -> str:
        """What an error adds to a wrong first argument: the keyword that takes it, if it is the value of a control."""
        start = cls.state_class()
        values: dict[str, Sequence[Any]] = {"preset": list(cls.preset_fields)} if cls.no_preset else {}
        values |= {name: each.values(start) for name, each in start.controls().items() if isinstance(each, Choice)}
        found = [f"{name}={value!r}" for name, allowed in values.items() if value in allowed]
        return f"; did you mean {' or '.join(found)}?" if found else ""

    # -- internals ------------------------------------------------------------------------------------------------

    def _shown_figures(self, state: Any) -> dict[str, Any]:
        """The figures of a state as they are shown: stacked, or each panel alone."""
        return self._panels(state) if self._is_apart else self._figures(state)

    def _moved(self, state: Any, position: dict[str, Any]) -> Any:
        """The state after fields, or a preset, were set by name."""
        if self.no_preset and "preset" in position:
            name = position.pop("preset")
            if name not in self.preset_fields:
                raise ValueError(f"unknown preset {name!r}; allowed: {', '.join(self.preset_fields)}")
            position = {**self.preset_fields[name], **position}
        return self._after(state, position)

    def _after(self, state: Any, changes: dict[str, Any]) -> Any:
        """The state after changes by a user; no control holds an array or a list."""
        for name in self.state_class.controls().keys() & changes.keys():
            if not isinstance(changes[name], Hashable):
                raise ValueError(f"{name} must be one value, got an object of type {type(changes[name]).__name__}")
        return self._changed(state, changes)

    def _make_common(self) -> None:
        """Make the widgets that every explorer has."""
        w = ipywidgets
        self.error_line, self.code_line = line("", "lp-error", "lp-live"), line("", "lp-code")
        for each in (self.error_line, self.code_line):
            set_text(each, "")
        names = () if self.no_preset else self.preset_fields
        self.preset_buttons = {name: w.Button(description=name, tooltip="put the controls there") for name in names}
        self.reset_button = w.Button(description="Reset", tooltip="back to where it was at first")
        self.copy_button = w.Button(description="Copy as code", tooltip=self._copy_tooltip)
        self.presets = w.Box(list(self.preset_buttons.values()))
        self.buttons = w.HBox([self.reset_button, self.copy_button])
        declared = self.state_class.controls().values()
        self._control_group = ControlGroup(
            units={each.label: each.unit for each in declared if isinstance(each, Slider | Steps) and each.unit}
        )
        for row in (self.presets, self.buttons):
            row.add_class("lp-row")
        for name, css in self._preset_layout.items():
            setattr(self.presets.layout, name, css)

    def _make(self, state: Any) -> None:
        """Make the controls in the order of the page, figures and texts."""
        shown: dict[str, list[Any]] = {"presets": [self.presets]} | self._parts(state)
        if self.table_heads:
            self.table = line("", "lp-quiet")
            self.table.value = table(self.table_heads, self._table(state))
            shown["table"] = [self.table]
        declared = self.state_class.controls()
        self.controls: dict[str, Any] = {}
        for name in (name for names in self.side.values() for name in names if name not in shown):
            if name == "preset" and self.no_preset:
                self.preset = Choice("preset", [self.no_preset, *self.preset_fields]).widget(state)
                self.controls[name] = self.preset
            else:
                self.controls[name] = declared[name].widget(state)
            shown[name] = [self.controls[name]]
        self.parts = shown
        self.figures = {name: LiveFigure(figure) for name, figure in self._figures(state).items()}
        self.summary = line(self._summary(state), *self._summary_css)
        side: list[ipywidgets.Widget] = []
        for heading, names in self.side.items():
            side += [line(heading, "lp-heading")] if heading else []
            side += [widget for name in names for widget in shown[name]]
        boxes = [ipywidgets.VBox([*side, self.buttons, self.code_line]), ipywidgets.VBox(self._main())]
        boxes[1].layout.flex = self._figure_flex
        self._columns = ipywidgets.Box(boxes)
        for box, css in zip((*boxes, self._columns), ("lp-side", "lp-main", "lp-columns"), strict=True):
            box.add_class(css)

    def _on_control_change(self, **position: Any) -> None:
        if self._setting_controls or (self.no_preset and position.get("preset") == self.no_preset):
            return  # the entry for all other states changes nothing
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
