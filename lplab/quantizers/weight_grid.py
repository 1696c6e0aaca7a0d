"""Weights on integers, a scale for each group of neighbours in a row: the grids that GPTQ, AWQ and others round to.

Rounding each weight to the nearest value of its grid is the baseline of all methods ("RTN"). Two published baselines
differ in the zero: GPTQ forces zero into the range of a group, AWQ does not, so that a group on one side of zero is cut
off at the far end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lplab.checks import check_int
from lplab.lookup import NamedSettings
from lplab.quantizers import array_inputs

KINDS = {
    "asymmetric": "smallest and largest weight of the group, zero always in between (GPTQ)",
    "asymmetric_awq": "smallest and largest weight; the integer for zero is rounded and clamped (AWQ)",
    "symmetric": "-h … h with h = 2^(bits-1) - 1, the largest magnitude at an end",
    "full_range": "-2^(bits-1) … h; the scale has a sign: the largest magnitude gets the extra level (llama.cpp)",
    "no_zero": "2^bits levels half-way between integers, ±1/2, ±3/2 … of a unit: SAWB's grid (ParetoQ at 2 bits)",
    "ternary": "-1, 0, 1 in units of 2/3 of the largest magnitude, the first clip of ParetoQ; bits must be 2",
}
"""How a group chooses its scale and the integer for zero."""
SEARCH_EXPONENT = 2.4  # of the error that a search minimizes, as in GPTQ's code
SEARCH_LEAST = 0.2  # of the range, the narrowest that a search tries, as in GPTQ's code


@dataclass(frozen=True)
class WeightGrid(NamedSettings):
    """Integers of 2 to 8 bits with a scale, and perhaps a zero, for each group of weights along the last axis.

    All is computed in float64, so that the same weights give the same bits with and without updates in between.

    Args:
        bits: 2 to 8.
        group: neighbours that share a scale; None for a whole row. It must divide the length of the row.
        kind: a key of :data:`KINDS`.
        search: try so many narrower ranges, evenly down to a fifth, and take the one with the least error
            Σ|w − q|^2.4 (GPTQ's code: 100); 0 for none.
        scale_bits: of a stored scale, for :attr:`bits_per_weight` alone; scales are not rounded here.

    Raises:
        ValueError: a number out of range or an unknown kind; or, when called, a group that does not divide the row.

    >>> for kind in ("symmetric", "full_range", "no_zero"):
    ...     print(WeightGrid(2, None, kind).quantize([[-1.0, 0.2, 0.6, 0.9]]))
    [[-1.  0.  1.  1.]]
    [[-1.   0.   0.5  0.5]]
    [[-0.75  0.25  0.75  0.75]]
    """

    bits: int = 4
    group: int | None = 128
    kind: str = "asymmetric"
    search: int = 0
    scale_bits: int = 16

    def __post_init__(self) -> None:
        check_int("bits", self.bits, 2, 8)
        check_int("search", self.search, 0, 1000)
        check_int("scale_bits", self.scale_bits, 0, 32)
        if self.group is not None:
            check_int("group", self.group, 1, 2**24)
        if self.kind not in KINDS:
            raise ValueError(f"unknown kind {self.kind!r}; allowed: {', '.join(KINDS)}")
        if self.kind == "ternary" and self.bits != 2:
            raise ValueError(f"three levels need bits=2, got bits={self.bits}")

    @property
    def label(self) -> str:
        """The grid in a few words, for tables."""
        shared = "a row" if self.group is None else f"groups of {self.group}"
        return f"int{self.bits} {self.kind}, a scale for {shared}"

    @property
    def range(self) -> tuple[int, int]:
        """The smallest and the largest integer; of ``no_zero`` each stands for the level half a unit above it."""
        if self.kind.startswith("asymmetric"):
            return 0, 2**self.bits - 1
        half = 2 ** (self.bits - 1)
        return (-half if self.kind in ("full_range", "no_zero") else 1 - half), half - 1

    def bits_per_weight(self, inputs: int) -> float:
        """Bits that a weight takes in a row of ``inputs`` weights, with its share of scale and zero.

        Of three levels, five go into a byte.

        >>> WeightGrid(4, group=128).bits_per_weight(4096), WeightGrid(4, group=None).bits_per_weight(100)
        (4.15625, 4.2)
        """
        zero_bits = self.bits if self.kind.startswith("asymmetric") else 0
        own = 8 / 5 if self.kind == "ternary" else self.bits
        return own + (self.scale_bits + zero_bits) / (self.group or inputs)

    def groups_of(self, w: Any) -> Any:
        """A matrix [rows, inputs] as [rows, groups, size]."""
        size = self.group or w.shape[-1]
        if w.shape[-1] % size:
            raise ValueError(f"group={size} does not divide the {w.shape[-1]} inputs of a row; pass a divisor or None")
        return w.reshape(*w.shape[:-1], w.shape[-1] // size, size)

    def fit(self, xp: Any, groups: Any) -> tuple[Any, Any]:
        """Scale and zero of each group.

        Args:
            xp: numpy or torch.
            groups: float64 [..., size].

        Returns:
            Two arrays [..., 1]: what one integer is worth, and the integer that stands for zero.
        """
        low, high = xp.amin(groups, -1)[..., None], xp.amax(groups, -1)[..., None]
        scale, zero = self._of_range(xp, low, high)
        if not self.search:
            return scale, zero
        least = self._error(xp, groups, scale, zero)
        for step in range(1, self.search):
            share = 1 - (1 - SEARCH_LEAST) * step / self.search
            tried = self._of_range(xp, low * share, high * share)
            error = self._error(xp, groups, *tried)
            scale, zero = (xp.where(error < least, new, old) for new, old in zip(tried, (scale, zero), strict=True))
            least = xp.minimum(error, least)
        return scale, zero

    def _of_range(self, xp: Any, low: Any, high: Any) -> tuple[Any, Any]:
        first, last = self.range
        if self.kind.startswith("asymmetric"):
            if self.kind == "asymmetric":
                low, high = xp.clip(low, None, 0), xp.clip(high, 0, None)
            span = (high - low) / (last - first)
            scale = xp.where(span > 0, span, xp.ones_like(span))
            return scale, xp.clip(xp.round(-low / scale), first, last)
        top = xp.where(-low > high, low, high)  # of the largest magnitude, with its sign
        if self.kind == "full_range":
            scale = top / first
        else:
            scale = xp.abs(top) / {"symmetric": last, "no_zero": -first, "ternary": 3 / 2}[self.kind]
        return xp.where(scale != 0, scale, xp.ones_like(scale)), xp.zeros_like(scale)

    def _error(self, xp: Any, groups: Any, scale: Any, zero: Any) -> Any:
        return (xp.abs(self.nearest(xp, groups, scale, zero) - groups) ** SEARCH_EXPONENT).sum(-1)[..., None]

    def nearest(self, xp: Any, w: Any, scale: Any, zero: Any) -> Any:
        """Weights rounded to the nearest values, ties to the even integer."""
        shift = 0.5 if self.kind == "no_zero" else 0.0
        return (xp.clip(xp.round(w / scale - shift) + zero, *self.range) - zero + shift) * scale + 0.0  # no −0

    @array_inputs.no_torch_compile
    def quantize(self, w: Any) -> Any:
        """Weights [..., inputs] rounded to nearest; the kind, shape, dtype and device of w, gradients straight through.

        Raises:
            ValueError: the group does not divide the row, or a weight is not finite.
        """
        xp, array, close = array_inputs.to_working_array(w)
        groups = self.groups_of(in_float64(xp, array))
        if not bool(xp.isfinite(groups).all()):
            raise ValueError("weights must be finite numbers")
        values = self.nearest(xp, groups, *self.fit(xp, groups)).reshape(array.shape)
        return array_inputs.straight_through(w, close(in_dtype_of(xp, array, values)))


def in_float64(xp: Any, x: Any) -> Any:
    """A working array in float64; a copy, which may be changed.

    >>> in_float64(np, np.ones(2, np.float32)).dtype
    dtype('float64')
    """
    return x.astype(np.float64) if xp is np else x.to(xp.float64, copy=True)


def in_dtype_of(xp: Any, x: Any, values: Any) -> Any:
    """Values in the dtype of a working array."""
    return values.astype(x.dtype) if xp is np else values.to(x.dtype)
