"""Properties that several exercises share: what a rounding to a format must obey on thousands of numbers.

All numbers come from fixed seeds, so that the same answer always gets the same verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lplab.exercises.checks.grids import grid
from lplab.exercises.checks.numbers import decimal
from lplab.exercises.model.exercise import Args, Finding, Property

COUNT = 500


def wide_numbers(fmt: Any, seed: int) -> list[float]:
    """Numbers of both signs spread evenly over the octaves of a format and one beyond both ends."""
    rng = np.random.default_rng(seed)
    numbers = grid(fmt)
    low, high = np.log2(numbers[numbers > 0].min()) - 1.5, np.log2(numbers.max()) + 1
    return (rng.choice([-1, 1], COUNT) * 2 ** rng.uniform(low, high, COUNT)).tolist()


def agrees_at_random(fmt: Any) -> Property:
    """Every number of a wide random set becomes the nearest one of the format."""

    def check(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
        for (x,), yours in zip(calls, results, strict=True):
            expected = float(fmt.quantize(x))
            if yours != expected:
                return Finding(
                    f"For x = {decimal(x)} yours is {decimal(yours)}, expected {decimal(expected)}.", (x,), yours
                )
        return None

    return Property(
        f"{COUNT} random numbers of all sizes go to the nearest", lambda: [(x,) for x in wide_numbers(fmt, 1)], check
    )


def is_odd(fmt: Any) -> Property:
    """Minus x becomes minus what x becomes."""

    def calls() -> list[Args]:
        return [(side * x,) for x in wide_numbers(fmt, 2) for side in (1, -1)]

    def check(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
        for (x,), plus, minus in zip(calls[::2], results[::2], results[1::2], strict=True):
            if plus != -minus:
                return Finding(
                    f"x = {decimal(x)} becomes {decimal(plus)} but {decimal(-x)} becomes {decimal(minus)}.", (x,), plus
                )
        return None

    return Property("opposite numbers become opposite numbers", calls, check)


def is_monotone(fmt: Any) -> Property:
    """A larger number never becomes a smaller one."""

    def check(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
        for (a,), (b,), low, high in zip(calls, calls[1:], results, results[1:], strict=False):
            if low > high:
                return Finding(
                    f"{decimal(a)} < {decimal(b)}, but they become {decimal(low)} and {decimal(high)}.", (a,), low
                )
        return None

    return Property(
        "a larger number never becomes a smaller one", lambda: [(x,) for x in sorted(wide_numbers(fmt, 3))], check
    )


def stays_on_grid(fmt: Any) -> Property:
    """Every result is a number of the format."""

    def check(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
        numbers = set(grid(fmt).tolist())
        for (x,), yours in zip(calls, results, strict=True):
            if yours not in numbers:
                return Finding(
                    f"x = {decimal(x)} becomes {decimal(yours)}, which is no number of {fmt.name}.", (x,), yours
                )
        return None

    return Property("every result is a number of the format", lambda: [(x,) for x in wide_numbers(fmt, 4)], check)
