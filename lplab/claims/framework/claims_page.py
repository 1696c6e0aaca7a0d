"""The page of all claims, ``docs/claims.md``: a table of verdicts, then a section for each claim, details folded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from lplab.claims.framework.claims_table import markdown_table, verdict_text
from lplab.claims.framework.results import CheckResult

COMMAND = "lplab claims table --page > docs/claims.md"
SUMMARY = "What the paper states, the experiment, what decides, and the limits"
HEADING = f"""# Published claims, and what they do here

Each row is a statement of a paper and a small experiment that anybody can run again: `lplab claims run ID` measures
it and keeps the numbers in [`data/claims`](../data/claims). A verdict is computed from these numbers, and so are the
words behind it, which say what was found. *Shown* means that every criterion that follows from the paper's statement
holds. *Shown in part* means that some criteria hold, or that all do and something speaks against the statement as a
whole, such as a network that was left out. *Undecided* means that no criterion holds and none is refuted. A claim's
own section has their numbers and ours; unfold it to see what decides, and what we measured to explain it. *Not shown*
does not mean that the paper is wrong: it means that this small experiment does not show it. *Shown for the unit, not
for a training* is a statement that is true of an arithmetic unit and not of what is made with it. *Not shown, and the
paper says why* is a statement whose own paper names a reason why a network as small as ours would not show it; we
measured whether that reason is met. Our numbers are medians over the seeds, or means of differences between pairs of
trainings, with the smallest and the largest in brackets. A mean of differences is *surely* above a limit if every one
of them is, and Student's test at 5 % says so, too; *surely within* is the same from the other side. With three seeds
both often fail. Then the check is *undecided*: it does not hold, and its opposite is not sure either. Where a claim
is about machines, its numbers are computed by a model, and the section says so. Behind *theirs* stands how we know
it: *read* in the paper, *second-hand* from somebody who quotes it, or *recalled* from memory and not looked up. More
published numbers of machines stand in [numbers.md](numbers.md). Words such as [perplexity](glossary.md#perplexity),
[scale](glossary.md#scale), [zero](glossary.md#zero-point), [group](glossary.md#group) and [bits a
token](glossary.md#bits-a-token) stand in [the glossary](glossary.md).

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
    linked = [
        record | {"title": f"[{record['title']}](#{record['claim']})", "verdict": verdict_text(record)}
        for record in rows
    ]
    table = markdown_table(linked, {"title": "claim", "verdict": "what was found"})
    return "\n\n".join([HEADING, count, table, "## The claims one by one", *map(_section, rows)])


def _section(record: dict[str, Any]) -> str:
    """One claim: verdict, published and measured numbers; folded below them, all else.

    The heading is the title, so that the outline of the page can be read; links lead to the anchor, which is the id.
    """
    seeds = f"; {record['seeds']} seeds" if record["seeds"] > 1 else ""
    done = "computed" if record.get("modelled") else "measured"
    said = verdict_text(record)
    parts = [
        f'<a id="{record["claim"]}"></a>',
        f"### {record['title']}",
        f"**{said[:1].upper()}{said[1:]}.**",
        f"*Theirs{_on(record['theirs_on'])}:* {record['theirs']}.",
        f"*Ours{_on(record['ours_on'])}:* {record['ours']}{seeds}.",
        f"<details>\n<summary>{SUMMARY}</summary>",
        f"*The paper:* {record['states']} {record['paper']}; {record['where']}.",
        f"*Here* (`{record['claim']}`): {record['experiment']}",
        _list("What decides:", record["findings"], ("holds", "does not hold")),
        _list("The unit alone:", record["unit"], ("holds", "does not hold")),
        _list("What the paper itself foresees:", record["foreseen"], ("so it is", "not so")),
        _list(f"What we {done} to understand it:", record["explained"], ("so it is", "not so")),
        f"*Limits:* {record['limits']}" if record["limits"] else "",
        f"{record['measured'][:1].upper()}{record['measured'][1:]}.",
        "</details>",
    ]
    return "\n\n".join(part for part in parts if part)


def _on(where: str) -> str:
    return f" ({where})" * bool(where)


def _list(heading: str, findings: Sequence[dict[str, Any]], words: tuple[str, str]) -> str:
    lines = [
        f"- *{CheckResult(**result).in_words(*words)}:* **{result['statement']}.** {result['sentence']}"
        for result in findings
    ]
    return "\n".join([heading, "", *lines]) if lines else ""
