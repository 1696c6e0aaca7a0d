"""A small table with a caption: HTML in a notebook, aligned text elsewhere, a data frame on request."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from lplab import number_text

if TYPE_CHECKING:
    import pandas as pd

Format = str | Callable[[Any], str]

_CELL = "padding:2px 10px 2px 0;border:0;text-align:"
_RULE = "border-bottom:1px solid var(--jp-border-color1, #bbb)"


def _edge(side: str, away: str) -> tuple[str, str]:
    """A cover that moves with the table, and the shadow below it that stays: seen where the table goes on."""
    place = "0" if side == "left" else "100%"
    cover = f"linear-gradient(to {away},var(--jp-layout-color0) 40%,transparent) {place}/40px 100% no-repeat local"
    return cover, f"linear-gradient(to {away},rgba(127,127,127,.6),transparent) {place}/12px 100% no-repeat scroll"


# JupyterLab's colour has no fallback: where it is missing, the shadows would lack their covers, and there are none.
_SCROLLS = "overflow-x:auto;background:" + ",".join(
    layer for pair in zip(_edge("left", "right"), _edge("right", "left"), strict=True) for layer in pair
)


_PHONE = 230  # pixels: a table that may be wider can be wider than the page of a phone
_LETTER, _GAP = 7, 10  # pixels: about the width of a letter in a cell, and the space beside it

_STYLE = (
    "<style>.lplab-scroll{display:none}@container lplab-wider (min-width:1px){.lplab-scroll{display:block}}</style>"
)
# The block is as wide as the page where the table is wider than the page, and has no width where the table fits.
# The line has the focus, not what scrolls: a click on a number then leaves Jupyter its shortcuts.
_SCROLL = (
    '<caption style="padding:0;text-align:left;color:inherit"><div style="container:lplab-wider/inline-size;'
    'position:sticky;left:0;width:calc((100% - 100cqw)*999);max-width:100cqw"><span class="lplab-scroll" role="note"'
    ' tabindex="0" data-lm-suppress-shortcuts="true">Scroll sideways to see all columns.</span></div>'
    "</caption>"
)


class DataTable:
    """Columns of equal length, shown with a caption and sensible digits.

    Args:
        columns: the heading of each column, with its unit, and its values from the top: a sequence or an array.
        caption: one sentence above the table; it says what the reader sees.
        formats: for a column a format of Python, such as ".1f" or ".0%", or a function that makes text of a value.
            By default whole numbers are shown in full, and others with three digits.

    Raises:
        ValueError: columns of different lengths, no column, or a format for a column that is not there.

    >>> columns = {"format": ["e4m3fn", "e5m2"], "lost": [0.7251, 0.0102]}
    >>> DataTable(columns, caption="Two formats", formats={"lost": ".0%"})
    Two formats
    format  lost
    e4m3fn  73 %
    e5m2     1 %
    """

    def __init__(
        self, columns: Mapping[str, Any], caption: str = "", formats: Mapping[str, Format] | None = None
    ) -> None:
        self.columns = {name: list(values) for name, values in columns.items()}
        self.caption, self.formats = caption, dict(formats or {})
        lengths = {name: len(values) for name, values in self.columns.items()}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"columns must have the same length, got {lengths or 'no column'}")
        if unknown := self.formats.keys() - self.columns.keys():
            raise ValueError(
                f"formats names {', '.join(sorted(unknown))}, but the columns are {', '.join(self.columns)}"
            )

    def to_frame(self) -> pd.DataFrame:
        """The values, not rounded, as a data frame; needs pandas."""
        import pandas

        return pandas.DataFrame(self.columns)

    def rows(self) -> list[list[str]]:
        """The cells as text, row by row.

        >>> DataTable({"bits": [4, 16], "step": [0.5, 2.0**-10]}).rows()
        [['4', '0.5'], ['16', '2^−10']]
        """
        shown = [[_text(value, self.formats.get(name)) for value in values] for name, values in self.columns.items()]
        return [list(row) for row in zip(*shown, strict=True)]

    def __repr__(self) -> str:
        """Aligned text: words at the left, numbers at the right."""
        lines = [list(self.columns), *self.rows()]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.columns))]
        sides = [str.ljust if side == "left" else str.rjust for side in self._sides()]
        texts = [
            "  ".join(side(cell, width) for side, cell, width in zip(sides, line, widths, strict=True)).rstrip()
            for line in lines
        ]
        return "\n".join([*([self.caption] if self.caption else []), *texts])

    def _repr_html_(self) -> str:
        """The table for a notebook; it follows the theme, and scrolls sideways alone where the page is narrow.

        The caption stands outside of what scrolls, so that it wraps where the page ends. A shadow marks the side on
        which the table goes on: many browsers show no scroll bar. A table that may be wider than the page of a phone
        has a line that says so, too; the line is shown only where the table is wider than its place. Once Tab
        has reached that line, the arrow keys scroll the table.
        """
        sides = self._sides()
        head = "".join(
            f'<th scope="col" style="{_CELL}{side};{_RULE}">{html.escape(name)}</th>'
            for name, side in zip(self.columns, sides, strict=True)
        )
        body = ""
        for first, *others in self.rows():
            cells = [f'<th scope="row" style="{_CELL}{sides[0]};font-weight:400">{html.escape(first)}</th>']
            for text, side in zip(others, sides[1:], strict=True):
                cells.append(f'<td style="{_CELL}{side};white-space:nowrap">{html.escape(text)}</td>')
            body += f"<tr>{''.join(cells)}</tr>"
        caption = html.escape(self.caption)
        top = f'<figcaption style="margin-bottom:4px;font-size:13px;line-height:1.5">{caption}</figcaption>'
        label = f' aria-label="{caption}"' if caption else ""
        style, frame, said = "", f'<div style="{_SCROLLS}">', ""
        if (width := self._least_width()) > _PHONE:
            style, said = _STYLE, _SCROLL
            frame = (
                f'<div role="group" aria-label="{caption or "Table"}" style="{_SCROLLS};container-type:inline-size;'
                f'contain-intrinsic-width:{width}px">'  # its width in a row of widgets
            )
        return (
            f'<figure style="margin:4px 0 8px;color:var(--jp-content-font-color1, inherit)">'
            f"{style}{top if caption else ''}{frame}"
            f'<table{label} style="border-collapse:collapse;margin:0;font-size:13px;line-height:1.5">{said}'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></figure>"
        )

    def _least_width(self) -> int:
        """About how many pixels the table needs: headings and the first column break between words, numbers do not."""
        rows, letters = self.rows(), 0
        for place, name in enumerate(self.columns):
            cells = [row[place] for row in rows]
            parts = [*name.split(), *(cells if place else " ".join(cells).split())]
            letters += max(map(len, parts), default=0)
        return _LETTER * letters + _GAP * len(self.columns)

    def _sides(self) -> list[str]:
        """Where the text of each column stands: "right" for numbers, "left" for words."""
        return [
            "right" if all(isinstance(value, Real) for value in values) else "left" for values in self.columns.values()
        ]


def _text(value: Any, shown_as: Format | None) -> str:
    if callable(shown_as):
        return shown_as(value)
    if shown_as is not None and isinstance(value, Real) and math.isfinite(value):
        if shown_as.endswith("%"):
            return f"{100 * value:{shown_as[:-1] + 'f'}} %".replace("-", number_text.MINUS)
        return f"{value:{shown_as}}".replace("-", number_text.MINUS)
    if isinstance(value, bool) or not isinstance(value, Real):
        return str(value)
    if isinstance(value, Integral):
        return f"{value:,}".replace("-", number_text.MINUS)
    return number_text.number(float(value), digits=3, plain=True)
