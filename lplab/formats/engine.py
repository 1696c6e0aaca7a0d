"""From what users pass (numbers, lists, numpy arrays, torch tensors) to contiguous arrays and back.

Here it is decided which path computes: the compiled kernels where numba is installed, else whole-array operations.
The choice never changes a bit of the result. ``LPLAB_NO_NUMBA=1`` switches the kernels off.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from lplab.formats import arrays, blocks, counter, kernels
from lplab.formats.rounding import Rounding

if TYPE_CHECKING:
    from lplab.formats.base import Format
    from lplab.formats.block import BlockFormat

BLOCK = 2**15  # elements a whole-array step works on at a time: they stay in the processor's cache
STRETCH = 2**32  # elements that share a pair of random keys
ALLOWED = "numpy arrays and torch tensors of float16, bfloat16, float32 or float64, Python numbers and lists of them"
_HALVES = ("float16", "bfloat16")


def quantize(
    fmt: Format | BlockFormat, x: Any, rounding: Rounding, seed: Any = None, out: Any = None, axis: int | None = None
) -> Any:
    """The work behind ``Format.quantize``: see there."""
    number = counter.seed_number(seed) if rounding.is_stochastic else 0
    if is_torch(x):
        from lplab.formats import tensors

        return tensors.quantize(fmt, x, rounding, number, out, axis)
    if isinstance(x, np.ndarray):
        return _quantize_array(fmt, x, rounding, number, out, axis)
    if out is not None:
        raise ValueError("out is for numpy arrays and torch tensors; a number or a list gives a new result")
    if isinstance(x, np.generic):
        return _quantize_array(fmt, np.asarray(x), rounding, number, None, axis)[()]
    array = as_float_array(x)
    result = _quantize_array(fmt, array, rounding, number, None, axis)
    return float(result) if array.ndim == 0 else result


def is_torch(x: Any) -> bool:
    """Whether x is a torch tensor; torch is not imported for the question."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def as_float_array(x: Any) -> np.ndarray:
    """A Python number or a list of numbers as float64, or a TypeError that says what is allowed."""
    if isinstance(x, bool) or not isinstance(x, int | float | list | tuple):
        raise TypeError(f"cannot quantize {type(x).__name__}; allowed: {ALLOWED}")
    array = np.asarray(x)
    if array.dtype.kind not in "fiu" and array.size:
        raise TypeError(f"cannot quantize a {type(x).__name__} of {array.dtype}; allowed: {ALLOWED}")
    return array.astype(np.float64)


def working_dtype(name: str) -> str:
    """The type in which a dtype is computed: itself, or float32 for half precision; TypeError for all others."""
    if name in ("float32", "float64"):
        return name
    if name in _HALVES:
        return "float32"
    hint = "; convert integers with .astype(np.float32) or .float()" if "int" in name else ""
    raise TypeError(f"cannot quantize elements of type {name}; allowed: {ALLOWED}{hint}")


def _quantize_array(fmt: Any, x: np.ndarray, rounding: Rounding, seed: int, out: Any, axis: int | None) -> np.ndarray:
    work = np.dtype(working_dtype(x.dtype.name))
    _check_out(x, out)
    if is_blocked(fmt):
        rows, undo = as_rows(np, x, axis)
        rows = np.ascontiguousarray(rows, dtype=work)
        in_order = axis in (None, -1, x.ndim - 1)
        target = _target(out if in_order else None, rows)
        quantize_rows(rows, target, fmt.plan, rounding, seed)
        return _deliver(undo(target), x, out)
    flat = np.ascontiguousarray(x, dtype=work).reshape(-1)
    target = _target(out, flat)
    run(flat, target, fmt.plan, rounding, seed)
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


def is_blocked(fmt: Any) -> bool:
    """Whether numbers share scales in this format."""
    return isinstance(fmt.plan, blocks.BlockPlan)


def as_rows(xp: Any, x: Any, axis: int | None) -> tuple[Any, Any]:
    """X as [rows, length] with ``axis`` last, and the function that puts a result back into place.

    Raises:
        ValueError: x has no such axis.
    """
    axis = -1 if axis is None else axis
    dimensions = max(x.ndim, 1)
    if not -dimensions <= axis < dimensions:
        raise ValueError(f"axis must be from {-dimensions} to {dimensions - 1} for {x.ndim} dimensions, got {axis}")
    wide = x.reshape(1) if x.ndim == 0 else x
    moved = xp.moveaxis(wide, axis, -1)
    rows = moved.reshape(-1, moved.shape[-1]) if moved.shape[-1] else moved.reshape(0, 0)

    def undo(result: Any) -> Any:
        return xp.moveaxis(result.reshape(moved.shape), -1, axis).reshape(x.shape)

    return rows, undo


def run(x: np.ndarray, out: np.ndarray, plan: Any, rounding: Rounding, seed: int) -> None:
    """Round a flat array into another one (or into itself)."""
    for start in range(0, x.size, STRETCH):
        part = slice(start, start + STRETCH)
        key = counter.keys(seed, start // STRETCH)
        if not kernels.quantize(x[part], out[part], plan, rounding, key):
            _run_arrays(x[part], out[part], plan, rounding, key)


def _run_arrays(x: np.ndarray, out: np.ndarray, plan: Any, rounding: Rounding, key: tuple[int, int]) -> None:
    for first in range(0, x.size, BLOCK):
        part = x[first : first + BLOCK]
        draws = counter.draws(np, key, first, part.size, rounding.random_bits) if rounding.is_stochastic else None
        out[first : first + BLOCK] = arrays.quantize(np, part, plan, rounding, draws)


def quantize_rows(rows: np.ndarray, out: np.ndarray, plan: blocks.BlockPlan, rounding: Rounding, seed: int) -> None:
    """Round the blocks of contiguous [rows, length] into another array (or into themselves)."""
    if not kernels.quantize_blocks(rows, out, plan, rounding, seed):
        out[...] = blocks.quantize(np, rows, plan, rounding, seed)
