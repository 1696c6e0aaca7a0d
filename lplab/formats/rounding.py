"""How a number between two neighbours of a format chooses one of them.

A number is first truncated to ``kept`` whole units of the spacing around it; ``fraction`` in [0, 1) is the rest. A
rounding mode decides whether to add one unit, away from zero. Every mode is one line of :func:`rounds_away`; all
paths of the library (reference, array, compiled) compute the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

ROUNDINGS = (
    "nearest_even",  # IEEE 754 roundTiesToEven
    "nearest_away",  # ties away from zero
    "nearest_down",  # ties towards minus infinity (Gupta 2015, section 3.1)
    "toward_zero",
    "up",  # towards plus infinity
    "down",  # towards minus infinity
    "to_odd",  # inexact results get an odd last bit (P3109; makes a later, coarser rounding exact)
    "stochastic",
)
VARIANTS = ("A", "B", "C")
NEAREST = ROUNDINGS[:3]
# Smaller fractions of a unit count as this one: modes only need to know that the fraction is not zero.
MIN_FRACTION = 2.0**-100


@dataclass(frozen=True)
class Rounding:
    """A rounding mode; for ``"stochastic"`` also the number of random bits for each element, and the variant.

    The variants are those of IEEE P3109 (interim report 4.0) with N random bits R and the fraction f that is cut off:

    ====  ==================================  ==============================================================
    A     ⌊f·2^N⌋ + R ≥ 2^N                   what hardware often does; **biased towards zero** by up to 2^−N
    B     ⌊f·2^(N+1)⌋ + 2R + 1 ≥ 2^(N+1)      half a random bit added: bias at most 2^−(N+1), either way
    C     round(f·2^N) + R ≥ 2^N              unbiased on average over f (ties of round() go to even)
    ====  ==================================  ==============================================================

    >>> Rounding("stochastic", random_bits=8, variant="A")
    Rounding(mode='stochastic', random_bits=8, variant='A')
    >>> Rounding("neerest")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: unknown rounding 'neerest'; allowed: nearest_even, nearest_away, nearest_down, toward_zero, up, ...
    """

    mode: str = "nearest_even"
    random_bits: int = 16
    variant: str = "C"

    def __post_init__(self) -> None:
        if self.mode not in ROUNDINGS:
            raise ValueError(f"unknown rounding {self.mode!r}; allowed: {', '.join(ROUNDINGS)}")
        is_integer = isinstance(self.random_bits, int) and not isinstance(self.random_bits, bool)
        if not is_integer or not 1 <= self.random_bits <= 24:
            raise ValueError(f"random_bits must be an integer from 1 to 24, got {self.random_bits!r}")
        if self.variant not in VARIANTS:
            raise ValueError(f"unknown stochastic variant {self.variant!r}; allowed: {', '.join(VARIANTS)}")

    @property
    def is_stochastic(self) -> bool:
        """Whether the mode needs random bits."""
        return self.mode == "stochastic"

    @property
    def code(self) -> str:
        """The mode; for stochastic rounding with its variant, as in ``"stochastic_C"``. Kernels are chosen by it."""
        return f"stochastic_{self.variant}" if self.is_stochastic else self.mode


def as_rounding(rounding: str | Rounding, random_bits: int = 16, variant: str = "C") -> Rounding:
    """The :class:`Rounding` of this name; a ``Rounding`` is returned unchanged.

    >>> as_rounding("up").mode, as_rounding(Rounding("down")).mode
    ('up', 'down')
    """
    if isinstance(rounding, Rounding):
        return rounding
    if type(rounding) is str and type(random_bits) is int and type(variant) is str:
        return _rounding_named(rounding, random_bits, variant)
    return Rounding(rounding, random_bits, variant)


@lru_cache(maxsize=512)
def _rounding_named(mode: str, random_bits: int, variant: str) -> Rounding:
    return Rounding(mode, random_bits, variant)


def overflow_stays_finite(rounding: Rounding, negative: bool, largest_is_odd: bool) -> bool:
    """Whether a finite number beyond the largest value becomes that value, although the format has an infinity.

    As IEEE 754 section 7.4: a mode that never rounds away from zero on this side cannot reach infinity. To odd, the one
    of the two whose code is odd is taken: infinity in P3109's signed formats, the largest value in the unsigned ones
    (section 4.7.5 of its interim report) and in those of IEEE 754.

    >>> [overflow_stays_finite(Rounding("down"), negative, largest_is_odd=True) for negative in (False, True)]
    [True, False]
    """
    return rounding.mode in ("toward_zero", "up" if negative else "down") or (
        rounding.mode == "to_odd" and largest_is_odd
    )


def rounds_away(xp: Any, rounding: Rounding, odd: Any, fraction: Any, negative: Any, draws: Any = None) -> Any:
    """Whether to go one unit away from zero: one formula a mode, for whole arrays.

    Args:
        xp: the array library (numpy or torch).
        rounding: the mode.
        odd: bool array: is the code of the smaller neighbour odd?
        fraction: float array in [0, 1): what was cut off, in units of the spacing.
        negative: bool array: sign of the number.
        draws: int array of uniform random integers below 2**random_bits, for stochastic rounding alone.

    >>> import numpy as np
    >>> odd, negative = np.array([False, True]), np.array([False, False])
    >>> rounds_away(np, Rounding("nearest_even"), odd, np.array([0.5, 0.5]), negative)
    array([False,  True])
    """
    match rounding.code:
        case "nearest_even":
            return (fraction > 0.5) | ((fraction == 0.5) & odd)
        case "nearest_away":
            return fraction >= 0.5
        case "nearest_down":
            return (fraction > 0.5) | ((fraction == 0.5) & negative)
        case "toward_zero":
            return fraction < 0  # never
        case "up":
            return (fraction > 0) & ~negative
        case "down":
            return (fraction > 0) & negative
        case "to_odd":
            return (fraction > 0) & ~odd
    # Stochastic: the fraction, in steps of 2^−N, against one of 2^N equally likely draws. All exact in float32.
    steps = fraction * 2**rounding.random_bits
    if rounding.variant == "A":
        steps = xp.floor(steps)
    elif rounding.variant == "B":
        steps = xp.floor(steps) + (steps - xp.floor(steps) >= 0.5)
    else:
        steps = xp.round(steps)
    return steps >= 2**rounding.random_bits - draws
