"""Scaled gradients over the grids that could hold them: a histogram, a row for each grid, what each makes of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.figures import axes, style, traces
from lplab.figures.legend import entry, legend
from lplab.quantizers import GRADIENT_GRIDS, GridEffect
from lplab.quantizers.gradscale import RADIX4_MAX

OCTAVES = -22, 14  # the axis: it stays where it is whatever the scale; what lies beyond counts in the outermost bars
OUTCOMES = ("becomes zero", "rounded", "beyond 64")
_STYLES = (style.OUTCOME_STYLES["flushed"], style.OUTCOME_STYLES["rounded"], style.OUTCOME_STYLES["saturated"])
_COLUMNS = ("to 0", "bias", "error")
_UNIT = " %"  # of all columns: it stands in their heads, so that a column is no wider than its numbers
_SPLIT, _TABLE = 0.66, 0.68  # of the width: where the plots end, where the table begins
_FLOOR, _CEILING = 0.50, 0.56  # of the height: where the rows end, where the histogram begins
_HEADS = -1.1  # where the heads of the table stand, in rows


def gradient_grids(
    scaled: Any, effects: Mapping[str, GridEffect], grid: str = "radix2", *, title: str = "", height: int = 530
) -> go.Figure:
    """Histogram of log2|s·g| above one row for each grid, with the share zeroed, the bias and the error of each.

    Args:
        scaled: gradients times their scale, finite, [n]: in units of the grids, whose largest value is 64.
        effects: what each grid does, by the names of ``lplab.quantizers.GRADIENT_GRIDS``; these are the rows.
        grid: the one that colours the histogram.
        title: the point that it makes; by default what the grid makes zero.
        height: in pixels.

    Raises:
        ValueError: a grid without a row.

    >>> from lplab.quantizers import grid_effect
    >>> x = np.array([0.1, 0.5, 3.0, 40.0])
    >>> fig = gradient_grids(x, {name: grid_effect(x, name) for name in ("radix2", "radix4_even")})
    >>> fig.layout.meta["title"]
    'FP4 radix 2 makes 50.0 % zero'
    """
    if grid not in effects:
        raise ValueError(f"no row for the grid {grid!r}; there are: {', '.join(effects)}")
    counts, total = _counts(np.asarray(scaled, np.float64).ravel(), grid)
    shares = 100 * counts / max(total, 1)
    rows = list(effects)
    text = title or f"{GRADIENT_GRIDS[grid].label} makes {number_text.percent(effects[grid].zeroed)} zero"
    bars = _bars(shares, counts)
    data = [*bars, *_bands(rows), *_rows(rows, grid), *_table(effects, grid)]
    beyond = number_text.percent(effects[grid].saturated)  # like every number here; the bars count elements
    told = "; ".join(f"{GRADIENT_GRIDS[name].label}: {_text(effect)}" for name, effect in effects.items())
    return style.apply_style(
        style.figure(data, _layout(shares, rows, grid)),
        alt=f"Histogram of {total:,} scaled gradients over the values of {len(rows)} grids of four bits, coloured by "
        f"{GRADIENT_GRIDS[grid].label}; {beyond} lie beyond 64. {told}.",
        title=text,
        subtitle=legend(entry(bars[0]), entry(bars[1]), entry(bars[2], f"{OUTCOMES[2]} ({beyond})")),
        height=height,
        l=142,
        t=60,
    )


def _counts(x: np.ndarray, grid: str) -> tuple[np.ndarray, int]:
    """Elements by outcome and octave, int64 [3, n], and how many elements there are, zeros included."""
    low, high = OCTAVES
    nonzero = x[x != 0]
    outcome = np.where(GRADIENT_GRIDS[grid].quantize(nonzero) == 0, 0, np.where(np.abs(nonzero) > RADIX4_MAX, 2, 1))
    column = np.clip(np.frexp(nonzero)[1] - 1, low, high - 1) - low
    return np.bincount(outcome * (high - low) + column, minlength=3 * (high - low)).reshape(3, high - low), len(x)


def _bars(shares: np.ndarray, counts: np.ndarray) -> list[dict[str, Any]]:
    octaves = np.arange(*OCTAVES)
    ranges = np.array([f"{number_text.power(k)} … {number_text.power(k + 1)}" for k in octaves.tolist()], dtype=str)
    result = []
    for outcome, share, count, look in zip(OUTCOMES, shares, counts, _STYLES, strict=True):
        is_shown = count > 0  # empty bars would take the browser as long as others
        hover = "%{hovertext}<br>{name}  %{y:.3g} %<br>elements  %{customdata:,}"
        more = {"width": 0.96, "customdata": count[is_shown], "hovertext": ranges[is_shown]}
        result.append(traces.bars(outcome, octaves[is_shown] + 0.5, share[is_shown], look, hover, **more))
    return result


def _rows(rows: Sequence[str], grid: str) -> list[dict[str, Any]]:
    """The values of all grids as strokes on lines: those of the chosen grid, and those of the others."""
    result = []
    for name, colour, chosen in (("the chosen grid", style.BLUE, True), ("the other grids", style.GREY, False)):
        shown = [(y, GRADIENT_GRIDS[row].values) for y, row in enumerate(rows) if (row == grid) == chosen]
        values = [value for _, values in shown for value in values]
        x = np.array([math.log2(value) for value in values])
        y = np.array([float(y) for y, values in shown for _ in values])
        look = traces.marker("line-ns", 17, colour, 2.4)
        result.append(
            traces.points(name, x, y, look, "value  %{customdata:.5g}", yaxis="y2", customdata=np.array(values))
        )
    return result


def _table(effects: Mapping[str, GridEffect], grid: str) -> list[dict[str, Any]]:
    """The numbers beside the rows; on a phone there is no room for the bias."""
    cells = [
        [whole_percent(e.zeroed), number_text.signed_percent(e.bias, 2), percent_of(e.error)] for e in effects.values()
    ]
    plain = [[cell.removesuffix(_UNIT) for cell in row] for row in cells]
    bold = [
        [f"<b>{cell}</b>" if name == grid else cell for cell in row] for name, row in zip(effects, plain, strict=True)
    ]
    texts = [[f"{name}<br>{_UNIT.strip()}" for name in _COLUMNS], *bold]
    look = {"textfont": {"size": style.TICK}, "xaxis": "x2", "yaxis": "y2", "cliponaxis": False}
    result = []
    for name, columns, more in (("numbers", (0, 2), {}), ("bias", (1,), {"meta": {"phone": {"visible": False}}})):
        x = np.tile(np.array(columns, dtype=np.float64), len(texts))
        y = np.repeat([_HEADS, *range(len(effects))], len(columns))
        result.append(traces.words(name, x, y, [row[k] for row in texts for k in columns], **look, **more))
    return result


def whole_percent(share: float) -> str:
    """A share in whole percents that never rounds something to nothing, or not quite all to all.

    >>> whole_percent(0.764), whole_percent(0.001), whole_percent(0.999), whole_percent(1.0)
    ('76 %', '<1 %', '>99 %', '100 %')
    """
    if 0 < share < 0.005:
        return "<1 %"
    return ">99 %" if 0.995 <= share < 1 else f"{100 * share:.0f} %"


def percent_of(ratio: float) -> str:
    """An error that may exceed all of the signal, in percent.

    >>> percent_of(0.531), percent_of(7.2), percent_of(0.0)
    ('53 %', '720 %', '0 %')
    """
    return f"{100 * ratio:,.0f} %"


def _text(effect: GridEffect) -> str:
    bias = number_text.signed_percent(effect.bias, 2)
    return f"{number_text.percent(effect.zeroed)} zeroed, bias {bias}, error {percent_of(effect.error)}"


def _layout(shares: np.ndarray, rows: Sequence[str], grid: str) -> dict[str, Any]:
    low, high = OCTAVES
    labels = [GRADIENT_GRIDS[row].label for row in rows]
    text = [f"<b>{label}</b>" if row == grid else label for row, label in zip(rows, labels, strict=True)]
    top = max(5.0 * math.ceil(1.12 * float(shares.sum(axis=0).max(initial=0)) / 5), 10.0)
    x = axes.power_axis(low, high, "|scale × gradient|, powers of two")
    return {
        "barmode": "stack",
        "xaxis": x | {"domain": [0, _SPLIT], "anchor": "y2"},
        "yaxis": axes.axis(0, top, "share (%)", domain=[_CEILING, 1], nticks=5),
        "yaxis2": {
            "domain": [0, _FLOOR],
            "range": [len(rows) - 0.4, _HEADS - 0.7],
            "showgrid": False,
            "ticks": "",
            "showline": False,
        }
        | axes.ticks(np.arange(len(rows)), text),
        "xaxis2": {"domain": [_TABLE, 1], "range": [-0.5, 2.5], "visible": False, "anchor": "y2", "fixedrange": True},
    }


def _bands(rows: Sequence[str]) -> list[dict[str, Any]]:
    """What the grids lose, below their zero and beyond 64, and what they hold: wide lines, faster than 18 shapes."""
    end, gap = math.log2(RADIX4_MAX), math.nan
    zeros = [math.log2(GRADIENT_GRIDS[row].zero_below) for row in rows]
    low, high = OCTAVES
    lost = [x for zero in zeros for x in (low, zero, gap, end, high, gap)]
    held = [x for zero in zeros for x in (zero, end, gap)]
    return [_band("lost", lost, len(rows), style.LOST_RANGE), _band("held", held, len(rows), style.NORMAL_RANGE)]


def _band(name: str, x: Sequence[float], rows: int, colour: str) -> dict[str, Any]:
    y = np.repeat(np.arange(float(rows)), len(x) // rows)
    return traces.line(name, np.array(x), y, traces.stroke(colour, 22, simplify=False), yaxis="y2")
