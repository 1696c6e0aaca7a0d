"""The table of published numbers for terminals, files, and ``docs/numbers.md``."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from typing import Any

from lplab.claims.framework.claims_table import labelled_lines, markdown_table
from lplab.claims.published_numbers.published_number import GRADES
from lplab.number_text import SUPERSCRIPTS

COMMAND = "lplab claims numbers --page > docs/numbers.md"
HEADING = f"""# Published numbers, and what our models make of their inputs

Each row is a number that somebody published, and the value that `lplab.hardware` and `lplab.compression` compute from
the same inputs, now, not from a file. Rows graded A or B are tests with the tolerance of the table; rows graded C are
printed and decide nothing. Where our value is outside, the row says why; nothing was tuned until it fitted. All of it
but for the trainings that no laptop can do.

- **A**: {GRADES["A"]}.
- **B**: {GRADES["B"]}.
- **C**: {GRADES["C"]}.

This page is made by `{COMMAND}`."""
COLUMNS = {
    "id": "row",
    "verdict": "verdict",  # where a small screen shows it
    "what": "what",
    "inputs": "inputs",
    "published": "published",
    "ours": "ours",
    "difference": "difference",
    "allowed": "allowed",
    "grade": "grade",
}


def digits(value: float | None) -> str:
    """A number as text: up to five digits, thousands apart, large powers written out; a dash for None.

    >>> digits(626155.13), digits(3.14e23), digits(26.2144), digits(0.0), digits(None)
    ('626,155', '3.14·10²³', '26.214', '0', '–')
    """
    if value is None:
        return "–"
    if value == 0 or abs(value) < 1e-9:
        return "0"
    if abs(value) >= 1e9:
        mantissa, exponent = f"{value:.3g}".split("e+")
        return f"{mantissa}·10{exponent.translate(SUPERSCRIPTS)}"
    text = f"{value:,.0f}" if abs(value) >= 1e5 else f"{float(f'{value:.5g}'):,}".removesuffix(".0")
    return text.replace("-", "−")


def shown(record: dict[str, Any]) -> dict[str, str]:
    """A record with its numbers as text, with the unit."""
    unit = f" {record['unit']}" if record["unit"] else ""
    numbers = {
        name: digits(record[name]) + (unit if record[name] is not None else "") for name in ("published", "ours")
    }
    return {name: str(value) for name, value in (record | numbers).items()}


def summary(records: Sequence[dict[str, Any]]) -> str:
    """How many rows have which verdict.

    >>> summary([{"verdict": "held"}, {"verdict": "held"}])
    'Of 2 rows: 2 held.'
    """
    counts = Counter(record["verdict"] for record in records)
    rows = "row" if len(records) == 1 else "rows"
    return f"Of {len(records)} {rows}: {', '.join(f'{number} {word}' for word, number in counts.most_common())}."


def as_page(records: Sequence[dict[str, Any]]) -> str:
    """The records of :func:`lplab.claims.published_numbers.records` as a page in Markdown: table, sources, notes."""
    rows = [shown(record) for record in records]
    notes = [f"- **{row['id']}** {row['source']}." + (f" {row['note']}" if row["note"] else "") for row in rows]
    parts = [HEADING, summary(records), markdown_table(rows, COLUMNS), "## Sources and notes", "\n".join(notes)]
    return "\n\n".join(parts)


def as_text(records: Sequence[dict[str, Any]], width: int = 100) -> str:
    """The records for a terminal: a few lines each, and the count of verdicts."""
    parts = []
    for record in records:
        row = shown(record)
        lines = [f"{row['id']}  {row['what']}: {row['verdict'].upper()} (grade {row['grade']})"]
        compared = f"published {row['published']}, ours {row['ours']}, {row['difference']} ({row['allowed']})"
        numbers = compared if record["ours"] is not None else f"published {row['published']}"
        for label, text in (("inputs", row["inputs"]), ("numbers", numbers), ("note", row["note"])):
            lines += labelled_lines(label, text, width, indent=5, column=14)
        parts.append("\n".join(lines))
    return "\n".join([*parts, "", summary(records)])


def as_csv(records: Sequence[dict[str, Any]]) -> str:
    """The records as CSV with a line of names; numbers with all their digits, an empty cell where there is none."""
    file = io.StringIO()
    writer = csv.DictWriter(file, list(records[0]) if records else ["id"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return file.getvalue()
