"""Lab 14: eight numbers with an outlier are turned by an angle, rounded to MXFP4, and turned back."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab import formats as F

from .mechanism import Mechanism

NUMBERS = (-0.1, -0.2, 7.5, 0.1, 0.1, -0.4, -0.3, -0.5)
OUTLIER = 2  # its place
STEP = 3  # degrees from one place to the next
ROUND = 45  # degrees that pairs of numbers are turned by: neighbours, then pairs two apart, then four apart
DRAWS = 32
FORMAT = F.BlockFormat(F.get("e2m1"), block_size=len(NUMBERS))  # MXFP4 with 8 numbers a scale in place of 32


def data() -> dict[str, Any]:
    """For each angle the turned numbers, their scale, both roundings, and what they are after turning back.

    >>> angles = data()["places"]
    >>> angles[0]["scale"], angles[0]["nearest"]["back"][OUTLIER], angles[-1]["scale"]
    (1.0, 6.0, 0.5)
    """
    rng = np.random.default_rng(2025)
    rounds = int(np.log2(len(NUMBERS)))
    values = np.unique(FORMAT.element.codebook())
    return {
        "numbers": list(NUMBERS),
        "outlier": OUTLIER,
        "step": STEP,
        "round": ROUND,
        "draws": DRAWS,
        "ruler": values[values > 0].tolist(),
        "places": [place(degrees, rng) for degrees in range(0, rounds * ROUND + 1, STEP)],
    }


def turn(degrees: float) -> np.ndarray:
    """The matrix that turns the eight numbers: at 135 degrees a Hadamard matrix, but for the signs of its rows.

    >>> np.unique(abs(turn(135)).round(3)).tolist()
    [0.354]
    """
    index = np.arange(len(NUMBERS))
    matrix = np.eye(len(NUMBERS))
    for k in range(int(np.log2(len(NUMBERS)))):
        angle = np.deg2rad(np.clip(degrees - k * ROUND, 0, ROUND))
        partner = index ^ (1 << k)
        one = np.diag(np.full(len(NUMBERS), np.cos(angle)))
        one[index, partner] = np.where(index < partner, 1, -1) * np.sin(angle)
        matrix = one @ matrix
    return matrix


def place(degrees: float, rng: np.random.Generator) -> dict[str, Any]:
    """What becomes of the eight numbers at one angle, to three digits after the point."""
    matrix = turn(degrees)
    turned = matrix @ NUMBERS
    code = FORMAT.encode(turned)
    draws = FORMAT.quantize(np.tile(turned, (DRAWS, 1)), "stochastic", seed=rng)
    rounded = {"nearest": FORMAT.decode(code), "coin": draws.mean(axis=0)}
    found: dict[str, Any] = {"turned": turned.round(3).tolist(), "scale": float(F.get("e8m0").decode(code.scales)[0])}
    for name, values in rounded.items():
        back = matrix.T @ values
        error = np.linalg.norm(back - NUMBERS) / np.linalg.norm(NUMBERS)
        found[name] = {
            "rounded": values.round(3).tolist(),
            "back": back.round(3).tolist(),
            "error": round(float(error), 3),
            "left": round(float(back @ NUMBERS / np.dot(NUMBERS, NUMBERS)), 3),
        }
    return found


MECHANISM = Mechanism(
    name="turned_outlier",
    title="An outlier that is turned before it is rounded",
    todo="Drag the *orange: angle* to the left, all the way to 135°, or press *Play*. Then press *With a coin*.",
    alt="Eight bars, one of them an outlier, over the ruler of FP4. An angle turns pairs of numbers into each other. "
    "The outlier spreads over all eight, and the ruler gets finer. Below are the numbers, rounded and turned back.",
    data=data,
)
