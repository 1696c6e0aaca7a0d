"""Exercise 13.3: along which axis blocks must lie for each of the three products of a layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lplab.exercises.lab13.rounding_fp4 import int4_format, numbers
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import describe_value

SHAPES = {"y": (0, 1), "dx": (0, 2), "dW": (1, 2)}  # of the result: places in (tokens, outputs, inputs)


def product(which, along, down):
    """y, dx or dW of a layer, from matrices x, w and g in blocks along their rows, or down their columns."""
    if which == "y":
        return along[0] @ along[1].T
    if which == "dx":
        return along[2] @ down[1]
    return down[2].T @ down[0]


Y, DX, DW = "along[0] @ along[1].T", "along[2] @ down[1]", "down[2].T @ down[0]"
TOLERANCE = 1e-12  # of the largest number: sums of products of rounded numbers are exact, means of two such sums, too


@dataclass(frozen=True)
class ResultOfProduct:
    """A matrix of the shape of the product that the first argument names."""

    def problem(self, args: tuple[Any, ...], result: Any) -> str:
        """What is wrong with the form of a result; "" if it is right.

        >>> matrices = (np.ones((3, 2)), np.ones((4, 2)), np.ones((3, 4)))
        >>> ResultOfProduct().problem(("y", matrices, matrices), np.ones((3, 2)))
        'returns an array of shape (3, 2) and dtype float64: y has shape (3, 4)'
        """
        which, (x, w, _), _ = args
        sizes = (x.shape[0], w.shape[0], w.shape[1])
        wanted = tuple(sizes[place] for place in SHAPES[which])
        right = isinstance(result, np.ndarray) and result.shape == wanted and result.dtype.kind == "f"
        return "" if right else f"returns {describe_value(result)}: {which} has shape {wanted}"

    def describe(self) -> str:
        """The form in words, for the documentation."""
        return "a matrix of floating-point numbers"


def rounded(which: str, size: int, *matrices: Any) -> Args:
    """The arguments of a call: x, w and g in blocks of the library, along their rows and down their columns."""
    blocks, each = int4_format(size), [np.array(matrix, np.float64) for matrix in matrices]
    along, down = (tuple(blocks.quantize(matrix, axis=axis) for matrix in each) for axis in (1, 0))
    return which, along, down


def operands(seed: int, tokens: int, outputs: int, inputs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, w and g of a layer: float64."""
    return numbers(seed, tokens, inputs), numbers(seed + 1, outputs, inputs), numbers(seed + 2, tokens, outputs)


def cases() -> list[Args]:
    """Layers of several shapes, blocks that divide their axes and others, for each product."""
    layers = ((2, 2, 2), (4, 3, 5), (6, 4, 8), (3, 9, 4), (8, 8, 8))
    return [rounded(which, size, *operands(7 * i, *layer)) for i, layer in enumerate(layers) for size in (2, 4) for which in SHAPES]


def larger() -> list[Args]:
    """Layers with an outlier in each operand."""
    found: list[Args] = []
    for seed in (50, 60):
        each = operands(seed, 48, 40, 64)
        for matrix in each:
            matrix[5, 7] = 64.0
        found += [rounded(which, 16, *each) for which in SHAPES]
    return found


