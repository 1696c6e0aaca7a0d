"""Lab 15: SmoothQuant's alpha tilts a see-saw between the inputs of a layer and its weights; their product stays."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.quantizers.layer_inputs import LayerInput
from lplab.quantizers.smoothing import smoothing_factors
from lplab.quantizers.weight_grid import WeightGrid
from lplab.recordings import language_model_recording

from .mechanism import Mechanism

LAYER, MATRIX = "blocks.12.attention", "k"
PARTS = 40  # of alpha from 0 to 1
DRAWN = 16  # channels
BITS = 8


def layer() -> tuple[np.ndarray, np.ndarray]:
    """Inputs [256, 576] and weights [192, 576] of the keys' layer in block 12."""
    recorded = language_model_recording().layers[LAYER]
    return recorded.inputs.astype(float), recorded.weights[MATRIX].astype(float)


def rounded_product(inputs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The layer's output from integers of 8 bits, with one scale for all inputs and one for all weights."""
    grid = WeightGrid(BITS, None, "symmetric")
    of_weights = grid.quantize(weights.reshape(1, -1)).reshape(weights.shape)
    return LayerInput(BITS, "tensor").quantize(inputs) @ of_weights.T


def data() -> dict[str, Any]:
    """For each alpha the largest magnitudes of some channels on both sides, and the error of the layer's output.

    >>> content = data()
    >>> content["channel"], content["errors"].index(min(content["errors"])), round(min(content["errors"]), 3)
    (247, 20, 0.024)
    """
    inputs, weights = layer()
    x_max, w_max = (np.abs(each).max(axis=0) for each in (inputs, weights))
    exact = inputs @ weights.T

    def error(x: np.ndarray, w: np.ndarray) -> float:
        return float(np.linalg.norm(rounded_product(x, w) - exact) / np.linalg.norm(exact))

    by_product = np.argsort(-x_max * w_max)
    ranks = np.geomspace(1, len(by_product), DRAWN).astype(int) - 1  # the outlier first, large ones close together
    drawn = by_product[ranks]
    places, errors = [], []
    for part in range(PARTS + 1):
        factors = smoothing_factors(x_max, w_max, part / PARTS)
        sides = {"inputs": x_max / factors, "weights": w_max * factors}
        places.append(
            {"factor": float(factors[drawn[0]])}
            | {name: side[drawn].round(4).tolist() for name, side in sides.items()}
            | {f"{name}_median": float(np.median(side)) for name, side in sides.items()}
        )
        errors.append(error(inputs / factors, weights * factors))
    return {
        "channel": int(drawn[0]),
        "before": [float(side[drawn[0]]) for side in (x_max, w_max)],
        "product": float((x_max * w_max)[drawn[0]]),
        "places": places,
        "errors": errors,
        "unsmoothed": error(inputs, weights),
    }


MECHANISM = Mechanism(
    name="see_saw",
    title="A see-saw between the inputs of a layer and its weights",
    todo="Drag the *orange: end* of the see-saw up and down, until the error below it is as small as possible.",
    alt="A see-saw for each of 16 channels, from the largest input at the left to the largest weight at the right. One "
    "channel stands out. As alpha grows, its left end goes down and its right end goes up. Below, the error of the "
    "layer's output, which is smallest in between.",
    data=data,
)
