"""The reference sum: slow and simple; every faster path must reproduce it bit for bit. Read this one first.

One operation is enough: add an exact product to a value of the accumulator's format, in rational numbers, and
round once. Matrix products are this operation, element by element, in rising order of the index k.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from lplab.arithmetic import rng_streams
from lplab.arithmetic.accumulator import Accumulator
from lplab.formats import Format, Rounding, reference


def matmul(a: np.ndarray, b: np.ndarray, accumulator: Accumulator, seed: int = 0) -> np.ndarray:
    """[rows, length] times [length, columns] as float64: every element is a :func:`dot` of its own.

    >>> matmul(np.ones((1, 3)), np.full((3, 2), 0.1), Accumulator("e4m3fn"))
    array([[0.3125, 0.3125]])
    """
    rows, columns = a.shape[0], b.shape[1]
    out = np.zeros((rows, columns))
    for i in range(rows):
        for j in range(columns):
            out[i, j] = dot(a[i], b[:, j], accumulator, seed, i * columns + j)
    return out


def dot(x: np.ndarray, y: np.ndarray, accumulator: Accumulator, seed: int = 0, element: int = 0) -> float:
    """Σ x[k]·y[k] in rising order of k.

    Both registers start at +0. Without chunks the first register is the result. With chunks it starts at +0 for
    every chunk, and its content is then added to the total.

    Args:
        x, y: float64 [length].
        accumulator: formats, chunk and rounding.
        seed, element: for stochastic rounding: the result is element number ``element`` of an array.

    >>> dot(np.ones(2000), np.ones(2000), Accumulator("dlfloat16"))  # 1024 + 1 is a tie, and 1024 is even
    1024.0
    >>> dot(np.ones(2000), np.ones(2000), Accumulator("dlfloat16", chunk=64))
    2000.0
    """

    def rounded(value: float, fmt: Format, stream: int, step: int) -> float:
        random_bits = _random_bits(accumulator.rounding, seed, step, stream, element)
        return round_to(value, fmt, accumulator.rounding, random_bits)

    length = len(x)
    chunk = accumulator.chunk or max(length, 1)
    total = part = 0.0
    for number, start in enumerate(range(0, length, chunk)):
        part = 0.0
        for k in range(start, min(start + chunk, length)):
            left, right = float(x[k]), float(y[k])
            if not accumulator.fma:
                left, right = rounded(fused(-0.0, left, right), accumulator.product_format, rng_streams.PRODUCT, k), 1.0
            part = rounded(fused(part, left, right), accumulator.format, rng_streams.ADDITION, k)
        if accumulator.chunk:
            total = rounded(fused(total, part, 1.0), accumulator.outer_format, rng_streams.TOTAL, number)
    return total if accumulator.chunk else part


def fused(total: float, x: float, y: float) -> float:
    """The exact total + x·y, as the float64 of :func:`to_odd`; NaN and infinity as in IEEE 754.

    Zero has a sign: an exact zero is −0 only if both summands are, whatever the rounding. So fused(−0, x, y) is the
    product alone.

    >>> fused(1.0, 3.0, 2.0), fused(-0.0, -1.0, 0.0), fused(float("inf"), -1.0, float("inf"))
    (7.0, -0.0, nan)
    """
    if not (math.isfinite(x) and math.isfinite(y)):
        return total + x * y
    if not math.isfinite(total):
        return total
    exact = Fraction(total) + Fraction(x) * Fraction(y)
    if exact:
        return to_odd(exact)
    product_is_negative = math.copysign(1, x) != math.copysign(1, y)
    return -0.0 if total == 0 and math.copysign(1, total) < 0 and product_is_negative else 0.0


def to_odd(exact: Fraction) -> float:
    """The float64 equal to a rational number, or else of its two neighbours the one whose last bit is odd.

    Rounding this to fewer bits is the same as rounding the number itself, in every mode (Boldo, Melquiond 2008).

    >>> to_odd(Fraction(1, 2)), to_odd(1 + Fraction(1, 2**60)) == 1 + 2.0**-52
    (0.5, True)
    """
    nearest = float(exact)
    if Fraction(nearest) == exact or np.float64(nearest).view(np.int64) & 1:
        return nearest
    return math.nextafter(nearest, math.inf if exact > Fraction(nearest) else -math.inf)


def round_to(value: float, fmt: Format, rounding: Rounding, random_bits: int | None = None) -> float:
    """One number rounded to a format by :mod:`lplab.formats.reference`."""
    bits = None if random_bits is None else np.array([random_bits])
    return float(reference.quantize(np.array([value]), fmt.rounding_spec, rounding, bits)[0])


def _random_bits(rounding: Rounding, seed: int, step: int, stream: int, element: int) -> int | None:
    if not rounding.is_stochastic:
        return None
    return rng_streams.random_bits(seed, step, stream, element, rounding.random_bits)


def pairwise_sum(
    x: np.ndarray, fmt: Format, rounding: Rounding, seed: int = 0, sums: int = 1, element: int = 0
) -> float:
    """Add neighbours, then neighbours of their sums; the last of an odd number goes to the next level unchanged.

    Args:
        x: float64 [length].
        fmt, rounding: every addition is rounded; so is a single number.
        seed, sums, element: for stochastic rounding: this is sum number ``element`` of ``sums``.

    >>> from lplab.formats import get
    >>> pairwise_sum(np.ones(2000), get("dlfloat16"), Rounding())
    2000.0
    """

    def add(left: float, right: float, level: int, pair: int) -> float:
        random_bits = _random_bits(rounding, seed, level, rng_streams.ADDITION, pair * sums + element)
        return round_to(fused(left, right, 1.0), fmt, rounding, random_bits)

    terms = [float(value) for value in x]
    if len(terms) < 2:
        return add(0.0, terms[0], 0, 0) if terms else 0.0
    level = 0
    while len(terms) > 1:
        pairs = range(len(terms) // 2)
        terms = [add(terms[2 * i], terms[2 * i + 1], level, i) for i in pairs] + terms[2 * len(pairs) :]
        level += 1
    return terms[0]


def kahan_sum(x: np.ndarray, fmt: Format, rounding: Rounding, seed: int = 0, element: int = 0) -> float:
    """Kahan 1965: y = x − c; t = s + y; c = (t − s) − y; s = t; each of the four rounded.

    >>> from lplab.formats import get
    >>> kahan_sum(np.ones(2000), get("dlfloat16"), Rounding())
    2000.0
    """

    def rounded(value: float, stream: int, k: int) -> float:
        return round_to(value, fmt, rounding, _random_bits(rounding, seed, k, stream, element))

    total = lost = 0.0
    for k, value in enumerate(x):
        summand = rounded(fused(-lost, float(value), 1.0), rng_streams.ADDITION, k)
        after = rounded(fused(total, summand, 1.0), rng_streams.PRODUCT, k)
        gained = rounded(fused(after, -total, 1.0), rng_streams.TOTAL, k)
        lost = rounded(fused(gained, -summand, 1.0), rng_streams.EXTRA, k)
        total = after
    return total
