"""Compressors by name, as on the command line. A new one is a new row."""

from __future__ import annotations

import ast
from dataclasses import fields
from typing import Any

from lplab.compression.adacomp import AdaComp
from lplab.compression.compressor import Compressor, Dense
from lplab.compression.demo import DeMo
from lplab.compression.dgc import DGC
from lplab.compression.lossless import Lossless
from lplab.compression.low_bit import LowBit
from lplab.compression.lowrank import PowerSGD
from lplab.compression.scalecom import ScaleCom
from lplab.compression.signs import EFSign, OneBit, SignSGD
from lplab.compression.sparse import RandomK, TopK
from lplab.compression.sparseloco import SparseLoCo
from lplab.compression.unbiased import QSGD, TernGrad
from lplab.lookup import closest_names, no_setting

COMPRESSORS: dict[str, type[Compressor]] = {
    "dense": Dense,
    "adacomp": AdaComp,
    "scalecom": ScaleCom,
    "topk": TopK,
    "randomk": RandomK,
    "dgc": DGC,
    "onebit": OneBit,
    "signsgd": SignSGD,
    "efsign": EFSign,
    "terngrad": TernGrad,
    "qsgd": QSGD,
    "powersgd": PowerSGD,
    "lossless": Lossless,
    "sparseloco": SparseLoCo,
    "demo": DeMo,
    "lowbit": LowBit,
}


def names() -> tuple[str, ...]:
    """The names of all compressors."""
    return tuple(COMPRESSORS)


def from_text(compressor: Compressor | str) -> Compressor:
    """A compressor as it is, or from its text, as :func:`get` reads it.

    >>> from_text("scalecom:chunk=100") == from_text(get("scalecom:chunk=100"))
    True
    """
    return get(compressor) if isinstance(compressor, str) else compressor


def get(text: str) -> Compressor:
    """A compressor from its name and, after a colon, its settings.

    Raises:
        ValueError: an unknown name or setting, one that is given twice or is empty, a value that is not allowed, or no
            text.

    >>> get("scalecom:chunk=100,beta=0.3")
    ScaleCom(chunk=100, beta=0.3, m=1, wire='fp32', small='dense')
    >>> get("scalcom")
    Traceback (most recent call last):
    ...
    ValueError: unknown compressor 'scalcom'; did you mean scalecom or sparseloco? All: dense, adacomp, ...
    """
    if not isinstance(text, str):
        raise ValueError(f"a compressor is named by a text such as 'topk:density=0.01', got {text!r}")
    name, colon, settings = text.partition(":")
    if name not in COMPRESSORS:
        close = closest_names(name, COMPRESSORS, limit=2, cutoff=0.5)
        hint = f"did you mean {' or '.join(close)}? " if close else ""
        raise ValueError(f"unknown compressor {name!r}; {hint}All: {', '.join(COMPRESSORS)}")
    kind = COMPRESSORS[name]
    given: dict[str, Any] = {}
    for part in settings.split(",") if colon else ():
        if not part.strip():
            raise ValueError(f"a setting is missing in {text!r}: write name=value behind each colon and comma")
        setting, value = _setting(kind, part)
        if setting in given:
            raise ValueError(f"{kind.__name__} takes {setting} once, got it twice in {text!r}")
        given[setting] = value
    return kind(**given)


def _setting(kind: type[Compressor], part: str) -> tuple[str, Any]:
    name, equals, value = part.partition("=")
    allowed = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # all of them are dataclasses
    if not equals or name.strip() not in allowed:
        raise ValueError(f"{no_setting(kind, part, allowed)}, as in name=value")
    return name.strip(), _value(value.strip())


def _value(text: str) -> Any:
    """A number, True, False or None where the text is one, else the text itself."""
    literal = {"true": "True", "false": "False", "none": "None"}.get(text.lower(), text)
    try:
        return ast.literal_eval(literal)
    except (ValueError, SyntaxError):
        return text
