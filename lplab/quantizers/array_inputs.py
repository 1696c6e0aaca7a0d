"""Convert what users pass (numbers, lists, numpy arrays, torch tensors) to arrays for computing, and results back.

Every quantizer converts its input here, computes in float32 or float64 with the operations that numpy and torch share,
and converts the result to the kind, dtype and device of the input. A tensor on the CPU shares its memory with numpy,
and numpy computes, so both kinds give the same bits. torch computes tensors on other devices. The kind of the input is
found without importing torch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from lplab.formats import inputs

F = TypeVar("F", bound=Callable[..., Any])


class WorkingArray(NamedTuple):
    """An input, converted for computing."""

    xp: Any  # numpy or torch
    x: Any  # float32 or float64, without gradient
    close: Callable[[Any], Any]  # converts a result of the same shape to the kind and dtype of the input


def to_working_array(x: Any) -> WorkingArray:
    """Convert a number, list, numpy array or torch tensor of floats to a float32 or float64 array.

    Half precision is computed in float32, Python numbers and lists in float64.

    Raises:
        TypeError: another type, or integers.

    >>> xp, x, close = to_working_array(np.array([1, 2], np.float16))
    >>> x.dtype, close(x * 2)
    (dtype('float32'), array([2., 4.], dtype=float16))
    """
    if inputs.is_torch(x):
        from lplab.formats.recorded import check_not_traced

        check_not_traced("a quantizer, which computes its scale from the numbers")
        torch = sys.modules["torch"]
        work = getattr(torch, inputs.tensor_dtype(x))
        tensor = x.detach().resolve_neg().to(work)
        if not shares_memory(tensor):
            return WorkingArray(torch, tensor, lambda result: result.to(x.dtype))
        return WorkingArray(np, tensor.numpy(), lambda result: torch.from_numpy(np.asarray(result)).to(x.dtype))
    if isinstance(x, np.ndarray | np.generic):
        array, native = inputs.plain_array(x), x.dtype.newbyteorder("=")
        scalar = isinstance(x, np.generic)
        array = array.astype(inputs.working_dtype(x.dtype.name), copy=False)
        return WorkingArray(np, array, lambda result: _narrow(result, native)[() if scalar else ...])
    array = inputs.as_float_array(x)
    return WorkingArray(np, array, float if array.ndim == 0 else lambda result: result)


def number_like(xp: Any, x: Any, value: float) -> Any:
    """A number as an array or tensor without dimensions, in the dtype and on the device of x."""
    return np.asarray(value, x.dtype) if xp is np else x.new_full((), value)


def to_kind_of(x: Any, result: Any) -> Any:
    """Convert an array to the kind of x; its dtype stays."""
    return sys.modules["torch"].as_tensor(result) if inputs.is_torch(x) else result


def shares_memory(tensor: Any) -> bool:
    """Whether a tensor shares memory with numpy. Tests patch this to False, to run the path of other devices."""
    return tensor.device.type == "cpu"


def no_torch_compile(function: F) -> F:
    """Exclude a function from ``torch.compile``, which would replace numpy by operations that round differently."""

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if sys.modules.get("torch") is None:
            return function(*args, **kwargs)
        from lplab.quantizers import autograd

        return autograd.call_without_compiling(function, *args, **kwargs)

    return cast(F, wrapper)


def _narrow(result: Any, dtype: np.dtype) -> np.ndarray:
    with np.errstate(over="ignore"):  # values beyond float16 become infinity, as in a cast
        return np.asarray(result).astype(dtype, copy=False)


def to_numpy(x: Any) -> np.ndarray:
    """A working array as numpy: the same memory on the CPU, a copy from another device."""
    return x if isinstance(x, np.ndarray) else x.cpu().numpy()


def requires_gradient(x: Any) -> bool:
    """Whether x is a torch tensor that requires a gradient, with gradients enabled."""
    return inputs.is_torch(x) and x.requires_grad and sys.modules["torch"].is_grad_enabled()


def straight_through(x: Any, values: Any, inside: Any = None) -> Any:
    """The straight-through estimator: ``values`` in the forward pass, the gradient unchanged in the backward pass.

    Args:
        x: the input of the quantizer; unless it is a torch tensor that requires a gradient, ``values`` are returned.
        values: the quantized values.
        inside: a function without arguments that returns a bool array or tensor: pass the gradient only there.
    """
    if not requires_gradient(x):
        return values
    from lplab.formats.gradients import StraightThrough

    mask = None if inside is None else to_kind_of(x, inside())
    return StraightThrough.apply(x, lambda _: values, mask)


def as_rows(x: Any, axis: int | None) -> Any:
    """X as [channels, elements]: one row for the tensor, or a row for each index along ``axis``.

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


def broadcast_scale(scale: Any, x: Any, axis: int | None) -> Any:
    """One number per channel, reshaped to multiply x along ``axis``."""
    if axis is None:
        return scale.reshape(())
    shape = [1] * x.ndim
    shape[axis] = -1 if scale.shape[0] else 0
    return scale.reshape(shape)


def _size(x: Any) -> int:
    return x.size if isinstance(x, np.ndarray) else x.numel()
