"""The page of all claims, ``docs/claims.md``: a table of verdicts, then a section for each claim, details folded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from lplab.claims.framework.claim_verdict import INCOMPLETE
from lplab.claims.framework.claims_table import count_of_larger, markdown_table, verdict_text, with_larger
from lplab.claims.framework.results import CheckResult

COMMAND = "lplab claims table --page > docs/claims.md"
SUMMARY = "What the paper states, the experiment, what decides, and the limits"
LARGER_SUMMARY = "The larger experiment, what was tried before, what decides, and the limits"
PARITY_SUMMARY = "The numbers that matter for this claim, the paper's beside ours"
PARITY_COLUMNS = {
    "name": "what", "paper": "the paper", "small": "small", "large": "larger", "found": "how far from the paper",
}  # fmt: skip
HEADING = f"""# Published claims, and what they do here

Each row is a statement of a paper and a small experiment that anybody can run again: `lplab claims run ID` measures
it and keeps the numbers in [`data/claims`](../data/claims). A verdict is computed from these numbers, and so are the
words behind it, which say what was found. Some claims have a [larger experiment](measure_claims.md#the-larger-runs),
too, on real pictures or for thousands of steps. Its verdict stands below the small one's, and neither replaces the
other. Each claim has a section with the paper's numbers and ours. Unfold it to see what decides, and what we measured
to explain it.

What the verdicts mean:

- *Shown*: every criterion that follows from the paper's statement holds.
- *Shown in part*: some criteria hold, or all do and something speaks against the statement as a whole, such as a
  network that was left out.
- *Undecided*: no criterion holds, and none is refuted.
- *Not shown*: the experiment does not show the statement. That does not mean that the paper is wrong.
- *Shown for the unit, not for a training*: the statement is true of an arithmetic unit and not of what is made with it.
- *Not shown, and the paper says why*: the paper names a reason why a network as small as ours would not show it. We
  measured whether that reason is met.

How to read the numbers:

- Our numbers are medians over the seeds, or means of differences between pairs of trainings, with the smallest and the
  largest in brackets. A loss in bits is the loss in nats, as PyTorch gives it, divided by ln 2.
- A mean of differences is *surely* above a limit if every difference is, and Student's test at 5 % says so, too.
  *Surely within* is the same from the other side. With three seeds both often fail. Then the check is *undecided*: it
  does not hold, and its opposite is not sure either. The words before *(undecided)* are the paper's statement. They do
  not say in which direction our numbers point.
- Behind *theirs* stands how we know it: *read* in the paper, *second-hand* from somebody who quotes it, or *recalled*
  from memory and not looked up.
- Where a claim is about machines, its numbers are computed by a model, and the section says so. More published numbers
  of machines stand in [numbers.md](numbers.md).
- Words such as [perplexity](glossary.md#perplexity), [scale](glossary.md#scale), [zero](glossary.md#zero-point),
  [group](glossary.md#group) and [bits a token](glossary.md#bits-a-token) stand in [the glossary](glossary.md).

This page is made from the stored numbers: `{COMMAND}`. The same claims as cards, each with a small figure, are a web
page of its own: `lplab claims table --html -o claims.html`. In a notebook, `figures.verdict_card("wang_2018")` shows
one."""


def as_page(rows: Sequence[dict[str, Any]]) -> str:
    """The rows (:func:`lplab.claims.row`) as a page in Markdown: a table of verdicts, then a section for each claim.

    The verdict stands beside the title, where a small screen shows it; both numbers are in the sections.

    >>> from lplab import claims
    >>> as_page([claims.row(claims.get("gupta_2015"))]).splitlines()[0]
    '# Published claims, and what they do here'
    """
    counts = Counter(record["verdict"] for record in rows)
    count = f"Of {len(rows)} claims: {', '.join(f'{number} {word}' for word, number in counts.most_common())}."
    count += f" {count_of_larger(rows)}" * bool(count_of_larger(rows))
    linked = [each | {"title": _link(each)} for each in with_larger(rows)]
    table = markdown_table(linked, {"title": "claim", "verdict": "what was found"})
    return "\n\n".join([HEADING, count, table, "## The claims one by one", *map(_section, rows)])


def _link(record: dict[str, Any]) -> str:
    """The title of a row of the table, linked to the section; a sign before it stays in front of the link."""
    _, sign, title = record["title"].rpartition("↳ ")
    return f"{sign}[{title}](#{record['claim']})"


def _section(record: dict[str, Any]) -> str:
    """One claim: its verdicts, published and measured numbers; folded below them, all else.

    The heading is the title, so that the outline of the page can be read; links lead to the anchor, which is the id.
    """
    larger = record["larger"]
    measured = bool(larger) and larger["verdict"] != INCOMPLETE
    parts = [
        f'<a id="{record["claim"]}"></a>',
        f"### {record['title']}",
        _said("Small: " * measured, record),
        _said("At a larger size: ", larger) if measured else "",
        f"*Theirs{_on(record['theirs_on'])}:* {record['theirs']}.",
        f"*Ours{_on(record['ours_on'])}:* {_ours(record)}.",
        f"*Ours, larger{_on(larger['ours_on'])}:* {_ours(larger)}." if measured else "",
        *_folded(PARITY_SUMMARY, [_parity(larger or record), record["no_larger_run"]]),
        *_folded(
            SUMMARY,
            [
                f"*The paper:* {record['states']} {record['paper']}; {record['where']}.",
                f"*Here* (`{record['claim']}`): {record['experiment']}",
                *_decided(record),
            ],
        ),
    ]
    if larger:
        tried = "\n".join(["Before the stored run:", "", *(f"- {text}" for text in larger["tried"])])
        parts += [
            f'<a id="{larger["claim"]}"></a>',
            *_folded(
                LARGER_SUMMARY,
                [f"*At a larger size* (`{larger['claim']}`): {larger['experiment']}", tried, *_decided(larger)],
            ),
        ]
    return "\n\n".join(part for part in parts if part)


def _said(before: str, record: dict[str, Any]) -> str:
    said = before + verdict_text(record)
    return f"**{said[:1].upper()}{said[1:]}.**"


def _ours(record: dict[str, Any]) -> str:
    seeds, planned = record["seeds"], record.get("seeds_planned", record["seeds"])
    counted = f"{seeds} of {planned}" if seeds < planned else f"{seeds}"
    return record["ours"] + f"; {counted} seeds" * (seeds > 1)


def _folded(summary: str, parts: Sequence[str]) -> list[str]:
    """Paragraphs behind a line that unfolds them; nothing if there are none."""
    there = [part for part in parts if part]
    return [f"<details>\n<summary>{summary}</summary>", *there, "</details>"] if there else []


def _decided(record: dict[str, Any]) -> list[str]:
    done = "computed" if record.get("modelled") else "measured"
    return [
        _list("What decides:", record["findings"], ("holds", "does not hold")),
        _list("The unit alone:", record["unit"], ("holds", "does not hold")),
        _list("What the paper itself foresees:", record["foreseen"], ("so it is", "not so")),
        _list(f"What we {done} to understand it:", record["explained"], ("so it is", "not so")),
        f"*Limits:* {record['limits']}" if record["limits"] else "",
        f"{record['measured'][:1].upper()}{record['measured'][1:]}.",
    ]


def _parity(record: dict[str, Any]) -> str:
    """The rows of parity as a table; without a column of larger values where no larger experiment is planned."""
    columns = {k: words for k, words in PARITY_COLUMNS.items() if k != "large" or record.get("tried")}
    if "large" in columns:
        columns["found"] = "how far the larger is from the paper"
    return markdown_table(record["parity"], columns) if record["parity"] else ""


def _on(where: str) -> str:
    return f" ({where})" * bool(where)


def _list(heading: str, findings: Sequence[dict[str, Any]], words: tuple[str, str]) -> str:
    lines = [
        f"- *{CheckResult(**result).in_words(*words)}:* **{result['statement']}.** {result['sentence']}"
        for result in findings
    ]
    return "\n".join([heading, "", *lines]) if lines else ""
