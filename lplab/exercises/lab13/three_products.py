"""Exercise 13.3: along which axis blocks must lie for each of the three products of a layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lplab.exercises.lab13.rounding import in_blocks, library_format, numbers, one_scale, to_e2m1
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import describe_value

SHAPES = {"y": (0, 1), "dx": (0, 2), "dW": (1, 2)}  # of the result: places in (tokens, outputs, inputs)


def product(which, x, w, g, size):
    """y, dx or dW of a layer, both operands rounded in blocks along the axis that the product sums over."""
    if which == "y":
        a, b = x, w
    elif which == "dx":
        a, b = g, w.T
    else:
        a, b = g.T, x.T
    return in_blocks(a, size) @ in_blocks(b, size).T


BOTH = "in_blocks(a, size) @ in_blocks(b, size).T"
RETURN = f"    return {BOTH}"
SPLIT = "    if which == \"y\":\n        a, b = x, w\n    elif which == \"dx\":\n        a, b = g, w.T\n    else:\n        a, b = g.T, x.T\n"
TOLERANCE = 1e-12  # of the largest number: sums of rounded products are exact, those of unrounded ones nearly


def instead(which: str, result: str) -> tuple[str, str]:
    """An edit that computes one of the three products in another way."""
    return RETURN, f'    if which == "{which}":\n        return {result}\n{RETURN}'


@dataclass(frozen=True)
class ResultOfProduct:
    """A matrix of the shape of the product that the first argument names."""

    def problem(self, args: tuple[Any, ...], result: Any) -> str:
        """See `lplab.exercises.model.forms.Form`.

        >>> ResultOfProduct().problem(("y", np.ones((3, 2)), np.ones((4, 2)), np.ones((3, 4)), 2), np.ones((3, 2)))
        'returns an array of shape (3, 2) and dtype float64: y has shape (3, 4)'
        """
        which, x, w, _, _ = args
        sizes = (x.shape[0], w.shape[0], w.shape[1])
        wanted = tuple(sizes[place] for place in SHAPES[which])
        right = isinstance(result, np.ndarray) and result.shape == wanted and result.dtype.kind == "f"
        return "" if right else f"returns {describe_value(result)}: {which} has shape {wanted}"

    def describe(self) -> str:
        """See `lplab.exercises.model.forms.Form`."""
        return "a matrix of floating-point numbers"


def operands(seed: int, tokens: int, outputs: int, inputs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, w and g of a layer: float64."""
    return numbers(seed, tokens, inputs), numbers(seed + 1, outputs, inputs), numbers(seed + 2, tokens, outputs)


def cases() -> list[Args]:
    """Layers of several shapes, blocks that divide their axes and others, for each product."""
    layers = ((2, 2, 2), (4, 3, 5), (6, 4, 8), (3, 9, 4), (8, 8, 8))
    return [(which, *operands(7 * i, *layer), size) for i, layer in enumerate(layers) for size in (2, 4) for which in SHAPES]


def larger() -> list[Args]:
    """Layers with an outlier in each operand."""
    found: list[Args] = []
    for seed in (50, 60):
        x, w, g = operands(seed, 48, 40, 64)
        for each in (x, w, g):
            each[5, 7] = 64.0
        found += [(which, x, w, g, 16) for which in SHAPES]
    return found


