"""All codes of a format as a table; of wide formats the landmarks."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np

from lplab import number_text
from lplab.figures.grid import LISTED_BITS, element_of, neighbours
from lplab.figures.statistics import as_format
from lplab.formats.coding import bits_text

LIMIT = 256  # codes listed one by one; wider formats show their landmarks
_DECIMALS = 15  # characters of a value in its column


def codebook_table_data(fmt: Any, limit: int = LIMIT) -> np.ndarray:
    """The cells as text, shape [5, rows]: code, bits by field, value, kind, and the step to the next value.

    >>> codebook_table_data("e2m1")[:, 3].tolist()
    ['0x3', '0 01 1', '1.5', 'normal', '0.5']
    """
    element = element_of(as_format(fmt))
    codes = np.arange(2**element.bits) if 2**element.bits <= limit else _landmarks(element)
    values = np.asarray(element.decode(codes), np.float64)
    finite = np.isfinite(values)
    below, above = neighbours(element, np.where(finite, values, 0.0))
    step = np.where(finite & (values < element.max), above - below, np.nan)
    digits = -(-element.bits // 4)
    rows = [
        (f"0x{code:0{digits}X}", bits_text(code, element), _value(value), kind(value, element), _step(gap))
        for code, value, gap in zip(codes.tolist(), values.tolist(), step.tolist(), strict=True)
    ]
    return np.array(rows, dtype=str).T


def _landmarks(fmt: Any) -> np.ndarray:
    """The codes shown of a wide format: the ends of the ranges, the neighbours of 1, the special codes."""
    below_normal = float(fmt.quantize(float(np.nextafter(fmt.smallest_normal, 0.0)), "toward_zero"))
    points = [0.0, fmt.smallest_subnormal, below_normal, fmt.smallest_normal, fmt.max, fmt.min]
    if fmt.min <= 1 <= fmt.max:
        below, above = neighbours(fmt, np.array([float(np.nextafter(1.0, 0.0)), 1.0]))
        points += [float(below[0]), float(above[0]), float(above[1])]
    values = np.unique(np.array(points))
    codes = np.asarray(fmt.encode(values)).astype(np.int64)
    if fmt.bits <= LISTED_BITS:  # the first code of each special value
        book = fmt.codebook()
        special = (np.isnan(book), book == np.inf, book == -np.inf, (book == 0) & np.signbit(book))
        codes = np.concatenate([codes, *(np.flatnonzero(mask)[:1] for mask in special)])
    return np.unique(codes)


def _value(value: float) -> str:
    return f"{number_text.MINUS}0" if value == 0 and math.copysign(1, value) < 0 else exact(value)


def _step(gap: float) -> str:
    return exact(gap) if math.isfinite(gap) else "–"


def exact(value: float) -> str:
    """A number with all its decimals while those are few, else as an odd whole number times a power of two: exact.

    >>> exact(0.017578125), exact(-448.0), exact(2.0**-9), exact(3 * 2.0**-20)
    ('0.017578125', '−448', '0.001953125', '3×2⁻²⁰')
    """
    if not math.isfinite(value):
        return number_text.number(value, plain=True)
    text = format(Decimal(value), "f")
    if len(text) > _DECIMALS:
        over, under = value.as_integer_ratio()
        twos = (over & -over).bit_length() - 1
        power = number_text.power(twos - (under.bit_length() - 1), plain=True)
        text = number_text.raised(
            f"{over >> twos}×{power}" if abs(over >> twos) != 1 else power.replace("2", "-2", 1) if over < 0 else power
        )
    return text.replace("-", number_text.MINUS)


def kind(value: float, fmt: Any) -> str:
    """What a value is: normal, subnormal, zero, infinity or NaN.

    >>> from lplab import formats
    >>> kind(0.001953125, formats.get("e4m3fn"))
    'subnormal'
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "infinity"
    if value == 0:
        return "zero"
    return "normal" if abs(value) >= fmt.smallest_normal else "subnormal"
