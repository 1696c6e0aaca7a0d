"""Products and sums of torch tensors: CPU tensors share memory with the numpy kernels; other devices compute in torch.

This module imports torch, so other modules import it inside the functions that have received a tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from lplab.arithmetic import gemm
from lplab.arithmetic.accumulator import Accumulator
from lplab.formats import gpu, inputs
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
        return AccumulatedProduct.apply(a, b, accumulator, seed, threads)
    return _matmul(a.detach(), b.detach(), accumulator, seed, threads)


class AccumulatedProduct(torch.autograd.Function):
    """A product whose gradients are two more products with the same accumulator."""

    @staticmethod
    def forward(
        ctx: Any, a: torch.Tensor, b: torch.Tensor, accumulator: Accumulator, seed: int, threads: int | None
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


def _matmul(a: torch.Tensor, b: torch.Tensor, accumulator: Accumulator, seed: int, threads: int | None) -> torch.Tensor:
    dtype = torch.promote_types(a.dtype, b.dtype)
    a, b = _in_working_type(a), _in_working_type(b)
    if a.device.type == "cpu" and not gpu.serves(a.device):
        result = torch.from_numpy(gemm.matmul_arrays(np, a.numpy(), b.numpy(), accumulator, seed, threads))
    else:
        result = gemm.matmul_arrays(torch, a, b, accumulator, seed, threads)
    return result.to(dtype)


def _in_working_type(x: torch.Tensor) -> torch.Tensor:
    """Half precision as float32; the negative bit of views is resolved."""
    return x.detach().resolve_neg().to(torch.float64 if x.dtype == torch.float64 else torch.float32)


def sum_of(lines: torch.Tensor, work: Callable[[Any, Any], Any]) -> torch.Tensor:
    """The sums of [length, sums] over the first axis, without a gradient.

    Args:
        lines: any float type.
        work: (numpy or torch, float64 [length, sums]) → float64 [sums].
    """
    check_not_traced("lplab.arithmetic")
    inputs.tensor_dtype(lines)
    if lines.requires_grad and torch.is_grad_enabled():
        raise ValueError("pairwise_sum and kahan_sum have no gradient; use x.detach()")
    if lines.device.type == "cpu":
        return torch.from_numpy(work(np, _in_working_type(lines).numpy())).to(lines.dtype)
    return work(torch, lines).to(lines.dtype)
