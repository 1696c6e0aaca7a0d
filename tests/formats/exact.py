"""Rounding by definition, in rational numbers: written from the papers, sharing no line with lplab.formats.

A format is the list of its values with the parity of their codes; rounding finds the two neighbours and applies
one sentence.
"""

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from lplab import formats as F


@dataclass(frozen=True)
class Ruler:
    """The non-negative values of a format in rising order, the parity of each code, and what larger numbers become."""

    values: list[Fraction]
    odd: list[bool]
    beyond: float | None  # None: saturates
    infinite: float | None  # what infinity becomes; None: the largest value
    flushed_below: Fraction = Fraction(0)
    cuts: list[Fraction] | None = None  # thresholds of nearest rounding where they are not the midpoints
    never_zero: bool = False


def float_ruler(f: F.FloatFormat) -> Ruler:
    """(−1)^s · radix^(E − bias) · significand, code by code."""
    e, m, radix = f.exponent_bits, f.mantissa_bits, f.radix
    bias = Fraction(f.bias)
    reserved = {"ieee": 2**m, "fn": 1, "fnuz": 0, "none": 0, "p3109": 1, "dlfloat": 1}[f.specials] + (not f.signed)
    values, odd = [], []
    for code in range(2 ** (e + m) - reserved + 1):  # and one code more, where overflow begins
        field, fraction = code >> m, Fraction(code % 2**m, 2**m)
        if field == 0 and f.specials == "dlfloat":
            significand, exponent = (1 + (radix - 1) * fraction if code else Fraction(0)), -bias
        elif field == 0:
            significand, exponent = (fraction if f.subnormals else Fraction(0)), 1 - bias
        else:
            significand, exponent = 1 + (radix - 1) * fraction, field - bias
        values.append(significand * power(radix, exponent))
        odd.append(code % 2 == 1)
    beyond = None if f.saturating else np.inf if f.specials in ("ieee", "p3109", "dlfloat") else np.nan
    if beyond is None:
        values.pop(), odd.pop()
    smallest = next(v for v in values if v)
    if not f.subnormals:  # as if one binade more existed; what rounds to it is flushed
        first = power(radix, 1 - bias)
        if f.specials == "dlfloat":  # the lowest binade is normal but for its first number, whose code is that of zero
            first = power(radix, -bias)
        extra = [first / radix * (1 + (radix - 1) * Fraction(k, 2**m)) for k in range(2**m)] + [first] * (
            first < smallest
        )
        keep = [i for i, v in enumerate(values) if v]
        extra_odd = [odd[keep[0]] ^ ((len(extra) - k) % 2 == 1) for k in range(len(extra))]  # codes go on downwards
        values, odd = [Fraction(0), *extra, *(values[i] for i in keep)], [False, *extra_odd, *(odd[i] for i in keep)]
    return Ruler(values, odd, beyond, beyond, Fraction(0) if f.subnormals else smallest)


def power(base: int, exponent: Fraction) -> Fraction:
    """base^exponent; with base 4 the exponent may be half an integer."""
    whole = exponent * (1 if base == 2 else 2)
    assert whole.denominator == 1
    return Fraction(2) ** int(whole)


def posit_ruler(f: F.PositFormat) -> Ruler:
    """Decode the bit strings; thresholds are the posits with one bit more (nearest even on the bit string)."""
    count = 2 ** (f.bits - 1)
    values = [posit_value(c, f.bits, f.exponent_size) for c in range(count)]
    cuts = [posit_value(2 * c + 1, f.bits + 1, f.exponent_size) for c in range(count - 1)]
    return Ruler(values, [c % 2 == 1 for c in range(count)], None, np.nan, cuts=cuts, never_zero=True)


def posit_value(code: int, bits: int, es: int) -> Fraction:
    """A non-negative posit from its bit string, decoded as in the standard."""
    if code == 0:
        return Fraction(0)
    string = format(code, f"0{bits}b")[1:]
    run = len(string) - len(string.lstrip(string[0]))
    regime = run - 1 if string[0] == "1" else -run
    rest = string[run + 1 :]
    exponent = int((rest[:es] + "0" * es)[:es] or "0", 2)
    fraction = rest[es:]
    return Fraction(2) ** (regime * 2**es + exponent) * (1 + Fraction(int(fraction or "0", 2), 2 ** len(fraction)))


def value_ruler(f: F.Format, values: list[Fraction]) -> Ruler:
    """Plain sets of non-negative values with codes 0, 1, 2 … (fixed point, integers)."""
    return Ruler(values, [i % 2 == 1 for i in range(len(values))], None, None)


def round_magnitude(x: Fraction, r: Ruler, mode: str, negative: bool) -> Fraction | float:
    """Each rounding mode by its definition; x > 0."""
    values = r.values
    lower = bisect_right(values, x) - 1
    if lower == len(values) - 1:
        result: Fraction | float = values[-1] if r.beyond is None else _beyond(r, mode, negative)
    elif values[lower] == x:
        result = values[lower]
    else:
        low, high = values[lower], values[lower + 1]
        cut = r.cuts[lower] if r.cuts else (low + high) / 2
        up = {
            "nearest_even": x > cut or (x == cut and r.odd[lower]),
            "nearest_away": x >= cut,
            "nearest_down": x > cut or (x == cut and negative),
            "toward_zero": False,
            "up": not negative,
            "down": negative,
            "to_odd": not r.odd[lower],
        }[mode]
        result = high if up else low
        if up and r.beyond is not None and lower == len(values) - 2:
            result = _beyond(r, mode, negative)
    if r.never_zero and result == 0:
        return values[1]
    return Fraction(0) if not isinstance(result, float) and result < r.flushed_below else result


def _beyond(r: Ruler, mode: str, negative: bool) -> Fraction | float:
    """IEEE 754 section 7.4: modes that do not round away on this side stop at the largest value.

    To odd: as section 4.7.5 of P3109's interim report, which sends numbers beyond an even largest code to infinity.
    """
    to_odd = mode == "to_odd" and (r.odd[-2] or np.isnan(r.beyond))
    return r.values[-2] if to_odd or mode in ("toward_zero", "up" if negative else "down") else r.beyond


def quantize(x: np.ndarray, positive: Ruler, negative: Ruler, mode: str, negative_zero: bool) -> np.ndarray:
    """Round float64 numbers one by one; ``negative`` describes the magnitudes of negative numbers."""
    return np.array([_one(v, negative if np.signbit(v) else positive, mode, negative_zero) for v in x.tolist()])


def _one(v: float, r: Ruler, mode: str, negative_zero: bool) -> float:
    sign = -1.0 if np.signbit(v) else 1.0
    if np.isnan(v):
        return np.nan
    if np.isinf(v):
        size = float(r.values[-1]) if r.infinite is None else r.infinite
    else:
        size = 0.0 if v == 0 else float(round_magnitude(abs(Fraction(v)), r, mode, sign < 0))
    return sign * size if size or negative_zero else 0.0
