"""Lab 00: a function that rounds to numbers of which it has forgotten one, and how a check finds where it is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab import formats as F

from .mechanism import Mechanism

FORMAT = F.get("e2m1")
NUMBERS = np.unique(FORMAT.codebook())
FORGOTTEN = 3.0
PARTS = 20  # places of the dragged number between two whole numbers
TESTS = (0.3, 1.2, 1.9, 3.7, 4.4, 5.6)  # of the author, who found no mistake


def forgetful(x: Any) -> Any:
    """The numbers of FORMAT that are nearest, as if the forgotten one were none of them.

    >>> forgetful([2.2, 2.9, 3.1, 5.5])
    array([2., 2., 4., 6.])
    """
    numbers = np.setdiff1d(NUMBERS, [FORGOTTEN])
    right, near = FORMAT.quantize(np.asarray(x, float)), np.abs(np.asarray(x, float)[..., None] - numbers)
    return np.where(right == FORGOTTEN, numbers[near.argmin(axis=-1)], right)


def data() -> dict[str, Any]:
    """Both answers for each place of the dragged number, and for each number of the boundary set.

    >>> content = data()
    >>> content["boundary"][content["smallest"]]["at"], content["boundary"][content["smallest"]]["side"]
    (2.5, 1)
    """
    numbers = NUMBERS[NUMBERS >= 0]
    places = np.arange(int(numbers[-1]) * PARTS + 1) / PARTS
    # the boundary set of the exercises, without numbers outside of the line
    centres = np.union1d(numbers, (numbers[:-1] + numbers[1:]) / 2)
    sides = [(at, side) for at in centres.tolist() for side in (-1, 0, 1)][1:-1]
    points = np.array([np.nextafter(at, side * np.inf) if side else at for at, side in sides])
    boundary = [{"at": at, "side": side, **each} for (at, side), each in zip(sides, answers(points), strict=True)]
    return {
        "numbers": numbers.tolist(),
        "forgotten": FORGOTTEN,
        "parts": PARTS,
        "places": answers(places),
        "tests": list(TESTS),
        "boundary": boundary,
        "smallest": next(k for k, each in enumerate(boundary) if each["yours"] != each["right"]),
    }


def answers(x: np.ndarray) -> list[dict[str, float]]:
    """The function's answer for each number, and the right one."""
    return [{"yours": y, "right": r} for y, r in zip(forgetful(x).tolist(), FORMAT.quantize(x).tolist(), strict=True)]


MECHANISM = Mechanism(
    name="hole",
    title="How a check finds a number for which a function is wrong",
    todo="Drag the *orange: number x* until both answers differ. Then press *Play*, and let a check look for it.",
    alt="Two number lines. On the upper one are the right answers of a rounding. On the lower one is a function that "
    "has forgotten the number 3. Below are the numbers that a check tries, marked as right or wrong.",
    data=data,
)
