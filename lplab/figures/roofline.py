"""The roofline: operations a second against operations per byte, with the products of a network under it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import provenance, style
from lplab.figures.roofline_marks import SPAN, marks_trace
from lplab.figures.roofline_marks import RooflineMark as Mark
from lplab.hardware.units import format_si

MIN_SPACING = 0.16  # decades between two roofs from which on both have room for a name


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
    whole: Mark,
    *,
    chosen: int = 0,
    published: Sequence[Mark] = (),
    measured: Sequence[Mark] = (),
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
    >>> roofline([roof], one, Mark("step", 90.0, 98.9e12)).layout.meta["title"]
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
        _whole(whole),
        marks_trace("published", published, roof.ops_per_second),
        marks_trace("measured", measured, roof.ops_per_second),
    ]
    entries = [provenance.entry("modelled", "products and ⊞ step, modelled")]
    entries += [provenance.entry(kind) for kind, there in (("published", published), ("measured", measured)) if there]
    return style.apply_style(
        style.figure(data, _layout(max(r.ops_per_second for r in roofs))),
        alt=_alt(roof, products, whole, published, measured) + f" {text}.",
        title=text,
        subtitle=style.legend(*entries),
        height=height,
        l=78,
        r=24,
    )


def _alt(roof: Roof, products: Products, whole: Mark, published: Sequence[Mark], measured: Sequence[Mark]) -> str:
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
            f"{int(waiting.sum())} of {len(waiting)} modelled products wait for memory; the whole step does "
            f"{format_si(whole.ops_per_second, 'op/s')}.",
            *marks,
        ]
    )


def _layout(best: float) -> dict[str, Any]:
    """From four decades below the highest roof to a little above it."""
    low, high = (np.log10(best) + np.array([-4.0, 0.35])).tolist()
    ticks = style.decade_ticks(low, high, lambda rate: format_si(rate, "", 1))
    ticks |= {"tickvals": 10.0 ** ticks["tickvals"]}
    return {
        "xaxis": {"type": "log", "range": [float(np.log10(v)) for v in SPAN], "dtick": 1}
        | {"title": {"text": "operations per byte"}, "exponentformat": "none", "separatethousands": True},
        "yaxis": {"type": "log", "range": [low, high], "title": {"text": "operations a second"}} | ticks,
    }


def _curve(roof: Roof) -> tuple[np.ndarray, np.ndarray]:
    x = np.array([SPAN[0], np.clip(roof.ops_per_second / roof.bytes_per_second, *SPAN), SPAN[1]])
    return x, roof.at(x)


def _lines(roofs: Sequence[Roof]) -> dict[str, Any]:
    """The thin roofs as one trace, with gaps between."""
    curves = [_curve(roof) for roof in roofs]
    gap = np.array([np.nan])
    x, y = (np.concatenate([part for c in curves for part in (c[axis], gap)]) if curves else gap for axis in (0, 1))
    return style.line("other roofs", x, y, style.GREY, "dot")


def _line(roof: Roof) -> dict[str, Any]:
    x, y = _curve(roof)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "roof",
        "x": x,
        "y": y,
        "line": {"width": 3, "color": style.GREY},
        "hovertemplate": "%{x:,.4g} operations per byte<br>%{y:.3g} a second at most<extra></extra>",
    }


def _names(roofs: Sequence[Roof], chosen: int) -> dict[str, Any]:
    """The names above their roofs, at the right; roofs too near each other for that share a line, from the top."""
    kept: list[tuple[float, str]] = []
    for i, roof in sorted(enumerate(roofs), key=lambda pair: -pair[1].ops_per_second):
        name = f"<b>{roof.name}</b>" if i == chosen else roof.name
        if kept and np.log10(kept[-1][0] / roof.ops_per_second) <= MIN_SPACING:
            kept[-1] = (kept[-1][0], f"{kept[-1][1]}, {name}")
        else:
            kept.append((roof.ops_per_second, name))
    return {
        "type": "scatter",
        "mode": "text",
        "name": "names",
        "x": np.full(len(kept), SPAN[1]),
        "y": np.array([y for y, _ in kept]),
        "text": np.array([text for _, text in kept], dtype=str),
        "textposition": "top left",
        "textfont": {"size": style.NOTE},
        "hoverinfo": "skip",
    }


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
    trace_style = {"symbol": "square", "color": style.BLUE, "opacity": 0.65, "line": {"width": 0}}
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "products, modelled",
        "x": products.intensity[first],
        "y": products.ops_per_second[first],
        "marker": trace_style | {"size": 4 + 26 * np.sqrt(shares)},
        "customdata": np.stack([np.array(names, dtype=object), 100 * shares], axis=1),
        "hovertemplate": "%{customdata[0]}, modelled<br>%{x:,.3g} operations per byte<br>%{y:.3g} a second<br>"
        "%{customdata[1]:.3g} % of all products' time<extra></extra>",
    }


def _whole(whole: Mark) -> dict[str, Any]:
    trace_style = {
        "symbol": "square-cross-open",
        "size": 17,
        "color": style.BLUE,
        "line": {"width": 2, "color": style.BLUE},
    }
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "the whole step, modelled",
        "x": np.array([whole.intensity]),
        "y": np.array([whole.ops_per_second]),
        "marker": trace_style,
        "hovertemplate": f"{whole.name}, modelled<br>%{{y:.3g}} operations a second<extra></extra>",
    }
