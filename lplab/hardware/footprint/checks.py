"""Checks of numbers: a ValueError that names the argument and what is allowed."""

from __future__ import annotations

import numpy as np


def check_at_least(low: float, **values: object) -> None:
    """Raise ValueError if a number, or one of an array, is below ``low``, not finite or no number at all.

    >>> check_at_least(0, watts=300.0, hours=[1, 2])
    >>> check_at_least(1, pue=0.9)
    Traceback (most recent call last):
    ...
    ValueError: pue must be finite and at least 1, got 0.9
    """
    for name, value in values.items():
        try:
            numbers = np.asarray(value, np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"{name} must be a number, got {value!r}") from None
        if not (np.isfinite(numbers) & (numbers >= low)).all():
            raise ValueError(f"{name} must be finite and at least {low:g}, got {value}")


def check_above(low: float, **values: object) -> None:
    """Like `check_at_least`, without the bound itself.

    >>> check_above(0, bytes_per_second=0)
    Traceback (most recent call last):
    ...
    ValueError: bytes_per_second must be more than 0, got 0
    """
    check_at_least(low, **values)
    for name, value in values.items():
        if not (np.asarray(value, np.float64) > low).all():
            raise ValueError(f"{name} must be more than {low:g}, got {value}")
