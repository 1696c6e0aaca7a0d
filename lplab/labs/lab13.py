"""Lab 13, who shares a scale: its tables, its guided questions and the numbers of its text."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lplab import widgets
from lplab.exercises.lab13.rounding_fp4 import mxfp4_format
from lplab.figures import DataTable
from lplab.labs.folded import Folded
from lplab.labs.guided import GuidedExplorer, GuidedQuestion, guided
from lplab.number_text import decibels, number, percent, signed_percent
from lplab.quantizers import Hadamard
from lplab.widgets.explorers import scale_explorer as scales
from lplab.widgets.explorers.scale_explorer import COLUMN, DOWN, E4M3, FLOAT32, PRESETS, UP, WHOLE, ScaleState

EXAMPLE = (0.7, -0.1, 0.02, 3.5)  # a block of four numbers: that of the text and of exercise 13.1
OUTLIER = (8.0, *[0.5] * 15)  # a block of sixteen: that of the text about Hadamard
GRADIENT_MXFP4 = {"tensor": "gradient"} | PRESETS["MXFP4"]


# ---- the explorer and its questions ----------------------------------------------------------------------------------


def explorer() -> widgets.ScaleExplorer:
    """The explorer where the prediction asks: a gradient with one scale."""
    return widgets.ScaleExplorer(tensor="gradient")


def signal_to_noise(state: ScaleState) -> float:
    """Signal to noise of a state in dB."""
    return scales.result(state).decibels


def zeroed(state: ScaleState) -> float:
    """The share of what a state rounds that becomes zero."""
    return scales.result(state).zeroed


def _decibels(state: ScaleState, **changes: Any) -> str:
    return decibels(signal_to_noise(state.changed(**changes)))


def _who_survives(state: ScaleState) -> str:
    gradient = state.changed(tensor="gradient")
    weight, rows = zeroed(state), survivors(gradient)
    return (
        f"The weight has hardly any outliers, and {percent(weight)} of it becomes zero. Of the gradient it is {percent(zeroed(gradient))}: only its outliers "
        f"survive, and they gather in some rows. In one row {percent(rows.max())} survive, in the median row {percent(float(np.median(rows)))}."
    )


def survivors(state: ScaleState) -> np.ndarray:
    """The share of each row that does not become zero."""
    return np.mean(scales.result(state).rounded != 0, axis=1)


def _what_blocks_buy(state: ScaleState) -> str:
    whole = state.changed(shared=WHOLE, scale=FLOAT32)
    return (
        f"With one float32 scale for the whole tensor it was {_decibels(whole)}. Now a value takes {number(state.bits)} bits "
        f"instead of {number(round(whole.bits, 2))}, so the scales cost a quarter of a bit. "
        f"{percent(zeroed(state))} becomes zero instead of {percent(zeroed(whole))}. "
        "An outlier still makes its own block zero, but no other one."
    )


def _which_change_wins(state: ScaleState) -> str:
    mx = state.changed(**PRESETS["MXFP4"])
    return (
        f"NVFP4 keeps {_decibels(state)}, MXFP4 {_decibels(mx)}. Blocks of 16 alone bring MXFP4 to {_decibels(mx, shared='1×16')}, E4M3 scales alone to "
        f"{_decibels(mx, scale=E4M3)}. So the finer scale wins more than the smaller block. A power of two can be off by a factor of nearly two, an E4M3 number by 6 %."
    )


def changed_by_axis(state: ScaleState) -> float:
    """The share of the numbers that blocks along the other axis round to something else."""
    other = state.changed(axis=COLUMN if state.axis == scales.ROW else scales.ROW)
    return float(np.mean(scales.result(state).q != scales.result(other).q))


def _does_the_axis_matter(state: ScaleState) -> str:
    return (
        f"Signal to noise is nearly the same, {_decibels(state)} instead of {_decibels(state, axis=scales.ROW)}. But {percent(changed_by_axis(state))} of the numbers "
        "are rounded to another number. So one gradient becomes two different gradients, one for each of its two products."
    )


def _down_or_up(state: ScaleState) -> str:
    down = state.changed(scale=DOWN)
    clipped = [percent(float(scales.result(each).clipped.mean())) for each in (down, state)]
    return (
        f"For this gradient the two are nearly equal, {_decibels(down)} rounded down and {_decibels(state)} rounded up. "
        f"Rounded down, the scale clips {clipped[0]} of the numbers. Rounded up it clips {clipped[1]}, but "
        f"{percent(zeroed(state))} becomes zero. {_what_blocks_buy(down)}"
    )


def _down_or_up_is_true(state: ScaleState) -> bool:
    down = state.changed(scale=DOWN)
    wins = down.bits == 4.25 and signal_to_noise(down) > signal_to_noise(down.changed(shared=WHOLE, scale=FLOAT32)) + 5
    clips = [scales.result(each).clipped.any() for each in (down, state)]
    loses = clips == [True, False] and zeroed(state) > zeroed(down)
    return bool(wins and loses and abs(signal_to_noise(state) - signal_to_noise(down)) < 0.5)


QUESTIONS = (
    GuidedQuestion(
        "This is the gradient of your guess: all of its numbers share one scale. Choose the *weight* instead."
        " Which share of it becomes zero?",
        {"tensor": "weight"},
        _who_survives,
        lambda state: (
            zeroed(state.changed(tensor="gradient")) > 0.85 > 0.3 > zeroed(state)
            and (lambda rows: rows.max() > 4 * np.median(rows))(survivors(state.changed(tensor="gradient")))
        ),
        controls=("tensor",),
        figure="map",
        guess="%",
    ),
    GuidedQuestion(
        "Press *MXFP4* and choose the gradient again: 32 neighbours share a power of two, rounded down. Then "
        "choose *E8M0 up* for the scale, rounded up. Does it keep more of the signal than rounded down?",
        GRADIENT_MXFP4 | {"scale": UP},
        _down_or_up,
        _down_or_up_is_true,
        controls=("presets", "tensor", "scale"),
        figure="map",
        guess=("more", "as much", "less"),
    ),
    GuidedQuestion(
        "Press *NVFP4*. It has blocks of 16 instead of 32, and scales in E4M3 instead of powers of two. Which"
        " of the two changes wins more? Try each alone.",
        {"tensor": "gradient"} | PRESETS["NVFP4"],
        _which_change_wins,
        lambda state: (
            signal_to_noise(state.changed(**PRESETS["MXFP4"]).changed(scale=E4M3))
            > signal_to_noise(state.changed(**PRESETS["MXFP4"]).changed(shared="1×16")) + 1
        ),
        controls=("presets", "shared", "scale"),
        figure="curves",
        guess=("blocks of 16", "scales in E4M3"),
    ),
    GuidedQuestion(
        "Press *MXFP4* again and lay the *blocks along a column* instead of a row. Signal to noise stays "
        "nearly the same. Which share of the numbers is rounded to another number?",
        GRADIENT_MXFP4 | {"axis": COLUMN},
        _does_the_axis_matter,
        lambda state: (
            abs(signal_to_noise(state) - signal_to_noise(state.changed(axis=scales.ROW))) < 1
            and 0.2 < changed_by_axis(state) < 0.8
        ),
        controls=("presets", "axis"),
        figure="map",
        guess="%",
    ),
)
GUIDED = ((explorer, QUESTIONS),)


def guided_explorer() -> GuidedExplorer:
    """The explorer below its questions."""
    return guided(explorer(), QUESTIONS)


# ---- tables ----------------------------------------------------------------------------------------------------------


def four_numbers() -> DataTable:
    """The block of the text under two scales: divided, rounded, multiplied again."""
    x = np.array(EXAMPLE)
    columns: dict[str, Any] = {"number": list(EXAMPLE)}
    for name, rule in (("½", "floor"), ("1", "rceil")):
        scale = {"½": 0.5, "1": 1.0}[name]
        columns[f"divided by {name}"] = (x / scale).tolist()
        columns[f"becomes, scale {name}"] = (mxfp4_format(4, rule).quantize(x) + 0.0).tolist()
    return DataTable(columns, caption="Four numbers in E2M1, with two scales.", formats=dict.fromkeys(columns, "g"))


def what_you_saw() -> DataTable:
    """A gradient in five formats: bits a value, share that becomes zero, signal to noise."""
    states = {"E2M1, one scale": ScaleState(tensor="gradient", scale=FLOAT32)}
    states |= {name: ScaleState(tensor="gradient", **PRESETS[name]) for name in ("MXFP4", "NVFP4", "MXFP8", "DeepSeek")}
    return DataTable(
        {
            "format": list(states),
            "bits a value": [state.bits for state in states.values()],
            "becomes zero": [zeroed(state) for state in states.values()],
            "signal to noise (dB)": [signal_to_noise(state) for state in states.values()],
        },
        caption="The gradient of the explorer in five formats.",
        formats={"bits a value": ".2f", "becomes zero": percent, "signal to noise (dB)": ".1f"},
    )


def published() -> DataTable:
    """Who shares a scale in published formats, and the bits of a value with its share of that scale."""
    rows = (
        ("MXFP8 (2023)", "E4M3", "1×32", "E8M0 down"),
        ("MXFP4 (2023)", "E2M1", "1×32", "E8M0 down"),
        ("DeepSeek-V3, activations (2024)", "E4M3", "1×128", "float32"),
        ("DeepSeek-V3, weights (2024)", "E4M3", "128×128", "float32"),
        ("NVFP4 (2025)", "E2M1", "1×16", "E4M3"),
        ("NVFP4, weights in training (2025)", "E2M1", "16×16", "E4M3"),
    )
    names, elements, shared, _ = zip(*rows, strict=True)
    bits = [ScaleState(element=element, shared=size, scale=scale).bits for _, element, size, scale in rows]
    formats = [row[-1].partition(" ")[0] for row in rows]
    return DataTable(
        {"format": names, "element": elements, "share a scale": shared, "scale": formats, "bits a value": bits},
        caption="Published formats: who shares a scale, and what it costs.",
        formats={"bits a value": ".3f"},
    )


def hadamard_of_an_outlier() -> DataTable:
    """A block with an outlier in E2M1, as it is and transformed: the outlier and one of its fifteen neighbours."""
    x, transform = np.array(OUTLIER), Hadamard(16)
    y = np.asarray(transform.apply(x))
    plain, rounded = (mxfp4_format(16, "rceil").quantize(each) for each in (x, y))
    back = np.asarray(transform.invert(rounded))
    return DataTable(
        {
            "": ["the outlier", "each of 15 neighbours"],
            "number": [x[0], x[1]],
            "rounded": [plain[0], plain[1]],
            "transformed": [y[0], y[1]],
            "rounded then": [rounded[0], rounded[1]],
            "transformed back": [back[0], back[1]],
        },
        caption="A block of sixteen numbers, rounded as it is and after a Hadamard transform.",
        formats=dict.fromkeys(("number", "rounded", "transformed", "rounded then", "transformed back"), "g"),
    )


def hadamard_gains() -> DataTable:
    """What the transform brings three tensors in MXFP4 and in NVFP4, in dB."""
    states = {
        tensor: [ScaleState(tensor=tensor, **PRESETS[name]) for name in ("MXFP4", "NVFP4")] for tensor in scales.TENSORS
    }
    columns: dict[str, Any] = {"tensor": list(states)}
    for i, name in enumerate(("MXFP4", "NVFP4")):
        columns[f"{name} (dB)"] = [signal_to_noise(each[i]) for each in states.values()]
        columns[f"{name}, Hadamard"] = [signal_to_noise(each[i].changed(hadamard=True)) for each in states.values()]
    return DataTable(
        columns,
        caption="Signal to noise without and with a Hadamard transform of 16 numbers.",
        formats=dict.fromkeys(list(columns)[1:], ".1f"),
    )


def two_weights() -> tuple[float, float]:
    """The share of a trained weight that blocks along rows and blocks along columns round to different numbers, and tiles: 0."""
    state = ScaleState(**PRESETS["NVFP4"])
    return changed_by_axis(state), changed_by_axis(state.changed(shared="16×16"))


def _change_of_largest(rule: str) -> float:
    """By how much the largest magnitude of a block of the gradient changes in MXFP4, on average, as a share of itself."""
    blocks = scales.matrix("gradient").astype(np.float64).reshape(-1, 32)
    where = np.abs(blocks).argmax(1)[:, None]
    x, q = (np.take_along_axis(each, where, 1) for each in (blocks, mxfp4_format(32, rule).quantize(blocks)))
    return float(np.mean(q / x - 1))


def where_the_rules_part() -> tuple[float, float]:
    """Up to which multiple of a power of two both rules find one scale, and from which they change the number itself.

    The multiples are those of 1/64 from 1 to 2; each is the largest number of a block of its own.

    >>> where_the_rules_part()
    (1.5, 1.75)
    """
    multiples = np.arange(64, 128) / 64
    blocks = np.stack([multiples, np.zeros_like(multiples)], axis=1)
    down, up = (mxfp4_format(2, rule) for rule in ("floor", "rceil"))
    one_scale = (down.encode(blocks).scales == up.encode(blocks).scales).ravel()
    moved = (down.quantize(blocks) != up.quantize(blocks))[:, 0]
    return float(multiples[one_scale].max()), float(multiples[moved].min())


def facts() -> DataTable:
    """The other numbers that the text of the lab gives, each computed."""
    x = scales.matrix("gradient").astype(np.float64)
    largest, median = float(np.abs(x).max()), float(np.median(np.abs(x)))
    one_scale, moved = where_the_rules_part()
    blocks = np.abs(x).reshape(-1, 32).max(1)
    fractions = np.frexp(blocks[blocks > 0])[0]
    y = np.asarray(Hadamard(16).apply(np.array(OUTLIER)))
    mxfp4 = ScaleState(**GRADIENT_MXFP4)
    rows, tiles = two_weights()
    known = {
        "largest number of the gradient over the median": f"{largest / median:.0f}",
        "the median over a scale that makes 6 of the largest": f"{6 * median / largest:.3f}",
        "shape of the gradient": f"{x.shape[0]} × {x.shape[1]}",
        "numbers of E2M1": f"{len(set(scales.FORMATS['E2M1'].codebook().tolist()))}",
        "exponent of 3.5": f"{math.floor(math.log2(3.5))}",
        "blocks whose largest number is above 6 scales, rounded down": percent(float(np.mean(fractions > 0.75))),
        "most that the OCP rule cuts off": percent(1 - 6 / 8),
        "mean change of the largest number of a block, scale rounded down": signed_percent(
            _change_of_largest("floor"), 2
        ),
        "and rounded up": signed_percent(_change_of_largest("rceil"), 2),
        "largest multiple of a power of two at which both rules have one scale": f"{one_scale:g}",
        "smallest one at which the largest number becomes another": f"{moved:g}",
        "MXFP4, scale rounded up": decibels(signal_to_noise(mxfp4.changed(scale=scales.UP))),
        "MXFP4, scale rounded up, becomes zero": percent(zeroed(mxfp4.changed(scale=scales.UP))),
        "gradient in MXFP4: numbers that differ between blocks along rows and columns": percent(changed_by_axis(mxfp4)),
        "largest of the transformed block": f"{np.abs(y).max():g}",
        "weight in NVFP4: numbers that differ between blocks along rows and columns": percent(rows),
        "and in tiles of 16 × 16": percent(tiles),
        "weight in NVFP4": decibels(signal_to_noise(ScaleState(**PRESETS["NVFP4"]))),
        "weight in NVFP4, tiles of 16 × 16": decibels(
            signal_to_noise(ScaleState(**PRESETS["NVFP4"]).changed(shared="16×16"))
        ),
    }
    return DataTable({"what": list(known), "value": list(known.values())}, caption="Numbers of the text.")


def checked_numbers() -> Folded:
    """The numbers that answer the prediction or stand in the text, for the tests."""
    return Folded(what_you_saw(), hadamard_gains(), facts())
