"""Solutions and known mistakes as functions: source texts of the library, compiled in this process."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from lplab.exercises.checks import withheld
from lplab.exercises.model.exercise import Exercise, Variant


@lru_cache(maxsize=512)
def compiled(source: str, name: str) -> Callable[..., Any]:
    """The function ``name`` of a source text that uses nothing but math and numpy."""
    namespace: dict[str, Any] = {"math": math, "np": np, "__name__": "__answer__"}
    exec(compile(source, f"<{name}>", "exec"), namespace)
    return namespace[name]


def function_of(exercise: Exercise, variant: Variant | None = None) -> Callable[..., Any]:
    """The solution of an exercise, or a variant of it, as a function."""
    source = exercise.solution if variant is None else variant.apply(exercise.solution)
    return compiled(source, exercise.name)


class NoResult:
    """Stands for the result of a call in which a variant raises; equal to no value."""


def answers(function: Callable[..., Any], calls: list[tuple[Any, ...]]) -> list[Any]:
    """The results of one of these functions for every call; ``Seeded`` become generators, arrays are copied."""
    results = []
    for args in calls:
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):  # a mistake may warn
                results.append(function(*map(_fresh, args)))
        except Exception:  # a mistake may raise
            results.append(NoResult())
    return results


def expected_results(exercise: Exercise, variant: Variant | None, calls: list[tuple[Any, ...]]) -> list[Any]:
    """What the solution, or a variant of it, returns in each call; in a student edition that was kept beforehand."""
    if exercise.withheld:
        return [withheld.result(exercise.id, args, variant.name if variant else "") for args in calls]
    return answers(function_of(exercise, variant), calls)


def _fresh(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return argument.copy()
    seed = getattr(argument, "seed", None)
    return argument if seed is None else np.random.default_rng(seed)
