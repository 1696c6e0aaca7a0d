"""Range and precision: what windows formats open, and which tensors of a network lie in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.figures import axes, style, traces
from lplab.figures.legend import legend
from lplab.figures.precision import OCTAVES, ROUNDING, TensorRow, precision_of
from lplab.figures.statistics import as_format, name_of
from lplab.figures.window import window

TOP_BITS = 5.6  # of the precision axis, at least: formats of eight bits share it, and one of sixteen bits needs more
_SPLIT = 0.70, 0.655  # of the height: the precision above the first, the tensors below the second
_WORTH_SAYING = 0.01  # the smallest share of lost elements that titles name
_ROW, _HEAD = 15, 216  # pixels of a row; of all that is not rows
_FAINT = "rgba(127,127,127,.30)"
_SHADES = (style.BLUE, "■", "kept"), (style.VERMILION, "■", "lost")
ROWS_LEGEND = legend(*_SHADES, (style.GREY, "■", "the window"), (style.GREY, "□", "the chosen tensor"))  # rows alone
_COLOURS = [[0, "rgb(213,94,0)"], [0.5, "rgba(213,94,0,0)"], [0.5, "rgba(0,114,178,0)"], [1, "rgb(0,114,178)"]]


def range_precision(
    rows: Sequence[TensorRow], fmt: Any, others: Sequence[Any] = (), *, chosen: int = 0, name: str = "", title: str = ""
) -> go.Figure:
    """Precision of a format over magnitude, and below it the tensors of a network, each in the format's window.

    Above, a format is a plateau: as high as its bits of precision, from the smallest normal number to the largest, with
    a staircase of subnormals. The grey cloud is the chosen tensor. Below, each row is a tensor: where its elements lie,
    in blue what survives, in vermilion what is lost. Above each group stands what its median row keeps and loses.

    Args:
        rows: the tensors, those of a group together.
        fmt: a binary floating-point format or its name.
        others: formats to compare with, in grey.
        chosen: the row that is shown above.
        name: of the format, for title and text; by default its own.
        title: the point that it makes; by default what is lost in the median row of each group or, where that is less
            than 1 %, the signal to noise.

    Raises:
        ValueError: no rows, a row that does not exist, or a format that is not binary floating point.

    >>> from lplab.figures import tensor_row
    >>> row = tensor_row(np.array([1.1, 2.5, 2.0**-20]), "e4m3fn", label="x", group="weights")
    >>> range_precision([row], "e4m3fn").layout.meta["title"]
    'e4m3fn loses: weights 33 %'
    """
    if not rows:
        raise ValueError("at least one row is needed")
    if not 0 <= chosen < len(rows):
        raise ValueError(f"chosen must be a row from 0 to {len(rows) - 1}, got {chosen}")
    fmt, others = as_format(fmt), [as_format(other) for other in others]
    name = name or name_of(fmt)
    places = _places(rows)
    text = title or _title(name, rows)
    data = [*_plateaus(fmt, others, rows[chosen]), *_clouds(rows, places), *_bands(rows, places, fmt)]
    entries = [*_SHADES, (style.GREY, "■", "the chosen tensor")]
    entries += [(style.GREY, "╍", "another format")] if others else []
    return style.apply_style(
        style.figure([*data, *_texts(rows, places)], _layout(rows, places, chosen, _top_bits(fmt, others))),
        alt=_alt(name, rows, chosen),
        title=text,
        subtitle=legend(*entries),
        height=_HEAD + round(_ROW * (max(places) + 2)),
        l=118,
        r=122,
        t=60,
    )


def _places(rows: Sequence[TensorRow]) -> list[int]:
    """The line of each row: a group begins with a line for its name."""
    places: list[int] = []
    for i, row in enumerate(rows):
        begins = i == 0 or rows[i - 1].group != row.group
        places.append((places[-1] if places else -1) + 1 + begins)
    return places


def _groups(rows: Sequence[TensorRow]) -> list[str]:
    return list(dict.fromkeys(row.group for row in rows))


def group_medians(rows: Sequence[TensorRow], group: str) -> tuple[float, float]:
    """Signal to noise in dB, and the share of the elements that is lost: the medians over the rows of a group."""
    numbers = [row.numbers for row in rows if row.group == group]
    lost = float(np.median([n.flushed + n.saturated for n in numbers]))
    return float(np.median([n.sqnr_db for n in numbers])), lost


def _title(name: str, rows: Sequence[TensorRow]) -> str:
    """Short enough for a narrow page with three groups."""
    medians = {group: group_medians(rows, group) for group in _groups(rows)}
    if max(lost for _, lost in medians.values()) >= _WORTH_SAYING:
        return f"{name} loses: " + ", ".join(f"{group} {100 * lost:.0f} %" for group, (_, lost) in medians.items())
    return f"{name}: " + ", ".join(f"{group} {number_text.decibels(db, 0)}" for group, (db, _) in medians.items())


def _summary(group: str, rows: Sequence[TensorRow]) -> str:
    """The median row of a group as text."""
    error, lost = group_medians(rows, group)
    text = f"{group} {number_text.decibels(error, digits=0)}"
    return text + (f", {100 * lost:.0f} % lost" if lost >= _WORTH_SAYING else "")


def _plateaus(fmt: Any, others: Sequence[Any], row: TensorRow) -> list[dict[str, Any]]:
    """The panel above: the cloud of the chosen tensor, the other formats, the format itself."""
    share = row.kept + row.lost
    cloud = np.repeat(0.95 * _top_bits(fmt, others) * share / max(float(share.max(initial=0)), 1e-9), 2)
    octaves = np.arange(OCTAVES[0], OCTAVES[1] + 1, dtype=np.float64)
    gap = np.array([np.nan])
    x, bits = zip(*([precision_of(other) for other in others] or [(gap, gap)]), strict=True)
    own_x, own_bits = precision_of(fmt)
    faint, filled = traces.stroke(_FAINT, 0.5), {"fill": "tozeroy", "fillcolor": style.NORMAL_RANGE}
    others_look = traces.stroke(style.GREY, 1.4, "dash", shape="hv")
    own_look = traces.stroke(style.BLUE, 2.6, "solid", shape="hv")
    hover = "{name}<br>from 2^%{x:.4g}<br>bits of precision  %{y:.0f}"
    return [
        traces.line("the chosen tensor", np.repeat(octaves, 2)[1:-1], cloud, faint, fill="tozeroy", fillcolor=_FAINT),
        traces.line("other formats", traces.joined(x), traces.joined(bits), others_look, hover),
        traces.line("the format", own_x - row.shift, own_bits, own_look, hover, **filled),
        _names_of(others),
    ]


def _top_bits(fmt: Any, others: Sequence[Any]) -> float:
    """The upper end of the precision axis: above every format that is drawn."""
    return max([TOP_BITS, *(float(precision_of(each)[1].max()) + 0.6 for each in (fmt, *others))])


def _names_of(others: Sequence[Any]) -> dict[str, Any]:
    """The names of the other formats, right of their plateaus, or above where another plateau goes on."""
    ends = [(float(x[-1]), float(bits.max())) for x, bits in map(precision_of, others)]
    x, y, text, places = [], [], [], []
    for other, (end, bits) in zip(others, ends, strict=True):
        goes_on = any(bits == b and end < e for e, b in ends)
        x.append(end - 0.3 if goes_on else end + 0.3)
        y.append(bits + 0.3 if goes_on else bits - 0.3)
        text.append(name_of(other))
        places.append("middle left" if goes_on else "middle right")
    where = np.array(places, dtype=str)
    return traces.words("names of the formats", np.array(x), np.array(y), text, where, cliponaxis=False)


def _clouds(rows: Sequence[TensorRow], places: list[int]) -> list[dict[str, Any]]:
    """A heat map over rows and octaves, as dark as the share of elements: blue what is kept, vermilion what is lost."""
    octaves = np.arange(*OCTAVES)
    spans = [f"{number_text.power(k)} … {number_text.power(k + 1)}" for k in octaves.tolist()]
    shape = (max(places) + 1, len(octaves))
    shade, shares = np.zeros(shape), np.zeros(shape)
    hover = np.full(shape, "", dtype="U80")
    for place, row in zip(places, rows, strict=True):
        share = row.kept + row.lost
        dark = np.where(share > 0, 0.22 + 0.78 * np.sqrt(share / max(float(share.max()), 1e-9)), 0)
        shade[place] = np.where(row.kept >= row.lost, dark, -dark)
        shares[place] = share
        hover[place] = [f"{row.group}: {row.label}<br>{span}" for span in spans]
    trace_style = {"colorscale": _COLOURS, "zmin": -1, "zmax": 1, "showscale": False, "ygap": 4}
    trace_style["meta"] = {"phone": {"ygap": 15}}  # rows are higher there, with their names above them
    return [
        {
            "type": "heatmap",
            "name": "elements",
            "x": octaves + 0.5,
            "y": np.arange(shape[0]),
            "yaxis": "y2",
            "z": shade.round(3),
            "customdata": shares.round(3),  # the tensor's alone: a control of the format does not send it again
            "hovertext": hover,
            "hovertemplate": "%{hovertext}<br>share  %{customdata:.3g} %<extra></extra>",
            **trace_style,
        }
    ]


def _bands(rows: Sequence[TensorRow], places: list[int], fmt: Any) -> list[dict[str, Any]]:
    """The window of the format in every row: from the smallest survivor to the largest, the normal numbers marked."""
    edges = window(fmt, ROUNDING)
    ends = {"window": (edges.flush, edges.magnitude), "normal numbers": (edges.normal, edges.magnitude)}
    look, y = traces.stroke("rgba(127,127,127,.16)", _ROW - 3), np.repeat(places, 3) + 0.0
    result = []
    for name, (low, high) in ends.items():
        x = [[math.log2(low) - row.shift, math.log2(high) - row.shift, np.nan] for row in rows]
        result.append(traces.line(name, np.array(x).ravel(), y, look, yaxis="y2"))
    return result


def _texts(rows: Sequence[TensorRow], places: list[int]) -> list[dict[str, Any]]:
    """At the right of each row its error and what is lost; above each group its name."""
    numbers = [row.numbers for row in rows]
    lost = [n.flushed + n.saturated for n in numbers]
    right = [
        number_text.decibels(n.sqnr_db) + (f" · {number_text.percent(share)} lost" if share >= 0.0005 else "")
        for n, share in zip(numbers, lost, strict=True)
    ]
    edge = np.full(len(rows), float(OCTAVES[1]))
    heads = [i for i, row in enumerate(rows) if i == 0 or rows[i - 1].group != row.group]
    medians = [_summary(rows[i].group, rows).removeprefix(rows[i].group) for i in heads]
    names = [f"<b>{rows[i].group}</b>, median row{text}" for i, text in zip(heads, medians, strict=True)]
    start = np.full(len(heads), OCTAVES[0] + 0.3)
    above = np.array([places[i] - 1 for i in heads], float)
    more = {"yaxis": "y2", "cliponaxis": False}
    unseen = {"size": 9, "opacity": 0}  # a mark: words stand above it
    own = more | {"meta": {"phone": {"textposition": "top left", "mode": "markers+text", "marker": unseen}}}
    return [
        traces.words("what each row keeps", edge, np.array(places, float), right, "middle right", **own),
        traces.words("names of the groups", start, above, names, "middle right", **more),
    ]


def _layout(rows: Sequence[TensorRow], places: list[int], chosen: int, top: float) -> dict[str, Any]:
    labels = [f"<b>{row.label}</b>" if i == chosen else row.label for i, row in enumerate(rows)]
    frame = {
        "type": "rect",
        "xref": "x domain",
        "yref": "y2",
        "x0": 0,
        "x1": 0.995,  # beside it the numbers of the row begin
        "y0": places[chosen] - 0.5,
        "y1": places[chosen] + 0.5,
        "line": {"width": 1.4, "color": style.GREY},
    }
    rows_axis = {
        "domain": [0, _SPLIT[1]],
        "range": [max(places) + 0.7, -0.7],
        "showgrid": False,
        "ticks": "",
        "showline": False,
        "tickfont": {"size": style.NOTE},
    }
    return {
        "xaxis": axes.power_axis(*OCTAVES, "magnitude (powers of two)", 10) | {"anchor": "y2"},
        "yaxis": axes.axis(0, top, "bits of precision", domain=[_SPLIT[0], 1], dtick=1 if top <= 8 else 2),
        "yaxis2": rows_axis | axes.ticks(np.array(places), labels),
        "shapes": [frame],
    }


def _alt(name: str, rows: Sequence[TensorRow], chosen: int) -> str:
    groups = "; ".join(_summary(group, rows) for group in _groups(rows))
    row = rows[chosen]
    n = row.numbers
    return (
        f"Precision of {name} over magnitude, and {len(rows)} tensors in its window; median layer: {groups}. "
        f"{row.group}, {row.label}: {number_text.percent(n.flushed)} become zero, {number_text.percent(n.saturated)} "
        "saturate, "
        f"SQNR {number_text.decibels(n.sqnr_db)}."
    )
