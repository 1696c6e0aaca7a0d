"""Gradients for torch: the straight-through estimator and the formulas of pact.py, lsq.py and dorefa.py.

This module imports torch; nobody imports it before a tensor or a module has come along.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from lplab.quantizers.dorefa import dorefa_weights, dorefa_weights_backward
from lplab.quantizers.lsq import LEAST_STEP, lsq_backward, lsq_forward
from lplab.quantizers.pact import LEAST_ALPHA, pact_backward, pact_forward


@torch.compiler.disable
def outside_of_graphs(function: Callable, *args: Any, **kwargs: Any) -> Any:
    """Call a function that ``torch.compile`` must not translate."""
    return function(*args, **kwargs)


class StraightThrough(torch.autograd.Function):
    """Given values in the forward pass; the gradient itself, or what a mask leaves of it, in the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, values: torch.Tensor, inside: torch.Tensor | None) -> torch.Tensor:
        """Hand the values on; remember the mask."""
        ctx.masked = inside is not None
        if inside is not None:
            ctx.save_for_backward(inside)
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        """The gradient, zero outside the mask."""
        return gradient * ctx.saved_tensors[0] if ctx.masked else gradient, None, None


class PactFunction(torch.autograd.Function):
    """:func:`~lplab.quantizers.pact_forward` with the gradients of :func:`~lplab.quantizers.pact_backward`."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, alpha: torch.Tensor, bits: int | None) -> torch.Tensor:
        """Clip and round."""
        ctx.save_for_backward(x)
        ctx.alpha, ctx.like = effective(alpha, LEAST_ALPHA), alpha.detach()
        return pact_forward(x.detach(), ctx.alpha, bits)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        """For x and for α."""
        for_x, for_alpha = pact_backward(ctx.saved_tensors[0], ctx.alpha, gradient)
        return for_x, torch.full_like(ctx.like, for_alpha), None


class LsqFunction(torch.autograd.Function):
    """:func:`~lplab.quantizers.lsq_forward` with the gradients of :func:`~lplab.quantizers.lsq_backward`."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, step: torch.Tensor, bits: int, signed: bool) -> torch.Tensor:
        """Clip and round."""
        ctx.save_for_backward(x)
        ctx.step, ctx.bits, ctx.signed, ctx.like = effective(step, LEAST_STEP), bits, signed, step.detach()
        return lsq_forward(x.detach(), ctx.step, bits, signed=signed)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        """For x and for the step."""
        for_x, for_step = lsq_backward(ctx.saved_tensors[0], ctx.step, gradient, ctx.bits, signed=ctx.signed)
        return for_x, torch.full_like(ctx.like, for_step), None, None


class DorefaWeights(torch.autograd.Function):
    """:func:`~lplab.quantizers.dorefa_weights` with the gradient of ``dorefa_weights_backward``."""

    @staticmethod
    def forward(ctx: Any, w: torch.Tensor, bits: int) -> torch.Tensor:
        """Through tanh, then round."""
        ctx.save_for_backward(w)
        ctx.bits = bits
        return dorefa_weights(w.detach(), bits)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        """Back through tanh."""
        return dorefa_weights_backward(ctx.saved_tensors[0], gradient, ctx.bits), None


def effective(parameter: torch.Tensor, least: float) -> float:
    """The value of a trained clip or step; one that training has brought below the least allowed counts as that.

    Raises:
        ValueError: NaN or infinite: training has diverged.
    """
    value = float(parameter.detach())
    if not math.isfinite(value):
        raise ValueError(f"a trained clip or step has become {value}: training has diverged")
    return max(value, least)
