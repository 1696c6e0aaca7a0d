"""The three products of a layer under a recipe, for linear layers, products of two tensors and convolutions.

All operands are rounded here. In the forward pass these are both factors; the backward pass uses the rounded factors
again. In the backward pass the output gradient is rounded, once for dx and once for dW. Results are rounded where the
rules say so. A trained clip has been applied before (its rule rounds nothing here). Sums are native float32 unless the
rules name an accumulator. Second derivatives are not defined: :func:`first_derivative` refuses them.

This module needs PyTorch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from lplab.training.emulation.im2col_conv import ConvolutionGeometry, convolution, convolution_backward
from lplab.training.emulation.quantized_op import QuantizedOp, detach_view, first_derivative


def rounded_input(x: Tensor, op: QuantizedOp) -> Tensor:
    """The input of a layer, rounded, unless a trained clip has rounded it."""
    return x if op.rules.activation.learned else op.activation(x)


@dataclass(frozen=True)
class FactorRoles:
    """The roles of one factor of a product, and of the tensors that belong to it in the backward pass.

    Attributes:
        forward: of the factor.
        again: of the factor in the product for the gradient of the other one, where the rules round it anew.
        output_gradient: of the output gradient in the product for the factor's own gradient.
        gradient: of that gradient.
    """

    forward: str
    again: str
    output_gradient: str
    gradient: str


ACTIVATION = FactorRoles("activation", "activation_dw", "output_gradient_dx", "input_gradient")
WEIGHT = FactorRoles("weight", "weight_dx", "output_gradient_dw", "weight_gradient")
SECOND_ACTIVATION = FactorRoles("activation", "activation_dw", "output_gradient_dw", "weight_gradient")
"""The right factor of a product of two activations, as in attention."""


def factor_roles(op: QuantizedOp, weight_left: bool) -> tuple[FactorRoles, FactorRoles]:
    """The roles of the left and of the right factor of a product."""
    roles = ACTIVATION, SECOND_ACTIVATION if "product" in op.kinds else WEIGHT
    return (roles[1], roles[0]) if weight_left else roles


def rounded_factors(a: Tensor, b: Tensor, op: QuantizedOp, weight_left: bool) -> list[Tensor]:
    """Both factors of a product, rounded as activations or as weight."""
    return [
        op.round("weight", x) if roles is WEIGHT else rounded_input(x, op)
        for x, roles in zip((a, b), factor_roles(op, weight_left), strict=True)
    ]


def factor_gradients(
    dy: Tensor, op: QuantizedOp, weight_left: bool, for_a: bool, for_b: bool
) -> tuple[Tensor | None, Tensor | None]:
    """An output gradient rounded for the gradient of the left factor, and for that of the right one."""
    if weight_left:
        for_right, for_left = op.gradients(dy, for_b, for_a)
        return for_left, for_right
    return op.gradients(dy, for_a, for_b)


def as_matrix_stack(x: Tensor) -> Tensor:
    """A stack of matrices in a layout that PyTorch can multiply without copying it in every product."""
    if x.ndim <= 3 or x.is_contiguous() or x.mT.is_contiguous():
        return x
    return x.mT.contiguous().mT if x.stride(-2) == 1 else x.contiguous()


def leaves(*tensors: Tensor) -> list[Tensor]:
    """The tensors that collect gradients, for ``first_derivative``; no activation, so that none lives longer."""
    return [x for x in tensors if x.requires_grad and x.is_leaf]


def as_rows(x: Tensor) -> Tensor:
    """A tensor as a matrix with the same last axis. The number of rows is given, as -1 is ambiguous if x is empty."""
    return x.reshape(x.shape[:-1].numel(), x.shape[-1])


class Linear(torch.autograd.Function):
    """y = x · Wᵀ + b for x [..., in] and W [out, in]; of x [rows, in] the bias may be [rows, out]."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, op: QuantizedOp, ready: bool = False
    ) -> Tensor:
        """Round the operands, multiply, add the bias, round the output. ``ready``: the weight is rounded already."""
        ctx.leaves = leaves(x, weight)
        x, weight = rounded_input(x, op), weight if ready else op.round("weight", weight)
        ctx.save_for_backward(x, weight)
        ctx.op, ctx.has_bias_of_rows = op, bias is not None and bias.ndim == 2
        if op.rules.accumulator is None:
            return op.round("output", detach_view(functional.linear(x, weight, bias)))
        y = op.matmul(x, weight.t())
        return op.round("output", detach_view(y if bias is None else y + bias))

    @staticmethod
    @first_derivative
    def backward(ctx: Any, dy: Tensor) -> Any:
        """dx = dy · W, dW = dyᵀ · x, db = Σ dy."""
        (x, weight), op = ctx.saved_tensors, ctx.op
        for_dx, for_dw, for_db = ctx.needs_input_grad[:3]
        db = None
        if for_db:
            db = dy if ctx.has_bias_of_rows else as_rows(dy).sum(0)  # first, while dy is in the cache
        dy_dx, dy_dw = op.gradients(dy, for_dx, for_dw)
        dx = dw = None
        if dy_dx is not None:
            dx = op.round("input_gradient", op.matmul(dy_dx, weight))
        if dy_dw is not None:
            dw = op.round("weight_gradient", op.matmul(as_rows(dy_dw).t(), as_rows(x)))
        return dx, dw, db, None, None


