"""What devices do during one simulated step: who computes, who waits, and when which bucket is on its way."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go

if TYPE_CHECKING:
    from lplab.hardware import Simulation
    from lplab.hardware.timeline import Event


from lplab.figures import axes, style, traces
from lplab.figures.legend import legend

DETAILS = ("buckets", "layers")
STYLES: dict[str, tuple[str, str, str]] = {  # of a kind of event: colour, pattern, sign in the legend
    "forward": (style.BLUE, "", "█"),
    "backward": (style.BLUE, ".", "▒"),
    "compress": (style.PINK, "x", "▓"),
    "reduce": (style.GREEN, "", "█"),
    "gather": (style.AMBER, "\\", "▒"),
    "broadcast": (style.PINK, "", "█"),
    "update": (style.GREY, "", "█"),
    "idle": (style.VERMILION, "/", "▒"),
}
_AROUND = 128  # pixels of everything above and below the plot
_ROOM = 0.075  # share of the axis that a word needs
OUTLINED = 40  # bars of a kind that have an edge; more would be all edges


def device_timeline(
    simulation: Simulation,
    devices: int = 2,
    *,
    detail: str = "buckets",
    until_seconds: float | None = None,
    lane: int = 34,
) -> go.Figure:
    """One simulated step on a time axis: a lane for each device's computing, and one for the network.

    All devices send at the same time, so the network has one lane. The figure can be zoomed by dragging over it; a
    double click brings the whole step back.

    Args:
        simulation: from :func:`lplab.hardware.simulate`.
        devices: how many to show; with stragglers the last one is the slowest.
        detail: "buckets", the passes in pieces as they are sent, or "layers".
        until_seconds: end of the time axis; by default the next round number after the step.
        lane: height of a lane, in pixels.

    Raises:
        ValueError: another detail, or no devices.

    >>> from lplab.hardware import Cluster, simulate
    >>> fig = device_timeline(simulate("resnet50", Cluster("h100", 64), batch=64))
    >>> fig.layout.meta["title"]
    'A step of 12.1 ms; devices wait 3.3 ms of it'
    """
    if detail not in DETAILS:
        raise ValueError(f"unknown detail {detail!r}; allowed: {', '.join(DETAILS)}")
    events = simulation.timeline(devices)
    shown = max(event.device for event in events) + 1
    if detail == "buckets":
        events = tuple(_merged_events(events, simulation))
    rows = [event for event in events if event.lane == "compute" or event.device == 0]
    lanes = [f"device {i + 1}" for i in range(shown)] + ["network"]
    end = 1e3 * (rounded_up(simulation.step_seconds) if until_seconds is None else until_seconds)
    data = [_bars(kind, [event for event in rows if event.kind == kind], shown, _ROOM * end) for kind in STYLES]
    present = [kind for kind in STYLES if any(event.kind == kind for event in rows)]
    return style.apply_style(
        style.figure(data, _layout(lanes, end)),
        alt=_text(simulation),
        title=_title(simulation),
        subtitle=legend(*((STYLES[kind][0], STYLES[kind][2], kind) for kind in present)),
        height=_AROUND + lane * max(len(lanes), 3),
        l=76,
    )


def rounded_up(seconds: float) -> float:
    """The next of 1, 1.5, 2, 3, 5, 7 times a power of ten: an axis that moves in few steps.

    >>> rounded_up(0.0121), rounded_up(0.71)
    (0.015, 1.0)
    """
    tens = 10.0 ** math.floor(math.log10(seconds))
    return next(round(step * tens, 12) for step in (1, 1.5, 2, 3, 5, 7, 10) if seconds <= step * tens * (1 + 1e-9))


def _layout(lanes: list[str], end: float) -> dict[str, Any]:
    return {
        "barmode": "overlay",
        "bargap": 0.25,
        "dragmode": "zoom",
        # a browser would lay out everything twice with automargin
        "xaxis": axes.axis(
            0,
            end,
            "milliseconds from the start of the step",
            fixedrange=False,
            automargin=False,
            exponentformat="none",
            separatethousands=True,
        ),
        "yaxis": {"range": [len(lanes) - 0.5, -0.5], "showgrid": False, "automargin": False}
        | axes.ticks(np.arange(len(lanes)), lanes),
    }


def _merged_events(events: Iterable[Event], simulation: Simulation) -> list[Any]:
    """Forward pass in one piece, backward pass and compressor's work bucket by bucket."""
    from lplab.hardware.timeline import Event

    buckets = {
        layer.name: k for layer, k in zip(simulation.design.workload.layers, simulation.times.bucket, strict=True)
    }
    pieces: dict[tuple[Any, ...], list[Any]] = {}
    for event in events:
        bucket = buckets.get(event.what, 0)
        whose = {"forward": "all layers", "backward": f"bucket {bucket + 1}", "compress": f"bucket {bucket + 1}"}
        what = whose.get(event.kind, event.what)
        place = pieces.setdefault((event.device, event.lane, event.kind, what), [event.start_seconds, 0.0, 0])
        place[1] += event.end_seconds - event.start_seconds
        place[2] += 1
    result = []
    for (device, lane, kind, what), (start, length, count) in pieces.items():
        if kind == "backward":  # a bucket's layers first, then the compressor's work on them
            start = min(start, pieces.get((device, lane, "compress", what), [math.inf])[0])
        if kind == "compress":
            start = pieces[device, lane, "backward", what][0] + pieces[device, lane, "backward", what][1]
        more = f" ({count} layers)" if count > 1 else ""
        result.append(Event(device, lane, kind, what + more, start, start + length))
    return result


