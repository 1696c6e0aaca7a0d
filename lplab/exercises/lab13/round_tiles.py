"""Exercise 13.4: a weight in square tiles, so that both passes see the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lplab import datasets
from lplab.exercises.lab13.rounding_fp4 import int4_format, numbers, one_scale
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import SameShape
from lplab.exercises.student_figures import as_array, read_results, student_figure

WEIGHT = "transformer/step1000/blocks.2.mlp.down/weight"
SIZE = 16


def round_tiles(w, size):
    """The matrix w in tiles of size × size numbers, each with one scale; at its ends tiles may be smaller."""
    result = np.empty(w.shape)
    for i in range(0, w.shape[0], size):
        for j in range(0, w.shape[1], size):
            result[i : i + size, j : j + size] = one_scale(w[i : i + size, j : j + size])
    return result


DOWN, RIGHT = "range(0, w.shape[0], size)", "range(0, w.shape[1], size)"
PLACE, TILE = "result[i : i + size, j : j + size]", "one_scale(w[i : i + size, j : j + size])"
EMPTY = "result = np.empty(w.shape)"


def cases() -> list[Args]:
    """Matrices that tiles divide and others, narrow and low ones, tiles as large as the matrix and larger."""
    shapes = ((4, 4), (5, 7), (2, 9), (9, 2), (1, 6), (6, 1), (8, 12), (3, 3))
    return [(numbers(90 + i, *shape), size) for i, shape in enumerate(shapes) for size in (2, 3, 4)]


def real_calls() -> list[Args]:
    """Parts of a trained weight and their transposes, whose sizes 16 divides, and one that it does not."""
    w = datasets.captured()[WEIGHT].astype(np.float64)
    parts = (w[:32, :48], w[:20, 100:130])
    return [(each, SIZE) for part in parts for each in (part, np.ascontiguousarray(part.T))]


def one_weight_for_both_passes(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether tiles are the library's, and a transposed weight is rounded to the transposed result."""
    for k, (args, yours) in enumerate(zip(calls, results, strict=True)):
        expected = int4_format((SIZE, SIZE)).quantize(args[0])
        wrong = int((np.asarray(yours) != expected).sum())
        if wrong:
            return Finding(f"Of {expected.size:,} numbers of a trained weight {wrong:,} differ from the library's tiles.", args, yours)
        if k % 2 and not np.array_equal(np.asarray(results[k - 1]).T, yours):
            return Finding("The transposed weight is rounded to other numbers: the two passes would see two weights.", args, yours)
    return None


def show_matrix(args: Args) -> str:
    """A small matrix in full."""
    w, size = args
    rows = "; ".join(", ".join(f"{value:g}" for value in row) for row in w) if w.size <= 12 else f"{w.shape[0]} × {w.shape[1]} numbers"
    return f"w = [{rows}], size = {size}"


