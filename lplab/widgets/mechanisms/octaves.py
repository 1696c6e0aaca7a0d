"""Lab 01: a value is dragged along the number line of E4M3, and the bits of its nearest neighbour light up."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab import formats as F

from .mechanism import Mechanism, fraction_text

E4M3 = F.get("e4m3fn")
WITHOUT = F.FloatFormat(4, 3, bias=7, specials="fn", subnormals=False, name="E4M3 without subnormals")
START = 36.6
CLOSEST, FARTHEST = -5, 9  # the line reaches from 0 to a power of two: 1/32 shows the subnormals, 512 everything


def data() -> dict[str, Any]:
    """The numbers of E4M3 from 0 up, their bits, their octaves, and where the rounding changes from one to the next.

    >>> content = data()
    >>> len(content["numbers"]), content["with"]["borders"][:2]  # a tie: 0 is even, and so is 2/512
    (127, [0.0009765625000000002, 0.0029296875])
    """
    values = numbers_of(E4M3)
    return {
        "start": START,
        "views": [2.0**k for k in range(CLOSEST, FARTHEST + 1)],
        "numbers": [
            {"value": value, "text": fraction_text(value), "bits": f"{int(E4M3.encode(value)):08b}"} for value in values
        ],
        "octaves": octaves(),
        "with": rounding(E4M3, values),
        "without": rounding(WITHOUT, values),
    }


def numbers_of(fmt: F.FloatFormat) -> list[float]:
    """The finite numbers of a format from 0 up, in order."""
    values = np.unique(fmt.codebook())
    return [float(value) + 0.0 for value in values[np.isfinite(values) & (values >= 0)]]


def octaves() -> list[dict[str, Any]]:
    """The octaves of E4M3 from below, first that of the subnormal numbers: where each begins and ends, and its step."""
    smallest = float(E4M3.smallest_normal)
    lows = [0.0, *(smallest * 2.0**k for k in range(15))]
    step = float(E4M3.smallest_subnormal)
    return [
        {
            "low": low,
            "high": max(2 * low, smallest),
            "texts": [fraction_text(low), fraction_text(max(2 * low, smallest))],
            "step": fraction_text(step * max(low, smallest) / smallest),
            "subnormal": low == 0,
        }
        for low in lows
    ]


def rounding(fmt: F.FloatFormat, values: list[float]) -> dict[str, Any]:
    """The numbers of a format, by their places in ``values``, and where the rounding changes from one to the next.

    Returns:
        places: of the n numbers in ``values``; borders: for all but the smallest of them, the first float64 that is
        rounded to it.
    """
    own = np.array(numbers_of(fmt))
    # positive float64 are in the order of their bits, read as integers; halving finds the first that is rounded up
    stays, rises = own[:-1].view(np.int64), own[1:].view(np.int64)
    while np.any(rises - stays > 1):
        middle = stays + (rises - stays) // 2
        is_up = fmt.quantize(middle.view(np.float64)) == own[1:]
        stays, rises = np.where(is_up, stays, middle), np.where(is_up, middle, rises)
    return {"places": [values.index(value) for value in own], "borders": rises.view(np.float64).tolist()}


MECHANISM = Mechanism(
    name="octaves",
    title="A value on the number line of E4M3",
    todo="Drag the *orange: orange number*. Then press *Closer to 0* several times, and watch the bits.",
    alt="A number line with the numbers of E4M3 as ticks, in bands of octaves. An orange number can be moved along it, "
    "and the eight bits of the nearest tick are shown above.",
    data=data,
)
