"""The table of all claims: published and measured numbers and the verdict, for terminals, files and the labs."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lplab.claims.framework.claim import Claim
from lplab.claims.framework.claim_verdict import INCOMPLETE, judge
from lplab.claims.framework.results import CheckResult
from lplab.claims.framework.store import stored

MARKS = {  # before a check in the terminal: where it holds, and where it does not
    "findings": ("holds", "does not"),
    "unit": ("the unit", "nor unit"),
    "foreseen": ("foreseen", "not so"),
    "explained": ("why", "not why"),
}


def row(claim: Claim, folder: str | Path | None = None) -> dict[str, Any]:
    """One claim as a flat record that JSON knows: statement, numbers, verdict, findings, provenance."""
    numbers = stored(claim, folder)
    verdict = judge(claim, numbers)
    judged = bool(verdict.findings)
    return {
        "claim": claim.id,
        "title": claim.title,
        "paper": claim.paper,
        "where": claim.where,
        "states": claim.statement,
        "theirs": claim.published,
        "experiment": claim.experiment,
        "ours": claim.measured(numbers.results(claim))
        if judged
        else claim.untestable or f"{verdict.missing} to measure",
        "seeds": len(claim.seeds),
        "verdict": verdict.word,
        "badge": verdict.badge,
        "theirs_on": claim.theirs_on,
        "ours_on": claim.ours_on,
        "findings": [asdict(f) for f in verdict.findings],
        "unit": [asdict(f) for f in (verdict.unit,) if f],
        "foreseen": [asdict(f) for f in (verdict.foreseen,) if f],
        "explained": [asdict(f) for f in verdict.explanations],
        "limits": claim.limits,
        "modelled": claim.modelled,
        "budget": claim.budget,
        "measured": numbers.provenance_of(claim),
    }


def provenance(*claims: Claim, width: int = 76) -> str:
    """Where the stored numbers of claims come from: date, command, time, versions; a paragraph a claim.

    >>> from lplab.claims import get
    >>> provenance(get("wang_2018")).partition(" on ")[0]
    'wang_2018: measured'
    """
    lines = (f"{claim.id}: {row(claim)['measured']}." for claim in claims)
    return "\n".join(textwrap.fill(line, width, subsequent_indent="  ") for line in lines)


def as_text(rows: Sequence[dict[str, Any]], width: int = 100) -> str:
    """The rows for a terminal: a paragraph a claim, with a sign before each finding."""
    return "\n\n".join("\n".join(_paragraph(record, width)) for record in rows)


def _paragraph(record: dict[str, Any], width: int) -> list[str]:
    lines = [f"{record['claim']}: {record['verdict'].upper()}", f"  {record['paper']} ({record['where']})"]
    for heading, where in (("found", ""), ("states", ""), ("theirs", record["theirs_on"]), ("ours", record["ours_on"])):
        text = record["badge" if heading == "found" else heading]
        lines += labelled_lines(heading, f"({where}) {text}" if where else text, width)
    for kind, words in MARKS.items():
        for finding in (CheckResult(**finding) for finding in record[kind]):
            lines += labelled_lines(finding.in_words(*words), finding.text, width)
    if record["verdict"] != INCOMPLETE:
        lines += labelled_lines("limits", record["limits"], width)
    return lines + labelled_lines("numbers", record["measured"], width)


def labelled_lines(label: str, text: str, width: int, *, indent: int = 2, column: int = 12) -> list[str]:
    """A text as lines that begin at a column, its label before the first; no line if there is no text.

    >>> labelled_lines("limits", "small networks", 22)
    ['  limits    small', '            networks']
    """
    first = " " * indent + f"{label:<{column - indent}}"
    return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=" " * column) if text else []


def as_markdown(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as a Markdown table.

    >>> row = {"title": "A", "paper": "B 2015", "theirs": "1 %", "ours": "2 %", "verdict": "shown", "badge": ""}
    >>> print(as_markdown([row]))
    | claim | paper | theirs | ours | verdict |
    |---|---|---|---|---|
    | A | B 2015 | 1 % | 2 % | shown |
    """
    said = [record | {"verdict": verdict_text(record)} for record in rows]
    return markdown_table(said, {"title": "claim"} | {c: c for c in ("paper", "theirs", "ours", "verdict")})


def verdict_text(record: dict[str, Any]) -> str:
    """The verdict of a row, and what was found in a few words.

    >>> verdict_text({"verdict": "shown in part", "badge": "less error · no training was run"})
    'shown in part: less error · no training was run'
    """
    return record["verdict"] + f": {record['badge']}" * bool(record["badge"])


def markdown_table(rows: Sequence[dict[str, Any]], columns: dict[str, str]) -> str:
    r"""Some columns of the rows as a Markdown table: for each its key and its heading.

    >>> print(markdown_table([{"verdict": "shown | measured"}], {"verdict": "what we see"}))
    | what we see |
    |---|
    | shown \| measured |
    """
    lines = [" | ".join(columns.values()), "|".join("---" for _ in columns)]
    lines = [f"| {lines[0]} |", f"|{lines[1]}|"]
    lines += ["| " + " | ".join(str(record[c]).replace("|", "\\|") for c in columns) + " |" for record in rows]
    return "\n".join(lines)