def _bars(kind: str, events: list[Any], shown: int, room: float) -> dict[str, Any]:
    """All events of a kind as one trace; the word stands in plain bars of that length or more."""
    colour, pattern, _ = STYLES[kind]
    starts = np.array([1e3 * event.start_seconds for event in events])
    lengths = np.array([1e3 * (event.end_seconds - event.start_seconds) for event in events])
    lane = np.array([shown if event.lane == "network" else event.device for event in events], np.float64)
    fill = {"shape": pattern, "fillmode": "replace", "size": 6, "solidity": 0.55} if pattern else {"shape": ""}
    return traces.bars(
        kind,
        lengths,
        lane,
        {"color": colour, "pattern": fill, "line": {"color": style.PAPER, "width": 0.5 * (len(events) <= OUTLINED)}},
        "{name}: %{customdata}<br>from %{base:.4g} ms<br>for %{x:.4g} ms",
        orientation="h",
        base=starts,
        text=np.array(["" if pattern or length < room else kind for length in lengths], dtype=str),
        constraintext="none",
        textposition="inside",
        insidetextanchor="middle",
        textangle=0,
        textfont={"color": style.PAPER, "size": style.NOTE},
        customdata=np.array([event.what for event in events], dtype=str),
        visible=bool(events),
    )


def milliseconds(seconds: float) -> str:
    """A time as text, in milliseconds, or in seconds from ten seconds on.

    >>> milliseconds(0.01213), milliseconds(0.0001), milliseconds(480.0), milliseconds(0.5312)
    ('12.1 ms', '0.10 ms', '480 s', '531 ms')
    """
    if seconds >= 10:
        return f"{seconds:,.0f} s"
    value = 1e3 * seconds
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.1f} ms" if value >= 1 or value == 0 else f"{value:.2f} ms"


def _title(simulation: Simulation) -> str:
    step, waits = milliseconds(simulation.step_seconds), simulation.exposed_seconds
    return f"A step of {step}; devices wait {milliseconds(waits) if waits else 'for nothing'}" + " of it" * (waits > 0)


def _text(simulation: Simulation) -> str:
    s = simulation
    return (
        f"Timeline of a modelled step of {s.design.workload.label} on {s.cluster.devices:,} × {s.design.chip.label}: "
        f"{milliseconds(s.step_seconds)}, of which computing {milliseconds(s.compute_seconds)} and waiting for the "
        f"network {milliseconds(s.exposed_seconds)}; transfers take {milliseconds(s.communication_seconds)}. "
        f"Efficiency {s.efficiency:.0%}."
    )
