"""This machine as a chip: as ``lplab doctor --measure`` measured it, or else the measurement that ships with lplab."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from lplab.hardware import csv_tables
from lplab.hardware.chip import PEAKS, Accelerator
from lplab.hardware.sourced_value import SourcedValue

T = TypeVar("T")
PRODUCT_BYTES = {  # of two operands and a result, as lplab.hardware.matmul_benchmark multiplies them
    "fp32": 4 + 4 + 4,
    "tf32": 4 + 4 + 4,
    "fp16": 2 + 2 + 2,
    "bf16": 2 + 2 + 2,
    "fp8": 1 + 1 + 2,  # written in bfloat16
    "int8": 1 + 1 + 4,  # summed in 32 bits
}


def measurement_path() -> Path:
    """Path of the user's measurement: LPLAB_MACHINE, or machine.json in the user's data folder, or a temporary one."""
    if place := os.environ.get("LPLAB_MACHINE"):
        return Path(place)
    try:
        import platformdirs  # of the extra "course"

        return platformdirs.user_data_path("lplab", appauthor=False) / "machine.json"
    except ImportError:
        return Path.home() / ".lplab" / "machine.json"
    except RuntimeError:  # a user without a home folder, as in some containers
        return Path(tempfile.gettempdir()) / "lplab" / "machine.json"


def bundled_measurement_path() -> Path:
    """Path of the measurement that ships with lplab."""
    return csv_tables.folder().parent / "measured" / "cpu.json"


def load_machine() -> Accelerator:
    """The measured machine as an :class:`~lplab.hardware.accelerators.Accelerator`; its label says which machine.

    Raises:
        ValueError: your file is damaged; the message says how to make a new one.

    >>> load_machine().name, load_machine().grade("fp32")
    ('mine', 'measured')
    """
    whose = "your machine" if measurement_path().is_file() else "the machine lplab was made on"
    return _read(lambda measured: from_measurement(measured, whose))


def measured_products() -> list[tuple[str, float, float]]:
    """The measured products one by one: name, operations per byte, operations per second.

    A product of n × n matrices does 2·n³ operations; its operands are read and its result is written once.

    Raises:
        ValueError: your file is damaged, see :func:`load_machine`.

    >>> name, intensity, ops_per_second = measured_products()[0]
    >>> name, round(intensity, 1)
    ('fp32, 1,024 × 1,024', 170.7)
    """
    return _read(lambda measured: [_product(row) for row in measured["rates"]])


def _product(row: Mapping[str, Any]) -> tuple[str, float, float]:
    n, name = int(row["size"]), row["format"]
    return f"{name}, {n:,} × {n:,}", 2 * n**3 / (PRODUCT_BYTES[name] * n**2), float(row["tera"]) * 1e12


def _read(use: Callable[[Any], T]) -> T:
    """``use`` of the user's measurement, or of the one that ships with lplab; ValueError if the user's is damaged."""
    path = measurement_path()
    if not path.is_file():
        return use(json.loads(bundled_measurement_path().read_text("utf-8")))
    try:
        return use(json.loads(path.read_text("utf-8")))
    except (KeyError, TypeError, ValueError) as problem:
        raise ValueError(
            f"{path} holds no measurement ({problem}); measure again with `lplab doctor --measure`"
        ) from None


def from_measurement(measured: Mapping[str, Any], whose: str) -> Accelerator:
    """A chip from the result of :func:`lplab.hardware.matmul_benchmark.measure`.

    The peak of a format is the best median over the matrix sizes: what the machine reaches, not the number of a data
    sheet. Real products can therefore reach its roofline. It has a memory bandwidth if that was measured.

    >>> table = {"processor": "a chip", "threads": 2, "date": "2026-11-21",
    ...          "rates": [{"format": "fp32", "size": 64, "tera": 0.1}, {"format": "fp32", "size": 99, "tera": 0.2}]}
    >>> from_measurement(table, "yours").peaks["fp32"]
    200000000000.0
    """
    source = f"{measured['processor']}, {measured['threads']} threads, {measured['date']}"
    numbers = {}
    for peak in PEAKS:
        teras = [float(row["tera"]) for row in measured["rates"] if row["format"] == peak]
        if teras:
            numbers[peak] = SourcedValue(max(teras) * 1e12, "measured", source)
    memory = measured.get("memory")
    if memory:
        numbers["memory_bytes_per_second"] = SourcedValue(float(memory["bytes_per_second"]), "measured", source)
    return Accelerator(
        name="mine",
        label=f"{whose} ({measured['processor']})",
        kind="CPU" if measured.get("device", "cpu") == "cpu" else "GPU",
        peaks={key: number.value for key, number in numbers.items() if key in PEAKS},
        memory_bytes_per_second=numbers["memory_bytes_per_second"].value if memory else None,
        numbers=numbers,
        note="rates that products reached, not peaks of a sheet",
    )
