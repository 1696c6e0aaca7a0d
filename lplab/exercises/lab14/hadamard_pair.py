"""Exercise 14.1: a Hadamard transform on both operands of dW."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lplab.exercises.checks.close import TOLERANCE
from lplab.exercises.lab14.four_bits import GROUP, SIZES, captured_layers, fp4, hadamard, short_name
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import describe_value
from lplab.exercises.student_figures import as_array, read_results, student_figure


def weight_gradient(dy, x, h):
    """dW = dyᵀ · x of FP4 numbers: dy [tokens, outputs] and x [tokens, inputs] are transformed by h, then rounded."""
    groups = len(dy) // len(h)
    left = (h @ dy.reshape(groups, len(h), -1)).reshape(dy.shape)
    right = (h @ x.reshape(groups, len(h), -1)).reshape(x.shape)
    return fp4(left.T) @ fp4(right.T).T


LEFT, RIGHT = "(h @ dy.reshape(groups, len(h), -1)).reshape(dy.shape)", "(h @ x.reshape(groups, len(h), -1)).reshape(x.shape)"
RESULT = "fp4(left.T) @ fp4(right.T).T"


@dataclass(frozen=True)
class GradientOfWeights:
    """An array of floating-point numbers with a row for each output and a column for each input."""

    def problem(self, args: tuple[Any, ...], result: Any) -> str:
        """What is wrong with the form of a result; "" if it is right.

        >>> GradientOfWeights().problem((np.zeros((16, 2)), np.zeros((16, 3))), np.zeros((3, 2)))
        'returns an array of shape (3, 2) and dtype float64: return one of shape (2, 3), outputs × inputs'
        """
        wanted = args[0].shape[1], args[1].shape[1]
        if not isinstance(result, np.ndarray):
            return f"returns {describe_value(result)}: return a numpy array of shape {wanted}, outputs × inputs"
        if result.shape != wanted or result.dtype.kind != "f":
            return f"returns {describe_value(result)}: return one of shape {wanted}, outputs × inputs"
        return ""

    def describe(self) -> str:
        """The form in words, for the documentation."""
        return "an array of floating-point numbers, outputs × inputs"


def whole(seed: int, tokens: int, columns: int, outlier: bool = False) -> np.ndarray:
    """Small whole numbers [tokens, columns], in the fourth token sixteen times as large where there is an outlier."""
    x = np.random.default_rng(seed).integers(-40, 41, (tokens, columns)).astype(np.float64)
    x[3] *= 16 if outlier else 1
    return x


def unrounded(seed: int, tokens: int, columns: int, size: int) -> np.ndarray:
    """Numbers whose transform by ``hadamard(size)`` has FP4 numbers alone, so that rounding changes nothing."""
    rng = np.random.default_rng(seed)
    grid = rng.choice(SIZES, (tokens, columns)) * rng.choice([-1.0, 1.0], (tokens, columns))
    grid[::GROUP] = 6.0
    return (hadamard(size).T @ grid.reshape(-1, size, columns)).reshape(tokens, columns)


def cases() -> list[Args]:
    """One to three groups of tokens, transforms of 4 and of 16, with and without outliers, zeros."""
    shapes = ((16, 1, 1), (16, 2, 3), (32, 3, 2), (48, 1, 4))
    found = [
        (whole(seed, tokens, outputs, outlier), whole(seed + 50, tokens, inputs), hadamard(size))
        for seed, (tokens, outputs, inputs) in enumerate(shapes)
        for size in (4, 16)
        for outlier in (False, True)
    ]
    return [*found, (np.zeros((16, 2)), whole(9, 16, 2), hadamard(16))]


def exact_cases() -> list[Args]:
    """Calls in which FP4 loses nothing."""
    return [(unrounded(seed, 32, 2, size), unrounded(seed + 7, 32, 3, size), hadamard(size)) for seed in (1, 2) for size in (4, 16)]


def transforms_cancel(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether the product is the plain one where nothing is lost in rounding."""
    for args, yours in zip(calls, results, strict=True):
        plain = args[0].T @ args[1]
        if not np.allclose(yours, plain, rtol=0, atol=TOLERANCE * abs(plain).max()):
            i = np.unravel_index(np.argmax(abs(yours - plain)), plain.shape)
            text = f"FP4 loses nothing here, so both transforms must cancel: dyᵀ · x is {plain[i]:g}, yours is {yours[i]:g}"
            return Finding(text + ".", args, yours)
    return None


