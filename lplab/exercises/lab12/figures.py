"""The student's energy of a product in a figure: for every tile, beside the library's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lplab.exercises.student_figures import results_of

TILES = tuple(2**k for k in range(11))
SIZE, BITS = 1024, 16


def draw_gemm_energy(function: Callable[..., Any], mac: str = "fp16+fp32") -> Any:
    """A live figure of arithmetic and memory of a product of two 1024 × 1024 matrices, Horowitz's prices, by tile.

    Args:
        function: takes m, n, k, tile, bits, picojoules of a multiply-add and of a byte; returns two numbers. One that
            is still to be written is not drawn, and the figure says so.
        mac: a name of `lplab.hardware.footprint.operations.macs()`.
    """
    from lplab import figures, widgets  # drawn in a notebook only
    from lplab.hardware.footprint import gemm_joules, operations

    dram = operations.get("dram")
    mac_joules, byte_joules = operations.macs()[mac].joules, dram.joules / (dram.bits / 8)
    size = {"m": SIZE, "n": SIZE, "k": SIZE, "operand_bits": BITS, "result_bits": BITS}
    prices = {"mac_joules": mac_joules, "memory_joules_per_byte": byte_joules}
    library = np.array([gemm_joules(**size, **prices, tile=tile) for tile in TILES])  # type: ignore[arg-type]
    known = library[:, 0], library[:, 1]
    name = f"two {SIZE:,} × {SIZE:,} matrices, {BITS} bits, 45 nm"
    calls = [(SIZE, SIZE, SIZE, tile, BITS, mac_joules * 1e12, byte_joules * 1e12) for tile in TILES]
    try:
        yours = np.array(results_of(function, calls), np.float64) * 1e-12
    except (ValueError, TypeError) as problem:
        missing = f"{name} (yours is not drawn: {problem})"
        return widgets.LiveFigure(figures.tile_energy(TILES, *known, name=missing))
    return widgets.LiveFigure(figures.tile_energy(TILES, *known, (yours[:, 0], yours[:, 1]), name=name))
