"""Learners that meet seldom: their loss over the steps, loss against bytes, and seconds of a step over a link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import axes, shapes, style, traces
from lplab.figures.legend import entry, legend
from lplab.figures.many_learners import bytes_word
from lplab.figures.names_beside_dots import DOT, DOT_OF_CHOSEN, EDGE, LETTER, LINE, places_beside_dots
from lplab.hardware.units import duration

Curve = tuple[Any, Any]  # steps and losses, of one length
ROOM = 0.3  # decades beside the outermost dots of the plane, for their names
ROOM_BEFORE_BUDGET = 1.1  # the same at the left where there is a budget, on whose line no name stands
NARROWEST_PLOT, PHONE_PLOT = 340, 205  # pixels: widths of plots for which names are placed
MARGINS = 114  # pixels, above and below the plot of the plane


def meeting_losses(
    curves: Mapping[str, Curve],
    references: Mapping[str, Curve] | None = None,
    *,
    steps: int,
    limits: tuple[float, float],
    title: str = "",
    height: int = 320,
) -> go.Figure:
    """Test loss over the inner steps: a curve for each training, thin ones to compare with.

    Args:
        curves: steps and losses (bits a character) so far, by name; one to three.
        references: the same for up to two trainings to compare with, such as one alone and a synchronous one.
        steps: how many there will be.
        limits: ends of the loss axis.
        title: the point that it makes; by default the losses at the end of the curves.
        height: in pixels.

    Raises:
        ValueError: no curve, too many, or losses that are not one for each step.

    >>> fig = meeting_losses({"mean": ([0, 12], [2.6, 2.5])}, steps=240, limits=(2.2, 2.8))
    >>> fig.layout.meta["title"]
    'After 12 of 240 steps: mean 2.500'
    """
    beside = dict(references or {})
    if not 1 <= len(curves) <= len(style.SERIES) or len(beside) > 2:
        raise ValueError(
            f"one to {len(style.SERIES)} curves and up to 2 references share a figure, got {len(curves)} and "
            f"{len(beside)}"
        )
    drawn = []
    for (name, curve), (dash, symbol) in zip(
        beside.items(), (("dot", "square-open"), ("dash", "diamond-open")), strict=False
    ):
        x, y = _checked_curve(name, curve)
        look = traces.stroke(style.GREY, 1.5, dash)
        drawn.append(traces.curve(name, x, y, look, traces.marker(symbol, 7, style.GREY, edge=1.5), HOVER))
    for (name, curve), (colour, dash, symbol) in zip(curves.items(), style.SERIES, strict=False):
        x, y = _checked_curve(name, curve)
        look = traces.stroke(colour, 2.5, dash)
        drawn.append(traces.curve(name, x, y, look, traces.marker(symbol, 7, colour), HOVER))
    ends = {trace["name"]: float(trace["y"][-1]) for trace in drawn if len(trace["y"])}
    done = max((int(trace["x"][-1]) for trace in drawn if len(trace["x"])), default=0)
    told = ", ".join(f"{name} {loss:.3f}" for name, loss in ends.items())
    own = ", ".join(f"{name} {loss:.3f}" for name, loss in ends.items() if name in curves)
    text = title or (f"After {done} of {steps} steps: {own}" if done else "Not started yet")
    layout = {
        "xaxis": axes.axis(-0.02 * steps, 1.02 * steps, "steps of a learner", dtick=steps / 4),
        "yaxis": axes.axis(*limits, "test loss (bits a character)"),
    }
    return style.apply_style(
        style.figure(drawn, layout),
        alt=f"Test loss in bits a character after {done} of {steps} steps. {told or 'Not started yet'}.",
        title=text,
        subtitle=legend(*map(entry, drawn), per_line=3),
        height=height,
        t=82,
    )


HOVER = "{name}<br>step  %{x}<br>%{y:.3f} bits"


def _checked_curve(name: str, curve: Curve) -> tuple[np.ndarray, np.ndarray]:
    steps, losses = (np.asarray(each, np.float64) for each in curve)
    if steps.shape != losses.shape or steps.ndim != 1:
        raise ValueError(f"{name}: one loss for each step is needed, got {losses.shape} losses and {steps.shape} steps")
    return steps, losses


def byte_loss_plane(
    points: Mapping[str, tuple[float, float]],
    chosen: tuple[float, float] | None,
    levels: Mapping[str, float],
    *,
    name: str = "this setting",
    what: str = "sent by a learner, a step on average",
    per: str = " a step",
    budget: float | None = None,
    notes: Mapping[str, str] | None = None,
    short: Mapping[str, str] | None = None,
    title: str = "",
    height: int = 340,
) -> go.Figure:
    """Loss against bytes on a logarithmic axis: a dot for each way to train, the chosen one in a ring of its own.

    Names stand where they keep clear of each other and of the budget. A chosen loss far above all others stands at the
    end of the axis, with its number.

    Args:
        points: bytes and loss of named ways, at least one; bytes above 0.
        chosen: bytes and loss of the chosen one. Where its loss is NaN, not known yet, the bytes are an upright line;
            None: there is none yet.
        levels: losses to compare with that send nothing, or whose bytes do not matter: dotted lines.
        name: of the chosen one.
        what: the bytes are, for the axis.
        per: what bytes in the title are counted for.
        budget: bytes that the chosen one may send at most: a dashed line.
        notes: what else is said of a way, by its name, where its loss is told.
        short: names of ways and levels that stand in the figure on a phone, by the whole names.
        title: the point that it makes; by default bytes and loss of the chosen one.
        height: in pixels.

    Raises:
        ValueError: bytes that are not above 0, or a loss of a named way that is not finite.

    >>> fig = byte_loss_plane({"DiLoCo": (4e3, 2.3)}, (30.0, 2.4), {"alone": 2.5})
    >>> fig.layout.meta["title"]
    'This setting: 30 B a step, 2.400 bits a character'
    """
    others = np.array([*points.values()], np.float64).reshape(-1, 2)
    mine = np.array([chosen] if chosen else [], np.float64).reshape(-1, 2)
    both = np.concatenate([others, mine])
    is_known = np.isfinite(both).all(axis=1)
    if not (is_known[: len(others)].all() and np.isfinite(both[:, 0]).all() and (both[:, 0] > 0).all()):
        raise ValueError(f"bytes above 0 and finite losses are needed, got {dict(points)} and {chosen}")
    (x, y), dot = others.T, mine[is_known[len(others) :]]
    losses = np.array([*y, *levels.values()])
    spread = float(np.ptp(losses)) or 0.1
    height_of_dot = np.minimum(dot[:, 1], losses.max() + spread / 4)  # what diverges stands at the end of the axis
    more = {each: f", {note}" for each, note in (notes or {}).items()}
    dots = traces.points(
        "other ways to train",
        x,
        y,
        traces.marker("circle", 2 * DOT, style.BLUE),
        "%{text}<br>%{y:.3f} bits",
        text=np.array(
            [f"{each}, {bytes_word(sent)}{per}{more.get(each, '')}" for each, (sent, _) in points.items()], dtype=str
        ),
    )
    here = traces.points(
        name,
        dot[:, 0],
        height_of_dot,
        traces.marker("diamond-open", 2 * DOT_OF_CHOSEN, style.VERMILION, edge=3),
        "{name}<br>%{text}",
        text=np.array([f"{loss:.3f} bits{more.get(name, '')}" for loss in dot[:, 1]], dtype=str),
    )
    numbers = [
        f"     {loss:.3f} ↑" if loss > shown else "" for loss, shown in zip(dot[:, 1], height_of_dot, strict=True)
    ]
    above = traces.words("above the axis", dot[:, 0], height_of_dot, numbers, "middle right")
    limits = np.array([] if budget is None else [budget])
    ends = np.log10(np.concatenate([both[:, 0], limits]))
    low, high = ends.min() - (ROOM if budget is None else ROOM_BEFORE_BUDGET), ends.max() + ROOM
    ends = np.array([*losses, *height_of_dot])
    bottom, top = ends.min() - 0.12 * spread, ends.max() + 0.12 * spread
    words: list[dict[str, Any]] = []
    # Traces of their own on a phone: whatever changes in them while they are shown is right at each width.
    for kind, is_phone, width in (("", False, NARROWEST_PLOT), (" on a phone", True, PHONE_PLOT)):
        shown = {each: (short or {}).get(each, each) if is_phone else each for each in (*points, *levels)}
        form = {"visible": not is_phone, "meta": {"phone": {"visible": is_phone}}}
        heights = {shown[level]: loss for level, loss in levels.items()}
        words += [
            _names_of_dots(
                f"names{kind}", np.stack([np.log10(x), y], axis=1), [shown[way] for way in points], heights,
                np.log10(limits), ((low, high), (bottom, top)), (width, height - MARGINS), **form,
            ),
            _names_of_levels(f"levels{kind}", heights, 10.0**low, **form),
        ]  # fmt: skip
    layout = {
        "xaxis": axes.axis(low, high, what, type="log") | _byte_ticks(low, high),
        "yaxis": axes.axis(bottom, top, "loss (bits a character)"),
        "shapes": [shapes.upright(limit, dash="dash") for limit in limits.tolist()]
        + [shapes.upright(sent, line=traces.stroke(style.VERMILION, 1.5, "dot")) for sent, _ in both[~is_known]],
    }
    told = "; ".join(
        f"{each} {bytes_word(sent)}, {loss:.3f}{more.get(each, '')}" for each, (sent, loss) in points.items()
    )
    lines = ", ".join(f"{each} {loss:.3f}" for each, loss in levels.items())
    own = f"{name}: {_chosen_text(chosen, per)}{more.get(name, '')}"
    signs = [(style.GREY, "╎", f"budget, {bytes_word(budget)}")] if budget else []
    signs += [(style.VERMILION, "┊", f"bytes of {name}") for _ in both[~is_known]]
    limit = f" The budget is {bytes_word(budget)}." if budget else ""
    return style.apply_style(
        style.figure([_level_lines(levels, 10.0**low, 10.0**high), dots, here, *words, above], layout),
        alt=f"Bytes {what}, and loss in bits a character. {own}. {told}. {lines}.{limit}",
        title=title or f"{own[:1].upper()}{own[1:]}",
        subtitle=legend(entry(here), entry(dots), *signs),
        height=height,
        t=66,
    )


def _names_of_dots(
    name: str,
    points: np.ndarray,
    names: Sequence[str],
    levels: Mapping[str, float],
    limits: np.ndarray,
    ranges: tuple[tuple[float, float], tuple[float, float]],
    room: tuple[float, float],
    **more: Any,
) -> dict[str, Any]:
    """The names of dots where they keep clear of each other, of those of the levels and of the budget.

    Args:
        name: of the trace.
        points: decades of bytes, and losses, float64 [dots, 2].
        names: of the dots.
        levels: losses by their names in the left corner.
        limits: decades of the budget, if there is one.
        ranges: of both axes, in decades of bytes and in losses.
        room: width and height of the plot in pixels.
        more: for the trace.
    """
    (left, right), (low, high) = ranges
    width, height = room
    x, y = width * (points[:, 0] - left) / (right - left), height * (high - points[:, 1]) / (high - low)
    lines = width * (limits - left) / (right - left)
    heights = {level: height * (high - loss) / (high - low) for level, loss in levels.items()}
    taken = [
        *((line - EDGE, 0.0, line + EDGE, height) for line in lines.tolist()),
        *((0.0, at - LINE - EDGE, LETTER * (1 + len(level)), at) for level, at in heights.items()),
    ]
    places = places_beside_dots(np.stack([x, y], axis=1), names, taken, room)
    unseen = {"size": 2 * DOT_OF_CHOSEN, "opacity": 0}  # names stand beside a mark of the chosen one's size
    look = {"mode": "markers+text", "marker": unseen} | more
    return traces.words(name, 10.0 ** points[:, 0], points[:, 1], names, np.array(places, dtype=str), **look)


def _level_lines(levels: Mapping[str, float], left: float, right: float) -> dict[str, Any]:
    """Dotted lines at the levels; what each is stands in the box at its ends."""
    heights = np.array([*levels.values()], np.float64)
    start, end = np.full(len(heights), left), np.full(len(heights), right)
    told = np.repeat(np.array([f"{name}<br>{loss:.3f} bits" for name, loss in levels.items()], dtype=str), 3)
    x, y, look = traces.segments(start, end), traces.segments(heights, heights), traces.stroke(style.GREY, 1, "dot")
    return traces.line("without meetings", x, y, look, "%{text}", text=told)


def _names_of_levels(name: str, levels: Mapping[str, float], left: float, **more: Any) -> dict[str, Any]:
    """The names of the levels above their lines, in the left corner, which no method reaches."""
    heights = np.array([*levels.values()], np.float64)
    return traces.words(
        name, np.full(len(heights), left), heights, [f" {level}" for level in levels], "top right", **more
    )


def _chosen_text(chosen: tuple[float, float] | None, per: str) -> str:
    """What is known of the chosen way, in words."""
    if chosen is None:
        return "not measured yet"
    sent, loss = chosen
    told = f"{loss:.3f} bits a character" if np.isfinite(loss) else "the loss is not known"
    return f"{bytes_word(sent)}{per}, {told}"


def _byte_ticks(low: float, high: float) -> dict[str, Any]:
    decades = np.arange(np.ceil(low), np.floor(high) + 1)
    return axes.ticks(10.0**decades, [bytes_word(10.0**decade) for decade in decades.tolist()])


def meeting_seconds(
    rows: Mapping[str, float], alone: float, chosen: str, *, link: str, title: str = "", height: int = 0
) -> go.Figure:
    """Seconds of a step on a logarithmic axis, a point for each way to train, and a line where nobody waits.

    Args:
        rows: seconds by way, from the top.
        alone: seconds of a step without a meeting.
        chosen: the way to mark.
        link: what the learners are joined by.
        title: the point that it makes; by default which share of the time the chosen way computes.
        height: in pixels; by default by the number of rows.

    Raises:
        ValueError: no way, seconds that are not above 0, or a chosen way that is not there.

    >>> meeting_seconds({"data parallelism": 30.0, "ours": 0.1}, 0.05, "ours", link="a slow link").layout.meta["title"]
    'Ours computes 50 % of the time'
    """
    row_axis = axes.row_axis(rows, chosen)
    seconds = np.array(list(rows.values()), np.float64)
    if not (np.isfinite(seconds) & (seconds > 0)).all():
        raise ValueError(f"seconds must be finite and above 0, got {dict(rows)}")
    y, here = row_axis["tickvals"], np.array(list(rows)) == chosen
    low, high = np.log10(alone) - 0.15, np.log10(seconds.max()) + 0.3
    shares = alone / seconds
    lines = traces.line(
        "waiting",
        traces.segments(np.full(len(y), alone), seconds),
        traces.segments(y, y),
        traces.stroke(style.VERMILION, 4),
    )
    points = traces.points(
        "a step",
        seconds,
        y,
        traces.marker("circle", np.where(here, 14, 9), style.BLUE),
        "%{text}",
        text=np.array([f"{name}: {duration(each, 3)}" for name, each in rows.items()], dtype=str),
    )
    texts = [
        f" {duration(each, 3)}, {_percent(share)} computing"
        for each, share in zip(seconds.tolist(), shares.tolist(), strict=True)
    ]
    layout = {
        "xaxis": axes.axis(low, high, f"time of a step, modelled; link: {link}", type="log") | _second_ticks(low, high),
        "yaxis": row_axis,
        "shapes": [shapes.upright(alone, line=traces.stroke(style.GREEN, 2))],
    }
    told = "; ".join(f"{name} {duration(each, 3)}" for name, each in rows.items())
    share = float(shares[here][0])
    return style.apply_style(
        style.figure(
            [lines, points, traces.words("seconds", np.full(len(y), alone), y + 0.08, texts, "top right")], layout
        ),
        alt=f"Seconds of a step over {link}, of which {duration(alone, 3)} are computing: {told}.",
        title=title or f"{chosen[:1].upper()}{chosen[1:]} computes {_percent(share)} of the time",
        subtitle=legend((style.GREEN, "┃", "computing alone"), entry(lines), entry(points)),
        height=height or 130 + 46 * len(rows),
        l=140,
        t=66,
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def _second_ticks(low: float, high: float) -> dict[str, Any]:
    decades = np.arange(np.ceil(low), np.floor(high) + 1)
    return axes.ticks(10.0**decades, [duration(10.0**decade, 3) for decade in decades.tolist()])
