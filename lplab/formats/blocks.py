"""Rounding numbers that share a scale, as whole-array operations for numpy and torch.

MX (OCP): the scale is a power of two that follows from the exponent of the block's largest magnitude; everything is exact, computed in
float64. NVFP4: the block's scale is a rounded E4M3 number under one float32 scale for the tensor; the float32 operations are those of
NVIDIA's reference quantizer, in its order, because on ties their rounding decides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from lplab.formats import arrays, counter
from lplab.formats.plan import Grid
from lplab.formats.rounding import Rounding

if TYPE_CHECKING:
    from lplab.formats.block import BlockFormat

LEAST_SCALE, GREATEST_SCALE = -127, 127  # exponents of E8M0
LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


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


@cache
def plan_of(fmt: BlockFormat) -> BlockPlan:
    """The plan of a block format."""
    grid = fmt.element.plan
    scale = fmt.scale.plan if fmt.tensor_scale and fmt.scale is not None else None
    assert isinstance(grid, Grid) and (scale is None or isinstance(scale, Grid))  # checked by BlockFormat
    mantissa_bits = getattr(fmt.element, "mantissa_bits", fmt.element.bits - 2)
    return BlockPlan(grid, fmt.block_size, fmt.scale_rule, mantissa_bits, scale)


def quantize(
    xp: Any, rows: Any, plan: BlockPlan, rounding: Rounding, seed: int = 0, scale_of_tensor: Any = None
) -> Any:
    """Round [rows, length] block by block along the rows; the result has the same shape and type."""
    draws = None
    if rounding.is_stochastic:
        draws = _draws(xp, rows, rounding, seed)
    return _quantize(xp, rows, plan, rounding, draws, scale_of_tensor)


def _draws(xp: Any, rows: Any, rounding: Rounding, seed: int) -> Any:
    device = None if xp is np else rows.device
    size = rows.shape[0] * rows.shape[1]
    return counter.draws(xp, counter.keys(seed), 0, size, rounding.random_bits, device).reshape(rows.shape)


def _quantize(xp: Any, rows: Any, plan: BlockPlan, rounding: Rounding, draws: Any, scale_of_tensor: Any) -> Any:
    if rows.shape[0] * rows.shape[1] == 0:
        return xp.zeros_like(rows)
    split = in_blocks(xp, rows, plan.size)
    draws = None if draws is None else in_blocks(xp, draws, plan.size)
    scaled, factors = scaled_blocks(xp, split, plan, scale_of_tensor)
    shape = scaled.shape
    flat_draws = None if draws is None else draws.reshape(-1)
    elements = arrays.quantize(xp, scaled.reshape(-1), plan.element, rounding, flat_draws).reshape(shape)
    for factor in factors:  # one at a time: the order of the products decides their rounding
        elements = elements * factor
    result = arrays.narrow(xp, elements, rows) if plan.scale is None else arrays._cast(xp, elements, rows.dtype)
    return result.reshape(rows.shape[0], -1)[:, : rows.shape[1]]


def in_blocks(xp: Any, rows: Any, size: int) -> Any:
    """[rows, length] → [rows, blocks, size], the last block filled up with zeros."""
    count, length = rows.shape
    number = -(-length // size)
    if number * size != length:
        fill = number * size - length
        zeros = rows[:, :1] * 0 if rows.dtype in (xp.int32,) else xp.zeros_like(rows[:, :1])
        rows = xp.concatenate([rows, *([zeros] * fill)], 1)
    return rows.reshape(count, number, size)


def scaled_blocks(xp: Any, split: Any, plan: BlockPlan, scale_of_tensor: Any) -> tuple[Any, tuple[Any, ...]]:
    """The blocks divided by their scales, and the factors [rows, blocks, 1] that undo it. Blocks with NaN or infinity become NaN."""
    if plan.scale is not None:
        return _with_rounded_scales(xp, split, plan, scale_of_tensor)
    wide = arrays.widen(xp, split.reshape(-1)).reshape(split.shape)
    largest = xp.amax(abs(wide), -1)
    exponent = scale_exponents(xp, largest, plan)
    up, down = _power_of_two(xp, exponent)[..., None], _power_of_two(xp, -exponent)[..., None]
    bad = ~xp.isfinite(largest)[..., None]
    return xp.where(bad, np.nan, wide * down), (up,)


def scale_exponents(xp: Any, largest: Any, plan: BlockPlan) -> Any:
    """The exponents (int64) of power-of-two scales from the largest magnitudes (float64) of blocks: :data:`SCALE_RULES`."""
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


def tensor_scale(xp: Any, x: Any, plan: BlockPlan) -> Any:
    """(s_enc, s_dec) of NVFP4 as float32 numbers: 2688 / amax and its inverse; amax over the finite elements. None for MX."""
    if plan.scale is None:
        return None
    size = abs(x[xp.isfinite(x)])
    largest = np.float32(size.max() if xp is np else float(size.max())) if len(size) else np.float32(0)
    if largest == 0:
        return np.float32(1), np.float32(1)
    with np.errstate(over="ignore"):
        encode = np.float32(min(np.float32(plan.scale.highest * plan.element.highest) / largest, np.float32(LARGEST_FLOAT32)))
    return encode, np.float32(1) / encode


def rounded_scales(xp: Any, split: Any, plan: BlockPlan, scale_of_tensor: Any) -> Any:
    """The block scales s_b of NVFP4, rounded to the scale format: float32 [rows, blocks, 1]."""
    assert plan.scale is not None
    encode, _ = scale_of_tensor
    largest = xp.amax(abs(split), -1)
    per_element = encode * (np.float32(1) / np.float32(plan.element.highest))
    target = xp.clip(largest * _number(xp, per_element), None, plan.scale.highest)
    rounded = arrays.quantize(xp, target.reshape(-1), plan.scale, Rounding())
    return rounded.reshape(target.shape)[..., None]


def _with_rounded_scales(xp: Any, split: Any, plan: BlockPlan, scale_of_tensor: Any) -> tuple[Any, tuple[Any, ...]]:
    split = arrays._cast(xp, split, xp.float32)
    bad = ~xp.isfinite(split).all(-1)[..., None]
    split = xp.where(bad, 0.0, split)
    decode = _number(xp, scale_of_tensor[1])
    block = rounded_scales(xp, split, plan, scale_of_tensor)
    with np.errstate(divide="ignore", over="ignore"):
        factor = xp.clip(1 / (block * decode), None, LARGEST_FLOAT32)
        scaled = xp.clip(split * factor, plan.element.lowest, plan.element.highest)
    return arrays._cast(xp, xp.where(bad, np.nan, scaled), xp.float32), (block, decode)


def _number(xp: Any, value: np.float32) -> Any:
    """A float32 number that keeps float32 arrays float32."""
    return value if xp is np else float(value)
