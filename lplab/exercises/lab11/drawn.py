"""The student's functions in figures: the use of an array, layer by layer, and what chips sustain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lplab.exercises.notebook import Text
from lplab.exercises.yours import results_of

ROWS = COLUMNS = 128
NETWORKS = ("vgg16", "bert_base", "transformer_base", "lstm_lm", "resnet18", "gpt", "resnet50", "mobilenetv2")
CHIP, PRECISION, BATCH = "ibm-rapid-training", "hfp8_2019", 512


def draw_cycles(function: Callable[..., float]) -> Any:
    """A live figure of the share of an array that each product of two networks keeps busy, or a line of waiting.

    Args:
        function: takes m, n, k, rows and columns, and returns cycles.
    """
    from lplab import figures, widgets  # drawn in a notebook only
    from lplab.hardware import systolic, workloads

    names, sizes = [], []
    for network in ("resnet18", "mobilenetv2"):
        workload = workloads.get(network)
        found = [layer for layer in workload.layers if layer.has_product]
        names += [f"{workload.label}, {layer.name}" for layer in found]
        sizes += [(layer.m, layer.n, layer.k) for layer in found]
    m, n, k = np.array(sizes, dtype=np.float64).T
    try:
        taken = np.array(results_of(function, [(*size, ROWS, COLUMNS) for size in sizes]), dtype=np.float64)
    except (ValueError, TypeError) as problem:
        return Text(f"Here your {function.__name__} will be drawn beside the library's (now: {problem}).")
    library = systolic.utilization(m, n, k, ROWS, COLUMNS)
    with np.errstate(divide="ignore"):
        yours = m * n * k / (ROWS * COLUMNS * taken)
    along = "products of ResNet-18, then of MobileNetV2, one image at a time"
    title = f"An array of {ROWS} × {COLUMNS}"
    return widgets.LiveFigure(figures.shares(names, library, yours, name=title, what="cells at work", along=along))


def draw_sustained(function: Callable[..., Any]) -> Any:
    """A live figure of what RaPiD's training system sustains in eight networks, or a line of waiting.

    Args:
        function: takes operations, bytes, other seconds, peak and bandwidth; returns a rate and its share of the peak.
    """
    from lplab import figures, widgets  # drawn in a notebook only
    from lplab.hardware import accelerators, compute, workloads

    chip = accelerators.get(CHIP)
    peak, bandwidth = chip.peaks["fp8"], chip.memory_bytes_per_second
    names, calls, library = [], [], []
    for network in NETWORKS:
        times = compute.layer_times(network, CHIP, PRECISION, batch=BATCH)
        some = times.flops > 0
        others = times.step_seconds - float(times.part("products"))
        # products that stay in 16 bits run at half the rate: as if they had twice the operations
        work = times.flops[some] * (peak / np.broadcast_to(times.rates, times.flops.shape)[some])
        calls.append((work, times.nbytes[some], others, peak, bandwidth))
        names.append(workloads.get(network).label)
        library.append(float(work.sum()) / times.step_seconds / peak)
    try:
        yours = np.array([share for _, share in results_of(function, calls)], dtype=np.float64)
    except (ValueError, TypeError) as problem:
        return Text(f"Here your {function.__name__} will be drawn beside the library's (now: {problem}).")
    title = f"RaPiD, batch {BATCH}"
    fig = figures.shares(names, np.array(library), yours, name=title, what="share of the peak", band=(102 / 768, 588 / 768))
    return widgets.LiveFigure(fig)
