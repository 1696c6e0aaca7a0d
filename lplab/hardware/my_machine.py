"""The machine in front of you as a chip: what ``lplab doctor --measure`` measured, or else what lplab was made on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from lplab.hardware import tables
from lplab.hardware.accelerators import PEAKS, Accelerator
from lplab.hardware.graded import Number

T = TypeVar("T")
PRODUCT_BYTES = {  # of two operands and a result, as lplab.training.gemm_rates multiplies them
    "fp32": 4 + 4 + 4,
    "tf32": 4 + 4 + 4,
    "fp16": 2 + 2 + 2,
    "bf16": 2 + 2 + 2,
    "fp8": 1 + 1 + 2,  # written in bfloat16
    "int8": 1 + 1 + 4,  # summed in 32 bits
}


def stored_at() -> Path:
    """Where your measurement is kept: LPLAB_MACHINE, or machine.json in the user's data folder."""
    if place := os.environ.get("LPLAB_MACHINE"):
        return Path(place)
    try:
        import platformdirs  # of the extra "course"
    except ImportError:
        return Path.home() / ".lplab" / "machine.json"
    return platformdirs.user_data_path("lplab", appauthor=False) / "machine.json"


def made_on() -> Path:
    """The measurement that comes with lplab."""
    return tables.folder().parent / "measured" / "cpu.json"


def load_mine() -> Accelerator:
    """The measured machine as an :class:`~lplab.hardware.accelerators.Accelerator`; its label says whose it is.

    Raises:
        ValueError: your file is damaged; the message says how to make a new one.

    >>> load_mine().name, load_mine().grade("fp32")
    ('mine', 'measured')
    """
    whose = "your machine" if stored_at().is_file() else "the machine lplab was made on"
    return _read(lambda measured: from_measurement(measured, whose))


def measured_products() -> list[tuple[str, float, float]]:
    """The measured products one by one: name, operations per byte, operations a second.

    A product of n × n matrices does 2·n³ operations; its operands are read and its result is written once.

    Raises:
        ValueError: your file is damaged, as :func:`load_mine` says it.

    >>> name, intensity, rate = measured_products()[0]
    >>> name, round(intensity, 1)
    ('fp32, 1,024 × 1,024', 170.7)
    """
    return _read(lambda measured: [_product(rate) for rate in measured["rates"]])


def _product(rate: Mapping[str, Any]) -> tuple[str, float, float]:
    n, name = int(rate["size"]), rate["format"]
    return f"{name}, {n:,} × {n:,}", 2 * n**3 / (PRODUCT_BYTES[name] * n**2), float(rate["tera"]) * 1e12


def _read(use: Callable[[Any], T]) -> T:
    """What ``use`` makes of your measurement, or of that which comes with lplab; ValueError if yours is damaged."""
    path = stored_at()
    if not path.is_file():
        return use(json.loads(made_on().read_text("utf-8")))
    try:
        return use(json.loads(path.read_text("utf-8")))
    except (KeyError, TypeError, ValueError) as problem:
        raise ValueError(
            f"{path} holds no measurement ({problem}); measure again with `lplab doctor --measure`"
        ) from None


def from_measurement(measured: Mapping[str, Any], whose: str) -> Accelerator:
    """A chip from the table that :func:`lplab.training.gemm_rates.measure` gives, with memory if that was measured.

    The rate of a format is the best median over the sizes of matrices: what the machine reaches, not what a sheet
    promises. Its roofline is therefore one that real products can touch.

    >>> table = {"processor": "a chip", "threads": 2, "date": "2026-11-21",
    ...          "rates": [{"format": "fp32", "size": 64, "tera": 0.1}, {"format": "fp32", "size": 99, "tera": 0.2}]}
    >>> from_measurement(table, "yours").peaks["fp32"]
    200000000000.0
    """
    source = f"{measured['processor']}, {measured['threads']} threads, {measured['date']}"
    numbers = {}
    for peak in PEAKS:
        teras = [float(rate["tera"]) for rate in measured["rates"] if rate["format"] == peak]
        if teras:
            numbers[peak] = Number(max(teras) * 1e12, "measured", source)
    memory = measured.get("memory")
    if memory:
        numbers["memory_bytes_per_second"] = Number(float(memory["bytes_per_second"]), "measured", source)
    return Accelerator(
        name="mine",
        label=f"{whose} ({measured['processor']})",
        kind="CPU" if measured.get("device", "cpu") == "cpu" else "GPU",
        peaks={key: number.value for key, number in numbers.items() if key in PEAKS},
        memory_bytes_per_second=numbers["memory_bytes_per_second"].value if memory else None,
        numbers=numbers,
        note="rates that products reached, not peaks of a sheet",
    )
