"""PACT inside a model: activations rounded under a clip α that is trained with the weights of the layer.

This module needs PyTorch.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lplab.formats import IntFormat, Rounding
from lplab.formats.recorded import has_numbers, is_recorded, is_recording, is_tracing
from lplab.quantizers import Percentile, Quantizer, Sawb
from lplab.quantizers.autograd import clamped_value
from lplab.quantizers.reductions import clip_backward, clip_mask
from lplab.training.emulation.prepared_rounding import Prepared, prepared
from lplab.training.emulation.quantized_op import QuantizedOp, StraightThrough, first_derivative
from lplab.training.emulation.rounders import Rounded, Rounder, RounderAt, rounder_at, rounder_of
from lplab.training.emulation.traced_rounding import recorded
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
        return _by_statistics(x, op, min(learned.bits, 8))
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
    if x.requires_grad or alpha.requires_grad:
        values = Clip.apply(x, alpha, bound, learned.bits, signed)
    else:
        values = on_grid(x, bound, learned.bits, signed)
    if op.watch is not None:
        op.watch(op, "activation", x.detach(), Rounded(values.detach(), bound, bound))
    return values


def _begin(x: Tensor, alpha: nn.Parameter, learned: LearnedClip) -> None:
    """Set α by the first input of a layer, unless it was given another value before, as by averaging models."""
    with torch.no_grad():
        if bool(alpha == torch.full_like(alpha, first_clip(learned))):
            alpha.fill_(max(learned.initial or _WHOLE.scale(x) * 127, learned.least))


def on_grid(x: Tensor, alpha: float, bits: int, signed: bool) -> Tensor:
    """The nearest of 2^bits values over 0 … α, or of 2^bits − 1 over −α … α.

    >>> on_grid(torch.tensor([6.6, -1.0]), 7.0, 4, signed=True), on_grid(torch.tensor([-1.0]), 3.0, 2, signed=False)
    (tensor([ 7., -1.]), tensor([0.]))
    """
    steps = 2 ** (bits - 1) - 1 if signed else 2**bits - 1
    ready = prepared(IntFormat(bits, symmetric=signed, signed=signed), Rounding(), step=True)
    if is_recorded(x):
        return recorded(_as_rounder(ready))(x, 0, alpha / steps).values
    return ready(x, scale=alpha / steps)


@cache
def _as_rounder(ready: Prepared) -> Rounder:
    return lambda x, seed, scale: Rounded(ready(x, seed, scale))


class Clip(torch.autograd.Function):
    """PACT as published: the gradient passes below α; above it (and, of signed numbers, below −α) it goes to α."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, alpha: Tensor, bound: float, bits: int, signed: bool) -> Tensor:
        """Round. Save on which side of the bounds each number lies; on other devices than the CPU save x."""
        ctx.has_sides = x.is_cpu and x.dtype == torch.float32 and not is_tracing()
        sides = torch.from_numpy(clip_mask(_flat(x.detach()), bound, signed)) if ctx.has_sides else None
        ctx.save_for_backward(x if sides is None else sides, alpha)
        ctx.bound, ctx.signed = bound, signed
        return on_grid(x.detach(), bound, bits, signed)

    @staticmethod
    @first_derivative
    def backward(ctx: Any, gradient: Tensor) -> Any:
        """For x and for α."""
        x, alpha = ctx.saved_tensors
        if ctx.has_sides:
            passed, total = clip_backward(x.numpy(), _flat(gradient))
            for_x = torch.from_numpy(passed).reshape(gradient.shape)
            return for_x, alpha.new_full(alpha.shape, total), None, None, None
        above, below = x >= ctx.bound, (x <= -ctx.bound if ctx.signed else x < 0)
        for_alpha = gradient[above].sum(
            dtype=torch.float64
        )  # few numbers: selecting them is faster than a sum over all
        if ctx.signed:
            for_alpha -= gradient[below].sum(dtype=torch.float64)
        for_x = gradient.masked_fill(above.logical_or_(below), 0)
        return for_x, for_alpha.to(alpha.dtype).reshape(alpha.shape), None, None, None


def _flat(x: Tensor) -> np.ndarray:
    return x.resolve_neg().contiguous().reshape(-1).numpy()


def _by_statistics(x: Tensor, op: QuantizedOp, bits: int) -> Tensor:
    """Round under SAWB's clip, which is computed from each input."""
    rounder = recorded(_statistics(bits)) if is_recorded(x) else _statistics(bits)
    rounded = rounder(x.detach(), 0, 1.0)
    if op.watch is not None:
        op.watch(op, "activation", x.detach(), rounded)
    return StraightThrough.apply(x, PreRounded(rounded.values), "activation") if x.requires_grad else rounded.values


@cache
def _statistics(bits: int) -> Rounder:
    return rounder_of(QuantSpec(quantizer=quantizer_without_clip(bits)))


@cache
def statistics_at(bits: int) -> RounderAt | None:
    """As :func:`clipped` of a layer that has no α, from one address to another; see ``rounder_at``."""
    return rounder_at(QuantSpec(quantizer=quantizer_without_clip(min(bits, 8))))


def quantizer_without_clip(bits: int) -> Sawb:
    """The quantizer of activations that belong to no layer with an α; of 2 bits the levels with zero among them.

    >>> quantizer_without_clip(2).label, quantizer_without_clip(6).label
    ('SAWB 3 levels', 'SAWB 32 levels')
    """
    bits = bits if bits in (2, 3, 4, 5, 7, 8) else 5
    return Sawb(bits, row="ternary" if bits == 2 else None)


def has_clip(op: QuantizedOp, module: nn.Module) -> bool:
    """Whether the op of a module uses the module's α: its own product does, where it has one."""
    return "/" not in op.name and getattr(module, ALPHA, None) is not None


class PreRounded:
    """Stands for a quantized op whose result is known."""

    def __init__(self, values: Tensor) -> None:
        self.values = values

    def round(self, role: str, x: Tensor) -> Tensor:
        """The rounded values."""
        return self.values