class Product(torch.autograd.Function):
    """y = a · b for matrices or stacks of them, which broadcast.

    The gradient of the left operand is the backward product (dx), that of the right one the update product (dW); with
    ``weight_left`` the two are exchanged.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, op: QuantizedOp, weight_left: bool) -> Tensor:
        """Round the operands, multiply, round the output."""
        ctx.leaves = leaves(a, b)
        a, b = rounded_factors(as_matrix_stack(a), as_matrix_stack(b), op, weight_left)
        ctx.save_for_backward(a, b)
        ctx.op, ctx.weight_left = op, weight_left
        return op.round("output", detach_view(op.matmul(a, b)))

    @staticmethod
    @first_derivative
    def backward(ctx: Any, dy: Tensor) -> Any:
        """da = dy · bᵀ, db = aᵀ · dy, summed where an operand was broadcast."""
        (a, b), op = ctx.saved_tensors, ctx.op
        dy_a, dy_b = factor_gradients(dy, op, ctx.weight_left, *ctx.needs_input_grad[:2])
        roles_a, roles_b = factor_roles(op, ctx.weight_left)
        da = db = None
        if dy_a is not None:
            da = op.round(roles_a.gradient, op.matmul(dy_a, b.transpose(-1, -2)).sum_to_size(a.shape))
        if dy_b is not None:
            db = op.round(roles_b.gradient, op.matmul(a.transpose(-1, -2), dy_b).sum_to_size(b.shape))
        return da, db, None, None


class Convolution(torch.autograd.Function):
    """y = conv(x, W) + b in one, two or three dimensions, with groups; also the transposed convolution."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, op: QuantizedOp, geometry: ConvolutionGeometry
    ) -> Tensor:
        """Round the operands, convolve, add the bias, round the output."""
        ctx.leaves = leaves(x, weight)
        x, weight = rounded_input(x, op), op.round("weight", weight)
        ctx.save_for_backward(x, weight)
        ctx.op, ctx.geometry = op, geometry
        if op.rules.accumulator is not None:
            return op.round("output", convolution(x, weight, bias, geometry, op))
        return op.round("output", torch.ops.aten.convolution(x, weight, bias, *geometry))

    @staticmethod
    @first_derivative
    def backward(ctx: Any, dy: Tensor) -> Any:
        """One call of PyTorch's backward convolution where both products use the same dy, else two."""
        (x, weight), op = ctx.saved_tensors, ctx.op
        for_dx, for_dw, for_db = ctx.needs_input_grad[:3]
        db = dy.sum([0, *range(2, dy.ndim)]) if for_db else None  # first, while dy is in the cache
        dy_dx, dy_dw = op.gradients(dy, for_dx, for_dw)
        if op.rules.accumulator is not None:
            dx, dw = convolution_backward(dy_dx, dy_dw, x, weight, ctx.geometry, op)
        elif dy_dx is dy_dw:
            dx, dw = _backward(dy_dx, x, weight, ctx.geometry, for_dx, for_dw)
        else:
            dx = _backward(dy_dx, x, weight, ctx.geometry, True, False)[0]
            dw = _backward(dy_dw, x, weight, ctx.geometry, False, True)[1]
        dx = None if dx is None else op.round("input_gradient", dx)
        dw = None if dw is None else op.round("weight_gradient", dw)
        return dx, dw, db, None, None


def _backward(dy: Tensor | None, x: Tensor, weight: Tensor, geometry: ConvolutionGeometry, dx: bool, dw: bool) -> tuple:
    if dy is None:
        return None, None
    backward = torch.ops.aten.convolution_backward
    return backward(dy, x, weight, None, *geometry, [dx, dw, False])[:2]


class Bilinear(torch.autograd.Function):
    """Any function that is linear in each of two tensors, such as an einsum; its gradients are those of autograd."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, op: QuantizedOp, weight_left: bool, compute: Any) -> Tensor:
        """Round the operands, compute, round the output. ``compute`` takes the two tensors."""
        ctx.leaves = leaves(a, b)
        a, b = rounded_factors(a, b, op, weight_left)
        if op.rules.accumulator is not None:
            raise NotImplementedError(
                f"{op.name}: an accumulator needs a product that is written as matmul, linear or conv; "
                f"got {getattr(compute, 'label', 'another one')}"
            )
        ctx.save_for_backward(a, b)
        ctx.op, ctx.compute, ctx.weight_left = op, compute, weight_left
        return op.round("output", detach_view(compute(a, b)))

    @staticmethod
    @first_derivative
    def backward(ctx: Any, dy: Tensor) -> Any:
        """The product is computed again to differentiate it. It is linear, so only its shape matters."""
        (a, b), op = ctx.saved_tensors, ctx.op
        for_a, for_b = ctx.needs_input_grad[:2]
        dy_a, dy_b = factor_gradients(dy, op, ctx.weight_left, for_a, for_b)
        roles_a, roles_b = factor_roles(op, ctx.weight_left)
        with torch.enable_grad():
            a, b = a.detach().requires_grad_(for_a), b.detach().requires_grad_(for_b)
            y = ctx.compute(a, b)
        da = torch.autograd.grad(y, a, dy_a, retain_graph=for_b)[0] if for_a else None
        db = torch.autograd.grad(y, b, dy_b)[0] if for_b else None
        da = None if da is None else op.round(roles_a.gradient, da)
        db = None if db is None else op.round(roles_b.gradient, db)
        return da, db, None, None, None
