"""The format explorer: choose the bits of a format; see its values, its rounding error, and its effect on a tensor."""

from typing import Any

import ipywidgets
import traitlets

from lplab import figures
from lplab import formats as F
from lplab.widgets.controls import ControlGroup, line, set_text, show_errors
from lplab.widgets.live.live_figure import LiveFigure
from lplab.widgets.tensor_chooser import TensorChooser
from lplab.widgets.tensor_library import TensorLibrary

from . import format_state as st
from .format_state import FormatState
from .format_view import View, view_of


def _format_controls() -> dict[str, Any]:
    w = ipywidgets
    return {
        "preset": w.Dropdown(options=[st.OWN_FORMAT, *st.presets()], description="preset"),
        "exponent_bits": w.IntSlider(min=st.EXPONENT_BITS[0], max=st.EXPONENT_BITS[1], description="exponent bits"),
        "mantissa_bits": w.IntSlider(min=st.MANTISSA_BITS[0], max=st.MANTISSA_BITS[1], description="mantissa bits"),
        "bias_shift": w.FloatSlider(min=st.BIAS_SHIFT[0], max=st.BIAS_SHIFT[1], step=1, readout=False),
        "radix": w.ToggleButtons(options=[("2", 2), ("4", 4)], description="radix"),
        "subnormals": w.Checkbox(description="subnormals", indent=False),
        "specials": w.Dropdown(options=list(F.SPECIALS), description="specials"),
    }


def _rounding_controls() -> dict[str, Any]:
    names = [(name.replace("_", " "), name) for name in F.ROUNDINGS]
    return {
        "rounding": ipywidgets.Dropdown(options=names, description="rounding"),
        "random_bits": ipywidgets.IntSlider(min=st.RANDOM_BITS[0], max=st.RANDOM_BITS[1], description="random bits"),
        "line": ipywidgets.ToggleButtons(options=["log", "linear"], description="number line"),
    }


