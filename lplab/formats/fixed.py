"""Fixed point: evenly spaced numbers, two's complement (Gupta et al. 2015, section 3)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lplab.checks import check_int
from lplab.formats.base import Format
from lplab.formats.rounding_spec import Grid


def uniform_grid(spacing_exponent: int, lowest: int, highest: int, step: float = 1.0) -> Grid:
    """The integers lowest … highest in units of 2^spacing_exponent: a float grid that is subnormal everywhere."""
    width = max(abs(lowest), abs(highest)).bit_length()
    unit = 2.0**spacing_exponent
    return Grid(
        mantissa_bits=width + 1,
        min_exponent=width + 1 + spacing_exponent,
        highest=highest * unit,
        lowest=lowest * unit,
        negative_zero=False,
        step=step,
    )


def signed_codes(codes: np.ndarray, bits: int) -> np.ndarray:
    """The integers that two's-complement codes stand for.

    >>> signed_codes(np.array([0, 7, 8, 15]), 4)
    array([ 0,  7, -8, -1])
    """
    return np.where(codes >= 1 << (bits - 1), codes - (1 << bits), codes)


@dataclass(frozen=True, repr=False)
class FixedFormat(Format):
    """Gupta's ⟨IL, FL⟩: a two's-complement integer of IL + FL bits in units of 2^−FL; saturates; no NaN, no −0.

    Args:
        integer_bits: IL, the sign included: 1 to 32.
        fraction_bits: FL, 0 to 31; IL + FL at most 32.
        name: shown in figures and messages; by default as in "q4.12".

    Gupta rounds ties towards minus infinity: ``rounding="nearest_down"``.

    >>> f = FixedFormat(integer_bits=4, fraction_bits=12)
    >>> f.max, f.min, f.smallest_subnormal, str(f)
    (7.999755859375, -8.0, 0.000244140625, 'q4.12: 16 bits, 0.000244141 to 7.99976 (15.0 octaves)')
    """

    integer_bits: int
    fraction_bits: int
    name: str = ""
    saturating = True

    def __post_init__(self) -> None:
        check_int("integer_bits", self.integer_bits, 1, 32)
        check_int("fraction_bits", self.fraction_bits, 0, 31)
        if not 2 <= self.bits <= 32:
            raise ValueError(f"integer_bits + fraction_bits must be from 2 to 32, got {self.bits}")
        if not self.name:
            object.__setattr__(self, "name", f"q{self.integer_bits}.{self.fraction_bits}")

    @property
    def bits(self) -> int:
        """integer_bits + fraction_bits."""
        return self.integer_bits + self.fraction_bits

    @property
    def max(self) -> float:
        """2^(IL−1) − 2^−FL."""
        return self.rounding_spec.highest

    @property
    def min(self) -> float:
        """−2^(IL−1)."""
        return self.rounding_spec.lowest

    @property
    def smallest_subnormal(self) -> float:
        """2^−FL."""
        return 2.0**-self.fraction_bits

    @cached_property
    def rounding_spec(self) -> Grid:
        """An even grid."""
        half = 2 ** (self.bits - 1)
        return uniform_grid(-self.fraction_bits, -half, half - 1)

    def bit_fields(self) -> tuple[tuple[str, int], ...]:
        """Sign, integer, fraction."""
        fields = (("sign", 1), ("integer", self.integer_bits - 1), ("fraction", self.fraction_bits))
        return tuple(field for field in fields if field[1])

    def values_of(self, codes: np.ndarray) -> np.ndarray:
        """Two's complement in units of 2^−FL."""
        return signed_codes(codes, self.bits) * self.smallest_subnormal

    def codes_of(self, values: np.ndarray) -> np.ndarray:
        """Two's complement of value · 2^FL."""
        return (values * 2.0**self.fraction_bits).astype(np.int64) & (2**self.bits - 1)
