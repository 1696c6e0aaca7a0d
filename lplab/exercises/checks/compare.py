"""Compare results: bit by bit where numbers lie on a grid, the sign of zero included; else with room for rounding."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from lplab.exercises.checks.verdict import Miss
from lplab.exercises.exercise import Exercise


def same(a: Any, b: Any, *, signed_zero: bool = True, room: float = 0.0) -> bool:
    """Whether two results are the same numbers: NaN equals NaN, −0 differs from 0 unless told otherwise.

    Args:
        a, b: the results.
        signed_zero: whether −0 differs from 0.
        room: how far apart numbers may lie, as a share of the largest magnitude in ``b``.

    >>> same(0.0, -0.0), same(0.0, -0.0, signed_zero=False), same(2, 2.0), same((1, 2), [1, 3])
    (False, True, True, False)
    >>> same((5, 0.1 + 0.2), (5, 0.3)), same((5, 0.1 + 0.2), (5, 0.3), room=1e-12)
    (False, True)
    """
    try:
        a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    except (TypeError, ValueError):  # not numbers
        return False
    return a.shape == b.shape and bool(_equal(a, b, signed_zero, room).all())


def _equal(a: np.ndarray, b: np.ndarray, signed_zero: bool, room: float = 0.0) -> np.ndarray:
    equal = (a == b) | (np.isnan(a) & np.isnan(b))
    if room:
        numbers = np.isfinite(a) & np.isfinite(b)
        allowed = room * np.abs(b[np.isfinite(b)]).max(initial=0.0)
        equal |= np.abs(np.subtract(a, b, where=numbers, out=np.full_like(b, np.inf))) <= allowed
    if signed_zero:
        equal &= (a != 0) | (b != 0) | (np.signbit(a) == np.signbit(b))
    return equal


def misses(exercise: Exercise, args: tuple[Any, ...], yours: Any, expected: Any) -> list[Miss]:
    """The misses of one call: of elements where the exercise says so, else of the whole result."""
    if exercise.elements is None:
        right = same(yours, expected, signed_zero=exercise.signed_zero, room=exercise.room)
        return [] if right else [Miss(args, yours, expected)]
    a, b = np.asarray(yours, dtype=float).ravel(), np.asarray(expected, dtype=float).ravel()
    wrong = np.flatnonzero(~_equal(a, b, exercise.signed_zero, exercise.room))
    return [Miss(element(exercise, args, i), float(a[i]), float(b[i])) for i in wrong.tolist()]


def element(exercise: Exercise, args: tuple[Any, ...], index: int) -> tuple[Any, ...]:
    """The arguments with one element instead of the array."""
    position = exercise.elements or 0
    return tuple(float(np.ravel(value)[index]) if i == position else value for i, value in enumerate(args))


def sizes_of(miss: Miss) -> list[tuple[bool, float, bool]]:
    """How hard a miss is to think about, smallest first: by magnitude, finite before infinite before NaN."""
    return list(_sizes(miss.args))


def _sizes(args: tuple[Any, ...]) -> Iterator[tuple[bool, float, bool]]:
    for value in args:
        if isinstance(value, int | float):
            yield math.isnan(value), 0.0 if math.isnan(value) else abs(value), value < 0
        elif isinstance(value, np.ndarray | list | tuple):
            yield False, float(np.size(value)), False