class FormatExplorer(ipywidgets.VBox):
    """Sliders for every field of a format, linked to a live figure of three panels with one common axis of magnitudes.

    Args:
        tensor: name of a captured tensor, "weights", "activations" or "gradients", or an array or tensor of one's own.
        preset: a catalogue name to begin with; Reset returns to it.
        **controls: other fields of `FormatState`, such as ``rounding="stochastic"``.

    The trait `state` is the whole state: set it, or observe it. `set` moves controls by name, from code.

    >>> explorer = FormatExplorer("weights", preset="e5m2")
    >>> explorer.set(mantissa_bits=3)
    >>> explorer.format.label, explorer.controls["preset"].value
    ('1-5-3 (bias 15)', '(own format)')
    """

    state = traitlets.Instance(FormatState, help="The value of every control.")

    def __init__(self, tensor: Any = "gradients", preset: str = "e4m3fn", **controls: Any) -> None:
        self.library = TensorLibrary()
        start = st.with_preset(FormatState(tensor=self.library.resolve(tensor)), preset)
        for name, value in controls.items():
            start = st.changed(start, name, value)
        self._start, self._setting_controls = start, False
        view = view_of(start, self.library)
        if view.problem:
            raise ValueError(view.problem)
        self._build(view)
        super().__init__([self.summary, self._columns, self.error_line, self._control_group], state=start)
        self.add_class("lp-controls")
        self._set_controls(start)
        self.observe(lambda change: self._on_state_change(change["new"]), "state")
        for name, control in self.controls.items():
            control.observe(
                show_errors(self.error_line, lambda change, name=name: self._on_control_change(name, change)), "value"
            )
        self.chooser.observe(
            show_errors(self.error_line, lambda change: self._on_control_change("tensor", change)), "name"
        )
        self.reset_button.on_click(show_errors(self.error_line, lambda _: self.reset()))
        self.copy_button.on_click(show_errors(self.error_line, lambda _: self.copy_code()))
        self._control_group.observe(lambda change: self._show_copied(change["new"]), "copied")

    # -- what a notebook may use ----------------------------------------------------------------------------------

    @property
    def format(self) -> Any:
        """The format that the controls describe (ValueError while they contradict each other)."""
        return st.format_of(self.state)

    @property
    def code(self) -> str:
        """Python that makes the format."""
        return st.code_of(self.state)

    def set(self, **controls: Any) -> None:
        """Set controls by name: the fields of `FormatState`, and "preset"."""
        state = self.state
        for name, value in controls.items():
            state = st.changed(state, name, self.library.resolve(value) if name == "tensor" else value)
        self.state = state

    def reset(self) -> None:
        """Set every control back to its first value; the file's name, its error and the code are cleared."""
        self.state = self._start
        self.chooser.clear_file()
        set_text(self.code_line, "")
        self.copy_button.description = "Copy as code"

    def copy_code(self) -> None:
        """Show the format as Python, and copy it to the clipboard."""
        set_text(self.code_line, self.code)
        self._control_group.copy(self.code)

    # -- display --------------------------------------------------------------------------------------------------

    def _build(self, view: View) -> None:
        self.controls = _format_controls() | _rounding_controls()
        self.chooser = TensorChooser(self.library, self._start.tensor)
        self.figure = LiveFigure(view.figure.figure)
        self.descriptions = line("", "lp-quiet", "lp-statements")
        set_text(self.descriptions, *view.descriptions)
        self.summary = line(view.summary, "lp-summary", "lp-live")
        self.error_line = line("", "lp-error", "lp-live")
        set_text(self.error_line, "")
        self.reset_button = ipywidgets.Button(description="Reset", tooltip="back to where it was at first")
        self.copy_button = ipywidgets.Button(description="Copy as code", tooltip="Python that makes this format")
        self.code_line = line("", "lp-code")
        set_text(self.code_line, "")
        self._control_group = ControlGroup()
        buttons = ipywidgets.HBox([self.reset_button, self.copy_button])
        buttons.add_class("lp-row")
        side = ipywidgets.VBox(
            [
                *list(self.controls.values())[:7],
                line("Rounding and view", "lp-heading"),
                *list(self.controls.values())[7:],
                line("Tensor", "lp-heading"),
                self.chooser,
                buttons,
                self.code_line,
            ]
        )
        main = ipywidgets.VBox([self.figure, self.descriptions])
        self._columns = ipywidgets.Box([side, main])
        for box, name in ((side, "lp-side"), (main, "lp-main"), (self._columns, "lp-columns")):
            box.add_class(name)

    def _on_control_change(self, control: str, change: Any) -> None:
        if not self._setting_controls:
            self.state = st.changed(self.state, control, change["new"])

    def _on_state_change(self, state: FormatState) -> None:
        self._set_controls(state)
        self._show(view_of(state, self.library))

    def _set_controls(self, state: FormatState) -> None:
        """Set the controls to the state, with callbacks off."""
        self._setting_controls = True
        try:
            for name, control in self.controls.items():
                if name == "preset":
                    control.value = state.other or st.preset_of(state)
                elif name == "bias_shift":
                    control.step = 1 if state.radix == 2 else 0.5
                    control.value = state.bias_shift
                    control.description = st.bias_text(state)
                else:
                    control.value = getattr(state, name)
            self.chooser.name = state.tensor
            self.controls["random_bits"].layout.display = None if state.rounding == "stochastic" else "none"
        finally:
            self._setting_controls = False

    def _show(self, view: View) -> None:
        """Update lines and figure; a problem replaces the summary, and the figure fades."""
        set_text(
            self.summary,
            f"Not possible: {view.problem}. The figure shows the last format." if view.problem else view.summary,
        )
        (self.summary.add_class if view.problem else self.summary.remove_class)("lp-error")
        (self._columns.add_class if view.problem else self._columns.remove_class)("lp-stale")
        if view.problem:
            return
        if self.code_line.value:
            set_text(self.code_line, view.code)
            self.copy_button.description = "Copy as code"
        set_text(self.descriptions, *view.descriptions)
        figures.update(self.figure, view.figure)  # last: the browser needs longest for it

    def _show_copied(self, copied: dict[str, Any]) -> None:
        self.copy_button.description = "Copied" if copied.get("done") else "Select it below"
