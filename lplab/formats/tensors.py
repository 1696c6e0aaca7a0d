"""Rounding torch tensors: CPU memory is shared with numpy and the compiled kernels; other devices compute with torch.

This module imports torch; it is imported when the first tensor is passed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from lplab.formats import gpu
from lplab.formats.gradients import StraightThrough
from lplab.formats.inputs import as_rows, check_strided
from lplab.formats.paths import array_kernels, block_rounding, kernel_selection
from lplab.formats.recorded import (
    LIBRARY,
    is_inside,
    is_recorded,
    is_recording,
    is_transforming,
    recorded,
    shape_of_rounded,
)
from lplab.formats.torch_privates import (
    count_dispatch_modes,
    forward_derivative_level,
    open_transform,
    tracing_state,
)

# What is called ``ready`` here is what :func:`lplab.formats.apply.prepare` gives, for the dtype of x.
DEVICE_BLOCK = 2**24  # elements at a time on an accelerator: bounds the memory for intermediate results
_WORKING_DTYPES = torch.float32, torch.float64


@torch.compiler.disable  # torch.compile would drop casts, and it cannot trace the compiled kernels
def quantize(ready: Any, x: torch.Tensor, seed: int, out: Any, axis: int | None) -> torch.Tensor:
    """The work behind ``Format.quantize`` for a tensor; gradients pass straight through."""
    _check_out(x, out)
    if _is_watched(x):
        return _without_memory(ready, x, seed, axis, None, out)
    if x.requires_grad and torch.is_grad_enabled():
        if out is not None:
            raise ValueError("out cannot be combined with a tensor that requires a gradient; use x.detach()")
        return StraightThrough.apply(x, lambda values: _quantize(ready, values, seed, None, axis))
    return _quantize(ready, x.detach(), seed, out, axis)


def _is_watched(x: torch.Tensor) -> bool:
    """Whether a tool of PyTorch records or transforms what is computed with x: what loops write into memory is lost.

    This is asked in each call, so that functions which decide it exactly are called only where it may be so.
    """
    may_be = tracing_state() is not None or count_dispatch_modes() > 0
    may_be = may_be or open_transform() is not None or forward_derivative_level() >= 0
    may_be = may_be or x.is_meta or type(x) is not torch.Tensor
    return may_be and (is_recorded(x) or is_transforming())


def straight_through(
    ready: Any, x: torch.Tensor, seed: int, axis: int | None, limits: tuple[float, float] | None
) -> torch.Tensor:
    """Round; gradients pass straight through, or only within ``limits``."""
    if _is_watched(x):
        return _without_memory(ready, x, seed, axis, limits)
    inside = None if limits is None else is_inside(x.detach(), limits)
    return StraightThrough.apply(x, lambda values: _quantize(ready, values, seed, None, axis), inside)


class TransformedRounding(torch.autograd.Function):
    """Rounding under ``torch.func`` and forward-mode differentiation, in the form that these ask for: it is slower."""

    @staticmethod
    def forward(
        x: torch.Tensor, ready: Any, seed: int, axis: int | None, limits: tuple[float, float] | None
    ) -> torch.Tensor:
        """Round."""
        if is_recorded(x):
            return _recorded(ready, x, seed, axis, None)
        return _quantize(ready, x.detach(), seed, None, axis)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
        """Keep x, where the gradient depends on it."""
        ctx.limits = inputs[4]
        if ctx.limits is not None:
            ctx.save_for_backward(inputs[0])
            ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        """The gradient itself, or zero outside the range."""
        return TransformedRounding.jvp(ctx, gradient), None, None, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, *rest: Any) -> torch.Tensor:
        """The forward-mode derivative: as the gradient."""
        if ctx.limits is not None:
            return tangent * is_inside(ctx.saved_tensors[0], ctx.limits)
        return tangent.view_as(tangent)

    @staticmethod
    def vmap(info: Any, in_dims: tuple, x: torch.Tensor, ready: Any, *rest: Any) -> tuple[torch.Tensor, int]:
        """Round each example of a batch as if it were alone: its blocks are its own, its random bits begin anew."""
        batch = x.movedim(in_dims[0], 0)
        if (ready.block_size == 1 and not ready.rounding.is_stochastic) or not len(batch):
            return TransformedRounding.apply(batch, ready, *rest), 0
        return torch.stack([TransformedRounding.apply(each, ready, *rest) for each in batch]), 0


# For torch.compile a rounding is one operator: it keeps its graph, and looks neither into loops nor into kernels.
LIBRARY.define("quantize(Tensor x, int number, str mode, int random_bits, str variant, int seed, int? axis) -> Tensor")


def _operator(
    x: torch.Tensor, number: int, mode: str, random_bits: int, variant: str, seed: int, axis: int | None
) -> torch.Tensor:
    roundings = kernel_selection.ROUNDINGS.get(number)
    if roundings is None:
        raise RuntimeError("the format that a compiled rounding was made for is gone; compile the function again")
    return quantize(roundings[mode, random_bits, variant, x.dtype], x.detach(), seed, None, axis)


def _straight_through(ctx: Any, gradient: torch.Tensor) -> tuple:
    return gradient, None, None, None, None, None, None


def _of_each_example(info: Any, in_dims: tuple, x: torch.Tensor, *how: Any) -> tuple[torch.Tensor, int]:
    batch = x.movedim(in_dims[0], 0)
    return torch.stack([torch.ops.lplab.quantize(each, *how) for each in batch]), 0


LIBRARY.impl("quantize", _operator, "CompositeExplicitAutograd")
torch.library.register_fake("lplab::quantize", lambda x, *how: shape_of_rounded(x), lib=LIBRARY)
torch.library.register_autograd("lplab::quantize", _straight_through, lib=LIBRARY)
torch.library.register_vmap("lplab::quantize", _of_each_example, lib=LIBRARY)


def _without_memory(
    ready: Any,
    x: torch.Tensor,
    seed: int,
    axis: int | None,
    limits: tuple[float, float] | None,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Round what a tool of PyTorch records or transforms: other tensors may take its place later."""
    if out is not None:
        raise ValueError("out cannot be used while PyTorch records or transforms functions; assign the result")
    if is_transforming():
        return TransformedRounding.apply(x, ready, seed, axis, limits)
    return _recorded(ready, x, seed, axis, limits)


