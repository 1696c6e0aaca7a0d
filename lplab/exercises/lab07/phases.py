"""What the exercises of lab 07 share: the values of radix-4 FP4, test numbers, the library's answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lplab.exercises.checks.numbers import decimal
from lplab.exercises.model.exercise import Args, Finding

VALUES = 4.0 ** np.arange(-3, 4)
THRESHOLDS = VALUES / 1.6  # exact: 5/8 of a power of two


def even(x):
    """x in the even phase of radix-4 FP4, looked up in a table: index 0 is zero, then come 1/64 ... 64."""
    sizes = np.array([0.0, *4.0 ** np.arange(-3, 4)])
    return np.copysign(sizes[np.searchsorted(sizes[1:] / 1.6, np.abs(x), side="right")], x)


def gradients(seed: int, size: int = 64) -> np.ndarray:
    """Numbers of many octaves and both signs, the largest 60, as in a scaled gradient."""
    rng = np.random.default_rng(seed)
    x = np.exp2(rng.normal(-2.0, 4.0, size)) * rng.choice([-1.0, 1.0], size)
    return x * 60 / np.abs(x).max()


def spread() -> list[Args]:
    """Scaled gradients of three sizes."""
    return [(gradients(seed, size),) for seed, size in ((1, 100), (2, 1000), (3, 1))]


def agrees_with_the_library(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether every element is the one of lplab.quantizers.Radix4 (none of these lies on a threshold)."""
    from lplab.quantizers import Radix4

    for args, yours in zip(calls, results, strict=True):
        expected = Radix4().quantize(args[0])
        wrong = np.flatnonzero(np.asarray(yours, np.float64) != expected)
        if len(wrong):
            i = int(wrong[0])
            x, y, z = (decimal(float(part[i])) for part in (args[0], np.asarray(yours), expected))
            return Finding(f"For x = {x} yours is {y}, expected {z}.", (args[0][i : i + 1],), y)
    return None
