"""Radix-4 FP4 for gradients, and two-phase rounding (Sun et al. 2020, sections 3.1 and 3.3).

Sign and three exponent bits, no mantissa: the magnitudes are seven powers of four, 1/64 … 64 in the even phase and half
of that in the odd phase. Both phases of a gradient are rounded from the same numbers: the even one is the operand of
the GEMM for dx, the odd one of the GEMM for dW, so that their errors can cancel.

The paper contradicts itself twice; parameters choose the reading:

===========  ==============  =======================================================================================
ties         "away"          upwards: the procedure of Fig. 2c, x → 1.6·x, take the exponent (the default)
             "toward_zero"   downwards: Eq. 1
underflow    "published"     zero below 0.625 · smallest value: what the procedure of Fig. 2c does (the default)
             "midpoint"      zero below 0.5 · smallest value: rounding to nearest, zero included
===========  ==============  =======================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from lplab.checks import check_positive
from lplab.formats import FloatFormat
from lplab.lookup import NamedSettings
from lplab.quantizers import array_inputs

PHASES = ("even", "odd")
TIES = ("away", "toward_zero")
UNDERFLOWS = ("published", "midpoint")
_BIASES = {"even": 4, "odd": 4.5}


@dataclass(frozen=True)
class Radix4(NamedSettings):
    """One phase of radix-4 FP4.

    Args:
        phase: "even" (±4^(e − 4)) or "odd" (half of it).
        ties, underflow: which reading of the paper; see :mod:`lplab.quantizers.radix4`.

    Saturates at 64 (32 in the odd phase), also for infinity. NaN stays NaN, zeros keep their sign.

    Raises:
        ValueError: an unknown ``phase``, ``ties`` or ``underflow``.

    >>> Radix4().quantize([0.1, 0.5, 3.9, 100.0]), Radix4("odd").quantize([0.1, 0.5, 3.9, 100.0])
    (array([6.25e-02, 2.50e-01, 4.00e+00, 6.40e+01]), array([ 0.125,  0.5  ,  2.   , 32.   ]))
    >>> Radix4().quantize(0.625), Radix4(ties="toward_zero").quantize(0.625)
    (1.0, 0.25)
    """

    phase: str = "even"
    ties: str = "away"
    underflow: str = "published"

    def __post_init__(self) -> None:
        for name, allowed in (("phase", PHASES), ("ties", TIES), ("underflow", UNDERFLOWS)):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be {' or '.join(map(repr, allowed))}, got {getattr(self, name)!r}")

    @property
    def format(self) -> FloatFormat:
        """The format that rounds."""
        return _format(self.phase, self.underflow)

    @array_inputs.no_torch_compile
    def quantize(self, x: Any, scale: float = 1.0) -> Any:
        """Round(x · scale) / scale, in the kind, shape and dtype of x.

        Args:
            x: numpy array, torch tensor, number or list. A tensor that requires a gradient gets it straight through.
            scale: a positive number, as :class:`~lplab.quantizers.GradScale` holds it; powers of two are exact.
        """
        return _rounded(x, scale, (self,))[0]


@cache  # one object per format: it owns the rounding tables
def _format(phase: str, underflow: str) -> FloatFormat:
    """With ``subnormals`` the threshold to zero is half the smallest value."""
    midpoint = underflow == "midpoint"
    return FloatFormat(3, 0, bias=_BIASES[phase], radix=4, subnormals=midpoint, specials="none")


@array_inputs.no_torch_compile
def two_phase(x: Any, scale: float = 1.0, *, ties: str = "away", underflow: str = "published") -> tuple[Any, Any]:
    """Round the same numbers in both phases: (even, odd), each Round(x · scale) / scale.

    Do not round the odd phase from the even result: it would always be one half of it.

    Args:
        x, scale: as :meth:`Radix4.quantize`.
        ties, underflow: which reading of the paper; see :mod:`lplab.quantizers.radix4`.

    >>> two_phase([0.2, 0.7, 2.6, -30.0])
    (array([  0.25,   1.  ,   4.  , -16.  ]), array([  0.125,   0.5  ,   2.   , -32.   ]))
    """
    even, odd = _rounded(x, scale, (Radix4("even", ties, underflow), Radix4("odd", ties, underflow)))
    return even, odd


def _rounded(x: Any, scale: float, phases: tuple[Radix4, ...]) -> list[Any]:
    xp, array, close = array_inputs.to_working_array(x)
    scale = check_positive("scale", scale)
    factor = array_inputs.number_like(xp, array, scale)
    with np.errstate(over="ignore", under="ignore"):  # overflow saturates in the format
        scaled = array if scale == 1 else xp.asarray(array * factor)
        if phases[0].ties == "toward_zero":  # one ulp towards zero moves ties down and changes no other case
            scaled = xp.asarray(xp.nextafter(scaled, xp.copysign(xp.zeros_like(scaled), scaled)))
        results = [phase.format.quantize(scaled, "nearest_away") for phase in phases]
        if scale != 1:
            results = [xp.divide(r, factor, out=r) for r in results]
        return [array_inputs.straight_through(x, close(r)) for r in results]


def reference_radix4(x: Any, multiplier: float = 1.6) -> np.ndarray:
    """The even phase by the procedure of Fig. 2c of the paper, in float64: the slow reference.

    Multiply by 1.6, take the integer part of the base-4 exponent. The threshold between 4^(n−1) and 4^n is then
    4^n / multiplier; With 1.6 it is the arithmetic midpoint, where the error is least (Fig. 2b).

    >>> reference_radix4([0.6249, 0.625, -40.0, 0.009])
    array([  0.25,   1.  , -64.  ,   0.  ])
    """
    x = np.asarray(x, np.float64)
    exponent = (np.frexp(multiplier * x)[1] - 1) // 2  # ⌊log4|y|⌋ of y = fraction · 2^e with fraction in [½, 1)
    power = np.ldexp(1.0, 2 * np.minimum(exponent, 3))
    magnitude = np.where((exponent < -3) | (x == 0), 0.0, power)
    magnitude = np.where(np.isinf(x), 64.0, magnitude)
    return np.where(np.isnan(x), np.nan, np.copysign(magnitude, x))
