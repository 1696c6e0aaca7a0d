"""The student's own functions in lab 10's figures: messages that are run, buckets of every size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lplab.exercises.lab10.hiding import all_sent
from lplab.exercises.notebook import Text
from lplab.exercises.student_figures import results_of

RANKS = 6
SIZES = tuple(0.25 * 2.0 ** (k / 2) for k in range(20))  # MiB of a bucket


def draw_ring(function: Callable[..., Any]) -> Any:
    """A live figure of what each rank holds after each step of the student's messages, or a line that says what it waits for.

    Args:
        function: takes the number of ranks and returns rows (step, sender, receiver, part, adds).
    """
    from lplab import figures, widgets  # drawn in a notebook only

    try:
        (rows,) = results_of(function, [(RANKS,)])
        held = contributions([[int(value) for value in row] for row in rows], RANKS)
    except (ValueError, TypeError, IndexError) as problem:
        return Text(f"Here the messages of your {function.__name__} will be run (now: {problem}).")
    return widgets.LiveFigure(figures.ring_steps(held, messages=len(rows)))


def contributions(rows: list[list[int]], ranks: int) -> np.ndarray:
    """How many ranks' numbers each rank has in each part, before the first and after every step: [steps + 1, rank, part].

    >>> contributions([[0, 0, 1, 0, 1], [0, 1, 0, 1, 1]], 2)[-1].tolist()
    [[1, 2], [2, 1]]
    """
    held = np.broadcast_to(np.eye(ranks, dtype=int)[:, None, :], (ranks, ranks, ranks)).copy()
    counts = [(held > 0).sum(axis=2)]
    for step in sorted({row[0] for row in rows}):
        before = held.copy()
        for _, sender, receiver, part, adds in (row for row in rows if row[0] == step):
            held[receiver, part] = before[sender, part] + (before[receiver, part] if adds else 0)
        counts.append((held > 0).sum(axis=2))
    return np.array(counts)


def resnet_backward(gigabits: float = 10.0) -> tuple[list[float], list[float], float, float]:
    """Times and gradient bytes of ResNet-50's layers in the order of the backward pass, and of a ring of 64 V100: latency and bytes per second of a bucket's all-reduce."""
    from lplab.hardware import Cluster, simulate

    step = simulate(
        "resnet50", Cluster("v100", 64, f"{gigabits:g}Gb/s, 50us"), precision="fp16_mixed", utilization=0.5
    )
    backward = step.times.layer_backward[::-1, 0].tolist()
    sizes = step.design.traffic.payload_bytes.sum(axis=1)[::-1].tolist()
    return backward, sizes, 2 * 6 * 50e-6, gigabits * 1.25e8 / (2 * 63 / 64)


def draw_buckets(function: Callable[..., float], gigabits: float = 100.0) -> Any:
    """A live figure of the time until all is sent against the size of a bucket, the student's beside the library's.

    Args:
        function: takes backward times, sizes, bucket, latency and bandwidth, and returns seconds.
        gigabits: bandwidth of the link.
    """
    from lplab import figures, widgets  # drawn in a notebook only

    backward, sizes, latency, bandwidth = resnet_backward(gigabits)
    calls = [(backward, sizes, size * 2**20, latency, bandwidth) for size in SIZES]
    try:
        yours = np.array(results_of(function, calls), np.float64)
    except (ValueError, TypeError) as problem:
        return Text(f"Here your {function.__name__} will be drawn beside the library's (now: {problem}).")
    library = np.array([all_sent(*call) for call in calls])
    return widgets.LiveFigure(figures.bucket_times(SIZES, library, yours, backward_seconds=sum(backward)))
