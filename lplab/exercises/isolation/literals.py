"""Plain values as Python literals: how a notebook's constants get into the source of an answer."""

import builtins
import types
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Union, get_args, get_origin

import numpy as np

MAX_NUMBERS = 4096  # of an array
MAX_CHARACTERS = 100_000  # characters of one value
MODULES = ("numpy", "fractions", "decimal")  # that the text may name


class NotPlainError(ValueError):
    """The value has no literal; the message names its type, such as "a DataFrame"."""


def to_literal(value: Any) -> str:
    """Python text that evaluates to ``value``, given that numpy, fractions and decimal are imported.

    Numbers, text, None, lists, tuples, sets, dicts, numpy scalars, dtypes and arrays of up to 4,096 numbers are plain,
    and so are the types of Python and numpy, ``int | float`` and ``list[float]``; everything else raises
    :class:`NotPlainError`.

    >>> to_literal({"bias": 7, "largest": np.float32(448), "nan": [float("nan"), -0.0]})
    "{'bias': 7, 'largest': numpy.dtype('<f4').type(448.0), 'nan': [float('nan'), -0.0]}"
    """
    try:
        text = _literal(value)
    except RecursionError:
        raise NotPlainError("a value that contains itself, or is nested too deeply") from None
    if len(text) > MAX_CHARACTERS:
        raise NotPlainError(f"a {type(value).__name__} of {len(text):,} characters")
    return text


def _literal(value: Any) -> str:
    kind = type(value)
    if value is None or value is ... or kind in (bool, int, str, bytes, range):
        return repr(value)
    if kind is float:
        return repr(value) if np.isfinite(value) else f"float('{value}')"
    if kind is complex:
        return f"complex({_literal(value.real)}, {_literal(value.imag)})"
    if isinstance(value, np.generic | np.dtype) or kind is np.ndarray:
        return _numpy_literal(value)
    if kind in (list, tuple, set, frozenset, dict):
        return _container_literal(value)
    if kind is slice:
        return f"slice({_literals((value.start, value.stop, value.step))})"
    if kind is Fraction:
        return f"fractions.Fraction({value.numerator}, {value.denominator})"
    if kind is Decimal:
        return f"decimal.Decimal('{value}')"
    if isinstance(value, type) or get_origin(value) is not None:
        return _type_literal(value)
    raise NotPlainError(describe_type(value))


def _type_literal(value: Any) -> str:
    if get_origin(value) in (Union, types.UnionType):
        return " | ".join("None" if one is types.NoneType else _type_literal(one) for one in get_args(value))
    if type(value) is types.GenericAlias:
        return f"{_type_literal(get_origin(value))}[{', '.join(map(_type_literal, get_args(value)))}]"
    name = getattr(value, "__name__", "")
    if getattr(builtins, name, None) is value:
        return name
    if getattr(np, name, None) is value:
        return f"numpy.{name}"
    raise NotPlainError(describe_type(value))


def _literals(values: Iterable[Any]) -> str:
    return ", ".join(map(_literal, values))


def _container_literal(value: Any) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{_literal(key)}: {_literal(part)}" for key, part in value.items()) + "}"
        case list():
            return f"[{_literals(value)}]"
        case tuple():
            return f"({_literals(value)}{',' * (len(value) == 1)})"
    return f"{type(value).__name__}([{_literals(sorted(value, key=repr))}])"


def _numpy_literal(value: Any) -> str:
    dtype = value if isinstance(value, np.dtype) else value.dtype
    if dtype.kind not in "biufcU" or np.dtype(dtype.str) != dtype:
        raise NotPlainError(f"{describe_type(value)} of dtype {dtype}")
    named = f"numpy.dtype({dtype.str!r})"
    if isinstance(value, np.dtype):
        return named
    if isinstance(value, np.generic):
        return f"{named}.type({_literal(value.item())})"
    if value.size > MAX_NUMBERS:
        raise NotPlainError(f"an array of {value.size:,} numbers")
    return f"numpy.array({_literal(value.ravel().tolist())}, {named}).reshape({value.shape})"


def describe_type(value: Any) -> str:
    """The type of ``value`` with its article."""
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
