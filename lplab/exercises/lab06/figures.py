"""The student's functions in the lab's figures: biases of all tensors, scales over a training, batch-norm statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lplab import datasets, quantizers
from lplab.exercises.lab06.delayed_scales import library_scales
from lplab.exercises.notebook import Text
from lplab.exercises.student_figures import results_of
from lplab.formats import get
from lplab.recordings import gradient_maxima

MODEL, STEP = "transformer", 1000
GROUPS = {"weight": "weights", "activation": "activations", "gradient": "gradients"}


def draw_biases(function: Callable[..., Any]) -> Any:
    """A live figure: the format 1-4-3 with the student's bias for every tensor of the trained Transformer.

    Args:
        function: takes an array, exponent bits and mantissa bits; returns the bias and the share that becomes zero.
    """
    from lplab import figures, widgets  # drawn in a notebook only
    from lplab.widgets.explorers.plane_explorer import label_of

    stored, fmt = datasets.captured(), get("hfp8_forward")
    names = [name for role in GROUPS for name in stored.select(MODEL, STEP, role=role)]
    try:
        results = results_of(function, [(stored[name], 4, 3) for name in names])
        biases = [int(each[0]) for each in results]
        if not all(-100 <= bias <= 100 for bias in biases):
            raise ValueError("its biases are beyond −100 to 100")
    except (ValueError, TypeError, IndexError) as problem:
        return Text(f"Here your {function.__name__} will place the window of 1-4-3 over 19 tensors (now: {problem}).")
    rows, same = [], 0
    for name, bias in zip(names, biases, strict=True):
        _, _, layer, role = name.split("/")
        shift = bias - int(fmt.bias)
        rows.append(figures.tensor_row(stored[name], fmt, label=label_of(layer), group=GROUPS[role], shift=shift))
        same += 2.0**-shift == quantizers.Quantizer(fmt, quantizers.Amax(power_of_two=True)).scale(stored[name])
    sqnr = sorted(row.numbers.sqnr_db for row in rows)
    title = f"1-4-3, a bias for each tensor: {sqnr[0]:.0f} to {sqnr[-1]:.0f} dB; {same} of {len(rows)} as the library"
    return widgets.LiveFigure(
        figures.range_precision(rows, fmt, chosen=names.index(_GRADIENT), name="1-4-3 with your biases", title=title)
    )


_GRADIENT = "transformer/step1000/blocks.0.attention.qkv/gradient"


def draw_delayed(
    function: Callable[..., Any],
    length: int = 16,
    margin: int = 0,
    layer: str = "blocks.0.attention.qkv",
    format: str = "e4m3fn",
) -> Any:
    """A live figure: what the student's delayed scales can hold in 400 recorded steps, beside the library's.

    Args:
        function: takes largest magnitudes, the length of the history, the largest number and the margin.
        length: of the history.
        margin: octaves of headroom.
        layer: a layer of `lplab.recordings.gradient_maxima`.
        format: whose largest number counts.
    """
    from lplab import figures, widgets  # drawn in a notebook only

    amax = gradient_maxima().of(layer).astype(np.float64)
    largest = get(format).max
    try:
        scales = np.asarray(results_of(function, [(amax, length, largest, margin)])[0], dtype=np.float64)
        if scales.shape != amax.shape:
            raise ValueError(f"it returns {scales.size} scales for {amax.size} steps")
    except (ValueError, TypeError) as problem:
        return Text(f"Here your {function.__name__} will be drawn over 400 steps of a training (now: {problem}).")
    ends = library_scales(amax, length, format, margin) * largest
    return widgets.LiveFigure(figures.delayed_ranges(amax, ends, scales * largest))


def delayed_table(
    lengths: tuple[int, ...], margins: tuple[int, ...], layer: str = "blocks.0.attention.qkv", format: str = "e4m3fn"
) -> list[tuple[int, int, int, float, float]]:
    """What delayed scaling does in 400 recorded steps, for each history and margin.

    Returns:
        length, margin, how many steps are clipped, how many octaves the largest of them lies beyond the end (0 where
        none is), and the octaves between the largest magnitude and the end of the range, the mean over all other steps.

    >>> [row[:3] for row in delayed_table((1, 64), (0,))]
    [(1, 0, 205), (64, 0, 9)]
    """
    amax = gradient_maxima().of(layer).astype(np.float64)
    table = []
    for length in lengths:
        for margin in margins:
            ends = library_scales(amax, length, format, margin) * get(format).max
            headroom = np.log2(ends / amax)
            fits = amax <= ends
            table.append((length, margin, int((~fits).sum()), float(max(0, -headroom.min())), float(headroom[fits].mean())))
    return table


def draw_retuned(function: Callable[..., Any]) -> Any:
    """A live figure: a small network in several formats, its batch norms tuned by the library and by the student.

    Args:
        function: takes a list of batches [n, channels, height, width]; returns means and variances.

    Raises:
        ImportError: PyTorch is missing.
    """
    from lplab.exercises.lab06.retuned_net import draw  # needs PyTorch

    return draw(function)
