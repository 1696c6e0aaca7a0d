"""Lab 05: ones are added in a narrow register until it does not move any more, then in chunks of a length to drag."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab import formats as F

from .mechanism import Mechanism

REGISTER = F.FloatFormat(6, 3, name="1-6-3")  # four significant bits: of 64 ones, each can be seen
COUNT = 64
START = 12  # ones that have been added where it opens: the register stops at 16


def data() -> dict[str, Any]:
    """What both registers hold after each step, for every length of the chunks.

    >>> content = data()
    >>> [content["sums"][chunk][-1][2] for chunk in (0, 7, 63)]  # chunks of 1, 8 and 64
    [16, 64, 16]
    """
    numbers = np.unique(REGISTER.codebook())
    return {
        "count": COUNT,
        "start": START,
        "numbers": [0.0, *numbers[(numbers >= 1) & (numbers <= COUNT + 8)].tolist()],  # below 1 they are not drawn
        "sums": [steps(chunk) for chunk in range(1, COUNT + 1)],
    }


def steps(chunk: int) -> list[list[int]]:
    """How many ones have been added after each step, what the register of the chunk holds, and what the total holds.

    A step adds a one to the register of the chunk, or, where the chunk is whole, that register to the total. Without
    chunks (1) there is the total alone.

    >>> steps(2)[:5]
    [[0, 0, 0], [1, 1, 0], [2, 2, 0], [2, 0, 2], [3, 1, 2]]
    """
    sums = [[0, 0, 0]]
    part = total = 0
    for added in range(1, COUNT + 1):
        if chunk == 1:
            total = int(REGISTER.quantize(float(total + 1)))
            sums.append([added, 0, total])
            continue
        part = int(REGISTER.quantize(float(part + 1)))
        sums.append([added, part, total])
        if added % chunk == 0 or added == COUNT:
            part, total = 0, int(REGISTER.quantize(float(total + part)))
            sums.append([added, part, total])
    return sums


MECHANISM = Mechanism(
    name="register",
    title="A register that adds ones",
    todo="Press *Play* and watch the register fill up. Then drag the *orange: chunk* to make it longer.",
    alt="A row of 64 ones, cut into chunks of equal length, and two registers below it, drawn as bars over the numbers "
    "that a register with four significant bits has. The length of the chunks can be changed, and the ones are added "
    "step by step.",
    data=data,
)
