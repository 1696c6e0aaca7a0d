"""Blocks of two dimensions: the numbers of a tile share a scale, as 16 × 16 weights in NVIDIA's recipe of 2025.

A tile is a block whose numbers do not lie one after the other. So the tiles of a matrix are laid out as rows of blocks,
which are rounded as any blocks are, and the result is laid out as the matrix again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.formats import apply, inputs
from lplab.formats.apply import PreparedRoundings
from lplab.formats.rounding import Rounding


def quantize(
    roundings: PreparedRoundings,
    x: Any,
    tile: tuple[int, int],
    rounding: Rounding,
    seed: Any = None,
    out: Any = None,
    axis: int = -1,
) -> Any:
    """Round x tile by tile; else as :meth:`lplab.formats.BlockFormat.quantize`.

    Args:
        roundings: of blocks with as many numbers as a tile.
        x: of at least two axes.
        tile: (rows, columns); columns lie along ``axis``, rows along the last of the other axes. Tiles at the ends of
            the matrix may be smaller.
        rounding, seed, out: as in ``BlockFormat.quantize``. Random bits are numbered tile by tile.
        axis: of the columns.

    Raises:
        ValueError: x has fewer than two axes, or no such axis; an ``out`` that does not fit.
    """
    if isinstance(x, np.ma.MaskedArray):
        return apply.keep_mask(x, out, lambda plain: quantize(roundings, plain, tile, rounding, seed, None, axis))
    if inputs.is_torch(x):
        inputs.check_strided(x)
        array = x
    else:
        array = np.asarray(x) if isinstance(x, np.ndarray | np.generic) else inputs.as_float_array(x)
    if array.ndim < 2:
        raise ValueError(f"tiles of {tile[0]} × {tile[1]} need at least two axes, got {array.ndim}")
    if not -array.ndim <= axis < array.ndim:
        raise ValueError(f"axis must be from {-array.ndim} to {array.ndim - 1} for {array.ndim} axes, got {axis}")
    if out is not None:
        return _into(out, x, quantize(roundings, x, tile, rounding, seed, None, axis))
    if inputs.is_torch(array):
        import torch

        moved = torch.moveaxis(array, axis, -1)
        blocks = in_tiles(torch, moved, tile)
        rounded = apply.quantize(roundings, blocks.contiguous(), rounding, seed, None, -1)
        return torch.moveaxis(from_tiles(rounded, moved.shape, tile), -1, axis)
    moved = np.moveaxis(array, axis, -1)
    rounded = apply.quantize(roundings, in_tiles(np, moved, tile), rounding, seed, None, -1)
    return np.moveaxis(from_tiles(rounded, moved.shape, tile), -1, axis)


def in_tiles(xp: Any, x: Any, tile: tuple[int, int]) -> Any:
    """[..., rows, columns] → [..., tiles, tiles, numbers of a tile], filled up with zeros.

    >>> in_tiles(np, np.arange(12.0).reshape(3, 4), (2, 2))[0].tolist()
    [[0.0, 1.0, 4.0, 5.0], [2.0, 3.0, 6.0, 7.0]]
    """
    rows, columns = x.shape[-2:]
    down, right = -rows % tile[0], -columns % tile[1]
    if down or right:
        if xp is np:
            x = np.pad(x, [(0, 0)] * (x.ndim - 2) + [(0, down), (0, right)])
        else:
            x = xp.nn.functional.pad(x, (0, right, 0, down))
    high, wide = (rows + down) // tile[0], (columns + right) // tile[1]
    split = x.reshape(*x.shape[:-2], high, tile[0], wide, tile[1])
    return xp.moveaxis(split, -3, -2).reshape(*x.shape[:-2], high, wide, tile[0] * tile[1])


def from_tiles(blocks: Any, shape: Any, tile: tuple[int, int]) -> Any:
    """The inverse of :func:`in_tiles`, for a matrix of this shape."""
    high, wide = blocks.shape[-3:-1]
    split = blocks.reshape(*shape[:-2], high, wide, *tile).swapaxes(-3, -2)
    return split.reshape(*shape[:-2], high * tile[0], wide * tile[1])[..., : shape[-2], : shape[-1]]


def _into(out: Any, x: Any, result: Any) -> Any:
    """The result in ``out``, which must be like x."""
    if type(out) is not type(x) or out.shape != x.shape or out.dtype != x.dtype:
        raise ValueError(f"out must be like x: {type(x).__name__} of shape {tuple(np.shape(x))}")
    out[...] = result
    return out
