"""Exercise 12.1: the energy of a matrix product, in the multipliers and on the way to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lplab.exercises.checks.close import TOLERANCE, close_to
from lplab.exercises.model.exercise import Args, Example, Exercise, mistake
from lplab.exercises.model.forms import Numbers
from lplab.exercises.student_figures import NotReady, read_results


def gemm_energy(m, n, k, tile, bits, mac_pj, byte_pj):
    """Picojoules of an m×k by k×n product: arithmetic, memory."""
    arithmetic = m * n * k * mac_pj
    columns, rows = -(-n // tile), -(-m // tile)
    elements = m * k * columns + k * n * rows + m * n
    return arithmetic, elements * bits / 8 * byte_pj


ARITHMETIC, TILES, ELEMENTS = "m * n * k * mac_pj", "-(-n // tile), -(-m // tile)", "m * k * columns + k * n * rows + m * n"
RESULT = "elements * bits / 8 * byte_pj"


def gemm_cases() -> list[Args]:
    """Narrow and wide, one column, tiles that fit, that do not, and that are larger than the matrix."""
    shapes = [(1, 1, 1), (1, 7, 3), (7, 1, 3), (5, 6, 1), (64, 48, 32), (100, 30, 20), (30, 100, 20), (33, 65, 17)]
    prices = [(32, 4.6, 160.0), (16, 2.0, 160.0), (8, 1.25, 31.2), (4, 0.15, 31.2)]
    return [(*shape, tile, *price) for shape in shapes for tile in (1, 8, 16, 33, 500) for price in prices]


def show(args: Args) -> str:
    """The arguments by name."""
    m, n, k, tile, bits, mac, byte = args
    return f"{m}×{k} by {k}×{n}, tiles of {tile}×{tile}, {bits} bits, {mac:g} pJ for a multiply-add, {byte:g} pJ for a byte"


def why(args: Args, expected: Any) -> str:
    """The tiles."""
    m, n, _, tile, *_ = args
    return f"There are {-(-m // tile)} rows and {-(-n // tile)} columns of tiles."


GEMM_ENERGY = Exercise(
    id="12.1",
    version=1,
    title="The energy of a matrix product",
    goal="Goal 1: split the energy of a product",
    minutes=15,
    difficulty=2,
    statement=r"""
        Write `gemm_energy(m, n, k, tile, bits, mac_pj, byte_pj)`. It returns the picojoules of an $m\times k$ by $k\times n$ product, **arithmetic** and **memory**.

        - Each of the $m\cdot n$ results is a sum of $k$ products. A multiplication with its addition costs `mac_pj`.
        - A tile of `tile` × `tile` results stays on the chip until it is done. Meanwhile it reads its rows of the first matrix and its columns of the second from memory. So with several tiles, matrices are read several times.
        - Tiles at the edges may be smaller. Each result is written once.
        - Every number has `bits` bits. A byte to or from memory costs `byte_pj`.
    """,
    reference=gemm_energy,
    form=Numbers(count=2),
    accept=close_to(gemm_energy, ("arithmetic", "memory")),
    tolerance=TOLERANCE,
    show=show,
    why=why,
    examples=(
        Example((2, 2, 3, 2, 8, 1.0, 10.0), "One tile: 12 multiply-adds; 6 + 6 numbers are read, 4 written, one byte each."),
        Example((4, 2, 3, 2, 8, 1.0, 10.0), "Two tiles below each other: each reads the whole second matrix."),
        Example((2, 6, 3, 2, 8, 1.0, 10.0), "Three tiles side by side: the first matrix is read three times."),
        Example((5, 5, 3, 2, 8, 1.0, 10.0), "Tiles at the edges: ⌈5/2⌉ = 3 rows and columns of them. The last ones are one wide, and read only what they need."),
        Example((2, 2, 3, 100, 8, 1.0, 10.0), "A tile larger than the result: everything once."),
        Example((2, 2, 3, 2, 4, 1.0, 10.0), "Half a byte for each number: memory halves, arithmetic does not by itself."),
        Example((1, 1, 1000, 1, 32, 4.6, 160.0), "A dot product reads two numbers for every multiply-add: memory takes 280 times the energy of arithmetic."),
    ),
    boundary=gemm_cases,
    mistakes=(
        mistake("multiplications and additions are counted apart, though mac_pj is for both", ARITHMETIC, "2 * m * n * k * mac_pj"),
        mistake("one operation for each result: the sum over k is forgotten", ARITHMETIC, "m * n * mac_pj"),
        mistake("bits of the numbers change the arithmetic, though mac_pj has them already", ARITHMETIC, "m * n * k * mac_pj * bits / 8"),
        mistake("both matrices are read once, whatever the tiles", TILES, "1, 1"),
        mistake("every multiply-add reads its two numbers from memory: nothing stays on the chip", "m * k * columns + k * n * rows", "2 * m * n * k"),
        mistake("rows and columns of tiles are exchanged", "m * k * columns + k * n * rows", "m * k * rows + k * n * columns"),
        mistake("both are read once for every tile", "m * k * columns + k * n * rows", "(m * k + k * n) * rows * columns"),
        mistake("tiles at the edges are charged as if they were whole", "m * k * columns + k * n * rows", "2 * tile * k * rows * columns"),
        mistake("only whole tiles are counted", TILES, "max(n // tile, 1), max(m // tile, 1)"),
        mistake("parts of tiles are counted as parts", TILES, "n / tile, m / tile"),
        mistake("the results are never written", " + m * n\n", "\n"),
        mistake("the results are read and written for each of the k terms", " + m * n\n", " + 2 * m * n * k\n"),
        mistake("k is tiled, too", TILES, "-(-k // tile), -(-k // tile)"),
        mistake("bits are taken for bytes", RESULT, "elements * bits * byte_pj"),
        mistake("a number takes whole bytes, however narrow", RESULT, "elements * -(-bits // 8) * byte_pj"),
        mistake("every number has four bytes", RESULT, "elements * 4 * byte_pj"),
        mistake("memory first, arithmetic second", "return arithmetic, elements * bits / 8 * byte_pj", "return elements * bits / 8 * byte_pj, arithmetic"),
    ),
    hints=(
        "Draw a result of 2 by 6 with tiles of 2: three tiles. Which numbers does the tile in the middle need? All of the first matrix, and two columns of the second.",
        "A column of tiles needs the whole first matrix, a row of tiles the whole second one. ⌈n/tile⌉ is -(-n // tile) in Python.",
        "Count numbers first, in three parts: the first matrix times the columns of tiles, the second matrix times the rows of tiles, and the results. Then turn numbers into bytes, and bytes into picojoules.",
    ),
)


SIZES = tuple(2**k for k in range(11))  # of a tile
SIZE, BITS = 1024, 16


def draw_gemm_energy(function: Callable[..., Any], mac: str = "fp16+fp32") -> Any:
    """A live figure of arithmetic and memory of a product of two 1024 × 1024 matrices, Horowitz's prices, by tile.

    Args:
        function: takes m, n, k, tile, bits, picojoules of a multiply-add and of a byte; returns two numbers. One that
            is still to be written is not drawn, and the figure says so.
        mac: a name of `lplab.hardware.multiplier.macs()`.
    """
    from lplab import figures, widgets  # drawn in a notebook only
    from lplab.hardware import multiplier, operation_costs
    from lplab.hardware.footprint import gemm_joules

    dram = operation_costs.get("dram")
    mac_joules, byte_joules = multiplier.macs()[mac].joules, dram.joules / (dram.bits / 8)
    size = {"m": SIZE, "n": SIZE, "k": SIZE, "operand_bits": BITS, "result_bits": BITS}
    prices = {"mac_joules": mac_joules, "memory_joules_per_byte": byte_joules}
    library = np.array([gemm_joules(**size, **prices, tile=tile) for tile in SIZES])  # type: ignore[arg-type]
    known = library[:, 0], library[:, 1]
    name = f"two {SIZE:,} × {SIZE:,} matrices, {BITS} bits, 45 nm"
    calls = [(SIZE, SIZE, SIZE, tile, BITS, mac_joules * 1e12, byte_joules * 1e12) for tile in SIZES]
    try:
        yours = np.array(read_results(function, calls, GEMM_ENERGY.form, two_numbers)) * 1e-12
    except NotReady as problem:  # the library's curves are worth a look before
        missing = f"{name} (yours is not drawn: {problem})"
        return widgets.LiveFigure(figures.tile_energy(SIZES, *known, name=missing))
    return widgets.LiveFigure(figures.tile_energy(SIZES, *known, (yours[:, 0], yours[:, 1]), name=name))


def two_numbers(result: Any) -> tuple[float, float]:
    """The two energies; ValueError if there are not two."""
    arithmetic, memory = result
    return float(arithmetic), float(memory)
