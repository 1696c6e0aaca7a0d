"""Exercise 14.3: what roundings do to the length of a gradient, and what averaging several of them repairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from lplab.exercises.checks.close import TOLERANCE, close_to
from lplab.exercises.checks.numbers import sequence_text, table_text
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import Numbers
from lplab.exercises.student_figures import read_results, student_figure


def slope_and_error(g, rounded):
    """The slope of the mean of several roundings of g, [draws, n], along g, and its error as a share of g."""
    mean = rounded.mean(axis=0)
    slope = (mean * g).sum() / (g * g).sum()
    error = np.linalg.norm(mean - g) / np.linalg.norm(g)
    return slope, error


SLOPE, ERROR, MEAN = "(mean * g).sum() / (g * g).sum()", "np.linalg.norm(mean - g) / np.linalg.norm(g)", "rounded.mean(axis=0)"


def draws_of(seed: int, count: int, size: int, shrink: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """A gradient and roundings of it to quarters, up or down by chance, made smaller by a factor: [n], [count, n]."""
    rng = np.random.default_rng(seed)
    g = rng.normal(size=size) * np.exp2(rng.integers(-2, 3, size))
    coins = rng.random((count, size))
    return g, shrink * np.floor(4 * g + coins) / 4


def cases() -> list[Args]:
    """One to sixteen roundings of gradients of 2 to 200 numbers, unbiased and shrunk ones."""
    return [draws_of(10 * n + count, count, n, shrink) for n in (2, 5, 200) for count in (1, 2, 4, 16) for shrink in (1.0, 0.75)]


def more_draws() -> list[Args]:
    """1, 4 and 16 roundings of one gradient."""
    g, rounded = draws_of(5, 16, 500)
    return [(g, rounded[:count]) for count in (1, 4, 16)]


def averaging_lowers_the_error(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether four times as many unbiased draws halve the error, roughly, and leave the slope near 1."""
    slopes, errors = zip(*results, strict=True)
    for before, after in pairwise(errors):
        if not 0.35 * before < after < 0.7 * before:
            return Finding(f"Four times as many draws: the error goes from {before:.1%} to {after:.1%}. It should be about half.", calls[1])
    if not all(abs(slope - 1) < 0.1 for slope in slopes):
        return Finding(f"These roundings are unbiased, so the slope must be near 1, not {slopes[-1]:.3g}.", calls[-1])
    return None


def show(args: Args) -> str:
    """The arguments in words."""
    g, rounded = args
    if g.size > 4:
        return f"g of {g.size} numbers, {len(rounded)} {'rounding' if len(rounded) == 1 else 'roundings'}"
    return f"g = {sequence_text(g)}, rounded = {table_text(rounded)}"


def why(args: Args, expected: Any) -> str:
    """What the slope and the error say."""
    return f"The mean of the roundings is {expected[0]:.4g} times as long as g in the direction of g."


QUARTER = np.array([1.0, 2.0, -2.0, 4.0])

