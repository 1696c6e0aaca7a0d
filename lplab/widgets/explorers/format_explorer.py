"""The format explorer: choose the bits of a format; see its values, its rounding error, and its effect on a tensor."""

from typing import Any, ClassVar

import ipywidgets
import traitlets

from lplab import figures
from lplab.figures.lazy_figure import as_dicts
from lplab.widgets.controls import line, set_text, show_errors
from lplab.widgets.explorer_base import Explorer
from lplab.widgets.live.live_figure import single_redraw
from lplab.widgets.tensor_chooser import TensorChooser
from lplab.widgets.tensor_library import TensorLibrary

from . import format_state as st
from .format_state import FormatState
from .format_view import ALONE, HEIGHTS, LEFT, RIGHT, View, view_of


class FormatExplorer(Explorer):
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

    state = traitlets.Instance(FormatState, help="The value of every control; the same as `position`.")

    state_class = FormatState
    imports = ("from lplab import formats as F",)
    side: ClassVar = {
        "": ("preset", "exponent_bits", "mantissa_bits", "bias_shift", "radix", "subnormals", "specials"),
        "Rounding and view": ("rounding", "random_bits", "line"),
        "Tensor": ("chooser",),
    }
    figure_names: ClassVar = {
        "line": "The numbers of the format",
        "error": "The error of rounding against magnitude",
        "histogram": "The tensor in the window of the format",
    }
    _copy_tooltip = "Python that makes this format"
    _figure_flex = None
    _summary_css = ("lp-summary", "lp-live")

    def __init__(self, tensor: Any = "gradients", preset: str = "e4m3fn", **controls: Any) -> None:
        self.library = TensorLibrary()
        super().__init__(tensor=tensor, preset=preset, **controls)
        traitlets.link((self, "position"), (self, "state"))
        chosen = show_errors(self.error_line, lambda change: self._on_control_change(tensor=change["new"]))
        self.chooser.observe(chosen, "name")
        self._control_group.observe(lambda change: self._show_copied(change["new"]), "copied")

    # -- what a notebook may use ----------------------------------------------------------------------------------

    @property
    def format(self) -> Any:
        """The format that the controls describe (ValueError while they contradict each other)."""
        return st.format_of(self.state)

    @property
    def code(self) -> str:
        """Python that makes the format."""
        return self.copied_code(self.state)

    def reset(self) -> None:
        """Set every control back to its first value; the file's name, its error and the code are cleared."""
        super().reset()
        self.chooser.clear_file()
        set_text(self.code_line, "")
        self.copy_button.description = "Copy as code"

    # -- display --------------------------------------------------------------------------------------------------

    def _changed(self, state: FormatState, changes: dict[str, Any]) -> FormatState:
        """The state after changes; a tensor is given by its name or as an array."""
        if "tensor" in changes:
            tensor = changes["tensor"]
            try:
                changes = {**changes, "tensor": self.library.resolve(tensor)}
            except ValueError as error:
                hint = self._keyword_hint(tensor) if isinstance(tensor, str) else ""
                raise ValueError(f"{error}{hint}") from None
        return state.changed(**changes)

    def _make(self, state: FormatState) -> None:
        self._view = self._viewed(state)
        if self._view.problem:
            raise ValueError(self._view.problem)
        super()._make(state)

    def _parts(self, state: FormatState) -> dict[str, list[Any]]:
        self.chooser = TensorChooser(self.library, state.tensor)
        self.descriptions = line("", "lp-quiet", "lp-statements")
        set_text(self.descriptions, *self._view.descriptions)
        return {"chooser": [self.chooser]}

    def _figures(self, state: FormatState) -> dict[str, Any]:
        return {"figure": self._view.figure.figure}

    def _panels(self, state: FormatState) -> dict[str, Any]:
        return _panels_of(self._viewed(state))

    def _viewed(self, state: FormatState) -> View:
        return view_of(state, self.library, ALONE if self._is_apart else HEIGHTS)

    def _summary(self, state: FormatState) -> str:
        return self._view.summary

    def _main(self) -> list[ipywidgets.Widget]:
        return [*self.figures.values(), self.descriptions]

    def _rows(self) -> list[ipywidgets.Widget]:
        return [self.summary, *super()._rows()]

    def _off(self, state: FormatState) -> dict[str, str]:
        """The fields of a floating-point format, where another one is shown."""
        return dict.fromkeys(self.side[""][1:], f"{state.other} has no such field") if state.other else {}

    def _update_options(self, state: FormatState) -> None:
        super()._update_options(state)
        bias, step = self.controls["bias_shift"], 1 if state.radix == 2 else 0.5
        if step > bias.step:
            bias.value = state.bias_shift  # first: a browser rounds a value that is no step, and sends it back
        bias.step = step
        bias.description = "bias" if state.other else st.bias_text(state)
        self.controls["random_bits"].layout.display = None if state.rounding == "stochastic" else "none"
        self.chooser.name = state.tensor

    def _control_values(self, state: FormatState) -> dict[str, Any]:
        return super()._control_values(state) | {"preset": state.other or st.preset_of(state)}

    def _draw(self, state: FormatState) -> None:
        """Update lines and figure; a problem replaces the summary, and the figure fades."""
        view = self._viewed(state)
        set_text(
            self.summary,
            f"Not possible: {view.problem}. The figure shows the last format." if view.problem else view.summary,
        )
        (self.summary.add_class if view.problem else self.summary.remove_class)("lp-error")
        main = self._columns.children[1]
        (main.add_class if view.problem else main.remove_class)("lp-stale")
        if view.problem:
            return
        if self.code_line.value:
            set_text(self.code_line, *self.copied_code(state).splitlines())
            self.copy_button.description = "Copy as code"
        set_text(self.descriptions, *view.descriptions)
        # last: the browser needs longest for it
        if not self._is_apart:
            figures.update(self.figure, view.figure)
            return
        with single_redraw(), as_dicts():
            for name, panel in _panels_of(view).items():
                figures.update(self.figures[name], panel)

    def _show_copied(self, copied: dict[str, Any]) -> None:
        self.copy_button.description = "Copied" if copied.get("done") else "Select it below"


def _panels_of(view: View) -> dict[str, Any]:
    """The three figures of a view, each alone, with margins that align them."""
    shown = {"line": view.line, "error": view.error, "histogram": view.histogram}
    return {name: figures.stacked([each.figure], left=LEFT, right=RIGHT) for name, each in shown.items() if each}
