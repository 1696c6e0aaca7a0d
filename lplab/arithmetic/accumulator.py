"""How a sum is carried out, as data: format of the register, chunks, rounding, format of the products."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from lplab.formats import FloatFormat, Format, IntFormat, Rounding, get, names
from lplab.formats.rounding import as_rounding
from lplab.formats.rounding_spec import Grid

DOUBLE_BITS = 53  # significant bits of the type in which sums are formed before they are rounded


@dataclass(frozen=True, repr=False)
class Accumulator:
    """The register that a sum of products is collected in.

    Args:
        format: the format that every partial sum is rounded to, by name or as a value. Any element format of
            :mod:`lplab.formats` that contains zero.
        chunk: None adds all products one after the other. An integer adds ``chunk`` consecutive products in a register
            that starts at zero, then adds that partial sum to the total, and so on (Wang et al. 2018); the last chunk
            may be shorter.
        outer: the format of the total over chunks; by default that of ``format``. Needs ``chunk``.
        rounding: of every addition (and of products, if they are rounded), as in ``Format.quantize``.
        fma: True: products are exact and the sum is rounded once, as a fused multiply-add does. False: every
            product is rounded to ``product`` before it is added.
        product: the format of rounded products; by default that of ``format``. Needs ``fma=False``.

    Raises:
        ValueError, TypeError: a field is out of range, or fields contradict each other.

    >>> Accumulator("dlfloat16", chunk=64, rounding="nearest_away")
    Accumulator('dlfloat16', chunk=64, rounding='nearest_away')
    >>> Accumulator("dlfloat16", chunk=0)
    Traceback (most recent call last):
    ...
    ValueError: chunk must be None or an integer of at least 1, got 0
    """

    format: Any
    chunk: int | None = None
    outer: Any = None
    rounding: Any = "nearest_even"
    fma: bool = True
    product: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "rounding", as_rounding(self.rounding))
        if self.chunk is not None:
            is_integer = isinstance(self.chunk, int | np.integer) and not isinstance(self.chunk, bool)
            if not is_integer or self.chunk < 1:
                raise ValueError(f"chunk must be None or an integer of at least 1, got {self.chunk!r}")
            object.__setattr__(self, "chunk", int(self.chunk))
        elif self.outer is not None:
            raise ValueError("outer is the format of the sum over chunks; pass chunk, too")
        if not isinstance(self.fma, bool | np.bool_):
            raise ValueError(f"fma must be True or False, got {self.fma!r}")
        if self.fma and self.product is not None:
            raise ValueError("product is the format that products are rounded to; pass fma=False, too")
        for field in ("format", "outer", "product"):
            if getattr(self, field) is not None or field == "format":
                object.__setattr__(self, field, register_format(getattr(self, field), self.rounding))

    @property
    def outer_format(self) -> Format:
        """The format of the total over chunks."""
        return self.format if self.outer is None else self.outer

    @property
    def product_format(self) -> Format:
        """The format that products are rounded to, where they are."""
        return self.format if self.product is None else self.product

    def __repr__(self) -> str:
        """The constructor call, with formats by name and the fields that differ from their defaults."""
        shown = [repr(_short(self.format))]
        for field in fields(self)[1:]:
            value = _short(getattr(self, field.name))
            if value != field.default:
                shown.append(f"{field.name}={value!r}")
        return f"Accumulator({', '.join(shown)})"


def _short(value: Any) -> Any:
    """A format of the catalogue as its name, a plain rounding as its mode; other values unchanged."""
    if isinstance(value, Rounding):
        return value.mode if value == Rounding(value.mode) else value
    name = getattr(value, "name", "")
    return name if name and (name in names() or re.fullmatch(r"q\d+\.\d+", name)) and get(name) == value else value


def register_format(fmt: Any, rounding: Rounding) -> Format:
    """A format or the format of a name; raises an error if sums cannot be rounded to it.

    Raises:
        ValueError: it shares scales between numbers, has no zero, or is too wide for the rounding to be exact.
        TypeError: it is no format.

    >>> register_format("bf16", Rounding()).bits
    16
    >>> register_format("mxfp4", Rounding())
    Traceback (most recent call last):
    ...
    ValueError: mxfp4 cannot hold a sum: its numbers share scales; use an element format, such as dlfloat16 or q4.12
    """
    fmt = get(fmt) if isinstance(fmt, str) else fmt
    if hasattr(fmt, "block_size"):
        name = fmt.name or "a block format"
        raise ValueError(
            f"{name} cannot hold a sum: its numbers share scales; use an element format, such as dlfloat16 or q4.12"
        )
    if not isinstance(fmt, Format):
        raise TypeError(f"expected a format of lplab.formats or its name, got {type(fmt).__name__}")
    if fmt.quantize(0.0) != 0:
        raise ValueError(f"{fmt.label} cannot hold a sum: it has no zero to start from")
    if isinstance(fmt, FloatFormat | IntFormat) and isinstance(fmt.rounding_spec, Grid) and rounding.is_stochastic:
        needed = fmt.rounding_spec.mantissa_bits + rounding.random_bits + 3
        if needed > DOUBLE_BITS:
            most = DOUBLE_BITS - 3 - fmt.rounding_spec.mantissa_bits
            raise ValueError(f"stochastic sums in {fmt.label} are exact with at most {most} random bits")
    return fmt


def as_accumulator(accumulator: Any, **changes: Any) -> Accumulator:
    """An :class:`Accumulator` unchanged, or one made from a format and keywords.

    Raises:
        ValueError: an Accumulator comes with keywords that it already decides.

    >>> as_accumulator("bf16", chunk=8) == Accumulator("bf16", chunk=8)
    True
    """
    given = {name: value for name, value in changes.items() if value is not None}
    if not isinstance(accumulator, Accumulator):
        return Accumulator(accumulator, **given)
    if given:
        raise ValueError(f"the Accumulator already decides {', '.join(given)}; use dataclasses.replace to change it")
    return accumulator
