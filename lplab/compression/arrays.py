"""The array operations of the compressors that numpy and PyTorch do not share: here those of numpy.

A compressor is written once, for arrays and for tensors on any device. What both libraries write alike, such as ``+``,
``abs``, comparisons, indices and ``reshape``, stands in its text; everything else is called through :func:`of`, which
returns this module for an array and :mod:`lplab.compression.tensors.operations` for a tensor. Both modules have the
same functions with the same results, bit for bit.

The package array-api-compat is not used. It has a dozen of the functions here, such as ``repeat`` and ``nonzero``: each
is one line. The others are in no standard: bytes and packed bits, bins, insertions, sums that have the same bits in any
order, checks in one pass. A line in each module is less than one more dependency of every installation.

Where numba is installed, large arrays take the loops at the end of this module: fewer passes over memory, the same
bits.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import (  # noqa: F401  # the same names and meanings in both libraries
    abs,
    clip,
    concatenate,
    empty_like,
    floor,
    isfinite,
    ones_like,
    round,
    searchsorted,
    sign,
    signbit,
    sqrt,
    stack,
    where,
)

from lplab import formats
from lplab.formats.paths import kernel_selection

BLOCK = 2**15  # elements processed together: their copies stay in the cache


def of(x: Any) -> Any:
    """The module with the operations for an array or a tensor.

    >>> of(np.zeros(2)).__name__
    'lplab.compression.arrays'
    """
    if isinstance(x, (np.ndarray, np.generic)):
        return sys.modules[__name__]
    # The module needs PyTorch.
    from lplab.compression.tensors import operations

    return operations


def single(number: float) -> float:
    """A setting as float32: in an operation with a Python number, both libraries compute in the array's own type.

    >>> single(0.1)
    0.10000000149011612
    """
    return float(np.float32(number))


# ---- memory ----------------------------------------------------------------------------------------------------------


def device(x: np.ndarray) -> Any:
    """Where a message to the owner of ``x`` is read; None: on the host, as an array."""
    return None


def dtype_name(x: np.ndarray) -> str:
    """The name of the elements' type."""
    return x.dtype.name


def flat(x: np.ndarray) -> np.ndarray:
    """The elements in a row: a view where that is possible."""
    return np.ascontiguousarray(x).reshape(-1)


def copy(x: np.ndarray) -> np.ndarray:
    """A copy in memory of its own."""
    return x.copy()


def host(x: np.ndarray) -> np.ndarray:
    """An array on the host, not copied if it is one."""
    return x


def from_host(array: np.ndarray, like: np.ndarray) -> np.ndarray:
    """An array of the host where ``like`` is, not copied if that is the host."""
    return array


def zeros(count: int, like: np.ndarray) -> np.ndarray:
    """float32 zeros where ``like`` is."""
    return np.zeros(count, np.float32)


def arange(count: int, like: np.ndarray) -> np.ndarray:
    """0 … count − 1 where ``like`` is: int64."""
    return np.arange(count)


def cast(x: np.ndarray, name: str) -> np.ndarray:
    """Elements of another type, by its name.

    >>> cast(np.array([True, False]), "int8").tolist()
    [1, 0]
    """
    return x.astype(name)


