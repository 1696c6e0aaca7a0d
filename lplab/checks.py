"""Checks of arguments: the value in its Python type, or a ValueError that names the argument and what is allowed."""

from __future__ import annotations

from typing import Any

import numpy as np


def check_int(name: str, value: Any, low: int, high: int) -> int:
    """The value of an integer argument, or a ValueError that says what is allowed.

    >>> check_int("bits", 0, 1, 32)
    Traceback (most recent call last):
    ...
    ValueError: bits must be an integer from 1 to 32, got 0
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
        raise ValueError(f"{name} must be an integer from {low} to {high}, got {value!r}")
    return int(value)


def check_numbers(name: str, values: Any) -> np.ndarray:
    """A real number or an array-like of them as float64, or a ValueError that says so; words are no numbers.

    >>> check_numbers("ranks", [1, 2])
    array([1., 2.])
    >>> check_numbers("ranks", "8")
    Traceback (most recent call last):
    ...
    ValueError: ranks must be a number or an array of numbers, got '8'
    """
    array = np.asarray(values)
    has_long = array.dtype.kind == "O" and all(isinstance(value, int) for value in array.ravel())  # beyond 64 bits
    if array.dtype.kind not in "iuf" and not has_long:
        raise ValueError(f"{name} must be a number or an array of numbers, got {values!r}")
    try:
        return array.astype(np.float64)
    except OverflowError:
        raise ValueError(f"{name} must be within the range of float64, got an integer beyond it") from None


def check_positive(name: str, value: Any) -> float:
    """A positive finite number as a float, or a ValueError that says so.

    >>> check_positive("scale", -1)
    Traceback (most recent call last):
    ...
    ValueError: scale must be a positive finite number, got -1
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < value < np.inf:
        raise ValueError(f"{name} must be a positive finite number, got {value!r}")
    return float(value)
