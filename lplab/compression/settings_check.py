"""The check that all compressors share: each setting has the type of its field."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import fields
from functools import cache
from numbers import Integral, Real
from types import UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

ABSTRACT_TYPES = {int: Integral, float: Real}  # they include numpy's numbers
DESCRIPTIONS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a word",
    tuple: "several numbers",
    type(None): "None",
}
"""How messages describe the types of fields."""


def check_settings(compressor: object) -> None:
    """Refuse a setting of the wrong type, such as a string for a number, before its value is checked.

    An integer is accepted for a float; True is not a number.

    Raises:
        ValueError: a setting of the wrong type.

    >>> from lplab.compression import ScaleCom
    >>> ScaleCom(chunk="x")
    Traceback (most recent call last):
    ...
    ValueError: chunk of ScaleCom takes a whole number or None, got 'x'
    """
    for name, types in _allowed_types(cast("Hashable", type(compressor))).items():
        value = getattr(compressor, name)
        if not any(_is(value, kind) for kind in types):
            allowed = " or ".join(DESCRIPTIONS.get(kind, kind.__name__) for kind in types)
            raise ValueError(f"{name} of {type(compressor).__name__} takes {allowed}, got {value!r}")


def _is(value: Any, kind: type) -> bool:
    return isinstance(value, ABSTRACT_TYPES.get(kind, kind)) and (kind is bool or not isinstance(value, bool))


@cache
def _allowed_types(compressor: Hashable) -> dict[str, list[type]]:
    """The types that each field allows; without fields whose hints are not types, such as Any and Literal."""
    try:
        hints = get_type_hints(cast("Any", compressor))
    # The class of a user, with hints that are imported for type checkers only: nothing to check.
    except NameError:
        return {}
    allowed = {field.name: _members(hints[field.name]) for field in fields(cast("Any", compressor))}
    return {name: types for name, types in allowed.items() if all(_is_type(kind) for kind in types)}


def _members(hint: Any) -> list[Any]:
    """The types of a union, or the only one, without type parameters."""
    union = get_origin(hint) in (Union, UnionType)
    return [get_origin(kind) or kind for kind in (get_args(hint) if union else (hint,))]


def _is_type(kind: Any) -> bool:
    return isinstance(kind, type) and kind is not Any
