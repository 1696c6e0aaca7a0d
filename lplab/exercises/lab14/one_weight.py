"""Exercise 14.2: the weight as both passes see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lplab.exercises.lab14.four_bits import short_name
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import describe_value
from lplab.exercises.student_figures import as_array, read_results, student_figure


def fp4_group(part, sizes=(0, 0.5, 1, 1.5, 2, 3, 4, 6)):
    """The numbers of part in FP4; all of them share one scale, and the largest is 6 times it."""
    scale = abs(part).max() / 6 + 1e-300
    return np.copysign(np.take(sizes, abs(abs(part / scale)[..., None] - sizes).argmin(axis=-1)) * scale, part)


def both_weights(w, size, tiles):
    """The weight w [outputs, inputs] in FP4, as y = x · wᵀ sees it and as dx = dy · w sees it: [2, outputs, inputs]."""

    def rounded(matrix, height):
        result = np.zeros_like(matrix)
        for top in range(0, len(matrix), height):
            for left in range(0, matrix.shape[1], size):
                part = slice(top, top + height), slice(left, left + size)
                result[part] = fp4_group(matrix[part])
        return result

    height = size if tiles else 1
    return np.stack([rounded(w, height), rounded(w.T, height).T])


BOTH, HEIGHT, COLUMNS = "[rounded(w, height), rounded(w.T, height).T]", "size if tiles else 1", "range(0, matrix.shape[1], size)"


@dataclass(frozen=True)
class TwoWeights:
    """Two arrays of floating-point numbers with the shape of w, stacked, or in a tuple or list."""

    def problem(self, args: tuple[Any, ...], result: Any) -> str:
        """What is wrong with the form of a result; "" if it is right.

        >>> TwoWeights().problem((np.zeros((2, 3)),), (np.zeros((2, 3)), np.zeros((3, 2))))
        'returns arrays of shapes (2, 3) and (3, 2): return two arrays of shape (2, 3), for y and for dx'
        """
        shape = np.shape(args[0])
        parts = list(result) if isinstance(result, list | tuple) else [*result] if np.ndim(result) else []
        right = len(parts) == 2 and all(isinstance(p, np.ndarray) and p.shape == shape and p.dtype.kind == "f" for p in parts)
        if right:
            return ""
        shapes = [part.shape for part in parts if isinstance(part, np.ndarray)]
        apart = isinstance(result, list | tuple) and len(parts) == len(shapes) == 2 and shapes != [shape, shape]
        got = f"arrays of shapes {shapes[0]} and {shapes[1]}" if apart else describe_value(result)
        return f"returns {got}: return two arrays of shape {shape}, for y and for dx"

    def describe(self) -> str:
        """The form in words, for the documentation."""
        return "two arrays of floating-point numbers, shaped like w"


def weights(seed: int, outputs: int, inputs: int) -> np.ndarray:
    """Weights of several octaves and both signs: float64 [outputs, inputs]."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(outputs, inputs)) * np.exp2(rng.integers(-3, 4, (outputs, 1)) + rng.integers(-3, 4, (1, inputs)))


def cases() -> list[Args]:
    """Matrices that blocks of 2, 4 and 16 fill, and such that end with smaller ones; wide, tall, one row, zeros."""
    shapes = ((4, 4), (4, 8), (8, 4), (5, 7), (1, 9), (9, 1), (3, 17))
    found = [(weights(n, *shape), size, tiles) for n, shape in enumerate(shapes) for size in (2, 4, 16) for tiles in (False, True)]
    return [*found, (np.zeros((4, 4)), 2, False), (np.zeros((4, 4)), 2, True)]


def pairs() -> list[Args]:
    """Larger matrices, each with blocks and with tiles."""
    return [(weights(seed, *shape), 16, tiles) for seed, shape in ((31, (32, 48)), (32, (40, 24))) for tiles in (True, False)]


