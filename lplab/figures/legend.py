"""The legend of a figure, made from its traces: a sign and a word for each, in the subtitle.

It stays on one line where plotly's own legend would wrap, and its signs are those of the lines, points and bars.
"""

from __future__ import annotations

from typing import Any

SIGNS = {  # of lines by their dash, of points by their symbol
    "solid": "━",
    "dash": "╍",
    "dot": "┅",
    "dashdot": "┉",
    "longdash": "╍",
    "circle": "●",
    "square": "■",
    "diamond": "◆",
    "triangle-up": "▲",
    "cross": "✚",
    "circle-open": "○",
    "square-open": "□",
    "diamond-open": "◇",
    "star": "★",
    "star-open": "☆",
    "x": "×",
    "x-thin": "×",
}
PATTERNS = {"": "■", ".": "▦", "/": "▨", "x": "▩", "|": "▥", "-": "▤"}  # of bars


def entry(trace: dict[str, Any], word: str = "", sign: str = "") -> tuple[str, str, str]:
    """What the legend says of a trace: its colour, its sign and a word, by default its name.

    Args:
        trace: from :mod:`lplab.figures.traces`, in one colour. The sign of a curve with points is that of its points.
        word: in place of the name.
        sign: in place of the trace's own.

    >>> import numpy as np
    >>> from lplab.figures import style, traces
    >>> x = np.zeros(1)
    >>> entry(traces.line("sum", x, x, traces.stroke(style.BLUE, 2, "dash")))
    ('#0072B2', '╍', 'sum')
    >>> entry(traces.points("yours", x, x, traces.marker("x", 9, style.PINK)), "different")
    ('#CC79A7', '×', 'different')
    >>> entry(traces.bars("flushed", x, x, style.OUTCOME_STYLES["flushed"]))
    ('#D55E00', '▨', 'flushed')
    """
    if trace["type"] == "bar":
        look, signs, of = trace["marker"], PATTERNS, trace["marker"].get("pattern", {}).get("shape", "")
    elif "markers" in trace["mode"]:
        look, signs, of = trace["marker"], SIGNS, trace["marker"].get("symbol", "circle")
    else:
        look, signs, of = trace["line"], SIGNS, trace["line"].get("dash", "solid")
    return look["color"], sign or signs[of], word or trace["name"]


def legend(*entries: tuple[str, str, str], per_line: int = 0) -> str:
    """The legend as text: colour, sign and word of each entry, from :func:`entry` or, for what is no trace, by hand.

    Args:
        entries: of the traces that are worth a word, in the order of reading.
        per_line: entries on a line, where not all have room on one; 0 puts all on one.

    >>> legend(("#0072B2", "┃", "normal"))
    "<span style='color:#0072B2'>┃</span> normal"
    >>> legend(("#0072B2", "┃", "a"), ("#0072B2", "┃", "b"), per_line=1).count("<br>")
    1
    """
    texts = [f"<span style='color:{colour}'>{sign}</span> {word}" for colour, sign, word in entries]
    size = per_line or max(len(texts), 1)
    return "<br>".join("    ".join(texts[i : i + size]) for i in range(0, len(texts), size))
