"""Tables that tests compare and that a reader sees only after a click: also when all cells have just been run."""

from __future__ import annotations

from lplab.figures import Table


class Folded:
    """Some tables behind one line.

    JupyterLab unfolds the output of a cell that runs, so numbers that answer a prediction are not hidden by the cell's
    metadata alone.

    Args:
        tables: at least one.

    Raises:
        ValueError: no table.

    >>> Folded(Table({"bits": [8]}, caption="A format"))
    A format
    bits
       8
    """

    def __init__(self, *tables: Table) -> None:
        if not tables:
            raise ValueError("at least one table is needed")
        self.tables = tables

    def __repr__(self) -> str:
        return "\n\n".join(map(repr, self.tables))

    def _repr_html_(self) -> str:
        """The tables below a line that unfolds them."""
        count = f"{len(self.tables)} table{'s' * (len(self.tables) > 1)}"
        return f"<details><summary>{count}</summary>{''.join(t._repr_html_() for t in self.tables)}</details>"
