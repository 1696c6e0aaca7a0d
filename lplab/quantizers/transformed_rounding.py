"""The rounding of a tensor's Hadamard transform: one kernel on a GPU, and one operator for the tools of PyTorch.

This module imports torch; it is imported when the first tensor is transformed and rounded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from lplab.formats import BlockFormat, Rounding, gpu, tensors
from lplab.formats.inputs import check_strided, tensor_dtype
from lplab.formats.paths import kernel_selection
from lplab.formats.recorded import LIBRARY, is_recorded, is_recording, is_transforming
from lplab.formats.rounding_spec import RoundingSpec
from lplab.quantizers import hadamard_arrays


def quantize(transform: Any, x: Tensor, format: Any, rounding: Rounding, seed: int, axis: int) -> Tensor:
    """The work behind ``Hadamard.quantize`` for a tensor."""
    is_compiled = torch.compiler.is_dynamo_compiling()
    fits = isinstance(format, BlockFormat) and format.tile[0] == 1 and -(2**63) <= seed < 2**63
    if not fits or (not is_compiled and (is_transforming() or (rounding.is_stochastic and is_recording()))):
        blocks = {"axis": axis} if isinstance(format, BlockFormat) else {}
        return format.quantize(transform.apply(x, axis), rounding, seed, **blocks)
    roundings, how = format.prepared_roundings, (rounding.mode, rounding.random_bits, rounding.variant)
    if is_compiled or (x.requires_grad and torch.is_grad_enabled()) or is_recorded(x):
        return torch.ops.lplab.quantize_transformed(x, roundings.number, transform.sign_numbers, *how, seed, axis)
    return _round(transform.sign_numbers, roundings, rounding, x, seed, axis)


def _round(signs: tuple[float, ...], roundings: Any, rounding: Rounding, x: Tensor, seed: int, axis: int) -> Tensor:
    """Round without a gradient: in one pass where a kernel serves."""
    found = in_one_pass(signs, roundings.spec, rounding, x.detach(), seed, axis)
    if found is not None:
        return found
    transformed = hadamard_arrays.apply(x.detach(), np.array(signs, np.float32), axis)
    return tensors.quantize(roundings.of(rounding, x.dtype), transformed, seed, None, axis)


def in_one_pass(
    signs: tuple[float, ...],
    spec: RoundingSpec,
    rounding: Rounding,
    x: Tensor,
    seed: int,
    axis: int = -1,
    pre_scale: float = 1.0,
) -> Tensor | None:
    """A tensor without gradient, transformed if there are signs and rounded; None where no kernel serves.

    ``pre_scale`` is the factor of :class:`lplab.quantizers.PreScaled`.
    """
    if not gpu.serves(x.device):
        return None
    from lplab.formats.gpu import dispatch

    tensor_dtype(x)
    check_strided(x)
    # Random bits are numbered row by row of what is transformed, so a transposed matrix needs no copy.
    turned = axis in (-1, x.ndim - 1) and x.ndim > 1 and not x.is_contiguous() and x.mT.is_contiguous()
    source, along = (x.mT, -2) if turned else (x, axis)
    source = source.resolve_neg().contiguous()
    found = dispatch.quantize_transformed(spec, rounding, signs, source, seed, along, pre_scale)
    return found.mT if turned and found is not None else found


LIBRARY.define(
    "quantize_transformed(Tensor x, int number, float[] signs, str mode, int random_bits, str variant, int seed, "
    "int axis) -> Tensor"
)


def _operator(
    x: Tensor, number: int, signs: list[float], mode: str, random_bits: int, variant: str, seed: int, axis: int
) -> Tensor:
    roundings = kernel_selection.ROUNDINGS.get(number)
    if roundings is None:
        raise RuntimeError("the format that a compiled rounding was made for is gone; compile the function again")
    rounded = _round(tuple(signs), roundings, Rounding(mode, random_bits, variant), x, seed, axis)
    return rounded.contiguous()


def _shape_of_result(x: Tensor, number: int, signs: list[float], *how: Any) -> Tensor:
    shape, axis = list(x.shape), how[-1]
    shape[axis] = -(-shape[axis] // len(signs)) * len(signs)
    return x.new_empty(shape)


def _keep(ctx: Any, inputs: tuple, output: Tensor) -> None:
    ctx.signs, ctx.axis = inputs[2], inputs[-1]
    ctx.length = inputs[0].shape[ctx.axis]


def _transformed_back(ctx: Any, gradient: Tensor) -> tuple:
    return (hadamard_arrays.invert(gradient, np.array(ctx.signs, np.float32), ctx.length, ctx.axis), *[None] * 7)


def _of_each_example(info: Any, in_dims: tuple, x: Tensor, *how: Any) -> tuple[Tensor, int]:
    batch = x.movedim(in_dims[0], 0)
    return torch.stack([torch.ops.lplab.quantize_transformed(each, *how) for each in batch]), 0


LIBRARY.impl("quantize_transformed", _operator, "CompositeExplicitAutograd")
torch.library.register_fake("lplab::quantize_transformed", _shape_of_result, lib=LIBRARY)
torch.library.register_autograd("lplab::quantize_transformed", _transformed_back, setup_context=_keep, lib=LIBRARY)
torch.library.register_vmap("lplab::quantize_transformed", _of_each_example, lib=LIBRARY)
