"""Compressors by name, as they are typed in a terminal. A new one is a new row."""

from __future__ import annotations

import ast
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, get_args, get_origin, get_type_hints

from lplab.compression.adacomp import AdaComp
from lplab.compression.dense import Dense
from lplab.compression.dgc import DGC
from lplab.compression.lossless import Lossless
from lplab.compression.lowrank import PowerSGD
from lplab.compression.protocol import Compressor
from lplab.compression.scalecom import ScaleCom
from lplab.compression.signs import EFSign, OneBit
from lplab.compression.sparse import RandomK, TopK
from lplab.compression.unbiased import QSGD, TernGrad

COMPRESSORS: dict[str, type[Compressor]] = {
    "dense": Dense,
    "adacomp": AdaComp,
    "scalecom": ScaleCom,
    "topk": TopK,
    "randomk": RandomK,
    "dgc": DGC,
    "onebit": OneBit,
    "efsign": EFSign,
    "terngrad": TernGrad,
    "qsgd": QSGD,
    "powersgd": PowerSGD,
    "lossless": Lossless,
}


def names() -> tuple[str, ...]:
    """The names of all compressors."""
    return tuple(COMPRESSORS)


def get(text: str) -> Compressor:
    """A compressor from its name, with settings behind a colon.

    Raises:
        ValueError: an unknown name or setting, or a value that is not allowed.

    >>> get("scalecom:chunk=100,beta=0.3")
    ScaleCom(chunk=100, beta=0.3, m=1, wire='fp32', small='dense')
    >>> get("scalcom")
    Traceback (most recent call last):
    ...
    ValueError: unknown compressor 'scalcom'; did you mean scalecom or adacomp? All: dense, adacomp, ...
    """
    name, _, settings = text.partition(":")
    if name not in COMPRESSORS:
        close = get_close_matches(name, COMPRESSORS, 2, 0.5)
        hint = f"did you mean {' or '.join(close)}? " if close else ""
        raise ValueError(f"unknown compressor {name!r}; {hint}All: {', '.join(COMPRESSORS)}")
    kind = COMPRESSORS[name]
    return kind(**dict(_setting(kind, part) for part in settings.split(",") if part))


def _setting(kind: type[Compressor], part: str) -> tuple[str, Any]:
    name, equals, value = part.partition("=")
    allowed = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # all of them are dataclasses
    if not equals or name.strip() not in allowed:
        raise ValueError(
            f"{kind.__name__} has no setting {part!r}; it has {', '.join(allowed) or 'none'}, as in name=value"
        )
    found, wanted = _value(value.strip()), get_type_hints(kind)[name.strip()]
    if not _suits(found, wanted):
        raise ValueError(f"{kind.__name__}'s setting {name.strip()} takes {_told(wanted)}, got {value.strip()!r}")
    return name.strip(), found


WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a word", type(None): "none"}
"""What a setting takes, by the type of its field."""


def _suits(value: Any, wanted: Any) -> bool:
    """Whether a value is one of the field's types; a whole number is a number, true is none."""
    kinds = [get_origin(kind) or kind for kind in get_args(wanted) or (wanted,)]
    if get_origin(wanted) is tuple:
        return isinstance(value, tuple)
    return type(value) in kinds or (type(value) is int and float in kinds)


def _told(wanted: Any) -> str:
    if get_origin(wanted) is tuple:
        return "several numbers, which cannot be typed here: make the compressor in Python"
    return " or ".join(WORDS[kind] for kind in get_args(wanted) or (wanted,))


def _value(text: str) -> Any:
    """A number, True, False or None where it reads as one, else the word itself."""
    spelled = {"true": "True", "false": "False", "none": "None"}.get(text.lower(), text)
    try:
        return ast.literal_eval(spelled)
    except (ValueError, SyntaxError):
        return text
