"""A network as a list of products: sizes alone, no weights, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from lplab.compression import LayerInfo

EXCEPTIONS = ("", "first", "last", "embedding", "depthwise", "shortcut")
PASSES = ("forward", "dx", "dw")


@dataclass(frozen=True)
class Layer:
    """One layer, for one example.

    The forward product of one group is [m, k] times [k, n]; a batch of b examples makes it [b·m, k] times [k, n], but
    for attention, whose second factor belongs to the example, too: there a batch is b times as many groups.

    Attributes:
        name, kind: "conv", "linear", "attention", or what has no product: "norm", "activation", "softmax", "add", ...
        m, n, k: rows, columns and inner length of the product; 0 where there is none.
        groups: products side by side: of a grouped convolution, or the heads of attention.
        steps: products one after the other with the same weights: the time steps of a recurrent layer.
        count: layers like this one.
        weights: parameters that are trained, bias included.
        shared: True if the weights stand in another layer, too (tied embeddings), and are counted there.
        frozen: parameters that are not trained: they have no gradient, no update, and nothing to send.
        inputs, outputs: elements of the activations that are read and written.
        exception: what recipes treat it as: "", "first", "last", "embedding", "depthwise" or "shortcut".
        gradients: which the backward pass computes, of "dx" (the input's; of attention the first factor's) and "dw"
            (the weights'; of attention the second factor's). None: both, but no dx of the layer that reads the input.
        per_step: True if it does not depend on the example, and is computed once in a step, whatever the batch.
        tensors: the trained parameters as compressors see them, of one of ``count`` layers. Empty: a matrix or kernel
            of the sizes above, and a vector of what is left.

    Raises:
        ValueError: a size that is no whole number, or sizes that do not belong together.

    >>> Layer("fc", "linear", m=1, n=10, k=512, weights=5130, inputs=512, outputs=10).multiplications
    5120
    """

    name: str
    kind: str
    m: int = 0
    n: int = 0
    k: int = 0
    groups: int = 1
    steps: int = 1
    count: int = 1
    weights: int = 0
    shared: bool = False
    inputs: int = 0
    outputs: int = 0
    exception: str = ""
    frozen: int = 0
    gradients: tuple[str, ...] | None = None
    per_step: bool = False
    tensors: tuple[LayerInfo, ...] = field(default=(), repr=False, hash=False)

    def __post_init__(self) -> None:
        for name in ("m", "n", "k", "weights", "inputs", "outputs", "frozen"):
            _check_int(self.name, name, getattr(self, name), 0)
        for name in ("groups", "steps", "count"):
            _check_int(self.name, name, getattr(self, name), 1)
        if self.exception not in EXCEPTIONS:
            raise ValueError(f"layer {self.name}: exception must be one of {', '.join(EXCEPTIONS[1:])} or empty")
        if (self.m > 0) != (self.k > 0) or (self.m > 0) != (self.n > 0):
            raise ValueError(f"layer {self.name}: m, n and k are all above 0, or all 0 where there is no product")
        if not set(self.gradients or ()) <= {"dx", "dw"}:
            raise ValueError(f'layer {self.name}: gradients are "dx", "dw", both or none, got {self.gradients!r}')
        held = sum(info.numel for info in self.tensors)
        if self.tensors and held != self.weights:
            raise ValueError(f"layer {self.name}: tensors have {held} elements, but weights is {self.weights}")

    @property
    def has_product(self) -> bool:
        """Whether there is a matrix product in it."""
        return self.m > 0

    @property
    def multiplications(self) -> int:
        """Multiply-adds of the forward pass for one example."""
        return self.m * self.n * self.k * self.groups * self.steps * self.count


def _check_int(layer: str, name: str, value: Any, low: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise ValueError(f"layer {layer}: {name} must be a whole number from {low}, got {value!r}")


@dataclass(frozen=True)
class GEMMs:
    """The products of one step, arrays of shape [..., 3, layers]: axis −2 is forward, dx, dW.

    Attributes:
        m, n, k: of one product; 0 where there is none.
        groups, repeats: products side by side, and one after the other (time steps, layers alike).
    """

    m: np.ndarray
    n: np.ndarray
    k: np.ndarray
    groups: np.ndarray
    repeats: np.ndarray

    @property
    def flops(self) -> np.ndarray:
        """Operations of all products, two for a multiply-add; float64 [..., 3, layers]."""
        return 2.0 * self.m * self.n * self.k * self.groups * self.repeats


@dataclass(frozen=True)
class Workload:
    """A network with the shape of its input: a list of layers.

    Attributes:
        name, label: in code and in figures.
        layers: in the order of the forward pass.
        example: what one example is: "image of 224 × 224", "sequence of 2,048 tokens".
        tokens: tokens of one example; 1 for images.
        uncounted: operators that may multiply and are not counted, with the modules that call them.

    Raises:
        ValueError: no layers, or none with a product.
    """

    name: str
    label: str
    layers: tuple[Layer, ...]
    example: str = "example"
    tokens: int = 1
    uncounted: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.layers:
            raise ValueError(f"workload {self.name!r} has no layers; it needs at least one with a matrix product")
        if not any(layer.has_product for layer in self.layers):
            raise ValueError(f"workload {self.name!r} has no matrix product, so there is nothing to speed up")
        _check_int(self.name, "tokens", self.tokens, 1)

    @cached_property
    def columns(self) -> Mapping[str, np.ndarray]:
        """Every attribute of the layers as an array, by name: numbers as float64 [layers], the rest as text or bool."""
        names = [field.name for field in fields(Layer) if field.name not in ("gradients", "tensors")]
        columns = {name: np.array([getattr(layer, name) for layer in self.layers]) for name in names}
        return MappingProxyType({k: v.astype(float) if v.dtype.kind == "i" else v for k, v in columns.items()})

    @property
    def parameters(self) -> int:
        """Numbers that are trained; shared ones once."""
        return sum(layer.weights * layer.count for layer in self.layers if not layer.shared)

    @property
    def frozen(self) -> int:
        """Parameters that are not trained."""
        return sum(layer.frozen * layer.count for layer in self.layers)

    @cached_property
    def gradients(self) -> np.ndarray:
        """Whether the backward pass computes dx and dW of each layer: bool [2, layers]."""
        kinds, ends = self.columns["kind"], self.columns["exception"]
        tables = kinds == "embedding"
        reads_input = tables | ((ends == "first") & ~tables.any())  # behind a table the first product needs dx, too
        stated = [layer.gradients for layer in self.layers]
        dx = [not reads if own is None else "dx" in own for own, reads in zip(stated, reads_input, strict=True)]
        return np.array([dx, [own is None or "dw" in own for own in stated]], bool)

    @property
    def multiplications(self) -> int:
        """Multiply-adds in the products of the forward pass, for one example."""
        return sum(layer.multiplications for layer in self.layers)

    @property
    def training_flops(self) -> int:
        """Operations in the products of forward and backward pass for one example, as :attr:`gradients` has them."""
        return int(self.gemms(1).flops.sum())

    @property
    def activations(self) -> int:
        """Elements that layers write for one example, all of which a backward pass may need."""
        return sum(layer.outputs * layer.count for layer in self.layers)

    def gemms(self, batch: Any = 1) -> GEMMs:
        """Forward, dx and dW products of a batch; an array of batches gives arrays of shape [*batch.shape, 3, layers].

        >>> layer = Layer("fc", "linear", m=1, n=10, k=512, weights=5130, inputs=512, outputs=10)
        >>> products = Workload("one", "one layer", (layer,)).gemms(32)
        >>> products.m[:, 0], products.n[:, 0], products.k[:, 0]
        (array([ 32.,  32., 512.]), array([ 10., 512.,  10.]), array([512.,  10.,  32.]))
        """
        batch = checked_batch(batch)[..., None]
        c = self.columns
        own = c["kind"] == "attention"  # both factors belong to the example
        m = np.where(own | c["per_step"], c["m"], c["m"] * batch)
        n, k = (np.broadcast_to(c[key], m.shape) for key in "nk")
        groups = np.where(own & ~c["per_step"], c["groups"] * batch, c["groups"])
        repeats = c["steps"] * c["count"] * (m > 0)
        dx, dw = repeats * self.gradients[0], repeats * self.gradients[1]
        return GEMMs(
            np.stack([m, m, k], -2),
            np.stack([n, k, n], -2),
            np.stack([k, n, m * c["steps"]], -2),  # dW of all time steps is one product
            np.stack([groups] * 3, -2),
            np.stack([repeats, dx, dw / c["steps"]], -2),
        )

    def __len__(self) -> int:
        return len(self.layers)


def checked_batch(batch: Any) -> np.ndarray:
    """A batch size, or an array of them, as float64; ValueError unless all are whole and from 1 to 2^53."""
    sizes = np.asarray(batch)
    sizes = sizes.astype(float) if sizes.dtype.kind == "f" else sizes  # float16 has no 2^53
    wrong = ~((sizes >= 1) & (sizes == np.floor(sizes))) if sizes.dtype.kind in "iuf" else np.ones(sizes.shape, bool)
    if wrong.any():
        raise ValueError(f"batch must be a whole number from 1 (or an array of them), got {sizes[wrong].tolist()[0]!r}")
    if (sizes > 2**53).any():  # float64 has no 2^53 + 1
        raise ValueError(f"batch must be at most 2^53, got {sizes.max():g}")
    return sizes.astype(float)
