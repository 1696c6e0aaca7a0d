"""The three products of a layer under a recipe, for linear layers, products of two tensors and convolutions.

Here all operands are rounded: in the forward pass both of them, which the backward pass uses again as they are; in the
backward pass the output gradient, once for dx and once for dW; and what comes out of a product, where the rules ask for
it. A trained clip has been applied before (its rule rounds no more here). Sums are the machine's float32 ones unless
the rules name an accumulator. Second derivatives are not defined.

This module needs PyTorch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from lplab.training.site import Site, no_view


def product(a: Tensor, b: Tensor, site: Site) -> Tensor:
    """``a @ b`` with the sums of the site's accumulator."""
    accumulator = site.rules.accumulator
    if accumulator is None:
        return torch.mm(a, b) if a.ndim == b.ndim == 2 else torch.matmul(a, b)  # mm has no shapes to look at
    from lplab.arithmetic import matmul

    seed = site.seed_of("accumulator") if accumulator.rounding.is_stochastic else None
    return matmul(a, b, accumulator, seed=seed)


def rounded_input(x: Tensor, site: Site) -> Tensor:
    """The input of a layer, rounded, unless a trained clip has done it."""
    return x if site.rules.activation.learned else site.activation(x)


def rounded_factors(a: Tensor, b: Tensor, site: Site, weight_left: bool) -> tuple[Tensor, Tensor]:
    """Both factors of a product, rounded as activations or as weight."""
    if "product" in site.kinds:
        return rounded_input(a, site), rounded_input(b, site)
    if weight_left:
        return site.round("weight", a), rounded_input(b, site)
    return rounded_input(a, site), site.round("weight", b)


def stacked(x: Tensor) -> Tensor:
    """A stack of matrices that PyTorch can multiply without copying it first, each time anew."""
    if x.ndim <= 3 or x.is_contiguous() or x.mT.is_contiguous():
        return x
    return x.mT.contiguous().mT if x.stride(-2) == 1 else x.contiguous()


class Linear(torch.autograd.Function):
    """y = x · Wᵀ + b for x [..., in] and W [out, in]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, site: Site, ready: bool = False) -> Tensor:
        """Round the operands, multiply, add the bias, round the output. ``ready``: the weight is rounded already."""
        x, weight = rounded_input(x, site), weight if ready else site.round("weight", weight)
        ctx.save_for_backward(x, weight)
        ctx.site = site
        if site.rules.accumulator is None:
            return site.round("output", no_view(functional.linear(x, weight, bias)))
        y = product(x, weight.t(), site)
        return site.round("output", no_view(y if bias is None else y + bias))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> Any:
        """dx = dy · W, dW = dyᵀ · x, db = Σ dy."""
        (x, weight), site = ctx.saved_tensors, ctx.site
        for_dx, for_dw, for_db = ctx.needs_input_grad[:3]
        db = dy.reshape(-1, dy.shape[-1]).sum(0) if for_db else None  # first of all, while dy is in the cache
        dy_dx, dy_dw = site.gradients(dy, for_dx, for_dw)
        dx = dw = None
        if dy_dx is not None:
            dx = site.round("input_gradient", product(dy_dx, weight, site))
        if dy_dw is not None:
            rows = dy_dw.reshape(-1, dy_dw.shape[-1])
            dw = site.round("weight_gradient", product(rows.t(), x.reshape(-1, x.shape[-1]), site))
        return dx, dw, db, None, None


class Product(torch.autograd.Function):
    """y = a · b for matrices or stacks of them, which broadcast.

    The gradient of the left operand is the backward product (dx), that of the right one the update product (dW); with
    ``weight_left`` it is the other way round.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, site: Site, weight_left: bool) -> Tensor:
        """Round the operands, multiply, round the output."""
        a, b = rounded_factors(stacked(a), stacked(b), site, weight_left)
        ctx.save_for_backward(a, b)
        ctx.site, ctx.weight_left = site, weight_left
        return site.round("output", no_view(product(a, b, site)))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> Any:
        """da = dy · bᵀ, db = aᵀ · dy, summed where an operand was broadcast."""
        (a, b), site = ctx.saved_tensors, ctx.site
        for_a, for_b = ctx.needs_input_grad[:2]
        if ctx.weight_left:
            dy_b, dy_a = site.gradients(dy, for_b, for_a)
            role_a, role_b = "weight_gradient", "input_gradient"
        else:
            dy_a, dy_b = site.gradients(dy, for_a, for_b)
            role_a, role_b = "input_gradient", "weight_gradient"
        da = db = None
        if dy_a is not None:
            da = site.round(role_a, product(dy_a, b.transpose(-1, -2), site).sum_to_size(a.shape))
        if dy_b is not None:
            db = site.round(role_b, product(a.transpose(-1, -2), dy_b, site).sum_to_size(b.shape))
        return da, db, None, None


