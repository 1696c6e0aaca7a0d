"""Products and sums of torch tensors: CPU tensors share memory with the numpy kernels; other devices compute in torch.

This module imports torch, so other modules import it inside the functions that have received a tensor.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from lplab.arithmetic import array_kernels, gemm
from lplab.arithmetic.accumulator import Accumulator
from lplab.formats import Rounding, inputs
from lplab.formats.recorded import check_not_traced


@torch.compiler.disable  # torch.compile would drop casts and cannot trace the kernels
def matmul(a: Any, b: Any, operands: Any, how: tuple[Any, ...]) -> torch.Tensor:
    """:func:`lplab.arithmetic.matmul` for tensors."""
    accumulator, seed, threads = gemm.resolve_arguments(*how)
    check_not_traced("lplab.arithmetic")
    for x in (a, b):
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"cannot multiply a torch tensor and {type(x).__name__}; both must be torch tensors")
        inputs.tensor_dtype(x)
    if a.device != b.device:
        raise ValueError(f"operands must be on one device, got {a.device} and {b.device}")
    a, b = gemm.round_operands(a, b, operands)
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
        """gradient @ bᵀ and aᵀ @ gradient; torch sums over broadcast batch dimensions."""
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
    left, right, batch, shape = gemm.layout(tuple(a.shape), tuple(b.shape))
    work_a, work_b = (_in_working_type(x) for x in (a.reshape(left), b.reshape(right)))
    if device.type == "cpu":
        result = gemm.matmul_arrays(work_a.numpy(), work_b.numpy(), accumulator, seed, threads)
        return torch.from_numpy(result).to(dtype).reshape(shape)
    gemm.check_size(shape, accumulator)
    if torch.float64 in (work_a.dtype, work_b.dtype):
        gemm.check_products(work_a.cpu().numpy(), work_b.cpu().numpy())
    left_stack, right_stack = (_stacked(gemm.as_float64(torch, x), batch) for x in (work_a, work_b))
    return array_kernels.matmul(torch, left_stack, right_stack, accumulator, seed).to(dtype).reshape(shape)


def _stacked(x: torch.Tensor, batch: tuple[int, ...]) -> torch.Tensor:
    return x.expand(*batch, *x.shape[-2:]).reshape(math.prod(batch), *x.shape[-2:])


def _in_working_type(x: torch.Tensor) -> torch.Tensor:
    """Half precision as float32; the negative bit of views is resolved."""
    return x.detach().resolve_neg().to(torch.float64 if x.dtype == torch.float64 else torch.float32)


def sum_of(lines: torch.Tensor, work: Any, fmt: Any, rounding: Rounding, seed: int) -> torch.Tensor:
    """Sum [length, sums] over the first axis by a function of :mod:`~lplab.arithmetic.compensated_sum`; no gradient."""
    check_not_traced("lplab.arithmetic")
    inputs.tensor_dtype(lines)
    if lines.requires_grad and torch.is_grad_enabled():
        raise ValueError("pairwise_sum and kahan_sum have no gradient; use x.detach()")
    wide = gemm.as_float64(torch, lines)
    if lines.dtype == torch.float64:
        gemm.check_products(wide.cpu().numpy(), np.ones(1))
    if lines.device.type == "cpu":
        with np.errstate(all="ignore"):
            return torch.from_numpy(work(np, wide.numpy(), fmt, rounding, seed)).to(lines.dtype)
    return work(torch, wide, fmt, rounding, seed).to(lines.dtype)
