"""Rounding numbers that share a scale, as whole-array operations for numpy and torch.

MX (OCP): the scale is a power of two that follows from the exponent of the block's largest magnitude; everything is
exact, computed in float64. NVFP4: the block's scale is a rounded E4M3 number under one float32 scale for the tensor;
the float32 operations are those of NVIDIA's reference quantizer, in its order, because on ties their rounding decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lplab.formats import arrays, counter
from lplab.formats.plan import Grid
from lplab.formats.rounding import Rounding

if TYPE_CHECKING:
    from lplab.formats.block import BlockFormat

LEAST_SCALE, GREATEST_SCALE = -127, 127  # exponents of E8M0
LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


class BlockCodes(NamedTuple):
    """A tensor in a block format, as codes.

    Attributes:
        elements: codes of the elements, in the shape of the tensor.
        scales: codes of the blocks' scales: the tensor's shape with the last axis divided by the block size, rounded
            up.
        tensor_scale: the factor of the whole tensor (NVFP4: amax / 2688 in float32), or 1.0.
    """

    elements: Any
    scales: Any
    tensor_scale: float


@dataclass(frozen=True)
class BlockPlan:
    """What rounding needs to know about a block format.

    Attributes:
        element: the grid of the scaled elements.
        size: elements a block.
        rule: how a power-of-two scale follows from the block's largest magnitude; unused with ``scale``.
        mantissa_bits: of the elements, for the rule "even".
        scale: the grid of rounded block scales (NVFP4), or None for powers of two.
    """

    element: Grid
    size: int
    rule: str
    mantissa_bits: int
    scale: Grid | None

    @property
    def element_exponent(self) -> int:
        """⌊log2⌋ of the largest element."""
        return math.frexp(self.element.highest)[1] - 1

    @property
    def element_fraction(self) -> float:
        """The largest element over its power of two: 1 ≤ fraction < 2."""
        return self.element.highest / 2.0**self.element_exponent


@lru_cache(maxsize=1024)
def plan_of(fmt: BlockFormat) -> BlockPlan:
    """The plan of a block format."""
    grid = fmt.element.plan
    scale = fmt.scale.plan if fmt.tensor_scale and fmt.scale is not None else None
    assert isinstance(grid, Grid) and (scale is None or isinstance(scale, Grid))  # checked by BlockFormat
    mantissa_bits = getattr(fmt.element, "mantissa_bits", fmt.element.bits - 2)
    return BlockPlan(grid, fmt.block_size, fmt.scale_rule, mantissa_bits, scale)


def quantize(xp: Any, rows: Any, plan: BlockPlan, rounding: Rounding, seed: int = 0) -> Any:
    """Round [rows, length] block by block along the rows; the result has the same shape and type.

    Random bits are counted over the rows as they are after the last block of each has been filled up.
    """
    if _size(rows) == 0:
        return rows
    split = in_blocks(xp, rows, plan.size)
    draws = None
    if rounding.is_stochastic:
        device = None if xp is np else rows.device
        draws = counter.draws(xp, counter.keys(seed), 0, _size(split), rounding.random_bits, device)
    return round_blocks(xp, split, plan, rounding, draws).reshape(rows.shape[0], -1)[:, : rows.shape[1]]


def round_blocks(xp: Any, split: Any, plan: BlockPlan, rounding: Rounding, draws: Any = None) -> Any:
    """Round blocks [..., size], given the random integers for all of their elements if the rounding needs them."""
    if _size(split) == 0:
        return split
    scaled, factors = scaled_blocks(xp, split, plan)
    elements = arrays.quantize(xp, scaled.reshape(-1), plan.element, rounding, draws).reshape(split.shape)
    for factor in factors:  # one at a time: the order of the products decides their rounding
        elements = elements * factor
    if plan.scale is None:
        return arrays.narrow(xp, elements, split)
    return elements.astype(split.dtype) if xp is np else elements.to(split.dtype)


def _size(array: Any) -> int:
    return math.prod(array.shape)


def in_blocks(xp: Any, rows: Any, size: int) -> Any:
    """[rows, length] → [rows, blocks, size], the last block filled up with zeros."""
    count, length = rows.shape
    fill = -length % size
    if fill:
        zeros = np.zeros((count, fill), rows.dtype) if xp is np else rows.new_zeros((count, fill))
        rows = xp.concatenate([rows, zeros], 1)
    return rows.reshape(count, (length + fill) // size, size)


def scaled_blocks(xp: Any, split: Any, plan: BlockPlan) -> tuple[Any, tuple[Any, ...]]:
    """The blocks divided by their scales, and the factors [..., 1] that undo it, in order.

    Blocks with NaN or infinity become NaN.
    """
    if plan.scale is not None:
        with np.errstate(over="ignore"):  # NVFP4 is defined on float32: what lies beyond is infinity, and its block NaN
            split = arrays.cast(xp, split, xp.float32)
        largest = xp.amax(abs(split), -1)
        of_tensor = tensor_scales(xp, largest, plan)
        factors, scales = rounded_scales(xp, largest, plan, of_tensor)
        with np.errstate(invalid="ignore", over="ignore"):
            scaled = arrays.not_quite_zero(xp, split * factors[..., None], split)
            return scaled, (scales[..., None], _number(xp, of_tensor[1]))
    wide = arrays.widen(xp, split.reshape(-1)).reshape(split.shape)
    largest = xp.amax(abs(wide), -1)
    exponent = scale_exponents(xp, largest, plan)
    bad = ~xp.isfinite(largest)[..., None]
    down = xp.where(bad, np.nan, _power_of_two(xp, -exponent)[..., None])
    return wide * down, (_power_of_two(xp, exponent)[..., None],)


def scale_exponents(xp: Any, largest: Any, plan: BlockPlan) -> Any:
    """The exponents (int64) of power-of-two scales from the largest magnitudes (float64) of blocks."""
    bits = largest.view(xp.int64)
    if plan.rule == "even":
        bits = bits + (1 << (51 - plan.mantissa_bits))
    exponent = (bits >> 52) - 1023 - plan.element_exponent
    fraction = bits & ((1 << 52) - 1)
    if plan.rule == "ceil":
        exponent = exponent + (fraction != 0)
    elif plan.rule == "rceil":
        exponent = exponent + (fraction > int((plan.element_fraction - 1) * 2.0**52))
    return xp.clip(exponent, LEAST_SCALE, GREATEST_SCALE)


def _power_of_two(xp: Any, exponent: Any) -> Any:
    return ((exponent + 1023) << 52).view(xp.float64)


def tensor_scales(xp: Any, largest: Any, plan: BlockPlan) -> tuple[np.float32, np.float32]:
    """(s_enc, s_dec) of NVFP4 from the largest magnitudes (float32) of all blocks: 2688 / amax and its inverse.

    Blocks with NaN or infinity have no say; a tensor of zeros has the scale 1.
    """
    assert plan.scale is not None
    amax = np.float32(xp.where(xp.isfinite(largest), largest, 0.0).max()) if _size(largest) else np.float32(0)
    encode = np.float32(1)
    if amax > 0:
        with np.errstate(over="ignore"):
            encode = min(np.float32(plan.scale.highest * plan.element.highest) / amax, np.float32(LARGEST_FLOAT32))
    return encode, np.float32(1) / encode


def rounded_scales(
    xp: Any,
    largest: Any,
    plan: BlockPlan,
    of_tensor: tuple[np.float32, np.float32],
    round_to: Callable = arrays.quantize,
) -> tuple[Any, Any]:
    """The scales of NVFP4 blocks from their largest magnitudes (float32).

    Returns:
        What each block is multiplied with before rounding (NaN for blocks with NaN or infinity) and the rounded block
        scales s_b, both float32. Step by step as in Transformer Engine's reference quantizer.
    """
    assert plan.scale is not None
    good = xp.isfinite(largest)
    encode, decode = of_tensor
    per_element = encode * (np.float32(1) / np.float32(plan.element.highest))
    target = xp.clip(xp.where(good, largest, 0.0) * _number(xp, per_element), None, plan.scale.highest)
    scales = round_to(xp, target.reshape(-1), plan.scale, Rounding()).reshape(target.shape)
    with np.errstate(divide="ignore", over="ignore"):
        factors = xp.clip(1 / (scales * _number(xp, decode)), None, LARGEST_FLOAT32)
    return arrays.cast(xp, xp.where(good, factors, np.nan), xp.float32), scales


def _number(xp: Any, value: np.float32) -> Any:
    """A float32 number that keeps float32 arrays float32."""
    return value if xp is np else float(value)