def is_the_librarys(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether each product is that of operands which the library rounds along the axis of its sum."""
    for args, yours in zip(calls, results, strict=True):
        which, x, w, g, size = args
        blocks = library_format(size)
        rounded = {"x": x, "w": w, "g": g}
        axes = {"y": {"x": 1, "w": 1}, "dx": {"g": 1, "w": 0}, "dW": {"g": 0, "x": 0}}[which]
        rounded |= {name: blocks.quantize(rounded[name], axis=axis) for name, axis in axes.items()}
        expected = {"y": lambda r: r["x"] @ r["w"].T, "dx": lambda r: r["g"] @ r["w"], "dW": lambda r: r["g"].T @ r["x"]}[which](rounded)
        off = np.abs(np.asarray(yours) - expected)
        if not off.max() <= TOLERANCE * np.abs(expected).max():
            i, j = (int(k) for k in np.unravel_index(off.argmax(), off.shape))
            return Finding(f"In {which} of a layer of 48 tokens, element ({i}, {j}) is {yours[i, j]:.6g}, expected {expected[i, j]:.6g}.", args, yours)
    return None


def show_layer(args: Args) -> str:
    """The product and the sizes of the layer."""
    which, x, w, _, size = args
    return f'which = "{which}", {x.shape[0]} tokens, {w.shape[1]} inputs, {w.shape[0]} outputs, size = {size}'


def why_axis(args: Args, expected: Any) -> str:
    """What the product sums over."""
    over = {"y": "inputs, along the rows of x and w", "dx": "outputs, along the rows of g and down the columns of w", "dW": "tokens, down the columns of g and x"}
    return f"{args[0]} sums over {over[args[0]]}."


def layer(x: Any, w: Any, g: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three small matrices as float64."""
    return np.array(x, np.float64), np.array(w, np.float64), np.array(g, np.float64)


SMALL = layer([[4, 0.25], [1, 8]], [[2, 0.25], [0.25, 8]], [[1, 16], [0.5, 2]])
TALL = layer([[1, 16, 0.25, 2], [8, 0.5, 1, 0.25], [0.25, 1, 32, 1]], [[1, 0.25, 8, 2], [16, 1, 0.5, 0.25]], [[4, 0.25], [0.25, 32], [1, 1]])

PRODUCTS = Exercise(
    id="13.3",
    version=1,
    title="Three products, three axes",
    goal="Goal 3: lay blocks along the axis of the sum",
    minutes=15,
    difficulty=2,
    statement=r"""
        A layer has the input `x` [tokens, inputs], the weight `w` [outputs, inputs] and the gradient of its output `g` [tokens, outputs]. Training needs three products: $y=x\,w^\top$, $dx=g\,w$ and $dW=g^\top x$.

        Write `product(which, x, w, g, size)` for `which` = `"y"`, `"dx"` or `"dW"`. It returns that product of two **rounded** operands. Each operand is rounded from the matrix as it is given, in blocks of `size` numbers along the axis that this product sums over. `in_blocks(rows, size)` rounds each row of a matrix in blocks. It knows no other direction, so some matrices must be transposed before it and back after it.
    """,
    provided=(to_e2m1, one_scale, in_blocks),
    reference=product,
    form=ResultOfProduct(),
    signed_zero=False,
    tolerance=TOLERANCE,
    show=show_layer,
    why=why_axis,
    kind=lambda args: f"cases of {args[0]}",
    examples=(
        Example(("y", *SMALL, 2), "y sums over the inputs. They lie along the rows of x and of w, so both are rounded as they are."),
        Example(("dx", *SMALL, 2), "dx sums over the outputs. They lie along the rows of g, but down the columns of w."),
        Example(("dW", *SMALL, 2), "dW sums over the tokens. They lie down the columns of g and of x."),
        Example(("y", *TALL, 2), "Four inputs are two blocks of two: each has a scale of its own."),
        Example(("dx", *TALL, 2), "w is rounded once more, now down its columns, from the unrounded matrix."),
        Example(("dW", *TALL, 2), "Three tokens are a block of two and a block of one."),
    ),
    boundary=cases,
    properties=(Property("products of a larger layer are those of the library's formats", larger, is_the_librarys),),
    mistakes=(
        mistake("dx takes the w of the forward product, rounded along its inputs", *instead("dx", "in_blocks(g, size) @ in_blocks(w, size)")),
        mistake("dx rounds g along the tokens", *instead("dx", "in_blocks(g.T, size).T @ in_blocks(w.T, size).T")),
        mistake("dx rounds the w that was rounded for y once more", *instead("dx", "in_blocks(g, size) @ in_blocks(in_blocks(w, size).T, size).T")),
        mistake("dW takes the x of the forward product, rounded along its inputs", *instead("dW", "in_blocks(g.T, size) @ in_blocks(x, size)")),
        mistake("dW takes the g of dx, rounded along its outputs", *instead("dW", "in_blocks(g, size).T @ in_blocks(x.T, size).T")),
        mistake("dW rounds both operands along their rows", *instead("dW", "in_blocks(g, size).T @ in_blocks(x, size)")),
        mistake("y rounds w down its columns", *instead("y", "in_blocks(x, size) @ in_blocks(w.T, size)")),
        mistake("y rounds x along the tokens", *instead("y", "in_blocks(x.T, size).T @ in_blocks(w, size).T")),
        mistake("all matrices are rounded along their rows, whatever the product", SPLIT, '    x, w, g = in_blocks(x, size), in_blocks(w, size), in_blocks(g, size)\n    a, b = {"y": (x, w), "dx": (g, w.T), "dW": (g.T, x.T)}[which]\n', BOTH, "a @ b.T"),
        mistake("only the first operand is rounded", BOTH, "in_blocks(a, size) @ b.T"),
        mistake("only the second operand is rounded", BOTH, "a @ in_blocks(b, size).T"),
        mistake("nothing is rounded", BOTH, "a @ b.T"),
        mistake("the result is rounded, not the operands", BOTH, "in_blocks(a @ b.T, size)"),
        mistake("the whole row is one block", BOTH, "in_blocks(a, a.shape[1]) @ in_blocks(b, b.shape[1]).T"),
        mistake("each matrix has one scale", BOTH, "one_scale(a) @ one_scale(b).T"),
        mistake("dW comes transposed", *instead("dW", "in_blocks(x.T, size) @ in_blocks(g.T, size).T")),
    ),
    hints=(
        "Each element of dW is a sum over tokens: of g[token, output] · x[token, input]. So the tokens of a column must share their scale, in g and in x.",
        "Write each product as a · bᵀ, where both a and b have the summed axis along their rows. For y that is x and w. For dx it is g and wᵀ: in_blocks(w.T, size) rounds w down its columns.",
        "Choose a and b for each of the three names, from x, w, g and their transposes. Then one line serves all three: round both in blocks and multiply a by the transpose of b.",
    ),
)
