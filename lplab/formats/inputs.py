"""What can be rounded: which kinds of input and which dtypes, and arrays as rows along an axis."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

ALLOWED = (
    "numpy arrays and torch tensors of float16, bfloat16, float32 or float64, Python ints and floats and lists of them"
)
_HALVES = ("float16", "bfloat16")


def is_torch(x: Any) -> bool:
    """Whether x is a torch tensor; decided without importing torch, also while another thread is importing it."""
    return isinstance(x, getattr(sys.modules.get("torch"), "Tensor", ()))


def as_float_array(x: Any) -> np.ndarray:
    """A Python number or a (nested) list of numbers as float64, ready to be rounded once.

    A list may also hold numpy's numbers and arrays. Integers that float64 does not hold are rounded to odd: rounding
    the result to a format of up to 51 significant bits gives what rounding the integer itself gives.

    Raises:
        TypeError: something else, with what is allowed. ValueError: the lists of a level differ in length.

    >>> as_float_array([2**53 + 1, 0.5]).tolist() == [2.0**53 + 2, 0.5]
    True
    """
    if isinstance(x, bool) or not isinstance(x, int | float | list | tuple):
        convert = "; convert it with numpy.asarray" if hasattr(x, "__array__") else ""
        if type(x).__name__ == "Proxy":  # of torch.fx
            convert = "; pass the function that calls quantize to torch.fx.wrap"
        raise TypeError(f"cannot quantize {type(x).__name__}; allowed: {ALLOWED}{convert}")
    for part in x if isinstance(x, list | tuple) and np.ma.MaskedArray in set(map(type, x)) else ():
        plain_array(part)
    numbers = np.asarray(x, dtype=object)
    flat = numbers.ravel().tolist()
    kinds = set(map(type, flat))
    tensor = getattr(sys.modules.get("torch"), "Tensor", ())  # missing while another thread is importing torch
    if any(issubclass(kind, tensor) for kind in kinds):
        flat = [number.item() if is_torch(number) else number for number in flat]
        kinds = set(map(type, flat))
    if kinds & {list, tuple, np.ndarray}:
        raise ValueError("cannot quantize a ragged list; allowed: lists that are as long as the others of their level")
    for kind in kinds:
        if not _is_number(kind):
            raise TypeError(f"cannot quantize a {type(x).__name__} with {kind.__name__}; allowed: {ALLOWED}")
    if any(issubclass(kind, int | np.integer) for kind in kinds):
        flat = [_int_to_odd(int(number)) if isinstance(number, int | np.integer) else number for number in flat]
    return np.array(flat, np.float64).reshape(numbers.shape)


def _is_number(kind: type) -> bool:
    if issubclass(kind, np.generic):
        return issubclass(kind, np.integer) or np.dtype(kind).name in (*_HALVES, "float32", "float64")
    return issubclass(kind, int | float) and kind is not bool


def _int_to_odd(number: int) -> float:
    """An integer as float64: itself, or the one of its two neighbours in float64 whose last bit is 1."""
    size = abs(number)
    surplus = size.bit_length() - sys.float_info.mant_dig
    if surplus <= 0:
        return float(number)
    kept = size >> surplus
    kept |= kept << surplus != size
    largest = sys.float_info  # its last bit is 1
    result = largest.max if size.bit_length() > largest.max_exp else math.ldexp(kept, surplus)
    return -result if number < 0 else result


def plain_array(x: Any) -> np.ndarray:
    """A numpy array, number or array of a subclass as a plain array; TypeError for a masked one, which would be lost.

    >>> plain_array(np.ma.MaskedArray([1.0], mask=[True]))
    Traceback (most recent call last):
    ...
    TypeError: a masked array would lose its mask here; pass x.filled(0) (Format.quantize alone keeps masks)
    """
    if type(x) is not np.ndarray and isinstance(x, np.ma.MaskedArray):
        raise TypeError("a masked array would lose its mask here; pass x.filled(0) (Format.quantize alone keeps masks)")
    return np.asarray(x)


def check_strided(x: Any, what: str = "quantize") -> None:
    """Raise a TypeError for a torch tensor whose numbers do not lie in memory one by one: sparse, nested and others."""
    if x.layout is not sys.modules["torch"].strided or x.is_nested:
        kind = "nested" if x.is_nested else str(x.layout).removeprefix("torch.").lstrip("_")
        how = "to_padded_tensor(0), or .values() of a jagged one" if x.is_nested else "to_dense()"
        raise TypeError(f"cannot {what} a tensor of {kind} layout; allowed: strided tensors; convert it with .{how}")


def tensor_dtype(x: Any) -> str:
    """The name of the dtype in which a torch tensor is computed; TypeError for other dtypes and layouts."""
    check_strided(x)
    return working_dtype(str(x.dtype).removeprefix("torch."))


def working_dtype(name: str) -> str:
    """The dtype in which a dtype is computed: itself, or float32 for half precision; TypeError for all others."""
    if name in ("float32", "float64"):
        return name
    if name in _HALVES:
        return "float32"
    hint = ""
    if name.startswith("q"):
        hint = "; convert quantized tensors with .dequantize()"
    elif "int" in name:
        hint = "; convert integers with .astype(np.float32) or .float(), or pass .tolist(), which is rounded once"
    raise TypeError(f"cannot quantize elements of type {name}; allowed: {ALLOWED}{hint}")


def checked_axis(x: Any, axis: int | None) -> int:
    """The number of an axis of x, from 0 on; None is the last one.

    Raises:
        ValueError: x has no such axis.
    """
    axis, dimensions = -1 if axis is None else axis, max(x.ndim, 1)
    if not -dimensions <= axis < dimensions:
        raise ValueError(f"axis must be from {-dimensions} to {dimensions - 1} for {x.ndim} dimensions, got {axis}")
    return axis % dimensions


def as_rows(xp: Any, x: Any, axis: int | None) -> tuple[Any, Any]:
    """X as [rows, length] with ``axis`` last, and the function that brings a result back into the shape of x.

    Raises:
        ValueError: x has no such axis.
    """
    axis = checked_axis(x, axis)
    wide = x.reshape(1) if x.ndim == 0 else x
    moved = xp.moveaxis(wide, axis, -1)
    rows = moved.reshape(-1, moved.shape[-1]) if moved.shape[-1] else moved.reshape(0, 0)

    def undo(result: Any) -> Any:
        return xp.moveaxis(result.reshape(moved.shape), -1, axis).reshape(x.shape)

    return rows, undo
