"""Figures of a student's function beside the library's, once it works.

A figure of an exercise is one function under ``@student_figure``, in the module of its exercise. It reads the results
of the student's function with ``read_results`` and returns a figure; what it waits for is said by the decorator.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from lplab import formats
from lplab.exercises.checks.grids import grid
from lplab.exercises.isolation import Raised, Unusable, run_answer
from lplab.exercises.isolation.answers import answer_of
from lplab.exercises.model.forms import Form, Number
from lplab.exercises.notebook import Text, say_where_answers_run

POINTS = 181  # of a figure; the ties are added, since evenly spaced points miss them


Read = TypeVar("Read")


class NotReady(ValueError):
    """Why a student's function cannot be drawn yet: words that follow "now:", such as "it is not written yet"."""


def student_figure(waiting: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator of a function that draws what a student's function does, or says what the figure waits for.

    The decorated function takes the student's function first and returns a plotly figure or a widget. It raises
    NotReady where there is nothing to draw yet. Where it needs a package that is missing, a line says so. Other errors
    are the library's own and are not caught.

    Args:
        waiting: a sentence without its full stop, shown instead of the figure with the reason behind it. {name} is the
            name of the student's function; other fields are arguments of the decorated function.

    Returns:
        The decorator. Its function returns the widget, a `lplab.widgets.LiveFigure` of the figure, or a
        `lplab.exercises.notebook.Text`.

    >>> @student_figure("Here your {name} will be drawn")
    ... def draw(function):
    ...     return read_results(function, [(1.5,)], Number(), float)
    >>> draw(divmod)
    Here your divmod will be drawn (now: it raises TypeError: divmod expected 2 arguments, got 1).
    """

    def decorate(draw: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(draw)

        @functools.wraps(draw)
        def live_figure(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
            import ipywidgets  # drawn in a notebook only

            from lplab import widgets
            from lplab.widgets.missing import missing_line, missing_package

            try:
                drawn = draw(function, *args, **options)
            except NotReady as problem:
                given = signature.bind(function, *args, **options).arguments
                name = getattr(function, "__name__", "function")
                return Text(f"{waiting.format(name=name, **given)} (now: {problem}).")
            except ImportError as error:
                if package := missing_package(error):
                    return Text(missing_line(package))
                raise
            return drawn if isinstance(drawn, ipywidgets.Widget) else widgets.LiveFigure(drawn)

        return live_figure

    return decorate


def results_of(function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The results of a student's function for every call, run in a process of its own.

    Raises:
        NotReady: with one clear line, if it is not written yet or fails.

    >>> results_of(round, [(1.5,), (2.5,)])
    [2, 2]
    """
    try:
        answer = answer_of(function)
    except ValueError as problem:
        raise NotReady(str(problem)) from problem
    say_where_answers_run()
    outcome = run_answer(answer, list(calls))
    if outcome.stopped:
        raise NotReady(outcome.stopped.sentence)
    for value in outcome.values:
        if isinstance(value, Raised):
            raise NotReady(
                "it is not written yet"
                if value.type == "NotImplementedError"
                else f"it raises {value.type}: {value.message}"
            )
        if isinstance(value, Unusable) or value is None:
            raise NotReady("it returns no number yet")
    return list(outcome.values)


def read_results(
    function: Callable[..., Any], calls: Sequence[tuple[Any, ...]], form: Form, read: Callable[[Any], Read]
) -> list[Read]:
    """What a figure takes from each result of a student's function, run in a process of its own.

    A result of another form is drawn all the same where it can be read; the check of the exercise is stricter.

    Args:
        function: the student's.
        calls: the arguments of each call.
        form: that of the exercise; it says what is missing in a result that cannot be read.
        read: what the figure needs of one result, such as ``float``.

    Raises:
        NotReady: with one clear line, if the function is not written yet, fails, or returns what cannot be read.

    >>> read_results(round, [(1.5,), (2.5,)], Number(), float)
    [2.0, 2.0]
    >>> read_results(lambda x: {}, [(1.5,)], Number(), float)
    Traceback (most recent call last):
    lplab.exercises.student_figures.NotReady: it returns a dict: return one number
    """
    found = []
    for args, result in zip(calls, results_of(function, calls), strict=True):
        try:
            found.append(read(result))
        except (ValueError, TypeError, LookupError, OverflowError) as error:
            problem = form.problem(args, result)
            raise NotReady(f"it {problem}" if problem else str(error)) from error
    return found


def as_array(result: Any) -> np.ndarray:
    """A result as a float64 array; ValueError or TypeError if it is none. For ``read_results``.

    >>> as_array([1, 2])
    array([1., 2.])
    """
    return np.asarray(result, np.float64)


@student_figure("Here your {name} will be drawn on the staircase of {fmt}")
def draw_rounding(function: Callable[[float], float], fmt: str, *, low: float = -1.0, high: float = 1.0) -> Any:
    """A live figure of the student's rounding on the staircase of a format, or a line that says what it waits for.

    Args:
        function: takes one float and returns one.
        fmt: the format to compare with.
        low, high: the range of inputs.
    """
    from lplab import figures  # drawn in a notebook only

    middles = ties(formats.get(fmt), low, high)
    x = np.sort(np.concatenate([np.linspace(low, high, POINTS), middles]))
    results = np.array(read_results(function, [(value,) for value in x.tolist()], Number(), float))
    return figures.staircase(fmt, (x, results), low=low, high=high, rings=middles)


def ties(fmt: formats.Format, low: float, high: float) -> np.ndarray:
    """The halfway points of a format within a range, at most as many as other points.

    >>> ties(formats.get("e2m1"), 0, 2)
    array([0.25, 0.75, 1.25, 1.75])
    """
    numbers = grid(fmt)
    middles = (numbers[:-1] + numbers[1:]) / 2
    return middles[(middles >= low) & (middles <= high)][:POINTS]
