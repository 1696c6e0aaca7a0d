"""The properties of a layer that compressors use: shape, kind, and how often a weight is used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

KINDS = ("convolution", "dense", "recurrent", "embedding", "small")
SMALL = 1024  # tensors with fewer elements are not worth compressing


@dataclass(frozen=True)
class LayerInfo:
    """One parameter of a model.

    Args:
        name: as in ``named_parameters()``.
        shape: of the tensor.
        kind: "convolution", "dense", "recurrent", "embedding", or "small" for biases and normalization.
        weight_reuse: how often a weight is used for one sample: height × width of a convolution's output, else 1. This
            is the number of multiplications per gradient value and sample.
        first: whether it is the first layer, see :func:`mark_first`.

    Raises:
        ValueError: an unknown kind, an empty shape or a weight_reuse below 1.

    >>> LayerInfo("conv1", (64, 3, 7, 7), "convolution", weight_reuse=112 * 112, first=True).numel
    9408
    """

    name: str
    shape: tuple[int, ...]
    kind: str = "dense"
    weight_reuse: int = 1
    first: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown kind {self.kind!r} of layer {self.name!r}; allowed: {', '.join(KINDS)}")
        if any(n < 1 for n in self.shape):
            raise ValueError(f"layer {self.name!r} has no elements: shape {self.shape}")
        if self.weight_reuse < 1:
            raise ValueError(f"weight_reuse of layer {self.name!r} must be 1 or more, got {self.weight_reuse}")

    @property
    def numel(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def is_small(self) -> bool:
        """Whether the tensor is sent uncompressed: a bias, normalization, or fewer than 1,024 elements."""
        return self.kind == "small" or self.numel < SMALL


def info_of(name: str, shape: Sequence[int]) -> LayerInfo:
    """A guess from the shape alone: one dimension is small, two are dense, more are a convolution.

    >>> info_of("conv.weight", (64, 32, 3, 3)).kind, info_of("bias", (64,)).kind
    ('convolution', 'small')
    """
    return parameter_info(name, shape, "dense" if len(shape) == 2 else "convolution")


def parameter_info(name: str, shape: Sequence[int], kind: str, weight_reuse: int = 1) -> LayerInfo:
    """What compressors see of a parameter in a layer of this kind: with fewer than two dimensions it is small.

    >>> [parameter_info("lstm", shape, "recurrent").kind for shape in ((256, 64), (256,))]
    ['recurrent', 'small']
    """
    return LayerInfo(name, tuple(shape), kind if len(shape) > 1 else "small", weight_reuse)


def mark_first(infos: Iterable[LayerInfo]) -> list[LayerInfo]:
    """The parameters of a model in its order, the first layer marked: the first that is not small, be it a table.

    Trainings and the simulator both go by this rule.

    >>> infos = mark_first([parameter_info("norm", (8,), "dense"), parameter_info("words", (90, 8), "embedding")])
    >>> [info.first for info in infos]
    [False, True]
    """
    infos = list(infos)
    first = next((i for i, info in enumerate(infos) if info.kind != "small"), None)
    return [replace(info, first=i == first) for i, info in enumerate(infos)]
