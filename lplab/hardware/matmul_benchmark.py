"""Measured speed of matrix products in the number formats of a processor.

``python -m lplab.hardware.matmul_benchmark --device cpu --out cpu.json`` measures and stores the table. Data sheets
state peaks; this is what PyTorch reaches with products that fill the chip: median and quartiles.

This module needs PyTorch.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from lplab.checks import check_int
from lplab.hardware.memory_bandwidth import LENGTH, measure_memory
from lplab.hardware.processor import processor

SIZES = {"cpu": (1024, 2048, 4096), "cuda": (4096, 8192, 16384)}
MIN_SECONDS = 0.2  # of a repetition, which multiplies several times
EXTENSIONS = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "avx512_fp16", "amx_bf16", "amx_int8", "asimd", "bf16")
METHOD = (
    "C = A·B of square matrices of normal numbers (integers −127 … 127 for int8) through torch.matmul, torch._int_mm "
    "(int8, sums in int32) or torch._scaled_mm (fp8 1-4-3, bfloat16 out); 2·n³ operations; after warming up, median "
    "and quartiles of the repetitions, each long enough for the clock"
)
Multiply = Callable[[], Any]


@dataclass(frozen=True)
class MatmulSpeed:
    """The speed of products in one format and size.

    Attributes:
        format: "fp32", "tf32", "fp16", "bf16", "fp8" or "int8".
        size: n of n × n matrices.
        repeats: number of measurements.
        tera: 10^12 operations (multiplications and additions) a second, the median.
        low, high: the quartiles of the same.
    """

    format: str
    size: int
    repeats: int
    tera: float
    low: float
    high: float


def _floats(dtype: torch.dtype, size: int, device: str) -> Multiply:
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    out = torch.empty_like(a)
    return lambda: torch.matmul(a, b, out=out)


def _tf32(size: int, device: str) -> Multiply:
    multiply = _floats(torch.float32, size, device)

    def with_tf32() -> None:
        before, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, True
        try:
            multiply()
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before

    return with_tf32


def _int8(size: int, device: str) -> Multiply:
    a, b = (torch.randint(-127, 128, (size, size), device=device, dtype=torch.int8) for _ in range(2))
    return lambda: torch._int_mm(a, b)


def _fp8(size: int, device: str) -> Multiply:
    a, b = (torch.randn(size, size, device=device).to(torch.float8_e4m3fn) for _ in range(2))
    one = torch.ones((), device=device)
    return lambda: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


PRODUCTS: dict[str, dict[str, Callable[[int, str], Multiply]]] = {
    "cpu": {
        "fp32": lambda size, device: _floats(torch.float32, size, device),
        "bf16": lambda size, device: _floats(torch.bfloat16, size, device),
        "int8": _int8,
    },
    "cuda": {
        "fp32": lambda size, device: _floats(torch.float32, size, device),
        "tf32": _tf32,
        "fp16": lambda size, device: _floats(torch.float16, size, device),
        "bf16": lambda size, device: _floats(torch.bfloat16, size, device),
        "fp8": _fp8,
        "int8": _int8,
    },
}
"""What is measured on which device; a new format is a new row."""


def measure(
    device: str = "cpu",
    *,
    formats: tuple[str, ...] | None = None,
    sizes: tuple[int, ...] | None = None,
    repeats: int = 15,
    threads: int | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """Measure the speed of matrix products, with the device, the method and the date.

    Args:
        device: "cpu" or "cuda".
        formats, sizes: what to multiply; by default all formats of the device, at sizes that fill it.
        repeats: measurements of each, 3 or more.
        threads: of the CPU; by default those of PyTorch.
        progress: print each result at once.

    Returns:
        "device", "processor", "extensions", "threads", "torch", "python", "date", "load_before" (processes that
        used a core in the minute before: above 0.5 other work ran beside the measurement), "method", "rates" (a list of
        :class:`MatmulSpeed` as dictionaries) and "left_out" (a sentence for each format that this processor or PyTorch
        cannot multiply); of a CPU also "memory" (:func:`lplab.hardware.memory_bandwidth.measure_memory`).

    Raises:
        ValueError: unknown names, no GPU, or too few repeats.

    >>> table = measure("cpu", formats=("fp32",), sizes=(64,), repeats=3)
    >>> table["rates"][0]["tera"] > 0, table["left_out"]
    (True, {})
    """
    formats, sizes = _checked(device, formats, sizes)
    check_int("repeats", repeats, 3, 10**6)
    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(check_int("threads", threads, 1, 4096))
    about = _about(device)
    try:
        speeds, left_out = _measure_all(device, formats, sizes, repeats, progress)
        memory = measure_memory(length=LENGTH if max(sizes) >= 1024 else 10**5) if device == "cpu" else None
    finally:
        torch.set_num_threads(before)
    table = {**about, "method": METHOD, "rates": [asdict(speed) for speed in speeds], "left_out": left_out}
    return table | ({"memory": memory} if memory else {})


def _checked(device: str, formats: Any, sizes: Any) -> tuple[tuple[str, ...], tuple[int, ...]]:
    if device not in PRODUCTS:
        raise ValueError(f"device must be {' or '.join(PRODUCTS)}, got {device!r}")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("PyTorch finds no CUDA device; pass device='cpu'")
    formats = tuple(PRODUCTS[device]) if formats is None else tuple(formats)
    if unknown := [name for name in formats if name not in PRODUCTS[device]]:
        raise ValueError(f"unknown format {unknown[0]!r} on {device}; allowed: {', '.join(PRODUCTS[device])}")
    sizes = SIZES[device] if sizes is None else tuple(sizes)
    return formats, tuple(check_int("size", size, 32, 65536) for size in sizes)


def _measure_all(
    device: str, formats: tuple[str, ...], sizes: tuple[int, ...], repeats: int, progress: bool
) -> tuple[list[MatmulSpeed], dict[str, str]]:
    """The speeds of all formats and sizes; the formats that cannot be multiplied here, with the reason."""
    speeds, left_out = [], {}
    for name in formats:
        for size in sizes:
            try:
                speeds.append(_measure_one(name, PRODUCTS[device][name](size, device), size, device, repeats))
            except (RuntimeError, NotImplementedError) as reason:
                left_out[name] = str(reason).strip().splitlines()[0]
                break
            if progress:
                print(f"  {name:5} {size:6}  {speeds[-1].tera:9.3f} Tera-operations/s", file=sys.stderr, flush=True)
    return speeds, left_out


def _measure_one(name: str, multiply: Multiply, size: int, device: str, repeats: int) -> MatmulSpeed:
    """Warm up, find how many products fill a repetition, measure."""
    seconds = min(_seconds(multiply, 1, device) for _ in range(3))
    count = max(1, round(MIN_SECONDS / max(seconds, 1e-6))) if repeats > 3 else 1
    took = [_seconds(multiply, count, device) / count for _ in range(repeats)]
    low, middle, high = (2 * size**3 / part / 1e12 for part in reversed(statistics.quantiles(took, n=4)))
    return MatmulSpeed(name, size, repeats, middle, low, high)


def _seconds(multiply: Multiply, count: int, device: str) -> float:
    """Seconds of ``count`` products; on a GPU until the last one is done."""
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        multiply()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def _about(device: str) -> dict[str, Any]:
    name, flags = processor()
    return {
        "device": device,
        "processor": torch.cuda.get_device_name() if device == "cuda" else name,
        "extensions": [] if device == "cuda" else [extension for extension in EXTENSIONS if extension in flags],
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "date": datetime.now(UTC).date().isoformat(),
        "load_before": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def main(arguments: list[str] | None = None) -> int:
    """Measure and store."""
    parser = argparse.ArgumentParser(
        prog="python -m lplab.hardware.matmul_benchmark",
        description="Measure the speed of matrix products. Example: --device cpu --out data/measured/cpu.json",
    )
    parser.add_argument("--device", choices=list(PRODUCTS), default="cpu")
    parser.add_argument("--sizes", type=int, nargs="+", metavar="N", help="n of n × n matrices")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, help="of the CPU")
    parser.add_argument("--out", type=Path, help="write JSON there; else it is printed")
    chosen = parser.parse_args(arguments)
    sizes = tuple(chosen.sizes) if chosen.sizes else None
    try:
        table = measure(chosen.device, sizes=sizes, repeats=chosen.repeats, threads=chosen.threads, progress=True)
    except ValueError as problem:
        parser.error(str(problem))
    text = json.dumps(table, indent=1, ensure_ascii=False) + "\n"
    if chosen.out is None:
        print(text, end="")
    else:
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        chosen.out.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
