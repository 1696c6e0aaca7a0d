"""Tables of published numbers: CSV files under ``data/hardware``, in which every number has a source and a grade.

Lines that begin with ``#`` are comments. A user's own file has the same columns.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path

GRADES = {
    "read": "read in the source itself",
    "second-hand": "read where another work quotes the source",
    "recalled": "from memory: never the truth of a test",
    "computed": "our own arithmetic from graded numbers",
    "assumed": "our choice, where no source says",
    "measured": "measured by us, on the machine that is named",
}


@cache
def folder() -> Path:
    """Where the tables are: ``lplab/data/hardware`` in an installed package, ``data/hardware`` in a checkout.

    >>> folder().name
    'hardware'
    """
    package = Path(__file__).resolve().parents[1]
    for data in (package / "data", package.parent / "data"):
        if (data / "hardware" / "regions.csv").is_file():
            return data / "hardware"
    raise FileNotFoundError(f"the tables of lplab.hardware are in neither {package} nor {package.parent}")


def read(table: str | Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """The rows of a table as dictionaries of text, without spaces around values.

    Args:
        table: name of a table of ours, such as "regions", or the path of a file.
        columns: those that it must have; it may have more.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a column is missing, a row is too long or too short, there are no rows, or a grade is unknown.

    >>> read("regions", ["region", "grams_per_kwh"])[0]["region"]
    'world'
    """
    path = Path(table) if Path(table).suffix else folder() / f"{table}.csv"
    lines = [line for line in text_of(path).splitlines(keepends=True) if line.strip() and not line.startswith("#")]
    reader = csv.DictReader(lines, skipinitialspace=True)
    missing = [column for column in columns if column not in (reader.fieldnames or ())]
    if missing:
        raise ValueError(f"{path.name} lacks the column {missing[0]!r}; it needs {', '.join(columns)}")
    rows = []
    for row in reader:
        if None in row or None in row.values():
            raise ValueError(f"{path.name}: a row does not have {len(reader.fieldnames or ())} values: {row}")
        rows.append({name: value.strip() for name, value in row.items()})
        if rows[-1].get("grade", "read") not in GRADES:
            raise ValueError(f"{path.name}: unknown grade {rows[-1]['grade']!r}; allowed: {', '.join(GRADES)}")
    if not rows:
        raise ValueError(f"{path.name} has no rows")
    return rows


def text_of(path: Path) -> str:
    """The text of a file; ValueError with its name if it is not UTF-8."""
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{path.name} is no text in UTF-8") from None


def number(row: dict[str, str], column: str, *, low: float = 0.0) -> float:
    """A number of a row; ValueError names the column where it is none, or below ``low``.

    >>> number({"watts": "310"}, "watts")
    310.0
    >>> number({"watts": "much"}, "watts")
    Traceback (most recent call last):
    ...
    ValueError: watts must be a number of at least 0, got 'much'
    """
    try:
        value = float(row[column])
    except ValueError:
        value = math.nan
    if not low <= value < math.inf:
        raise ValueError(f"{column} must be a number of at least {low:g}, got {row[column]!r}")
    return value
