"""One check that all compressors share: where a number belongs there is one."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from numbers import Real
from typing import cast, get_args, get_origin, get_type_hints


def check_numbers(compressor: object) -> None:
    """Refuse words, lists and truth values in fields of numbers, before they are compared with anything.

    Raises:
        ValueError: the first field that holds no number.

    >>> from lplab.compression import ScaleCom
    >>> ScaleCom(chunk="x")
    Traceback (most recent call last):
    ...
    ValueError: chunk of ScaleCom must be a number or None, got 'x'
    """
    for name, optional in _numbers(cast("Hashable", type(compressor))).items():
        value = getattr(compressor, name)
        if (value is None and optional) or (isinstance(value, Real) and not isinstance(value, bool)):
            continue
        told = "a number or None" if optional else "a number"
        raise ValueError(f"{name} of {type(compressor).__name__} must be {told}, got {value!r}")


@cache
def _numbers(kind: Hashable) -> dict[str, bool]:
    """The fields of numbers, and whether None is allowed there."""
    hints = {name: hint for name, hint in get_type_hints(kind).items() if get_origin(hint) is not tuple}
    kinds = {name: get_args(hint) or (hint,) for name, hint in hints.items()}
    return {name: type(None) in several for name, several in kinds.items() if {int, float} & set(several[:1])}
