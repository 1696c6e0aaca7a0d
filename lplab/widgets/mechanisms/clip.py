"""Lab 04: the largest level is dragged over real activations; one error shrinks while another grows."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from lplab import datasets
from lplab.quantizers.clipping import Magnitudes, upper_levels

from .mechanism import Mechanism

TENSOR = "resnet/step200/layer3.conv2/activation"
BITS = (2, 3, 4)
PLACES = 66  # of the clip; the last is the largest activation
LOWEST = 3  # below it the clip cuts off nearly everything
BINS = 44


@cache
def activations() -> Magnitudes:
    """8,192 activations of a trained network, sorted."""
    return Magnitudes(datasets.captured()[TENSOR])


def levels_of(bits: int) -> int:
    """The levels over [−α, α] whose upper half are the 2^bits levels from 0 to α.

    >>> levels_of(2), upper_levels(levels_of(2)).round(2).tolist()
    (7, [0.0, 0.33, 0.67, 1.0])
    """
    return 2 ** (bits + 1) - 1


def data() -> dict[str, Any]:
    """The histogram of the activations, and both errors of every clip, as shares of the activations' power.

    >>> content = data()
    >>> len(content["counts"]), len(content["errors"]["2"]["rounding"]), round(content["largest"], 1)
    (44, 66, 6.6)
    """
    x = activations()
    counts, _ = np.histogram(x.sorted[x.sorted > 0], BINS, (0, x.largest))
    clips = x.largest * np.arange(1, PLACES + 1) / PLACES
    errors = {}
    for bits in BITS:
        error = x.errors(clips, levels_of(bits))
        errors[str(bits)] = {
            "levels": upper_levels(levels_of(bits)).tolist(),
            "rounding": (error.rounding / x.power).tolist(),
            "clipping": (error.clipping / x.power).tolist(),
            "best": int(np.argmin(error.total[LOWEST - 1 :])) + LOWEST,
        }
    return {
        "largest": x.largest,
        "lowest": LOWEST,
        "clips": clips.tolist(),
        "counts": counts.tolist(),
        "zeros": float(np.mean(x.sorted == 0)),
        "beyond": [x.share_beyond(clip) for clip in clips],
        "errors": errors,
    }


MECHANISM = Mechanism(
    name="clip",
    title="The clip in a histogram of activations, and what it costs",
    todo="Drag the *orange: clip α* to the left until the bar below it is as short as possible.",
    alt="A histogram of activations with the levels as lines, the largest of which can be moved. Below it stands a bar "
    "of the rounding error and the clipping error. Where it has been, its height stays as a dot.",
    data=data,
)
