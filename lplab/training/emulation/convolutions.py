"""Convolutions under a recipe: arguments as PyTorch takes them, in one, two or three dimensions.

This module needs PyTorch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from lplab.training.emulation import contraction_gemms
from lplab.training.emulation.gemms import Convolution
from lplab.training.emulation.im2col_conv import ConvolutionGeometry
from lplab.training.emulation.model_state import Emulation
from lplab.training.emulation.observed_ops import call_observed
from lplab.training.emulation.quantized_op import QuantizedOp


def convolution_kinds(weight: Tensor, groups: int, transposed: bool) -> frozenset[str]:
    """The kinds of a convolution, from the shape of its weight.

    >>> sorted(convolution_kinds(torch.zeros(4, 8, 1, 1), groups=1, transposed=False))
    ['pointwise', 'reducing']
    """
    inputs = weight.shape[0] if transposed else weight.shape[1] * groups
    outputs = weight.shape[1] * groups if transposed else weight.shape[0]
    kinds = {"depthwise"} if groups > 1 and groups == inputs else set()
    if all(size == 1 for size in weight.shape[2:]) and not kinds:
        kinds |= {"pointwise", "reducing"} if outputs < inputs else {"pointwise"}
    return frozenset(kinds)


class ConvolutionArguments(NamedTuple):
    """The arguments of a convolution of PyTorch, ordinary or transposed, with PyTorch's defaults."""

    input: Any
    weight: Any
    bias: Any = None
    stride: Any = 1
    padding: Any = 0
    output_padding: Any = 0
    groups: int = 1
    dilation: Any = 1


_FIRST_ARGUMENTS = ("input", "weight", "bias", "stride", "padding")
_ORDER = {
    False: (*_FIRST_ARGUMENTS, "dilation", "groups"),
    True: (*_FIRST_ARGUMENTS, "output_padding", "groups", "dilation"),
}
"""The arguments by position: of an ordinary and of a transposed convolution."""


def convolution_arguments(transposed: bool, args: tuple, kwargs: dict[str, Any]) -> ConvolutionArguments:
    """The arguments of a call, given by position or by name.

    >>> convolution_arguments(True, (1, 2, None, 2, 0, 1, 8), {"dilation": 3})[3:]
    (2, 0, 1, 8, 3)
    """
    return ConvolutionArguments(**dict(zip(_ORDER[transposed], args, strict=False)), **kwargs)


def per_dimension(value: Any, dims: int) -> list[int]:
    """A number for each dimension, of one number or of several.

    >>> per_dimension(3, 2), per_dimension([1], 2), per_dimension((1, 2), 2)
    ([3, 3], [1, 1], [1, 2])
    """
    return [int(value)] * dims if isinstance(value, int) else [*map(int, value)] * (dims if len(value) == 1 else 1)


def _padded(x: Tensor, weight: Tensor, padding: Any, dilation: list[int], dims: int) -> tuple[Tensor, list[int]]:
    """The input and its padding as numbers; where "same" needs one more on the right, the input is padded here."""
    if padding == "valid":
        return x, [0] * dims
    if padding != "same":
        return x, per_dimension(padding, dims)
    totals = [d * (size - 1) for d, size in zip(dilation, weight.shape[2:], strict=True)]
    extra = [total % 2 for total in totals]
    if any(extra):
        x = functional.pad(x, [side for more in reversed(extra) for side in (0, more)])
    return x, [total // 2 for total in totals]


def _handler(dims: int, transposed: bool) -> Any:
    def convolve(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Tensor:
        given = convolution_arguments(transposed, args, kwargs)
        x, weight = given.input, given.weight
        op = emulation.op("conv", convolution_kinds(weight, given.groups, transposed))
        if op.rules.is_identity or not weight.numel():  # without weights there is no product
            return call_observed(op, func, args, kwargs, ("activation", x), ("weight", weight))
        unbatched = x.ndim == dims + 1
        dilation = per_dimension(given.dilation, dims)
        x, padding = _padded(x[None] if unbatched else x, weight, given.padding, dilation, dims)
        stride, output_padding = per_dimension(given.stride, dims), per_dimension(given.output_padding, dims)
        geometry = ConvolutionGeometry(stride, padding, dilation, transposed, output_padding, given.groups)
        y = _convolved(emulation.clipped(x, op), weight, given.bias, op, geometry)
        return y[0] if unbatched else y

    return convolve


def _convolved(
    x: Tensor, weight: Tensor, bias: Tensor | None, op: QuantizedOp, geometry: ConvolutionGeometry
) -> Tensor:
    """The convolution; as the product of patches where each product rounds its operands."""
    if op.rules.rounds_each_product:
        return contraction_gemms.convolution(x, weight, bias, op, geometry)
    return Convolution.apply(x, weight, bias, op, geometry)


def conv_tbc(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Tensor:
    """``torch.conv_tbc``: a convolution over time for x [time, batch, in] and a weight [kernel, in, out]."""
    x, weight, bias, padding = _tbc_arguments(*args, **kwargs)
    if x.shape[0] + 2 * padding < weight.shape[0]:
        return func(*args, **kwargs)  # no product: the result is empty
    op = emulation.op("conv", convolution_kinds(weight.transpose(0, 2), groups=1, transposed=False))
    if op.rules.is_identity:
        return call_observed(op, func, args, kwargs, ("activation", x), ("weight", weight))
    x = emulation.clipped(x, op).permute(1, 2, 0)
    if padding < 0:  # PyTorch leaves out steps at both ends
        x, padding = functional.pad(x, [padding, padding]), 0
    y = _convolved(x, weight.transpose(0, 2), bias, op, ConvolutionGeometry([1], [padding], [1]))
    return y.permute(2, 0, 1)


def _tbc_arguments(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> tuple:
    return input, weight, bias, pad


def convolutions() -> dict[Any, Any]:
    """The handlers of all convolutions of PyTorch, by function."""
    ordinary = {getattr(torch, f"conv{n}d"): _handler(n, False) for n in (1, 2, 3)}
    transposed = {getattr(torch, f"conv_transpose{n}d"): _handler(n, True) for n in (1, 2, 3)}
    return ordinary | transposed | {torch.conv_tbc: conv_tbc}