def _recorded(
    ready: Any, x: torch.Tensor, seed: int, axis: int | None, limits: tuple[float, float] | None
) -> torch.Tensor:
    """Round by a call that PyTorch records."""
    if ready.rounding.is_stochastic and is_recording():
        raise NotImplementedError(
            "a trace would repeat the random bits of one call of quantize in all later ones: trace with a rounding "
            "that is not stochastic, or round outside of what is traced"
        )
    return recorded(lambda x, scale: _quantize(ready, x, seed, None, axis), (ready, seed, axis), x, limits=limits)


def _quantize(ready: Any, x: torch.Tensor, seed: int, out: torch.Tensor | None, axis: int | None) -> torch.Tensor:
    plain = x.layout is torch.strided and not x.is_nested and x.is_contiguous() and not x.is_neg()
    if plain and x.is_cpu and x.dtype in _WORKING_DTYPES:
        block = ready.block_size
        whole = block == 1 or (x.ndim > 0 and axis in (-1, x.ndim - 1) and x.shape[-1] % block == 0)
        disjoint = out is None or (out.is_contiguous() and not out.is_neg() and not _overlap(out, x))
        if whole and disjoint:
            target = torch.empty_like(x, memory_format=torch.contiguous_format) if out is None else out
            if ready.round_at(x.data_ptr(), target.data_ptr(), x.numel(), seed):
                return target
            if kernel_selection.available() and block == 1:  # no loop yet; to ask again counts twice
                flat, result = (each.detach().reshape(-1).numpy() for each in (x, target))
                array_kernels.quantize_into(np, flat, result, ready.spec, ready.rounding, seed)
                return target
    check_strided(x)
    work = torch.float64 if x.dtype == torch.float64 else torch.float32
    x = x.resolve_neg()  # views such as z.conj().imag have a sign flag that is not in memory
    if gpu.serves(x.device):
        from lplab.formats.gpu import dispatch

        source = x.contiguous()
        target = _target(out, source)
        if dispatch.quantize(ready.spec, ready.rounding, source, target, seed, axis):
            return _deliver(target, out)
    if ready.block_size > 1:
        rows, undo = as_rows(torch, x.to(work), axis)
        rows = rows.contiguous()
        in_order = axis in (None, -1, x.ndim - 1)
        target = _target(out if in_order else None, rows)
        _run_rows(ready, rows, target, seed)
        result = undo(target)
    else:
        flat = x.to(work).contiguous().reshape(-1)
        target = _target(out, flat)
        _run(ready, flat, target, seed)
        result = target.reshape(x.shape)
    return result.to(x.dtype) if out is None else _deliver(result, out)


def _deliver(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, in ``out`` if there is one."""
    if out is None or result.data_ptr() == out.data_ptr():
        return result if out is None else out
    with torch.no_grad():
        return out.copy_(result)


def _target(out: torch.Tensor | None, x: torch.Tensor) -> torch.Tensor:
    """Where the result for contiguous x goes: straight into ``out`` if its memory allows, else into new memory."""
    fits = out is not None and out.dtype == x.dtype and out.is_contiguous() and not out.is_neg()
    if out is not None and fits and (out.data_ptr() == x.data_ptr() or not _overlap(out, x)):
        return out.detach().reshape(x.shape)
    return torch.empty_like(x)


def _run(ready: Any, x: torch.Tensor, out: torch.Tensor, seed: int) -> None:
    if x.is_cpu and kernel_selection.available():
        ready(x.numpy(), out.numpy(), seed)
    else:
        array_kernels.quantize_into(torch, x, out, ready.spec, ready.rounding, seed, None if x.is_cpu else DEVICE_BLOCK)


def _run_rows(ready: Any, rows: torch.Tensor, out: torch.Tensor, seed: int) -> None:
    if rows.device.type == "cpu" and kernel_selection.available():
        ready(rows.numpy(), out.numpy(), seed)
    else:
        out.copy_(block_rounding.quantize(torch, rows, ready.spec, ready.rounding, seed))


def _overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two contiguous tensors share memory."""
    start_a, start_b = a.data_ptr(), b.data_ptr()
    return start_a < start_b + b.numel() * b.element_size() and start_b < start_a + a.numel() * a.element_size()


def _check_out(x: torch.Tensor, out: Any) -> None:
    if out is None:
        return
    if not isinstance(out, torch.Tensor) or out.shape != x.shape or out.dtype != x.dtype or out.device != x.device:
        raise ValueError(f"out must be a torch tensor like x: shape {tuple(x.shape)}, {x.dtype}, on {x.device}")
    if out.requires_grad and torch.is_grad_enabled():
        raise ValueError("out must not require a gradient; use out.detach()")
