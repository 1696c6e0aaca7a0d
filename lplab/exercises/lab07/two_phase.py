"""Exercise 07.2: both phases of one gradient, and which GEMM gets which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lplab.exercises.checks.numbers import sequence_text
from lplab.exercises.lab07.phases import even, gradients
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import describe_value
from lplab.exercises.student_figures import read_results, student_figure


def two_phase(dy, scale):
    """The gradient dy, rounded twice with its scale: a version for dx (even phase), one for dW (odd phase)."""
    scaled = dy * scale
    return np.stack([even(scaled), even(2 * scaled) / 2]) / scale


@dataclass(frozen=True)
class TwoSameShape:
    """Two arrays of floating-point numbers with the shape of one of the arguments, stacked, or in a tuple or list."""

    argument: int = 0

    def problem(self, args: tuple[Any, ...], result: Any) -> str:
        """What is wrong with the form of a result; "" if it is right.

        >>> TwoSameShape().problem((np.zeros(3),), (np.zeros(3), np.zeros(3)))
        ''
        >>> TwoSameShape().problem((np.zeros(3),), np.zeros(3))
        'returns an array of shape (3,) and dtype float64: return two arrays of shape (3,), for dx and for dW'
        """
        shape = np.shape(args[self.argument])
        wanted = f"return two arrays of shape {shape}, for dx and for dW"
        parts = list(result) if isinstance(result, list | tuple) else [*result] if np.ndim(result) else []
        if len(parts) != 2 or any(np.shape(part) != shape for part in parts):
            return f"returns {describe_value(result)}: {wanted}"
        odd = next((part for part in parts if not isinstance(part, np.ndarray) or part.dtype.kind != "f"), None)
        return "" if odd is None else f"returns {describe_value(odd)} among its two: {wanted}, of floating-point numbers"

    def describe(self) -> str:
        """The form in words, for the documentation."""
        return "two arrays of floating-point numbers, shaped like the input"


def cases() -> list[Args]:
    """Single numbers around all thresholds of both phases, and gradients; several scales, from small to large."""
    points = [0.625 * 2.0**k * side for k in range(-7, 8) for side in (1.0001, 0.9999, -1.0001)]
    points += [2.0**k for k in range(-8, 7)] + [0.0, 63.9, 1e-9]
    singles = [(np.array([point]), 1.0) for point in points]
    scaled = [(gradients(seed, 32) * 2.0**-k, 2.0**k) for seed, k in ((11, 0), (12, 14), (13, 21), (14, -3))]
    return [*singles, *scaled, (gradients(15, 12).reshape(3, 4) / 8, 8.0)]


def many() -> list[Args]:
    """Gradients with values spread over all octaves alike."""
    rng = np.random.default_rng(2020)
    return [(np.exp2(rng.uniform(-5, 5, 4000)) * rng.choice([-1.0, 1.0], 4000), 1.0)]


def errors_cancel(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether the mean of both is nearer than either: where one phase rounds up the other one often rounds down."""
    for args, (for_dx, for_dw) in zip(calls, map(np.asarray, results), strict=True):
        x = args[0]
        alone, both = (float(np.linalg.norm(q - x) / np.linalg.norm(x)) for q in (for_dx, (for_dx + for_dw) / 2))
        if not both < 0.75 * alone:
            text = f"The error of the version for dx is {alone:.1%}, that of the mean of both {both:.1%}"
            return Finding(f"{text}: two phases bring it below three quarters.", args, both)
    return None


def show(args: Args) -> str:
    """The gradient and its scale."""
    return f"dy = {sequence_text(args[0])}, scale = {args[1]:g}"


def why(args: Args, expected: Any) -> str:
    """The two versions in units of the grid."""
    dx, dw = np.asarray(expected)
    if np.size(dx) != 1:
        return ""
    x = float(np.ravel(args[0])[0]) * args[1]
    return f"Times its scale it is {x:g}: {float(np.ravel(dx)[0]) * args[1]:g} among 1/64, 1/16, … 64, and {float(np.ravel(dw)[0]) * args[1]:g} among 1/128, 1/32, … 32."


EVEN, ODD, ALL = "[even(scaled)", "even(2 * scaled) / 2", "np.stack([even(scaled), even(2 * scaled) / 2]) / scale"