def scales_leave_the_sums(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether each product is a sum over whole blocks of whole numbers, each times the scales of its two blocks."""
    blocks = 16
    for (which, along, down), yours in zip(calls, results, strict=True):
        a, b = {"y": (along[0], along[1]), "dx": (along[2], down[1].T), "dW": (down[2].T, down[0].T)}[which]
        expected = np.zeros((len(a), len(b)))
        for start in range(0, a.shape[1], blocks):
            parts = [matrix[:, start : start + blocks] for matrix in (a, b)]
            scales = [2.0 ** (np.frexp(np.abs(part).max(1))[1] - 3) for part in parts]
            whole = [np.round(part / scale[:, None]) for part, scale in zip(parts, scales, strict=True)]
            expected += (whole[0] @ whole[1].T) * np.outer(*scales)
        off = np.abs(np.asarray(yours) - expected)
        if not off.max() <= TOLERANCE * np.abs(expected).max():
            i, j = (int(k) for k in np.unravel_index(off.argmax(), off.shape))
            text = f"In {which} of a layer of 48 tokens, element ({i}, {j}) is {yours[i, j]:.6g}, the sum of its blocks is {expected[i, j]:.6g}"
            return Finding(f"{text}.", (which, along, down), yours)
    return None


def show_layer(args: Args) -> str:
    """The product and the sizes of the layer."""
    which, (x, w, _), _ = args
    return f'which = "{which}", with {x.shape[0]} tokens, {w.shape[1]} inputs and {w.shape[0]} outputs'


def why_axis(args: Args, expected: Any) -> str:
    """What the product sums over."""
    over = {
        "y": "inputs, which lie along the rows of x and w",
        "dx": "outputs, which lie along the rows of g and down the columns of w",
        "dW": "tokens, which lie down the columns of g and x",
    }
    return f"{args[0]} sums over {over[args[0]]}."


SMALL = ([[4, 0.25], [1, 8]], [[2, 0.25], [0.25, 8]], [[1, 16], [0.5, 2]])
TALL = ([[1, 16, 0.25, 2], [8, 0.5, 1, 0.25], [0.25, 1, 32, 1]], [[1, 0.25, 8, 2], [16, 1, 0.5, 0.25]], [[4, 0.25], [0.25, 32], [1, 1]])

PRODUCTS = Exercise(
    id="13.3",
    version=1,
    title="Three products, three axes",
    goal="Goal 3: lay blocks along the axis of the sum",
    minutes=10,
    difficulty=2,
    statement=r"""
        A layer has the input `x` [tokens, inputs], the weight `w` [outputs, inputs] and the gradient of its output `g` [tokens, outputs]. Its products are $y=x\,w^\top$, $dx=g\,w$ and $dW=g^\top x$.

        Each of these matrices has been rounded in two ways. `along` is (`x`, `w`, `g`) in blocks along the rows, `down` is (`x`, `w`, `g`) in blocks down the columns. Write `product(which, along, down)` for `which` = `"y"`, `"dx"` or `"dW"`. It returns that product. Take the operands whose blocks lie along the axis that it sums over.
    """,
    reference=product,
    form=ResultOfProduct(),
    signed_zero=False,
    tolerance=TOLERANCE,
    show=show_layer,
    why=why_axis,
    kind=lambda args: f"cases of {args[0]}",
    examples=(
        Example(rounded("y", 2, *SMALL), "y sums over the inputs. They lie along the rows of x and of w."),
        Example(rounded("dx", 2, *SMALL), "dx sums over the outputs. They lie along the rows of g, but down the columns of w."),
        Example(rounded("dW", 2, *SMALL), "dW sums over the tokens. They lie down the columns of g and of x."),
        Example(rounded("y", 2, *TALL), "Four inputs are two blocks of two, each with a scale of its own."),
        Example(rounded("dx", 2, *TALL), "The w of dx is not that of y: other numbers share its scales."),
        Example(rounded("dW", 2, *TALL), "Three tokens are a block of two and a block of one."),
    ),
    boundary=cases,
    properties=(Property("products of a larger layer are sums over whole blocks, each times two scales", larger, scales_leave_the_sums),),
    mistakes=(
        mistake("dx takes the w of the forward product, in blocks along the rows", DX, "along[2] @ along[1]"),
        mistake("dx takes g in blocks down the columns", DX, "down[2] @ down[1]"),
        mistake("dx takes g in blocks down the columns and w in blocks along the rows", DX, "down[2] @ along[1]"),
        mistake("dW takes the x of the forward product, in blocks along the rows", DW, "down[2].T @ along[0]"),
        mistake("dW takes the g of dx, in blocks along the rows", DW, "along[2].T @ down[0]"),
        mistake("dW takes both operands in blocks along the rows", DW, "along[2].T @ along[0]"),
        mistake("y takes w in blocks down the columns", Y, "along[0] @ down[1].T"),
        mistake("y takes x in blocks down the columns", Y, "down[0] @ along[1].T"),
        mistake("y takes both operands in blocks down the columns", Y, "down[0] @ down[1].T"),
        mistake("all matrices have blocks along the rows, whatever the product", DX, "along[2] @ along[1]", DW, "along[2].T @ along[0]"),
        mistake("all matrices have blocks down the columns, whatever the product", Y, "down[0] @ down[1].T", DX, "down[2] @ down[1]"),
        mistake("each operand is the mean of both roundings", DX, "(along[2] + down[2]) @ (along[1] + down[1]) / 4"),
        mistake("dx and dW are exchanged", 'which == "dx"', 'which == "dW"'),
        mistake("dW comes transposed", DW, "down[0].T @ down[2]"),
    ),
    hints=(
        "Write out one element of each product. An element of dW is a sum over tokens, of g[token, output] · x[token, input].",
        "The summed axis is the one that the two operands share and the result lacks. For y it is the inputs, for dx the outputs, for dW the tokens. Does it lie along the rows of a matrix, or down its columns?",
        "Three branches, one for each name. For y both operands come from along. For dx, g has the outputs along its rows, but w has them down its columns.",
    ),
)
