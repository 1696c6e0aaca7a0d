"""The roofline: operations a second against operations per byte, with the products of a network under it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import axes, style, traces
from lplab.figures.legend import entry, legend
from lplab.hardware.units import format_si

SPAN = (1.0, 20_000.0)  # operations per byte of the whole figure
LINE = 15  # letters beside a published mark
MIN_SPACING = 0.16  # decades between two roofs from which on both have room for a name
# Decades below the highest roof: a common network, or one with the depthwise products of an array, which use few of its
# cells. There are two axes and not one for each network, so that nothing jumps while a control moves.
DEPTHS = (3.4, 4.7)


@dataclass(frozen=True)
class Roof:
    """What a chip can do at most: a name, operations a second, bytes a second."""

    name: str
    ops_per_second: float
    bytes_per_second: float

    def __post_init__(self) -> None:
        if not (self.ops_per_second > 0 and self.bytes_per_second > 0):
            raise ValueError(f"roof {self.name!r}: both rates must be above 0")

    def at(self, intensity: Any) -> np.ndarray:
        """Operations a second at most, for so many operations per byte."""
        return np.minimum(self.ops_per_second, np.asarray(intensity, float) * self.bytes_per_second)


@dataclass(frozen=True)
class RooflinePoint:
    """A point that was measured or published: a name, operations per byte, operations a second, and their range.

    Where the operations per byte are unknown, ``intensity`` is NaN and the mark is drawn at the edge.
    """

    name: str
    intensity: float
    ops_per_second: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Products:
    """Products of a network: names, operations per byte, operations a second, and seconds, arrays of one length.

    ``waiting`` says which of them wait for memory. Without it those left of the chosen roof's corner do, which is wrong
    where some run at another rate, or leave multipliers idle.
    """

    names: Sequence[str]
    intensity: np.ndarray
    ops_per_second: np.ndarray
    seconds: np.ndarray
    waiting: np.ndarray | None = None

    def __post_init__(self) -> None:
        given = (self.intensity, self.ops_per_second, self.seconds, self.waiting)
        lengths = {len(self.names), *(len(array) for array in given if array is not None)}
        if len(lengths) != 1:
            raise ValueError(f"names and arrays of products must be of one length, got {lengths}")

    def waiting_under(self, roof: Roof) -> np.ndarray:
        """Which of the products wait for memory, bool."""
        if self.waiting is not None:
            return self.waiting
        return np.asarray(self.intensity < roof.ops_per_second / roof.bytes_per_second)


def roofline(
    roofs: Sequence[Roof],
    products: Products,
    whole: RooflinePoint,
    *,
    chosen: int = 0,
    published: Sequence[RooflinePoint] = (),
    measured: Sequence[RooflinePoint] = (),
    title: str = "",
    height: int = 400,
) -> go.Figure:
    """Roofs of a chip, the products of a network under the chosen one, and the whole step.

    Args:
        roofs: at least one; the others are drawn thin.
        products: modelled; a larger square takes more of the time.
        whole: the whole step, modelled, with everything that is no product.
        chosen: which roof the products run under.
        published, measured: marks of their own shapes.
        title: the point that it makes; by default what share of the roof the whole step reaches.
        height: in pixels.

    Raises:
        ValueError: no roofs.

    >>> roof = Roof("BF16", 989e12, 3.35e12)
    >>> one = Products(["fc"], np.array([100.0]), np.array([335e12]), np.array([1.0]))
    >>> roofline([roof], one, RooflinePoint("step", 90.0, 98.9e12)).layout.meta["title"]
    'The whole step reaches 10 % of what the multipliers could do'
    """
    if not roofs:
        raise ValueError("at least one roof is needed")
    roof, others = roofs[chosen], [r for i, r in enumerate(roofs) if i != chosen]
    share = whole.ops_per_second / roof.ops_per_second
    text = title or f"The whole step reaches {100 * share:.0f} % of what the multipliers could do"
    data = [
        _lines(others),
        _line(roof),
        _names(roofs, chosen),
        _squares(products),
        _whole_step_point(whole),
        _marks("published", published, roof.ops_per_second),
        _marks("measured", measured, roof.ops_per_second),
    ]
    squares, published_dot, measured_dot = data[3], data[5], data[6]
    entries = [entry(squares, "products and ⊞ step, modelled")]
    entries += [entry(trace) for trace, there in ((published_dot, published), (measured_dot, measured)) if there]
    return style.apply_style(
        style.figure(
            data, _layout(max(r.ops_per_second for r in roofs), min(_rates(products, whole, published, measured)))
        ),
        alt=_alt(roof, products, whole, published, measured) + f" {text}.",
        title=text,
        subtitle=legend(*entries),
        height=height,
        l=78,
        r=24,
    )


def _alt(
    roof: Roof,
    products: Products,
    whole: RooflinePoint,
    published: Sequence[RooflinePoint],
    measured: Sequence[RooflinePoint],
) -> str:
    waiting = products.waiting_under(roof)
    marks = [
        f"{kind.capitalize()}: {m.name} {format_si(m.ops_per_second, 'op/s')}."
        for kind, result in (("published", published), ("measured", measured))
        for m in result
    ]
    return " ".join(
        [
            f"Roofline of {roof.name}: {format_si(roof.ops_per_second, 'op/s')} at most, "
            f"{format_si(roof.bytes_per_second, 'B/s')} from memory; they meet at "
            f"{roof.ops_per_second / roof.bytes_per_second:,.0f} operations per byte.",
            f"{int(waiting.sum()):,} of {len(waiting):,} modelled products wait for memory; the whole step does "
            f"{format_si(whole.ops_per_second, 'op/s')}.",
            *marks,
        ]
    )


def _rates(products: Products, whole: RooflinePoint, *marks: Sequence[RooflinePoint]) -> list[float]:
    """Operations a second of everything that is drawn under the roofs."""
    rates = [mark.ops_per_second if mark.low is None else mark.low for each in marks for mark in each]
    return [*products.ops_per_second.tolist(), whole.ops_per_second, *rates]


def _layout(best: float, least: float) -> dict[str, Any]:
    """From below the slowest product to a little above the highest roof, on the first axis that has room for it."""
    depth = DEPTHS[0] if np.log10(best / least) < DEPTHS[0] - 0.1 else DEPTHS[1]
    low, high = (np.log10(best) + np.array([-depth, 0.35])).tolist()
    ticks = axes.decade_ticks(low, high, lambda rate: format_si(rate, "", 1))
    ticks |= {"tickvals": 10.0 ** ticks["tickvals"]}
    left, right = (float(np.log10(end)) for end in SPAN)
    plain = {"dtick": 1, "exponentformat": "none", "separatethousands": True}
    return {
        "xaxis": axes.axis(left, right, "operations per byte", type="log", **plain),
        "yaxis": axes.axis(low, high, "operations a second", type="log", **ticks),
    }


def _curve(roof: Roof) -> tuple[np.ndarray, np.ndarray]:
    x = np.array([SPAN[0], np.clip(roof.ops_per_second / roof.bytes_per_second, *SPAN), SPAN[1]])
    return x, roof.at(x)


def _lines(roofs: Sequence[Roof]) -> dict[str, Any]:
    """The thin roofs as one trace, with gaps between."""
    curves = [_curve(roof) for roof in roofs] or [(np.empty(0), np.empty(0))]
    x, y = (traces.joined(parts) for parts in zip(*curves, strict=True))
    return traces.reference("other roofs", x, y, style.GREY, "dot")


def _line(roof: Roof) -> dict[str, Any]:
    hover = f"roof of {roof.name}<br>%{{x:,.4g}} operations per byte<br>%{{y:.3s}} operations a second at most"
    return traces.line("roof", *_curve(roof), traces.stroke(style.GREY, 3), hover)


def _names(roofs: Sequence[Roof], chosen: int) -> dict[str, Any]:
    """The names above their roofs, at the right; roofs too near each other for that share a line, from the top."""
    kept: list[tuple[float, str]] = []
    for i, roof in sorted(enumerate(roofs), key=lambda pair: -pair[1].ops_per_second):
        name = f"<b>{roof.name}</b>" if i == chosen else roof.name
        if kept and np.log10(kept[-1][0] / roof.ops_per_second) <= MIN_SPACING:
            kept[-1] = (kept[-1][0], f"{kept[-1][1]}, {name}")
        else:
            kept.append((roof.ops_per_second, name))
    y, texts = np.array([y for y, _ in kept]), [text for _, text in kept]
    return traces.words("names", np.full(len(kept), SPAN[1]), y, texts, "top left")


def _squares(products: Products) -> dict[str, Any]:
    """The products, those that fall together as one."""
    keys = np.stack([np.log2(products.intensity), np.log2(products.ops_per_second)]).round(2)
    _, first, where = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    where = where.reshape(-1)
    seconds = np.bincount(where, products.seconds, len(first))
    shares = seconds / max(seconds.sum(), 1e-30)
    count = np.bincount(where, minlength=len(first))
    names = [
        f"{products.names[i]} and {n - 1} more" if n > 1 else products.names[i]
        for i, n in zip(first, count, strict=True)
    ]
    return traces.points(
        "products, modelled",
        products.intensity[first],
        products.ops_per_second[first],
        traces.marker("square", 4 + 26 * np.sqrt(shares), style.BLUE, opacity=0.8, line={"width": 0}),
        "%{customdata[0]}, modelled<br>%{x:,.3g} operations per byte<br>%{y:.3s} operations a second<br>"
        "%{customdata[1]:.3g} % of all products' time",
        customdata=np.stack([np.array(names, dtype=object), 100 * shares], axis=1),
    )


def _whole_step_point(whole: RooflinePoint) -> dict[str, Any]:
    x, y = np.array([whole.intensity]), np.array([whole.ops_per_second])
    look = traces.marker("square-cross-open", 17, style.BLUE, 2)
    return traces.points(
        "the whole step, modelled", x, y, look, f"{whole.name}, modelled<br>%{{y:.3s}} operations a second"
    )


def _marks(kind: str, marks: Sequence[RooflinePoint], hidden_at: float) -> dict[str, Any]:
    """The "published" or the "measured" marks; without any, one that is hidden at some rate."""
    marks = _chains(marks)
    colour = style.PROVENANCE[kind][1]
    x = np.array([SPAN[1] / 3 if np.isnan(m.intensity) and m.name else m.intensity for m in marks] or [SPAN[0]])
    y = np.array([m.ops_per_second for m in marks] or [hidden_at])
    up = np.array([(m.high or m.ops_per_second) - m.ops_per_second for m in marks])
    down = np.array([m.ops_per_second - (m.low or m.ops_per_second) for m in marks])
    bars = {"type": "data", "symmetric": False, "array": up, "arrayminus": down, "thickness": 2, "width": 5}
    return traces.curve(
        kind,
        x,
        y,
        traces.stroke(colour, 1),
        traces.provenance(kind, 11),
        "%{customdata}, {name}<br>%{y:.3s} operations a second",
        mode="lines+markers+text",
        error_y=bars | {"visible": bool(marks), "color": colour},
        text=np.array(_words_beside_marks(marks) or [""], dtype=str),
        customdata=np.array([m.name for m in marks] or [""], dtype=str),
        textposition=_places(kind, marks),
        textfont={"size": style.NOTE},
        visible=bool(marks),
        meta={"phone": {"mode": "lines+markers"}} if kind == "published" else {},  # the words would lie over the step
    )


def _words_beside_marks(marks: Sequence[RooflinePoint]) -> list[str]:
    """Words beside the marks, in short lines: of those whose names begin alike ("fp32, …") only beside the last."""
    heads = [_head(mark) for mark in marks]
    lines = [" <br> ".join(textwrap.wrap(head, LINE)) for head in heads]
    return [f" {lines[i]} " if head not in heads[i + 1 :] else "" for i, head in enumerate(heads)]


def _head(mark: RooflinePoint) -> str:
    return mark.name.split(",")[0]


def _chains(marks: Sequence[RooflinePoint]) -> list[RooflinePoint]:
    """The marks with a gap wherever a name begins otherwise, so that a line joins those that belong together."""
    result: list[RooflinePoint] = []
    for mark in marks:
        if result and _head(result[-1]) != _head(mark):
            result.append(RooflinePoint("", np.nan, np.nan))
        result.append(mark)
    return result


def _places(kind: str, marks: Sequence[RooflinePoint]) -> np.ndarray:
    """Where words stand: published ones below the products, which follow the roof; measured ones beside their dots.

    A third name stands above, where int8 is as fast as bf16.
    """
    last = {_head(mark): mark.ops_per_second for mark in marks if mark.name}
    heads = list(last)
    above = {head for before, head in pairwise(heads[1:]) if last[head] >= last[before]}
    right = ["top right" if _head(m) in above else "middle right" for m in marks] or ["middle right"]
    return np.array(["bottom left"] * len(right) if kind == "published" else right, dtype=str)
