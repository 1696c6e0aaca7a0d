"""Thousands of design points in one call: one row for every combination of the listed values.

Numbers (devices, batch, bandwidth, latency, overlap, straggler) are arrays that are computed at once; names (chip,
precision, compressor, ...) are taken one after the other, as each has its own bytes and rates by layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from lplab.checks import check_number, check_numbers
from lplab.hardware import accelerators, precisions, workloads
from lplab.hardware.accelerators import Accelerator
from lplab.hardware.memory import memory_bytes
from lplab.hardware.network import links
from lplab.hardware.network.all_reduce_algorithms import checked_ranks
from lplab.hardware.network.fabric import Fabric
from lplab.hardware.network.links import Link
from lplab.hardware.overlap import BUCKET_BYTES
from lplab.hardware.step import Design, step
from lplab.hardware.traffic import compressor_of
from lplab.hardware.workloads import Workload

if TYPE_CHECKING:
    import pandas as pd

NAMED: dict[str, Any] = {
    "chip": "h100",
    "precision": "bf16",
    "compressor": "none",
    "link": "infiniband_edr",
    "algorithm": "auto",
    "inner_link": None,
    "bucket_bytes": BUCKET_BYTES,
    "sharded": False,
    "optimizer": "momentum",
    "utilization": 1.0,
    "fused": False,
    "fall_back": False,
    "measured_seconds": None,
}
"""Axes that are taken one after the other, and their defaults."""
NUMBERS: dict[str, float | None] = {
    "devices": 1,
    "devices_per_node": 1,
    "batch": 32,
    "overlap": 1.0,
    "straggler": 0.0,
    "latency_seconds": None,
    "bytes_per_second": None,
}
"""Axes of numbers, and their defaults; None: as the link has it."""
_OF_FABRIC = ("link", "algorithm", "inner_link")


def sweep(workload: str | Workload, /, **axes: Any) -> pd.DataFrame:
    """Simulate every combination of the values that are given; needs pandas.

    Args:
        workload: a name, or a Workload.
        **axes: a value or a list of them for any of :data:`NAMED` and :data:`NUMBERS`; ``bytes_per_second`` and
            ``latency_seconds`` stand in for those of the link.

    Returns:
        One row for each point: the axes, then seconds, efficiency, examples per second, bytes sent, memory by part.

    Raises:
        ValueError: an unknown axis or name, an empty list, a value that is not allowed.

    >>> frame = sweep("resnet50", devices=[1, 8, 64], compressor=["none", "scalecom"], link="ethernet_10g")
    >>> frame.shape[0], frame[frame.compressor == "none"].efficiency.round(2).tolist()
    (6, [1.0, 0.06, 0.05])
    """
    import pandas as pd

    workload = workloads.get(workload)
    named, numbers = _axes(axes)
    grids = np.meshgrid(*numbers.values(), indexing="ij")
    columns = {name: grid.ravel() for name, grid in zip(numbers, grids, strict=True)}
    parts = [pd.DataFrame(_points(workload, point, columns)) for point in _combinations(named)]
    return pd.concat(parts, ignore_index=True)


def scaling(
    workload: str | Workload, devices: Sequence[int], *, batch: int, mode: str = "weak", **axes: Any
) -> pd.DataFrame:
    """Efficiency against devices. Weak: ``batch`` examples on each device. Strong: ``batch`` shared among all.

    In strong scaling the slowest device has the share rounded up; with more devices than examples some have none.

    Returns:
        As :func:`sweep`, with ``speedup`` over one device; in strong scaling ``efficiency`` is speedup over devices.

    Raises:
        ValueError: an unknown mode, or what :func:`sweep` refuses.

    >>> frame = scaling("resnet50", [1, 8, 64], batch=256, mode="strong", link="nvlink4")
    >>> frame.batch.tolist(), bool((frame.efficiency.diff()[1:] < 0).all())
    ([256.0, 32.0, 4.0], True)
    """
    import pandas as pd

    if mode == "weak":
        frame = sweep(workload, devices=devices, batch=batch, **axes)
        return frame.assign(speedup=frame["efficiency"] * frame["devices"])
    if mode != "strong":
        raise ValueError(f"mode must be weak or strong, got {mode!r}")
    ranks = checked_ranks(np.asarray(devices))
    if not len(ranks):
        raise ValueError("axis 'devices' has no values")
    batch = check_number("batch", batch)  # type: ignore[assignment]
    sweeps = [sweep(workload, devices=n, batch=-(-batch // n), **axes) for n in map(int, ranks)]
    alone = sweep(workload, devices=1, batch=batch, **axes)
    for part in sweeps:
        part["speedup"] = (alone["single_seconds"] / part["step_seconds"]).to_numpy()
        part["throughput"] = batch / part["step_seconds"]
        part["efficiency"] = part["speedup"] / part["devices"]
    return pd.concat(sweeps, ignore_index=True)


def _axes(axes: Mapping[str, Any]) -> tuple[dict[str, list[Any]], dict[str, np.ndarray]]:
    """The axes as lists of names and as arrays of numbers, defaults filled in."""
    unknown = [name for name in axes if name not in NAMED and name not in NUMBERS]
    if unknown:
        raise ValueError(f"unknown axis {unknown[0]!r}; allowed: {', '.join((*NAMED, *NUMBERS))}")
    values = {name: _listed(axes.get(name, default)) for name, default in (NAMED | NUMBERS).items()}
    for name, several in values.items():
        if not several:
            raise ValueError(f"axis {name!r} has no values")
    named = {name: values[name] for name in NAMED}
    return named, {name: _numbers(name, values[name]) for name in NUMBERS}


def _numbers(name: str, values: list[Any]) -> np.ndarray:
    """The axis as an array; None, for what the link has, is NaN there, and no other value is."""
    numbers = check_numbers(f"axis {name!r}", [value for value in values if value is not None])
    if np.isnan(numbers).any():
        raise ValueError(f"axis {name!r} takes numbers, got nan")
    return np.array(values, np.float64)


def _listed(value: Any) -> list[Any]:
    single = isinstance(value, str | Link | Accelerator) or not isinstance(value, Sequence | np.ndarray | range)
    return [value] if single else list(value)


def _combinations(named: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    for values in product(*named.values()):
        yield dict(zip(named, values, strict=True))


def _points(workload: Workload, point: dict[str, Any], columns: dict[str, np.ndarray]) -> dict[str, Any]:
    """The rows of one combination of names: columns of a frame."""
    chip, precision = accelerators.get(point["chip"]), precisions.get(point["precision"])
    rest = {name: point[name] for name in NAMED if name not in ("chip", "precision", "compressor", *_OF_FABRIC)}
    design = Design(workload, chip, precision, compressor_of(point["compressor"]), **rest)
    link, number = links.get(point["link"]), columns
    latency = np.where(np.isnan(number["latency_seconds"]), link.latency_seconds, number["latency_seconds"])
    bandwidth = np.where(np.isnan(number["bytes_per_second"]), link.bytes_per_second, number["bytes_per_second"])
    fabric = Fabric(
        Link(latency, bandwidth, link.name), point["algorithm"], number["devices_per_node"], point["inner_link"]
    )
    devices, batch = number["devices"], number["batch"]
    times = step(design, fabric, devices, batch, overlap=number["overlap"], straggler=number["straggler"])
    memory = memory_bytes(
        workload, precision, design.traffic, batch, devices, optimizer=design.optimizer, sharded=design.sharded
    )
    names = {name: getattr(value, "name", value) for name, value in point.items()}
    return {
        "workload": workload.name,
        **names,
        **{**number, "latency_seconds": latency, "bytes_per_second": bandwidth},
        **times.summary(),
        "efficiency": times.single / times.total,
        "throughput": devices * batch / times.total,
        "sent_bytes": design.sent_bytes(devices),
        "memory_bytes": sum(memory.values()),
        "fits": None if chip.memory_bytes is None else sum(memory.values()) <= chip.memory_bytes,
        **{f"{part}_bytes": nbytes for part, nbytes in memory.items()},
    }
