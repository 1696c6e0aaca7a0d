"""Energy of a step by part: arithmetic, memory, network, and static power.

energy = multiplying seconds × arithmetic watts + bytes to memory × J/byte + bytes sent × J/byte + seconds × idle watts

Assumptions:

- A training chip draws 85 % of its design power, a waiting one a seventh. Published for H100s: above 600 of 700 W,
  and about 100 W. Other chips get the same shares.
- *Static* is the power of the waiting chip and of its host (``host_watts``), drawn all the time.
- *Memory* is every byte to and from the chip's own memory at a fixed price.
- *Arithmetic* gets what is left of the 85 % when memory runs at full speed, and flows while the multipliers work. It
  includes all that moves within the chip. Where a chip multiplies 8-bit numbers twice as fast, an 8-bit operation costs
  half as much: published rates and watts say no more than that, and chips that were measured come close to it.
- *Network* is what network cards and switches draw for the bytes that they carry.

Horowitz's table (:mod:`lplab.hardware.operation_costs`) has the bare operations, without anything that moves.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from lplab.checks import check_at_least, check_fields, check_int, check_number
from lplab.hardware import accelerators

JOULES_PER_KWH = 3.6e6
BUSY_SHARE = 0.85  # of the design power: H100 while training (second-hand)
IDLE_SHARE = 1 / 7  # of the design power: 100 of 700 W, H100 while waiting (second-hand)
MEMORY_JOULES_PER_BYTE = 31.2e-12  # HBM2: 3.9 pJ for a bit, O'Connor et al. 2017 (recalled)
NETWORK_JOULES_PER_BYTE = 1.4e-9  # a card and a port of a switch, 35 W at 200 Gb/s (assumed)
PARTS = ("arithmetic", "memory", "network", "static")


@dataclass(frozen=True)
class Power:
    """Power of one device.

    Attributes:
        arithmetic_watts: while its multipliers work, on top of the rest.
        idle_watts: all the time.
        host_watts: the machine around it (processor, memory, fans), all the time.
        memory_joules_per_byte: to or from the memory beside the chip.
        network_joules_per_byte: of network cards and switches.

    Raises:
        ValueError: a negative number.

    >>> Power.of("h100").idle_watts
    100.0
    """

    arithmetic_watts: float
    idle_watts: float
    host_watts: float = 0.0
    memory_joules_per_byte: float = MEMORY_JOULES_PER_BYTE
    network_joules_per_byte: float = NETWORK_JOULES_PER_BYTE

    def __post_init__(self) -> None:
        check_at_least(0, **check_fields(self, *(field.name for field in fields(self))))

    @classmethod
    def of(
        cls,
        chip: str | accelerators.Accelerator,
        *,
        busy_share: float = BUSY_SHARE,
        idle_share: float = IDLE_SHARE,
        host_watts: float = 0.0,
        memory_joules_per_byte: float = MEMORY_JOULES_PER_BYTE,
        network_joules_per_byte: float = NETWORK_JOULES_PER_BYTE,
    ) -> Power:
        """Shares of a chip's design power: ``busy_share`` while multipliers and memory both work at full speed.

        Raises:
            ValueError: an unknown chip, one without a known design power, or shares that leave no power for
                arithmetic.

        >>> round(Power.of("h100").arithmetic_watts)
        390
        """
        shares = {"busy_share": busy_share, "idle_share": idle_share, "memory_joules_per_byte": memory_joules_per_byte}
        for name, value in shares.items():
            check_at_least(0, **{name: check_number(name, value)})
        chip = accelerators.get(chip)
        if chip.power_watts is None:
            raise ValueError(
                f"no design power is known of {chip.name}: give Power(arithmetic_watts=..., idle_watts=...)"
            )
        idle = idle_share * chip.power_watts
        memory = (chip.memory_bytes_per_second or 0.0) * memory_joules_per_byte
        arithmetic = busy_share * chip.power_watts - idle - memory
        if arithmetic < 0:
            raise ValueError(
                f"{busy_share:.0%} of {chip.power_watts:g} W are not enough: {idle:.3g} W idle, {memory:.3g} W memory"
            )
        return cls(arithmetic, idle, host_watts, memory_joules_per_byte, network_joules_per_byte)


@dataclass(frozen=True)
class Energy:
    """Joules by part, all devices together; numbers or arrays of one shape.

    Attributes:
        arithmetic: computing, and moving numbers within the chip.
        memory: to and from the memory beside the chip.
        network: cards and switches, for the bytes sent.
        static: of the waiting chip and its host, all the time.
        seconds: how long it takes.
    """

    arithmetic: Any
    memory: Any
    network: Any
    static: Any
    seconds: Any = 0.0

    @property
    def joules(self) -> Any:
        """Joules of all parts together.

        >>> Energy(1.0, 2.0, 3.0, 4.0).joules
        10.0
        """
        return self.arithmetic + self.memory + self.network + self.static

    @property
    def kwh(self) -> Any:
        """Kilowatt hours at the machines; the building adds its PUE (`lplab.hardware.footprint.bill_of`).

        >>> Energy(3.6e6, 0.0, 0.0, 0.0).kwh
        1.0
        """
        return self.joules / JOULES_PER_KWH

    @property
    def watts(self) -> Any:
        """Mean power of all devices."""
        return self.joules / self.seconds

    def parts(self) -> dict[str, Any]:
        """Joules by the names of `PARTS`.

        >>> list(Energy(1.0, 2.0, 3.0, 4.0).parts())
        ['arithmetic', 'memory', 'network', 'static']
        """
        return {name: getattr(self, name) for name in PARTS}

    def __mul__(self, times: float) -> Energy:
        """So many steps."""
        [times] = check_at_least(0, times=times)
        return Energy(*(part * times for part in (*self.parts().values(), self.seconds)))

    __rmul__ = __mul__


def energy_of(
    power: Power,
    *,
    seconds: Any,
    multiply_seconds: Any,
    memory_bytes: Any = 0.0,
    network_bytes: Any = 0.0,
    devices: Any = 1,
) -> Energy:
    """The energy of a step by part; arrays of one shape are welcome in every number.

    Args:
        power: of one device.
        seconds: of the whole step.
        multiply_seconds: of these, how long each device's multipliers work.
        memory_bytes: to and from a device's memory.
        network_bytes: that a device sends.
        devices: how many.

    Raises:
        ValueError: a negative number, or more seconds of multiplying than the step has.

    >>> h100 = Power.of("h100")
    >>> step = energy_of(h100, seconds=0.2, multiply_seconds=0.1, memory_bytes=1e11, network_bytes=1e9, devices=8)
    >>> {name: round(joules, 1) for name, joules in step.parts().items()}
    {'arithmetic': 312.4, 'memory': 25.0, 'network': 11.2, 'static': 160.0}
    """
    seconds, multiply_seconds, memory_bytes = check_at_least(
        0, seconds=seconds, multiply_seconds=multiply_seconds, memory_bytes=memory_bytes
    )
    network_bytes, devices = check_at_least(0, network_bytes=network_bytes, devices=devices)
    if (np.asarray(multiply_seconds) > np.asarray(seconds) * (1 + 1e-9)).any():
        raise ValueError(f"multiply_seconds ({multiply_seconds}) must not exceed the seconds of the step ({seconds})")
    return Energy(
        arithmetic=devices * multiply_seconds * power.arithmetic_watts,
        memory=devices * memory_bytes * power.memory_joules_per_byte,
        network=devices * network_bytes * power.network_joules_per_byte,
        static=devices * seconds * (power.idle_watts + power.host_watts),
        seconds=seconds,
    )


def gemm_joules(
    m: int,
    n: int,
    k: int,
    *,
    mac_joules: float,
    operand_bits: float,
    result_bits: float,
    memory_joules_per_byte: float,
    tile: int,
) -> tuple[float, float]:
    """Arithmetic and memory of an m×k by k×n product, computed in tiles of ``tile`` × ``tile`` results.

    Each tile of results stays on the chip until it is done, and needs its rows of the first and its columns of the
    second operand from memory: the first operand is read once for every column of tiles, the second once for every
    row of tiles, each result is written once.

    >>> bits = {"operand_bits": 16, "result_bits": 16}
    >>> square = {"m": 1024, "n": 1024, "k": 1024, "operand_bits": 16, "result_bits": 16}
    >>> arithmetic, memory = gemm_joules(**square, mac_joules=2e-12, memory_joules_per_byte=160e-12, tile=128)
    >>> round(arithmetic * 1e3, 2), round(memory * 1e3, 2)
    (2.15, 5.7)
    """
    m, n, k, tile = (check_int(name, size, 1, 2**53) for name, size in {"m": m, "n": n, "k": k, "tile": tile}.items())
    costs = {"mac_joules": mac_joules, "operand_bits": operand_bits, "result_bits": result_bits}
    for name, cost in {**costs, "memory_joules_per_byte": memory_joules_per_byte}.items():
        check_at_least(0, **{name: check_number(name, cost)})
    columns, rows = -(-n // tile), -(-m // tile)
    read = (m * k * columns + k * n * rows) * operand_bits / 8
    written = m * n * result_bits / 8
    return m * n * k * mac_joules, (read + written) * memory_joules_per_byte
