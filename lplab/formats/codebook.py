"""Any finite set of numbers as a format."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lplab.formats.base import CODEBOOK_BITS, Format
from lplab.formats.rounding_spec import Table
from lplab.formats.tables import table_codes, table_of


@dataclass(frozen=True, repr=False, eq=False)
class CodebookFormat(Format):
    """The values of all codes, one by one: learned codebooks, and scale formats such as E8M0.

    Rounds to the nearest value (ties of ``nearest_even`` to the even code) and saturates, infinity included. If all
    values are positive, negative numbers become NaN.

    Args:
        codebook_values: the value of every code, in code order; NaN where a code is none. A power of two of them, at
            least 2.
        name: shown in figures and messages.
        beyond: for positive values: the number that would come after the largest one. What rounds to it becomes NaN,
            and so do larger numbers and infinity. None: they become the largest value.

    NF4 of the catalogue (QLoRA) is such a format: sixteen quantiles of a normal distribution, from −1 to 1. Its scale,
    one for 64 weights, belongs to a quantizer.

    E8M0 of the catalogue, the scale of MX blocks, is such a format: 2^−127 … 2^127. So zero becomes 2^−127, and a tie
    such as 3 goes to the even code (2, code 128). PyTorch rounds ties up (to 4, as ``rounding="nearest_away"``) and
    makes NaN of what is beyond 2^127, as gfloat does: ``dataclasses.replace(get("e8m0"), beyond=2.0**128)``.

    >>> CodebookFormat((-1.0, 0.0, 1.0, 4.0)).quantize([-7.0, 0.4, 2.5, 2.6])
    array([-1.,  0.,  1.,  4.])
    >>> CodebookFormat((1.0, 2.0), beyond=4.0).quantize([2.9, 3.1])
    array([ 2., nan])
    """

    codebook_values: tuple[float, ...]
    name: str = ""
    beyond: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "codebook_values", tuple(float(v) for v in self.codebook_values))
        count = len(self.codebook_values)
        if count < 2 or count & (count - 1) or count > 2**CODEBOOK_BITS:
            raise ValueError(
                f"a codebook needs 2, 4, 8, … 2^{CODEBOOK_BITS} values (NaN for unused codes), got {count}"
            )
        if any(math.isinf(v) for v in self.codebook_values) or not any(v > 0 for v in self.codebook_values):
            raise ValueError("the values of a codebook must be finite or NaN, and at least one of them positive")
        if len(self.values) < 2:
            raise ValueError("a codebook needs at least two different values")
        if self.beyond is not None and not (self.min > 0 and self.max < self.beyond < math.inf):
            raise ValueError(
                f"beyond must be finite and larger than all values, which are positive; got {self.beyond!r}"
            )

    @cached_property
    def _key(self) -> tuple:
        """What makes two codebooks equal: NaN is not equal to itself, so it is replaced."""
        return self.name, self.beyond, tuple(None if math.isnan(v) else v for v in self.codebook_values)

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, CodebookFormat) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def saturating(self) -> bool:
        """Whether numbers beyond the largest value become that value."""
        return self.beyond is None

    @property
    def bits(self) -> int:
        """log2 of the number of codes."""
        return len(self.codebook_values).bit_length() - 1

    @property
    def max(self) -> float:
        """The largest value."""
        return float(self.values[-1])

    @property
    def min(self) -> float:
        """The smallest value, negative or not."""
        return float(self.values[0])

    @property
    def smallest_subnormal(self) -> float:
        """The smallest positive value."""
        return float(self.values[self.values > 0][0])

    @property
    def has_nan(self) -> bool:
        """Whether a code is unused."""
        return any(math.isnan(v) for v in self.codebook_values)

    @property
    def label(self) -> str:
        """The name, or how many values."""
        return self.name or f"codebook of {len(self.values)} values"

    def __repr__(self) -> str:
        """The constructor call; a long codebook is abbreviated."""
        values = repr(self.codebook_values) if self.bits <= 4 else f"<{len(self.codebook_values)} values>"
        named = f", name={self.name!r}" if self.name else ""
        return f"CodebookFormat({values}{named}{'' if self.beyond is None else f', beyond={self.beyond!r}'})"

    def bit_fields(self) -> tuple[tuple[str, int], ...]:
        """One field: the code."""
        return (("code", self.bits),)

    @cached_property
    def rounding_spec(self) -> Table:
        """A table."""
        book = np.array(self.codebook_values)
        codes = np.flatnonzero(np.isfinite(book))
        infinite = None if self.beyond is None else np.nan
        return table_of(book[codes], codes=codes, only_positive=self.min > 0, overflow=self.beyond, infinite=infinite)

    def values_of(self, codes: np.ndarray) -> np.ndarray:
        """Look up."""
        return np.array(self.codebook_values)[codes]

    def codes_of(self, values: np.ndarray) -> np.ndarray:
        """Search."""
        nan = int(np.flatnonzero(np.isnan(self.codebook_values))[0]) if self.has_nan else 0
        return np.where(np.isnan(values), nan, table_codes(values, self.rounding_spec))
