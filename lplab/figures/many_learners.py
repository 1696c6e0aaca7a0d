"""Many learners: how much of a vector their messages fill together, what each sends, how alike their residuals are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.compression.ratios import build_up
from lplab.figures import axes, shapes, style, traces
from lplab.figures.legend import entry, legend

_UPPER, _LOWER = 0.56, 0.31  # of the height: where the upper panels begin, where the lower one ends
_LEFT, _RIGHT = (0.0, 0.41), (0.59, 1.0)


@dataclass(frozen=True)
class LearnerScaling:
    """Shares and bytes against the number of learners; all of one length.

    Args:
        learners: ascending, from 1.
        own: share of the elements in the sum if each learner chooses for itself.
        leader: the same if one chooses for all.
        own_bytes, leader_bytes, dense_bytes: that a learner sends in a step.

    Raises:
        ValueError: lengths that differ.
    """

    learners: Sequence[int]
    own: Sequence[float]
    leader: Sequence[float]
    own_bytes: Sequence[float]
    leader_bytes: Sequence[float]
    dense_bytes: Sequence[float]

    def __post_init__(self) -> None:
        if len({len(values) for values in vars(self).values()}) != 1:
            raise ValueError("learners, shares and bytes must be of one length")


@dataclass(frozen=True)
class LearnerSimilarity:
    """How alike learners are, over the steps; all of one length.

    Args:
        steps: ascending, from 1.
        cosine: mean cosine distance of their residuals.
        missed: of the leader's choice, the share that the sum would not have chosen.
        unfiltered: the cosine distance of the same run with beta 1, to compare with.
    """

    steps: Sequence[int]
    cosine: Sequence[float]
    missed: Sequence[float]
    unfiltered: Sequence[float]


def many_learners(
    scaling: LearnerScaling,
    likeness: LearnerSimilarity,
    chosen: int,
    density: float,
    *,
    title: str = "",
    height: int = 560,
) -> go.Figure:
    """Share of the elements and bytes sent against the number of learners; below, how alike learners are over time.

    Args:
        scaling: of all numbers of learners.
        likeness: of the run with ``chosen`` learners.
        chosen: one of the numbers of learners; it is marked.
        density: share that one learner sends, for the formula of independent choices.
        title: the point that it makes.
        height: in pixels.

    Raises:
        ValueError: no point for that number of learners.

    >>> points = LearnerScaling([1, 2], [0.01, 0.018], [0.01, 0.01], [0, 800], [0, 450], [0, 4000])
    >>> fig = many_learners(points, LearnerSimilarity([1, 2], [0.7, 0.4], [0.8, 0.7], [0.7, 0.5]), 2, 0.01)
    >>> fig.layout.meta["title"]
    '2 learners, own choices: 1.8 % of the weights; the leader’s: 1.0 %'
    """
    if chosen not in list(scaling.learners):
        raise ValueError(f"no point for {chosen} learners; there are: {', '.join(map(str, scaling.learners))}")
    at = list(scaling.learners).index(chosen)
    own, leader = number_text.percent(scaling.own[at]), number_text.percent(scaling.leader[at])
    formula = build_up(density, chosen)
    text = title or f"{learners_word(chosen)}, own choices: {own} of the weights; the leader’s: {leader}"
    sums, sent, over_time = _shares(scaling, density), _bytes(scaling), _distances_over_time(likeness)
    own_sum, independent, leader_sum = sums
    own_bytes, leader_bytes = (bytes_word(values[at]) for values in (scaling.own_bytes, scaling.leader_bytes))
    ends = f"Residuals at the last step: cosine distance {likeness.cosine[-1]:.2f}" if chosen > 1 else "One learner"
    return style.apply_style(
        style.figure([*sums, *sent, *over_time], _layout(scaling, chosen, float(likeness.steps[-1]), over_time)),
        alt=f"With {learners_word(chosen)} the sum of own choices holds {own} of the weights "
        f"({number_text.percent(formula)} if they were independent), that of the leader's choice {leader}; a learner "
        "sends "
        f"{own_bytes} and {leader_bytes} a step. {ends}.",
        title=text,
        subtitle=legend(
            entry(own_sum), entry(independent, "if independent"), entry(leader_sum), entry(sent[2], sign="━")
        ),
        height=height,
        t=66,
    )


def learners_word(count: int) -> str:
    """A number of learners in words.

    >>> learners_word(1), learners_word(64)
    ('1 learner', '64 learners')
    """
    return f"{count} learner{'s' * (count != 1)}"


def bytes_word(count: float) -> str:
    """A number of bytes, rounded for reading; 1 kB is 1,000 bytes.

    >>> bytes_word(0), bytes_word(940), bytes_word(12_345), bytes_word(2_400_000), bytes_word(3.36e10)
    ('0 B', '940 B', '12.3 kB', '2.4 MB', '33.6 GB')
    """
    size, unit = bytes_unit(count)
    value = count / size
    return f"{value:.3g} {unit}" if size > 1 and value < 100 else f"{value:,.0f} {unit}"


def bytes_unit(count: float) -> tuple[float, str]:
    """The unit in which a number of bytes is short: its size in bytes, and its sign.

    >>> bytes_unit(940), bytes_unit(4e8)
    ((1.0, 'B'), (1000000.0, 'MB'))
    """
    units = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
    return next(((size, unit) for size, unit in units if count >= size), (1.0, "B"))


def learners_axis(x: np.ndarray, n: np.ndarray) -> dict[str, Any]:
    """An axis of log2 of the learners, labelled with their numbers."""
    return axes.axis(float(x.min()) - 0.3, float(x.max()) + 0.3, "learners", **axes.ticks(x, n.astype(str)))


def share_axis() -> dict[str, Any]:
    """A logarithmic axis of shares in percent, the same at every position."""
    ticks = np.array([0.1, 1.0, 10.0, 100.0])
    return axes.axis(-0.8, 2.15, "weights in the sum (%)", type="log", **axes.ticks(ticks, map("{:g}".format, ticks)))


def curve(
    name: str, x: np.ndarray, y: np.ndarray, n: np.ndarray, colour: str, symbol: str, unit: str
) -> dict[str, Any]:
    """Points and a line over log2 of the learners."""
    hover = f"{{name}}<br>learners  %{{customdata}}<br>sum       %{{y:.3g}} {unit}"
    look = traces.stroke(colour, 1.8), traces.marker(symbol, 7, colour)
    return traces.curve(name, x, y, *look, hover, customdata=n)


def formula(x: np.ndarray, n: np.ndarray, density: float) -> dict[str, Any]:
    """The share that independent choices would fill, dashed."""
    share = np.array([build_up(density, int(k)) for k in n])
    return traces.reference("independent choices", x, 100 * share, style.GREY, "dash")


def _shares(points: LearnerScaling, density: float) -> list[dict[str, Any]]:
    n = np.asarray(points.learners)
    x = np.log2(n.astype(np.float64))
    return [
        curve("own top-k", x, 100 * np.asarray(points.own, np.float64), n, style.VERMILION, "circle", "%"),
        formula(x, n, density),
        curve("ScaleCom", x, 100 * np.asarray(points.leader, np.float64), n, style.BLUE, "square", "%"),
    ]


def _bytes(points: LearnerScaling) -> list[dict[str, Any]]:
    """Bytes that a learner sends, from two learners on: one alone sends nothing."""
    n = np.asarray(points.learners)
    several = n > 1
    x = np.log2(n[several].astype(np.float64))
    rows = (
        ("own top-k", points.own_bytes, style.VERMILION, "circle"),
        ("ScaleCom", points.leader_bytes, style.BLUE, "square"),
        ("dense", points.dense_bytes, style.GREEN, "line-ew"),
    )
    result = []
    for name, values, colour, symbol in rows:
        y = np.asarray(values, np.float64)[several]
        trace = curve(name, x, y, n[several], colour, symbol, "")
        hover = f"{name}<br>learners  %{{customdata}}<br>sends     %{{y:,.0f}} B a step<extra></extra>"
        result.append(trace | {"xaxis": "x2", "yaxis": "y2", "hovertemplate": hover})
    return result


def _distances_over_time(likeness: LearnerSimilarity) -> list[dict[str, Any]]:
    x = np.asarray(likeness.steps, np.float64)
    rows = (
        ("cosine distance with β = 1", likeness.unfiltered, style.GREY, "dash", 1.6),
        ("cosine distance of the residuals", likeness.cosine, style.BLUE, "solid", 2.4),
        ("missed by the leader", likeness.missed, style.PINK, "dot", 2.2),
    )
    result = []
    for name, values, colour, dash, width in rows:
        y, look = np.asarray(values, np.float64), traces.stroke(colour, width, dash)
        hover = "{name}<br>step   %{x}<br>value  %{y:.2f}"
        result.append(traces.line(name, x, y, look, hover, xaxis="x3", yaxis="y3"))
    return result


def _layout(points: LearnerScaling, chosen: int, last: float, over_time: list[dict[str, Any]]) -> dict[str, Any]:
    n = np.asarray(points.learners)
    x = np.log2(n.astype(np.float64))
    learners, at = learners_axis(x, n), float(np.log2(chosen))
    sizes = axes.ticks(np.array([1e3, 1e4, 1e5, 1e6]), ["1 kB", "10 kB", "100 kB", "1 MB"])
    unfiltered, cosine, missed = over_time
    same = np.array_equal(unfiltered["y"], cosine["y"], equal_nan=True)
    others = () if same else (entry(unfiltered, "the same with β = 1"),)
    own = (entry(cosine),) if np.isfinite(cosine["y"]).any() else ()  # one learner is like no other
    key = legend(*own, *others, entry(missed), per_line=1)
    upper, lower = {"domain": [_UPPER, 1.0]}, {"domain": [0.0, _LOWER]}
    return {
        "xaxis": learners | {"domain": list(_LEFT), "anchor": "y"},
        "yaxis": share_axis() | upper | {"anchor": "x"},
        "xaxis2": learners | {"domain": list(_RIGHT), "anchor": "y2"},
        "yaxis2": axes.axis(2.5, 6.2, "a learner sends", type="log", **sizes, **upper, anchor="x2"),
        "xaxis3": axes.axis(0, last, "step", domain=[0.0, 1.0], anchor="y3"),
        "yaxis3": axes.axis(0, 1.05, "distance", **lower, anchor="x3"),
        "shapes": [shapes.upright(at, 1.4, layer="below", xref=f"x{k}", yref=f"y{k} domain") for k in ("", "2")],
        "annotations": [shapes.note(key, x=0, y=_LOWER + 0.02, xanchor="left", align="left")],
    }
