"""Floating point with any exponent and mantissa width, bias, radix 2 or 4, special codes, subnormals on or off."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lplab.checks import check_int
from lplab.formats.base import Format
from lplab.formats.rounding_spec import Grid, Table
from lplab.formats.tables import table_codes, table_of

SPECIALS = {
    "ieee": "the top exponent holds infinity and NaN",
    "fn": "only the all-ones code is NaN, no infinity (OCP E4M3)",
    "fnuz": "the code of −0 is NaN, no infinity, no −0",
    "none": "every code is a number",
    "p3109": "the code of −0 is NaN, the largest codes are ±infinity, no −0 (IEEE P3109, extended)",
    "p3109_finite": "the code of −0 is NaN, no infinity, no −0 (IEEE P3109, finite)",
    "dlfloat": "the all-ones code is infinity and NaN in one; only zero in its lowest binade is not normal (IBM)",
}
_RESERVED = {"fn": 1, "fnuz": 0, "none": 0, "p3109": 1, "p3109_finite": 0, "dlfloat": 1}  # codes above max, per sign
_INFINITE = ("ieee", "p3109", "dlfloat")
_ONE_ZERO = ("fnuz", "p3109", "p3109_finite")
_P3109 = ("p3109", "p3109_finite")
RADIX_4_BITS = 16
MIN_EXPONENT, MAX_EXPONENT = -1000, 1000  # values are given in float64, which must hold all of them with a margin


def usual_bias(exponent_bits: int, specials: str) -> int:
    """The exponent bias of a format that gives none: 2^(e−1) − 1, or one more for "fnuz" and P3109.

    >>> usual_bias(4, "fn"), usual_bias(4, "p3109")
    (7, 8)
    """
    return 2 ** (exponent_bits - 1) - (0 if specials in _ONE_ZERO else 1)


@dataclass(frozen=True, repr=False)
class FloatFormat(Format):
    """A floating-point format: value = (−1)^sign · radix^(exponent − bias) · significand.

    Args:
        exponent_bits: 1 to 10.
        mantissa_bits: 0 to 48. The significand of a normal number is 1 + f/2^m; in radix 4 it is 1 + 3f/2^m, so that
            a binade is still cut into 2^m equal steps (with m = 0 the powers of 4 of Sun et al. 2020).
        bias: exponent bias; None is the usual one (:func:`usual_bias`). Radix 4 takes halves: ½·4^(e−4) = 4^(e−4.5).
        radix: 2, or 4 for formats of at most 16 bits.
        subnormals: whether the exponent field 0 holds f/2^m · radix^(1 − bias) (gradual underflow). Without, results
            below ``smallest_normal`` become zero *after* rounding, as hardware flushes them; the field 0 then holds
            zero alone (dlfloat: see there).
        specials: which codes are not numbers: "ieee", "fn", "fnuz", "none", "p3109", "p3109_finite" or "dlfloat"
            (``lplab.formats.SPECIALS`` explains).
        saturating: what becomes of numbers beyond the largest value, and of infinity.
            True: the largest value (SatFinite of P3109).
            False: infinity if the format has it, else NaN (SatNone of P3109, formerly OvfInf; "p3109_finite" has the
            largest value all the same, as section 4.7.5 says).
            "propagate": numbers become the largest value, infinity stays infinity if the format has it (SatPropagate).
            None: False for formats with an infinity, else True.
        name: shown in figures and messages.
        signed: False leaves the sign bit out, as P3109's unsigned formats do; only for "p3109" and "p3109_finite".
            The all-ones code is NaN, and the code before it infinity if there is one. Negative numbers that do not
            round to zero become zero; with ``saturating=False`` NaN, unless rounding goes up or towards zero.

    ``encode`` gives NaN one code, whatever its sign and payload: the quiet one without a sign where there are several
    (0x7E in E5M2), else the one that there is (0x7F in E4M3FN, 0x80 where −0 does not exist).

    Raises:
        ValueError: a field is out of range, or fields contradict each other; the message says what is allowed.

    >>> hfp8 = FloatFormat(exponent_bits=4, mantissa_bits=3, bias=11, specials="fnuz")
    >>> hfp8.max, hfp8.smallest_normal, hfp8.smallest_subnormal
    (30.0, 0.0009765625, 0.0001220703125)
    """

    exponent_bits: int
    mantissa_bits: int
    bias: float | None = None
    radix: int = 2
    subnormals: bool = True
    specials: str = "ieee"
    saturating: bool | str | None = None
    name: str = ""
    signed: bool = True

    def __post_init__(self) -> None:
        e = check_int("exponent_bits", self.exponent_bits, 1, 10)
        m = check_int("mantissa_bits", self.mantissa_bits, 0, 48)
        if self.radix not in (2, 4):
            raise ValueError(f"radix must be 2 or 4, got {self.radix!r}")
        if self.radix == 4 and self.bits > RADIX_4_BITS:
            raise ValueError(f"radix 4 rounds by a table, so it has at most {RADIX_4_BITS} bits, got {self.bits}")
        if self.specials not in SPECIALS:
            raise ValueError(f"unknown specials {self.specials!r}; allowed: {', '.join(SPECIALS)}")
        if e == 1 and self.specials == "ieee":
            raise ValueError(
                "specials='ieee' needs exponent_bits of at least 2: the top exponent holds infinity and NaN"
            )
        if not self.signed and (self.specials not in _P3109 or self.radix != 2):
            raise ValueError(f"signed=False needs radix 2 and specials of {' or '.join(_P3109)}, got {self.specials!r}")
        if self._top_code < 1:
            raise ValueError(
                f"exponent_bits={e}, mantissa_bits={m} with specials={self.specials!r} leaves no number; "
                + ("use specials='none'" if self.signed else "use more bits")
            )
        if self.specials in _P3109 and not self.subnormals:
            raise ValueError(
                f"specials={self.specials!r} always has subnormals; "
                "allowed without subnormals: ieee, fn, fnuz, none, dlfloat"
            )
        if self.specials == "dlfloat" and self.subnormals:
            raise ValueError("specials='dlfloat' has no subnormals; pass subnormals=False")
        if self.saturating not in (True, False, None, "propagate"):
            raise ValueError(f"saturating must be True, False, None or 'propagate', got {self.saturating!r}")
        if self.specials == "none" and self.saturating is False:
            raise ValueError("specials='none' has no code to overflow to; saturating must be True or None")
        if self.bias is None:
            object.__setattr__(self, "bias", usual_bias(e, self.specials))
        if self.saturating is None:
            object.__setattr__(self, "saturating", self.specials not in _INFINITE)
        self._check_bias()

    def _check_bias(self) -> None:
        steps = 1 if self.radix == 2 else 2  # binary exponents are steps · (field − bias)
        if isinstance(self.bias, bool) or not isinstance(self.bias, int | float) or self.bias * steps % 1:
            allowed = "an integer" if self.radix == 2 else "an integer or an integer plus one half"
            raise ValueError(f"bias must be {allowed} in radix {self.radix}, got {self.bias!r}")
        fields = 2**self.exponent_bits
        low = fields - MAX_EXPONENT // steps
        high = -MIN_EXPONENT // steps - self.mantissa_bits
        if not low <= self.bias <= high:
            raise ValueError(
                f"bias must be from {low} to {high} for {self.exponent_bits} exponent and {self.mantissa_bits} "
                f"mantissa bits (all values must be float64 numbers), got {self.bias!r}"
            )

    # -- the numbers ------------------------------------------------------------------------------------------

    @property
    def bits(self) -> int:
        """exponent_bits + mantissa_bits, and 1 for the sign."""
        return int(self.signed) + self.exponent_bits + self.mantissa_bits

    @property
    def max(self) -> float:
        """The largest finite value."""
        return float(self.values_of(np.array([self._top_code]))[0])

    @property
    def min(self) -> float:
        """−max, or 0 without a sign."""
        return -self.max if self.signed else 0.0

    @property
    def smallest_normal(self) -> float:
        """The smallest positive value with all mantissa bits."""
        first = 1 if self.specials == "dlfloat" and self.mantissa_bits else 2**self.mantissa_bits
        return float(self.values_of(np.array([min(first, self._top_code)]))[0])

    @property
    def smallest_subnormal(self) -> float:
        """The smallest positive value: subnormal where there are subnormals."""
        return float(self.values_of(np.array([1]))[0]) if self.subnormals else self.smallest_normal

    @property
    def has_nan(self) -> bool:
        """Whether a code stands for NaN."""
        return self.specials not in ("none", "ieee") or (self.specials == "ieee" and self.mantissa_bits > 0)

    @property
    def has_infinity(self) -> bool:
        """Whether codes stand for infinity."""
        return self.specials in _INFINITE

    @property
    def has_negative_zero(self) -> bool:
        """Whether −0 has a code."""
        return self.specials not in _ONE_ZERO

    @property
    def label(self) -> str:
        """The name, or sign-exponent-mantissa bits and the bias, as in 1-4-3 (bias 11)."""
        radix = "" if self.radix == 2 else " radix 4"
        return self.name or f"{self.signed:d}-{self.exponent_bits}-{self.mantissa_bits}{radix} (bias {self.bias:g})"

    def bit_fields(self) -> tuple[tuple[str, int], ...]:
        """Sign, exponent, mantissa."""
        fields = (("sign", int(self.signed)), ("exponent", self.exponent_bits), ("mantissa", self.mantissa_bits))
        return tuple(field for field in fields if field[1])

    # -- codes ------------------------------------------------------------------------------------------------

    @property
    def _top_code(self) -> int:
        """The positive code of the largest finite value."""
        all_ones = self._sign_bit - 1
        if self.specials == "ieee":
            return all_ones - 2**self.mantissa_bits
        return all_ones - _RESERVED[self.specials] - (not self.signed)  # where there is no code of −0, one more is NaN

    @property
    def _sign_bit(self) -> int:
        """The code of the sign bit; without one, the first number that is no code."""
        return 1 << (self.exponent_bits + self.mantissa_bits)

    @property
    def _nan_code(self) -> int:
        """The code that NaN gets."""
        if self.specials == "ieee":
            return self._top_code + 1 + (1 << max(self.mantissa_bits - 1, 0))  # the quiet NaN
        return self._sign_bit if self.signed and not self.has_negative_zero else self._sign_bit - 1

    @property
    def _field_0_is_normal(self) -> bool:
        return self.specials == "dlfloat"

    def values_of(self, codes: np.ndarray) -> np.ndarray:
        """Decode by the definition: sign, exponent field, mantissa field, special codes."""
        m, sign_bit = self.mantissa_bits, self._sign_bit
        magnitude_code = codes & (sign_bit - 1)
        field, fraction = magnitude_code >> m, magnitude_code & ((1 << m) - 1)
        value = self._number(field, fraction)
        if self.specials == "ieee":
            value = np.where(field == 2**self.exponent_bits - 1, np.where(fraction == 0, np.inf, np.nan), value)
        elif self.specials == "fn":
            value = np.where(magnitude_code == sign_bit - 1, np.nan, value)
        elif self.has_infinity:
            value = np.where(magnitude_code == self._top_code + 1, np.inf, value)
        value = np.where(codes & sign_bit, -value, value)
        return value if self.has_negative_zero else np.where(codes == self._nan_code, np.nan, value)

    def _number(self, field: np.ndarray, fraction: np.ndarray) -> np.ndarray:
        """The magnitude that an exponent field and a mantissa field stand for, special codes aside."""
        m = self.mantissa_bits
        steps = 1 if self.radix == 2 else 2
        hidden = 1 if self._field_0_is_normal else (field > 0)
        significand = hidden * 2**m + (self.radix - 1) * fraction  # in units of 2^−m
        if self.subnormals:
            significand = np.where(field == 0, fraction, significand)
        else:
            is_zero = (field == 0) & (fraction == 0) if self._field_0_is_normal else field == 0
            significand = np.where(is_zero, 0, significand)
        exponent = steps * (np.where((field == 0) & self.subnormals, 1, field) - self.bias)
        return np.ldexp(significand.astype(np.float64), exponent.astype(np.int64) - m)

    def codes_of(self, values: np.ndarray) -> np.ndarray:
        """Encode values of the format."""
        if isinstance(self.rounding_spec, Table):
            return self._with_specials(table_codes(values, self.rounding_spec), values)
        magnitude = np.where(np.isfinite(values), np.abs(values), 0.0)
        least = (0 if self._field_0_is_normal else 1) - int(self.bias or 0)
        exponent = np.maximum(np.frexp(magnitude)[1].astype(np.int64) - 1, least)
        significand = np.ldexp(magnitude, self.mantissa_bits - exponent).astype(np.int64)
        # The leading one of a significand adds one to the exponent field by itself; dlfloat's field 0 has it already.
        codes = ((exponent - least) << self.mantissa_bits) + significand
        if self._field_0_is_normal:
            codes = codes - (1 << self.mantissa_bits)
        return self._with_specials(np.where(magnitude == 0, 0, codes), values)

    def _with_specials(self, codes: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Put the sign and the codes of infinity and NaN in."""
        sign_bit = self._sign_bit
        codes = np.where(np.isinf(values), self._top_code + 1, codes)
        negative = np.signbit(values) & (self.has_negative_zero | (values != 0))
        codes = np.where(negative, codes | sign_bit, codes & (sign_bit - 1))
        return np.where(np.isnan(values), self._nan_code, codes)

    # -- rounding ---------------------------------------------------------------------------------------------

    @property
    def overflow(self) -> str:
        """What overflow becomes: "saturate", "propagate", "infinity" or "nan" (``Grid.overflow`` explains)."""
        if self.has_infinity and self.saturating is not True:
            return "propagate" if self.saturating else "infinity"
        return "saturate" if self.saturating or self.specials == "p3109_finite" else "nan"

    @cached_property
    def rounding_spec(self) -> Grid | Table:
        """A grid in radix 2, a table in radix 4."""
        return self._grid() if self.radix == 2 else self._table()

    def _grid(self) -> Grid:
        least = (0 if self._field_0_is_normal else 1) - int(self.bias or 0)
        return Grid(
            mantissa_bits=self.mantissa_bits,
            # Without subnormals one more binade is rounded to as if it existed; what lands there is then flushed.
            min_exponent=least if self.subnormals else least - 1,
            highest=self.max,
            lowest=self.min,
            overflow=self.overflow,
            nan_below=not (self.signed or self.saturating),
            smallest=0.0 if self.subnormals else self.smallest_normal,
            negative_zero=self.has_negative_zero,
            parity=int(self.bias or 0),
        )

    def _table(self) -> Table:
        top = self._top_code
        unbounded = (
            self.max * 4 if self.mantissa_bits == 0 else 2 * self.max - float(self.values_of(np.array([top - 1]))[0])
        )
        return table_of(
            self.values_of(np.arange(top + 1)),
            symmetric=True,
            overflow=None if self.saturating else unbounded,
            infinite={"saturate": None, "nan": np.nan}.get(self.overflow, np.inf),
            flushed=None if self.subnormals else self._flushed_values(),
            negative_zero=self.has_negative_zero,
        )

    def _flushed_values(self) -> np.ndarray:
        """What is rounded to below ``smallest_normal`` and then flushed: a binade more (dlfloat: and zero's place)."""
        field = 0 if self._field_0_is_normal else 1
        significands = 1 + 3 * np.arange(2**self.mantissa_bits) / 2**self.mantissa_bits
        binade = np.ldexp(significands, int(2 * (field - float(self.bias or 0))))
        values = np.concatenate([binade / 4, binade[:1]])
        return values[values < self.smallest_normal]
