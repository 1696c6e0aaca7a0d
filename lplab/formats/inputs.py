"""What can be rounded: which kinds of input and which dtypes, and arrays as rows along an axis."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

ALLOWED = "numpy arrays and torch tensors of float16, bfloat16, float32 or float64, Python numbers and lists of them"
_HALVES = ("float16", "bfloat16")


def is_torch(x: Any) -> bool:
    """Whether x is a torch tensor; decided without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def as_float_array(x: Any) -> np.ndarray:
    """A Python number or a list of numbers as float64, or a TypeError that says what is allowed."""
    if isinstance(x, bool) or not isinstance(x, int | float | list | tuple):
        hint = "; torch.fx.wrap hides a function that calls it from a trace" if type(x).__name__ == "Proxy" else ""
        raise TypeError(f"cannot quantize {type(x).__name__}; allowed: {ALLOWED}{hint}")
    array = np.asarray(x)
    if array.dtype.kind not in "fiu" and array.size:
        raise TypeError(f"cannot quantize a {type(x).__name__} of {array.dtype}; allowed: {ALLOWED}")
    return array.astype(np.float64)


def working_dtype(name: str) -> str:
    """The dtype in which a dtype is computed: itself, or float32 for half precision; TypeError for all others."""
    if name in ("float32", "float64"):
        return name
    if name in _HALVES:
        return "float32"
    hint = "; convert integers with .astype(np.float32) or .float()" if "int" in name else ""
    raise TypeError(f"cannot quantize elements of type {name}; allowed: {ALLOWED}{hint}")


def as_rows(xp: Any, x: Any, axis: int | None) -> tuple[Any, Any]:
    """X as [rows, length] with ``axis`` last, and the function that brings a result back into the shape of x.

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
