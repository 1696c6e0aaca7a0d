"""Operators of torch as layers: the layers that one recorded operator adds to a workload."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod
from typing import TYPE_CHECKING, Any

from lplab.hardware.workloads.tensor_origins import Origins
from lplab.hardware.workloads.workload import Layer

if TYPE_CHECKING:
    import torch

_ELEMENTWISE = {  # words in the names of operators, and the kind of layer that they make
    "softmax": "softmax",
    "norm": "norm",
    "embedding": "embedding",
    "pool": "pool",
    "mean": "pool",
    **dict.fromkeys(("relu", "gelu", "silu", "tanh", "sigmoid", "hardtanh", "elu"), "activation"),
    **dict.fromkeys(("add", "sub", "mul", "div"), "add"),
}
_UNCOUNTED = frozenset({
    "_cdist_forward", "_pdist_forward", "_euclidean_dist", "_sparse_mm", "_sparse_addmm", "sspaddmm", "hspmm",
    "_sparse_mm_reduce_impl", "_sparse_semi_structured_mm", "_sparse_semi_structured_linear", "_grouped_mm",
    "_scaled_mm", "_scaled_mm_v2", "_scaled_grouped_mm", "_scaled_grouped_mm_v2", "_int_mm", "_weight_int4pack_mm",
    "_weight_int8pack_mm", "_dyn_quant_matmul_4bit", "conv_tbc", "linear", "linear_backward", "mkldnn_linear",
    "mkldnn_convolution", "convolution_overrideable", "convolution_backward", "conv_tbc_backward", "cudnn_convolution",
    "cudnn_convolution_transpose", "cudnn_convolution_relu", "cudnn_convolution_add_relu", "miopen_convolution",
    "_slow_conv2d_forward", "_conv_depthwise2d", "conv_depthwise3d", "slow_conv3d_forward", "slow_conv_transpose2d",
    "slow_conv_transpose3d", "slow_conv_dilated2d", "slow_conv_dilated3d", "mkldnn_rnn_layer",
    "mkldnn_rnn_layer_backward", "_cudnn_rnn", "_cudnn_rnn_backward", "miopen_rnn", "_native_multi_head_attention",
    "_transformer_encoder_layer_fwd", "_linear_cross_entropy_batch_chunked", "_flash_attention_forward",
    "_efficient_attention_forward", "_fft_c2c", "_fft_c2r", "_fft_r2c", "linalg_matrix_exp", "linalg_inv_ex",
    "_linalg_solve_ex", "linalg_solve_triangular", "triangular_solve", "linalg_lu", "linalg_lu_factor_ex",
    "linalg_lu_solve", "linalg_ldl_factor_ex", "linalg_ldl_solve", "linalg_cholesky_ex", "cholesky", "cholesky_solve",
    "cholesky_inverse", "linalg_qr", "geqrf", "linalg_householder_product", "ormqr", "_linalg_svd", "_linalg_eigh",
    "linalg_eig", "_linalg_eigvals", "linalg_lstsq", "_linalg_det", "_linalg_slogdet",
})  # fmt: skip
"""Operators of torch that multiply, and whose products are not counted: a workload names them."""


@dataclass(frozen=True)
class RecordedLayer:
    """A layer still without its weights.

    Attributes:
        layer: with the sizes of one example.
        parameters: names of those that it reads.
        part: which part of a parameter its product reads: equal products of the same part are time steps.
        uneven_rows: of the whole batch, where its examples do not share them evenly: of examples one by one, or of
            sequences of several lengths. All of them together make the layer's m.
    """

    layer: Layer
    parameters: frozenset[str] = frozenset()
    part: tuple[int, ...] = ()
    uneven_rows: int = 0


@dataclass(frozen=True)
class _Product:
    """[groups, m, k] times [groups, k, n], for the whole batch."""

    groups: int
    m: int
    n: int
    k: int

    def of_one_example(self, order: tuple[str, ...], batch: int) -> dict[str, int]:
        """The sizes with the first in order divided that the batch divides; else they share the batch's factors."""
        sizes, left = dict(vars(self)), batch
        for name in (name for name in order if sizes[name] % batch == 0):
            return sizes | {name: sizes[name] // batch}
        for name in order:
            common = gcd(sizes[name], left)
            sizes[name], left = sizes[name] // common, left // common
        return sizes | {order[0]: -(-sizes[order[0]] // left)}


def layers_of(
    operator: str, args: Sequence[Any], out: Any, name: str, origins: Origins, batch: int
) -> list[RecordedLayer]:
    """The layers of an operator that has run.

    Args:
        operator: its name, as in "aten.mm.default" the second part.
        args, out: its arguments and its result.
        name: of the module that called it.
        origins: of its operands.
        batch: examples that it ran on.
    """
    result = out[0] if isinstance(out, tuple | list) and out else out
    if not _is_tensor(result) or not (result.is_floating_point() or result.is_complex()):
        return []
    here = _Operator(name, args, [a for a in args if _is_tensor(a)], result, origins, batch)
    if operator == "convolution":
        return [here.convolution()]
    if operator.startswith("_scaled_dot_product"):
        return here.attention()
    if operator in _PRODUCTS:
        return [here.product(*_PRODUCTS[operator](here.tensors))]
    if operator == "mul" and here.is_outer_product():
        return [here.product(*_outer(here.tensors))]
    kind = next((kind for word, kind in _ELEMENTWISE.items() if word in operator), "")
    return [here.elementwise(kind)] if kind else []


def is_uncounted(operator: str, args: Sequence[Any]) -> bool:
    """Whether an operator of torch multiplies in a way that :func:`layers_of` does not count.

    >>> is_uncounted("_fft_r2c", ()), is_uncounted("mm", ())
    (True, False)
    """
    import torch

    is_sparse = any(_is_tensor(a) and a.layout != torch.strided for a in args)
    return operator in _UNCOUNTED or (operator in _PRODUCTS and is_sparse)


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _is_shortcut(name: str, shape: Any) -> bool:
    """Whether recipes call a layer a shortcut: a 1 × 1 convolution in a module called shortcut or downsample."""
    return all(side == 1 for side in shape[2:]) and any(word in name.lower() for word in ("shortcut", "downsample"))


# ---- operators that are one product of two of their tensors ----------------------------------------------------------

_Operands = tuple[_Product, Any, Any]


def _mm(tensors: Sequence[Any]) -> _Operands:
    a, b = tensors[-2:]
    return _Product(1, a.shape[0], b.shape[1], a.shape[1]), a, b


def _bmm(tensors: Sequence[Any]) -> _Operands:
    a, b = tensors[-2:]
    return _Product(a.shape[0], a.shape[1], b.shape[2], a.shape[2]), a, b


def _mv(tensors: Sequence[Any]) -> _Operands:
    a, b = tensors[-2:]
    return _Product(1, a.shape[0], 1, a.shape[1]), a, b


def _dot(tensors: Sequence[Any]) -> _Operands:
    a, b = tensors
    return _Product(1, 1, 1, a.shape[0]), a, b


def _addr(tensors: Sequence[Any]) -> _Operands:
    a, b = tensors[-2:]
    return _Product(1, a.shape[0], b.shape[0], 1), a, b


def _outer(tensors: Sequence[Any]) -> _Operands:
    """Both broadcast: m are the axes along which only a is long, n those of b, groups the others."""
    a, b = tensors
    axes = max(a.ndim, b.ndim)
    sizes = list(zip(*([1] * (axes - x.ndim) + list(x.shape) for x in (a, b)), strict=True))
    m, n = (prod(size[i] for size in sizes if size[1 - i] == 1) for i in (0, 1))
    return _Product(prod(i for i, j in sizes if i == j), m, n, 1), a, b


def _bilinear(tensors: Sequence[Any]) -> _Operands:
    """A dense layer of all products of an element of one input and one of the other."""
    a, weight, b = tensors
    return _Product(1, a.shape[0], weight.shape[0], a.shape[-1] * b.shape[-1]), a, weight


_PRODUCTS: Mapping[str, Callable[[Sequence[Any]], _Operands]] = {
    **dict.fromkeys(("mm", "addmm", "_addmm_activation"), _mm),
    **dict.fromkeys(("bmm", "baddbmm", "addbmm"), _bmm),
    **dict.fromkeys(("mv", "addmv"), _mv),
    **dict.fromkeys(("dot", "vdot"), _dot),
    "addr": _addr,
    "_trilinear": _bilinear,
}


@dataclass(frozen=True)
class _Operator:
    """An operator that has run."""

    name: str
    args: Sequence[Any]
    tensors: Sequence[torch.Tensor]
    result: torch.Tensor
    origins: Origins
    batch: int

    def convolution(self) -> RecordedLayer:
        x, kernel, transposed, groups = (self.args[i] for i in (0, 1, 6, 8))
        image = x if transposed else self.result  # in a transposed one each element of the input meets each weight
        sides = (kernel.shape[0] // groups, kernel[0].numel())
        n, k = sides[::-1] if transposed else sides
        shortcut = "shortcut" if _is_shortcut(self.name, kernel.shape) else ""
        word = "depthwise" if groups > 1 and groups == x.shape[1] else shortcut
        product = self.product(_Product(groups, image.numel() // image.shape[1], n, k), x, kernel, kind="conv")
        return replace(product, layer=replace(product.layer, exception=word))

    def attention(self) -> list[RecordedLayer]:
        """Scores, softmax and mixing of fused attention; a mask is no product."""
        q, k, v = self.tensors[:3]
        groups, rows, keys = q.shape[:-2].numel(), q.shape[-2], k.shape[-2]
        scores = self.result.new_empty((groups, rows, keys), device="meta")
        sources = [self.origins.of(x) for x in (q, k)]
        self.origins.follow(sources, [scores.requires_grad_(any(source.has_gradient for source in sources))])
        first = replace(self, name=f"{self.name}.scores", tensors=[q, k], result=scores)
        softmax = replace(self, name=f"{self.name}.softmax", tensors=[scores], result=scores)
        second = replace(self, name=f"{self.name}.mix", tensors=[scores, v])
        return [
            first.product(_Product(groups, rows, keys, q.shape[-1]), q, k),
            softmax.elementwise("softmax"),
            second.product(_Product(groups, rows, v.shape[-1], keys), scores, v),
        ]

    def is_outer_product(self) -> bool:
        """Whether a multiplication of two tensors gives more elements than each has, and is not of constants alone."""
        if len(self.tensors) != 2 or self.result.numel() <= max(x.numel() for x in self.tensors):
            return False
        return any(origin.from_example or origin.parameters for origin in map(self.origins.of, self.tensors))

    def product(self, whole: _Product, a: torch.Tensor, b: torch.Tensor, kind: str = "linear") -> RecordedLayer:
        """A product as a layer; where only one factor depends on the example, the other has its weights."""
        left, right = self.origins.of(a), self.origins.of(b)
        if not (left.from_example or right.from_example):  # computed for each example, or once in a step
            left, right = (replace(x, from_example=x.repeated) for x in (left, right))
        if right.from_example and not left.from_example and kind == "linear":
            whole, left, right, b = _Product(whole.groups, whole.n, whole.m, whole.k), right, left, a
        order: tuple[str, ...]
        if right.from_example:
            kind, order = "attention", ("groups", "m", "k", "n")
        else:  # a weight for each group, or the same for each example of the batch
            weights = self.origins.elements(right.parameters)
            order = ("m", "groups") if whole.groups * whole.n * whole.k <= weights else ("groups", "m")
        per_step = not (left.from_example or right.from_example)
        sizes = vars(whole) if per_step else whole.of_one_example(order, self.batch)
        if self.result.is_complex():  # four real products: [m, 2k] times [2k, 2n]
            sizes = sizes | {"n": 2 * sizes["n"], "k": 2 * sizes["k"]}
        names = frozenset().union(*[self.origins.of(x).parameters for x in self.tensors])
        gradients = tuple(word for word, of in (("dx", left), ("dw", right)) if of.has_gradient)
        layer = Layer(self.name, kind, **sizes, gradients=gradients, **self._about)
        uneven = whole.m if not per_step and names and sizes["groups"] == whole.groups and whole.m % self.batch else 0
        return RecordedLayer(layer, names, self.origins.part(b), uneven)

    def elementwise(self, kind: str) -> RecordedLayer:
        origins = [self.origins.of(x) for x in self.tensors]
        reads = [origin for origin in origins if not origin.from_example and origin.parameters]
        flows = any(origin.has_gradient for origin in origins if origin.from_example or not origin.parameters)
        trains = any(origin.has_gradient for origin in reads)
        gradients = tuple(word for word, needed in (("dx", flows), ("dw", trains)) if needed)
        layer = Layer(self.name, kind, gradients=gradients, **self._about)
        if kind == "embedding":
            layer = replace(layer, exception="embedding")
        names = [origin.parameters for origin in reads] if kind == "embedding" or not layer.per_step else []
        return RecordedLayer(layer, frozenset().union(*names))

    @property
    def _about(self) -> dict[str, Any]:
        """Elements that are read and written of one example, without weights and running means."""
        origins = {id(x): self.origins.of(x) for x in self.tensors}
        per_step = not any(origin.from_example or origin.repeated for origin in origins.values())
        read = [x for x in self.tensors if not origins[id(x)].parameters and not self.origins.is_buffer(x)]
        share = 1 if per_step else self.batch
        twice = 2 if self.result.is_complex() else 1
        inputs, outputs = sum(twice * x.numel() // share for x in read), twice * self.result.numel() // share
        return {"inputs": inputs, "outputs": outputs, "per_step": per_step}
