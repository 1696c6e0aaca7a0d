"""Checks of arguments: the value in its Python type, or a ValueError that names the argument and what is allowed."""

from __future__ import annotations

from numbers import Real
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
    """A real number or an array-like of them as float64, or a ValueError; words, True and False are no numbers.

    >>> check_numbers("ranks", [1, 2])
    array([1., 2.])
    >>> check_numbers("ranks", "8")
    Traceback (most recent call last):
    ...
    ValueError: ranks must be a number or an array of numbers, got '8'
    """
    try:
        array = np.asarray(values)
    except ValueError:  # rows of several lengths
        array = np.empty(0, bool)  # which is refused
    has_bool = isinstance(values, list | tuple) and any(isinstance(value, bool | np.bool_) for value in values)
    has_long = array.dtype.kind == "O" and all(isinstance(value, int) for value in array.ravel())  # beyond 64 bits
    if has_bool or (array.dtype.kind not in "iuf" and not has_long):
        raise ValueError(f"{name} must be a number or an array of numbers, got {' '.join(repr(values).split())}")
    try:
        return array.astype(np.float64)
    except OverflowError:
        raise ValueError(f"{name} must be within the range of float64, got an integer beyond it") from None


def check_number(name: str, value: Any) -> float:
    """A single real number, or a ValueError that says so; arrays, words, True and False are none.

    Numbers of numpy become Python's: products of int8 or float16 would overflow.

    >>> check_number("batch", [1, 2])
    Traceback (most recent call last):
    ...
    ValueError: batch must be a number, got [1, 2]
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{name} must be a number, got {' '.join(repr(value).split())}")
    return value.item() if isinstance(value, np.generic) else value  # type: ignore[return-value]  # integers stay whole


def check_fields(made: Any, *names: str, of: str = "") -> dict[str, float]:
    """Fields of a frozen dataclass that is being made, by name: each becomes a single number (:func:`check_number`).

    Args:
        made: the object; its fields are set anew.
        names: of the fields.
        of: what a message adds to a name, as in " of a cluster".

    >>> from types import SimpleNamespace
    >>> made = SimpleNamespace(watts=np.float16(300))
    >>> check_fields(made, "watts"), type(made.watts).__name__
    ({'watts': 300.0}, 'float')
    """
    values = {name: check_number(f"{name}{of}", getattr(made, name)) for name in names}
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return values


def check_at_least(low: float, **values: Any) -> list[Any]:
    """Finite numbers of at least ``low``: a float for a number, float64 for an array; or a ValueError with the name.

    >>> check_at_least(0, watts=300, hours=[1, 2])
    [300.0, array([1., 2.])]
    >>> check_at_least(1, pue=0.9)
    Traceback (most recent call last):
    ...
    ValueError: pue must be finite and at least 1, got 0.9
    """
    found = {name: check_numbers(name, value) for name, value in values.items()}
    for name, numbers in found.items():
        wrong = ~(np.isfinite(numbers) & (numbers >= low))
        if wrong.any():
            raise ValueError(f"{name} must be finite and at least {low:g}, got {numbers[wrong][0]:g}")
    return [float(numbers) if numbers.ndim == 0 else numbers for numbers in found.values()]


def check_above(low: float, **values: Any) -> list[Any]:
    """Check that numbers are above a bound, as :func:`check_at_least` does for a bound that is allowed itself.

    >>> check_above(0, bytes_per_second=0)
    Traceback (most recent call last):
    ...
    ValueError: bytes_per_second must be more than 0, got 0
    """
    found = check_at_least(low, **values)
    for name, numbers in zip(values, found, strict=True):
        if not np.all(numbers > low):
            raise ValueError(f"{name} must be more than {low:g}, got {low:g}")
    return found


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
