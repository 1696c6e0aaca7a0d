"""Block formats: a few numbers share a scale (OCP MX; NVIDIA NVFP4, with one more scale for the tensor)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lplab.checks import check_int
from lplab.formats import apply, coding, tiles
from lplab.formats.apply import PreparedRoundings
from lplab.formats.base import Format
from lplab.formats.codebook import CodebookFormat
from lplab.formats.coding import BlockCodes
from lplab.formats.floating import FloatFormat
from lplab.formats.integer import IntFormat
from lplab.formats.rounding import Rounding, as_rounding
from lplab.formats.rounding_spec import BlockSpec, Grid

SCALE_RULES = {
    "floor": "2^(⌊log2 amax⌋ − e), e the exponent of the largest element: the OCP rule; may clip",
    "even": "as floor, after rounding amax to the element's mantissa width",
    "ceil": "2^(⌈log2 amax⌉ − e)",
    "rceil": "the smallest power of two that is at least amax / largest element: clips nothing",
    "nearest": "the power of two nearest to amax / largest element, the larger one of two: may clip",
}


@dataclass(frozen=True, repr=False)
class BlockFormat:
    """``block_size`` neighbours along one axis share a scale, or the numbers of a tile.

    Args:
        element: the format of the scaled elements: a saturating radix-2 float with at least one mantissa bit, or
            integers with a power of two as scale.
        scale: E8M0 for powers of two (MX), a FloatFormat for a rounded amax (NVFP4: E4M3), or FP32 for amax / largest
            element as it is (DeepSeek-V3).
        block_size: 2 to 1024; 32 in MX, 16 in NVFP4. A last, shorter block is a block too. Or a tile: (rows, columns)
            of a matrix share a scale, as (16, 16) or (128, 128); at the ends of the matrix they may be smaller.
        scale_rule: "floor", "even", "ceil", "rceil" or "nearest", for power-of-two scales (``SCALE_RULES`` explains).
        tensor_scale: use one more float32 scale for the tensor, so that the block scales fit their format (NVFP4).
        name: shown in figures and messages.

    A block with NaN or infinity in it becomes NaN: ``encode`` gives it elements 0 under the scale's NaN (0xFF in E8M0),
    and refuses it in NVFP4. With a scale that is a FloatFormat, NVFP4's among them, the arithmetic is that of float32:
    a number beyond its range counts as infinite. A block of zeros stays zeros.

    "floor" is the rule of microxcaling, too. That library takes the logarithm in float32, which is one too large just
    below a power of two, and makes NaN of a scale beyond 2^127, which stays 2^127 here.

    >>> mxfp4 = BlockFormat(FloatFormat(2, 1, specials="none"), block_size=4)
    >>> mxfp4.quantize(np.array([0.9, -0.1, 0.02, 3.5]))
    array([ 1., -0.,  0.,  3.])
    """

    element: Format
    scale: Format | None = None
    block_size: Any = 32
    scale_rule: str = "floor"
    tensor_scale: bool = False
    name: str = ""
    saturating = True

    def __post_init__(self) -> None:
        if self.scale is None:
            object.__setattr__(self, "scale", E8M0)
        object.__setattr__(self, "block_size", _checked_size(self.block_size))
        if self.scale_rule not in SCALE_RULES:
            raise ValueError(f"unknown scale_rule {self.scale_rule!r}; allowed: {', '.join(SCALE_RULES)}")
        if not self._element_fits():
            raise ValueError(
                "element must be a saturating FloatFormat of radix 2 with 1 to 10 mantissa bits and subnormals, or an "
                f"IntFormat of at most 12 bits with a power of two as scale and zero point 0, got {self.element!r}"
            )
        if self.tensor_scale and not isinstance(self.scale, FloatFormat):
            raise ValueError("tensor_scale=True needs a FloatFormat as scale, as in NVFP4 (E4M3)")
        in_float32 = isinstance(self.scale, FloatFormat) and self.scale.bits == 32 and self.scale.exponent_bits == 8
        if not self.tensor_scale and not in_float32 and self.scale != E8M0:
            raise ValueError("a block scale without tensor_scale must be E8M0 (lplab.formats.get('e8m0')) or FP32")
        if in_float32 and not isinstance(self.element, FloatFormat):
            raise ValueError("blocks of integers need a power of two as scale")

    def _element_fits(self) -> bool:
        e = self.element
        if isinstance(e, FloatFormat):
            return (
                e.radix == 2
                and 1 <= e.mantissa_bits <= 10
                and e.subnormals
                and e.saturating is True
                and 2.0**-30 < e.max < 2.0**30
            )
        return (
            isinstance(e, IntFormat)
            and e.bits <= 12
            and e.rounding_spec.step == 1
            and e.zero_point == 0
            and 2.0**-30 < e.max < 2.0**30
        )

    @property
    def bits(self) -> float:
        """Bits a value: the element's and its share of the block's scale (the scale of a tensor is not counted)."""
        return self.element.bits + self._scale.bits / math.prod(self.tile)

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of the numbers that share a scale; the columns lie along the axis of the blocks.

        >>> mxfp4 = BlockFormat(FloatFormat(2, 1, specials="none"))
        >>> mxfp4.tile, BlockFormat(mxfp4.element, block_size=(16, 16)).bits
        ((1, 32), 4.03125)
        """
        return (1, self.block_size) if isinstance(self.block_size, int) else self.block_size

    @property
    def _scale(self) -> Format:
        assert self.scale is not None  # set in __post_init__
        return self.scale

    @property
    def max(self) -> float:
        """The largest value: largest element times largest scale (times what the tensor's scale adds)."""
        return self.element.max * self._scale.max

    @property
    def min(self) -> float:
        """−max, or two's complement's one more."""
        return self.element.min * self._scale.max

    @property
    def smallest_normal(self) -> float:
        """Smallest normal element times smallest scale."""
        return self.element.smallest_normal * self._scale.smallest_subnormal

    @property
    def smallest_subnormal(self) -> float:
        """Smallest element times smallest scale."""
        return self.element.smallest_subnormal * self._scale.smallest_subnormal

    @property
    def dynamic_range_octaves(self) -> float:
        """log2(max / smallest positive value), over all scales; within one block it is that of the element."""
        return self.element.dynamic_range_octaves + self._scale.dynamic_range_octaves

    @property
    def dynamic_range_db(self) -> float:
        """20·log10(max / smallest positive value)."""
        return 20 * math.log10(2) * self.dynamic_range_octaves

    @property
    def label(self) -> str:
        """The name, or element and block size."""
        return self.name or f"{self._blocks} × {self.element.label}"

    @property
    def _blocks(self) -> str:
        rows, columns = self.tile
        return f"blocks of {columns}" if rows == 1 else f"tiles of {rows} × {columns}"

    def codebook(self) -> np.ndarray:
        """A block format has no single codebook: its values depend on the scale of the block.

        Raises:
            ValueError: always; it says where to look.
        """
        raise ValueError(f"{self.label} has a grid for each block; use .element.codebook() and .scale.codebook()")

    def bit_fields(self) -> tuple[tuple[str, int], ...]:
        """The parts of an element."""
        return self.element.bit_fields()

    def describe(self) -> dict[str, Any]:
        """Width, range and block size by name."""
        names = (
            "bits",
            "max",
            "min",
            "smallest_normal",
            "smallest_subnormal",
            "dynamic_range_octaves",
            "dynamic_range_db",
        )
        numbers = {name: getattr(self, name) for name in names}
        return {
            "name": self.label,
            **numbers,
            "block_size": self.block_size,
            "element": self.element.label,
            "scale": self._scale.label,
        }

    def quantize(
        self,
        x: Any,
        rounding: str | Rounding = "nearest_even",
        seed: Any = None,
        out: Any = None,
        *,
        axis: int = -1,
        random_bits: int = 16,
        variant: str = "C",
    ) -> Any:
        """Round x block by block along ``axis`` (the axis that a product sums over); else as :meth:`Format.quantize`.

        ``rounding`` is that of the elements; scales follow ``scale_rule``, or round to nearest even (NVFP4). The
        columns of tiles lie along ``axis``, their rows along the last of the other axes.

        >>> from lplab.formats import get
        >>> get("mxint8").quantize([0.1, 0.2, 100.0])
        array([  0.,   0., 100.])
        """
        if not isinstance(self.block_size, int):
            rounding = as_rounding(rounding, random_bits, variant)
            return tiles.quantize(self.prepared_roundings, x, self.tile, rounding, seed, out, axis)
        return apply.quantize(self.prepared_roundings, x, rounding, seed, out, axis, random_bits, variant)

    def encode(
        self, x: Any, rounding: str | Rounding = "nearest_even", seed: Any = None, *, axis: int = -1
    ) -> BlockCodes:
        """Round x block by block along ``axis`` and return the codes of elements and scales.

        Raises:
            ValueError: NaN in x, if the element has no code for it and the scale neither (NVFP4).
        """
        rounding = as_rounding(rounding)

        def encode_blocks(x: Any, axis: int = -1) -> BlockCodes:
            return coding.encode_blocks(
                self.element, self._scale, self.rounding_spec, x, rounding, seed, axis, label=self.label
            )

        return tiles.encode(encode_blocks, x, self.tile, axis) if self.tile[0] > 1 else encode_blocks(x, axis)

    def decode(self, codes: BlockCodes, *, axis: int = -1) -> Any:
        """Dequantize: the float64 values of codes that :meth:`encode` made."""

        def decode_blocks(codes: BlockCodes, axis: int = -1) -> Any:
            return coding.decode_blocks(self.element, self._scale, self.rounding_spec, codes, axis)

        return tiles.decode(decode_blocks, codes, self.tile, axis) if self.tile[0] > 1 else decode_blocks(codes, axis)

    @cached_property
    def prepared_roundings(self) -> PreparedRoundings:
        """The roundings that this format has been asked for, each decided once and ready to run."""
        return PreparedRoundings(self.rounding_spec)

    @cached_property
    def rounding_spec(self) -> BlockSpec:
        """What rounding needs to know."""
        grid = self.element.rounding_spec
        scale = self._scale.rounding_spec if self.scale != E8M0 else None
        assert isinstance(grid, Grid) and (scale is None or isinstance(scale, Grid))  # checked by __post_init__
        mantissa_bits = getattr(self.element, "mantissa_bits", self.element.bits - 2)
        return BlockSpec(grid, math.prod(self.tile), self.scale_rule, mantissa_bits, scale, self.tensor_scale)

    def __repr__(self) -> str:
        shown = [
            f"{self.element!r}",
            f"scale={self.scale!r}" if self.scale != E8M0 else "",
            f"block_size={self.block_size}",
        ]
        shown += [f"scale_rule={self.scale_rule!r}" if self.scale_rule != "floor" else ""]
        shown += ["tensor_scale=True" if self.tensor_scale else "", f"name={self.name!r}" if self.name else ""]
        return f"BlockFormat({', '.join(s for s in shown if s)})"

    def __str__(self) -> str:
        parts = f"{self._blocks} × {self.element.label} with a scale in {self._scale.label}"
        return f"{self.label}: {self.bits:g} bits a value, {parts}"


def _checked_size(size: Any) -> Any:
    """A block size as an integer, or a tile as (rows, columns); a tile of one row is a block."""
    if not isinstance(size, tuple | list):
        return check_int("block_size", size, 2, 1024)
    if len(size) != 2:
        raise ValueError(f"block_size must be an integer or (rows, columns), got {size!r}")
    rows = check_int("block_size[0]", size[0], 1, 1024)
    columns = check_int("block_size[1]", size[1], 2, 1024)
    return columns if rows == 1 else (rows, columns)


E8M0 = CodebookFormat((*(2.0**k for k in range(-127, 128)), math.nan), name="e8m0")
