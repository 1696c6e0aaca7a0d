"""The plane of range and precision, live: a format's window over the tensors of a trained network."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ipywidgets

from lplab import figures
from lplab.figures.light import light

from . import plane_state as ps
from .controls import line, say, table
from .live_figure import LiveFigure
from .positioned import PositionedExplorer, offer

_HEADS = ("", "to zero", "saturated", "SQNR")


class PlaneExplorer(PositionedExplorer):
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

    _copies = "Python that gives the numbers of this tensor"

    def __init__(self, **position: Any) -> None:
        super().__init__(ps.Position(**position))

    def set(self, **position: Any) -> None:
        """Move controls by name: the fields of `Position`. Another format comes with its own bias."""
        if position.get("format", self.position.format) != self.position.format:
            position.setdefault("bias", None)
        self.position = replace(self.position, **position)

    def _build(self, at: ps.Position) -> tuple[list[ipywidgets.Widget], list[ipywidgets.Widget]]:
        w = ipywidgets
        self.controls = {
            "format": w.Dropdown(options=list(ps.FORMATS), description="format"),
            "bias": w.IntSlider(min=ps.BIAS[0], max=ps.BIAS[1], description="exponent bias"),
            "scaling": w.Dropdown(options=list(ps.SCALINGS), description="scale"),
            "network": w.ToggleButtons(options=list(ps.NETWORKS), description="network"),
            "tensor": w.Dropdown(options=_options(at.network), description="look into"),
        }
        self.figure = LiveFigure(ps.picture(at))
        self.statement, self.table = line(ps.statement(at), "lp-quiet", "lp-live"), line("", "lp-quiet")
        self.table.value = table(_HEADS, ps.table(at))
        fmt, bias, scaling, network, tensor = self.controls.values()
        heads = [line(text, "lp-heading") for text in ("The format", "The tensors", "This tensor in each format")]
        side = [heads[0], fmt, bias, scaling, heads[1], network, tensor, heads[2], self.table]
        return side, [self.figure, self.statement]

    def _fit(self, at: ps.Position) -> None:
        offer(self.controls["tensor"], _options(at.network))

    def _draw(self, at: ps.Position) -> None:
        say(self.statement, ps.statement(at))
        self.table.value = table(_HEADS, ps.table(at))
        with light():
            figures.update(self.figure, ps.picture(at))


def _options(network: str) -> list[tuple[str, str]]:
    """The tensors of a network as options of a dropdown: words, and layer/role."""
    each = [(name, *name.rsplit("/", 1)) for name in ps.tensors(network)]
    return [(f"{ps.GROUPS[role]}: {ps.label_of(layer)}", name) for name, layer, role in each]
