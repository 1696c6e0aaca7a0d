"""Lab 03: the same update is added to a 16-bit weight and to a float32 master copy, which is rounded to 16 bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab import formats as F

from .mechanism import Mechanism

FORMATS = {"float16": F.get("fp16"), "bfloat16": F.get("bf16")}
UNIT = 0.00005  # of all updates
UPDATES = range(2, 25)  # in units
START = 6  # 0.0003
END = 1 + 2.0**-7  # of the ruler: eight steps of float16, one step of bfloat16


def data() -> dict[str, Any]:
    """The numbers of both formats from 1 to the end of the ruler, and both weights after each update.

    >>> content = data()
    >>> [len(content["formats"][name]["ticks"]) for name in ("float16", "bfloat16")]
    [9, 2]
    """
    return {
        "unit": UNIT,
        "updates": [UPDATES[0], UPDATES[-1]],
        "start": START,
        "end": END,
        "formats": {
            name: {"ticks": ticks(fmt), "walks": [walk(fmt, units * UNIT) for units in UPDATES]}
            for name, fmt in FORMATS.items()
        },
    }


def ticks(fmt: F.FloatFormat) -> list[float]:
    """The numbers of a format from 1 to the end of the ruler."""
    step = 2.0**-fmt.mantissa_bits
    return [1 + k * step for k in range(round((END - 1) / step) + 1)]


def walk(fmt: F.FloatFormat, update: float) -> list[list[float]]:
    """The master copy, the same rounded to 16 bits, and a weight without a master copy, after 0, 1, 2, … updates.

    It ends where the next update would leave the ruler.

    >>> walk(FORMATS["float16"], 0.0003)[2]
    [1.0006000995635986, 1.0009765625, 1.0]
    """
    master, alone = np.float32(1), 1.0
    path = []
    while float(master) <= END and alone <= END:
        path.append([float(master), float(fmt.quantize(float(master))), alone])
        master = np.float32(master + np.float32(update))
        alone = float(fmt.quantize(float(np.float32(alone) + np.float32(update))))
    return path


MECHANISM = Mechanism(
    name="beads",
    title="One weight with and without a master copy",
    todo="Press *Add the update* a few times. Then drag the *orange: update* until it moves the lower bead, too.",
    alt="Two rulers with the numbers of float16 from 1 to 1.0078. On the upper one a master copy creeps to the right "
    "and its 16-bit copy follows in steps. On the lower one a weight gets the same updates and is rounded each time.",
    data=data,
)
