"""Exercise 15.1: one step of GPTQ, in which the columns to come make up for the error of a rounding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from lplab.exercises.checks.close import rounded_text
from lplab.exercises.checks.numbers import decimal, sequence_text, table_text
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import SameShape
from lplab.exercises.student_figures import NotReady, as_array, read_results, student_figure
from lplab.quantizers.gptq import input_hessian, inverse_factor


def gptq_step(w, j, h, step):
    """The row w after the turn of column j: a multiple of step at j, and columns after j that make up for the error."""
    w = w.copy()
    rounded = step * np.round(w[j] / step)
    later = slice(j + 1, None)
    w[later] -= np.linalg.solve(h[later, later], h[later, j]) * (rounded - w[j])
    w[j] = rounded
    return w


ROUNDED, LATER, STORED = "step * np.round(w[j] / step)", "slice(j + 1, None)", "w[j] = rounded"
SOLVED = "np.linalg.solve(h[later, later], h[later, j])"
TOLERANCE = 1e-9  # of the largest weight: what an inverse, or another factorization of h, can lose in the cases below


def matrix(*rows: Sequence[float]) -> np.ndarray:
    """A matrix as float64."""
    return np.array(rows, np.float64)


def layer(seed: int, inputs: int, alike: float = 0.6) -> tuple[np.ndarray, np.ndarray]:
    """A row of weights, and the Hessian of inputs that have a part in common: float64 [inputs], [inputs, inputs]."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(4 * inputs, inputs)) + alike * rng.normal(size=(4 * inputs, 1)) * rng.choice([-1.0, 1.0], inputs)
    return rng.normal(size=inputs), 2 * x.T @ x / len(x)


