"""torch tensors: CPU memory is shared with numpy and the compiled loops; other devices compute with torch.

This module imports torch; nobody imports it before a tensor has come along.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from lplab.arithmetic import products, whole_arrays
from lplab.arithmetic.accumulator import Accumulator
from lplab.formats import Rounding, engine


@torch.compiler.disable  # a compiler may not look inside: it drops casts and cannot see the kernels
def matmul(a: Any, b: Any, operands: Any, how: tuple[Any, ...]) -> torch.Tensor:
    """The work behind :func:`lplab.arithmetic.matmul` for tensors."""
    accumulator, seed, threads = products.settled(*how)
    for x in (a, b):
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"cannot multiply a torch tensor and {type(x).__name__}; both must be torch tensors")
        engine.working_dtype(str(x.dtype).removeprefix("torch."))
    if a.device != b.device:
        raise ValueError(f"operands must be on one device, got {a.device} and {b.device}")
    a, b = products.quantized(a, b, operands)
    if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad):
        return Product.apply(a, b, accumulator, seed, threads)
    return _matmul(a.detach(), b.detach(), accumulator, seed, threads)


class Product(torch.autograd.Function):
    """A product whose gradients are two more products with the same accumulator."""

    @staticmethod
    def forward(
        ctx: Any, a: torch.Tensor, b: torch.Tensor, accumulator: Accumulator, seed: int, threads: int
    ) -> torch.Tensor:
        """a @ b."""
        ctx.save_for_backward(a, b)
        ctx.how = accumulator, seed, threads
        return _matmul(a.detach(), b.detach(), accumulator, seed, threads)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        """gradient @ bᵀ and aᵀ @ gradient; over the batch that was broadcast, torch sums."""
        a, b = ctx.saved_tensors
        accumulator, seed, threads = ctx.how
        left = a if a.ndim > 1 else a[None, :]
        right = b if b.ndim > 1 else b[:, None]
        inner = gradient if a.ndim > 1 else gradient.unsqueeze(-1 if b.ndim == 1 else -2)
        inner = inner if b.ndim > 1 else inner.unsqueeze(-1)
        by_a = by_b = None
        if ctx.needs_input_grad[0]:
            by_a = _matmul(inner, right.mT, accumulator, seed + 1, threads).sum_to_size(left.shape).reshape(a.shape)
        if ctx.needs_input_grad[1]:
            by_b = _matmul(left.mT, inner, accumulator, seed + 2, threads).sum_to_size(right.shape).reshape(b.shape)
        return by_a, by_b, None, None, None


def _matmul(a: torch.Tensor, b: torch.Tensor, accumulator: Accumulator, seed: int, threads: int) -> torch.Tensor:
    dtype, device = torch.promote_types(a.dtype, b.dtype), a.device
    left, right, batch, shape = products.layout(tuple(a.shape), tuple(b.shape))
    work_a, work_b = (_in_working_type(x) for x in (a.reshape(left), b.reshape(right)))
    if device.type == "cpu":
        result = products.matmul_arrays(work_a.numpy(), work_b.numpy(), accumulator, seed, threads)
        return torch.from_numpy(result).to(dtype).reshape(shape)
    products.check_size(shape, accumulator)
    if torch.float64 in (work_a.dtype, work_b.dtype):
        products.check_products(work_a.cpu().numpy(), work_b.cpu().numpy())
    left_stack, right_stack = (_stacked(products.in_double(torch, x), batch) for x in (work_a, work_b))
    return whole_arrays.matmul(torch, left_stack, right_stack, accumulator, seed).to(dtype).reshape(shape)


def _stacked(x: torch.Tensor, batch: tuple[int, ...]) -> torch.Tensor:
    return x.expand(*batch, *x.shape[-2:]).reshape(math.prod(batch), *x.shape[-2:])


def _in_working_type(x: torch.Tensor) -> torch.Tensor:
    """Half precision as float32; views that carry a minus sign in their flags, resolved."""
    return x.detach().resolve_neg().to(torch.float64 if x.dtype == torch.float64 else torch.float32)


def sum_of(lines: torch.Tensor, work: Any, fmt: Any, rounding: Rounding, seed: int) -> torch.Tensor:
    """A careful sum (:mod:`lplab.arithmetic.careful`) of [length, sums] over the first axis; without gradient."""
    engine.working_dtype(str(lines.dtype).removeprefix("torch."))
    if lines.requires_grad and torch.is_grad_enabled():
        raise ValueError("pairwise_sum and kahan_sum have no gradient; use x.detach()")
    wide = products.in_double(torch, lines)
    if lines.dtype == torch.float64:
        products.check_products(wide.cpu().numpy(), np.ones(1))
    if lines.device.type == "cpu":
        with np.errstate(all="ignore"):
            return torch.from_numpy(work(np, wide.numpy(), fmt, rounding, seed)).to(lines.dtype)
    return work(torch, wide, fmt, rounding, seed).to(lines.dtype)
