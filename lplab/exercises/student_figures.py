"""Figures of a student's function beside the library's, once it works."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lplab import formats
from lplab.exercises.checks.grids import grid
from lplab.exercises.isolation import Raised, Unusable, run_isolated
from lplab.exercises.isolation.answers import answer_of
from lplab.exercises.notebook import Text

POINTS = 181  # of a figure; the ties are added, since evenly spaced points miss them


def results_of(function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The results of a student's function for every call, run in a process of its own.

    Raises:
        ValueError: with one clear line, if it is not written yet or fails.

    >>> results_of(round, [(1.5,), (2.5,)])
    [2, 2]
    """
    outcome = run_isolated(answer_of(function), list(calls))
    if outcome.stopped:
        raise ValueError(outcome.stopped.sentence)
    for value in outcome.values:
        if isinstance(value, Raised):
            raise ValueError(
                "it is not written yet"
                if value.type == "NotImplementedError"
                else f"it raises {value.type}: {value.message}"
            )
        if isinstance(value, Unusable) or value is None:
            raise ValueError("it returns no number yet")
    return list(outcome.values)


def draw_rounding(function: Callable[[float], float], fmt: str, *, low: float = -1.0, high: float = 1.0) -> Any:
    """A live figure of the student's rounding on the staircase of a format, or a line that says what it waits for.

    Args:
        function: takes one float and returns one.
        fmt: the format to compare with.
        low, high: the range of inputs.
    """
    from lplab import figures, widgets  # drawn in a notebook only

    x = np.sort(np.concatenate([np.linspace(low, high, POINTS), ties(formats.get(fmt), low, high)]))
    try:
        results = np.array(results_of(function, [(value,) for value in x.tolist()]), dtype=np.float64)
    except (ValueError, TypeError) as problem:
        return Text(f"Here your {function.__name__} will be drawn on the staircase of {fmt} (now: {problem}).")
    return widgets.LiveFigure(figures.staircase(fmt, (x, results), low=low, high=high))


def ties(fmt: formats.Format, low: float, high: float) -> np.ndarray:
    """The halfway points of a format within a range, at most as many as other points.

    >>> ties(formats.get("e2m1"), 0, 2)
    array([0.25, 0.75, 1.25, 1.75])
    """
    numbers = grid(fmt)
    middles = (numbers[:-1] + numbers[1:]) / 2
    return middles[(middles >= low) & (middles <= high)][:POINTS]
