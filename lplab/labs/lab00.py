"""Lab 00, How to work here: its tables, and the numbers of its text."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from lplab import exercises, figures, formats, widgets

GUIDED: tuple[()] = ()  # the panel of bits is no explorer: its questions stand in the text
FORMAT = "e4m3fn"
START = 0b0_0111_100  # 1.5
ELEMENTS = 1_000_000
TRIED = (0, 1.5, 100, -100, 127, 1000)  # the inputs of the colleague's test


def panel() -> widgets.BitPanel:
    """The eight bits of 1.5, to click."""
    return widgets.BitPanel(format=FORMAT, pattern=START)


def flipped() -> figures.DataTable:
    """What each of the eight bits of 1.5 changes when it alone is flipped.

    >>> flipped().columns["number"][:2]
    [-1.5, 384.0]
    """
    element = formats.get(FORMAT)
    codes = np.array([START] + [START ^ 1 << (7 - place) for place in range(8)])
    start, *numbers = element.decode(codes).tolist()
    return figures.DataTable(
        {
            "bit": ["sign", *(f"exponent {n}" for n in range(1, 5)), *(f"mantissa {n}" for n in range(1, 4))],
            "number": numbers,
            "change": [number - start for number in numbers],
        },
        caption=f"The number {start} with one of its bits flipped",
        formats={"number": "g", "change": "+g"},
    )


def rounded_million() -> figures.DataTable:
    """How many different numbers a million random ones are, as they are and rounded to eight bits.

    >>> rounded_million().columns["different numbers"][0]
    1000000
    """
    numbers = np.random.default_rng(2015).standard_normal(ELEMENTS)
    rounded = formats.get(FORMAT).quantize(numbers)
    return figures.DataTable(
        {
            "tensor": ["as it is", "rounded to 8 bits"],
            "elements": [numbers.size, rounded.size],
            "different numbers": [np.unique(numbers).size, np.unique(rounded).size],
        },
        caption=f"{ELEMENTS:,} random numbers",
    )


def colleague(x: float) -> float:
    """The clip of exercise 00.2 as the colleague wrote it."""
    return math.copysign(min(abs(x), 127), x)


def right_clip(x: float) -> float:
    """The clip of exercise 00.2 as it should be."""
    return max(-128, min(127, x))


def six_tests() -> figures.DataTable:
    """The colleague's six inputs, what the function gives for them, and what is right.

    >>> table = six_tests()
    >>> table.columns["colleague's clip"] == table.columns["right"]
    True
    """
    clips: dict[str, Callable[[float], float]] = {"colleague's clip": colleague, "right": right_clip}
    values = {name: [float(clip(x)) for x in TRIED] for name, clip in clips.items()}
    return figures.DataTable(
        {"input": [float(x) for x in TRIED], **values},
        caption="The colleague's six tests",
        formats=dict.fromkeys(("input", *values), "g"),
    )


def what_checks_try() -> figures.DataTable:
    """How much the checks of two exercises try, and how many mistakes they are known to catch.

    >>> what_checks_try().columns["exercise"]
    ['00.1 Broken on purpose', '01.2 Round to nearest, ties to even']
    """
    some = [exercises.get(name) for name in ("00.1", "01.2")]
    return figures.DataTable(
        {
            "exercise": [f"{exercise.id} {exercise.title}" for exercise in some],
            "examples": [len(exercise.examples) for exercise in some],
            "boundary values": [len(exercise.boundary()) for exercise in some],
            "properties": [len(exercise.properties) for exercise in some],
            "known mistakes": [exercise.known_mistakes for exercise in some],
        },
        caption="What two checks try",
    )
