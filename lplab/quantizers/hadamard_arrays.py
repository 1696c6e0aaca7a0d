"""The Hadamard transform of arrays and tensors, and its inverse, for signs that are given: see :mod:`.hadamard`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lplab.formats import inputs
from lplab.formats.paths import array_kernels


def apply(x: Any, signs: np.ndarray, axis: int) -> Any:
    """The transform of x along an axis, whose last group is filled up with zeros; ``signs`` is float32 [size]."""
    (xp, rows), size = _with_axis_last(x, axis), len(signs)
    fill = -rows.shape[-1] % size
    if fill:
        shape = (*rows.shape[:-1], fill)
        rows = xp.concatenate([rows, np.zeros(shape, rows.dtype) if xp is np else rows.new_zeros(shape)], -1)
    columns = rows.reshape(math.prod(rows.shape) // size, size).T
    result = _butterflies(xp, columns * _signs_like(xp, rows, signs)).T
    return _back(xp, x, result.reshape(rows.shape), axis)


def invert(y: Any, signs: np.ndarray, length: int | None, axis: int) -> Any:
    """The numbers whose transform is y; of the last group only as many as belong to ``length`` numbers.

    Raises:
        ValueError: y is no transform: its length is no multiple of the size.
    """
    (xp, rows), size = _with_axis_last(y, axis), len(signs)
    if rows.shape[-1] % size:
        raise ValueError(f"a transform has a multiple of {size} numbers along its axis, got {rows.shape[-1]}")
    columns = rows.reshape(math.prod(rows.shape) // size, size).T
    result = (_butterflies(xp, columns) * _signs_like(xp, rows, signs)).T.reshape(rows.shape)
    return _back(xp, y, result[..., : rows.shape[-1] if length is None else length], axis)


def _signs_like(xp: Any, rows: Any, signs: np.ndarray) -> Any:
    """The signs as [size, 1] of the kind of an array."""
    if xp is np:
        return signs.astype(rows.dtype)[:, None]
    return xp.as_tensor(signs, dtype=rows.dtype, device=rows.device)[:, None]


def _butterflies(xp: Any, columns: Any) -> Any:
    """H / √size times [size, groups], by log2(size) rounds of sums and differences."""
    size = columns.shape[0]
    columns = np.ascontiguousarray(columns) if xp is np else columns.contiguous()
    real, rounds = str(columns.dtype).removeprefix("torch."), size.bit_length() - 1
    return array_kernels.words_for(xp, real, ROUNDS=rounds)["hadamard"](columns, 1 / math.sqrt(size))


def _with_axis_last(x: Any, axis: int) -> tuple[Any, Any]:
    """numpy or torch, and x with the axis last in the type that it is computed in."""
    if inputs.is_torch(x):
        import torch

        work = getattr(torch, inputs.tensor_dtype(x))
        return torch, x.to(work).movedim(axis, -1)  # vmap does not know moveaxis
    array = inputs.plain_array(x) if isinstance(x, np.ndarray) else inputs.as_float_array(x)
    return np, np.moveaxis(array.astype(inputs.working_dtype(array.dtype.name), copy=False), axis, -1)


def _back(xp: Any, x: Any, result: Any, axis: int) -> Any:
    """The result with its axis where it was, in the dtype of x."""
    if xp is np:
        result = np.moveaxis(result, -1, axis)
        return result.astype(x.dtype) if isinstance(x, np.ndarray) else result
    return result.movedim(-1, axis).to(x.dtype)
