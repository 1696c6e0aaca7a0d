"""The small figure of a verdict card: one row of dots for each number of a claim, as HTML with SVG inside.

A row is a label, a strip of SVG and the numbers as text. Positions in a strip are percentages, so that it takes any
width and no text is ever scaled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from lplab.figures.style import PROVENANCE

if TYPE_CHECKING:
    from lplab.claims import Drawing, DrawnRow

SIDE = 4.0  # per cent of a strip that stay free on each side, so that no mark is cut
LABEL = 24.0  # per cent of a strip that the number at one of its ends may take
SIGNS = {"measured": "●", "modelled": "■", "published": "◇"}  # the shapes of the marks, as text
STRIP = 20  # pixels, the height of a strip


def decimals(values: Sequence[float]) -> int:
    """How many decimals show three digits of the largest value, two where it is below 1.

    >>> decimals([3.36, 4.3]), decimals([0.05]), decimals([626_155.0]), decimals([0.0])
    (2, 3, 0, 0)
    """
    largest = max(abs(value) for value in values)
    if not largest:
        return 0
    exponent = math.floor(math.log10(largest))
    return max(0, (2 if exponent >= 0 else 1) - exponent)


def number(value: float, digits: int) -> str:
    """A number with a comma for thousands and a true minus sign.

    >>> number(-1234.5, 1), number(-0.0001, 2)
    ('−1,234.5', '0.00')
    """
    text = f"{value:,.{digits}f}"
    return text.lstrip("-") if not float(text.replace(",", "")) else text.replace("-", "−")


def low_to_high(values: Sequence[float], digits: int) -> str:
    """The least and the largest value, or the one that there is.

    >>> low_to_high([3.0, 1.0, 2.0], 0), low_to_high([7.0], 1), low_to_high([-0.5, 0.5], 1)
    ('1–3', '7.0', '−0.5 to 0.5')
    """
    low, high = number(min(values), digits), number(max(values), digits)
    if low == high:
        return low
    return f"{low} to {high}" if min(values) < 0 else f"{low}–{high}"


def row_text(row: DrawnRow, drawing: Drawing) -> tuple[str, str]:
    """Our middle with its range in brackets, or the range alone, and the published number, both as text.

    Args:
        row: the values.
        drawing: says which middle it is.

    >>> from lplab.claims import Drawing, DrawnRow
    >>> row = DrawnRow("8 bits", np.array([2.0, 4.0, 3.5]), (1.4, 1.5))
    >>> [row_text(row, Drawing("error, %", dict, statistic=s))[0] for s in ("median", "mean", "range")]
    ['3.50 (2.00–4.00)', '3.17 (2.00–4.00)', '2.00–4.00']
    """
    digits = decimals(row.values.tolist())
    middle, between = drawing.middle(row), low_to_high(row.values.tolist(), digits)
    theirs = "–".join(f"{value:,.10g}" for value in sorted({min(row.theirs), max(row.theirs)})) if row.theirs else ""
    ours = between if middle is None else number(middle, digits)
    return ours if between == ours else f"{ours} ({between})", theirs


class Axis:
    """The axis that all rows of a drawing share: where a value lies, in per cent of the width of a strip.

    Args:
        rows: all of them.
        drawing: says whether the axis is logarithmic, what it covers at least, and whether 0 means no difference.
    """

    def __init__(self, rows: Sequence[DrawnRow], drawing: Drawing) -> None:
        values = [*(drawing.axis or ()), *(value for row in rows for value in (*row.values.tolist(), *row.theirs))]
        self.logarithmic = drawing.logarithmic and any(value > 0 for value in values)
        if self.logarithmic:
            values = [value for value in values if value > 0]
        self.low, self.high = min(values), max(values)
        self.differences = drawing.differences or self.low < 0 < self.high
        if not self.logarithmic and 0 < self.low < 0.4 * self.high:
            self.low = 0.0  # far from zero the axis is cut, so that the seeds can be told apart

    def place(self, value: float) -> float:
        """Per cent from the left."""
        low, high = self.low, self.high
        if self.logarithmic:
            low, high, value = (math.log(max(x, self.low)) for x in (low, high, value))
        return 50.0 if high == low else SIDE + (100 - 2 * SIDE) * (value - low) / (high - low)

    @property
    def ends(self) -> tuple[str, str]:
        """The two ends of a range as text."""
        if self.logarithmic:  # each end has its own digits
            return number(self.low, decimals([self.low])), number(self.high, decimals([self.high]))
        digits = decimals([self.high - self.low, self.high]) if self.low else 0
        return number(self.low, digits), number(self.high, decimals([self.high]) if not self.low else digits)

    @property
    def zero(self) -> float | None:
        """Where zero lies, in per cent from the left, if it is on the axis and means no difference."""
        on_axis = not self.logarithmic and self.low <= 0 <= self.high
        return self.place(0.0) if on_axis and self.differences else None

    @property
    def numbers_html(self) -> str:
        """The numbers below the strips: both ends, and zero where it lies; an end beside zero has none."""
        low, high = self.ends
        if self.zero is None:
            return f"<span>{low}</span><span>{high}</span>"
        low, high = low * (self.zero > LABEL), high * (self.zero < 100 - LABEL)
        return f'<span>{low}</span><span class="lplab-zero" style="left:{self.zero:.2f}%">0</span><span>{high}</span>'


def strip(row: DrawnRow, axis: Axis, ours: str) -> str:
    """The marks of a row as SVG: dots of ours, diamonds of theirs, each joined by a thin line.

    Args:
        row: the values.
        axis: of all rows.
        ours: "measured" or "modelled", which decides shape and colour.
    """
    colour, their_colour = PROVENANCE[ours][1], PROVENANCE["published"][1]
    parts = [f'<line x2="100%" y1="{STRIP - 1}" y2="{STRIP - 1}" stroke="currentColor" stroke-opacity="0.2"/>']
    if axis.zero is not None:
        zero = f"{axis.zero:.2f}%"
        parts.append(f'<line x1="{zero}" x2="{zero}" y1="2" y2="{STRIP}" stroke="currentColor" stroke-opacity="0.5"/>')
    parts += _span(row.theirs, axis, STRIP - 6, their_colour) + _span(row.values, axis, 8, colour)
    for value in row.theirs:
        parts.append(
            _mark(
                axis.place(value),
                STRIP - 6,
                "M-5 0L0-5L5 0L0 5Z",
                f'fill="none" stroke="{their_colour}" stroke-width="1.5"',
            )
        )
    places = [axis.place(value) for value in row.values]
    if ours == "measured":
        marks = [f'<circle cx="{place:.2f}%" cy="8" r="4"/>' for place in places]
    else:
        marks = [_mark(place, 8, "M-4-4H4V4H-4Z", "") for place in places]
    parts += [f'<g fill="{colour}" fill-opacity="0.9">', *marks, "</g>"]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="100%" height="{STRIP}" aria-hidden="true" focusable="false">'
        f"{''.join(parts)}</svg>"
    )


def _span(values: Sequence[float] | np.ndarray, axis: Axis, y: int, colour: str) -> list[str]:
    if len(values) < 2:
        return []
    ends = (axis.place(float(min(values))), axis.place(float(max(values))))
    return [f'<line x1="{ends[0]:.2f}%" x2="{ends[1]:.2f}%" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="1.5"/>']


def _mark(x: float, y: int, path: str, paint: str) -> str:
    # a path cannot have percentages: the SVG around it is moved instead
    return f'<svg x="{x:.2f}%" y="{y}" overflow="visible"><path d="{path}" {paint}/></svg>'


def figure_html(drawing: Drawing, rows: Sequence[DrawnRow], ours: str) -> str:
    """A drawing as an HTML figure: rows of label, marks and numbers, an axis, a legend; the numbers as its label.

    Args:
        drawing: gives the heading and the kind of axis.
        rows: of the stored numbers (:meth:`lplab.claims.Drawing.drawn`).
        ours: "measured" or "modelled".
    """
    axis = Axis(rows, drawing)
    lines, spoken = [], []
    for row in rows:
        mine, theirs = row_text(row, drawing)
        spoken.append(f"{row.label} {mine}" + f", theirs {theirs}" * bool(theirs))
        published = f' <span class="lplab-theirs">{SIGNS["published"]}&#160;{escape(theirs)}</span>' * bool(theirs)
        lines.append(
            f'<div class="lplab-row"><span>{escape(row.label)}</span>{strip(row, axis, ours)}'
            f"<span>{escape(mine)}{published}</span></div>"
        )
    kind = " (logarithmic)" if axis.logarithmic else ""
    lines.append(f'<div class="lplab-row lplab-axis"><span></span><span>{axis.numbers_html}</span><span></span></div>')
    words = drawing.beside(rows)
    label = f"{drawing.unit}{kind}{f', {words}' * bool(words)}: {'; '.join(spoken)}."
    named = f' <span class="lplab-beside">{escape(words)}</span>' * bool(words)
    return (
        f'<figure role="img" aria-label="{escape(label)}"><figcaption>{escape(drawing.unit)}{kind}{named}</figcaption>'
        f"{''.join(lines)}</figure>"
    )


def legend_html(ours: str, published: bool, over: Sequence[str] = ()) -> str:
    """What the marks mean, in one line.

    Args:
        ours: "measured" or "modelled".
        published: whether any published number is drawn.
        over: what the marks of a row are of, where there are several: each figure's.
    """
    dots = f", one dot for each of the {' or '.join(dict.fromkeys(over))}" * bool(over)
    text = "ours, computed by a model" if ours == "modelled" else f"ours{dots}"
    marks = [(PROVENANCE[ours][1], SIGNS[ours], text)]
    if published:
        marks.append((PROVENANCE["published"][1], SIGNS["published"], "theirs"))
    items = (f'<span><span style="color:{colour}">{sign}</span> {words}</span>' for colour, sign, words in marks)
    return f'<div class="lplab-legend">{" ".join(items)}</div>'
