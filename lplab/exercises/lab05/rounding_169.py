"""The rounding provided in the exercises of lab 05, and vectors whose sums show its errors."""

from __future__ import annotations

import math

import numpy as np

from lplab import formats as F


def to_169(x):
    """x rounded to ten significant bits, ties to even: the precision of 1-6-9."""
    m, e = math.frexp(x)
    return math.ldexp(round(m * 1024), e - 10)


def fp8_numbers(count: int, seed: int, mean: float = 1.0) -> np.ndarray:
    """Uniform numbers of standard deviation 1 around a mean, rounded to FP8 1-5-2: float64 [count]."""
    return _uniform(count, seed, mean, "e5m2")


def numbers_169(count: int, seed: int, mean: float = 1.0) -> np.ndarray:
    """The numbers rounded to the accumulator's own format, 1-6-9: float64 [count]."""
    return _uniform(count, seed, mean, "dlfloat16")


def _uniform(count: int, seed: int, mean: float, fmt: str) -> np.ndarray:
    numbers = np.random.default_rng(seed).uniform(mean - math.sqrt(3), mean + math.sqrt(3), count)
    return F.get(fmt).quantize(numbers)
