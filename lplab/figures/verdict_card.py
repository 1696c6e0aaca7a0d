"""Verdict cards: what a paper states, what they measured, what we measured, and the verdict, on one small card.

A card is HTML of its own: no script, no font, no address of elsewhere. Colours are JupyterLab's where there are some.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from lplab.figures.verdict_rows import figure_html, legend_html

if TYPE_CHECKING:
    from lplab.claims import CheckResult, Claim, ClaimVerdict, Stored

    Experiment = tuple[Claim, Stored]

WORDS = 80  # of a card as plain text, at most
CONFIRMED = ("✓ so it is", "✗ not so")
MARKS = {"undecided": "? "}  # before a word that has none
SIGNS = {  # a sign beside the words of a verdict, and the colour of its edge
    "shown": ("✓", "#009E73"),
    "not shown": ("✗", "#D55E00"),
    "shown in part": ("◐", "#0072B2"),
    "shown for the unit, not for a training": ("△", "#0072B2"),
    "undecided": ("?", "#7F7F7F"),
    "not shown, and the paper says why": ("○", "#CC79A7"),
    "not testable in miniature": ("–", "#7F7F7F"),
    "not measured": ("…", "#7F7F7F"),
}
INK, FAINT = "var(--jp-ui-font-color1, currentColor)", "var(--jp-border-color2, rgba(127,127,127,.45))"
STYLE = f"""
.lplab-card {{ color: {INK}; border: 1px solid {FAINT}; border-left: 6px solid var(--lplab-verdict); border-radius: 6px;
  padding: 12px 16px; margin: 8px 0 16px; max-width: 900px; box-sizing: border-box; container-type: inline-size;
  font: 14px/1.45 var(--jp-ui-font-family, system-ui, sans-serif); overflow-wrap: anywhere; }}
.lplab-card p, .lplab-card figure, .lplab-card blockquote {{ margin: 0 0 10px; }}
.lplab-card figure {{ padding: 0; display: block; }}
.lplab-card blockquote {{ padding: 0 0 0 12px; border-left: 2px solid {FAINT}; color: inherit; font-size: 15px; }}
.lplab-card cite {{ display: block; font-style: normal; font-size: 12px; margin-top: 2px; opacity: .85; }}
.lplab-card .lplab-title {{ font-size: 16px; font-weight: 600; margin: 0 0 8px; }}
.lplab-card .lplab-word {{ border: 1px solid {FAINT}; border-radius: 6px; padding: 3px 10px; margin: 0 0 10px; }}
.lplab-card .lplab-word b {{ margin-right: 4px; }}
.lplab-card .lplab-two {{ font-size: 13px; }}
.lplab-card .lplab-larger {{ border-left: 6px solid var(--lplab-verdict); border-radius: 6px; padding: 0 0 0 10px;
  margin: 0 0 4px; font-size: inherit; }}
.lplab-card .lplab-larger > summary {{ font-size: 13px; }}
.lplab-card .lplab-both {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 270px), 1fr));
  gap: 4px 24px; margin: 0 0 10px; }}
.lplab-card .lplab-both div div {{ margin: 0 0 2px; }}
.lplab-card b {{ font-weight: 600; }}
.lplab-card figcaption {{ font-size: 13px; font-weight: 600; color: inherit; text-align: left; margin: 0 0 2px;
  display: flex; flex-wrap: wrap; justify-content: space-between; align-items: baseline; gap: 0 12px; }}
.lplab-card .lplab-beside {{ font-size: 12px; font-weight: 400; }}
.lplab-card .lplab-row {{ display: grid; grid-template-columns: 30% minmax(0, 1fr) 30%; gap: 0 10px;
  align-items: center; font-size: 12.5px; line-height: 1.25; min-height: 18px; padding: 2px 0; }}
