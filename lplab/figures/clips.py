"""A clip and what it costs: the histogram of a tensor under its grid, the error against the clip and against bits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.figures import axes, shapes, style, traces
from lplab.figures.clip_bits import MARK_SIZES, STYLES, ClipRule, error_axis, share
from lplab.figures.legend import SIGNS, entry, legend
from lplab.quantizers.clipping import Magnitudes, upper_levels

REACH = 1.1  # the axis of magnitudes ends here, in units of the largest
BARS, POINTS = 66, 100
FULL_LINES = 16  # levels that are drawn over the whole height; more of them are short ticks at the top
NAMED = 8  # levels whose share is written above them
LEVELS_END = 0.78  # of the height, which leaves room for a line of text in a small figure
WIDE = 0.1  # of the axis: closer levels have no room for their shares


def level_shares(x: Magnitudes, clip: float, levels: int) -> np.ndarray:
    """The share of the elements that lands on each magnitude of the grid, from the smallest: float64 [levels].

    >>> level_shares(Magnitudes([0.0, 0.1, 0.9, 3.0]), 1.0, 3)
    array([0.5, 0.5])
    """
    level = clip * upper_levels(levels)
    cuts = np.searchsorted(x.sorted, (level[1:] + level[:-1]) / 2)
    return np.diff(np.concatenate([[0], cuts, [len(x.sorted)]])) / max(len(x.sorted), 1)


def clip_histogram(
    x: Magnitudes, clip: float, levels: int, *, what: str = "|x|", title: str = "", height: int = 270
) -> go.Figure:
    """Histogram of the magnitudes of a tensor, what lies beyond the clip apart, and the levels of the grid on top.

    Args:
        x: the magnitudes.
        clip: α, the largest level.
        levels: of the grid over [−α, α]; see ``Magnitudes.errors``.
        what: what the elements are, for the axis.
        title: the point that it makes; by default the share beyond the clip, and that on the fullest level.
        height: in pixels.

    >>> clip_histogram(Magnitudes([0.0, 0.5, 1.0, 4.0]), 2.0, 4).layout.meta["title"]
    'α = 2: 25.0 % clipped; fullest level 75.0 %'
    """
    end = REACH * (x.largest or 1.0)
    edges = np.linspace(0, end, BARS + 1)
    some = x.sorted[x.sorted > 0]
    kept, lost = (np.histogram(part, edges)[0] for part in (some[some <= clip], some[some > clip]))
    share = 100 / max(len(x.sorted), 1)
    top = max(float((kept + lost).max()) * share, 1e-9) / 0.76  # bars end below the levels
    beyond, zeros = x.share_beyond(clip), 1 - len(some) / max(len(x.sorted), 1)
    centres, on_level = (edges[1:] + edges[:-1]) / 2, level_shares(x, clip, levels)
    crowd = f"fullest level {number_text.percent(float(on_level.max()))}"
    text = title or f"α = {number_text.number(clip, digits=3)}: {number_text.percent(beyond)} clipped; {crowd}"
    data = [
        _bars("within the clip", centres, kept * share, "rounded", end),
        _bars("beyond the clip", centres, lost * share, "saturated", end),
        _levels(clip * upper_levels(levels), on_level, top, end),
        _named_levels(clip * upper_levels(levels), on_level, top, end),
    ]
    layout = {
        "barmode": "stack",
        "xaxis": axes.axis(0, end, f"{what}, and the clip α"),
        "yaxis": axes.axis(0, top, "share of elements (%)", nticks=5),
        "shapes": [shapes.upright(clip, xref="x"), shapes.region(min(clip, end), end, style.LOST_RANGE)],
    }
    within, beyond_it, levels_there, _ = data
    entries = [entry(within, "within"), entry(beyond_it, "clipped, in the orange zone"), entry(levels_there, sign="│")]
    remaining = f"    {number_text.percent(zeros)} are zero: no bar" if zeros else ""
    return style.apply_style(
        style.figure(data, layout),
        alt=_alt(x, clip, on_level, what),
        title=text,
        subtitle=legend(*entries) + remaining,
        height=height,
    )


def _alt(x: Magnitudes, clip: float, on_level: np.ndarray, what: str) -> str:
    """The histogram in words."""
    largest, at = (number_text.number(value, digits=3) for value in (x.largest, clip))
    shares = ", ".join([number_text.percent(s) for s in on_level[:NAMED]] + ["…"] * (len(on_level) > NAMED))
    return (
        f"Histogram of {what} up to {largest} with {len(on_level)} levels up to the clip {at}. "
        f"{number_text.percent(x.share_beyond(clip))} lie beyond it. Shares on the levels from the smallest: {shares}."
    )


def clip_error(
    x: Magnitudes,
    clip: float,
    levels: int,
    rules: Sequence[ClipRule] = (),
    *,
    limits: tuple[float, float] | None = None,
    linear: bool = False,
    title: str = "",
    height: int = 260,
) -> go.Figure:
    """Squared error against the clip: of rounding, of clipping, and both together, as shares of the tensor's power.

    Args:
        x, clip, levels: as for :func:`clip_histogram`.
        rules: their clips are marked on the curve, at most five.
        limits: ends of the logarithmic axis of errors; by default :func:`error_range`.
        linear: whether the axis of errors is linear and fits the number of levels: the least error is seen there.
        title: the point that it makes; by default the error at the clip and the least one.
        height: in pixels.

    >>> clip_error(Magnitudes([0.2, 0.4, 0.6, 0.8, 3.0]), 3.0, 4).layout.meta["title"]
    'Error 11.8 %; at best 8.7 %, with α = 2.54'
    """
    end, power = REACH * (x.largest or 1.0), x.power or 1.0
    at = np.linspace(0, end, POINTS + 1)[1:]
    result, best = x.errors(at, levels), x.best_clip(levels)
    here, least = (float(x.errors(c, levels).total[0]) / power for c in (clip, best))
    low, high = limits or error_range(x, levels)
    text = title or (f"Error {share(here)}; at best {share(least)}, with α = {number_text.number(best, digits=3)}")
    curves = (
        ("total", result.total, style.GREY, "solid", 3.0),
        ("rounding", result.rounding, style.BLUE, "dash", 2.0),
        ("clipping", result.clipping, style.VERMILION, "dot", 2.0),
    )
    lines = []
    for name, values, colour, dash, width in curves:
        y = values / power if linear else np.where(values / power >= low, values / power, np.nan)
        look = traces.stroke(colour, width, dash)
        lines.append(traces.line(name, at, y, look, "{name}<br>α      %{x:.4g}<br>error  %{y:.3%}"))
    clips = np.array([rule.clip for rule in rules])
    marks = x.errors(clips, levels).total / power if len(clips) else clips
    layout = {
        "xaxis": axes.axis(0, end, "clip α"),
        "yaxis": error_axis(low, high),
        "shapes": [shapes.upright(clip, xref="x")],
    }
    if linear:
        top = 1.15 * max(float(result.total[-1]), 4 * float(x.errors(best, levels).total[0])) / power or 1.0
        layout["yaxis"] = axes.axis(0, top, "error (share of the power)", tickformat=".3~%", nticks=6)
        marks = np.where(marks <= top, marks, np.nan)
    total, rounding, clipping = lines
    told = ", ".join(
        f"{r.name} α = {number_text.number(r.clip, digits=3)}, {share(float(e))}"
        for r, e in zip(rules, marks, strict=True)
    )
    return style.apply_style(
        style.figure([*lines, _rule_marks(rules, clips, marks if linear else np.maximum(marks, low))], layout),
        alt=f"Squared error against the clip, as a share of the tensor's power: {share(here)} at "
        f"{number_text.number(clip, digits=3)}, least {share(least)} at {number_text.number(best, digits=3)}"
        f"{'; ' + told if told else ''}.",
        title=text,
        subtitle=legend(entry(total, "both"), entry(rounding), entry(clipping)) + _marks_legend(rules, linear),
        height=height,
    )


def _marks_legend(rules: Sequence[ClipRule], named: bool) -> str:
    """What the marks on the curve are; stacked, the panel of :func:`~lplab.figures.clip_bits.bits_error` names them."""
    signs = [f"<span style='color:{c}'>{SIGNS[symbol]}</span>" for c, _, symbol in STYLES[: len(rules)]]
    if named:
        return "".join(f"    {sign} {rule.name}" for sign, rule in zip(signs, rules, strict=True))
    return f"    {''.join(signs)} the rules, named below" if rules else ""


def error_range(x: Magnitudes, levels: int) -> tuple[float, float]:
    """Ends of the axis of errors: from the tensor and the finest of the course's grids, so that no control moves it.

    >>> low, high = error_range(Magnitudes(np.linspace(0, 1, 1000)), 4)
    >>> low < 1e-5, high
    (True, 4.0)
    """
    finest = max(levels, 255)
    least = float(x.errors(x.best_clip(finest), finest).total[0]) / (x.power or 1.0)
    return 10.0 ** math.floor(math.log10(max(least, 1e-6) / 2)), 4.0


def _bars(name: str, x: np.ndarray, y: np.ndarray, outcome: str, end: float) -> dict[str, Any]:
    is_shown = y > 0
    hover = "{name}<br>about %{x:.3g}<br>share %{y:.3g} %"
    return traces.bars(name, x[is_shown], y[is_shown], style.OUTCOME_STYLES[outcome], hover, width=0.96 * end / BARS)


def _levels(level: np.ndarray, shares: np.ndarray, top: float, end: float) -> dict[str, Any]:
    """The levels as one line with gaps: over the whole height, or short where there are many."""
    shown = level <= end
    foot = 0.0 if len(level) <= FULL_LINES else LEVELS_END - 0.04
    x = np.repeat(level[shown], 3)
    y = np.tile([foot * top, LEVELS_END * top, np.nan], int(shown.sum()))
    look = traces.stroke(style.GREEN, 1)  # one width for few and many levels: a new one is a new drawing
    hover = "level  %{x:.4g}<br>share  %{customdata:.3g} %"
    return traces.line("levels", x, y, look, hover, customdata=np.repeat(100 * shares[shown], 3))


def _named_levels(level: np.ndarray, shares: np.ndarray, top: float, end: float) -> dict[str, Any]:
    few = len(level) <= NAMED and (len(level) < 2 or level[1] - level[0] >= WIDE * end)
    text = [number_text.percent(s) if few and at <= end else "" for at, s in zip(level, shares, strict=True)]
    text[-1] = f" {text[-1]}"  # beside the dotted line at the clip, not on it
    free = [*(at < 0.04 * end for at in level[:-1]), True]  # at the right
    side = [
        "top left" if at > 0.93 * end else "top right" if right else "top center"
        for at, right in zip(level, free, strict=True)
    ]
    x, y = np.minimum(level, end)[:NAMED], np.full(len(level), LEVELS_END * top)[:NAMED]
    return traces.words("shares on the levels", x, y, text[:NAMED], np.array(side, dtype=str)[:NAMED])


def _rule_marks(rules: Sequence[ClipRule], clips: np.ndarray, errors: np.ndarray) -> dict[str, Any]:
    looks = STYLES[: len(rules)]
    sizes = [MARK_SIZES.get(symbol, 10) for _, _, symbol in looks]
    look = {"size": sizes, "color": [colour for colour, _, _ in looks], "symbol": [symbol for _, _, symbol in looks]}
    names = np.array([rule.name for rule in rules], dtype=str)
    return traces.points("rules", clips, errors, look, "%{text}<br>α      %{x:.4g}<br>error  %{y:.3%}", text=names)
