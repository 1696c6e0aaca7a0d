"""Lab 03: the window of a format is dragged over a histogram of gradients, and the way is the loss scale."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from lplab import datasets
from lplab import formats as F
from lplab.figures.window import window

from .mechanism import Mechanism

TENSOR = "transformer/step1000/head/gradient"
FORMATS = {"float16": F.get("fp16"), "E5M2": F.get("e5m2")}
OUTCOMES = ("zero", "subnormal", "normal", "infinite")
SCALES = range(-8, 29)  # exponents of the loss scale
OCTAVES = range(-40, 21)  # that the axis shows


@cache
def gradients() -> np.ndarray:
    """Magnitudes of the gradients at the last layer of a small Transformer, without those that are 0."""
    magnitudes = np.abs(np.asarray(datasets.captured()[TENSOR], np.float64)).ravel()
    return magnitudes[magnitudes > 0]


def data() -> dict[str, Any]:
    """How many gradients lie in each octave, and what each format makes of them behind each loss scale.

    >>> content = data()
    >>> content["total"], content["formats"]["float16"]["outcomes"][0 - SCALES[0]]["zero"]
    (4800, 2400)
    """
    edges = np.array([*OCTAVES, OCTAVES[-1] + 1])
    counts, _ = np.histogram(np.log2(gradients()), edges)
    return {
        "first": OCTAVES[0],
        "counts": counts.tolist(),
        "total": len(gradients()),
        "scales": [SCALES[0], SCALES[-1]],
        "formats": {name: of_format(fmt) for name, fmt in FORMATS.items()},
    }


def of_format(fmt: F.FloatFormat) -> dict[str, Any]:
    """The edges of a format's window, as log2, and for each loss scale how many gradients come to each part of it."""
    outcomes = []
    for exponent in SCALES:
        rounded = np.asarray(fmt.quantize(gradients() * 2.0**exponent))
        zero, infinite = rounded == 0, np.isinf(rounded)
        subnormal = ~zero & (rounded < fmt.smallest_normal)
        masks = (zero, subnormal, ~(zero | subnormal | infinite), infinite)
        outcomes.append({name: int(np.sum(each)) for name, each in zip(OUTCOMES, masks, strict=True)})
    edges = window(fmt)
    return {"edges": np.log2([edges.flush, edges.normal, edges.magnitude]).tolist(), "outcomes": outcomes}


MECHANISM = Mechanism(
    name="loss_scale",
    title="The window of a format over gradients",
    todo="Drag the *orange: window* to the left, until hardly any gradient becomes 0. The way is the loss scale.",
    alt="A histogram of gradients by octave, and behind it the window of a format. What is left of it becomes 0, and "
    "what is right of it becomes infinite. The window can be moved, which is what a loss scale does.",
    data=data,
)
