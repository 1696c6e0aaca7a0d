"""Results that may differ by rounding: whether they are close enough, and the message if they are not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lplab.exercises.checks.numbers import MINUS, decimal
from lplab.exercises.model.exercise import Args

TOLERANCE = 1e-12  # relative: fewer than a thousand operations, each off by at most 2^−53; and sums of positive numbers
EXACT = 17  # digits: enough for any number of float64
SINGLE = 2.0**-20  # relative: the error of a few operations in float32


def close_to(reference: Callable[..., Any], names: Sequence[str]) -> Callable[[Args, Any], str]:
    """An ``accept`` of an exercise whose function returns one number for each of ``names``.

    >>> close_to(lambda x: (x, 2 * x), ("length", "area"))((3.0,), (3.0, 5.0))
    'The area is 5, expected 6.'
    """

    def accept(args: Args, result: Any) -> str:
        wanted = reference(*(part.copy() if isinstance(part, np.ndarray) else part for part in args))
        for name, yours, right in zip(names, result, wanted, strict=True):
            if not abs(float(yours) - float(right)) <= TOLERANCE * abs(float(right)):
                texts = distinct_texts(yours, right)
                return f"The {name} is {texts[0]}, expected {texts[1]}{float32_hint(yours, right)}."
        return ""

    return accept


def distinct_texts(yours: Any, expected: Any) -> tuple[str, str]:
    """Two numbers with as many digits as make their texts differ, at least six.

    >>> distinct_texts(5, 6.0), distinct_texts(1.81818187, 20 / 11)
    (('5', '6'), ('1.8181819', '1.8181818'))
    """
    digits = 6
    while digits < EXACT and rounded_text(yours, digits) == rounded_text(expected, digits):
        digits += 1
    return rounded_text(yours, digits), rounded_text(expected, digits)


def float32_hint(yours: Any, expected: Any) -> str:
    """A clause for two numbers that differ as float32 does, or "".

    >>> float32_hint(1.8181819, 20 / 11), float32_hint(1.8, 20 / 11)
    ('; so small a difference is that of float32: compute in float64', '')
    """
    near = abs(float(yours) - float(expected)) <= SINGLE * abs(float(expected))
    return "; so small a difference is that of float32: compute in float64" if near else ""


def rounded_text(value: Any, digits: int = 6) -> str:
    """A number rounded to ``digits`` significant digits, with thousands separators and a minus sign.

    >>> rounded_text(1289412.0), rounded_text(0.000123456789), rounded_text(-2.5), rounded_text(math.nan)
    ('1,289,410', '0.000123457', '−2.5', 'NaN')
    """
    if not math.isfinite(float(value)):
        return decimal(float(value))
    number = float(f"{float(value):.{digits}g}")
    text = f"{number:,.0f}" if abs(number) >= 1e5 and number == round(number) else f"{number:,.{digits}g}"
    return text.replace("-", MINUS)
