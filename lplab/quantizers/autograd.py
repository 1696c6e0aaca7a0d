"""What quantizers need of torch's autograd: functions with given gradients, and the values of trained clips.

This module imports torch, so other modules import it inside the functions that have received a tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import once_differentiable


@torch.compiler.disable
def call_without_compiling(function: Callable, *args: Any, **kwargs: Any) -> Any:
    """Call a function that ``torch.compile`` must not trace."""
    return function(*args, **kwargs)


class GivenGradient(torch.autograd.Function):
    """A function of one tensor, with its gradient as another function."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, function: Callable, gradient_of: Callable) -> torch.Tensor:
        """Return ``function(x)``; keep x for the backward pass."""
        ctx.save_for_backward(x)
        ctx.gradient_of = gradient_of
        return function(x.detach())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        """Return ``gradient_of(x, gradient)``."""
        return ctx.gradient_of(ctx.saved_tensors[0], gradient), None, None


class TrainedScalar(torch.autograd.Function):
    """A function of a tensor and of one trained number, with both gradients as another function."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, parameter: torch.Tensor, least: float, function: Callable, gradients_of: Callable
    ) -> torch.Tensor:
        """Return ``function(x, value)``, where the value is that of the parameter, but at least ``least``."""
        ctx.save_for_backward(x)
        ctx.value, ctx.like, ctx.gradients_of = clamped_value(parameter, least), parameter.detach(), gradients_of
        return function(x.detach(), ctx.value)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        """The gradients for x and for the parameter, from ``gradients_of(x, value, gradient)``."""
        for_x, for_parameter = ctx.gradients_of(ctx.saved_tensors[0], ctx.value, gradient)
        return for_x, torch.full_like(ctx.like, for_parameter), None, None, None


def clamped_value(parameter: torch.Tensor, minimum: float) -> float:
    """The value of a trained clip or step, but not less than ``minimum``.

    Raises:
        ValueError: NaN or infinite: training has diverged.
    """
    value = float(parameter.detach())
    if not math.isfinite(value):
        raise ValueError(f"a trained clip or step has become {value}: training has diverged")
    return max(value, minimum)
