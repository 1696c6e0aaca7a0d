"""The plane of range and precision, live: a format's window over the tensors of a trained network."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar

import numpy as np

from lplab import datasets, figures
from lplab import formats as F
from lplab.figures.panel import panel
from lplab.figures.plane import ROWS_LEGEND
from lplab.figures.precision import TensorRow, tensor_row
from lplab.number_text import decibels, number, percent, raised
from lplab.widgets.explorer_base import Explorer
from lplab.widgets.fields import Buttons, Choice, ExplorerState, Slider, control
from lplab.widgets.tensor_library import subsample

FORMATS: dict[str, str] = {  # the names of the presets, and the formats behind them
    "HFP8 forward (1-4-3)": "hfp8_forward",
    "HFP8 backward (1-5-2)": "hfp8_backward",
    "OCP E4M3": "e4m3fn",
    "OCP E5M2": "e5m2",
    "fp16": "fp16",
}
SHORT = {"hfp8_forward": "1-4-3", "hfp8_backward": "1-5-2", "e4m3fn": "E4M3", "e5m2": "E5M2", "fp16": "fp16"}
PARTNERS = {  # the one format that is drawn beside each, in grey
    "hfp8_forward": "hfp8_backward",
    "hfp8_backward": "hfp8_forward",
    "e4m3fn": "hfp8_forward",
    "e5m2": "e4m3fn",
    "fp16": "e5m2",
}
NETWORKS = {"Transformer": ("transformer", 1000), "residual net": ("resnet", 200)}
GROUPS = {"weight": "weights", "activation": "activations", "gradient": "gradients"}
NONE, LOSS, TENSOR = "none", "one loss scale", "one per tensor"
SCALINGS = (NONE, LOSS, TENSOR)
BIAS = (0, 40)
MAX_ELEMENTS = 20_000  # elements of a tensor that a figure computes on: all of them here


@dataclass(frozen=True)
class PlaneState(ExplorerState):
    """The value of every control.

    Attributes:
        format: a name of `FORMATS`.
        bias: exponent bias, 0 to 40; None is the format's own.
        scaling: "none"; "one loss scale", the largest power of two by which all gradients can be multiplied before one
            of them saturates; or "one per tensor", the same for every tensor on its own.
        network: "Transformer" or "residual net".
        tensor: layer/role of the chosen tensor; one that the network lacks becomes its first gradient.

    >>> PlaneState(format="HFP8 backward (1-5-2)").number_format.label
    'hfp8_backward'
    >>> PlaneState(bias=24).name
    '1-4-3 (bias 24)'
    """

    format: str = control("HFP8 forward (1-4-3)", Choice("format", list(FORMATS)))
    bias: int | None = control(None, Slider("exponent bias", *BIAS))
    scaling: str = control(NONE, Choice("scale", SCALINGS))
    network: str = control("Transformer", Buttons("network", list(NETWORKS)))
    tensor: str = control(
        "blocks.0.attention.qkv/gradient", Choice("look into", lambda state: _tensor_labels(state.network))
    )

    def __post_init__(self) -> None:
        self.check("format", "scaling", "network")
        if self.bias is None:
            object.__setattr__(self, "bias", F.get(FORMATS[self.format]).bias)
        if self.tensor not in list(tensors(self.network)):
            gradient = next(name for name in tensors(self.network) if name.endswith("/gradient"))
            object.__setattr__(self, "tensor", gradient)
        self.check("bias")

    def changed(self, **changes: Any) -> PlaneState:
        """The state after changes. Another format comes with its own bias."""
        if changes.get("format", self.format) != self.format:
            changes.setdefault("bias", None)
        return replace(self, **changes)

    @property
    def number_format(self) -> Any:
        """The format with the chosen bias."""
        fmt = F.get(FORMATS[self.format])
        return fmt if self.bias == fmt.bias else replace(fmt, bias=self.bias, name="")

    @property
    def name(self) -> str:
        """A short name of the format."""
        fmt = F.get(FORMATS[self.format])
        return SHORT[fmt.name] + ("" if self.bias == fmt.bias else f" (bias {self.bias})")

    @property
    def code(self) -> str:
        """Python that gives the numbers of the chosen tensor."""
        fmt = F.get(FORMATS[self.format])
        made = f'F.get("{fmt.name}")'
        if self.bias != fmt.bias:
            made = f'replace({made}, bias={self.bias}, name="")'
        model, step = NETWORKS[self.network]
        shift = shift_of(self, self.tensor, self.number_format)
        scaled = f" * 2.0**{shift}" if shift else ""
        return f'x = captured()["{model}/step{step}/{self.tensor}"]\nfigures.tensor_statistics(x{scaled}, {made})'


@cache
def tensors(network: str) -> dict[str, np.ndarray]:
    """Weights, activations and gradients of a trained network by layer/role, group by group; at most 20,000 of each.

    >>> len(tensors("Transformer")), next(iter(tensors("residual net")))
    (19, 'stem/weight')
    """
    model, step = NETWORKS[network]
    stored = datasets.captured()
    names = [name for role in GROUPS for name in stored.select(model=model, step=step, role=role)]
    return {name.split("/", 2)[2]: subsample(stored[name], MAX_ELEMENTS) for name in names}


def _tensor_labels(network: str) -> dict[str, str]:
    """The tensors of a network as options: label, and layer/role."""
    each = [(name, *name.rsplit("/", 1)) for name in tensors(network)]
    return {f"{GROUPS[role]}: {label_of(layer)}": name for name, layer, role in each}


def label_of(layer: str) -> str:
    """A short name of a layer: its last part and its block.

    >>> label_of("blocks.0.attention.qkv"), label_of("layer2.conv1"), label_of("token_embedding")
    ('qkv (block 0)', 'layer2.conv1', 'embedding')
    """
    parts = layer.split(".")
    short = f"{parts[-1]} (block {parts[1]})" if parts[0] == "blocks" else layer
    return short.removeprefix("token_").replace("probabilities", "attention")


@cache
def _largest(network: str, tensor: str) -> float:
    return float(np.abs(tensors(network)[tensor]).max())


def shift_of(state: PlaneState, tensor: str, fmt: Any) -> int:
    """The power of two by which a tensor is multiplied before it is rounded to a format.

    >>> [shift_of(PlaneState(scaling=s), "head/gradient", F.get("hfp8_forward")) for s in SCALINGS]
    [0, 11, 14]
    """
    role = tensor.rsplit("/", 1)[1]
    if state.scaling == NONE or (state.scaling == LOSS and role != "gradient"):
        return 0
    alike = [t for t in tensors(state.network) if t.endswith("/gradient")] if state.scaling == LOSS else [tensor]
    largest = max(_largest(state.network, name) for name in alike)
    return math.floor(math.log2(fmt.max / largest))


@cache
def _row(network: str, tensor: str, fmt: Any, shift: int) -> TensorRow:
    layer, role = tensor.rsplit("/", 1)
    return tensor_row(tensors(network)[tensor], fmt, label=label_of(layer), group=GROUPS[role], shift=shift)


def rows(state: PlaneState) -> list[TensorRow]:
    """What the format does to every tensor."""
    fmt = state.number_format
    return [_row(state.network, name, fmt, shift_of(state, name, fmt)) for name in tensors(state.network)]


def figure(state: PlaneState) -> Any:
    """The figure of a state."""
    chosen, each = list(tensors(state.network)).index(state.tensor), rows(state)
    own = FORMATS[state.format]
    beside = own if state.bias != F.get(own).bias else PARTNERS[own]  # a moved window stands beside where it was
    others = [] if each[chosen].shift else [replace(F.get(beside), name=SHORT[beside])]
    return figures.range_precision(each, state.number_format, others, chosen=chosen, name=state.name)


def summary(state: PlaneState) -> str:
    """The chosen tensor in the format, in one line.

    >>> summary(PlaneState())
    '1-4-3 holds 2⁻¹³ to 30. Gradients, qkv (block 0): 72.9 % become zero, 0 % saturate, SQNR 13.5 dB.'
    """
    fmt = state.number_format
    row = rows(state)[list(tensors(state.network)).index(state.tensor)]
    scaled = f", multiplied by 2^{row.shift}".replace("-", "\N{MINUS SIGN}") if row.shift else ""
    n = row.numbers
    ends = [number(end, digits=4, plain=True) for end in (fmt.smallest_subnormal, fmt.max)]
    return raised(
        f"{state.name} holds {ends[0]} to {ends[1]}. {row.group.capitalize()}, {row.label}{scaled}: "
        f"{percent(n.flushed)} become zero, {percent(n.saturated)} saturate, SQNR {decibels(n.sqnr_db)}."
    )


def table(state: PlaneState) -> list[tuple[str, str, str, str]]:
    """Rows of text for the chosen tensor: every format, under the same rule for scales.

    The chosen format has the chosen bias, the others have their own.

    >>> table(PlaneState())[1]
    ('HFP8 backward (1-5-2)', '24.2 %', '0 %', '25.8 dB')
    >>> table(PlaneState(bias=20))[0]
    ('HFP8 forward (1-4-3), bias 20', '0.6 %', '0 %', '32.5 dB')
    """
    texts = []
    for label, name in FORMATS.items():
        fmt = F.get(name)
        if label == state.format and state.bias != fmt.bias:
            fmt, label = state.number_format, f"{label}, bias {state.bias}"
        n = _row(state.network, state.tensor, fmt, shift_of(state, state.tensor, fmt)).numbers
        texts.append((label, percent(n.flushed), percent(n.saturated), decibels(n.sqnr_db)))
    return texts


class PlaneExplorer(Explorer):
    """A format's window over every tensor of a trained network: format, bias, scale, network, tensor to look into.

    Args:
        **position: fields of `PlaneState`: ``format``, ``bias``, ``scaling``, ``network``, ``tensor``. Reset comes back
            to them.

    Raises:
        ValueError: a value that is not allowed.

    >>> explorer = PlaneExplorer()
    >>> explorer.figure.layout.meta["title"]
    '1-4-3 loses: weights 0 %, activations 0 %, gradients 73 %'
    """

    imports = (
        "from dataclasses import replace",
        "from lplab import figures",
        "from lplab import formats as F",
        "from lplab.datasets import captured",
    )
    state_class = PlaneState
    side: ClassVar = {
        "The format": ("format", "bias", "scaling"),
        "The tensors": ("network", "tensor"),
        "This tensor in each format": ("table",),
    }
    table_heads = ("", "to zero", "saturated", "SQNR")
    _copy_tooltip = "Python that gives the numbers of this tensor"

    figure_names: ClassVar = {
        "tensors": "What the format keeps of every tensor",
        "precision": "Bits of precision against magnitude",
    }

    def _figures(self, state: PlaneState) -> dict[str, Any]:
        return {"figure": figure(state)}

    def _panels(self, state: PlaneState) -> dict[str, Any]:
        whole = figure(state)
        return {
            "tensors": panel(whole, "y2", height=400, subtitle=ROWS_LEGEND),
            "precision": panel(whole, "y", height=300),
        }

    def _summary(self, state: PlaneState) -> str:
        return summary(state)

    def _table(self, state: PlaneState) -> list[tuple[str, str, str, str]]:
        return table(state)
