"""SAWB: the clip of a weight tensor from two of its statistics (Choi et al., SysML 2019).

The clip with the least squared error is nearly a linear function of two means: α = c1·√E[w²] − c2·E|w| (the second
moment is not centred). The coefficients were fitted once, to six distributions; :mod:`lplab.quantizers.sawb_fit` fits
them again. The published code has several sets of coefficients; each is a row of :data:`SAWB_ROWS`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from lplab.formats import IntFormat
from lplab.lookup import NamedSettings
from lplab.quantizers import array_inputs
from lplab.quantizers.reductions import finite_row_maxima, is_served, loops, moments
from lplab.quantizers.scaling import MAX_SCALE, MIN_SCALE, bounded

GRADIENTS = ("everywhere", "inside")


@dataclass(frozen=True)
class SAWBRow:
    """A set of coefficients and the grid that it was fitted for.

    Args:
        name: key of the row.
        levels: number of levels, evenly spread over [−α, α]; an odd number has zero among them.
        c1, c2: the coefficients.
        source: where they were published.
        extra_negative_level: whether there is one more level, below −α, as in two's complement: "16 bins with zero"
            are the integers −8 … 7 in steps of α/7.
    """

    name: str
    levels: int
    c1: float
    c2: float
    source: str
    extra_negative_level: bool = False

    @property
    def grid(self) -> np.ndarray:
        """All levels, ascending, in units of α: float64.

        >>> SAWB_ROWS["ternary"].grid.tolist(), SAWB_ROWS["403_16"].grid[[0, 1, -1]].round(3).tolist()
        ([-1.0, 0.0, 1.0], [-1.143, -1.0, 1.0])
        """
        half = (self.levels - 1) / 2
        return (np.arange(self.levels + self.extra_negative_level) - half - self.extra_negative_level) / half


_FMS = "fms-model-optimizer"
SAWB_ROWS: dict[str, SAWBRow] = {
    row.name: row
    for row in (
        SAWBRow("1bit", 2, 0.0, -1.0, "code after arXiv 1807.06964: α = E|w|"),
        SAWBRow("ternary", 3, 2.587, 1.693, "code after arXiv 1807.06964"),
        SAWBRow("103", 3, 2.6, 1.71, _FMS),
        SAWBRow("2bit_2018", 4, 3.212, 2.178, "code after arXiv 1807.06964"),
        SAWBRow("2bit", 4, 3.12, 2.064, _FMS),
        SAWBRow("3bit", 8, 7.509, 6.892, _FMS),
        SAWBRow("4bit", 16, 12.68, 12.80, _FMS),
        SAWBRow("403", 15, 12.035, 12.03, _FMS),
        SAWBRow("403_16", 15, 12.035, 12.03, f"{_FMS}, '16 bins with zero'", extra_negative_level=True),
        SAWBRow("luq", 17, 12.1, 12.2, "third-party copy of LUQ's code, used with the integers −8 … 8"),
        SAWBRow("5bit", 32, 17.74, 18.64, _FMS),
        SAWBRow("703", 127, 28.24, 30.81, _FMS),
        SAWBRow("8bit", 256, 31.76, 35.04, _FMS),
        SAWBRow("803", 255, 31.76, 35.04, _FMS),
    )
}
"""The published coefficients by name."""
DEFAULT_ROWS = {1: "1bit", 2: "2bit", 3: "3bit", 4: "403", 5: "5bit", 7: "703", 8: "803"}
"""The row for a number of bits. 4 bits: the fifteen integers −7 … 7, which an INT4 multiplier can take."""


def sawb_row(bits: int = 4, row: str | None = None) -> SAWBRow:
    """The row for a number of bits, or the one with a name.

    Raises:
        ValueError: no such row; the message lists the rows.

    >>> sawb_row(4).levels, sawb_row(row="4bit").levels
    (15, 16)
    """
    if row is not None:
        if row not in SAWB_ROWS:
            raise ValueError(f"unknown SAWB row {row!r}; allowed: {', '.join(SAWB_ROWS)}")
        return SAWB_ROWS[row]
    if isinstance(bits, bool) or bits not in DEFAULT_ROWS:
        raise ValueError(f"SAWB has coefficients for {', '.join(map(str, DEFAULT_ROWS))} bits, got {bits!r}")
    return SAWB_ROWS[DEFAULT_ROWS[bits]]


@array_inputs.no_torch_compile
def sawb_clip(w: Any, bits: int = 4, *, row: str | None = None, axis: int | None = None) -> Any:
    """SAWB's clip α = c1·√E[w²] − c2·E|w|.

    Means are taken in float64 over the finite elements; α is rounded to the working dtype of w (float32 for half
    precision). Where the formula gives no positive number (as it does for |w| nearly constant at 16 levels), α is
    max|w|; where that is zero too (or no element is finite, or w is empty), α is 0. α may exceed max|w|.

    Args:
        w: numpy array, torch tensor, number or list.
        bits: chooses the coefficients; 4 bits are the 15 levels −7 … 7.
        row: name of a row of ``SAWB_ROWS``, instead of ``bits``.
        axis: an α for each index along this axis instead of one for the tensor.

    Returns:
        A Python float; with an axis an array [channels] of the kind of w.

    Raises:
        ValueError: no such row or axis.

    >>> w = [-1, -0.5, 0, 0.5, 1, 0.25, -0.25, 2]
    >>> round(sawb_clip(w, 2), 6), round(sawb_clip(w, 4), 6)
    (1.420243, 2.68139)
    """
    xp, array, _ = array_inputs.to_working_array(w)
    alphas = clips_of_rows(xp, array_inputs.as_rows(array, axis), sawb_row(bits, row))
    return float(alphas[0]) if axis is None else array_inputs.to_kind_of(w, alphas)


sawb_scale = sawb_clip
""":func:`sawb_clip` by another name: its clip sets the scale of the levels."""


def clip_of_moments(square: float, mean: float, c1: float, c2: float) -> float:
    """The clip α = c1·√E[w²] − c2·E|w|; 0 where that is no positive number. numba compiles this function, too.

    >>> clip_of_moments(4.0, 1.5, 3.12, 2.064), clip_of_moments(4.0, 2.0, 0.5, 1.0)
    (3.144, 0.0)
    """
    clip = c1 * math.sqrt(square) - c2 * mean
    return clip if 0 < clip < math.inf else 0.0


def sawb_at(x: int, out: int, count: int, row: SAWBRow) -> float:
    """Round float32 from one address to another, to the integers −half … half of a row times a step, in one call.

    Args:
        x, out: addresses of contiguous, disjoint memory.
        count: how many numbers there are.
        row: with an odd number of levels; half is 1 to 127, the step is α / half.

    Returns:
        α, rounded to float32; 0 where nothing was rounded: no loop is loaded, or the formula gives no positive number.

    >>> x, out = np.float32([1, -3] * 20_000), np.empty(40_000, np.float32)
    >>> alpha = sawb_at(x.ctypes.data, out.ctypes.data, x.size, sawb_row(4))
    >>> alpha == 0 or ((round(alpha, 3), np.unique(np.rint(out / alpha * 7)).tolist()) == (2.851, [-7.0, 2.0]))
    True
    """
    if not is_served("sawb", count):
        return 0.0
    return loops().sawb_loop(clip_of_moments, bounded)(x, out, count, row.c1, row.c2, (row.levels - 1) // 2)


def clips_of_rows(xp: Any, rows: Any, row: SAWBRow) -> Any:
    """The clip α of each row of float32 or float64 [rows, n], in its dtype; see :func:`sawb_clip`.

    >>> clips_of_rows(np, np.float32([[1, -1, 2], [0, 0, 0]]), sawb_row(1))
    array([1.3333334, 0.       ], dtype=float32)
    """
    formula = np.array([clip_of_moments(*means, row.c1, row.c2) for means in zip(*moments(xp, rows), strict=True)])
    usable = formula > 0
    with np.errstate(over="ignore"):
        clips = formula.astype(rows.dtype) if xp is np else rows.new_tensor(formula)
    if usable.all():
        return clips
    usable = usable if xp is np else xp.as_tensor(usable, device=rows.device)
    return xp.where(usable, clips, finite_row_maxima(xp, rows))


@dataclass(frozen=True)
class SAWB(NamedSettings):
    """Weights on the levels of SAWB: clip at ±α, spread the levels evenly.

    With an odd number of levels these are the integers −h … h in steps of α/h, rounded to nearest even; row "403_16"
    has −h − 1 too, all codes of an INT4. With an even
    number, which leaves zero out, the published code is followed: u = (w/α + 1)/2, level = round(u·(levels − 1)); an
    exact zero becomes the smallest positive level (with two levels the negative one).

    Args:
        bits, row, axis: as :func:`sawb_clip`.
        gradient: for torch tensors: "everywhere" (straight through; the later "SAWB+") or "inside" (only where
            |w| ≤ α). No gradient flows through α, which is computed on every call.

    NaN stays NaN; infinity is clipped.

    Raises:
        ValueError: no such row, or an unknown ``gradient``.

    >>> SAWB(bits=2).quantize([-1, -0.5, 0, 0.5, 1, 0.25, -0.25, 2]).round(2)
    array([-1.42, -0.47,  0.47,  0.47,  1.42,  0.47, -0.47,  1.42])
    """

    bits: int = 4
    row: str | None = None
    axis: int | None = None
    gradient: str = "everywhere"

    def __post_init__(self) -> None:
        sawb_row(self.bits, self.row)
        if self.gradient not in GRADIENTS:
            raise ValueError(f"gradient must be {' or '.join(map(repr, GRADIENTS))}, got {self.gradient!r}")

    @property
    def label(self) -> str:
        """The grid in a few words, for tables."""
        return f"SAWB {len(self.coefficients.grid)} levels"

    @cached_property
    def coefficients(self) -> SAWBRow:
        """The row of coefficients in use."""
        return sawb_row(self.bits, self.row)

    def clip(self, w: Any) -> Any:
        """The clip α; see :func:`sawb_clip`."""
        return sawb_clip(w, self.bits, row=self.row, axis=self.axis)

    def quantize(self, w: Any) -> Any:
        """The values of w on the levels; the kind, shape, dtype and device of w."""
        return self.quantize_with_scale(w)[0]

    @array_inputs.no_torch_compile
    def quantize_with_scale(self, w: Any) -> tuple[Any, Any]:
        """The values and the clip α."""
        xp, array, close = array_inputs.to_working_array(w)
        alphas = clips_of_rows(xp, array_inputs.as_rows(array, self.axis), self.coefficients)
        alpha = array_inputs.broadcast_scale(alphas, array, self.axis)
        row = self.coefficients
        values = close(on_levels(xp, array, alpha, row.levels, row.extra_negative_level))
        low = alpha * -float(row.grid[0])
        inside = (lambda: (array <= alpha) & (array >= -low)) if self.gradient == "inside" else None
        used = float(alphas[0]) if self.axis is None else array_inputs.to_kind_of(w, alphas)
        return array_inputs.straight_through(w, values, inside), used


def integers_of(levels: int) -> IntFormat | None:
    """The integers −h … h as a format, for an odd number of levels of which a format exists; else None.

    >>> integers_of(15).range, integers_of(16)
    ((-7, 7), None)
    """
    is_format = levels % 2 == 1 and levels & (levels + 1) == 0
    return IntFormat(levels.bit_length(), symmetric=True) if is_format else None


def on_levels(xp: Any, w: Any, alpha: Any, levels: int, extra_negative_level: bool = False) -> Any:
    """A working array rounded to ``levels`` even levels over [−α, α] (and one below); α is broadcast against w.

    >>> on_levels(np, np.array([-3.0, 0.2, 0.4]), np.array(1.0), 3)
    array([-1.,  0.,  0.])
    """
    half = xp.full_like(alpha, (levels - 1) / 2)
    bound = xp.where(alpha > 0, alpha, xp.ones_like(alpha))  # α is zero only where every finite w is zero
    step = xp.clip(bound / half, MIN_SCALE, MAX_SCALE)
    integers = None if extra_negative_level else integers_of(levels)
    if integers is not None and step.ndim == 0 and alpha > 0:
        return replace(integers, scale=float(step), name="").quantize(w)
    clipped = xp.clip(w, -alpha - step if extra_negative_level else -alpha, alpha)
    if levels % 2:
        return xp.round(clipped / step) * step
    code = xp.round((clipped / bound * 0.5 + 0.5) * (levels - 1))
    return (code - half) * xp.where(alpha > 0, step, xp.zeros_like(step))
