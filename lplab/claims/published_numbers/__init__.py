"""The table of published numbers, T01 to T57: inputs, published, ours, the difference, and the verdict.

Our values are computed on demand by the public functions of the library; nothing is stored. A row
graded A or B is a test (tests/claims/published_numbers); one graded C is printed alone. A new row is a new value in a
module.

>>> from lplab.claims import published_numbers
>>> record = published_numbers.get("T01").record()
>>> record["published"], round(record["ours"]), record["verdict"]
(626155, 626155, 'held')
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lplab.claims.published_numbers import chips, compression, footprint, networks, slow_links
from lplab.claims.published_numbers.numbers_page import as_csv, as_page, as_text
from lplab.claims.published_numbers.published_number import GRADES, OUTSIDE, Published
from lplab.lookup import closest_names

__all__ = ["GRADES", "OUTSIDE", "ROWS", "Published", "as_csv", "as_page", "as_text", "get", "ids", "records"]
_PARTS = (footprint, compression, networks, chips, slow_links)
ROWS: tuple[Published, ...] = tuple(sorted((row for part in _PARTS for row in part.ROWS), key=lambda row: row.id))
"""All rows in the order of the dossier."""


def ids() -> tuple[str, ...]:
    """The ids of all rows.

    >>> ids()[:3]
    ('T01', 'T02', 'T03')
    """
    return tuple(row.id for row in ROWS)


def get(id_: str) -> Published:
    """The row with this id.

    >>> get("T1")
    Traceback (most recent call last):
    ...
    ValueError: there is no published number 'T1'; did you mean T51 or ...?
    """
    for row in ROWS:
        if row.id.lower() == id_.lower():
            return row
    close = closest_names(id_, ids(), cutoff=0.6)
    hint = f"did you mean {' or '.join(close)}?" if close else f"they go from {ids()[0]} to {ids()[-1]}"
    raise ValueError(f"there is no published number {id_!r}; {hint}")


def records(wanted: Iterable[str] = ()) -> list[dict[str, Any]]:
    """The rows with our values, computed now, as JSON knows them.

    Args:
        wanted: ids; all where there are none.

    >>> [record["verdict"] for record in records(["T02", "T25"])]
    ['held', 'not testable here']
    """
    return [get(id_).record() for id_ in (tuple(wanted) or ids())]