def cases() -> list[Args]:
    """Rows of one to twelve columns, at the first, a middle and the last one; ties, wide and narrow steps."""
    found: list[Args] = []
    for seed, inputs in enumerate((1, 2, 3, 5, 8, 12)):
        w, h = layer(seed, inputs)
        found += [(w, j, h, step) for j in sorted({0, inputs // 2, inputs - 1}) for step in (0.25, 1.0)]
    w, h = layer(9, 4, 0.9)
    for tie in (0.25, 0.75, -0.25, -0.75):
        found.append((np.where(np.arange(4) == 1, tie, w), 1, h, 0.5))
    return [*found, (w, 1, np.diag(np.diag(h)), 0.5)]


LAYER, ROWS, BITS = "blocks.1.attention.project", 4, 3


@cache
def real_rows() -> tuple[np.ndarray, np.ndarray]:
    """Rows of a layer of the captured Transformer at step 1000, and its inputs: float64 [rows, 64], [tokens, 64]."""
    from lplab.datasets import captured

    w, x = (captured()[f"transformer/step1000/{LAYER}/{role}"] for role in ("weight", "activation"))
    return w[:ROWS].astype(np.float64), x.reshape(-1, x.shape[-1]).astype(np.float64)


def real_calls() -> list[Args]:
    """The first, a middle and a late column of rows of the trained layer."""
    rows, x = real_rows()
    h = input_hessian(x)
    return [(w, j, h, float(abs(w).max()) / 3) for w in rows[:2] for j in (0, 30, 60)]


def leaves_the_least_error(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether no change of the later columns would leave a smaller error of the layer's outputs."""
    x = real_rows()[1]
    for args, yours in zip(calls, results, strict=True):
        w, j, _, step = args
        error = step * np.round(w[j] / step) - w[j]
        least = np.linalg.lstsq(x[:, j + 1 :], -error * x[:, j], rcond=None)[0]
        best = np.linalg.norm(x[:, j + 1 :] @ least + error * x[:, j])
        left = np.linalg.norm(x @ (np.asarray(yours) - w))
        if not left <= (1 + TOLERANCE) * best:
            text = f"In a real layer the outputs are off by {left:.6g} after column {j}. Other changes of the later columns leave {best:.6g}"
            return Finding(f"{text}.", args, yours)
    return None


def show(args: Args) -> str:
    """Short rows in full."""
    w, j, h, step = args
    if w.size > 3:
        return f"a row w of {w.size} columns, j = {j}, step = {decimal(step)}"
    return f"w = {sequence_text(w)}, j = {j}, h = {table_text(h)}, step = {decimal(step)}"


def why(args: Args, expected: Any) -> str:
    """What the rounding changes, and who makes up for it."""
    w, j, _, step = args
    change = rounded_text(float(expected[j] - w[j]), 4)
    after = w.size - j - 1
    rest = {0: "No column comes after it", 1: "One column after it makes up for this"}.get(after, f"{after} columns after it make up for this together")
    tie = " It lies halfway between two multiples, so the even one is taken." if abs(w[j] / step % 1) == 0.5 else ""
    return f"w[{j}] changes by {change}.{tie} {rest}."


TWO = matrix((2, 1), (1, 2))
THREE, LATE = matrix((4, 2, 2), (2, 3, 1), (2, 1, 3)), matrix((4, 2, 2), (2, 2, 1), (2, 1, 2))

GPTQ_STEP = Exercise(
    id="15.1",
    version=1,
    title="One step of GPTQ",
    goal="Goal 1: round a weight so that its neighbours make up for the error",
    minutes=15,
    difficulty=2,
    statement=r"""
        GPTQ rounds a row `w` of a weight matrix column by column. The columns before `j` are done. Write `gptq_step(w, j, h, step)` that returns the row after column j's turn, as a new array.

        1. `w[j]` becomes the nearest multiple of `step`. Halfway, take the even one.
        2. The columns after j change, so that the layer's output changes as little as possible. The columns before j stay.

        A change $\Delta$ of the whole row costs $\Delta^T H\,\Delta$, where `h` is the matrix $H$, the mean of $2\,x\,x^T$ over the layer's inputs $x$. It is large where two inputs go together. If rounding adds $e$ to `w[j]`, the best changes $d$ of the columns after j solve

        $$H_{LL}\;d=-e\,H_{Lj}$$

        Here $L$ stands for these columns, so $H_{LL}$ is a square part of $H$. `np.linalg.solve(a, b)` solves $a\,x=b$.
    """,
    reference=gptq_step,
    form=SameShape(0),
    signed_zero=False,
    tolerance=TOLERANCE,
    show=show,
    why=why,
    examples=(
        Example((np.array([0.75, 0.5]), 0, TWO, 1.0), "0.75 goes up by 0.25. The inputs are alike, so the other weight goes down, by H₁₀ / H₁₁ = ½ of that."),
        Example((np.array([0.75, 0.5]), 0, matrix((2, 0), (0, 2)), 1.0), "The inputs have nothing in common, so the other weight cannot help. This is rounding to nearest."),
        Example((np.array([0.75, 0.5]), 0, matrix((2, -1), (-1, 2)), 1.0), "The inputs have opposite signs, so the other weight goes up, too."),
        Example((np.array([0.75, 0.5]), 0, matrix((1, 1), (1, 4)), 1.0), "The second input is larger. A smaller change of its weight is enough: H₁₀ / H₁₁ = ¼."),
        Example((np.array([1.0, 0.6]), 1, TWO, 1.0), "No column comes after the last one. The first is rounded already, and stays."),
        Example((np.array([0.75, 0.5, 0.5]), 0, THREE, 1.0), "Two columns make up for 0.25 together. Each goes down by half of that. Alone, each would have to go down by two thirds."),
        Example((np.array([1.0, 0.75, 0.5]), 1, LATE, 1.0), "Column 0 is done and stays. Only column 2 is left to make up for 0.25, by half of it."),
        Example((np.array([0.625, 0.3]), 0, TWO, 0.25), "0.625 is 2.5 steps, a tie. 2 steps are even: 0.5, which is 0.125 less. The other weight goes up by half of that."),
    ),
    boundary=cases,
    properties=(Property("in a real layer, no other change of the later columns leaves less error", real_calls, leaves_the_least_error),),
    mistakes=(
        mistake("the error is not passed on: this is rounding to nearest", SOLVED, "0.0"),
        mistake("the later columns change in the direction of the error, not against it", "w[later] -= ", "w[later] += "),
        mistake("each later column makes up for the whole error, as if it were the only one", SOLVED, "h[later, j] / np.diagonal(h)[later]"),
        mistake("H itself spreads the error: no system is solved", SOLVED, "h[later, j]"),
        mistake("the error is spread by H divided by column j's own diagonal: no system is solved", SOLVED, "h[later, j] / h[j, j]"),
        mistake("the inverse of the whole H: it counts on help from columns that are rounded already", SOLVED, "-np.linalg.inv(h)[later, j] / np.linalg.inv(h)[j, j]"),
        mistake("a column of the inverse, not divided by its diagonal element", SOLVED, "-np.linalg.inv(h[j:, j:])[1:, 0]"),
        mistake("the columns before j change, too, and leave their multiples of step", LATER, "np.delete(np.arange(len(w)), j)", "h[later, later]", "h[np.ix_(later, later)]"),
        mistake("only the next column makes up for the error", LATER, "slice(j + 1, j + 2)"),
        mistake("the error is divided evenly among the later columns", SOLVED, "1 / max(len(w) - j - 1, 1)"),
        mistake("the later columns are rounded, too", "return w", "w[later] = step * np.round(w[later] / step)\n    return w"),
        mistake("column j itself is not rounded", STORED, "w[j] = w[j]"),
        mistake("column j gets the number of steps, not the multiple", STORED, "w[j] = rounded / step"),
        mistake("w[j] is rounded to a whole number, whatever the step", ROUNDED, "np.round(w[j])"),
        mistake("ties go up, not to the even multiple", ROUNDED, "step * np.floor(w[j] / step + 0.5)"),
        mistake("w[j] is cut off toward zero, not rounded", ROUNDED, "step * np.trunc(w[j] / step)"),
        mistake("the row that was given is changed, not a copy of it", "w.copy()", "np.asarray(w)"),
    ),
    hints=(
        "Take w = (0.75, 0.5) and H = [(2, 1); (1, 2)]. Rounding adds e = 0.25 to the first weight. One column comes after it, so H_LL is the number 2 and H_Lj the number 1. Then 2 · d = −0.25.",
        "In numpy, h[a:, a:] is the part of h from row and column a on, and h[a:, j] is the part of column j from row a on. Which a is the first column after j? Behind the last column these parts are empty, and numpy can solve an empty system.",
        "Copy the row first. Find the rounded value of w[j], and e before you overwrite w[j]. Then add the solution of the system to the later part of the row. What is on the right-hand side, and with which sign?",
    ),
)


# ---- a row of a real layer, column by column -------------------------------------------------------------------------

NAMES = ("inputs taken as unrelated", "GPTQ")
TURNS = tuple(range(3, 64, 4))  # columns that are drawn


@student_figure("Here the error of real rows, column by column, as your {name} rounds them will be drawn")
def draw_columns(function: Callable[..., Any]) -> Any:
    """A live figure of the error of four rows' outputs as columns are rounded, with and without what inputs have in common.

    Args:
        function: takes a row, the column whose turn it is, the Hessian and the step, and returns the row after it.
    """
    from lplab import figures

    before = {name: states(name) for name in NAMES}
    calls = [(w, j, hessian(name), step) for name in NAMES for j in TURNS for w, step in zip(before[name][j], steps(), strict=True)]
    results = read_results(function, calls, GPTQ_STEP.form, as_array)
    if any(result.shape != args[0].shape for result, args in zip(results, calls, strict=True)):
        raise NotReady("it does not return a row as long as w")
    after = np.array(results).reshape(len(NAMES), len(TURNS), ROWS, -1)
    return figures.compared_curves(
        [str(j) for j in TURNS],
        {name: np.array([error(each[j + 1]) for j in TURNS]) for name, each in before.items()},
        {name: np.array(list(map(error, each))) for name, each in zip(NAMES, after, strict=True)},
        what="error of the outputs (%)",
        name=f"{ROWS} rows in {BITS} bits",
        along="columns are rounded up to number",
    )


def steps() -> list[float]:
    """The step of each row, so that its largest magnitude is the last of the multiples that three bits can name."""
    return [float(abs(w).max()) / (2 ** (BITS - 1) - 1) for w in real_rows()[0]]


def hessian(name: str) -> np.ndarray:
    """That of the real inputs; its diagonal alone where they are taken as unrelated."""
    h = input_hessian(real_rows()[1])
    return h if name == NAMES[1] else np.diag(np.diag(h))


def states(name: str) -> list[np.ndarray]:
    """The rows before the first column's turn and after each column's, by the library's factor."""
    factor, w = inverse_factor(np, hessian(name), 0.0), real_rows()[0]
    found = [w]
    for j in range(w.shape[1]):
        rounded = np.array(steps()) * np.round(w[:, j] / steps())
        w = w - np.outer((w[:, j] - rounded) / factor[j, j], factor[j])
        w[:, j] = rounded
        found.append(w)
    return found


def error(w: np.ndarray) -> float:
    """How far the outputs of changed rows are off, in percent of their norm."""
    rows, x = real_rows()
    return 100 * float(np.linalg.norm(x @ (w - rows).T) / np.linalg.norm(x @ rows.T))
