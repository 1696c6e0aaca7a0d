"""Exercise 13.2: how many bits a value takes with its share of the scales."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import Number


def average_bits(shape, element_bits, tile, scale_bits, tensor_bits):
    """Average bits of a value of a matrix: its element, and its share of the scales of all tiles and of the tensor."""
    rows, columns = shape
    tiles = math.ceil(rows / tile[0]) * math.ceil(columns / tile[1])
    return element_bits + (tiles * scale_bits + tensor_bits) / (rows * columns)


ROWS, COLUMNS = "math.ceil(rows / tile[0])", "math.ceil(columns / tile[1])"
SHARE, WHOLE = "(tiles * scale_bits + tensor_bits) / (rows * columns)", "element_bits + (tiles * scale_bits + tensor_bits) / (rows * columns)"
TOLERANCE = 1e-13  # of the result: fewer than ten operations, each off by at most 2^−53
FORMATS = ((4, (1, 32), 8, 0), (4, (1, 16), 8, 32), (8, (1, 128), 32, 0), (8, (128, 128), 32, 0), (4, (16, 16), 8, 32))


def cases() -> list[Args]:
    """Published formats, for matrices that their blocks divide and others, smaller ones and single rows."""
    shapes = ((64, 256), (128, 128), (33, 40), (1, 5), (7, 1), (200, 130), (16, 17))
    return [(shape, *settings) for shape in shapes for settings in FORMATS]


def library_calls() -> list[Args]:
    """Large matrices, whose tiles are all whole."""
    return [((2048, 4096), element, tile, scale, 0) for element, tile, scale, _ in FORMATS]


def is_the_librarys(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether whole tiles cost what ``BlockFormat.bits`` says."""
    from lplab.formats import BlockFormat, get

    for args, yours in zip(calls, results, strict=True):
        element = get("mxfp8_e4m3" if args[1] == 8 else "mxfp4").element
        scale = get("e8m0" if args[3] == 8 else "fp32")
        expected = BlockFormat(element, scale=scale, block_size=args[2]).bits
        if not abs(float(yours) - expected) <= TOLERANCE * expected:
            return Finding(f"lplab's format has {expected:.8g} bits a value, yours {float(yours):.8g}.", args, yours)
    return None


def show_matrix(args: Args) -> str:
    """The arguments in the order of the call."""
    shape, element, tile, scale, tensor = args
    return f"shape = {shape}, element_bits = {element}, tile = {tile}, scale_bits = {scale}, tensor_bits = {tensor}"


def why_bits(args: Args, expected: Any) -> str:
    """How many tiles there are."""
    (rows, columns), _, (high, wide), scale, tensor = args
    down, right = math.ceil(rows / high), math.ceil(columns / wide)
    more = f" and {tensor} bits for the tensor" if tensor else ""
    return f"{down} × {right} tiles with {scale} bits of scale each{more}, for {rows * columns:,} values."


