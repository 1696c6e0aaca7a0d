"""PACT inside a model: activations rounded under a clip α that is trained with the weights of the layer.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lplab.formats import IntFormat
from lplab.formats.gradients import StraightThrough
from lplab.formats.recorded import has_numbers, is_recording, is_tracing
from lplab.quantizers import SAWB, Percentile, Quantizer
from lplab.quantizers.autograd import clamped_value
from lplab.quantizers.reductions import clip_backward, clip_mask, clip_sides
from lplab.training.emulation.quantized_op import QuantizedOp, first_derivative
from lplab.training.emulation.rounders import TensorRounder, clip_rounder, rounder_of
from lplab.training.recipe.quant_spec import LearnedClip, QuantSpec

ALPHA = "pact_alpha"
"""The parameter of a layer that holds α. It is trained; ``state_dict`` has it in the metadata (checkpoint_state)."""
_WHOLE = Quantizer(IntFormat(8, symmetric=True), Percentile(99.9))


def first_clip(learned: LearnedClip) -> float:
    """The α of a layer that has seen no input."""
    return learned.initial or 10.0


def clipped(x: Tensor, op: QuantizedOp, module: nn.Module) -> Tensor:
    """The input of a layer, rounded under its α; where the layer has no α, under the clip of SAWB."""
    learned = op.rules.activation.learned
    assert learned is not None
    if not has_clip(op, module):
        return _by_statistics(x, op, learned.bits)
    alpha = getattr(module, ALPHA)
    if not has_numbers(x):
        return torch.minimum(x, alpha)  # its shape, and gradients of the right shapes
    signed = op.clip_signed
    if is_recording() and not torch.jit.is_tracing():
        raise NotImplementedError(
            f"{op.name}: make_fx cannot record a trained clip; record the model with torch.jit.trace"
        )
    if signed is None and is_recording():
        raise NotImplementedError(f"{op.name}: call the model once before it is traced; its trained clip begins then")
    if signed is None and bool((x.detach().isfinite() & (x.detach() != 0)).any()):  # else no magnitude is known
        signed = bool((x.detach() < 0).any())
        if isinstance(alpha, nn.Parameter):  # else functional_call has given it, and nothing of the call may stay
            _begin(x.detach(), alpha, learned)
            op.clip_signed = signed
        elif getattr(module, "_is_replica", False):
            raise RuntimeError(
                f"{op.name}: call the model once before nn.DataParallel splits its inputs; its trained clip begins then"
            )
    bound, signed = clamped_value(alpha, learned.least), bool(signed)
    values = op.round_by(clip_rounder(learned.bits, signed), "activation", x, scale=bound)
    if torch.is_grad_enabled() and (x.requires_grad or alpha.requires_grad):
        return ClipGradient.apply(x, alpha, lambda: values, bound, signed)
    return values


def _begin(x: Tensor, alpha: nn.Parameter, learned: LearnedClip) -> None:
    """Set α by the first input of a layer, unless it was given another value before, as by averaging models."""
    with torch.no_grad():
        if bool(alpha == torch.full_like(alpha, first_clip(learned))):
            alpha.fill_(max(learned.initial or _WHOLE.scale(x) * 127, learned.least))


class ClipGradient(torch.autograd.Function):
    """The gradient of PACT as published: below α it passes; above it (and, of signed numbers, below −α) it goes to α.

    A NaN has no gradient.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, alpha: Tensor, rounded: Callable[[], Tensor], bound: float, signed: bool
    ) -> Tensor:
        """What ``rounded`` returns, a new tensor. On which side of the bounds x lies is saved, a byte for each number.

        A trace records operations alone, so there, and on other devices than the CPU, x is saved instead.
        """
        ctx.has_mask = x.is_cpu and x.dtype == torch.float32 and not is_tracing()
        ctx.save_for_backward(torch.from_numpy(clip_mask(_flat(x.detach()), bound, signed)) if ctx.has_mask else x)
        ctx.bound, ctx.signed, ctx.alpha_like = bound, signed, alpha.detach()
        return rounded()

    @staticmethod
    @first_derivative
    def backward(ctx: Any, gradient: Tensor) -> Any:
        """The gradients for x and for α."""
        (x,), alpha = ctx.saved_tensors, ctx.alpha_like
        if ctx.has_mask:
            passed, total = clip_backward(x.numpy(), _flat(gradient))
            for_x, for_alpha = torch.from_numpy(passed).reshape(gradient.shape), alpha.new_full(alpha.shape, total)
        else:
            inside, above, below = clip_sides(x, ctx.bound, ctx.signed)
            # few numbers lie outside: selecting them is faster than a sum over all
            sums = (gradient[side].sum(dtype=torch.float64) for side in (above, below))
            for_x = gradient.masked_fill(~inside, 0)
            for_alpha = (next(sums) - next(sums)).to(alpha.dtype).reshape(alpha.shape)
        return for_x, for_alpha, None, None, None


def _flat(x: Tensor) -> np.ndarray:
    return x.resolve_neg().contiguous().reshape(-1).numpy()


def _by_statistics(x: Tensor, op: QuantizedOp, bits: int) -> Tensor:
    """Round under SAWB's clip, which is computed from each input."""
    values = op.round_by(rounder_without_clip(bits), "activation", x)
    needs_gradient = torch.is_grad_enabled() and x.requires_grad
    return StraightThrough.apply(x, lambda _: values) if needs_gradient else values


@cache
def rounder_without_clip(bits: int) -> TensorRounder:
    """The rounder of activations that belong to no layer with an α."""
    return rounder_of(QuantSpec(quantizer=quantizer_without_clip(bits)))


def quantizer_without_clip(bits: int) -> SAWB:
    """The quantizer of activations that belong to no layer with an α; of 2 bits the levels with zero among them.

    >>> quantizer_without_clip(2).label, quantizer_without_clip(6).label
    ('SAWB 3 levels', 'SAWB 32 levels')
    """
    bits = bits if bits in (2, 3, 4, 5, 7, 8) else 5
    return SAWB(bits, row="ternary" if bits == 2 else None)


def has_clip(op: QuantizedOp, module: nn.Module) -> bool:
    """Whether the op of a module uses the module's α: its own product does, where it has one."""
    return "/" not in op.name and getattr(module, ALPHA, None) is not None
