"""Lab 16: four learners walk on a loss surface, meet, and the outer step goes further than their mean."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from lplab.datasets import data_folder, digits

from .mechanism import Mechanism

TARGET, INPUTS = 19, (3, 59)  # a pixel that is guessed from the top and the bottom of its column
START = (-1.05, 1.3)  # both weights
STEPS = 32
EVERY = (1, 2, 4, 8, 16, 32)
MOMENTA = (0.0, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9)
OUTER_RATE = 0.7
LEVELS = (0.02, 0.06, 0.14, 0.26, 0.42, 0.62)  # of the contours, above the lowest loss
UNIT = 1000  # places are integers in the browser


@cache
def pixels() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs float32 [1797, 2], targets [1797, 1] and labels: pixels with mean 0 and variance 1."""
    images, labels = digits()
    flat = images.reshape(len(images), -1)[:, [*INPUTS, TARGET]].astype(float)
    scaled = ((flat - flat.mean(axis=0)) / flat.std(axis=0)).astype(np.float32)
    return scaled[:, :2], scaled[:, 2:], labels


@cache
def landscape() -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """The mean squared error of all digits: curvatures, their directions as columns, the lowest place and loss.

    The flat direction comes first.
    """
    inputs, targets = (each.astype(float) for each in pixels()[:2])
    matrix = inputs.T @ inputs / len(inputs)
    best = np.linalg.solve(matrix, inputs.T @ targets[:, 0] / len(inputs))
    curvatures, axes = np.linalg.eigh(matrix)
    axes = axes * np.sign(axes[0])  # eigenvectors have no sign of their own
    return curvatures, axes, best, float(np.mean((inputs @ best - targets[:, 0]) ** 2))


def on_map(weights: np.ndarray) -> np.ndarray:
    """Weights [..., 2] along the flat and the steep direction, from the lowest place."""
    _, axes, best, _ = landscape()
    return (weights - best) @ axes


def data() -> dict[str, Any]:
    """Recorded paths for each length of a round and each outer momentum, the losses at meetings, the contours.

    >>> content = data()
    >>> first = content["runs"][3][6]  # rounds of 8 steps, outer momentum 0.9
    >>> len(first["learners"][0]), len(first["shared"]), content["bytes"]
    (32, 5, 8)
    """
    with np.load(data_folder() / "leash" / "paths.npz", allow_pickle=False) as stored:
        learners, shared, message = (stored[name] for name in ("learners", "shared", "message_bytes"))
    curvatures, _, _, lowest = landscape()
    learners, shared = on_map(learners), on_map(shared)
    losses = shared**2 @ curvatures + lowest
    runs = [
        [
            {
                "learners": np.int64(np.round(learners[h, m] * UNIT)).tolist(),
                "shared": np.int64(np.round(shared[h, m, ::every] * UNIT)).tolist(),
                "losses": losses[h, m, ::every].round(3).tolist(),
            }
            for m in range(len(MOMENTA))
        ]
        for h, every in enumerate(EVERY)
    ]
    return {
        "unit": UNIT,
        "steps": STEPS,
        "every": list(EVERY),
        "momenta": list(MOMENTA),
        "rate": OUTER_RATE,
        "bytes": int(message),
        "lowest": round(lowest, 3),
        "contours": [np.sqrt(level / curvatures).tolist() for level in LEVELS],  # both half-axes of an ellipse
        "runs": runs,
    }


MECHANISM = Mechanism(
    name="leash",
    title="Four learners that walk on their own and meet",
    todo="Press *Play*. Then drag the *orange: first meeting* to the right, or change the *orange: outer momentum*.",
    alt="Contours of a loss with four paths that begin at one point. When the learners meet, an arrow leads from there "
    "beyond the mean of their ends. Below, the bytes that a learner sends at each meeting, and the outer momentum.",
    data=data,
)
