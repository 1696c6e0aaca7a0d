"""Text that a reader opens with a click: the checked numbers of a lab, which would give its predictions away."""

from __future__ import annotations

import html


class Folded:
    """Parts of a text below a line; a notebook shows the line alone until it is clicked.

    A notebook's own folding of outputs ends when its cells run again, this does not.

    Args:
        parts: tables or text, shown one below the other.
        line: what is shown before the click.

    >>> Folded("55 codes", "0.3 becomes 0.3125", line="The numbers")
    55 codes
    <BLANKLINE>
    0.3 becomes 0.3125
    """

    def __init__(self, *parts: object, line: str = "The numbers, as text") -> None:
        self.parts, self.line = tuple(map(str, parts)), line

    def __repr__(self) -> str:
        """The whole text; this is what tests of a notebook compare."""
        return "\n\n".join(self.parts)

    def _repr_html_(self) -> str:
        text = html.escape(repr(self), quote=False)
        return f"<details><summary>{html.escape(self.line)}</summary><pre>{text}</pre></details>"