TWO_PHASE = Exercise(
    id="07.2",
    version=1,
    title="Two phases",
    goal="Goal 2: let errors cancel instead of adding up",
    minutes=10,
    difficulty=2,
    statement=r"""
        Write `two_phase(dy, scale)` that returns two versions of a layer's output gradient, the array `dy`: the first for dx, rounded in the **even** phase, the second for dW, rounded in the **odd** phase. Multiply by `scale` before rounding and divide by it afterwards. `even` rounds in the even phase for you. The odd phase of `x` is `even(2 * x) / 2`.
    """,
    provided=(even,),
    reference=two_phase,
    form=TwoSameShape(),
    signed_zero=False,
    show=show,
    why=why,
    examples=(
        Example((np.array([0.7]), 1.0), "1 and ½: one phase rounds 0.7 up, the other one down."),
        Example((np.array([1.0]), 1.0), "1 is a number of the even phase; of the odd one, ½ is nearer than 2 (the threshold is 1.25)."),
        Example((np.array([2.6, -9.99]), 1.0), "4 and 2; −4 and −8: the sign stays in both."),
        Example((np.array([100.0]), 1.0), "The odd phase ends at 32, half of 64."),
        Example((np.array([0.0098, 0.006]), 1.0), "The odd phase reaches an octave further down, to 1/128."),
        Example((np.array([3e-5, -1e-6]), 2.0**21), "Times 2²¹ these are 62.9 and −2.1. Afterwards both versions are gradients again, of the size of dy."),
        Example((np.array([[0.5, 3.9], [30.0, 0.1]]), 1.0), "Any shape: two by two, twice."),
    ),
    boundary=cases,
    properties=(Property("the errors of both phases cancel in part", many, errors_cancel),),
    mistakes=(
        mistake("the phases are exchanged: odd for dx, even for dW", "[even(scaled), even(2 * scaled) / 2]", "[even(2 * scaled) / 2, even(scaled)]"),
        mistake("a single phase: the even one for both", ODD, "even(scaled)"),
        mistake("a single phase: the odd one for both", EVEN, "[even(2 * scaled) / 2"),
        mistake("the second phase is made from the rounded first one, and is half of it, always", ODD, "even(2 * even(scaled)) / 2"),
        mistake("the number is doubled, the result is not halved", ODD, "even(2 * scaled)"),
        mistake("the other way round: twice the even result of half the number, which ends at 128", ODD, "2 * even(scaled / 2)"),
        mistake("the mean of both phases for both", ALL, "np.stack([(even(scaled) + even(2 * scaled) / 2) / 2] * 2) / scale"),
        mistake("the results are not scaled back", " / scale", ""),
        mistake("divided by the scale before, multiplied afterwards", "dy * scale", "dy / scale", "]) / scale", "]) * scale"),
        mistake("the scale is left out", "dy * scale", "dy", "]) / scale", "])"),
        mistake("only the version for dx is scaled", ODD, "even(2 * dy) / 2 * scale"),
        mistake("the error of the even phase is added before the odd one", ODD, "even(2 * (2 * scaled - even(scaled))) / 2"),
        mistake("where the first goes up the second always goes down, whatever is nearer", ODD, "np.where(abs(even(scaled)) > abs(scaled), even(scaled) / 4, even(scaled) * 4)"),
        mistake("the sign of the second is lost", ODD, "abs(even(2 * scaled)) / 2"),
    ),
    hints=(
        "Take dy = 0.7 with the scale 1. Even phase: 1, since the threshold between 1/4 and 1 is 0.625. Odd phase: between ½ and 2 the threshold is 1.25, so ½.",
        "Both versions come from the same dy · scale. Rounding the rounded number again would halve it always: all hope that the errors cancel is lost. Which one goes where: even to dx, odd to dW.",
        "The skeleton: scaled = dy × scale; first = even(scaled); second = even(2 × scaled) / 2; return np.stack([first, second]) / scale.",
    ),
)


POINTS = np.exp2(np.linspace(-8.4, 6.4, 75))


@student_figure("Here both phases as your {name} makes them will be drawn")
def draw_phases(function: Callable[..., Any]) -> Any:
    """A live figure of both phases and of what a function makes of them, or a line that says what it waits for.

    Args:
        function: takes an array and a scale, and returns two arrays: for dx and for dW.
    """
    from lplab import figures

    ((for_dx, for_dw),) = read_results(function, [(POINTS, 1.0)], TWO_PHASE.form, two_rows)
    return figures.phases((POINTS, for_dx, for_dw))


def two_rows(result: Any) -> tuple[np.ndarray, np.ndarray]:
    """The versions for dx and for dW of all points; ValueError or TypeError if they are something else."""
    for_dx, for_dw = (np.asarray(part, np.float64).reshape(POINTS.shape) for part in result)
    return for_dx, for_dw
