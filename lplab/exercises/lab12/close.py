"""Results in joules and tonnes: equal but for what floating-point rounding can do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lplab.exercises.exercise import Args

ROOM = 1e-12  # relative: fewer than a thousand operations, each off by at most 2^−53; and sums of positive numbers


def close_to(reference: Callable[..., Any], names: Sequence[str]) -> Callable[[Args, Any], str]:
    """An ``accept`` of an exercise whose function returns one number for each of ``names``.

    >>> close_to(lambda x: (x, 2 * x), ("length", "area"))((3.0,), (3.0, 5.0))
    'The area is 5, expected 6.'
    """

    def accept(args: Args, result: Any) -> str:
        wanted = reference(*(part.copy() if isinstance(part, np.ndarray) else part for part in args))
        for name, yours, right in zip(names, result, wanted, strict=True):
            if not abs(float(yours) - float(right)) <= ROOM * abs(float(right)):
                return f"The {name} is {shown(yours)}, expected {shown(right)}."
        return ""

    return accept


def shown(value: Any) -> str:
    """A number to six digits, thousands apart, with a real minus sign.

    >>> shown(1289412.0), shown(0.000123456789), shown(-2.5)
    ('1,289,410', '0.000123457', '−2.5')
    """
    number = float(f"{float(value):.6g}")
    text = f"{number:,.0f}" if abs(number) >= 1e5 and number == round(number) else f"{number:,.6g}"
    return text.replace("-", "\N{MINUS SIGN}")
