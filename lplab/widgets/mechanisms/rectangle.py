"""Lab 06: eight bits are divided between range and precision, and the window lies over three real tensors."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from lplab import datasets
from lplab import formats as F
from lplab.number_text import power, raised

from .mechanism import Mechanism

LAYER = "transformer/step1000/blocks.0.attention.qkv"
ROLES = {"weight": "weights", "activation": "activations", "gradient": "gradient"}
EXPONENT_BITS = range(2, 7)
TOPS = range(-14, 17)  # the octave of the largest number: 2^-14 to 2^16
START = (4, 4)  # 1-4-3, the forward format of 2019, whose largest number is 30
OCTAVES = (-36, 18)  # that are drawn


@cache
def tensors() -> dict[str, np.ndarray]:
    """The numbers of one layer that are not 0, by their names."""
    magnitudes = {name: np.float64(datasets.captured()[f"{LAYER}/{role}"]).ravel() for role, name in ROLES.items()}
    return {name: x[x != 0] for name, x in magnitudes.items()}


def number_format(exponent_bits: int, top: int) -> F.FloatFormat:
    """Eight bits with so many for the exponent, whose largest number lies in the octave from 2^top.

    >>> number_format(4, 4).max, number_format(4, 4).bias == F.get("hfp8_forward").bias
    (30.0, True)
    """
    return F.FloatFormat(exponent_bits, 7 - exponent_bits, bias=2**exponent_bits - 1 - top, specials="fnuz")


def data() -> dict[str, Any]:
    """The histograms of three tensors by octaves, and for each format its window and the shares that it loses."""
    edges = np.arange(OCTAVES[0], OCTAVES[1] + 1)
    rows = []
    for name, x in tensors().items():
        counts, _ = np.histogram(np.log2(np.abs(x)), edges)
        rows.append({"name": name, "counts": (counts / counts.max()).round(4).tolist()})
    windows = [[window(bits, top) for top in TOPS] for bits in EXPONENT_BITS]
    ticks = [[exponent, raised(power(exponent, plain=True))] for exponent in range(-30, 11, 10)]
    return {
        "octaves": list(OCTAVES),
        "exponents": [EXPONENT_BITS[0], EXPONENT_BITS[-1]],
        "tops": [TOPS[0], TOPS[-1]],
        "start": list(START),
        "rows": rows,
        "windows": windows,
        "ticks": ticks,
    }


def window(exponent_bits: int, top: int) -> dict[str, Any]:
    """Where a format begins and ends, and what it loses of each tensor.

    Returns:
        low, high: log2 of half of the smallest number and of the largest; error: the most that rounding is off, as a
        share; zero, saturated: of each tensor, shares of the numbers that are not 0.
    """
    fmt = number_format(exponent_bits, top)
    ends = np.cumsum([len(x) for x in tensors().values()])[:-1]
    x = np.concatenate(list(tensors().values()))
    zero, saturated = fmt.quantize(x) == 0, np.abs(x) > fmt.max
    return {
        "low": float(np.log2(fmt.smallest_subnormal)) - 1,
        "high": float(np.log2(fmt.max)),
        "error": 2.0 ** -(fmt.mantissa_bits + 1),
        "zero": [round(float(part.mean()), 6) for part in np.split(zero, ends)],
        "saturated": [round(float(part.mean()), 6) for part in np.split(saturated, ends)],
    }


MECHANISM = Mechanism(
    name="rectangle",
    title="Eight bits between range and precision",
    todo="Drag the *orange: divider* between the bits, and the *orange: window* sideways, until all three rows fit.",
    alt="Eight bits with a divider between exponent and mantissa. A rectangle shows range and precision of the format. "
    "Below lie the numbers of weights, activations and a gradient, and those outside of the window are lost.",
    data=data,
)
