"""Lab 15: a small matrix is rounded by GPTQ, column by column, and the columns to come make up for the errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.quantizers.gptq import gptq_round, input_hessian, inverse_factor
from lplab.quantizers.weight_grid import WeightGrid
from lplab.recordings import language_model_recording

from .mechanism import Mechanism

LAYER, MATRIX = "blocks.12.attention", "k"
ROWS, COLUMNS = 8, 16
GRIDS = {bits: WeightGrid(bits, None) for bits in (2, 3)}  # not 4: the recorded weights lie on 16 levels
DAMPING = 0.01


def layer(shuffled: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Inputs [256, 16] and weights [8, 16]: the 16 channels with the largest mean square, in the matrix's order.

    Shuffled, each channel has an order and signs of its own, so that no channel tells anything about another.

    >>> inputs, weights = layer()
    >>> inputs.shape, weights.shape
    ((256, 16), (8, 16))
    """
    recorded = language_model_recording().layers[LAYER]
    inputs = recorded.inputs.astype(float)
    channels = np.sort(np.argsort(-np.mean(inputs**2, axis=0))[:COLUMNS])
    inputs = inputs[:, channels]
    if shuffled:
        rng = np.random.default_rng(2022)
        inputs = rng.permuted(inputs, axis=0) * rng.choice([-1, 1], inputs.shape)
    return inputs, recorded.weights[MATRIX][:ROWS, channels].astype(float)


def data() -> dict[str, Any]:
    """The course of GPTQ for both numbers of bits, with the recorded inputs and with shuffled ones.

    >>> recorded_course = data()["2"]["recorded"]
    >>> recorded_course["codes"][0][:3], [round(recorded_course["errors"][how][-1], 2) for how in ("nearest", "gptq")]
    ([2, 3, 2], [0.47, 0.23])
    """
    ways = {"recorded": False, "shuffled": True}
    return {
        str(bits): {way: course(grid, *layer(shuffled)) for way, shuffled in ways.items()}
        for bits, grid in GRIDS.items()
    }


def course(grid: WeightGrid, inputs: np.ndarray, weights: np.ndarray) -> dict[str, Any]:
    """The integers of both roundings, and of each border how far the weights to come have been moved, and the errors.

    Moves are in steps of the row's grid.
    """
    hessian = input_hessian(inputs)
    nearest, rounded = grid.quantize(weights), gptq_round(weights, hessian, grid, damping=DAMPING)
    factor = inverse_factor(np, hessian, DAMPING)
    steps, zeros = grid.fit(np, weights)
    matrices = [weights]
    for j in range(COLUMNS):
        after = matrices[-1].copy()
        after[:, j + 1 :] -= np.outer((after[:, j] - rounded[:, j]) / factor[j, j], factor[j, j + 1 :])
        after[:, j] = rounded[:, j]
        matrices.append(after)

    def error(matrix: np.ndarray) -> float:
        return float(np.linalg.norm(inputs @ (matrix - weights).T) / np.linalg.norm(inputs @ weights.T))

    moved = [((matrix - weights) / steps)[:, j:] for j, matrix in enumerate(matrices)]
    return {
        "codes": np.int64(np.round(rounded / steps + zeros)).tolist(),
        "other": np.int64(np.round(nearest / steps + zeros)).tolist(),
        "moved": [matrix.round(3).tolist() for matrix in moved],
        "errors": {
            "nearest": [error(np.hstack([nearest[:, :j], weights[:, j:]])) for j in range(COLUMNS + 1)],
            "gptq": [error(matrix) for matrix in matrices],
        },
    }


MECHANISM = Mechanism(
    name="columns",
    title="A matrix that GPTQ rounds column by column",
    todo="Drag the *orange: border* to the right, column by column, or press *Play*. Then press *Shuffle the inputs*.",
    alt="A matrix of 8 by 16 weights with a border. Left of it the weights are rounded, right of it arrows show how "
    "far the weights have been moved. Below, the error of the layer's output for GPTQ and for rounding to nearest.",
    data=data,
)
