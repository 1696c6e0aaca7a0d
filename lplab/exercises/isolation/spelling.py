"""Plain values as Python text that makes an equal value: what an answer takes along of a notebook's constants."""

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

MOST_NUMBERS = 4096  # of an array
LONGEST = 100_000  # characters of one value
MODULES = ("numpy", "fractions", "decimal")  # that the text may name


class NotPlainError(ValueError):
    """The value cannot be written as text; the message says what it is, such as "a DataFrame"."""


def spell(value: Any) -> str:
    """Text that makes ``value`` again, where numpy, fractions and decimal are imported.

    Numbers, text, None, lists, tuples, sets, dicts, numpy scalars, dtypes and arrays of up to 4,096 numbers are plain;
    everything else raises :class:`NotPlainError`.

    >>> spell({"bias": 7, "largest": np.float32(448), "nan": [float("nan"), -0.0]})
    "{'bias': 7, 'largest': numpy.dtype('<f4').type(448.0), 'nan': [float('nan'), -0.0]}"
    """
    try:
        text = _spell(value)
    except RecursionError:
        raise NotPlainError("a value that contains itself, or is nested too deeply") from None
    if len(text) > LONGEST:
        raise NotPlainError(f"a {type(value).__name__} of {len(text):,} characters")
    return text


def _spell(value: Any) -> str:
    kind = type(value)
    if value is None or value is ... or kind in (bool, int, str, bytes, range):
        return repr(value)
    if kind is float:
        return repr(value) if np.isfinite(value) else f"float('{value}')"
    if kind is complex:
        return f"complex({_spell(value.real)}, {_spell(value.imag)})"
    if isinstance(value, np.generic | np.dtype) or kind is np.ndarray:
        return _spell_numpy(value)
    if kind in (list, tuple, set, frozenset, dict):
        return _spell_container(value)
    if kind is slice:
        return f"slice({_spell_all((value.start, value.stop, value.step))})"
    if kind is Fraction:
        return f"fractions.Fraction({value.numerator}, {value.denominator})"
    if kind is Decimal:
        return f"decimal.Decimal('{value}')"
    raise NotPlainError(described(value))


def _spell_all(values: Iterable[Any]) -> str:
    return ", ".join(map(_spell, values))


def _spell_container(value: Any) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{_spell(key)}: {_spell(part)}" for key, part in value.items()) + "}"
        case list():
            return f"[{_spell_all(value)}]"
        case tuple():
            return f"({_spell_all(value)}{',' * (len(value) == 1)})"
    return f"{type(value).__name__}([{_spell_all(sorted(value, key=repr))}])"


def _spell_numpy(value: Any) -> str:
    dtype = value if isinstance(value, np.dtype) else value.dtype
    if dtype.kind not in "biufcU" or np.dtype(dtype.str) != dtype:
        raise NotPlainError(f"{described(value)} of dtype {dtype}")
    named = f"numpy.dtype({dtype.str!r})"
    if isinstance(value, np.dtype):
        return named
    if isinstance(value, np.generic):
        return f"{named}.type({_spell(value.item())})"
    if value.size > MOST_NUMBERS:
        raise NotPlainError(f"an array of {value.size:,} numbers")
    return f"numpy.array({_spell(value.ravel().tolist())}, {named}).reshape({value.shape})"


def described(value: Any) -> str:
    """The type of ``value`` with its article."""
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
