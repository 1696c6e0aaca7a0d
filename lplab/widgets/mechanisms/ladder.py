"""Lab 07: a gradient is dragged along the powers of four, and two phases round it to other rungs."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab import formats as F

from .mechanism import Mechanism, fraction_text

EVEN, ODD = F.get("radix4_fp4_even"), F.get("radix4_fp4_odd")
PARTS = 8  # places in an octave
PLACES = range(-5 * PARTS, 5 * PARTS + 1)  # from 1/32 to 32: inside of both phases
START = 11  # 2.59
PERIOD = 2 * PARTS  # after a factor of 4 everything comes again


def data() -> dict[str, Any]:
    """What both phases make of each size, and how far one phase and the mean of both are off on average.

    >>> content = data()
    >>> place = START - PLACES[0]
    >>> round(content["sizes"][place], 2), content["even"][place], content["odd"][place]
    (2.59, 4.0, 2.0)
    """
    sizes = 2.0 ** (np.array(PLACES) / PARTS)
    even, odd = EVEN.quantize(sizes), ODD.quantize(sizes)
    one, both = (np.abs(q / sizes - 1)[:PERIOD].mean() for q in (even, (even + odd) / 2))
    return {
        "first": PLACES[0],
        "start": START,
        "parts": PARTS,
        "sizes": sizes.tolist(),
        "even": even.tolist(),
        "odd": odd.tolist(),
        "rungs": {"even": rungs(EVEN), "odd": rungs(ODD)},
        "average": {"one": float(one), "both": float(both)},
    }


def rungs(fmt: F.FloatFormat) -> list[list[Any]]:
    """The positive numbers of a phase: log2 and text of each.

    >>> rungs(EVEN)[0], rungs(ODD)[-1]
    ([-6.0, '1/64'], [5.0, '32'])
    """
    values = np.unique(fmt.codebook())
    values = values[np.isfinite(values) & (values > 0)]
    return [[float(np.log2(v)), fraction_text(v)] for v in values]


MECHANISM = Mechanism(
    name="ladder",
    title="A gradient on two ladders of powers of four",
    todo="Drag the *orange: gradient* from one rung to the next, "
    "and watch the errors of both ladders (the even and the odd *phase*).",
    alt="Two ladders of powers of four, one shifted by a factor of two. A gradient can be moved along them, and each "
    "phase takes it to a rung of its own. Below stand both errors and the error of their mean.",
    data=data,
)
