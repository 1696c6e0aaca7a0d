"""Words about formats: the captions of rows and panels, and the special codes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lplab import number_text
from lplab.figures import style
from lplab.figures.grid import LISTED_BITS, element_of
from lplab.figures.statistics import name_of


def count_text(fmt: Any, *, plain: bool = False) -> str:
    """How many distinct finite values a format has, as text.

    >>> from lplab import formats
    >>> count_text(formats.get("e2m1")), count_text(formats.get("fp32"))
    ('15 values', '2<sup>32</sup> codes')
    """
    element = element_of(fmt)
    return (
        f"{len(element.values):,} values"
        if element.bits <= LISTED_BITS
        else f"{number_text.power(element.bits, plain=plain)} codes"
    )


def specials_text(fmt: Any) -> str:
    """The codes that are no number, as text.

    >>> from lplab import formats
    >>> specials_text(formats.get("e4m3fn")), specials_text(formats.get("e5m2")), specials_text(formats.get("e2m1"))
    ('2 NaN, no ∞', '6 NaN, ±∞', 'no NaN, no ∞')
    """
    element = element_of(fmt)
    if element.bits > LISTED_BITS:
        return (
            f"{'NaN' if element.has_nan else 'no NaN'}, {'±∞' if getattr(element, 'has_infinity', False) else 'no ∞'}"
        )
    book = element.codebook()
    nan, infinite = int(np.isnan(book).sum()), int(np.isinf(book).sum())
    return f"{nan or 'no'} NaN, {'±∞' if infinite else 'no ∞'}"


def steps(fmt: Any) -> tuple[float, float]:
    """The smallest and the largest distance between neighbouring values.

    >>> from lplab import formats
    >>> steps(formats.get("e4m3fn"))
    (0.001953125, 32.0)
    """
    element = element_of(fmt)
    if element.bits <= LISTED_BITS:
        gaps = np.diff(element.values)
        return float(gaps.min()), float(gaps.max())
    top = element.max
    inside = float(element.quantize(float(np.nextafter(top, 0)), "toward_zero"))
    return element.smallest_subnormal, top - inside


def steps_text(fmt: Any, *, plain: bool = False) -> str:
    """The distances between neighbouring values, as text.

    >>> from lplab import formats
    >>> steps_text(formats.get("e4m3fn"), plain=True), steps_text(formats.get("int8"))
    ('steps 2^−9 to 32', 'steps of 1')
    """
    least, greatest = (number_text.number(s, plain=plain) for s in steps(fmt))
    return f"steps of {least}" if least == greatest else f"steps {least} to {greatest}"


def row_caption(fmt: Any, y: float, around: float | None, nearest: float, pixels: float, dense: bool) -> dict[str, Any]:
    """The text above one row of the number line, as an annotation: ``pixels`` above the row's centre."""
    element = element_of(fmt)
    if around is not None:
        main = f"<b>{name_of(fmt)}</b> · {_rounding_text(around, nearest)}"
        more = f"{count_text(fmt)} · max {number_text.number(element.max)}"
    else:
        main = f"<b>{name_of(fmt)}</b> · {count_text(fmt)} · max {number_text.number(element.max)}"
        more = f"{steps_text(fmt)} · {specials_text(fmt)}"
    if element is not fmt:
        rows, columns = fmt.tile
        more = f"an element's grid, × a scale for each {columns if rows == 1 else f'{rows} × {columns}'}"
    if dense:
        more += " · thick = dense"
    return {
        "text": f"<span style='font-size:{style.TICK}px'>{main}</span><br>{more}",
        "xref": "paper",
        "x": 0,
        "y": y,
        "align": "left",
        "xanchor": "left",
        "yanchor": "bottom",
        "yshift": pixels,
    }


def _rounding_text(x: float, nearest: float) -> str:
    if not math.isfinite(nearest):
        return f"{number_text.number(x)} becomes {number_text.number(nearest)}"
    error = f" ({number_text.signed_percent((nearest - x) / abs(x))})" if x else ""
    return f"{number_text.number(x)} becomes {number_text.number(nearest, digits=6)}{error}"
