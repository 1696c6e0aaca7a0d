"""Rounding numbers that share a scale, as whole-array operations for numpy and torch.

MX (OCP): the E8M0 scale is a power of two, from the exponent of the block's largest magnitude; everything is exact,
computed in float64. NVFP4: the block's scale is a rounded E4M3 number under one float32 scale for the tensor;
the float32 operations are those of NVIDIA's reference quantizer, in its order, because their rounding decides ties.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lplab.formats import counter_rng
from lplab.formats.paths import array_kernels
from lplab.formats.paths.grid_rules import FLOAT_LAYOUTS, scale_constants
from lplab.formats.rounding import MIN_FRACTION, Rounding
from lplab.formats.rounding_spec import BlockSpec


def quantize(xp: Any, rows: Any, spec: BlockSpec, rounding: Rounding, seed: int = 0) -> Any:
    """Round [rows, length] block by block along the rows; the result has the same shape and type.

    Random bits are numbered over the rows after the last block of each has been padded.
    """
    if _size(rows) == 0:
        return rows
    split = in_blocks(xp, rows, spec.size)
    draws = None
    if rounding.is_stochastic:
        device = None if xp is np else rows.device
        draws = counter_rng.random_bits(xp, counter_rng.keys(seed), 0, _size(split), rounding.random_bits, device)
    return round_blocks(xp, split, spec, rounding, draws).reshape(rows.shape[0], -1)[:, : rows.shape[1]]


def round_blocks(xp: Any, split: Any, spec: BlockSpec, rounding: Rounding, draws: Any = None) -> Any:
    """Round blocks [..., size], given the random integers for all of their elements if the rounding needs them."""
    if _size(split) == 0:
        return split
    scaled, factors = scaled_blocks(xp, split, spec)
    elements = array_kernels.quantize(xp, scaled.reshape(-1), spec.element, rounding, draws).reshape(split.shape)
    for factor in factors:  # one at a time: the order of the products decides their rounding
        elements = elements * factor
    if spec.scale is None:
        return array_kernels.narrow(xp, elements, split)
    return elements.astype(split.dtype) if xp is np else elements.to(split.dtype)


def _size(array: Any) -> int:
    return math.prod(array.shape)


def in_blocks(xp: Any, rows: Any, size: int) -> Any:
    """[rows, length] → [rows, blocks, size], the last block padded with zeros."""
    count, length = rows.shape
    fill = -length % size
    if fill:
        zeros = np.zeros((count, fill), rows.dtype) if xp is np else rows.new_zeros((count, fill))
        rows = xp.concatenate([rows, zeros], 1)
    return rows.reshape(count, (length + fill) // size, size)


def scaled_blocks(xp: Any, split: Any, spec: BlockSpec) -> tuple[Any, tuple[Any, ...]]:
    """The blocks divided by their scales, and the factors [..., 1] that undo it, in order.

    Blocks with NaN or infinity become NaN.
    """
    if spec.scale is not None:
        # NVFP4 is defined on float32: larger numbers become infinity, and their block NaN.
        with np.errstate(over="ignore"):
            split = array_kernels.cast(xp, split, xp.float32)
        largest = xp.amax(abs(split), -1)
        factors, scales, tensor_scale = rounded_scales(xp, largest, spec)
        words, least = array_kernels.words_for(xp, "float32", CODE="up"), FLOAT_LAYOUTS["float32"].pattern(MIN_FRACTION)
        with np.errstate(invalid="ignore", over="ignore"):
            scaled = (split * factors[..., None]).view(xp.int32)
        scaled = words["visible"](scaled, split.view(xp.int32), least).view(xp.float32)
        return scaled, (scales[..., None], tensor_scale)
    wide = array_kernels.widen(xp, split.reshape(-1)).reshape(split.shape)
    largest = xp.amax(abs(wide), -1)
    scale_rule = scale_constants(spec, FLOAT_LAYOUTS["float64"])
    exponent = array_kernels.words_for(xp, "float64")["block_exponent"](largest.view(xp.int64), *scale_rule)
    bad = ~xp.isfinite(largest)[..., None]
    down = xp.where(bad, np.nan, _power_of_two(xp, -exponent)[..., None])
    return wide * down, (_power_of_two(xp, exponent)[..., None],)


def _power_of_two(xp: Any, exponent: Any) -> Any:
    return ((exponent + 1023) << 52).view(xp.float64)


def scale_patterns(spec: BlockSpec) -> tuple[int, int, int]:
    """The constants of rounded scales (NVFP4) as patterns of float32.

    Returns:
        The largest scale times the largest element; one over the largest element; the largest scale.
    """
    assert spec.scale is not None
    numbers = spec.scale.highest * spec.element.highest, 1 / spec.element.highest, spec.scale.highest
    top, inverse, highest = (FLOAT_LAYOUTS["float32"].pattern(number) for number in numbers)
    return top, inverse, highest


def _largest_finite(xp: Any, largest: Any, spec: BlockSpec) -> Any:
    """The largest magnitude of a tensor, float32 [1], from those of its blocks; blocks with NaN or infinity apart.

    Zero, for which the scale of the tensor is 1, where the format has no such scale.
    """
    if not (_size(largest) and spec.tensor_scale):
        return np.zeros(1, np.float32) if xp is np else largest.new_zeros(1)
    return xp.where(xp.isfinite(largest), largest, xp.zeros_like(largest)).max().reshape(1)


def rounded_scales(xp: Any, largest: Any, spec: BlockSpec) -> tuple[Any, Any, Any]:
    """The scales of NVFP4 blocks from their largest magnitudes (float32).

    Returns:
        What each block is multiplied with before rounding (NaN for blocks with NaN or infinity), the rounded block
        scales s_b, and the scale s_dec of the tensor [1], all float32. Step by step as in Transformer Engine's
        reference quantizer.
    """
    assert spec.scale is not None
    words, (top, inverse, highest) = array_kernels.words_for(xp, "float32"), scale_patterns(spec)
    bits, amax = largest.view(xp.int32), _largest_finite(xp, largest, spec)
    with np.errstate(all="ignore"):  # what does not count for blocks with NaN or infinity is computed, too
        encode, decode = words["tensor_scales"](amax.view(xp.int32), top)
        target = words["scale_target"](bits, words["multiplied"](encode, inverse), highest).view(xp.float32)
        scales = array_kernels.quantize(xp, target.reshape(-1), spec.scale, Rounding()).reshape(target.shape)
        factors = words["block_factor"](bits, scales.view(xp.int32), decode)
    return factors.view(xp.float32), scales, decode.view(xp.float32)
