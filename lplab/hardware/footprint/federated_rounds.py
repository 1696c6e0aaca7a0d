"""Federated rounds: a server sends a model to clients, they train it on their own data and send back the update.

FedAvg (McMahan et al. 2017). Per round and client: parameters down, some epochs of local training, an update up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from lplab.checks import check_above, check_at_least, check_fields
from lplab.compression.compressor import Compressor, element_count
from lplab.hardware.csv_tables import number, read
from lplab.hardware.network.links import Floats
from lplab.lookup import lookup


@dataclass(frozen=True)
class Device:
    """Device of a client: operations per second that training reaches (not the peak), and its power.

    One multiplication with its addition is two operations.
    """

    name: str
    label: str
    ops_per_second: float
    watts: float
    source: str = ""
    grade: str = "own"

    def __post_init__(self) -> None:
        check_above(0, **check_fields(self, "ops_per_second"))
        check_at_least(0, **check_fields(self, "watts"))


@dataclass(frozen=True)
class Radio:
    """A client's connection to the server: bandwidth down and up, and power while it receives and sends."""

    name: str
    label: str
    down_bytes_per_second: float
    up_bytes_per_second: float
    down_watts: float
    up_watts: float
    source: str = ""
    grade: str = "own"

    def __post_init__(self) -> None:
        check_above(0, **check_fields(self, "down_bytes_per_second", "up_bytes_per_second"))
        check_at_least(0, **check_fields(self, "down_watts", "up_watts"))


def _rows(file: str, key: str, numbers: Sequence[str], make: Any) -> dict[str, Any]:
    rows = read(file, (key, "label", *numbers, "source", "grade"))
    return {r[key]: make(r[key], r["label"], *(number(r, n) for n in numbers), r["source"], r["grade"]) for r in rows}


@cache
def devices() -> dict[str, Device]:
    """All devices of ``data/hardware/edge_devices.csv``, by name."""
    return _rows("edge_devices", "device", ("ops_per_second", "watts"), Device)


@cache
def radios() -> dict[str, Radio]:
    """All connections of ``data/hardware/radios.csv``, by name."""
    columns = ("down_bytes_per_second", "up_bytes_per_second", "down_watts", "up_watts")
    return _rows("radios", "radio", columns, Radio)


def device(name: str | Device) -> Device:
    """The device of this name; ValueError with the closest names if there is none."""
    return name if isinstance(name, Device) else lookup(devices(), name, "device")


def radio(name: str | Radio) -> Radio:
    """The radio of this name; ValueError with the closest names if there is none.

    >>> radio("3g")
    Traceback (most recent call last):
    ...
    ValueError: there is no radio '3g'; there are: wifi, lte, cable
    """
    return name if isinstance(name, Radio) else lookup(radios(), name, "radio")


def message_bytes(parameters: Floats, bits: Floats = 32, share: Floats = 1.0, index_bits: Floats = 0.0) -> Any:
    """Bytes of a model or of an update; arrays broadcast.

    Args:
        parameters: how many numbers there are.
        bits: of each number sent.
        share: of the numbers that are sent.
        index_bits: of the index of each number; 0 where all are sent.

    >>> message_bytes(11_690_000) / 1e6, round(message_bytes(11_690_000, 8, 0.01, 16) / 1e6, 2)
    (46.76, 0.35)
    """
    parameters, bits, share, index_bits = check_at_least(
        0, parameters=parameters, bits=bits, share=share, index_bits=index_bits
    )
    if np.any(share > 1):
        raise ValueError(f"share must be from 0 to 1, got {share}")
    return parameters * share * (bits + index_bits) / 8


def compressed_bytes(compressor: Compressor, shapes: Sequence[Sequence[int]]) -> float:
    """Bytes that a client sends with one of `lplab.compression`'s compressors, by its ``plan()`` for every tensor.

    A leader's broadcast has no counterpart with a server: it is counted as sent up by one client.

    >>> from lplab.compression import TopK
    >>> compressed_bytes(TopK(0.01), [(1000, 100)])
    8000.0
    """
    return float(
        sum(t.payload_bytes for shape in shapes if element_count(shape) for t in compressor.plan(tuple(shape)))
    )


@dataclass(frozen=True)
class ClientRound:
    """One client in one round; arrays where the arguments were arrays.

    Attributes:
        down_bytes, up_bytes: on its radio.
        compute_joules, down_joules, up_joules: of the client; the server and the net between are not counted.
        compute_seconds, down_seconds, up_seconds: one after the other.
    """

    down_bytes: Any
    up_bytes: Any
    compute_joules: Any
    down_joules: Any
    up_joules: Any
    compute_seconds: Any
    down_seconds: Any
    up_seconds: Any

    @property
    def joules(self) -> Any:
        """Computing and both ways."""
        return self.compute_joules + self.down_joules + self.up_joules

    @property
    def seconds(self) -> Any:
        """Seconds that one client takes; a round lasts as long as its slowest client."""
        return self.compute_seconds + self.down_seconds + self.up_seconds


def federated(
    *,
    operations: Any,
    down_bytes: Any,
    up_bytes: Any,
    device: str | Device = "phone",
    radio: str | Radio = "wifi",
) -> ClientRound:
    """One round of one client.

    Args:
        operations: of its local training: 3 × forward operations × examples × epochs.
        down_bytes, up_bytes: `message_bytes` or `compressed_bytes`.
        device, radio: names, or your own.

    >>> mb = message_bytes(1_663_370)  # FedAvg's CNN for MNIST
    >>> once = federated(operations=3 * 2 * 12e6 * 600 * 5, down_bytes=mb, up_bytes=mb, radio="lte")
    >>> round(once.compute_joules, 1), round(once.down_joules + once.up_joules, 1)
    (6.5, 42.8)
    """
    operations, down_bytes, up_bytes = check_at_least(
        0, operations=operations, down_bytes=down_bytes, up_bytes=up_bytes
    )
    device, radio = _device(device), _radio(radio)
    compute, down = operations / device.ops_per_second, down_bytes / radio.down_bytes_per_second
    up = up_bytes / radio.up_bytes_per_second
    joules = (compute * device.watts, down * radio.down_watts, up * radio.up_watts)
    return ClientRound(down_bytes, up_bytes, *joules, compute, down, up)


_device, _radio = device, radio  # the parameters of `federated` have the same names
