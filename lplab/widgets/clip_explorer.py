"""A clip over a real tensor, live: tensor, bits, rule, and the clip itself."""

from dataclasses import replace
from typing import Any

import ipywidgets
import numpy as np
import traitlets

from lplab import figures
from lplab.figures.light import light

from . import clip_state as cs
from .controls import Helper, guarded, line, say
from .live_figure import LiveFigure

_CLIP_ENDS = (1, 110)


class ClipExplorer(ipywidgets.VBox):
    """A tensor under a grid of few bits, behind five controls: preset, tensor, bits, rule and clip.

    Args:
        own: an array or tensor of your own, which is then in the list of tensors as "yours", and chosen.
        **position: fields of `ClipPosition`; Reset comes back to them.

    >>> explorer = ClipExplorer(rule="least error")
    >>> explorer.statement.value[:41]
    '4 levels from 0 to 2.48 in steps of 0.827'
    """

    position = traitlets.Instance(cs.ClipPosition, help="Where the controls stand.")

    def __init__(self, own: Any = None, **position: Any) -> None:
        self._own = None if own is None else cs.Look(_as_array(own))
        if own is not None:
            position = {"tensor": cs.OWN, **position}
        first = cs.ClipPosition(**position)
        if first.tensor == cs.OWN and self._own is None:
            raise ValueError('the tensor "yours" must be given: ClipExplorer(own=array)')
        self._start, self._setting = self.look(first).settled(first), False
        self._build(self._start)
        super().__init__([self._columns, self.error_line, self._helper], position=self._start)
        self.add_class("lp-controls")
        self._set_controls(self._start)
        self.observe(guarded(self.error_line, lambda change: self._react(change["new"])), "position")
        for name, control in self.controls.items():
            control.observe(
                guarded(self.error_line, lambda change, name=name: self._moved(name, change["new"])), "value"
            )
        self.reset_button.on_click(guarded(self.error_line, lambda _: self.reset()))
        self.copy_button.on_click(guarded(self.error_line, lambda _: self.copy_code()))

    # -- what a notebook may use ------------------------------------------------------------------------------------

    def look(self, at: cs.ClipPosition | None = None) -> cs.Look:
        """The tensor at a position, looked at: its rules, clips and errors."""
        name = (at or self.position).tensor
        return self._own if name == cs.OWN and self._own is not None else cs.look_at(name)

    def set(self, **position: Any) -> None:
        """Move controls by name: the fields of `ClipPosition`, or ``preset``."""
        if "preset" in position:
            name = position.pop("preset")
            if name not in cs.PRESETS:
                raise ValueError(f"unknown preset {name!r}; allowed: {', '.join(cs.PRESETS)}")
            base = cs.PRESETS[name]
        else:
            base = self.position
        wanted = replace(base, **position)
        self.position = self.look(wanted).settled(wanted)

    def reset(self) -> None:
        """Put every control back to where it was at first."""
        self.position = self._start

    def copy_code(self) -> None:
        """Show the quantization as Python, and copy it to the clipboard."""
        text = cs.code(self.look(), self.position)
        say(self.code_line, text)
        self._helper.copy(text)

    # -- display ------------------------------------------------------------------------------------------------------

    def _build(self, at: cs.ClipPosition) -> None:
        w = ipywidgets
        own = () if self._own is None else (cs.OWN,)
        self.controls: dict[str, Any] = {
            "preset": w.Dropdown(options=[cs.NO_PRESET, *cs.PRESETS], description="preset"),
            "tensor": w.Dropdown(options=[*own, *cs.TENSORS], description="tensor"),
            "bits": w.IntSlider(min=cs.BITS[0], max=cs.BITS[1], description="bits"),
            "rule": w.Dropdown(options=[*self.look(at).rules, cs.HAND], description="rule"),
            "percent": w.IntSlider(
                min=_CLIP_ENDS[0],
                max=_CLIP_ENDS[1],
                description="clip (% max)",
                tooltip="α in percent of the largest magnitude",
            ),
        }
        self.figure = LiveFigure(cs.picture(self.look(at), at))
        self.statement = line(cs.statement(self.look(at), at), "lp-quiet", "lp-live")
        self.error_line, self.code_line = line("", "lp-error", "lp-live"), line("", "lp-code")
        say(self.error_line, "")
        say(self.code_line, "")
        self.reset_button = w.Button(description="Reset", tooltip="back to where it was at first")
        self.copy_button = w.Button(description="Copy as code", tooltip="Python that quantizes so")
        self._helper = Helper()
        buttons = w.HBox([self.reset_button, self.copy_button])
        buttons.add_class("lp-row")
        preset, tensor, bits, rule, percent = self.controls.values()
        parts = [line("The tensor", "lp-heading"), preset, tensor, line("The grid", "lp-heading"), bits, rule, percent]
        side = w.VBox([*parts, buttons, self.code_line])
        main = w.VBox([self.figure, self.statement])
        main.layout.flex = "3 1 520px"  # the titles need the room: on a narrow screen the controls go on top
        self._columns = w.Box([side, main])
        for box, css in ((side, "lp-side"), (main, "lp-main"), (self._columns, "lp-columns")):
            box.add_class(css)

    def _moved(self, name: str, value: Any) -> None:
        if self._setting or value == cs.NO_PRESET:
            return
        if name == "percent":
            self.set(percent=value, rule=cs.HAND)
        elif name == "rule" and value == cs.HAND:
            self.set(rule=value, percent=self.controls["percent"].value)
        else:
            self.set(**{name: value})

    def _set_controls(self, at: cs.ClipPosition) -> None:
        """Put the controls where the position says, without their calling back."""
        look = self.look(at)
        share = round(100 * look.clip(at) / (look.magnitudes.largest or 1.0))
        rules = (*look.rules, cs.HAND)
        self._setting = True
        try:
            if self.controls["rule"].options != rules:
                self.controls["rule"].options = rules
            values = {"preset": cs.preset_of(at), "tensor": at.tensor, "bits": at.bits, "rule": at.rule}
            for name, value in values.items():
                self.controls[name].value = value
            self.controls["percent"].value = min(max(share, _CLIP_ENDS[0]), _CLIP_ENDS[1])
        finally:
            self._setting = False

    def _react(self, at: cs.ClipPosition) -> None:
        self._set_controls(at)
        look = self.look(at)
        say(self.statement, cs.statement(look, at))
        if self.code_line.value:
            say(self.code_line, cs.code(look, at))
        with light():
            figures.update(self.figure, cs.picture(look, at))


def _as_array(own: Any) -> np.ndarray:
    """A tensor or array of one's own as float64.

    Raises:
        ValueError: no finite real numbers in it.
    """
    own = own.detach().cpu().float().numpy() if hasattr(own, "detach") else own
    array = np.asarray(own)
    if array.dtype.kind not in "fiu" or not np.isfinite(array).any():
        raise ValueError(f"own must hold finite real numbers, got {array.size} elements of dtype {array.dtype}")
    return array.astype(np.float64)