BITS = Exercise(
    id="13.2",
    version=1,
    title="What a scale costs",
    goal="Goal 2: count the bits that scales cost",
    minutes=10,
    difficulty=1,
    statement=r"""
        A matrix of `shape` (rows, columns) is cut into tiles of `tile` (rows, columns). A block of 32 neighbours is a tile of (1, 32). Where tiles do not fit, those at the right and at the lower end are smaller. Each tile stores one scale of `scale_bits`, and the whole tensor `tensor_bits` more. Each value has `element_bits`.

        Write `average_bits(shape, element_bits, tile, scale_bits, tensor_bits)`. It returns the bits that a value takes on average.
    """,
    reference=average_bits,
    form=Number(),
    tolerance=TOLERANCE,
    show=show_matrix,
    why=why_bits,
    examples=(
        Example(((64, 256), 4, (1, 32), 8, 0), "MXFP4: 32 values share 8 bits, a quarter of a bit for each. So a value takes 4.25 bits."),
        Example(((64, 256), 4, (1, 16), 8, 0), "NVFP4's blocks of 16: half a bit for each value, 4.5 in all."),
        Example(((64, 256), 4, (1, 16), 8, 32), "With NVFP4's one float32 scale for the tensor: 32 bits for 16,384 values are 0.00195 bits more."),
        Example(((128, 512), 8, (1, 128), 32, 0), "DeepSeek-V3's activations: a float32 scale for 128 values costs as much as 8 bits for 32."),
        Example(((256, 512), 8, (128, 128), 32, 0), "Its weights: 16,384 values share a scale, which costs nearly nothing."),
        Example(((2, 40), 4, (1, 32), 8, 0), "40 columns are a block of 32 and one of 8. Each row stores two scales: 4.4 bits."),
        Example(((20, 20), 4, (16, 16), 8, 0), "Four tiles: 16 × 16, 16 × 4, 4 × 16 and 4 × 4."),
        Example(((1, 8), 4, (1, 32), 8, 0), "A row that is shorter than a block still needs a scale: a whole bit for each of its 8 values."),
    ),
    boundary=cases,
    properties=(Property("whole tiles cost what the library's formats say", library_calls, is_the_librarys),),
    mistakes=(
        mistake("smaller tiles at the end have no scale", ROWS, "(rows // tile[0])", COLUMNS, "(columns // tile[1])"),
        mistake("smaller tiles at the right have no scale", COLUMNS, "(columns // tile[1])"),
        mistake("a part of a tile costs a part of a scale", ROWS, "(rows / tile[0])", COLUMNS, "(columns / tile[1])"),
        mistake("blocks go on from one row into the next", f"{ROWS} * {COLUMNS}", "math.ceil(rows * columns / (tile[0] * tile[1]))"),
        mistake("the scale is counted for every value", SHARE, "scale_bits + tensor_bits / (rows * columns)"),
        mistake("the element's bits are shared, too", WHOLE, "(element_bits + tiles * scale_bits + tensor_bits) / (rows * columns)"),
        mistake("a tile is taken to have as many values as its rows and columns together", SHARE, "scale_bits / (tile[0] + tile[1]) + tensor_bits / (rows * columns)"),
        mistake("one scale for each row", f"{ROWS} * {COLUMNS}", "rows"),
        mistake("one scale for the whole tensor", f"{ROWS} * {COLUMNS}", "1"),
        mistake("rows and columns of the tile are exchanged", ROWS, "math.ceil(rows / tile[1])", COLUMNS, "math.ceil(columns / tile[0])"),
        mistake("the tensor's own scale is forgotten", " + tensor_bits)", ")"),
        mistake("the tensor's scale is stored with each tile", "(tiles * scale_bits + tensor_bits)", "tiles * (scale_bits + tensor_bits)"),
        mistake("the tensor's scale is counted for every value", SHARE, "tiles * scale_bits / (rows * columns) + tensor_bits"),
        mistake("smaller tiles are filled up with zeros, which are stored, too", WHOLE, "(tiles * (tile[0] * tile[1] * element_bits + scale_bits) + tensor_bits) / (rows * columns)"),
        mistake("the bits of the whole tensor, not of one value", "return " + WHOLE, "return element_bits * rows * columns + tiles * scale_bits + tensor_bits"),
        mistake("the element's bits are left out", "return element_bits + ", "return "),
        mistake("scales are taken to be given in bytes", "tiles * scale_bits", "tiles * 8 * scale_bits"),
    ),
    hints=(
        "How many scales does a row of 40 values need when 32 share one? Two, and the second one serves 8 values only.",
        "Count the tiles down and the tiles to the right, each rounded up with math.ceil, and multiply. Then divide all bits of all scales by the number of values.",
        "Work out 2 rows of 40 columns by hand, with blocks of 32 and scales of 8 bits. How many scales are there, and how many bits do all of them have? The tensor stores its own bits once. By what do you divide, and what is there for every value anyway?",
    ),
)
