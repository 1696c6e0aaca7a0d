"""Blocks of two dimensions: the numbers of a tile share a scale, as 16 × 16 weights in NVIDIA's recipe of 2025.

A tile is a block whose numbers do not lie one after the other. So the tiles of a matrix are laid out as rows of blocks,
which are rounded as any blocks are, and the result is laid out as the matrix again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lplab.formats import apply, inputs
from lplab.formats.apply import PreparedRoundings
from lplab.formats.coding import BlockCodes
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
    xp, array = _checked(x, tile, axis)
    if out is not None:
        return _into(out, x, quantize(roundings, x, tile, rounding, seed, None, axis))
    moved = xp.moveaxis(array, axis, -1)
    blocks = in_tiles(xp, moved, tile)
    rounded = apply.quantize(roundings, blocks if xp is np else blocks.contiguous(), rounding, seed, None, -1)
    return xp.moveaxis(from_tiles(rounded, moved.shape, tile), -1, axis)


def encode(encode_blocks: Callable[[Any], BlockCodes], x: Any, tile: tuple[int, int], axis: int) -> BlockCodes:
    """The codes of x tile by tile; else as :meth:`lplab.formats.BlockFormat.encode`.

    Args:
        encode_blocks: encodes blocks with as many numbers as a tile, which lie along the last axis.
        x, tile, axis: as for :func:`quantize`.

    Raises:
        ValueError: x has fewer than two axes, or no such axis.
    """
    xp, array = _checked(x, tile, axis)
    moved = xp.moveaxis(array, axis, -1)
    codes = encode_blocks(in_tiles(xp, moved, tile))
    elements = xp.moveaxis(from_tiles(codes.elements, moved.shape, tile), -1, axis)
    return codes._replace(elements=elements, scales=xp.moveaxis(codes.scales[..., 0], -1, axis))


def decode(decode_blocks: Callable[[BlockCodes], Any], codes: BlockCodes, tile: tuple[int, int], axis: int) -> Any:
    """The values of codes that :func:`encode` made; ``decode_blocks`` is for blocks along the last axis."""
    xp, elements = _checked(codes.elements, tile, axis)
    moved = xp.moveaxis(elements, axis, -1)
    scales = xp.moveaxis(xp.asarray(codes.scales), axis, -1)[..., None]
    values = decode_blocks(codes._replace(elements=in_tiles(xp, moved, tile), scales=scales))
    return xp.moveaxis(from_tiles(values, moved.shape, tile), -1, axis)


def _checked(x: Any, tile: tuple[int, int], axis: int) -> tuple[Any, Any]:
    """numpy or torch, and x as an array of it that has tiles along an axis."""
    xp: Any = np
    if inputs.is_torch(x):
        import torch

        inputs.check_strided(x)
        xp, array = torch, x
    else:
        array = inputs.plain_array(x) if isinstance(x, np.ndarray | np.generic) else inputs.as_float_array(x)
    if array.ndim < 2:
        raise ValueError(f"tiles of {tile[0]} × {tile[1]} need at least two axes, got {array.ndim}")
    if not -array.ndim <= axis < array.ndim:
        raise ValueError(f"axis must be from {-array.ndim} to {array.ndim - 1} for {array.ndim} axes, got {axis}")
    return xp, array


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
