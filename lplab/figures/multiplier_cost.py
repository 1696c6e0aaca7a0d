"""Area or energy of a multiply-add against the bits of the significand: where the quadratic law holds and stops."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import axes, style, traces
from lplab.figures.legend import entry, legend
from lplab.hardware import multiplier

QUANTITIES = {"energy": ("energy (pJ), 45 nm", 1e12), "area": ("area (µm²), 45 nm", 1.0)}
FORMATS = ("e2m1", "fp8_152", "hfp8_forward", "bf16", "dlfloat16", "fp16", "fp32")
_SHORT = {"e2m1": "E2M1", "fp8_152": "1-5-2", "hfp8_forward": "1-4-3", "bf16": "bf16", "fp16": "fp16", "fp32": "fp32"}


def multiplier_cost(
    quantity: str = "energy", accumulator: str = "fp32", *, title: str = "", height: int = 360
) -> go.Figure:
    """A multiply-add's cost against the bits of its factors' significand: multiplier alone, with the sum, and M² alone.

    Args:
        quantity: "energy" or "area".
        accumulator: format of the sum.
        title: the point that it makes; by default what hybrid FP8 saves beside FP16.
        height: in pixels.

    Raises:
        ValueError: an unknown quantity or format.

    >>> multiplier_cost("energy").layout.meta["title"]
    'Sums in fp32: from FP16 to 1-4-3 the multiplier saves 68 %, the whole 37 %'
    """
    if quantity not in QUANTITIES:
        raise ValueError(f"unknown quantity {quantity!r}; allowed: {', '.join(QUANTITIES)}")
    label, factor = QUANTITIES[quantity]
    macs = [multiplier.mac(name, accumulator) for name in FORMATS]
    x = np.array([multiplier.significand_bits(name) for name in FORMATS], dtype=np.float64)
    alone = factor * np.array([m.multiply_joules if quantity == "energy" else m.multiply_um2 for m in macs])
    both = factor * np.array([m.joules if quantity == "energy" else m.um2 for m in macs])
    m = np.geomspace(2, 24, 40)
    law = alone[-1] * (m / 24) ** 2
    saves = f"the multiplier saves {_saved_percent(alone)}, the whole {_saved_percent(both)}"
    text = title or f"Sums in {accumulator}: from FP16 to 1-4-3 {saves}"
    data = [
        traces.reference("M² alone", m, law, style.GREY, "dot"),
        _points("multiplier", x, alone, style.BLUE, "solid", "square-open", [""] * len(x)),
        _points("with its sum", x, both, style.BLUE, "dash", "square", [_SHORT.get(n, "1-6-9") for n in FORMATS]),
        _published(quantity, factor),
    ]
    told = ", ".join(
        f"{n} {a:.3g} alone and {b:.3g} with its sum" for n, a, b in zip(FORMATS, alone, both, strict=True)
    )
    return style.apply_style(
        style.figure(data, _layout(label, min(law.min(), alone.min()), both.max())),
        alt=f"{label}, of a multiplication: {told}. {text}.",
        title=text,
        subtitle=legend(
            entry(data[0]),
            entry(data[1], "multiplier, modelled"),
            entry(data[2]),
            entry(data[3], "published (Horowitz 2014)"),
        ),
        height=height,
    )


def _saved_percent(costs: np.ndarray) -> str:
    """What 1-4-3 saves beside FP16."""
    before, after = costs[FORMATS.index("fp16")], costs[FORMATS.index("hfp8_forward")]
    return f"{100 * (1 - after / before):.0f} %"


def _layout(label: str, least: float, most: float) -> dict[str, Any]:
    bits = np.array([2, 3, 4, 8, 10, 11, 24])
    title = "bits of the significand, hidden one included"
    low, high = float(np.log10(least) - 0.1), float(np.log10(most) + 0.25)
    return {
        "xaxis": axes.axis(np.log10(1.8), np.log10(28), title, type="log", **axes.ticks(bits, bits.astype(str))),
        "yaxis": axes.axis(low, high, label, type="log", dtick=1, exponentformat="none", separatethousands=True),
    }


def _points(
    name: str, x: np.ndarray, y: np.ndarray, colour: str, dash: str, symbol: str, texts: list[str]
) -> dict[str, Any]:
    order = np.argsort(x, kind="stable")
    places = np.array(["bottom center" if text == "1-6-9" else "top center" for text in texts])
    return traces.curve(
        name,
        x[order],
        y[order],
        traces.stroke(colour, 1.8, dash),
        traces.marker(symbol, 9, colour, 2),
        "{name}, modelled<br>%{x} bits  %{y:.3g}",
        mode="lines+markers+text",
        text=np.array(texts, dtype=str)[order],
        textposition=places[order],
        textfont={"size": style.NOTE},
    )


def _published(quantity: str, factor: float) -> dict[str, Any]:
    """Multiplications of the table: FP16 and FP32, through which the model goes, and INT8."""
    table = multiplier.operations()
    column = 0 if quantity == "energy" else 1
    result = [(11, "fp16_multiply"), (24, "fp32_multiply"), (8, "int8_multiply")]
    return traces.points(
        "published",
        np.array([m for m, _ in result], dtype=np.float64),
        factor * np.array([table[name][column] for _, name in result]),
        traces.provenance("published", 14),
        "%{customdata}, published<br>%{x} bits  %{y:.3g}",
        mode="markers+text",
        text=np.array(["", "", "INT8, an integer"], dtype=str),
        textposition="bottom center",
        textfont={"size": style.NOTE},
        customdata=np.array([name.replace("_", " ") for _, name in result], dtype=str),
    )
