"""From what users pass (numbers, lists, numpy arrays, torch tensors) to contiguous memory and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.formats.counter_rng import seed_to_int
from lplab.formats.inputs import as_float_array, as_rows, is_torch, working_dtype
from lplab.formats.paths.contiguous import round_flat, round_rows
from lplab.formats.rounding import Rounding
from lplab.formats.rounding_spec import BlockSpec, RoundingSpec


def quantize(
    spec: RoundingSpec, x: Any, rounding: Rounding, seed: Any = None, out: Any = None, axis: int | None = None
) -> Any:
    """The work behind ``Format.quantize``: see there."""
    number = seed_to_int(seed) if rounding.is_stochastic else 0
    if is_torch(x):
        from lplab.formats import tensors

        return tensors.quantize(spec, x, rounding, number, out, axis)
    if isinstance(x, np.ndarray):
        return _quantize_array(spec, x, rounding, number, out, axis)
    if out is not None:
        raise ValueError("out is for numpy arrays and torch tensors; a number or a list gives a new result")
    if isinstance(x, np.generic):
        return _quantize_array(spec, np.asarray(x), rounding, number, None, axis)[()]
    array = as_float_array(x)
    result = _quantize_array(spec, array, rounding, number, None, axis)
    return float(result) if array.ndim == 0 else result


def _quantize_array(
    spec: RoundingSpec, x: np.ndarray, rounding: Rounding, seed: int, out: Any, axis: int | None
) -> np.ndarray:
    work = np.dtype(working_dtype(x.dtype.name))
    _check_out(x, out)
    if isinstance(spec, BlockSpec):
        rows, undo = as_rows(np, x, axis)
        rows = np.ascontiguousarray(rows, dtype=work)
        in_order = axis in (None, -1, x.ndim - 1)
        target = _target(out if in_order else None, rows)
        round_rows(rows, target, spec, rounding, seed)
        return _deliver(undo(target), x, out)
    flat = np.ascontiguousarray(x, dtype=work).reshape(-1)
    target = _target(out, flat)
    round_flat(flat, target, spec, rounding, seed)
    return _deliver(target.reshape(x.shape), x, out)


def _check_out(x: np.ndarray, out: Any) -> None:
    if out is None:
        return
    if not isinstance(out, np.ndarray) or out.shape != x.shape or out.dtype != x.dtype:
        what = f"{out.dtype} array of shape {out.shape}" if isinstance(out, np.ndarray) else type(out).__name__
        raise ValueError(f"out must be a numpy array of shape {x.shape} and dtype {x.dtype}, like x; got a {what}")


def _target(out: np.ndarray | None, x: np.ndarray) -> np.ndarray:
    """Where the result for contiguous x goes: straight into ``out`` if its memory allows, else into new memory."""
    if out is not None and out.dtype == x.dtype and out.flags.c_contiguous and out.flags.writeable:
        same_place = out.ctypes.data == x.ctypes.data
        if same_place or not np.may_share_memory(out, x):
            return out.reshape(x.shape)
    return np.empty_like(x)


def _deliver(result: np.ndarray, x: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    """The result in the dtype of x, in ``out`` if there is one."""
    if out is None:
        with np.errstate(over="ignore"):
            return result.astype(x.dtype.newbyteorder("="), copy=False)
    if not np.may_share_memory(out, result):
        with np.errstate(over="ignore"):
            out[...] = result
    return out