class Convolution(torch.autograd.Function):
    """y = conv(x, W) + b in one, two or three dimensions, with groups; also the transposed convolution."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, site: Site, geometry: tuple) -> Tensor:
        """Round the operands, convolve, add the bias, round the output.

        ``geometry`` is what follows the bias in aten::convolution.
        """
        x, weight = rounded_input(x, site), site.round("weight", weight)
        ctx.save_for_backward(x, weight)
        ctx.site, ctx.geometry = site, geometry
        ctx.bias_sizes = None if bias is None else list(bias.shape)
        if site.rules.accumulator is not None:
            from lplab.training.unfolded import convolution

            return site.round("output", convolution(x, weight, bias, geometry, site))
        return site.round("output", torch.ops.aten.convolution(x, weight, bias, *geometry))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> Any:
        """One call of PyTorch's backward convolution where both products see the same dy, else two."""
        (x, weight), site = ctx.saved_tensors, ctx.site
        for_dx, for_dw, for_db = ctx.needs_input_grad[:3]
        db = dy.sum([0, *range(2, dy.ndim)]) if for_db else None  # first of all, while dy is in the cache
        dy_dx, dy_dw = site.gradients(dy, for_dx, for_dw)
        if site.rules.accumulator is not None:
            from lplab.training.unfolded import convolution_backward

            dx, dw = convolution_backward(dy_dx, dy_dw, x, weight, ctx.geometry, site)
        elif dy_dx is dy_dw:
            dx, dw = _backward(dy_dx, x, weight, ctx.geometry, for_dx, for_dw)
        else:
            dx = _backward(dy_dx, x, weight, ctx.geometry, True, False)[0]
            dw = _backward(dy_dw, x, weight, ctx.geometry, False, True)[1]
        dx = None if dx is None else site.round("input_gradient", dx)
        dw = None if dw is None else site.round("weight_gradient", dw)
        return dx, dw, db, None, None


def _backward(dy: Tensor | None, x: Tensor, weight: Tensor, geometry: tuple, dx: bool, dw: bool) -> tuple:
    if dy is None:
        return None, None
    backward = torch.ops.aten.convolution_backward
    return backward(dy, x, weight, None, *geometry, [dx, dw, False])[:2]


class Bilinear(torch.autograd.Function):
    """Any function that is linear in each of two tensors, such as an einsum: its gradients by PyTorch's own rules."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, site: Site, weight_left: bool, compute: Any) -> Tensor:
        """Round the operands, compute, round the output. ``compute`` takes the two tensors."""
        a, b = rounded_factors(a, b, site, weight_left)
        if site.rules.accumulator is not None:
            raise NotImplementedError(
                f"{site.name}: an accumulator needs a product that is written as matmul, linear or conv; "
                f"got {getattr(compute, 'label', 'another one')}"
            )
        ctx.save_for_backward(a, b)
        ctx.site, ctx.compute, ctx.weight_left = site, compute, weight_left
        return site.round("output", no_view(compute(a, b)))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> Any:
        """The product is computed once more to differentiate it: linear, so nothing but its shape matters."""
        (a, b), site = ctx.saved_tensors, ctx.site
        for_a, for_b = ctx.needs_input_grad[:2]
        wants = (for_b, for_a) if ctx.weight_left else (for_a, for_b)
        first, second = site.gradients(dy, *wants)
        dy_a, dy_b = (second, first) if ctx.weight_left else (first, second)
        roles = ("weight_gradient", "input_gradient") if ctx.weight_left else ("input_gradient", "weight_gradient")
        with torch.enable_grad():
            a, b = a.detach().requires_grad_(for_a), b.detach().requires_grad_(for_b)
            y = ctx.compute(a, b)
        da = torch.autograd.grad(y, a, dy_a, retain_graph=for_b)[0] if for_a else None
        db = torch.autograd.grad(y, b, dy_b)[0] if for_b else None
        da = None if da is None else site.round(roles[0], da)
        db = None if db is None else site.round(roles[1], db)
        return da, db, None, None, None
