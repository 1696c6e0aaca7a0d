"""The numbers of a format as a test set, and what is special about any number on that line.

Random numbers hardly ever hit a tie; all numbers, all midpoints and both neighbours of each do.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lplab.exercises.checks.numbers import decimal

EDGES = (0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, -5e-324, 1e300, -1e300, 0.1, -0.1, 1 / 3)


def grid(fmt: Any) -> np.ndarray:
    """All finite numbers of a format, in order, each once (zero counts once)."""
    values = fmt.codebook()
    return np.unique(values[np.isfinite(values)]) + 0.0


def boundary_values(fmt: Any, *, specials: bool = True, dtype: type = np.float64) -> np.ndarray:
    """Every number of the format, every midpoint, both neighbours of each, and values beyond both ends.

    Args:
        fmt: a format with a codebook.
        specials: whether to add ±0, ±inf, NaN and some extremes.
        dtype: whose neighbours are taken, float64 or float32. Those of float32 leave room for one exact addition in
            float64, such as that of half a step.

    >>> from lplab import formats as F
    >>> len(boundary_values(F.get("e2m1"), specials=False))
    129
    """
    numbers = grid(fmt)
    middles = (numbers[:-1] + numbers[1:]) / 2
    beyond = np.array(
        [side * factor for side in (numbers[0], numbers[-1]) for factor in (1.02, 33 / 32, 1.04, 17 / 16, 1.1, 2, 100)]
    )
    points = np.concatenate([numbers, middles, beyond])
    points = points.astype(dtype)
    points = np.concatenate([points, np.nextafter(points, dtype(-np.inf)), np.nextafter(points, dtype(np.inf))])
    points = points.astype(np.float64)
    if specials:
        points = np.concatenate([points, EDGES])
    _, first = np.unique(points.view(np.uint64), return_index=True)
    return points[np.sort(first)]


def neighbours(numbers: np.ndarray, x: float) -> tuple[float, float]:
    """The grid's numbers on both sides of x (twice x itself if it is one of them)."""
    above = int(np.searchsorted(numbers, x))
    if numbers[above] == x:
        return x, x
    return float(numbers[above - 1]), float(numbers[above])


def kind(fmt: Any, x: float) -> str:
    """What kind of case x is, as a plural; "" for an ordinary one.

    >>> from lplab import formats as F
    >>> e2m1 = F.get("e2m1")
    >>> kind(e2m1, 2.5), kind(e2m1, 3.0), kind(e2m1, 100.0), kind(e2m1, 2.2)
    ('ties', 'numbers of the format itself', 'values beyond the largest number', '')
    """
    if math.isnan(x):
        return "NaNs"
    if x == 0:
        return "zeros"
    numbers = grid(fmt)
    if not numbers[0] <= x <= numbers[-1]:
        return "values beyond the largest number"
    low, high = neighbours(numbers, x)
    if low == high:
        return "numbers of the format itself"
    middle = (low + high) / 2
    if x == middle:
        return "ties"
    if abs(x - middle) <= 2.0**-22 * (high - low):
        return "values right beside a tie"
    if abs(x) < getattr(fmt, "smallest_normal", 0):
        return "subnormal values"
    return ""


def reason(fmt: Any, x: float, expected: float) -> str:
    """Why x is special for someone who rounds it to the format, in one or two sentences.

    >>> from lplab import formats as F
    >>> reason(F.get("e2m1"), 2.5, 2.0)
    'x lies exactly halfway between 2 (0 10 0) and 3 (0 10 1).'
    """
    name = kind(fmt, x)
    if name == "NaNs":
        return "Not a number stays not a number."
    if name == "zeros":
        return "Zero keeps its sign: −0 is a number of its own." if math.copysign(1, x) < 0 else "Zero is zero."
    numbers = grid(fmt)
    if name == "values beyond the largest number":
        end = decimal(float(numbers[-1] if x > 0 else numbers[0]))
        return f"The numbers end at {end}; whatever lies beyond becomes {decimal(expected)}."
    if name == "numbers of the format itself":
        return "x is a number of the format already, so nothing may change."
    low, high = neighbours(numbers, x)
    where = f"between {with_bits(fmt, low)} and {with_bits(fmt, high)}"
    if name == "ties":
        return f"x lies exactly halfway {where}."
    if name == "values right beside a tie":
        side = "above" if x > (low + high) / 2 else "below"
        return f"x lies {where}, the smallest possible step {side} the halfway point {decimal((low + high) / 2)}."
    return f"x lies {where}; {decimal(expected)} is nearer." if expected in (low, high) else f"x lies {where}."


def with_bits(fmt: Any, value: float) -> str:
    """A number with the bits of its code, if the format has codes; otherwise the number alone."""
    bits = bits_of(fmt, value)
    return f"{decimal(value)} ({bits})" if bits else decimal(value)


def bits_of(fmt: Any, value: float) -> str:
    """The code of a number in bits, fields apart; "" if the format cannot hold the number.

    >>> from lplab import formats as F
    >>> bits_of(F.get("e4m3fn"), 0.3125), bits_of(F.get("e4m3fn"), 0.3), bits_of(F.get("q2.2"), -0.5)
    ('0 0101 010', '', '1110')
    """
    if math.isnan(value) or float(fmt.quantize(value)) != value:
        return ""
    try:
        code = int(fmt.encode(value))
    except ValueError:  # no code for NaN or infinity
        return ""
    text = f"{code:0{fmt.bits}b}"
    exponent_bits = getattr(fmt, "exponent_bits", 0)
    return f"{text[0]} {text[1 : 1 + exponent_bits]} {text[1 + exponent_bits :]}".strip() if exponent_bits else text