def show(args: Args) -> str:
    """The arguments in words."""
    dy, x, h = args
    kind = "the identity" if np.array_equal(h, np.eye(len(h))) else "a Hadamard matrix"
    return f"dy {dy.shape[0]} × {dy.shape[1]}, x {x.shape[0]} × {x.shape[1]}, h {kind} of {len(h)} × {len(h)}"


def why(args: Args, expected: Any) -> str:
    """How many groups are transformed, and how many share a scale."""
    return f"{len(args[0]) // len(args[2])} groups of {len(args[2])} tokens are transformed, and then 16 tokens of a column share a scale."


HADAMARD_PAIR = Exercise(
    id="14.1",
    version=1,
    title="A Hadamard pair",
    goal="Goal 1: spread an outlier without changing the product",
    minutes=15,
    difficulty=2,
    statement=r"""
        Write `weight_gradient(dy, x, h)` that returns dW, which is $dy^T x$, of numbers in FP4. `dy` is [tokens, outputs] and `x` is [tokens, inputs]. The matrix `h` is orthogonal ($h^T h = 1$), for example a Hadamard matrix of 16 × 16.

        1. Transform both operands along the **tokens**. Cut the tokens into groups of `len(h)` neighbours, and replace each group by `h @ group`. The number of tokens is a multiple of `len(h)` and of 16.
        2. Round both with `fp4`, which stands ready. It lets 16 neighbours of the **last** axis share a scale. Here 16 tokens of one column must share it, as the product sums over tokens.
        3. Return the product of both.
    """,
    provided=(fp4,),
    reference=weight_gradient,
    form=GradientOfWeights(),
    tolerance=TOLERANCE,
    signed_zero=False,
    show=show,
    why=why,
    examples=(
        Example((whole(1, 16, 1), whole(2, 16, 1), np.eye(16)), "With the identity nothing is mixed. This is dW in plain FP4."),
        Example((whole(3, 16, 1, True), whole(4, 16, 1), hadamard(16)), "One group of 16 tokens, one of them large. The transform gives each of the 16 a part of it."),
        Example((whole(5, 16, 1), whole(6, 16, 2), hadamard(4)), "h has four rows: tokens 0 to 3 are mixed, then 4 to 7, and so on. 16 still share a scale."),
        Example((unrounded(7, 16, 1, 16), unrounded(8, 16, 1, 16), hadamard(16)), "After the transform all numbers are FP4 numbers. Nothing is lost, and dW is dyᵀ · x exactly."),
        Example((whole(9, 32, 2), whole(10, 32, 3), hadamard(16)), "Two groups, two outputs, three inputs: dW is 2 × 3."),
        Example((np.zeros((16, 1)), whole(11, 16, 2), hadamard(16)), "A gradient of zeros gives zeros."),
    ),
    boundary=cases,
    properties=(Property("where FP4 loses nothing, both transforms cancel", exact_cases, transforms_cancel),),
    mistakes=(
        mistake("only dy is transformed, so that the transform stays in the product", RIGHT, "x"),
        mistake("only x is transformed, so that the transform stays in the product", LEFT, "dy"),
        mistake("h for dy and its transpose for x: with signs these do not cancel", "(h @ x", "(h.T @ x"),
        mistake("the transpose of h for dy and h for x: with signs these do not cancel", "(h @ dy", "(h.T @ dy"),
        mistake("the transpose of h for both: another transform, which cancels, too, but rounds other numbers", "(h @ dy", "(h.T @ dy", "(h @ x", "(h.T @ x"),
        mistake("rounded before the transform, or without it", LEFT, "(h @ fp4(dy.T).T.reshape(groups, len(h), -1)).reshape(dy.shape)", RIGHT, "(h @ fp4(x.T).T.reshape(groups, len(h), -1)).reshape(x.shape)", RESULT, "left.T @ right"),
        mistake("rounded before and after the transform", "(h @ dy", "(h @ fp4(dy.T).T", "(h @ x", "(h @ fp4(x.T).T"),
        mistake("nothing is rounded", RESULT, "left.T @ right"),
        mistake("only the gradient is rounded", RESULT, "fp4(left.T) @ right"),
        mistake("neighbours of a row share a scale, not tokens", RESULT, "fp4(left).T @ fp4(right)"),
        mistake("a group has every n-th token, not neighbours", LEFT, "(h @ dy.reshape(len(h), groups, -1).swapaxes(0, 1)).swapaxes(0, 1).reshape(dy.shape)", RIGHT, "(h @ x.reshape(len(h), groups, -1).swapaxes(0, 1)).swapaxes(0, 1).reshape(x.shape)"),
        mistake("the product is divided by the size, as if h were not normalized", RESULT, f"{RESULT} / len(h)"),
        mistake("the mean over tokens instead of the sum", RESULT, f"{RESULT} / len(dy)"),
        mistake("inputs × outputs: the transpose of dW", RESULT, "fp4(right.T) @ fp4(left.T).T"),
        mistake("the product is rounded once more", RESULT, f"fp4(np.resize({RESULT}, (16 * dy.shape[1], x.shape[1])))[:dy.shape[1]]"),
    ),
    hints=(
        "Take one column of four tokens and a 4 × 4 matrix h. dyᵀ · x is one number. Without rounding, (h · dy)ᵀ · (h · x) = dyᵀ · hᵀ · h · x, and hᵀ · h is 1. If only x is transformed, h stays.",
        "A reshape cuts tokens into groups: dy.reshape(groups, len(h), -1) has the groups first, and h @ that transforms each of them. Round what comes out, not what goes in. fp4 looks along the last axis, so give it the transpose.",
        "There are three steps for each operand, which are to transform, to give it back its shape [tokens, columns], and to round. Call the transformed operands left and right. Write down the shape of fp4(left.T). Which shape must the other factor have, so that their product sums over tokens and is [outputs, inputs]?",
    ),
)


