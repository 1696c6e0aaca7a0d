"""Lab 04: a weight under a rounding of two bits, trained with the staircase's own slope and with slope 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.quantizers.pact import pact_backward, pact_forward

from .mechanism import Mechanism

TARGET = 0.8  # between the levels 2/3 and 1
RATE = 0.2
STEPS = 40
LATE = 20  # the last steps, whose mean is told
STARTS = np.arange(2, 49) / 50  # weights that are neither below the first level nor clipped
START = 9  # 0.22


def data() -> dict[str, Any]:
    """For each start the weight and its level before each step, with slope 1.

    >>> path = data()["paths"][START]
    >>> [round(w, 3) for w in path["w"][:3]], [round(y, 3) for y in path["y"][-2:]]
    ([0.22, 0.313, 0.407], [0.667, 0.667])
    """
    w = STARTS.astype(float)
    steps = []
    for _ in range(STEPS + 1):
        y = pact_forward(w, 1.0, bits=2)
        steps.append((w, y))
        through, _ = pact_backward(w, 1.0, y - TARGET)  # the gradient of half the squared difference
        w = w - RATE * through
    paths = np.array(steps).transpose(2, 1, 0)
    inputs = np.arange(1001) / 1000
    return {
        "target": TARGET,
        "late": LATE,
        "levels": np.unique(pact_forward(inputs, 1.0, bits=2)).tolist(),
        "edges": inputs[1:][np.diff(pact_forward(inputs, 1.0, bits=2)) > 0].tolist(),
        "start": START,
        "paths": [{"w": w.round(5).tolist(), "y": y.tolist()} for w, y in paths],
    }


MECHANISM = Mechanism(
    name="ball",
    title="A weight on the staircase of a rounding",
    todo="Press *Play*, and the *orange: weight w* does not move. Then press *Slope 1*, and *Play* again.",
    alt="A staircase of four levels with a ball on it, at the weight w, and a dashed line at the target. A short line "
    "at the ball shows its slope for the training, 0 or 1. With slope 1 the ball climbs to the edge at the target.",
    data=data,
)