def why_tiles(args: Args, expected: Any) -> str:
    """How many tiles there are, and the largest number of the first."""
    w, size = args
    down, right = -(-w.shape[0] // size), -(-w.shape[1] // size)
    return f"There are {down} × {right} tiles; the largest magnitude of the first one is {np.abs(w[:size, :size]).max():g}."


def matrix(*rows: Sequence[float]) -> np.ndarray:
    """A matrix as float64."""
    return np.array(rows, np.float64)


TILES = Exercise(
    id="13.4",
    version=1,
    title="One weight for both passes",
    goal="Goal 4: share a scale in two directions",
    minutes=10,
    difficulty=2,
    statement=r"""
        A weight in blocks along its rows and the same weight in blocks down its columns are two different rounded weights. In a square tile all numbers share one scale, so the forward pass and the backward pass see the same weight.

        Write `round_tiles(w, size)` for a matrix `w`. Cut it into tiles of `size` × `size` numbers, beginning at the upper left. Tiles at the right and at the lower end may be smaller. `one_scale` rounds an array of any shape to four-bit whole numbers with one scale. Return a matrix of the shape of `w`, and leave `w` as it is.
    """,
    provided=(one_scale,),
    reference=round_tiles,
    form=SameShape(0),
    signed_zero=False,
    show=show_matrix,
    why=why_tiles,
    examples=(
        Example((matrix([1, 0.3], [0.2, 8]), 2), "One tile: 8 makes the scale 2, and all others become zero."),
        Example((matrix([1, 0.3, 0.3, 0.3], [0.2, 8, 0.2, 0.2]), 2), "Two tiles. The outlier rules in the left one only."),
        Example((matrix([1, 0.3], [0.2, 1], [0.1, 16], [0.3, 1]), 2), "Two tiles, one below the other."),
        Example((matrix([1, 0.3, 0.03], [0.2, 8, 0.02]), 2), "The third column is a tile of 2 × 1, with a scale of its own."),
        Example((matrix([8, 1, 1], [1, 1, 1], [1, 1, 0.1]), 2), "Four tiles of four shapes: the corner is a single number."),
        Example((matrix([-6, 0.7], [0.2, 0.1]), 4), "A matrix smaller than a tile is one tile. Magnitudes count."),
    ),
    boundary=cases,
    properties=(Property("tiles of a trained weight are the library's, and serve both passes", real_calls, one_weight_for_both_passes),),
    mistakes=(
        mistake("blocks along the rows instead of tiles", DOWN, "range(w.shape[0])", PLACE, "result[i, j : j + size]", TILE, "one_scale(w[i, j : j + size])"),
        mistake("blocks down the columns instead of tiles", RIGHT, "range(w.shape[1])", PLACE, "result[i : i + size, j]", TILE, "one_scale(w[i : i + size, j])"),
        mistake("one scale for the whole matrix", TILE, "one_scale(w)[i : i + size, j : j + size]"),
        mistake("a strip of all columns shares a scale", TILE, "one_scale(w[i : i + size])[:, j : j + size]"),
        mistake("a strip of all rows shares a scale", TILE, "one_scale(w[:, j : j + size])[i : i + size]"),
        mistake("smaller tiles at the ends stay as they were", EMPTY, "result = w.copy()", DOWN, "range(0, w.shape[0] - size + 1, size)", RIGHT, "range(0, w.shape[1] - size + 1, size)"),
        mistake("smaller tiles at the ends become zero", EMPTY, "result = np.zeros(w.shape)", DOWN, "range(0, w.shape[0] - size + 1, size)", RIGHT, "range(0, w.shape[1] - size + 1, size)"),
        mistake("rounded in blocks along the rows first, then down the columns", TILE, "one_scale(np.stack([one_scale(row) for row in w[i : i + size, j : j + size]]))"),
        mistake("tiles of size² × size² numbers", DOWN, "range(0, w.shape[0], size**2)", RIGHT, "range(0, w.shape[1], size**2)", PLACE, "result[i : i + size**2, j : j + size**2]", TILE, "one_scale(w[i : i + size**2, j : j + size**2])"),
        mistake("as many numbers as in a tile, one after the other along the rows", "    return result", "    flat = w.ravel()\n    parts = [one_scale(flat[k : k + size * size]) for k in range(0, flat.size, size * size)]\n    return np.concatenate(parts).reshape(w.shape)"),
        mistake("the scale of the tile above serves all below it", TILE, "one_scale(w[: i + size, j : j + size])[i:]"),
        mistake("tiles overlap: the next one begins one row further down", DOWN, "range(w.shape[0])"),
        mistake("tiles overlap: the next one begins one column further right", RIGHT, "range(w.shape[1])"),
        mistake("only the tiles of the first row of tiles are rounded", EMPTY, "result = w.copy()", DOWN, "[0]"),
    ),
    hints=(
        "A tile is w[i : i + size, j : j + size]. Which i and which j are upper left corners? Slices end at the end of the matrix by themselves, so smaller tiles need no extra work.",
        "With 5 rows and size 2, tiles begin in the rows 0, 2 and 4. range can count in such steps, and the columns go the same way. So two loops meet each tile once.",
        "What one_scale returns has the shape of the tile. So it fits into the place of a new array where the tile was in w. A slice can stand on both sides of an assignment.",
    ),
)


@student_figure("Here your {name} will round a trained weight in 16 × 16 tiles")
def draw_tiles(function: Callable[..., Any]) -> Any:
    """A live map of a trained weight in the student's tiles, and how many numbers are the library's.

    Args:
        function: takes a matrix and the size of a tile; returns the rounded matrix.
    """
    from lplab import figures
    from lplab.figures.error_map import signal_to_noise
    from lplab.number_text import decibels

    w = datasets.captured()[WEIGHT].astype(np.float64)

    def read(result: Any) -> np.ndarray:
        q = as_array(result)
        if q.shape != w.shape:
            raise ValueError(f"the shape is {q.shape}, not {w.shape}")
        return q

    (yours,) = read_results(function, [(w, SIZE)], TILES.form, read)
    same = int((yours == int4_format((SIZE, SIZE)).quantize(w)).sum())
    title = f"Your {SIZE} × {SIZE} tiles: {decibels(signal_to_noise(w, yours))}; yours agrees in {same:,} of {w.size:,}"
    return figures.error_map(w, yours, (SIZE, SIZE), rows="output", columns="input", name="your tiles", title=title)