NAMES = ("without a transform", "with a Hadamard transform")
LIBRARY = 2e-3  # relative: its scales are float32, so that a number in a thousand may round to the other side


@student_figure("Here the error of dW in five layers as your {name} makes it will be drawn")
def draw_pair(function: Callable[..., Any]) -> Any:
    """A live figure of how far dW is off in real layers without and with the transform, or a line that says what it waits for.

    Args:
        function: takes dy, x and h, and returns dW.
    """
    from lplab import figures

    layers = captured_layers()
    calls = [(dy, x, h) for h in (np.eye(GROUP), hadamard(GROUP)) for dy, x in layers.values()]
    results = read_results(function, calls, HADAMARD_PAIR.form, as_array)
    yours = dict(zip(NAMES, np.split(np.array([error(*each) for each in zip(results, calls, strict=True)]), 2), strict=True))
    return figures.compared_curves(
        list(map(short_name, layers)), library_errors(), yours, what="error of dW (%)", name="dW in FP4", tolerance=LIBRARY
    )


def error(result: np.ndarray, args: Args) -> float:
    """How far a result is off, in percent of the norm of dW; NaN for another shape."""
    exact = args[0].T @ args[1]
    return 100 * float(np.linalg.norm(result - exact) / np.linalg.norm(exact)) if result.shape == exact.shape else np.nan


def library_errors() -> dict[str, np.ndarray]:
    """The errors of the library's blocks, whose scales are float32 numbers: float64 [layers], without and with."""
    from lplab.formats import BlockFormat, get
    from lplab.quantizers import NVFP4_SIGNS, Hadamard

    blocks, transform = BlockFormat(get("e2m1"), scale=get("fp32"), block_size=GROUP), Hadamard(GROUP, NVFP4_SIGNS)
    found: dict[str, list[float]] = {name: [] for name in NAMES}
    for dy, x in captured_layers().values():
        for name, operands in zip(NAMES, ((dy.T, x.T), (transform.apply(dy.T), transform.apply(x.T))), strict=True):
            left, right = map(blocks.quantize, operands)
            found[name].append(error(left @ right.T, (dy, x)))
    return {name: np.array(each) for name, each in found.items()}
