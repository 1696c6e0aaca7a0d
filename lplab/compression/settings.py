"""One check that all compressors share: each setting is of the kind that its field names."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import fields
from functools import cache
from numbers import Integral, Real
from types import UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

KINDS = {int: Integral, float: Real}  # numpy's numbers are numbers, too
WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a word",
    tuple: "several numbers",
    type(None): "None",
}
"""What a setting takes, by the type of its field."""


def check_settings(compressor: object) -> None:
    """Refuse a setting of the wrong kind, as a word for a number, before it is compared with anything.

    A whole number is a number; True is not.

    Raises:
        ValueError: the first such setting.

    >>> from lplab.compression import ScaleCom
    >>> ScaleCom(chunk="x")
    Traceback (most recent call last):
    ...
    ValueError: chunk of ScaleCom takes a whole number or None, got 'x'
    """
    for name, kinds in _kinds(cast("Hashable", type(compressor))).items():
        value = getattr(compressor, name)
        if not any(_is(value, kind) for kind in kinds):
            told = " or ".join(WORDS.get(kind, kind.__name__) for kind in kinds)
            raise ValueError(f"{name} of {type(compressor).__name__} takes {told}, got {value!r}")


def _is(value: Any, kind: type) -> bool:
    return isinstance(value, KINDS.get(kind, kind)) and (kind is bool or not isinstance(value, bool))


@cache
def _kinds(compressor: Hashable) -> dict[str, list[type]]:
    """The types that each field allows; without fields whose hints are no types, as Any and Literal."""
    try:
        hints = get_type_hints(cast("Any", compressor))
    except NameError:  # hints of somebody's own class that are there for a type checker alone: nothing to go by
        return {}
    kinds = {field.name: _several(hints[field.name]) for field in fields(cast("Any", compressor))}
    return {name: several for name, several in kinds.items() if all(_is_type(kind) for kind in several)}


def _several(hint: Any) -> list[Any]:
    """The types of a union, or the one: without what they hold."""
    union = get_origin(hint) in (Union, UnionType)
    return [get_origin(kind) or kind for kind in (get_args(hint) if union else (hint,))]


def _is_type(kind: Any) -> bool:
    return isinstance(kind, type) and kind is not Any
