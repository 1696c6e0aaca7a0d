"""Convolutions under a recipe: arguments as PyTorch takes them, in one, two or three dimensions.

This module needs PyTorch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from lplab.training.emulation import contraction_gemms
from lplab.training.emulation.gemms import Convolution
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


def _each(value: Any, dims: int) -> list[int]:
    return [int(value)] * dims if isinstance(value, int) else [*map(int, value)] * (dims if len(value) == 1 else 1)


def _poutput_padding(
    x: Tensor, weight: Tensor, padding: Any, dilation: list[int], dims: int
) -> tuple[Tensor, list[int]]:
    """Padding as numbers; where "same" needs one more on the right, x is poutput_padding here."""
    if padding == "valid":
        return x, [0] * dims
    if padding != "same":
        return x, _each(padding, dims)
    totals = [d * (size - 1) for d, size in zip(dilation, weight.shape[2:], strict=True)]
    extra = [total % 2 for total in totals]
    if any(extra):
        x = functional.pad(x, [side for more in reversed(extra) for side in (0, more)])
    return x, [total // 2 for total in totals]


def _handler(dims: int, transposed: bool) -> Any:
    def forward(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, *rest: Any, **named: Any):
        dilation, groups = _trailing_arguments(("dilation", "groups"), rest, named)
        return input, weight, bias, stride, padding, 0, groups, dilation

    def backward(
        input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, *rest: Any, **named: Any
    ):
        output_padding, groups, dilation = _trailing_arguments(("output_padding", "groups", "dilation"), rest, named)
        return input, weight, bias, stride, padding, output_padding, groups, dilation

    arguments = backward if transposed else forward

    def convolve(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Tensor:
        x, weight, bias, stride, padding, output_padding, groups, dilation = arguments(*args, **kwargs)
        op = emulation.op("conv", convolution_kinds(weight, groups, transposed))
        if op.rules.is_identity or not weight.numel():  # without weights there is no product
            return call_observed(op, func, args, kwargs, ("activation", x), ("weight", weight))
        unbatched = x.ndim == dims + 1
        dilation = _each(dilation, dims)
        x, padding = _poutput_padding(x[None] if unbatched else x, weight, padding, dilation, dims)
        geometry = (_each(stride, dims), padding, dilation, transposed, _each(output_padding, dims), groups)
        y = _convolved(emulation.clipped(x, op), weight, bias, op, geometry)
        return y[0] if unbatched else y

    return convolve


def _convolved(x: Tensor, weight: Tensor, bias: Tensor | None, op: QuantizedOp, geometry: tuple) -> Tensor:
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
    y = _convolved(x, weight.transpose(0, 2), bias, op, ([1], [padding], [1], False, [0], 1))
    return y.permute(2, 0, 1)


def _tbc_arguments(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> tuple:
    return input, weight, bias, pad


def _trailing_arguments(names: tuple[str, ...], rest: tuple, named: dict) -> list[Any]:
    """Arguments by position or by name, with PyTorch's defaults."""
    defaults = {"dilation": 1, "groups": 1, "output_padding": 0}
    given = dict(zip(names, rest, strict=False))
    return [given.get(name, named.get(name, defaults[name])) for name in names]


def convolutions() -> dict[Any, Any]:
    """The handlers of all convolutions of PyTorch, by function."""
    ordinary = {getattr(torch, f"conv{n}d"): _handler(n, False) for n in (1, 2, 3)}
    transposed = {getattr(torch, f"conv_transpose{n}d"): _handler(n, True) for n in (1, 2, 3)}
    return ordinary | transposed | {torch.conv_tbc: conv_tbc}
