"""Lab 08: parts of a gradient walk round a ring of devices, grow until they are complete, and are handed on."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.hardware import network

from .mechanism import Mechanism

DEVICES = range(2, 9)


def data() -> dict[str, Any]:
    """For each number of devices what every device holds after each step, and how much it has sent by then.

    >>> walk = data()["rings"]["2"]
    >>> walk["held"], walk["sent"]  # gradients that are added up: [step][device][part]
    ([[[1, 1], [1, 1]], [[1, 2], [2, 1]], [[2, 2], [2, 2]]], [0.0, 0.5, 1.0])
    """
    return {"devices": [DEVICES[0], DEVICES[-1]], "rings": {str(devices): ring(devices) for devices in DEVICES}}


def ring(devices: int) -> dict[str, Any]:
    """One ring: after each step how many gradients are added up in each part on each device, and what one has sent.

    The gradient of device d is 2^d in each part, so that a sum says whose gradients it holds.
    """
    steps = int(network.steps("ring", devices))
    values = np.repeat(2 ** np.arange(devices)[:, None], devices, axis=1)
    held = [values]
    for step in range(steps):
        arrived = np.roll(values, 1, axis=0)  # of the neighbour on the left
        part = (np.arange(devices) - 1 - step) % devices  # which of its parts that neighbour sends
        device = np.arange(devices)
        values = values.copy()
        values[device, part] = arrived[device, part] + (values[device, part] if step < devices - 1 else 0)
        held.append(values)
    sent = network.sent_bytes("ring", devices, 1.0)  # of a gradient of one byte: in gradients
    return {
        "held": [[[int(value).bit_count() for value in row] for row in table.tolist()] for table in held],
        "sent": [sent * step / steps for step in range(steps + 1)],
    }


MECHANISM = Mechanism(
    name="ring",
    title="Parts of a gradient on their way round a ring of devices",
    todo="Drag the *orange: orange part* round the ring, as far as it goes. Then press *More devices*.",
    alt="Devices in a ring. Each holds its gradient, cut into as many parts as there are devices. At every step each "
    "part moves on to the next device, and a number says how many gradients are added up in it.",
    data=data,
)
