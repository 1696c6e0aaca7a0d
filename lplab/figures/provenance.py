"""Where a number in a figure is from: modelled, published or measured, distinguished by shape and by word."""

from __future__ import annotations

from typing import Any

from lplab.figures import style

STYLES = {  # the sign in a legend, the symbol of a mark, its colour
    "modelled": ("■", "square", style.BLUE),
    "published": ("◇", "diamond-open", style.VERMILION),
    "measured": ("●", "circle", style.GREEN),
}


def marker(kind: str, size: int = 11) -> dict[str, Any]:
    """The marker of plotly for a kind of number.

    >>> marker("published")["symbol"]
    'diamond-open'
    """
    _, symbol, colour = STYLES[kind]
    return {"symbol": symbol, "size": size, "color": colour, "line": {"width": 2, "color": colour}}


def entry(kind: str, word: str = "") -> tuple[str, str, str]:
    """The entry of a key (`style.legend`): colour, sign, word.

    >>> entry("measured")
    ('#009E73', '●', 'measured')
    """
    sign, _, colour = STYLES[kind]
    return colour, sign, word or kind
