"""Four-bit grids for gradients: their values, and their effect on a tensor.

All grids span −64 to 64 (the odd phase of radix 4 spans −32 to 32), so the same scale fits all of them:

============  ==========================================================================================
int4          15 evenly spaced values, 64/7 apart
radix2        1-3-0: the powers of two 1 … 64, rounded to nearest
luq           the same values, rounded stochastically, also between 0 and 1 (Chmiel et al., ICLR 2023)
radix4_even   the powers of four 1/64 … 64 (Sun et al. 2020): operand of the GEMM for dx
radix4_odd    half of each: operand of the GEMM for dW
radix4_mean   the mean of both phases: not an operand, but its error is the mean of both errors
============  ==========================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from lplab.checks import check_positive
from lplab.formats import get
from lplab.quantizers.gradscale import RADIX4_MAX
from lplab.quantizers.luq import LUQ
from lplab.quantizers.radix4 import Radix4, two_phase

_STEP = RADIX4_MAX / 7


@dataclass(frozen=True)
class FourBitGrid:
    """A four-bit representation of gradients.

    Attributes:
        name: as in ``GRADIENT_GRIDS``.
        label: name in figures.
        values: the positive values, ascending.
        zero_below: smaller magnitudes become zero (with stochastic rounding some of them).
        rounding: function of float64 numbers [n], in units of the grid, and a seed.

    >>> GRADIENT_GRIDS["radix4_mean"].values[7:11]
    (0.75, 1.5, 3.0, 6.0)
    """

    name: str
    label: str
    values: tuple[float, ...]
    zero_below: float
    rounding: Callable[[np.ndarray, int], np.ndarray]

    def quantize(self, x: Any, scale: float = 1.0, seed: int = 0) -> np.ndarray:
        """Round(x · scale) / scale in float64; ``seed`` is for LUQ's random bits.

        >>> GRADIENT_GRIDS["radix2"].quantize([0.4, 0.3, 48.0], scale=2.0)
        array([ 0.5,  0. , 32. ])
        """
        scaled = np.asarray(x, np.float64) * check_positive("scale", scale)
        return self.rounding(scaled, seed) / scale


def _powers(radix: float, low: float) -> tuple[float, ...]:
    return tuple(low * radix**k for k in range(7))


def _mean(x: np.ndarray, seed: int) -> np.ndarray:
    even, odd = two_phase(x)
    return (even + odd) / 2


GRADIENT_GRIDS: dict[str, FourBitGrid] = {
    grid.name: grid
    for grid in (
        FourBitGrid(
            "int4", "INT4", tuple(_STEP * k for k in range(1, 8)), _STEP / 2,
            lambda x, seed: get("int4").quantize(x / _STEP) * _STEP,
        ),
        FourBitGrid(
            "radix2", "FP4 radix 2", _powers(2, 1.0), 0.75,
            lambda x, seed: LUQ(nearest=True).quantize(x, amax=RADIX4_MAX),
        ),
        FourBitGrid(
            "luq", "LUQ (radix 2, coin)", _powers(2, 1.0), 1.0, lambda x, seed: LUQ().quantize(x, seed, amax=RADIX4_MAX)
        ),
        FourBitGrid(
            "radix4_even", "FP4 radix 4, even", _powers(4, 1 / 64), 1 / 102.4, lambda x, seed: Radix4().quantize(x)
        ),
        FourBitGrid(
            "radix4_odd", "FP4 radix 4, odd", _powers(4, 1 / 128), 1 / 204.8, lambda x, seed: Radix4("odd").quantize(x)
        ),
        FourBitGrid(
            "radix4_mean", "mean of both phases", (1 / 256, *(0.75 * 2.0**k for k in range(-6, 7))), 1 / 204.8, _mean
        ),
    )
}  # fmt: skip
"""The grids by name; a new one is a new row."""


@dataclass(frozen=True)
class GridEffect:
    """The effect of a grid on a tensor, or its mean over several tensors.

    Attributes:
        zeroed: share of the elements other than zero that become zero.
        saturated: share of all elements beyond 64 in units of the grid (an overflow in GradScale).
        bias: Σ(|q| − |x|) / Σ|x|: below zero where magnitudes shrink.
        error: ‖q − x‖ / ‖x‖.
        cosine: of the angle between q and x; 0 where all is zero.
    """

    zeroed: float
    saturated: float
    bias: float
    error: float
    cosine: float

    @classmethod
    def mean(cls, effects: Sequence[GridEffect]) -> GridEffect:
        """The mean of each number.

        >>> GridEffect.mean([GridEffect(0, 0, 0, 0, 1), GridEffect(1, 0, -1, 1, 0)])
        GridEffect(zeroed=0.5, saturated=0.0, bias=-0.5, error=0.5, cosine=0.5)
        """
        return cls(*np.mean([astuple(effect) for effect in effects], axis=0).tolist())


def grid_effect(x: Any, grid: FourBitGrid | str, scale: float = 1.0, seed: int = 0) -> GridEffect:
    """The effect of a grid on a tensor that is multiplied by ``scale`` before rounding and divided by it afterwards.

    Args:
        x: finite numbers of any shape, at least one.
        grid: a grid or its name.
        scale: a positive number.
        seed: of LUQ's random bits.

    Raises:
        ValueError: an unknown grid, an infinite or missing element, a scale that is not positive.

    >>> grid_effect([64.0, 1.0, 0.5, 0.01], "radix2").zeroed, grid_effect([64.0, 1.0, 0.5, 0.01], "radix4_even").zeroed
    (0.5, 0.0)
    """
    if isinstance(grid, str):
        if grid not in GRADIENT_GRIDS:
            raise ValueError(f"unknown grid {grid!r}; allowed: {', '.join(GRADIENT_GRIDS)}")
        grid = GRADIENT_GRIDS[grid]
    x = np.asarray(x, np.float64).ravel()
    if not x.size or not np.isfinite(x).all():
        raise ValueError("x must be finite numbers, at least one")
    q, size = grid.quantize(x, scale, seed), np.abs(x)
    alive, total, norms = size > 0, size.sum(), np.linalg.norm(x) * np.linalg.norm(q)
    return GridEffect(
        zeroed=float(np.mean(q[alive] == 0)) if total else 0.0,
        saturated=float(np.mean(size * scale > RADIX4_MAX)),
        bias=float((np.abs(q) - size).sum() / total) if total else 0.0,
        error=float(np.linalg.norm(q - x) / np.linalg.norm(x)) if total else 0.0,
        cosine=float(q @ x / norms) if norms else 0.0,
    )
