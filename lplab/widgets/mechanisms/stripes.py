"""Lab 13: the matrices of a layer in blocks that are turned, and which scales meet in one sum."""

from __future__ import annotations

from typing import Any

import numpy as np

from .mechanism import Mechanism

BLOCK = 4
SIZES = {"tokens": 4, "inputs": 8, "outputs": 12}
MATRICES = {"x": ("tokens", "inputs"), "w": ("outputs", "inputs"), "g": ("tokens", "outputs")}
PRODUCTS = {  # the two factors, and the axes of the result; the axis that both factors have besides is summed over
    "y": ("x", "w", "tokens", "outputs"),
    "dx": ("g", "w", "tokens", "inputs"),
    "dW": ("g", "x", "outputs", "inputs"),
}


def data() -> dict[str, Any]:
    """Axes of the matrices, the block of each number for both directions, and the terms of each number of a product.

    >>> content = data()
    >>> content["blocks"]["x"]["down"][1][:3], content["products"]["y"]["summed"]
    ([0, 1, 2], 'inputs')
    """
    return {
        "sizes": SIZES,
        "block": BLOCK,
        "matrices": {name: list(axes) for name, axes in MATRICES.items()},
        "blocks": {name: {way: blocks(name, way).tolist() for way in ("along", "down")} for name in MATRICES},
        "products": {name: product(name) for name in PRODUCTS},
    }


def blocks(name: str, way: str) -> np.ndarray:
    """The number of the block that each number of a matrix is in: along its rows, or down its columns."""
    rows, columns = (SIZES[axis] for axis in MATRICES[name])
    row, column = np.indices((rows, columns))
    if way == "along":
        return row * (columns // BLOCK) + column // BLOCK
    return row // BLOCK * columns + column


def product(name: str) -> dict[str, Any]:
    """What a product multiplies, and over which axis it sums."""
    first, second, *axes = PRODUCTS[name]
    [summed] = set(MATRICES[first]) & set(MATRICES[second])
    return {"factors": [first, second], "axes": axes, "summed": summed}


MECHANISM = Mechanism(
    name="stripes",
    title="Blocks that are turned until a sum can use their scales",
    todo="Press *Turn x* or *Turn w*, until few scales meet in the sum. Then drag the *orange: number of the result*.",
    alt="The matrices x, w and g, divided into blocks along their rows or down their columns. The terms of one sum are "
    "marked in two of them. Buttons turn the blocks. The sentence below counts the pairs of scales in the sum.",
    data=data,
)
