"""Codes: which bits stand for a value. Rounding first, then arithmetic or a search in float64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lplab.formats import arrays, blocks, engine
from lplab.formats.blocks import BlockCodes
from lplab.formats.counter import draws, keys, seed_number
from lplab.formats.rounding import Rounding, as_rounding

if TYPE_CHECKING:
    from lplab.formats.base import Format
    from lplab.formats.block import BlockFormat


def code_dtype(bits: int) -> np.dtype:
    """The smallest unsigned integer type for codes.

    >>> code_dtype(8), code_dtype(19)
    (dtype('uint8'), dtype('uint32'))
    """
    return np.dtype(next(f"uint{width}" for width in (8, 16, 32, 64) if bits <= width))


def encode(fmt: Format, x: Any, rounding: str | Rounding, seed: Any) -> Any:
    """The work behind ``Format.encode``: see there."""
    if engine.is_torch(x):
        codes = encode(fmt, _from_torch(x), rounding, seed)
        return _codes_to_torch(codes, fmt.bits, x.device)
    is_number = not isinstance(x, np.ndarray | np.generic | list | tuple)
    array = np.asarray(x) if isinstance(x, np.ndarray | np.generic) else engine.as_float_array(x)
    values = fmt.quantize(_exact(array, fmt), rounding, seed).astype(np.float64)
    if not fmt.has_nan and np.isnan(values).any():
        raise ValueError(f"{fmt.label} has no code for NaN, and {int(np.isnan(values).sum())} elements are NaN")
    with np.errstate(invalid="ignore"):
        codes = fmt.codes_of(values)
    return int(codes) if is_number else codes.astype(code_dtype(fmt.bits))


def _exact(x: np.ndarray, fmt: Format) -> np.ndarray:
    """Float64, which holds all values of all formats; but x as it is if the format divides by a scale in its type."""
    work = np.ascontiguousarray(x, dtype=engine.working_dtype(x.dtype.name)).reshape(x.shape)
    if getattr(fmt.plan, "step", 1.0) != 1:
        return work
    return arrays.widen(np, work.reshape(-1)).reshape(x.shape)


def decode(fmt: Format, codes: Any) -> Any:
    """The work behind ``Format.decode``: see there."""
    if engine.is_torch(codes):
        import torch

        return torch.from_numpy(decode(fmt, codes.detach().cpu().numpy())).to(codes.device)
    array = np.asarray(codes)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"codes must be integers, got {array.dtype}")
    array = array.astype(np.int64)
    if array.size and not 0 <= array.min() <= array.max() < 2**fmt.bits:
        raise ValueError(
            f"codes of {fmt.label} must be from 0 to {2**fmt.bits - 1}, got {array.min()} to {array.max()}"
        )
    values = fmt.values_of(array)
    return float(values) if isinstance(codes, int) else values


def encode_blocks(fmt: BlockFormat, x: Any, rounding: str | Rounding, seed: Any, axis: int) -> BlockCodes:
    """The work behind ``BlockFormat.encode``: see there."""
    if engine.is_torch(x):
        codes = encode_blocks(fmt, _from_torch(x), rounding, seed, axis)
        elements = _codes_to_torch(codes.elements, fmt.element.bits, x.device)
        return BlockCodes(elements, _codes_to_torch(codes.scales, fmt._scale.bits, x.device), codes.tensor_scale)
    rounding = as_rounding(rounding)
    array = np.asarray(x) if isinstance(x, np.ndarray) else engine.as_float_array(x)
    work = array.astype(engine.working_dtype(array.dtype.name))
    rows, undo = engine.as_rows(np, work, axis)
    plan = fmt.plan
    split = blocks.in_blocks(np, np.ascontiguousarray(rows), plan.size)
    scaled, factors = blocks.scaled_blocks(np, split, plan)
    random = None
    if rounding.is_stochastic:
        random = draws(np, keys(seed_number(seed)), 0, split.size, rounding.random_bits)
    bad = np.isnan(scaled).any(-1)
    if bad.any() and not (plan.scale is None or fmt.element.has_nan):
        raise ValueError(f"{fmt.label} has no code for NaN or infinity, and {int(bad.sum())} blocks hold one")
    elements = arrays.quantize(
        np, np.where(bad[..., None], 0.0, scaled).astype(scaled.dtype).reshape(-1), plan.element, rounding, random
    )
    element_codes = fmt.element.codes_of(elements.astype(np.float64)).astype(code_dtype(fmt.element.bits))
    element_codes = element_codes.reshape(rows.shape[0], -1)[:, : rows.shape[1]]
    scales = fmt._scale.codes_of(np.where(bad, np.nan, factors[0][..., 0].astype(np.float64)))
    scales = _like_axis(scales.astype(code_dtype(fmt._scale.bits)), array, axis)
    return BlockCodes(undo(element_codes), scales, float(factors[1]) if plan.scale is not None else 1.0)


def decode_blocks(fmt: BlockFormat, codes: BlockCodes, axis: int) -> Any:
    """The work behind ``BlockFormat.decode``: see there."""
    if engine.is_torch(codes.elements):
        import torch

        host_codes = BlockCodes(codes.elements.cpu().numpy(), codes.scales.cpu().numpy(), codes.tensor_scale)
        return torch.from_numpy(decode_blocks(fmt, host_codes, axis)).to(codes.elements.device)
    rows, undo = engine.as_rows(np, np.asarray(codes.elements), axis)
    scale_rows, _ = engine.as_rows(np, np.asarray(codes.scales), axis)
    scales = np.repeat(fmt._scale.decode(scale_rows), fmt.block_size, axis=1)[:, : rows.shape[1]]
    values = fmt.element.decode(rows) * scales
    if fmt.tensor_scale:  # the product with the tensor's scale is a float32 operation
        values = (values.astype(np.float32) * np.float32(codes.tensor_scale)).astype(np.float64)
    return undo(values)


def _like_axis(scales: np.ndarray, x: np.ndarray, axis: int) -> np.ndarray:
    """[rows, blocks] in the shape of x, with the blocks along ``axis``."""
    shape = np.moveaxis(x if x.ndim else x.reshape(1), axis, -1).shape[:-1]
    return np.moveaxis(scales.reshape(*shape, scales.shape[-1]), -1, axis)


def _from_torch(x: Any) -> np.ndarray:
    engine.working_dtype(str(x.dtype).removeprefix("torch."))
    x = x.detach().cpu().resolve_neg()
    return (x.float() if x.element_size() == 2 else x).numpy()


def _codes_to_torch(codes: Any, bits: int, device: Any) -> Any:
    import torch

    dtype = np.uint8 if bits <= 8 else np.int32 if bits <= 31 else np.int64
    return torch.from_numpy(np.asarray(codes).astype(dtype)).to(device)