def rows(x: np.ndarray, width: int, fill: float) -> np.ndarray:
    """A flat array in rows of ``width``, the last one filled up.

    >>> rows(np.array([1, 2, 3]), 2, fill=0).tolist()
    [[1, 2], [3, 0]]
    """
    filled = np.full(-(-x.size // width) * width, fill, x.dtype)
    filled[: x.size] = x
    return filled.reshape(-1, width)


# ---- elements --------------------------------------------------------------------------------------------------------


def take(x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """The elements at some places of the last dimension."""
    return x.take(indices, axis=-1)


def take_sent(x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Take the elements at some places of the last dimension, and leave zeros there: they are sent without rounding.

    >>> x = np.array([1, 2, 3], np.float32)
    >>> take_sent(x, np.array([0, 2])).tolist(), x.tolist()
    ([1.0, 3.0], [0.0, 2.0, 0.0])
    """
    if x.ndim == 1 and compiles(x):
        sent = np.empty(indices.size, np.float32)
        _compiled(_take_loop)(x, indices, sent)
        return sent
    sent = take(x, indices)
    x[..., indices] = 0
    return sent


def nonzero(x: np.ndarray) -> np.ndarray:
    """The places of a flat array that are not zero: int64, ascending."""
    return np.flatnonzero(x)


def count(mask: np.ndarray) -> int:
    """How many elements are not zero."""
    return int(np.count_nonzero(mask))


def insert(x: np.ndarray, places: np.ndarray, value: int) -> np.ndarray:
    """A flat array with a value inserted before each of these places, which ascend."""
    return np.insert(x, places, value)


def bincount(numbers: np.ndarray, bins: int) -> np.ndarray:
    """How often each number of 0 … bins − 1 occurs."""
    return np.bincount(numbers, minlength=bins)


def repeat(x: np.ndarray, times: int) -> np.ndarray:
    """Each element ``times`` times in a row."""
    return np.repeat(x, times)


def argsort_descending(x: np.ndarray) -> np.ndarray:
    """Places in each row from the largest element to the smallest; of equal ones the first before the others."""
    return np.argsort(-x, axis=1, kind="stable")


def sort_rows(x: np.ndarray) -> np.ndarray:
    """Each row in ascending order."""
    return np.sort(x, axis=1)


def bin_maxima(x: np.ndarray, bin: int) -> np.ndarray:
    """max |x| of each bin of a flat array; the last one may be short.

    >>> bin_maxima(np.array([1, -3, 2], np.float32), bin=2).tolist()
    [3.0, 2.0]
    """
    return np.maximum.reduceat(np.abs(x), np.arange(0, x.size, bin))


def kth_largest(x: np.ndarray, k: int) -> Any:
    """The k-th largest element of a flat array.

    >>> float(kth_largest(np.array([3.0, 1.0, 2.0]), 2))
    2.0
    """
    return np.partition(x, x.size - k)[x.size - k]


# ---- numbers ---------------------------------------------------------------------------------------------------------


def is_finite(x: np.ndarray) -> bool:
    """Whether no element of contiguous float32 is NaN or infinite.

    >>> is_finite(np.array([1, -np.inf], np.float32))
    False
    """
    if compiles(x):
        return bool(_compiled(_finite_loop)(x.reshape(-1)))
    return bool(np.isfinite(x).all())


def add_finite(residual: np.ndarray, gradient: np.ndarray, total: np.ndarray) -> bool:
    """Write residual + gradient to ``total``; whether all sums are finite, which those of a NaN or infinity are not.

    Args:
        residual, gradient: flat float32, not changed.
        total: flat float32, other memory than these; or the same array as ``gradient``.

    >>> total = np.empty(2, np.float32)
    >>> add_finite(np.array([1, 2], np.float32), np.array([3, 4], np.float32), total), total.tolist()
    (True, [4.0, 6.0])
    """
    if compiles(gradient):
        if total is gradient:
            return bool(_compiled(_add_in_place_loop)(residual, gradient))
        return bool(_compiled(_add_loop)(residual, gradient, total))
    np.add(residual, gradient, out=total)
    return is_finite(total)


def compiles(x: Any) -> bool:
    """Whether compiled loops pay off for an array of this size, and numba is installed."""
    return x.size >= kernel_selection.MIN_COMPILED_SIZE and kernel_selection.loops_are_on


def divided(x: Any, divisor: float) -> Any:
    """Quotients, each rounded once to the type of ``x``.

    >>> divided(np.ones(1, np.float32), 3)
    array([0.33333334], dtype=float32)
    """
    return x / x.dtype.type(divisor)


def rounded_sums(x: np.ndarray, finish: Callable[[Any], Any]) -> Any:
    """A function of the float64 sums along the last dimension.

    Args:
        x: float32 or float64 [..., n], all of one sign along the last dimension.
        finish: monotone; its result is rounded much more coarsely than float64.
    """
    return finish(np.add.reduce(x, axis=-1, dtype=np.float64))


def rounded_bucket_sums(x: np.ndarray, bucket: int, finish: Callable[[Any], Any]) -> Any:
    """:func:`rounded_sums` of each ``bucket`` elements of flat float64; the last may be fewer."""
    return finish(np.add.reduceat(x, np.arange(0, x.size, bucket)))


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product of two matrices."""
    return a @ b


# ---- bytes -----------------------------------------------------------------------------------------------------------


def round_to_wire(x: np.ndarray, wire: str) -> np.ndarray:
    """The float32 values that arrive: rounded to nearest even, and clipped to the largest number of the format.

    >>> round_to_wire(np.array([1.001, 1e6], np.float32), "fp16").tolist()
    [1.0009765625, 65504.0]
    """
    if wire == "fp32":
        return x
    fmt = formats.get(wire)
    return fmt.quantize(np.clip(x, -fmt.max, fmt.max).astype(np.float32))


def float_bytes(x: Any, wire: str = "fp32") -> np.ndarray:
    """Numbers that have been rounded to a format as little-endian bytes.

    >>> float_bytes(np.float32(1), "bf16").tolist()
    [128, 63]
    """
    flat = np.ascontiguousarray(x, "<f4").reshape(-1)
    if wire == "bf16":
        return (flat.view("<u4") >> 16).astype("<u2").view(np.uint8)
    return flat.astype("<f4" if wire == "fp32" else "<f2").view(np.uint8)


def floats(payload: np.ndarray, wire: str = "fp32") -> np.ndarray:
    """The inverse of :func:`float_bytes`, float32."""
    packed = np.ascontiguousarray(payload)
    if wire == "bf16":
        return (packed.view("<u2").astype(np.uint32) << 16).view(np.float32)
    return packed.view("<f4" if wire == "fp32" else "<f2").astype(np.float32)


def narrow(x: np.ndarray, width: int) -> np.ndarray:
    """Integers in a type of ``width`` bytes, where that saves memory."""
    return x.astype(f"<u{width}")


def unsigned_bytes(x: np.ndarray, width: int) -> np.ndarray:
    """Integers as little-endian ones of ``width`` bytes each: uint8.

    >>> unsigned_bytes(np.array([258]), 2).tolist()
    [2, 1]
    """
    return x.astype(f"<u{width}").view(np.uint8)


def unsigned(payload: np.ndarray, width: int) -> np.ndarray:
    """The inverse of :func:`unsigned_bytes`, int64."""
    return np.ascontiguousarray(payload).view(f"<u{width}").astype(np.int64)


def pack_bits(mask: np.ndarray) -> np.ndarray:
    """Bools, eight to a byte, the first in the lowest bit; the last byte is filled with 0."""
    return np.packbits(mask, bitorder="little")


def unpack_bits(payload: np.ndarray) -> np.ndarray:
    """The inverse of :func:`pack_bits`, eight bools for each byte."""
    return np.unpackbits(payload, bitorder="little").view(np.bool_)


# ---- loops that numba compiles ---------------------------------------------------------------------------------------

# Magnitudes are compared as integers: positive floats and their bit patterns have the same order, and an integer
# maximum is vectorized, which a float maximum (NaN, signed zeros) is not.
MAGNITUDE = np.int32(0x7FFFFFFF)
INFINITY = np.int32(0x7F800000)  # the pattern of infinity; those of NaN are above
maximum: Any = None  # the loops get numba's from :func:`_compiled`, and the next two
as_bits: Any = None
use_wide_vectors: Any = None


@functools.cache
def _compiled(loop: Callable[..., Any]) -> Callable[..., Any]:
    """A loop of this module, compiled; numba is imported with the first one."""
    from lplab.formats.paths.numba_compile import compile_loop, use_wide_vectors, words_for

    names = {name: words_for("float32")[name] for name in ("maximum", "as_bits")}
    return compile_loop(loop, {**names, "use_wide_vectors": use_wide_vectors})


def _finite_loop(values):
    """Whether no value is NaN or infinite."""
    use_wide_vectors()
    largest = np.int32(0)
    for j in range(values.size):
        largest = np.int32(maximum(largest, np.int32(as_bits(values[j]) & MAGNITUDE)))
    return largest < INFINITY


def _add_loop(residual, gradient, total):
    """Write r + g to ``total``; whether no sum is NaN or infinite."""
    use_wide_vectors()
    largest = np.int32(0)
    for j in range(gradient.size):
        value = np.float32(residual[j] + gradient[j])
        total[j] = value
        largest = np.int32(maximum(largest, np.int32(as_bits(value) & MAGNITUDE)))
    return largest < INFINITY


def _add_in_place_loop(residual, gradient):
    """Write r + g to g; whether no sum is NaN or infinite. In the loop above, aliases prevent vector instructions."""
    use_wide_vectors()
    largest = np.int32(0)
    for j in range(gradient.size):
        value = np.float32(residual[j] + gradient[j])
        gradient[j] = value
        largest = np.int32(maximum(largest, np.int32(as_bits(value) & MAGNITUDE)))
    return largest < INFINITY


def _take_loop(corrected, indices, sent):
    """Move the values at some indices to ``sent``; zeros remain."""
    for k in range(indices.size):
        sent[k] = corrected[indices[k]]
        corrected[indices[k]] = np.float32(0)