def tiles_give_one_weight(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether both passes see one weight with tiles, and two with blocks."""
    for args, (forward, backward) in zip(calls, results, strict=True):
        share = float(np.mean(np.asarray(forward) != np.asarray(backward)))
        if args[2] and share:
            return Finding(f"With tiles, {share:.0%} of the weights differ between the passes. Both must see the same.", args)
        if not args[2] and not share:
            return Finding("With blocks along the sum of each product, both passes see the same weight. Some must differ.", args)
    return None


def show(args: Args) -> str:
    """The arguments in words."""
    w, size, tiles = args
    return f"w {w.shape[0]} × {w.shape[1]}, size = {size}, tiles = {tiles}"


def why(args: Args, expected: Any) -> str:
    """What shares a scale."""
    _, size, tiles = args
    if tiles:
        return f"{size} × {size} weights share a scale, in both passes the same ones."
    return f"For y, {size} neighbours of a row share a scale. For dx, {size} neighbours of a column do."


ROW = np.array([[6.0, 1.1, 0.3, 0.2]])

ONE_WEIGHT = Exercise(
    id="14.2",
    version=1,
    title="Two weights, or one",
    goal="Goal 2: say which weight each pass multiplies with",
    minutes=15,
    difficulty=2,
    statement=r"""
        The forward pass computes $y = x\,w^T$. It sums over the **inputs**, which lie along a row of `w`. So for y, neighbours in a row share a scale. The backward pass computes $dx = dy\,w$. It sums over the **outputs**, which lie down a column of `w`. So for dx, neighbours in a column share a scale.

        Write `both_weights(w, size, tiles)` that returns `w` [outputs, inputs] in FP4 as each of the two products sees it, first for y, then for dx.

        - If `tiles` is False, `size` such neighbours share a scale.
        - If `tiles` is True, a tile of `size` × `size` weights shares a scale.

        The helper `fp4_group` rounds numbers that share a scale. Begin at the upper left corner. Where the matrix ends, the last blocks or tiles are smaller.
    """,
    provided=(fp4_group,),
    reference=both_weights,
    form=TwoWeights(),
    signed_zero=False,
    show=show,
    why=why,
    examples=(
        Example((ROW, 4, False), "One row. For y its four weights share the scale 1, and 1.1, 0.3 and 0.2 become 1, 0.5 and 0. For dx each is alone in its column, and nothing is lost."),
        Example((ROW.T.copy(), 4, False), "One column. Now each is alone for y, and all four share a scale for dx."),
        Example((ROW, 2, False), "Blocks of two: 6 with 1.1, and 0.3 with 0.2."),
        Example((np.array([[6.0, 1.1], [0.3, 0.2]]), 2, False), "For y the rows share scales, for dx the columns."),
        Example((np.array([[6.0, 1.1], [0.3, 0.2]]), 2, True), "A tile of 2 × 2: all four share one scale, in both passes."),
        Example((weights(3, 3, 5), 2, True), "3 × 5 weights in tiles of 2 × 2: those at the right and at the bottom are smaller."),
        Example((weights(4, 3, 5), 4, False), "Five inputs in blocks of four: the last block has one number. Three outputs make one block."),
    ),
    boundary=cases,
    properties=(Property("tiles give both passes one weight, and blocks give them two", pairs, tiles_give_one_weight),),
    mistakes=(
        mistake("the axes are exchanged: columns share a scale for y, rows for dx", BOTH, "[rounded(w.T, height).T, rounded(w, height)]"),
        mistake("the weight of the forward pass is used for dx again", BOTH, "[rounded(w, height), rounded(w, height)]"),
        mistake("the weight of the backward pass is used for y, too", BOTH, "[rounded(w.T, height).T, rounded(w.T, height).T]"),
        mistake("the weight for dx is made from the rounded one", BOTH, "[rounded(w, height), rounded(rounded(w, height).T, height).T]"),
        mistake("tiles are ignored", HEIGHT, "1"),
        mistake("there are tiles always", HEIGHT, "size"),
        mistake("tiles for y alone: dx has blocks", "rounded(w.T, height)", "rounded(w.T, 1)"),
        mistake("tiles for dx alone: y has blocks", "rounded(w, height)", "rounded(w, 1)"),
        mistake("a tile has two rows whatever its size", HEIGHT, "2 if tiles else 1"),
        mistake("a tile has all rows", HEIGHT, "10**6 if tiles else 1"),
        mistake("a whole row shares a scale", "slice(left, left + size)", "slice(None)"),
        mistake("the last, smaller block is left out", COLUMNS, "range(0, matrix.shape[1] - size + 1, size)"),
        mistake("the last block is moved back so that it is as long as the others", "slice(left, left + size)", "slice(max(0, min(left, matrix.shape[1] - size)), left + size)"),
        mistake("blocks begin at the right end", "slice(left, left + size)", "slice(max(0, matrix.shape[1] - left - size), matrix.shape[1] - left)"),
        mistake("every n-th number shares a scale, not neighbours", "slice(left, left + size)", "slice(left // size, None, -(-matrix.shape[1] // size))"),
        mistake("both passes get the mean of the two", BOTH, "[(rounded(w, height) + rounded(w.T, height).T) / 2] * 2"),
    ),
    hints=(
        "Take w of one row, 6, 1.1, 0.3, 0.2. For y the row is summed, so the four share the scale 6/6 = 1. Then 0.3 becomes 0.5, and 0.2 becomes 0. For dx each column is summed, and a column has one number. Its scale is a sixth of it, so it stays.",
        "What rounds along rows also rounds along columns, if you give it w.T and turn the result back. A tile is a block with several rows. In numpy, m[a:a + 16, b:b + 16] is a tile, and it is smaller by itself where the matrix ends.",
        "One helper serves both passes, if it takes a matrix and the height of a part. It goes through the tops in steps of the height and through the lefts in steps of size. How many rows has a part with blocks, and how many with tiles? What do you give the helper for dx, and what do you do with its result?",
    ),
)


NAMES = ("blocks of 16", "tiles of 16 × 16")
LIBRARY = 2e-3  # relative: its scales are float32, so that a number in a thousand may round to the other side


@student_figure("Here the layers whose two weights differ under your {name} will be drawn")
def draw_two_weights(function: Callable[..., Any]) -> Any:
    """A live figure of how many weights differ between the passes in real layers, or a line that says what it waits for.

    Args:
        function: takes w, size and tiles, and returns the weight for y and for dx.
    """
    from lplab import figures

    layers = captured_weights()
    calls = [(w, 16, tiles) for tiles in (False, True) for w in layers.values()]
    yours = read_results(function, calls, ONE_WEIGHT.form, difference)
    return figures.compared_curves(
        list(map(short_name, layers)),
        library_differences(),
        dict(zip(NAMES, np.split(np.array(yours), 2), strict=True)),
        what="difference (% of the norm)",
        name="Two weights",
        tolerance=LIBRARY,
    )


def library_differences() -> dict[str, np.ndarray]:
    """The differences of the library's blocks and tiles, whose scales are float32 numbers: float64 [layers]."""
    from lplab.formats import BlockFormat, get

    found = {}
    for name, size in zip(NAMES, (16, (16, 16)), strict=True):
        blocks = BlockFormat(get("e2m1"), scale=get("fp32"), block_size=size)
        pairs = [(blocks.quantize(w), blocks.quantize(np.ascontiguousarray(w.T)).T) for w in captured_weights().values()]
        found[name] = np.array([difference(pair) for pair in pairs])
    return found


def difference(result: Any) -> float:
    """How far the weights of a pair are apart, in percent of the norm of the first."""
    forward, backward = map(as_array, result)
    return 100 * float(np.linalg.norm(forward - backward) / np.linalg.norm(forward))


def captured_weights() -> dict[str, np.ndarray]:
    """Weights of six layers of the captured Transformer at step 1000, float64 [outputs, inputs], up to 64 × 64 of each."""
    from lplab.datasets import captured

    names = captured().select(model="transformer", step=1000, role="weight")
    every = {name.split("/")[2]: captured()[name] for name in names}
    linear = {layer: w for layer, w in every.items() if w.ndim == 2 and "embedding" not in layer}
    return {layer: w[:64, :64].astype(np.float64) for layer, w in list(linear.items())[:6]}
