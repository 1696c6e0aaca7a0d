"""What a language model writes under a recipe, above an axis with its loss and those of other recipes."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from lplab.figures import axes, style, traces
from lplab.figures.legend import entry, legend

LETTERS = 40  # of a line, so that it fits a phone
LINES = 8  # of a text; what is longer ends in an ellipsis
BELOW = 0.32  # of the height, for the rows of marks below the text
NOTHING = "(nothing)"


def written_text(
    text: str,
    losses: Mapping[str, float],
    chosen: str,
    *,
    unrounded: float,
    limits: tuple[float, float],
    title: str = "",
    height: int = 340,
) -> go.Figure:
    """A text in lines, and below it a row for each recipe, with a mark at its loss; the chosen one is named.

    Args:
        text: what the model writes.
        losses: in bits a token, by recipe; finite.
        chosen: the recipe that the text is of.
        unrounded: the loss of the model as it is.
        limits: ends of the axis; a loss beyond stands at its end.
        title: the point that it makes; by default what the recipe costs.
        height: in pixels.

    Raises:
        ValueError: the chosen recipe has no loss, or a loss is not finite.

    >>> fig = written_text("Paris.", {"3 bits": 6.5, "2 bits": 12.0}, "3 bits", unrounded=5.5, limits=(5, 16))
    >>> fig.layout.meta["title"]
    '3 bits: a loss of 6.50 bits a token, 1.00 more than unrounded'
    """
    values = np.array(list(losses.values()), np.float64)
    if chosen not in losses or not np.isfinite(values).all():
        raise ValueError(f"finite losses are needed, one for {chosen!r}, got {dict(losses)}")
    loss = losses[chosen]
    low, high = limits
    point = title or f"{chosen}: a loss of {loss:.2f} bits a token, {loss - unrounded:.2f} more than unrounded"
    names, at = np.array(list(losses), dtype=str), np.clip(values, low, high)
    rows = BELOW * (1 - (np.arange(len(names)) + 0.5) / len(names))
    is_here = names == chosen
    hover = "%{text}<br>{name} %{customdata:.2f} bits a token"
    grey, here = (
        traces.points(
            label, at[which], rows[which], look, hover, text=names[which], customdata=values[which],
            cliponaxis=False,  # a mark at the end of the axis is whole
        )
        for label, which, look in (
            ("other recipes", ~is_here, traces.marker("circle-open", 9, style.GREY, edge=2)),
            ("this recipe", is_here, traces.marker("diamond", 13, style.VERMILION)),
        )
    )  # fmt: skip
    named = traces.words(  # the others' names and losses would answer what a reader is to try
        "name",
        at[is_here],
        rows[is_here],
        [f"   {chosen}   "],
        "middle right" if at[is_here][0] < (low + high) / 2 else "middle left",
        cliponaxis=False,
    )
    as_it_is = traces.line(
        "unrounded", np.full(2, unrounded), np.array([0.0, BELOW]), traces.stroke(style.GREEN, 3), "unrounded %{x:.2f}"
    )
    words = traces.words(
        "what the model writes",
        np.array([low]),
        np.full(1, 0.97),  # its first line is whole
        ["<br>".join(html.escape(line, quote=False) for line in lines_of(text))],
        "bottom right",
        cliponaxis=False,
    )
    words["textfont"] = {"size": style.BODY}
    layout = {
        "xaxis": axes.axis(low, high, "loss (bits a token)", nticks=7, showgrid=False),
        "yaxis": {"range": [0, 1], "showticklabels": False, "ticks": "", "showgrid": False, "showline": False},
    }
    told = "; ".join(f"{name} {value:.2f}" for name, value in losses.items())
    return style.apply_style(
        style.figure([as_it_is, grey, here, named, words], layout),
        alt=f"With {chosen} the model writes: {plain(text)} Loss in bits a token, {unrounded:.2f} unrounded: {told}.",
        title=point,
        subtitle=legend(entry(here), entry(grey), entry(as_it_is, sign="┃")),
        height=height,
        l=24,
        t=66,
    )


def plain(text: str) -> str:
    r"""A text on one line, its line ends as arrows.

    >>> plain("a\n\nb"), plain("")
    ('a ↵ b', '(nothing)')
    """
    return " ↵ ".join(part for part in (" ".join(line.split()) for line in text.splitlines()) if part) or NOTHING


def lines_of(text: str) -> list[str]:
    """A text in lines that fit a phone, at most so many.

    >>> lines_of("word " * 100)[-1]
    'word word word word word word word …'
    """
    return textwrap.wrap(plain(text), LETTERS, max_lines=LINES, placeholder=" …")
