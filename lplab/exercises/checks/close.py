"""Results that rounding may take apart: whether they are close enough, and how to say that they are not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lplab.exercises.checks.numbers import MINUS, decimal
from lplab.exercises.exercise import Args

ROOM = 1e-12  # relative: fewer than a thousand operations, each off by at most 2^−53; and sums of positive numbers
EXACT = 17  # digits: enough for any number of float64
SINGLE = 2.0**-20  # relative: what a few operations in float32 leave


def close_to(reference: Callable[..., Any], names: Sequence[str]) -> Callable[[Args, Any], str]:
    """An ``accept`` of an exercise whose function returns one number for each of ``names``.

    >>> close_to(lambda x: (x, 2 * x), ("length", "area"))((3.0,), (3.0, 5.0))
    'The area is 5, expected 6.'
    """

    def accept(args: Args, result: Any) -> str:
        wanted = reference(*(part.copy() if isinstance(part, np.ndarray) else part for part in args))
        for name, yours, right in zip(names, result, wanted, strict=True):
            if not abs(float(yours) - float(right)) <= ROOM * abs(float(right)):
                texts = told_apart(yours, right)
                return f"The {name} is {texts[0]}, expected {texts[1]}{in_single(yours, right)}."
        return ""

    return accept


def told_apart(yours: Any, expected: Any) -> tuple[str, str]:
    """Two numbers with as many digits as tell them apart, six at least.

    >>> told_apart(5, 6.0), told_apart(1.81818187, 20 / 11)
    (('5', '6'), ('1.8181819', '1.8181818'))
    """
    digits = 6
    while digits < EXACT and shown(yours, digits) == shown(expected, digits):
        digits += 1
    return shown(yours, digits), shown(expected, digits)


def in_single(yours: Any, expected: Any) -> str:
    """A clause for two numbers that differ as float32 does, or "".

    >>> in_single(1.8181819, 20 / 11), in_single(1.8, 20 / 11)
    ('; so small a difference is that of float32: compute in float64', '')
    """
    near = abs(float(yours) - float(expected)) <= SINGLE * abs(float(expected))
    return "; so small a difference is that of float32: compute in float64" if near else ""


def shown(value: Any, digits: int = 6) -> str:
    """A number to so many digits, thousands apart, with a real minus sign.

    >>> shown(1289412.0), shown(0.000123456789), shown(-2.5), shown(math.nan)
    ('1,289,410', '0.000123457', '−2.5', 'NaN')
    """
    if not math.isfinite(float(value)):
        return decimal(float(value))
    number = float(f"{float(value):.{digits}g}")
    text = f"{number:,.0f}" if abs(number) >= 1e5 and number == round(number) else f"{number:,.{digits}g}"
    return text.replace("-", MINUS)
