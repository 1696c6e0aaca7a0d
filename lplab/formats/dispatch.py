"""From what users pass (numbers, lists, numpy arrays, torch tensors) to contiguous memory and back.

Which loop rounds is decided once for a format, a rounding and a dtype: :mod:`lplab.formats.paths.prepared`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lplab.formats.counter_rng import seed_to_int
from lplab.formats.inputs import as_float_array, as_rows, is_torch
from lplab.formats.paths.addresses import addresses
from lplab.formats.paths.prepared import PreparedRoundings
from lplab.formats.rounding import Rounding


def quantize(
    roundings: PreparedRoundings, x: Any, rounding: Rounding, seed: Any = None, out: Any = None, axis: int | None = None
) -> Any:
    """The work behind ``Format.quantize``: see there."""
    number = seed_to_int(seed) if rounding.mode == "stochastic" else 0
    if isinstance(x, np.ndarray):
        if type(x) is not np.ndarray:
            if isinstance(x, np.ma.MaskedArray):
                return keep_mask(x, out, lambda plain: _quantize_array(roundings, plain, rounding, number, None, axis))
            x = np.asarray(x)
        return _quantize_array(roundings, x, rounding, number, out, axis)
    if is_torch(x):
        from lplab.formats import tensors

        return tensors.quantize(roundings, x, rounding, number, out, axis)
    if out is not None:
        raise ValueError("out is for numpy arrays and torch tensors; a number or a list gives a new result")
    if isinstance(x, np.generic):
        return _quantize_array(roundings, np.asarray(x), rounding, number, None, axis)[()]
    array = as_float_array(x)
    result = _quantize_array(roundings, array, rounding, number, None, axis)
    return float(result) if array.ndim == 0 else result


def _quantize_array(
    roundings: PreparedRoundings, x: np.ndarray, rounding: Rounding, seed: int, out: Any, axis: int | None
) -> np.ndarray:
    prepared = roundings[rounding.mode, rounding.random_bits, rounding.variant, x.dtype]
    block = prepared.block_size
    whole = block == 1 or (x.ndim > 0 and axis in (-1, x.ndim - 1) and x.shape[-1] % block == 0)
    if whole and x.dtype is prepared.dtype and type(x) is np.ndarray and x.flags.c_contiguous:
        if out is None:
            target = np.empty_like(x)
        else:
            _check_out(x, out)
            target = _target(out, x)
        prepared(x, target, seed)
        return target if out is None else _deliver(target, x, out)
    _check_out(x, out)
    if block == 1:
        source = np.ascontiguousarray(x, dtype=prepared.dtype).reshape(x.shape)
        target = _target(out, source)
        prepared(source, target, seed)
        return _deliver(target, x, out)
    rows, undo = as_rows(np, x, axis)
    rows = np.ascontiguousarray(rows, dtype=prepared.dtype)
    target = _target(out if axis in (None, -1, x.ndim - 1) else None, rows)
    prepared(rows, target, seed)
    return _deliver(undo(target), x, out)


def keep_mask(x: np.ma.MaskedArray, out: Any, quantize: Callable[[np.ndarray], np.ndarray]) -> Any:
    """Round the numbers of a masked array that are not masked; the others stay, and count as 0 in a block.

    Args:
        x: the masked array.
        out: None, or where the result is written.
        quantize: rounds a plain array.
    """
    if x is np.ma.masked:
        return x
    masked = np.ma.getmaskarray(x)
    rounded = quantize(np.where(masked, 0, x.data).astype(x.dtype, copy=False))
    _check_out(x, out)
    result = np.ma.MaskedArray(np.where(masked, x.data, rounded), mask=x.mask.copy(), fill_value=x.fill_value)
    if out is None:
        return result
    out[...] = result
    return out


def _check_out(x: np.ndarray, out: Any) -> None:
    if out is None:
        return
    if not isinstance(out, np.ndarray) or out.shape != x.shape or out.dtype != x.dtype:
        what = f"{out.dtype} array of shape {out.shape}" if isinstance(out, np.ndarray) else type(out).__name__
        raise ValueError(f"out must be a numpy array of shape {x.shape} and dtype {x.dtype}, like x; got a {what}")


def _target(out: np.ndarray | None, x: np.ndarray) -> np.ndarray:
    """Where the result for contiguous x goes: straight into ``out`` if its memory allows, else into new memory."""
    if out is not None and out.dtype == x.dtype and out.flags.c_contiguous and out.flags.writeable:
        at, to = addresses(x, out)
        if at == to or not np.may_share_memory(out, x):
            return out if out.shape == x.shape else out.reshape(x.shape)
    return np.empty_like(x)


def _deliver(result: np.ndarray, x: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    """The result in the dtype of x, in ``out`` if there is one."""
    if out is None:
        with np.errstate(over="ignore"):
            return result.astype(x.dtype.newbyteorder("="), copy=False)
    if out is not result and not np.may_share_memory(out, result):
        with np.errstate(over="ignore"):
            out[...] = result
    return out