.lplab-card .lplab-row svg {{ display: block; overflow: visible; }}
.lplab-card .lplab-row > span {{ font-variant-numeric: tabular-nums; }}
.lplab-card .lplab-theirs {{ white-space: nowrap; margin-left: 6px; }}
.lplab-card .lplab-axis > span {{ display: flex; position: relative; justify-content: space-between; padding: 0 2%;
  font-size: 12px; opacity: .85; }}
.lplab-card .lplab-zero {{ position: absolute; transform: translateX(-50%); }}
.lplab-card .lplab-legend {{ font-size: 12px; display: flex; flex-wrap: wrap; gap: 0 16px; margin: 0 0 10px; }}
.lplab-card details {{ font-size: 13px; }}
.lplab-card summary {{ cursor: pointer; }}
.lplab-card ul {{ margin: 2px 0 8px; padding-left: 20px; }}
@container (max-width: 560px) {{
  .lplab-card .lplab-row {{ grid-template-columns: minmax(0, 1fr) auto; padding: 2px 0; }}
  .lplab-card .lplab-row svg, .lplab-card .lplab-axis > span:nth-child(2) {{ grid-column: 1 / 3; grid-row: 2; }}
  .lplab-card .lplab-axis > span:first-child, .lplab-card .lplab-axis > span:last-child {{ display: none; }}
}}
"""


@dataclass(frozen=True)
class VerdictCards:
    """Cards of some claims: HTML in a notebook, a few lines as text. The same numbers always give the same card.

    Attributes:
        claims: in their order.
        numbers: what is stored of each.
        larger: by the id of a claim its larger experiment and what is stored of it, where it can be judged.
    """

    claims: tuple[Claim, ...]
    numbers: tuple[Stored, ...]
    larger: Mapping[str, Experiment] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Title, theirs, ours and the verdict of each claim, in at most 80 words a claim.

        A larger experiment has a line of its own behind them, with its verdict.
        """
        each = zip(self.claims, self.numbers, strict=True)
        return "\n\n".join(_text(claim, numbers, self.larger.get(claim.id)) for claim, numbers in each)

    def _repr_html_(self) -> str:
        each = zip(self.claims, self.numbers, strict=True)
        cards = "".join(card_html(claim, numbers, self.larger.get(claim.id)) for claim, numbers in each)
        return f'<div class="lplab-cards"><style>{STYLE}</style>{cards}</div>'


def verdict_card(*claim_ids: str, folder: str | Path | None = None) -> VerdictCards:
    """The verdicts on some claims as cards: the paper's sentence, theirs, ours, the verdict, a small figure.

    Criteria, explanations, limits and where the numbers come from are folded below. All is computed from the stored
    numbers when it is called. Where a claim has a larger experiment that was run, the card says both verdicts, and
    the larger experiment's numbers are folded below the small one's.

    Args:
        claim_ids: ids of claims, at least one (:func:`lplab.claims.names`); that of a larger experiment stands for its
            claim.
        folder: of the stored numbers; by default ``data/claims``.

    Raises:
        ValueError: no id, an unknown one, or stored numbers that cannot be read.

    >>> print(verdict_card("patterson_2021"))
    Five large trainings: energy and carbon from chips, watts, days, building and grid
    They: 85.7, 232, 24.1, 179, 1,287 MWh; 46.7, 96.4, 4.8, 72.2, 552.1 t
    We: 85.3, 232.3, 23.9, 178.8, 1,289.4 MWh; 46.5, 96.4, 4.8, 72.1, 553.1 t
    Verdict: shown: five energies within 1.5 % · GPT-3's carbon within 1.5 %
    """
    from lplab import claims  # a lab without a card does not load all papers

    if not claim_ids:
        raise ValueError(f"verdict_card needs the id of a claim; there are {', '.join(claims.names())}")
    named = [claims.get(name) for name in claim_ids]
    chosen = tuple(claims.get(claim.larger_than or claim.id) for claim in named)
    pairs = ((claim.id, claims.larger(claim)) for claim in chosen)
    larger = {name: (more, claims.stored(more, folder)) for name, more in pairs if more}
    judged = {name: both for name, both in larger.items() if claims.judge(*both).findings}
    return VerdictCards(chosen, tuple(claims.stored(claim, folder) for claim in chosen), judged)


