"""The plane of range and precision, live: a format's window over the tensors of a trained network."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import ipywidgets
import traitlets

from lplab import figures
from lplab.figures.light import light

from . import plane_state as ps
from .controls import Helper, guarded, line, say
from .live_figure import LiveFigure

_HEADS = ("", "to zero", "saturated", "SQNR")


class PlaneExplorer(ipywidgets.VBox):
    """A format's window over every tensor of a trained network: format, bias, scale, network, tensor to look into.

    Args:
        **position: fields of `Position`: ``format``, ``bias``, ``scaling``, ``network``, ``tensor``. Reset comes back
            to them.

    Raises:
        ValueError: a position that does not exist.

    >>> explorer = PlaneExplorer()
    >>> explorer.figure.layout.meta["title"]
    '1-4-3: weights 32 dB, activations 32 dB, gradients 14 dB, 73 % lost'
    """

    position = traitlets.Instance(ps.Position, help="Where the controls stand.")

    def __init__(self, **position: Any) -> None:
        self._start, self._setting = ps.Position(**position), False
        self._build(self._start)
        super().__init__([self._columns, self.error_line, self._helper], position=self._start)
        self.add_class("lp-controls")
        self._set_controls(self._start)
        self.observe(guarded(self.error_line, lambda change: self._react(change["new"])), "position")
        for name, control in self.controls.items():
            moved = guarded(self.error_line, lambda change, name=name: self._moved(**{name: change["new"]}))
            control.observe(moved, "value")
        self.reset_button.on_click(guarded(self.error_line, lambda _: self.reset()))
        self.copy_button.on_click(guarded(self.error_line, lambda _: self.copy_code()))

    # -- what a notebook may use ----------------------------------------------------------------------------------

    def set(self, **position: Any) -> None:
        """Move controls by name: the fields of `Position`. Another format comes with its own bias."""
        if position.get("format", self.position.format) != self.position.format:
            position.setdefault("bias", None)
        self.position = replace(self.position, **position)

    def reset(self) -> None:
        """Put every control back to where it was at first."""
        self.position = self._start

    def copy_code(self) -> None:
        """Show Python that gives the numbers of the chosen tensor, and copy it to the clipboard."""
        say(self.code_line, *self.position.code.splitlines())
        self._helper.copy(self.position.code)

    # -- display --------------------------------------------------------------------------------------------------

    def _build(self, at: ps.Position) -> None:
        w = ipywidgets
        self.controls: dict[str, Any] = {
            "format": w.Dropdown(options=list(ps.FORMATS), description="format"),
            "bias": w.IntSlider(min=ps.BIAS[0], max=ps.BIAS[1], description="exponent bias"),
            "scaling": w.Dropdown(options=list(ps.SCALINGS), description="scale"),
            "network": w.ToggleButtons(options=list(ps.NETWORKS), description="network"),
            "tensor": w.Dropdown(options=_options(at.network), description="look into"),
        }
        self.figure = LiveFigure(ps.picture(at))
        self.statement, self.table = line(ps.statement(at), "lp-quiet", "lp-live"), line("", "lp-quiet")
        self.table.value = _table(ps.table(at))
        self.error_line, self.code_line = line("", "lp-error", "lp-live"), line("", "lp-code")
        say(self.error_line, "")
        say(self.code_line, "")
        self.reset_button = w.Button(description="Reset", tooltip="back to where it was at first")
        self.copy_button = w.Button(description="Copy as code", tooltip="Python that gives the numbers of this tensor")
        self._helper = Helper()
        buttons = w.HBox([self.reset_button, self.copy_button])
        buttons.add_class("lp-row")
        fmt, bias, scaling, network, tensor = self.controls.values()
        heads = [line(text, "lp-heading") for text in ("The format", "The tensors", "This tensor in each format")]
        side = w.VBox(
            [heads[0], fmt, bias, scaling, heads[1], network, tensor, heads[2], self.table, buttons, self.code_line]
        )
        main = w.VBox([self.figure, self.statement])
        main.layout.flex = "3 1 520px"  # the rows need the room: on a narrow screen the controls go on top
        self._columns = w.Box([side, main])
        for box, css in ((side, "lp-side"), (main, "lp-main"), (self._columns, "lp-columns")):
            box.add_class(css)

    def _moved(self, **position: Any) -> None:
        if not self._setting:
            self.set(**position)

    def _set_controls(self, at: ps.Position) -> None:
        """Put the controls where the position says, without their calling back."""
        self._setting = True
        try:
            if self.controls["tensor"].options != tuple(_options(at.network)):
                self.controls["tensor"].options = _options(at.network)
            for name, control in self.controls.items():
                control.value = getattr(at, name)
        finally:
            self._setting = False

    def _react(self, at: ps.Position) -> None:
        self._set_controls(at)
        say(self.statement, ps.statement(at))
        self.table.value = _table(ps.table(at))
        if self.code_line.value:
            say(self.code_line, *at.code.splitlines())
        with light():
            figures.update(self.figure, ps.picture(at))


def _options(network: str) -> list[tuple[str, str]]:
    """The tensors of a network as options of a dropdown: words, and layer/role."""
    each = [(name, *name.rsplit("/", 1)) for name in ps.tensors(network)]
    return [(f"{ps.GROUPS[role]}: {ps.label_of(layer)}", name) for name, layer, role in each]


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    """Rows of text as an HTML table; what looks like HTML in them stays text."""
    head = "".join(f"<th scope='col' style='text-align:right;padding-left:8px'>{text}</th>" for text in _HEADS)
    body = "".join(
        f"<tr><th scope='row' style='text-align:left;font-weight:400'>{html.escape(row[0])}</th>"
        + "".join(f"<td style='text-align:right;padding-left:8px'>{html.escape(text)}</td>" for text in row[1:])
        + "</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"
