"""The table of all claims: published and measured numbers and the verdict, for terminals, files and the labs."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lplab.claims.framework.claim import Claim
from lplab.claims.framework.claim_verdict import INCOMPLETE, judge
from lplab.claims.framework.parity import NO_NUMBER
from lplab.claims.framework.results import CheckResult
from lplab.claims.framework.store import read_stored

AT_A_LARGER_SIZE = "↳ at a larger size"
MARKS = {  # before a check in the terminal: where it holds, and where it does not
    "findings": ("holds", "does not"),
    "unit": ("the unit", "nor unit"),
    "foreseen": ("foreseen", "not so"),
    "explained": ("why", "not why"),
}


def row(claim: Claim, folder: str | Path | None = None) -> dict[str, Any]:
    """One claim as a record that JSON knows: statement, numbers, verdict, findings, provenance.

    ``larger`` is the record of its larger experiment, or None. ``parity`` are the rows of numbers that decide whether
    an experiment can show the claim; they stand in the record of the larger experiment where there is one.
    """
    from lplab.claims.claim_catalogue import larger  # it imports the papers, and they what is beside this module

    numbers = read_stored(claim, folder)
    verdict = judge(claim, numbers)
    judged = bool(verdict.findings)
    more = larger(claim)
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
        "seeds": len(numbers.seeds(claim)),
        "seeds_planned": len(claim.seeds),
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
        "command": claim.command,
        "parity": [each.texts() | {"is_near": each.is_near, "factor": each.factor} for each in claim.parity],
        "no_larger_run": claim.no_larger_run,
        "tried": [*claim.tried],
        "larger": row(more, folder) if more else None,
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
    """The rows for a terminal: a paragraph a claim, with a sign before each finding; then its larger experiment."""
    return "\n\n".join("\n".join(_paragraph(record, width)) for record in rows)


def _paragraph(record: dict[str, Any], width: int) -> list[str]:
    head = [f"{record['claim']}: {record['verdict'].upper()}", f"  {record['paper']} ({record['where']})"]
    lines = head + _experiment(record, width, ("found", "states", "theirs", "ours"))
    if more := record["larger"]:
        lines += [f"  at a larger size ({more['claim']}): {more['verdict'].upper()}"]
        lines += _experiment(more, width, ("found", "ours"))
    return lines


def _experiment(record: dict[str, Any], width: int, parts: Sequence[str]) -> list[str]:
    lines = []
    for heading in parts:
        where = record.get(f"{heading}_on", "")
        text = record["badge" if heading == "found" else heading]
        lines += labelled_lines(heading, f"({where}) {text}" if where else text, width)
    for kind, words in MARKS.items():
        for finding in (CheckResult(**finding) for finding in record[kind]):
            lines += labelled_lines(finding.in_words(*words), finding.text, width)
    for each in record["parity"]:
        lines += labelled_lines("parity", parity_sentence(each), width)
    lines += labelled_lines("no larger", record["no_larger_run"], width)
    for text in record["tried"]:
        lines += labelled_lines("tried", text, width)
    if record["verdict"] != INCOMPLETE:
        lines += labelled_lines("limits", record["limits"], width)
    return lines + labelled_lines("numbers", record["measured"], width)


def parity_sentence(texts: dict[str, Any]) -> str:
    """A row of parity in a sentence; how far from the paper stands behind the experiment that it is said of.

    >>> from lplab.claims import ParityRow
    >>> parity_sentence(ParityRow("examples a learner", 32, "table 2, read", small=1, large=16).texts())
    'examples a learner: the paper 32 (table 2, read), small 1, larger 16 (within a factor of 3)'
    """
    ours = f"small {texts['small']}" + f", larger {texts['large']}" * (texts["large"] != NO_NUMBER)
    apart, colon, why = texts["found"].partition(": ")
    return f"{texts['name']}: the paper {texts['paper']}, {ours} ({apart}){colon}{why}"


def count_of_larger(rows: Sequence[dict[str, Any]]) -> str:
    """How many of the claims have a larger experiment that was run, and what it found; nothing where none has.

    >>> rows = [{"larger": {"verdict": word}} for word in ("shown", "not measured", "shown in part", "shown")]
    >>> count_of_larger([*rows, {"larger": None}])
    '3 of these claims have a larger run, too: 2 shown, 1 shown in part.'
    """
    verdicts = Counter(each["larger"]["verdict"] for each in rows if each["larger"])
    verdicts.pop(INCOMPLETE, None)
    if not verdicts:
        return ""
    have = f"{verdicts.total()} of these claims {'have' if verdicts.total() > 1 else 'has'} a larger run, too"
    return f"{have}: {', '.join(f'{number} {word}' for word, number in verdicts.most_common())}."


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
    columns = {"title": "claim"} | {c: c for c in ("paper", "theirs", "ours", "verdict")}
    return markdown_table(with_larger(rows), columns)


def with_larger(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with their verdicts in words, and below a claim that has a larger experiment a row for it.

    >>> large = {"claim": "a_large", "ours": "3 %", "verdict": "not measured", "badge": "", "command": "run a --long"}
    >>> rows = [{"title": "A", "ours": "2 %", "verdict": "shown", "badge": "it falls", "larger": large}]
    >>> [(each["title"], each["verdict"]) for each in with_larger(rows)]
    [('A', 'shown: it falls'), ('↳ at a larger size', 'not measured yet: `run a --long`')]
    """
    said = []
    for record in rows:
        said.append(record | {"verdict": verdict_text(record)})
        if more := record.get("larger"):
            said.append(more | {"title": AT_A_LARGER_SIZE, "verdict": verdict_text(more), "paper": "", "theirs": ""})
    return said


def verdict_text(record: dict[str, Any]) -> str:
    """The verdict of a row, and what was found in a few words; of one that was not measured the command.

    >>> verdict_text({"verdict": "shown in part", "badge": "less error · no training was run"})
    'shown in part: less error · no training was run'
    """
    if record["verdict"] == INCOMPLETE:
        return f"{record['verdict']} yet: `{record['command']}`"
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