def _our_numbers_text(claim: Claim, numbers: Stored, verdict: ClaimVerdict) -> str:
    if verdict.findings:
        return claim.measured(numbers.results(claim))
    return claim.untestable or f"not yet: {verdict.missing} of {len(claim.keys())} measurements are missing"


def _text(claim: Claim, numbers: Stored, larger: Experiment | None) -> str:
    from lplab.claims import judge

    verdict = judge(claim, numbers)
    said = f"Verdict: {_small_word(verdict, larger)}" + f": {verdict.badge}" * bool(verdict.badge)
    room = (WORDS - len(f"{claim.title} They: We: {said}".split())) // 2
    lines = [claim.title]
    for who, text in (("They", without_notes(claim.published)), ("We", _our_numbers_text(claim, numbers, verdict))):
        lines.append(f"{who}: {shortened(text, room)}")
    lines.append(said)
    if larger:
        more = judge(*larger)
        lines.append(f"Larger: {more.word}" + f": {more.badge}" * bool(more.badge))
    return "\n".join(lines)


def _small_word(verdict: ClaimVerdict, larger: Experiment | None) -> str:
    """The verdict of the small experiment; beside a larger one it says which it is."""
    return "small: " * bool(larger) + verdict.word


def shortened(text: str, words: int) -> str:
    """The first words of a text, with a mark where it was cut, which counts as a word.

    >>> shortened("one two three four", 3), shortened("one two", 3)
    ('one two …', 'one two')
    """
    parts = text.split()
    return text if len(parts) <= words else " ".join([*parts[: words - 1], "…"])


def card_html(claim: Claim, numbers: Stored, larger: Experiment | None = None) -> str:
    """The card of one claim, without the style that all cards share; below it folded its larger experiment, if any."""
    from lplab.claims import judge

    verdict = judge(claim, numbers)
    theirs, where = parts_of(without_notes(claim.published)), without_notes(claim.where)
    return (
        f'<section class="lplab-card" style="--lplab-verdict:{SIGNS[verdict.word][1]}" '
        f'aria-label="{escape(claim.title)}">'
        f'<div class="lplab-title" role="heading" aria-level="4">{escape(claim.title)}</div>'
        f"{_words_html(verdict, larger)}"
        f"<blockquote>{escape(claim.statement)}<cite>{escape(claim.paper)}; {escape(where)}</cite></blockquote>"
        f'<div class="lplab-both">{_side_html("They report", claim.theirs_on, theirs)}'
        f"{_side_html(_our_heading(claim), claim.ours_on, _our_lines(claim, numbers, verdict))}</div>"
        f"{_figures_html(claim, numbers) if verdict.findings else ''}{_larger_html(larger)}"
        f"{_folded_html(claim, numbers, verdict)}</section>"
    )


def _words_html(verdict: ClaimVerdict, larger: Experiment | None) -> str:
    """The verdict with its sign and the badge; with a larger experiment a second line, and a smaller font for both."""
    from lplab.claims import judge

    said = [(_small_word(verdict, larger), verdict)]
    if larger:
        more = judge(*larger)
        said.append((f"larger: {more.word}", more))
    lines = (
        f'<b><span aria-hidden="true">{SIGNS[each.word][0]}</span> {escape(word + ":" * bool(each.badge))}</b> '
        f"{escape(each.badge)}"
        for word, each in said
    )
    if larger:
        return f'<div class="lplab-word lplab-two">{"".join(f"<div>{line}</div>" for line in lines)}</div>'
    return f'<div class="lplab-word">{"".join(lines)}</div>'


