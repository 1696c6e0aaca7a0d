"""What users pass (numbers, lists, numpy arrays, torch tensors) as arrays to compute with, and back again.

Every quantizer opens its input here, computes in float32 or float64 with the operations that numpy and torch share, and
closes the result into the kind, dtype and device that came in. A tensor on the CPU shares its memory with numpy, and
numpy computes: so both have the same bits. Tensors elsewhere are computed by torch where they are. torch is never
imported for the question.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from lplab.formats import engine

F = TypeVar("F", bound=Callable[..., Any])


class Opened(NamedTuple):
    """An input, ready to compute with."""

    xp: Any  # numpy or torch
    x: Any  # float32 or float64, without gradient
    close: Callable[[Any], Any]  # a result of the same shape → the kind and dtype of the input


def open_input(x: Any) -> Opened:
    """Open a number, list, numpy array or torch tensor of floats.

    Half precision is computed in float32, Python numbers and lists in float64.

    Raises:
        TypeError: another type, or integers; the message says what is allowed.

    >>> xp, x, close = open_input(np.array([1, 2], np.float16))
    >>> x.dtype, close(x * 2)
    (dtype('float32'), array([2., 4.], dtype=float16))
    """
    if engine.is_torch(x):
        torch = sys.modules["torch"]
        work = getattr(torch, engine.working_dtype(str(x.dtype).removeprefix("torch.")))
        tensor = x.detach().resolve_neg().to(work)
        if not shares_memory(tensor):
            return Opened(torch, tensor, lambda result: result.to(x.dtype))
        return Opened(np, tensor.numpy(), lambda result: torch.from_numpy(np.asarray(result)).to(x.dtype))
    if isinstance(x, np.ndarray | np.generic):
        array, native = np.asarray(x), x.dtype.newbyteorder("=")
        scalar = isinstance(x, np.generic)
        array = array.astype(engine.working_dtype(x.dtype.name), copy=False)
        return Opened(np, array, lambda result: _narrow(result, native)[() if scalar else ...])
    array = engine.as_float_array(x)
    return Opened(np, array, float if array.ndim == 0 else lambda result: result)


def like(x: Any, result: Any) -> Any:
    """An array in the kind of x, with the dtype that it has."""
    return sys.modules["torch"].as_tensor(result) if engine.is_torch(x) else result


def shares_memory(tensor: Any) -> bool:
    """Whether a tensor lies where numpy can see it. The tests deny it, to reach the path of other devices."""
    return tensor.device.type == "cpu"


def eager(function: F) -> F:
    """Keep ``torch.compile`` from looking inside: it would translate numpy into operations that round otherwise."""

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if sys.modules.get("torch") is None:
            return function(*args, **kwargs)
        from lplab.quantizers import autograd

        return autograd.outside_of_graphs(function, *args, **kwargs)

    return cast(F, wrapper)


def _narrow(result: Any, dtype: np.dtype) -> np.ndarray:
    with np.errstate(over="ignore"):  # what float16 cannot hold becomes infinity, as a cast does
        return np.asarray(result).astype(dtype, copy=False)


def host(x: Any) -> np.ndarray:
    """An opened array as numpy: the same memory on the CPU, a copy from another device."""
    return x if isinstance(x, np.ndarray) else x.cpu().numpy()


def wants_gradient(x: Any) -> bool:
    """Whether x is a torch tensor through which a gradient is to flow."""
    return engine.is_torch(x) and x.requires_grad and sys.modules["torch"].is_grad_enabled()


def straight_through(x: Any, values: Any, inside: Any = None) -> Any:
    """Values in the forward pass; in the backward pass the gradient of x as if nothing had happened.

    Args:
        x: what was quantized; only where it is a torch tensor that wants a gradient anything happens here.
        values: what it became.
        inside: a function without arguments that gives a bool array or tensor: let the gradient through there alone.
    """
    if not wants_gradient(x):
        return values
    from lplab.quantizers import autograd

    mask = None if inside is None else like(x, inside())
    return autograd.StraightThrough.apply(x, values, mask)


def as_rows(x: Any, axis: int | None) -> Any:
    """X as [channels, elements]: one row for everything, or a row for each index along ``axis``.

    Raises:
        ValueError: x has no such axis.

    >>> as_rows(np.zeros((2, 3, 4)), None).shape, as_rows(np.zeros((2, 3, 4)), 1).shape
    ((1, 24), (3, 8))
    """
    if axis is None:
        return x.reshape(1, -1)
    if not -x.ndim <= axis < x.ndim:
        allowed = f"from {-x.ndim} to {x.ndim - 1}" if x.ndim else "None"
        raise ValueError(f"axis must be {allowed} for a tensor of {x.ndim} dimensions, got {axis}")
    moved = np.moveaxis(x, axis, 0) if isinstance(x, np.ndarray) else x.movedim(axis, 0)
    return moved.reshape(moved.shape[0], -1) if x.shape[axis] and _size(x) else moved.reshape(moved.shape[0], 0)


def along(scale: Any, x: Any, axis: int | None) -> Any:
    """Numbers for channels in the shape that multiplies x along ``axis``."""
    if axis is None:
        return scale.reshape(())
    shape = [1] * x.ndim
    shape[axis] = -1 if scale.shape[0] else 0
    return scale.reshape(shape)


def _size(x: Any) -> int:
    return x.size if isinstance(x, np.ndarray) else x.numel()


def largest(xp: Any, rows: Any) -> Any:
    """The largest magnitude of each row, NaN where a row holds NaN and 0 where it is empty."""
    if rows.shape[1] == 0:
        return rows.sum(1)
    if xp is np:
        return np.maximum(rows.max(1), -rows.min(1))
    low, high = xp.aminmax(rows, dim=1) if rows.shape[0] > 1 else (end.reshape(1) for end in xp.aminmax(rows))
    return xp.maximum(high, -low)


def largest_finite(xp: Any, rows: Any) -> Any:
    """The largest finite magnitude of each row, 0 where there is none."""
    top = largest(xp, rows)
    if bool(xp.isfinite(top).all()):
        return top
    return largest(xp, xp.where(xp.isfinite(rows), rows, xp.zeros_like(rows)))
