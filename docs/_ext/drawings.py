"""Drawings of arrows between names, which docs/ writes in Mermaid's language, as SVG on the pages of the site.

A browser would have to fetch Mermaid, 3 MB, to draw them. The drawings are small and have no circles, so the classical
method for layers does: names in rows, so that every arrow goes down; places within a row near those that they are
joined to; an arrow past other rows goes through a place of its own in each of them.

Source: K. Sugiyama, S. Tagawa, M. Toda, "Methods for visual understanding of hierarchical system structures", IEEE
Transactions on Systems, Man, and Cybernetics 11(2), 1981: rows, barycenters, dummy vertices.
"""

import html
import itertools
import re
from collections.abc import Mapping, Sequence

ROW, BOX, GAP, SIDE = 64, 26, 14, 8  # heights of a row and of a box, width between boxes, margin; in pixels
LETTER = 7.2  # width of a letter, in pixels
LEGIBLE = 960  # a wider drawing is made smaller on a narrow page, but not below this; then it scrolls
SWEEPS = 24  # down and up through the rows
Arrow = tuple[str, str]


def as_svg(text: str) -> str:
    r"""A drawing as one line of HTML, in the colours of the page around it.

    Args:
        text: "flowchart TD" and lines such as "formats --> tables".

    Raises:
        ValueError: a line of another kind, or a circle of arrows.

    >>> as_svg("flowchart TD\\n    a --> b").count("<rect")
    2
    """
    arrows = arrows_of(text)
    rows, parts = layered(arrows)
    x = places(rows, parts)
    width = max(x[name] + width_of(name) / 2 for row in rows for name in row) + SIDE
    height = ROW * (len(rows) - 1) + BOX + 2 * SIDE
    y = {name: SIDE + BOX / 2 + ROW * k for k, row in enumerate(rows) for name in row}
    lines = "".join(f'<path d="{_curve([(x[name], y[name]) for name in part])}"/>' for part in parts)
    boxes = "".join(_box(name, x[name], y[name]) for row in rows for name in row if not _is_passage(name))
    label = html.escape("; ".join(f"{begin} imports {end}" for begin, end in arrows))
    marker = '<marker id="lp-head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    head = f'<defs>{marker}<path d="M0 0L8 4L0 8z" fill="currentColor" stroke="none"/></marker></defs>'
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" style="min-width:{min(width, LEGIBLE):.0f}px"'
    return (
        f'<div class="lp-drawing" tabindex="0"><svg role="img" aria-label="{label}" {size}>{head}'
        f'<g fill="none" stroke="currentColor" marker-end="url(#lp-head)">{lines}</g>{boxes}</svg></div>'
    )


def arrows_of(text: str) -> list[Arrow]:
    """The arrows of a drawing in Mermaid's language; ValueError for what this module cannot draw."""
    first, *lines = text.strip().splitlines()
    if first.strip() != "flowchart TD" or not lines:
        raise ValueError(f"a drawing begins with 'flowchart TD' and has an arrow, not {first!r}")
    found = [re.fullmatch(r"\s*(\w+) --> (\w+)\s*", line) for line in lines]
    for line, arrow in zip(lines, found, strict=True):
        if arrow is None:
            raise ValueError(f"only lines such as 'a --> b' can be drawn, not {line.strip()!r}")
    return [(arrow[1], arrow[2]) for arrow in found if arrow]


def layered(arrows: Sequence[Arrow]) -> tuple[list[list[str]], list[list[str]]]:
    """The names in rows, and each arrow as the names that it passes; ``"a>b:2"`` is the passage of a → b in row 2.

    >>> layered([("a", "b"), ("b", "c"), ("a", "c")])
    ([['a'], ['b', 'a>c:1'], ['c']], [['a', 'b'], ['b', 'c'], ['a', 'a>c:1', 'c']])
    """
    rank = {name: 0 for arrow in arrows for name in arrow}
    for _ in range(len(rank)):  # the longest way from the top; without circles no way has more arrows than names
        lower = {end: rank[begin] + 1 for begin, end in sorted(arrows, key=lambda each: rank[each[0]])
                 if rank[end] <= rank[begin]}  # fmt: skip
        if not lower:
            break
        rank |= lower
    else:
        raise ValueError(f"the arrows go in a circle: {', '.join(sorted(rank))}")
    rows: list[list[str]] = [[] for _ in range(max(rank.values()) + 1)]
    for name, row in rank.items():
        rows[row].append(name)
    parts = []
    for begin, end in arrows:
        passages = [f"{begin}>{end}:{row}" for row in range(rank[begin] + 1, rank[end])]
        for passage in passages:
            rows[int(passage.rpartition(":")[2])].append(passage)
        parts.append([begin, *passages, end])
    return rows, parts


def places(rows: list[list[str]], parts: Sequence[Sequence[str]]) -> dict[str, float]:
    """The horizontal place of every name and passage, its middle in pixels; ``rows`` are put in order.

    Each goes to the mean of those it is joined to, row by row, down and up again; then none overlaps another.
    """
    above: dict[str, list[str]] = {name: [] for row in rows for name in row}
    below: dict[str, list[str]] = {name: [] for row in rows for name in row}
    for part in parts:
        for begin, end in itertools.pairwise(part):
            above[end].append(begin)
            below[begin].append(end)
    x: dict[str, float] = {}
    for row in rows:
        _spread(row, {name: 0.0 for name in row}, x)
    for sweep in range(SWEEPS):
        joined = above if sweep % 2 == 0 else below
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted = {name: _mean([x[other] for other in joined[name]], x[name]) for name in row}
            row.sort(key=wanted.__getitem__)
            _spread(row, wanted, x)
    shift = SIDE - min(x[name] - width_of(name) / 2 for name in x)
    return {name: place + shift for name, place in x.items()}


def _spread(row: Sequence[str], wanted: Mapping[str, float], x: dict[str, float]) -> None:
    """Put a row as near to the wanted places as its order and its widths allow: the mean of two packings."""
    right: dict[str, float] = {}
    end = -float("inf")
    for name in row:
        right[name] = max(wanted[name], end + GAP + width_of(name) / 2)
        end = right[name] + width_of(name) / 2
    begin = float("inf")
    for name in reversed(row):
        left = min(wanted[name], begin - GAP - width_of(name) / 2)
        begin = left - width_of(name) / 2
        x[name] = (left + right[name]) / 2


def width_of(name: str) -> float:
    """The width of the box of a name; a passage has hardly any."""
    return 2.0 if _is_passage(name) else LETTER * len(name) + 16


def _is_passage(name: str) -> bool:
    return ">" in name


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """A smooth line from below the first point to above the last one."""
    (x, y), *others = points
    text, y = f"M{x:.0f} {y + BOX / 2:.0f}", y + BOX / 2
    for k, (to_x, to_y) in enumerate(others):
        end = to_y - BOX / 2 if k == len(others) - 1 else to_y
        bend = (end - y) / 2
        text += f"C{x:.0f} {y + bend:.0f} {to_x:.0f} {end - bend:.0f} {to_x:.0f} {end:.0f}"
        x, y = to_x, end
    return text


def _box(name: str, x: float, y: float) -> str:
    width = width_of(name)
    place = f'x="{x - width / 2:.0f}" y="{y - BOX / 2:.0f}" width="{width:.0f}" height="{BOX}" rx="5"'
    return f'<rect {place}/><text x="{x:.0f}" y="{y + 4.5:.1f}">{name}</text>'
