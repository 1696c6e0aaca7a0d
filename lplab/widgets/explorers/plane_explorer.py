"""The plane of range and precision, live: a format's window over the tensors of a trained network."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ipywidgets

from lplab import figures
from lplab.figures.lazy_figure import as_dicts
from lplab.widgets.controls import line, set_text, table
from lplab.widgets.explorer_base import Explorer, set_options
from lplab.widgets.live.live_figure import LiveFigure

from . import plane_state as ps

_HEADS = ("", "to zero", "saturated", "SQNR")


class PlaneExplorer(Explorer):
    """A format's window over every tensor of a trained network: format, bias, scale, network, tensor to look into.

    Args:
        **position: fields of `PlaneState`: ``format``, ``bias``, ``scaling``, ``network``, ``tensor``. Reset comes back
            to them.

    Raises:
        ValueError: a value that is not allowed.

    >>> explorer = PlaneExplorer()
    >>> explorer.figure.layout.meta["title"]
    '1-4-3: weights 32 dB, activations 32 dB, gradients 14 dB, 73 % lost'
    """

    _copy_tooltip = "Python that gives the numbers of this tensor"

    def __init__(self, **position: Any) -> None:
        super().__init__(ps.PlaneState(**position))

    def set(self, **position: Any) -> None:
        """Set controls by name: the fields of `PlaneState`. Another format comes with its own bias."""
        if position.get("format", self.position.format) != self.position.format:
            position.setdefault("bias", None)
        self.position = replace(self.position, **position)

    def _build(self, state: ps.PlaneState) -> tuple[list[ipywidgets.Widget], list[ipywidgets.Widget]]:
        w = ipywidgets
        self.controls = {
            "format": w.Dropdown(options=list(ps.FORMATS), description="format"),
            "bias": w.IntSlider(min=ps.BIAS[0], max=ps.BIAS[1], description="exponent bias"),
            "scaling": w.Dropdown(options=list(ps.SCALINGS), description="scale"),
            "network": w.ToggleButtons(options=list(ps.NETWORKS), description="network"),
            "tensor": w.Dropdown(options=_options(state.network), description="look into"),
        }
        self.figure = LiveFigure(ps.figure(state))
        self.summary, self.table = line(ps.summary(state), "lp-quiet", "lp-live"), line("", "lp-quiet")
        self.table.value = table(_HEADS, ps.table(state))
        fmt, bias, scaling, network, tensor = self.controls.values()
        heads = [line(text, "lp-heading") for text in ("The format", "The tensors", "This tensor in each format")]
        side = [heads[0], fmt, bias, scaling, heads[1], network, tensor, heads[2], self.table]
        return side, [self.figure, self.summary]

    def _update_options(self, state: ps.PlaneState) -> None:
        set_options(self.controls["tensor"], _options(state.network))

    def _draw(self, state: ps.PlaneState) -> None:
        set_text(self.summary, ps.summary(state))
        self.table.value = table(_HEADS, ps.table(state))
        with as_dicts():
            figures.update(self.figure, ps.figure(state))


def _options(network: str) -> list[tuple[str, str]]:
    """The tensors of a network as options of a dropdown: label, and layer/role."""
    each = [(name, *name.rsplit("/", 1)) for name in ps.tensors(network)]
    return [(f"{ps.GROUPS[role]}: {ps.label_of(layer)}", name) for name, layer, role in each]
