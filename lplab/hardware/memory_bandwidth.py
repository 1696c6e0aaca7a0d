"""Measured memory bandwidth of this machine: bytes per second of a sum of two long vectors.

This module needs PyTorch.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch

from lplab.checks import check_int

LENGTH = 2**26  # float32 numbers, 256 MiB: three such vectors fit in no cache
METHOD = (
    "c = a + b of float32 vectors through torch.add into a vector that is there; 12 bytes for each element, as two are "
    "read and one is written; median and quartiles of the repetitions, after one that is not counted"
)


def measure_memory(*, length: int = LENGTH, repeats: int = 9) -> dict[str, Any]:
    """Measure the memory bandwidth that a program reaches on this machine.

    Args:
        length: elements of each of three float32 vectors; together they should be several times the caches.
        repeats: measurements, 3 or more.

    Returns:
        "bytes_per_second" (the median), "low" and "high" (quartiles), "megabytes" (of a vector), "repeats", "method".

    >>> measure_memory(length=1000, repeats=3)["bytes_per_second"] > 0
    True
    """
    check_int("length", length, 100, 2**33)
    check_int("repeats", repeats, 3, 10**6)
    a, b = (torch.full((length,), value, dtype=torch.float32) for value in (1.0, 2.0))
    c = torch.zeros_like(a)
    took = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        torch.add(a, b, out=c)
        took.append(time.perf_counter() - start)
    low, middle, high = (12 * length / seconds for seconds in reversed(statistics.quantiles(took[1:], n=4)))
    return {
        "bytes_per_second": middle,
        "low": low,
        "high": high,
        "megabytes": round(4 * length / 1e6, 1),
        "repeats": repeats,
        "method": METHOD,
    }
