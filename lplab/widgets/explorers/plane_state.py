"""The state of the range-precision explorer, and what it shows in a state: a figure and a summary; no widgets."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from lplab import datasets, figures
from lplab import formats as F
from lplab.figures.precision import TensorRow, tensor_row
from lplab.number_text import decibels, number, percent, raised
from lplab.widgets.tensor_library import subsample

FORMATS: dict[str, str] = {  # the names of the presets, and the formats behind them
    "HFP8 forward (1-4-3)": "hfp8_forward",
    "HFP8 backward (1-5-2)": "hfp8_backward",
    "OCP E4M3": "e4m3fn",
    "OCP E5M2": "e5m2",
    "fp16": "fp16",
}
SHORT = {"hfp8_forward": "1-4-3", "hfp8_backward": "1-5-2", "e4m3fn": "E4M3", "e5m2": "E5M2", "fp16": "fp16"}
OTHERS = ("hfp8_forward", "hfp8_backward", "e4m3fn", "fp16")  # in grey; E5M2 covers what 1-5-2 covers
NETWORKS = {"Transformer": ("transformer", 1000), "residual net": ("resnet", 200)}
GROUPS = {"weight": "weights", "activation": "activations", "gradient": "gradients"}
NONE, LOSS, TENSOR = "none", "one loss scale", "one per tensor"
SCALINGS = (NONE, LOSS, TENSOR)
BIAS = (0, 40)
MAX_ELEMENTS = 20_000  # elements of a tensor that a figure computes on: all of them here


@dataclass(frozen=True)
class PlaneState:
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

    format: str = "HFP8 forward (1-4-3)"
    bias: int | None = None
    scaling: str = NONE
    network: str = "Transformer"
    tensor: str = "blocks.0.attention.qkv/gradient"

    def __post_init__(self) -> None:
        given = (("format", FORMATS), ("scaling", SCALINGS), ("network", NETWORKS))
        for field, allowed in given:
            if getattr(self, field) not in allowed:
                raise ValueError(f"unknown {field} {getattr(self, field)!r}; allowed: {', '.join(allowed)}")
        own = F.get(FORMATS[self.format]).bias
        bias = own if self.bias is None else self.bias
        if isinstance(bias, bool) or not isinstance(bias, int) or not BIAS[0] <= bias <= BIAS[1]:
            raise ValueError(f"bias must be a whole number from {BIAS[0]} to {BIAS[1]}, got {bias!r}")
        object.__setattr__(self, "bias", bias)
        if self.tensor not in tensors(self.network):
            gradient = next(name for name in tensors(self.network) if name.endswith("/gradient"))
            object.__setattr__(self, "tensor", gradient)

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
    names = () if each[chosen].shift else [name for name in OTHERS if SHORT[name] != state.name]
    others = [replace(F.get(name), name=SHORT[name]) for name in names]
    return figures.range_precision(each, state.number_format, others, chosen=chosen, name=state.name)


def summary(state: PlaneState) -> str:
    """The chosen tensor in the format, in one line.

    >>> summary(PlaneState())
    '1-4-3 holds 2⁻¹³ to 30. Gradients, qkv (block 0): 72.9 % become zero, 0 % saturate, SQNR 13.5 dB.'
    """
    fmt = state.number_format
    row = rows(state)[list(tensors(state.network)).index(state.tensor)]
    scaled = f" after a scale of 2^{row.shift}".replace("-", "\N{MINUS SIGN}") if row.shift else ""
    n = row.numbers
    ends = [number(end, digits=4, plain=True) for end in (fmt.smallest_subnormal, fmt.max)]
    return raised(
        f"{state.name} holds {ends[0]} to {ends[1]}. {row.group.capitalize()}, {row.label}{scaled}: "
        f"{percent(n.flushed)} become zero, {percent(n.saturated)} saturate, SQNR {decibels(n.sqnr_db)}."
    )


def table(state: PlaneState) -> list[tuple[str, str, str, str]]:
    """Rows of text for the chosen tensor: every format with its own bias, under the same rule for scales.

    >>> table(PlaneState())[1]
    ('HFP8 backward (1-5-2)', '24.2 %', '0 %', '25.8 dB')
    """
    texts = []
    for label, name in FORMATS.items():
        fmt = F.get(name)
        n = _row(state.network, state.tensor, fmt, shift_of(state, state.tensor, fmt)).numbers
        texts.append((label, percent(n.flushed), percent(n.saturated), decibels(n.sqnr_db)))
    return texts
