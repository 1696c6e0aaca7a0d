"""Convolutions as matrix products, for accumulators that round every addition: one or two dimensions, with groups.

The order of the additions is that of the rows of ``functional.unfold``: channel by channel, each kernel row by row; in
the update product, image by image and position by position.

This module needs PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor
from torch.nn import functional

from lplab.arithmetic.im2col import im2col
from lplab.training.emulation.quantized_op import QuantizedOp


class ConvolutionGeometry(NamedTuple):
    """What follows the bias in ``torch.ops.aten.convolution``; sequences have a number for each dimension."""

    stride: list[int]
    padding: list[int]
    dilation: list[int]
    transposed: bool = False
    output_padding: Sequence[int] = (0,)
    groups: int = 1


def convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None, geometry: ConvolutionGeometry, op: QuantizedOp
) -> Tensor:
    """Conv(x, weight) + bias."""
    x4, w4, shape = _in_two_dimensions(x, weight, geometry, op)
    groups = geometry.groups
    columns = _columns(x4, w4, shape, groups)  # [group, kernel, batch · positions]
    rows = w4.reshape(groups, w4.shape[0] // groups, w4.shape[1:].numel())
    size = _size(x4, w4, shape)[4 - x.ndim :]
    y = op.matmul(rows, columns).reshape(w4.shape[0], x.shape[0], math.prod(size)).transpose(0, 1)
    y = y.reshape(x.shape[0], w4.shape[0], *size)
    return y if bias is None else y + bias.reshape(1, -1, *[1] * (x.ndim - 2))


def convolution_backward(
    dy_dx: Tensor | None,
    dy_dw: Tensor | None,
    x: Tensor,
    weight: Tensor,
    geometry: ConvolutionGeometry,
    op: QuantizedOp,
) -> tuple[Tensor | None, Tensor | None]:
    """The two products of the backward pass, each with its own output gradient."""
    x4, w4, shape = _in_two_dimensions(x, weight, geometry, op)
    groups, dx, dw = geometry.groups, None, None
    if dy_dw is not None:
        columns = _columns(x4, w4, shape, groups)
        dw = op.matmul(_rows(dy_dw, groups), columns.transpose(1, 2)).reshape(weight.shape)
    if dy_dx is not None:
        rows = w4.reshape(groups, w4.shape[0] // groups, w4.shape[1:].numel())
        columns = op.matmul(rows.transpose(1, 2), _rows(dy_dx, groups))
        positions = dy_dx.shape[2:].numel()
        columns = columns.reshape(columns.shape[0] * columns.shape[1], x.shape[0], positions).transpose(0, 1)
        dx = functional.fold(columns, x4.shape[2:], w4.shape[2:], **shape).reshape(x.shape)
    return dx, dw


def _in_two_dimensions(
    x: Tensor, weight: Tensor, geometry: ConvolutionGeometry, op: QuantizedOp
) -> tuple[Tensor, Tensor, dict[str, Any]]:
    if geometry.transposed or x.ndim not in (3, 4):
        what = "transposed convolution" if geometry.transposed else "convolution in three dimensions"
        raise NotImplementedError(f"{op.name}: a {what} with an accumulator is not supported; pass accumulator=None")
    stride, padding, dilation = geometry[:3]
    if x.ndim == 3:
        x, weight = x[:, :, None], weight[:, :, None]
        stride, padding, dilation = [1, *stride], [0, *padding], [1, *dilation]
    return x, weight, {"stride": stride, "padding": padding, "dilation": dilation}


def _columns(x: Tensor, weight: Tensor, shape: dict[str, Any], groups: int) -> Tensor:
    """The inputs of each output: [group, inputs · kernel, batch · positions]."""
    columns = im2col(x, tuple(weight.shape[2:]), **shape)
    return columns.reshape(groups, columns.shape[0] // groups, columns.shape[1])


def _rows(dy: Tensor, groups: int) -> Tensor:
    """An output gradient as [group, outputs, batch · positions]."""
    positions = dy.shape[2:].numel()
    return dy.reshape(dy.shape[0], groups, dy.shape[1] // groups, positions).permute(1, 2, 0, 3).flatten(2)


def _size(x: Tensor, weight: Tensor, shape: dict[str, Any]) -> list[int]:
    """Height and width of the output."""
    sizes = zip(x.shape[2:], weight.shape[2:], shape["stride"], shape["padding"], shape["dilation"], strict=True)
    return [(size + 2 * pad - step * (kernel - 1) - 1) // stride + 1 for size, kernel, stride, pad, step in sizes]