def _larger_html(larger: Experiment | None) -> str:
    """The larger experiment behind a line that unfolds it: our numbers, its figures, and how it was decided."""
    from lplab.claims import judge

    if not larger:
        return ""
    claim, numbers = larger
    verdict = judge(claim, numbers)
    return (
        f'<details class="lplab-larger" style="--lplab-verdict:{SIGNS[verdict.word][1]}">'
        f"<summary>At a larger size: {escape(claim.ours_on)}</summary>"
        f'<div class="lplab-both">{_side_html(_our_heading(claim), "", _our_lines(claim, numbers, verdict))}</div>'
        f"{_figures_html(claim, numbers)}{_folded_html(claim, numbers, verdict)}</details>"
    )


def _our_heading(claim: Claim) -> str:
    return "We computed" if claim.modelled else "We measured"


def _our_lines(claim: Claim, numbers: Stored, verdict: ClaimVerdict) -> list[str]:
    """Our side of a card: numbers in the unit of the published ones, or the rows of the figure, or else a sentence."""
    if verdict.findings and claim.ours_beside:
        return parts_of(claim.ours_beside(numbers.results(claim)))
    return ["the rows below"] if verdict.findings and claim.drawings else [_our_numbers_text(claim, numbers, verdict)]


NOTE = re.compile(r" ?\((?:[^()]*[ ,;])?(?:read|recalled|second-hand)(?:[ ,;:][^()]*)?\)")


def without_notes(text: str) -> str:
    """A published number without the note in brackets how we know it; the note stands in the fold.

    >>> without_notes("95 % (read), 88 % (8 GPUs), 16 days (recalled, not checked)")
    '95 %, 88 % (8 GPUs), 16 days'
    """
    return NOTE.sub("", text)


def parts_of(text: str) -> list[str]:
    """A text cut at its semicolons, but for those in brackets.

    >>> parts_of("float 1.8 %; nearest 3 % (8 bits; one seed)")
    ['float 1.8 %', 'nearest 3 % (8 bits; one seed)']
    """
    return re.split(r"; (?![^()]*\))", text)


def _side_html(heading: str, where: str, lines: Sequence[str]) -> str:
    named = f" ({escape(where)})" * bool(where)
    return f"<div><b>{heading}</b>{named}{''.join(f'<div>{escape(line)}</div>' for line in lines)}</div>"


def _figures_html(claim: Claim, numbers: Stored, *, whole: bool = False) -> str:
    """The rows in front, or with ``whole`` all rows of those figures that are not whole in front."""
    ours = "modelled" if claim.modelled else "measured"
    results = numbers.results(claim)
    every = [(drawing, drawing.drawn(results)) for drawing in claim.drawings]
    if whole:
        drawn = [(drawing, rows) for drawing, rows in every if drawing.front is not None]
    else:
        drawn = [(drawing, front) for drawing, rows in every if (front := drawing.in_front(rows))]
    if not drawn:
        return ""
    published = any(row.theirs for _, rows in drawn for row in rows)
    over = [drawing.over for drawing, rows in drawn if any(len(row.values) > 1 for row in rows)]
    return "".join(figure_html(d, rows, ours) for d, rows in drawn) + legend_html(ours, published, over)


def _folded_html(claim: Claim, numbers: Stored, verdict: ClaimVerdict) -> str:
    from lplab.claims import parity_sentence

    source = numbers.provenance_of(claim)
    theirs = () if claim.larger_than else (*parts_of(claim.published), claim.where)  # the claim's own fold has them
    parts = [
        ("They report, and how we know it:", _list_html(theirs)),
        (f"{_our_heading(claim)}, all of it:", _list_html(parts_of(_our_numbers_text(claim, numbers, verdict)))),
        ("All rows:", _figures_html(claim, numbers, whole=True) if verdict.findings else ""),
        ("Here:", f"<p>{escape(claim.experiment)}</p>"),
        ("What decides:", _checks_html(verdict.findings, ("✓ holds", "✗ does not hold"))),
        ("The unit alone:", _checks_html([verdict.unit] if verdict.unit else [], ("✓ holds", "✗ does not hold"))),
        ("What the paper itself foresees:", _checks_html([verdict.foreseen] if verdict.foreseen else [], CONFIRMED)),
        ("What explains it:", _checks_html(verdict.explanations, CONFIRMED)),
        ("What matters, the paper's beside ours:", _list_html([parity_sentence(row.texts()) for row in claim.parity])),
        ("Why there is no larger run:", f"<p>{escape(claim.no_larger_run)}</p>" if claim.no_larger_run else ""),
        ("Before the stored run:", _list_html(claim.tried)),
        ("Limits:", f"<p>{escape(claim.limits)}</p>" if claim.limits else ""),
        ("Where the numbers come from:", f"<p>{escape(source)}. Again: <code>{claim.command}</code></p>"),
    ]
    text = "".join(f"<b>{heading}</b>{html}" for heading, html in parts if html)
    which = "the larger one" if claim.larger_than else "this"
    return f"<details><summary>How {which} was decided</summary>{text}</details>"


