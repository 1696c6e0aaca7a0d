"""Where a number in a figure is from: modelled, published or measured, told apart by shape and by word."""

from __future__ import annotations

from typing import Any

from lplab.figures import style

LOOKS = {  # the sign in a key, the symbol of a mark, its colour
    "modelled": ("■", "square", style.BLUE),
    "published": ("◇", "diamond-open", style.VERMILION),
    "measured": ("●", "circle", style.GREEN),
}


def marker(kind: str, size: int = 11) -> dict[str, Any]:
    """The marker of plotly for a kind of number.

    >>> marker("published")["symbol"]
    'diamond-open'
    """
    _, symbol, colour = LOOKS[kind]
    return {"symbol": symbol, "size": size, "color": colour, "line": {"width": 2, "color": colour}}


def entry(kind: str, word: str = "") -> tuple[str, str, str]:
    """The entry of a key (`style.key`): colour, sign, word.

    >>> entry("measured")
    ('#009E73', '●', 'measured')
    """
    sign, _, colour = LOOKS[kind]
    return colour, sign, word or kind