SLOPE_AND_ERROR = Exercise(
    id="14.3",
    version=1,
    title="The slope of a rounding",
    goal="Goal 3: tell what averaging repairs",
    minutes=10,
    difficulty=1,
    statement=r"""
        A gradient `g` was rounded several times, in the rows of `rounded` [draws, n]. Stochastic roundings differ from row to row. Write `slope_and_error(g, rounded)` that returns two numbers about the **mean** $m$ of the rows:

        1. its **slope** along g, $\langle m, g\rangle / \langle g, g\rangle$, where $\langle a, b\rangle$ is the sum of the products of elements; 0.85 means that 15 % of the gradient got lost;
        2. its **error**, the norm of $m - g$ as a share of the norm of $g$.
    """,
    reference=slope_and_error,
    form=Numbers(count=2),
    accept=close_to(slope_and_error, ("slope", "error")),
    tolerance=TOLERANCE,
    show=show,
    why=why,
    examples=(
        Example((QUARTER, QUARTER[None]), "Nothing was rounded: slope 1, error 0."),
        Example((QUARTER, 0.75 * QUARTER[None]), "Everything shrank by a quarter: slope 0.75, error 0.25."),
        Example((np.array([3.0, 4.0]), np.array([[3.0, 0.0]])), "The larger number is lost: 9 of 25 is left."),
        Example((np.array([3.0, 4.0]), np.array([[4.0, 3.0]])), "As long as g, but turned away from it: the slope is below 1, although no length is lost."),
        Example((np.array([1.0, 1.0]), np.array([[2.0, 0.0], [0.0, 2.0]])), "Each rounding is far off. Their mean is exact."),
        Example((np.array([1.0, 2.0]), np.array([[2.0, 2.0], [2.0, 3.0]])), "Two roundings that are both too large: averaging does not repair that."),
    ),
    boundary=cases,
    properties=(Property("averaging unbiased draws lowers the error and leaves the slope near 1", more_draws, averaging_lowers_the_error),),
    mistakes=(
        mistake("the cosine instead of the slope: it does not see a length", SLOPE, "(mean * g).sum() / np.sqrt((mean * mean).sum() * (g * g).sum())"),
        mistake("divided by ⟨m, m⟩: the slope the other way round", SLOPE, "(mean * g).sum() / (mean * mean).sum()"),
        mistake("the ratio of the norms: it does not see a direction", SLOPE, "np.linalg.norm(mean) / np.linalg.norm(g)"),
        mistake("the ratio of the sums of magnitudes", SLOPE, "abs(mean).sum() / abs(g).sum()"),
        mistake("the mean of m / g, in which small elements count as much as large ones", SLOPE, "(mean / g).mean()"),
        mistake("what is lost instead of what is left", SLOPE, "1 - (mean * g).sum() / (g * g).sum()"),
        mistake("the square root of the slope, as if it were a squared length", SLOPE, "np.sqrt(abs((mean * g).sum()) / (g * g).sum())"),
        mistake("means are subtracted first: the slope of a fitted line", SLOPE, "((mean - mean.mean()) * (g - g.mean())).sum() / ((g - g.mean()) ** 2).sum()"),
        mistake("the mean of the errors, not the error of the mean", ERROR, "np.mean([np.linalg.norm(row - g) for row in rounded]) / np.linalg.norm(g)"),
        mistake("the error as a share of m", ERROR, "np.linalg.norm(mean - g) / np.linalg.norm(mean)"),
        mistake("the norm of the error, not as a share of the norm of g", ERROR, "np.linalg.norm(mean - g)"),
        mistake("the squared error", ERROR, "((mean - g) ** 2).sum() / (g * g).sum()"),
        mistake("the largest error", ERROR, "abs(mean - g).max() / abs(g).max()"),
        mistake("the error in percent", ERROR, "100 * np.linalg.norm(mean - g) / np.linalg.norm(g)"),
        mistake("the sum of the roundings instead of their mean", MEAN, "rounded.sum(axis=0)"),
        mistake("the first rounding alone", MEAN, "rounded[0]"),
        mistake("the median of the roundings", MEAN, "np.median(rounded, axis=0)"),
        mistake("the error and the slope are exchanged", "return slope, error", "return error, slope"),
    ),
    hints=(
        "Take g = (3, 4), rounded to (3, 0). ⟨m, g⟩ is 9 and ⟨g, g⟩ is 25, so the slope is 0.36. The difference is (0, −4), with the norm 4, and g has the norm 5: the error is 0.8.",
        "First the mean over the rows, rounded.mean(axis=0), then both numbers of that mean. The error of the mean is much smaller than the mean of the errors, because random errors cancel.",
        "In numpy, ⟨a, b⟩ is (a * b).sum(), and the norm is np.linalg.norm. What stands below the line is of g alone in both numbers.",
    ),
)

DRAWS = (1, 2, 4, 8, 16, 32)
LAYER = "blocks.1.attention.project"
ROUNDINGS = ("nearest", "stochastic", "stochastic after × 3/4")


@cache
def roundings() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """A real gradient and its roundings to MXFP4: float64 [n], and [32, n] by the name of the rounding."""
    from lplab.datasets import captured
    from lplab.formats import get
    from lplab.quantizers import PreScaled

    g = captured()[f"transformer/step1000/{LAYER}/gradient"].astype(np.float64).reshape(-1, 64)
    mxfp4, scaled = get("mxfp4"), PreScaled("mxfp4", rounding="stochastic")
    made = {
        ROUNDINGS[0]: [mxfp4.quantize(g)] * max(DRAWS),
        ROUNDINGS[1]: [mxfp4.quantize(g, "stochastic", seed) for seed in range(max(DRAWS))],
        ROUNDINGS[2]: [scaled.quantize(g, seed) for seed in range(max(DRAWS))],
    }
    return g.ravel(), {name: np.stack(each).reshape(max(DRAWS), -1) for name, each in made.items()}


@student_figure("Here the slope of three roundings of a real gradient as your {name} finds it will be drawn")
def draw_slopes(function: Callable[..., Any]) -> Any:
    """A live figure of the slope against the number of draws, for roundings to MXFP4, or a line that says what it waits for.

    Args:
        function: takes a gradient and its roundings, and returns slope and error of their mean.
    """
    from lplab import figures

    g, made = roundings()
    calls = [(g, made[name][:count]) for name in ROUNDINGS for count in DRAWS]
    yours = np.array(read_results(function, calls, SLOPE_AND_ERROR.form, first_of_two)).reshape(len(ROUNDINGS), -1)
    library = np.array([slope_and_error(*args)[0] for args in calls]).reshape(len(ROUNDINGS), -1)
    return figures.compared_curves(
        list(map(str, DRAWS)),
        dict(zip(ROUNDINGS, 100 * library, strict=True)),
        dict(zip(ROUNDINGS, 100 * yours, strict=True)),
        what="slope of the mean (%)",
        name="A gradient in MXFP4",
        along="draws that are averaged",
    )


def first_of_two(result: Any) -> float:
    """The slope in a pair; ValueError if it is no pair."""
    slope, _ = result
    return float(slope)
