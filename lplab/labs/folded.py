"""What a reader opens with a click: tables and checked numbers of a lab, which would give its questions away."""

from __future__ import annotations

import html
from typing import Any


class Folded:
    """Tables and texts below a line; a notebook shows the line alone until it is clicked.

    A notebook's own folding of outputs ends when its cells run again, this does not.

    Args:
        parts: at least one table or text, shown one below the other.
        line: what is shown before the click.

    Raises:
        ValueError: no part.

    >>> Folded("55 codes", "0.3 becomes 0.3125")
    55 codes
    <BLANKLINE>
    0.3 becomes 0.3125
    """

    def __init__(self, *parts: object, line: str = "The numbers") -> None:
        if not parts:
            raise ValueError("at least one table or text is needed")
        self.parts, self.line = parts, line

    def __repr__(self) -> str:
        """The whole text; this is what tests of a notebook compare."""
        return "\n\n".join(map(str, self.parts))

    def _repr_html_(self) -> str:
        """The parts below a line that unfolds them."""
        shown = [
            part._repr_html_() if hasattr(part, "_repr_html_") else f"<pre>{html.escape(str(part), quote=False)}</pre>"
            for part in self.parts
        ]
        return f"<details><summary>{html.escape(self.line)}</summary>{''.join(shown)}</details>"


def after_questions(table: Any) -> Folded:
    """A table below an explorer, folded, as it answers the guided questions that are still open.

    Args:
        table: what `Folded` takes.

    >>> after_questions("55 codes").line
    'A table that answers the questions above: open it after the last one'
    """
    return Folded(table, line="A table that answers the questions above: open it after the last one")
