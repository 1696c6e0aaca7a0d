"""Logarithmic numbers: the code of a value is its base-2 logarithm in fixed point."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lplab.checks import check_int
from lplab.formats.base import Format
from lplab.formats.fixed import signed_codes
from lplab.formats.rounding_spec import Table
from lplab.formats.tables import table_codes, table_of


@dataclass(frozen=True, repr=False)
class LogFormat(Format):
    """A logarithmic number system: ±2^(k / 2^fraction_bits) with a two's-complement k; products are sums of codes.

    The most negative k stands for zero; with the sign bit set it is NaN. Values are irrational in general; the
    format holds them *rounded to float32*, so that a float32 tensor carries them exactly. The nearest modes choose
    the nearest value (the arithmetic midpoint), not the nearest logarithm.

    Args:
        bits: 3 to 16, the sign included.
        fraction_bits: of the logarithm; 2^fraction_bits values an octave. At most bits − 2, and the range must fit
            in float32.
        name: shown in figures and messages.

    >>> LogFormat(4, 0).codebook()[:8].tolist()
    [1.0, 2.0, 4.0, 8.0, 0.0, 0.125, 0.25, 0.5]
    """

    bits: int
    fraction_bits: int
    name: str = ""
    saturating = True

    def __post_init__(self) -> None:
        check_int("bits", self.bits, 3, 16)
        # 2^(bits - 2 - fraction_bits) octaves on either side of 1 must stay inside float32's 126
        check_int("fraction_bits", self.fraction_bits, max(0, self.bits - 8), self.bits - 2)
        if not self.name:
            object.__setattr__(self, "name", f"lns{self.bits}_{self.fraction_bits}")

    @property
    def _half(self) -> int:
        return 2 ** (self.bits - 2)

    @property
    def max(self) -> float:
        """2^(largest k / 2^fraction_bits)."""
        return float(self._power(np.array([self._half - 1]))[0])

    @property
    def min(self) -> float:
        """−max."""
        return -self.max

    @property
    def smallest_subnormal(self) -> float:
        """2^(smallest k / 2^fraction_bits), zero's k left out."""
        return float(self._power(np.array([1 - self._half]))[0])

    @property
    def has_nan(self) -> bool:
        """Minus zero's code."""
        return True

    def _power(self, k: np.ndarray) -> np.ndarray:
        return np.exp2(k / 2**self.fraction_bits).astype(np.float32).astype(np.float64)

    def bit_fields(self) -> tuple[tuple[str, int], ...]:
        """Sign, integer and fraction of the logarithm."""
        fields = (
            ("sign", 1),
            ("log integer", self.bits - 1 - self.fraction_bits),
            ("log fraction", self.fraction_bits),
        )
        return tuple(field for field in fields if field[1])

    @cached_property
    def rounding_spec(self) -> Table:
        """A table."""
        codes = np.arange(2 ** (self.bits - 1))
        return table_of(self.values_of(codes), symmetric=True, codes=codes)

    def values_of(self, codes: np.ndarray) -> np.ndarray:
        """±2^(k / 2^fraction_bits)."""
        sign_bit = 1 << (self.bits - 1)
        k = signed_codes(codes & (sign_bit - 1), self.bits - 1)
        value = np.where(k == -self._half, 0.0, self._power(k))
        value = np.where(codes & sign_bit, -value, value)
        return np.where(codes == sign_bit | self._half, np.nan, value)

    def codes_of(self, values: np.ndarray) -> np.ndarray:
        """Search the magnitude, then the sign bit; zero has no sign."""
        codes = table_codes(np.abs(values), self.rounding_spec)
        codes = np.where(values < 0, codes | 1 << (self.bits - 1), codes)
        return np.where(np.isnan(values), 1 << (self.bits - 1) | self._half, codes)
