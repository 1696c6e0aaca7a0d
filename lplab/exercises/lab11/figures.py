"""The student's functions in figures: utilization of an array by layer, and sustained operations per second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lplab.exercises.notebook import Text
from lplab.exercises.student_figures import results_of

ROWS = COLUMNS = 128
PUBLISHED = (102 / 768, 588 / 768)  # Venkataramani et al. 2021


def draw_cycles(function: Callable[..., float]) -> Any:
    """A live figure of the share of an array that each product of two networks keeps busy, or a line that says what it waits for.

    Args:
        function: takes m, n, k, rows and columns, and returns cycles.
    """
    from lplab import figures, widgets  # drawn in a notebook only
    from lplab.hardware import systolic, workloads

    names: list[str] = []
    sizes, begins = [], {}
    for network in ("resnet18", "mobilenetv2"):
        workload = workloads.get(network)
        begins[len(names)] = workload.label
        layers = [layer for layer in workload.layers if layer.has_product]
        names += [f"{workload.label}, {layer.name}" for layer in layers]
        sizes += [(layer.m, layer.n, layer.k) for layer in layers]
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
    fig = figures.shares(names, library, yours, name=title, what="cells at work", along=along, begins=begins)
    return widgets.LiveFigure(fig)


def draw_sustained(function: Callable[..., Any]) -> Any:
    """A live figure of what RaPiD's training system sustains in the networks of the claim, or a line that says what it waits for.

    The function gets operations as if every one ran in 8 bits on full arrays: one at half the speed, or on half of the
    cells, counts as two. Of the share that it returns, only operations that were asked for are shown.

    Args:
        function: takes operations, bytes, other seconds, peak and bandwidth; returns operations per second and their share of the peak.
    """
    from lplab import figures, widgets  # drawn in a notebook only
    from lplab.claims.papers.rapid_2021 import BATCH, NETWORKS, TRAINING
    from lplab.hardware import accelerators, compute

    chip = accelerators.get(TRAINING)
    peak, bandwidth = chip.peaks["fp8"], chip.memory_bytes_per_second
    networks = [compute.layer_times(name, TRAINING, "hfp8_2019", BATCH, utilization="array") for name in NETWORKS]
    networks.sort(key=lambda times: -times.share_of_peak)
    calls, real = [], []
    for times in networks:
        some = times.flops > 0
        work, others = times.compute_seconds[some] * peak, times.step_seconds - float(times.part("products"))
        calls.append((work, times.nbytes[some], others, peak, bandwidth))
        real.append(float(times.flops.sum() / work.sum()))
    try:
        yours = np.array([share for _, share in results_of(function, calls)], dtype=np.float64) * real
    except (ValueError, TypeError) as problem:
        return Text(f"Here your {function.__name__} will be drawn beside the library's (now: {problem}).")
    names, library = [times.workload.label for times in networks], np.array([times.share_of_peak for times in networks])
    title, what = f"RaPiD, batch {BATCH}", "share of the peak"
    return widgets.LiveFigure(figures.shares(names, library, yours, name=title, what=what, band=PUBLISHED))
