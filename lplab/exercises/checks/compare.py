"""Compare results: bit by bit where numbers lie on a grid, the sign of zero included; else with a tolerance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from lplab.exercises.checks.verdict import Counterexample
from lplab.exercises.model.exercise import Exercise


def same(a: Any, b: Any, *, signed_zero: bool = True, tolerance: float = 0.0) -> bool:
    """Whether two results are the same numbers: NaN equals NaN, −0 differs from 0 unless signed_zero=False.

    Args:
        a, b: the results. Tuples or lists of arrays that have different shapes are compared array by array.
        signed_zero: whether −0 differs from 0.
        tolerance: how far apart numbers may lie, as a share of the largest magnitude in ``b``.

    >>> same(0.0, -0.0), same(0.0, -0.0, signed_zero=False), same(2, 2.0), same((1, 2), [1, 3])
    (False, True, True, False)
    >>> same((5, 0.1 + 0.2), (5, 0.3)), same((5, 0.1 + 0.2), (5, 0.3), tolerance=1e-12)
    (False, True)
    >>> same((0.5, np.ones(2)), (0.5, np.ones(2))), same((0.5, np.ones(2)), (0.5, np.zeros(2)))
    (True, False)
    """
    try:
        a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    except (TypeError, ValueError):  # not numbers, or arrays of different shapes
        several = isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b)
        each = zip(a, b, strict=True) if several else ()
        return several and all(same(*pair, signed_zero=signed_zero, tolerance=tolerance) for pair in each)
    return a.shape == b.shape and bool(_equal(a, b, signed_zero, tolerance).all())


def _equal(a: np.ndarray, b: np.ndarray, signed_zero: bool, tolerance: float = 0.0) -> np.ndarray:
    equal = (a == b) | (np.isnan(a) & np.isnan(b))
    if tolerance:
        numbers = np.isfinite(a) & np.isfinite(b)
        allowed = tolerance * np.abs(b[np.isfinite(b)]).max(initial=0.0)
        equal |= np.abs(np.subtract(a, b, where=numbers, out=np.full_like(b, np.inf))) <= allowed
    if signed_zero:
        equal &= (a != 0) | (b != 0) | (np.signbit(a) == np.signbit(b))
    return equal


def counterexamples(exercise: Exercise, args: tuple[Any, ...], yours: Any, expected: Any) -> list[Counterexample]:
    """The counterexamples of one call: elements where the exercise says so, else the whole result."""
    if exercise.elements is None:
        right = same(yours, expected, signed_zero=exercise.signed_zero, tolerance=exercise.tolerance)
        return [] if right else [Counterexample(args, yours, expected)]
    a, b = np.asarray(yours, dtype=float).ravel(), np.asarray(expected, dtype=float).ravel()
    wrong = np.flatnonzero(~_equal(a, b, exercise.signed_zero, exercise.tolerance))
    return [Counterexample(element(exercise, args, i), float(a[i]), float(b[i])) for i in wrong.tolist()]


def element(exercise: Exercise, args: tuple[Any, ...], index: int) -> tuple[Any, ...]:
    """The arguments with one element instead of the array."""
    position = exercise.elements or 0
    return tuple(float(np.ravel(value)[index]) if i == position else value for i, value in enumerate(args))


def simplicity_key(counterexample: Counterexample) -> list[tuple[bool, float, bool]]:
    """A sort key, simplest counterexample first: by magnitude of the arguments, finite before infinite before NaN."""
    return list(_sizes(counterexample.args))


def _sizes(args: tuple[Any, ...]) -> Iterator[tuple[bool, float, bool]]:
    for value in args:
        if isinstance(value, int | float):
            yield math.isnan(value), 0.0 if math.isnan(value) else abs(value), value < 0
        elif isinstance(value, np.ndarray | list | tuple):
            yield False, float(np.size(value)), False
