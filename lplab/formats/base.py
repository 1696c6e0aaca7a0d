"""The base class of number formats: a format is a frozen dataclass; quantize, encode and decode follow from it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from lplab.formats import apply, coding
from lplab.formats.apply import PreparedRoundings
from lplab.formats.rounding import Rounding, as_rounding
from lplab.formats.rounding_spec import Grid, Table
from lplab.lookup import refuse_wrong_attributes

CODEBOOK_BITS = 20  # the widest format whose codes are listed one by one (8 MiB of float64)


class Format(ABC):
    """A number format: which values exist, how a number is rounded to one of them, which code stands for it.

    A subclass has fields and provides ``bits``, ``rounding_spec``, ``bit_fields()``, ``values_of(codes)`` and
    ``codes_of(values)``; everything else follows.
    """

    if not TYPE_CHECKING:
        __getattr__ = refuse_wrong_attributes("lplab.formats.Format")

    # -- what a subclass provides -----------------------------------------------------------------------------

    if TYPE_CHECKING:  # at run time a subclass may have a field of this name, which an inherited property would hide

        @property
        def bits(self) -> int:
            """Width of a code in bits."""

    @property
    @abstractmethod
    def rounding_spec(self) -> Grid | Table:
        """What rounding needs to know (:mod:`lplab.formats.rounding_spec`)."""

    @abstractmethod
    def values_of(self, codes: np.ndarray) -> np.ndarray:
        """The float64 values of int64 codes in 0 … 2**bits − 1."""

    @abstractmethod
    def codes_of(self, values: np.ndarray) -> np.ndarray:
        """The int64 codes of float64 values of the format (and of NaN and infinity, if it has them)."""

    @abstractmethod
    def bit_fields(self) -> tuple[tuple[str, int], ...]:
        """Names and widths of the parts of a code, from the most significant bit.

        >>> from lplab.formats import get
        >>> get("e4m3fn").bit_fields()
        (('sign', 1), ('exponent', 4), ('mantissa', 3))
        """

    @property
    @abstractmethod
    def max(self) -> float:
        """The largest finite value."""

    @property
    @abstractmethod
    def min(self) -> float:
        """The lowest finite value, as ``numpy.finfo`` has it: −max or near it, 0 or positive where there is no sign."""

    @property
    @abstractmethod
    def smallest_subnormal(self) -> float:
        """The smallest positive value."""

    @property
    def smallest_normal(self) -> float:
        """The smallest positive value with full precision; where precision never drops, the smallest positive value."""
        return self.smallest_subnormal

    @property
    def has_nan(self) -> bool:
        """Whether a code stands for NaN."""
        return False

    # -- what follows from it ----------------------------------------------------------------------------------

    @cached_property
    def prepared_roundings(self) -> PreparedRoundings:
        """The roundings that this format has been asked for, each decided once and ready to run."""
        return PreparedRoundings(self.rounding_spec)

    def quantize(
        self,
        x: Any,
        rounding: str | Rounding = "nearest_even",
        seed: Any = None,
        out: Any = None,
        *,
        random_bits: int = 16,
        variant: str = "C",
    ) -> Any:
        """Round x to values of this format; with ``rounding="stochastic"`` this is the ``stochastic_round`` of lab 02.

        Args:
            x: numpy array or torch tensor (CPU or CUDA) of float16, bfloat16, float32 or float64, of any shape,
                stride and byte order; or a Python int or float, or a (nested) list of them. Ints of any size are
                rounded once. Integer arrays are refused: say ``.astype(np.float32)`` if you mean it, or ``.tolist()``
                where the integers are to be rounded once. Other numbers (bool, complex, Fraction, Decimal, longdouble)
                and tensors that are sparse, nested or otherwise not strided are refused, too.
            rounding: one of ``lplab.formats.ROUNDINGS`` or a :class:`~lplab.formats.Rounding`; "nearest_even" is
                round_to_nearest_even, the default of IEEE 754.
            seed: for stochastic rounding: an integer or a numpy Generator; None takes fresh entropy. Element i (in C
                order) gets the same random bits from the same seed on every path, device and thread count.
            out: where the result is written; same kind, shape and dtype as x. May be x itself. Saves the allocation,
                which costs more than the rounding.
            random_bits: random bits an element for ``rounding="stochastic"``, 1 to 24.
            variant: "A" (biased), "B" or "C" of P3109 for ``rounding="stochastic"``.

        Returns:
            The same kind, shape, dtype and device as x (lists give float64 arrays). Subclasses of numpy arrays give
            plain arrays, but a masked array keeps its mask: masked numbers stay as they are, and count as 0 in a
            block. (``encode``, quantizers and products refuse masked arrays.) Half precision is computed in
            float32. A value of this format that the dtype of x cannot hold is rounded to that dtype as a cast would
            (65504 in bfloat16 is 65536). NaN stays NaN in every format, also in those without a code for it
            (``encode`` raises an error). A torch tensor that requires a gradient gets it straight
            through (see :func:`lplab.formats.straight_through`).

        Raises:
            TypeError: x is of another type, dtype or layout. ValueError: unknown rounding, or an ``out`` that does not
            fit.

        >>> from lplab.formats import get
        >>> get("e4m3fn").quantize(np.array([0.3, 1000.0, -0.0], np.float32))
        array([ 3.125e-01,  4.480e+02, -0.000e+00], dtype=float32)
        >>> get("q4.12").quantize(0.1, rounding="up")
        0.10009765625
        """
        return apply.quantize(self.prepared_roundings, x, rounding, seed, out, None, random_bits, variant)

    def encode(self, x: Any, rounding: str | Rounding = "nearest_even", seed: Any = None) -> Any:
        """Round x to this format and return the codes.

        Returns:
            For numpy (and lists) the smallest unsigned integer dtype that holds ``bits``; for torch uint8, int32 or
            int64; for a Python number an int.

        Raises:
            ValueError: x holds NaN and the format has no code for it; or as :meth:`quantize`.

        >>> from lplab.formats import get
        >>> get("e4m3fn").encode(0.3), get("e4m3fn").encode(np.array([448.0, -1.0]))
        (42, array([126, 184], dtype=uint8))
        """
        return coding.encode(self, x, as_rounding(rounding), seed)

    def decode(self, codes: Any) -> Any:
        """Dequantize: the float64 values of codes (numpy or torch integers, a Python int, a list) of :meth:`encode`.

        Raises:
            TypeError: codes are not integers. ValueError: a code is outside 0 … 2**bits − 1.

        >>> from lplab.formats import get
        >>> get("e4m3fn").decode(42), get("e4m3fn").decode([126, 127])
        (0.3125, array([448.,  nan]))
        """
        return coding.decode(self, codes)

    def codebook(self) -> np.ndarray:
        """The float64 values of all codes, in code order: shape [2**bits].

        Raises:
            ValueError: the format has more than 20 bits.

        >>> from lplab.formats import get
        >>> get("e2m1").codebook()[:8]
        array([0. , 0.5, 1. , 1.5, 2. , 3. , 4. , 6. ])
        """
        if self.bits > CODEBOOK_BITS:
            raise ValueError(f"{self.label} has 2^{self.bits} codes; codebook() lists at most 2^{CODEBOOK_BITS}")
        return self.values_of(np.arange(2**self.bits, dtype=np.int64))

    @cached_property
    def values(self) -> np.ndarray:
        """The distinct finite values in rising order (float64); formats of up to 20 bits."""
        codebook = self.codebook()
        return np.unique(codebook[np.isfinite(codebook)])

    @property
    def wasted_codes(self) -> int:
        """How many codes are no finite value of their own: NaN, infinities, the second zero."""
        return 2**self.bits - len(self.values)

    @property
    def eps(self) -> float:
        """The gap between 1 and the next larger value, as numpy.finfo has it; NaN where 1 is not below max or no value.

        >>> from lplab.formats import get
        >>> get("e4m3fn").eps, get("fp16").eps, float(np.finfo(np.float16).eps)
        (0.125, 0.0009765625, 0.0009765625)
        """
        above = self.quantize(np.array([np.nextafter(1.0, 2.0)]), "up")[0] - 1.0
        return float(above) if self.quantize(1.0) == 1.0 and self.max > 1.0 and above > 0 else math.nan

    @property
    def dynamic_range_octaves(self) -> float:
        """log2(max / smallest positive value)."""
        return math.log2(self.max) - math.log2(self.smallest_subnormal)

    @property
    def dynamic_range_db(self) -> float:
        """20·log10(max / smallest positive value)."""
        return 20 * math.log10(2) * self.dynamic_range_octaves

    @property
    def label(self) -> str:
        """The name, or the constructor call where there is none."""
        return getattr(self, "name", "") or repr(self)

    def describe(self) -> dict[str, Any]:
        """Width, range and precision by name.

        >>> from lplab.formats import get
        >>> get("e4m3fn").describe()["max"]
        448.0
        """
        numbers: dict[str, Any] = {name: getattr(self, name) for name in _NUMBERS}
        numbers["wasted_codes"] = self.wasted_codes if self.bits <= CODEBOOK_BITS else None
        return {"name": self.label, **numbers}

    def __repr__(self) -> str:
        """The constructor call, with the fields that differ from their defaults."""
        shown = (f for f in fields(cast(Any, self)) if getattr(self, f.name) != f.default)
        return f"{type(self).__name__}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in shown)})"

    def __str__(self) -> str:
        return (
            f"{self.label}: {self.bits} bits, {self.smallest_subnormal:.6g} to {self.max:.6g} "
            f"({self.dynamic_range_octaves:.1f} octaves)"
        )


_NUMBERS = (
    "bits",
    "max",
    "min",
    "smallest_normal",
    "smallest_subnormal",
    "eps",
    "dynamic_range_octaves",
    "dynamic_range_db",
)
