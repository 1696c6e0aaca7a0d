"""Gradients through rounding: the straight-through estimator as a function of PyTorch's autograd.

This module imports torch; it is imported when the first tensor that requires a gradient is rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class StraightThrough(torch.autograd.Function):
    """A function without a useful derivative in the forward pass, the identity in the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, function: Callable[[Tensor], Tensor], inside: Tensor | None = None) -> Tensor:
        """The function of x.

        Args:
            ctx: of autograd.
            x: the tensor.
            function: takes x without its gradient. It returns a new tensor, not a view, so that the result may be
                changed in place; or the tensor that it was given.
            inside: bool like x, or None: where it is False, the gradient is zero.
        """
        ctx.is_masked = inside is not None
        if inside is not None:
            ctx.save_for_backward(inside)
        return function(x.detach())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        """The gradient itself, or zero where x was not inside."""
        return gradient * ctx.saved_tensors[0] if ctx.is_masked else gradient, None, None
