"""Gradients for torch: the straight-through estimator and the formulas of pact.py, lsq.py and dorefa.py.

This module imports torch; nobody imports it before a tensor or a module has come along.
"""

from __future__ import annotations

from typing import Any

import torch


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
