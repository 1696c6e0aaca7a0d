"""Lab 09: AdaComp in one bin, beat by beat, where the gradient of one element can be dragged."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.compression import AdaComp
from lplab.compression.adacomp import adacomp_select_arrays

from .mechanism import Mechanism

GRADIENTS = (  # of a bin of eight elements, in two steps; in the second one nearly all point against what is owed
    (4, 1, -3, 0.5, 2, 0, -1, 1),
    (0.25, -0.25, -0.5, -0.25, 1, 0, 0.25, -0.5),
)
HELD = 4  # the element whose gradient is dragged, counted from 0
UNIT = 0.25  # of a drag: exact in binary, so that every sum can be checked by hand
DRAGS = (-8, 12)  # the smallest and the largest gradient of this element, in units


def data() -> dict[str, Any]:
    """The first step for each gradient of the held element, and the second one for each pair of its gradients.

    >>> content = data()
    >>> first = content["steps"][0][8 - content["drags"][0]]  # 8 units are a gradient of 2
    >>> first["sent"], first["after"][4]  # in units, too
    ([16, 0, -16, 0, 16, 0, 0, 0], -8)
    """
    places = range(DRAGS[0], DRAGS[1] + 1)
    none = [0] * len(GRADIENTS[0])
    first = [step(0, none, units) for units in places]
    second = [[step(1, each["after"], units) for units in places] for each in first]
    return {
        "held": HELD,
        "unit": UNIT,
        "drags": list(DRAGS),
        "start": [int(gradients[HELD] / UNIT) for gradients in GRADIENTS],
        "gradients": [in_units(gradients) for gradients in GRADIENTS],
        "steps": [first, second],
    }


def step(number: int, residual: list[int], units: int) -> dict[str, list[int]]:
    """G of all elements, H, what AdaComp sends of each, and the residual after the step, all in units."""
    r = np.array(residual, np.float32) * np.float32(UNIT)
    g = np.array(GRADIENTS[number], np.float32)
    g[HELD] = units * UNIT
    # The bin is a whole layer, so S is its largest |G|.
    selection = adacomp_select_arrays(r, g, AdaComp(len(g)), len(g))
    sent = np.zeros(len(g))
    sent[selection.indices] = np.where(selection.negative, -selection.scale, selection.scale)
    each = {"total": r + g, "boosted": r + 2 * g, "sent": sent, "after": selection.residual}
    return {name: in_units(values) for name, values in each.items()}


def in_units(values: Any) -> list[int]:
    """Whole numbers of units: shorter on a page, and exact."""
    units = np.asarray(values) / UNIT
    assert (units == np.round(units)).all()
    return [int(unit) for unit in units]


MECHANISM = Mechanism(
    name="bin",
    title="One bin of AdaComp, beat by beat",
    todo="Press *Next beat* twice to see which elements pass. "
    "Then drag the *orange: gradient of element 5* down, until it waits.",
    alt="A bin of eight elements, drawn as bars on one scale. In four beats the gradient is added to what is owed, the "
    "largest sum is found, elements pass or wait, and the rest stays. The gradient of element 5 can be changed.",
    data=data,
)