def _list_html(lines: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>" if lines else ""


def _checks_html(findings: Sequence[CheckResult], words: tuple[str, str]) -> str:
    marked = (f.in_words(*words) for f in findings)
    items = (
        f"<li><i>{MARKS.get(mark, '')}{mark}:</i> {escape(f.text)}</li>"
        for mark, f in zip(marked, findings, strict=True)
    )
    return f"<ul>{''.join(items)}</ul>" if findings else ""


PAGE_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; background: Canvas; color: CanvasText; max-width: 900px;
  margin: 0 auto; padding: 16px; overflow-wrap: anywhere; }
.lplab-cards > div { scroll-margin-top: 8px; }
nav li { margin: 2px 0; }
"""


def verdict_page(*claim_ids: str, folder: str | Path | None = None) -> str:
    """A page of its own with the cards of some claims, or of all: heading, count, a list of links, cards.

    Args:
        claim_ids: ids of claims; all if there is none.
        folder: of the stored numbers; by default ``data/claims``.

    Raises:
        ValueError: an unknown id, or stored numbers that cannot be read.

    >>> verdict_page("ddl_2017").count("<section")
    1
    """
    from lplab.claims import count_of_larger, judge, names

    cards = verdict_card(*(claim_ids or names()), folder=folder)
    verdicts = [judge(claim, numbers) for claim, numbers in zip(cards.claims, cards.numbers, strict=True)]
    larger = {name: judge(*both) for name, both in cards.larger.items()}
    words = [verdict.word for verdict in verdicts]
    count = ", ".join(f"{number} {SIGNS[word][0]} {word}" for word, number in Counter(words).most_common())
    more = count_of_larger([{"larger": {"verdict": verdict.word}} for verdict in larger.values()])
    links = "".join(
        f'<li><a href="#{claim.id}">{escape(claim.title)}</a>: {_link_words(each, larger.get(claim.id))}</li>'
        for claim, each in zip(cards.claims, verdicts, strict=True)
    )
    each = zip(cards.claims, cards.numbers, strict=True)
    body = "".join(
        f'<div id="{claim.id}">{card_html(claim, numbers, cards.larger.get(claim.id))}</div>' for claim, numbers in each
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Published claims, measured</title>'
        f"<style>{PAGE_STYLE}{STYLE}</style></head>\n<body><h1>Published claims, and what they do here</h1>"
        "<p>Each card is a statement of a paper and a small experiment that anybody can run again. The verdicts are "
        f"computed from the stored numbers. Of {len(words)} claims: {count}.{f' {more}' * bool(more)}</p>\n"
        f'<nav aria-label="Claims"><ol>{links}</ol></nav>\n<main class="lplab-cards">{body}</main></body></html>\n'
    )


def _link_words(verdict: ClaimVerdict, larger: ClaimVerdict | None) -> str:
    """What stands behind a link to a card: the verdict and the badge; with a larger experiment, both of them."""
    each = [(verdict.word, verdict)]
    if larger:
        each = [(f"small: {verdict.word}", verdict), (f"larger: {larger.word}", larger)]
    return "; ".join(f"{SIGNS[one.word][0]} {word}{f': {escape(one.badge)}' * bool(one.badge)}" for word, one in each)
