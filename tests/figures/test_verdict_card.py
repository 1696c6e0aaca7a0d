"""Verdict cards: every claim has one, it says what the stored numbers say, and nothing in it can do harm."""

import dataclasses
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from lplab import claims, figures
from lplab.claims import CheckResult, ClaimBuilder, DrawnRow
from lplab.claims.framework.drawing import Drawing
from lplab.claims.framework.results import key
from lplab.claims.framework.store import Stored
from lplab.figures import verdict_rows
from lplab.figures.verdict_card import SIGNS, STYLE, WORDS, VerdictCards, without_notes
from lplab.figures.verdict_rows import Axis
from tests.claims.changed_numbers import changed, where

NAMES = claims.names()
HARM = "<script>alert(1)</script> & \"so\" 'on'"


@pytest.fixture(scope="module")
def page():
    """Each card of every claim as HTML, and as text."""
    return {name: (made._repr_html_(), repr(made)) for name in NAMES for made in [figures.verdict_card(name)]}


def toy(**changes):
    """A claim with one criterion, which holds if the error of 8 bits is below that of 4."""
    parts = {
        "id": "toy", "title": "More bits, less error", "paper": "A. Nobody: Bits, 2020", "where": "figure 1",
        "statement": "Bits help.", "published": "1 %", "experiment": "Division.", "points": ({"bits": 4}, {"bits": 8}),
        "seeds": (0, 1),
    }  # fmt: skip
    builder = ClaimBuilder(**parts | changes)
    builder.measurement(lambda point, seed: {"error": 16 / point["bits"] + seed})
    builder.summary(lambda results: f"{results.median('error', bits=8)} %")

    @builder.criterion("The error falls")
    def falls(results):
        few, many = (results.median("error", bits=bits) for bits in (4, 8))
        return CheckResult(many < few, f"{few} % with 4 bits, {many} % with 8.")

    builder.draw(
        "error, %",
        lambda results: {f"{bits} bits": results.values("error", bits=bits) for bits in (4, 8)},
        {"8 bits": 1},
    )
    return builder


def numbers_of(claim, change=lambda point, value: value):
    """The claim measured at once, each error changed."""
    values = {key(p, s): change(p, claim.measure(p, s)["error"]) for p, s in claim.measurements()}
    return Stored({name: {"error": value} for name, value in values.items()})


def card(claim, numbers):
    """The card of a claim with these numbers as HTML, and as text."""
    made = VerdictCards((claim,), (numbers,))
    return made._repr_html_(), repr(made)


# ---- every claim -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_claim_has_a_card_with_its_parts(name, page):
    claim, (html, text) = claims.get(name), page[name]
    verdict, has_larger = claims.judge(claim, claims.stored(claim)), name in figures.verdict_card(name).larger
    word = "small: " * has_larger + verdict.word
    plain = " ".join("".join(ElementTree.fromstring(html).itertext()).split())
    ours = (claim.experiment, claim.limits, claim.ours_on, verdict.badge)
    for part in (claim.title, claim.statement, claim.paper, claim.theirs_on, word, *ours):
        assert " ".join(part.split()) in plain, part
    for finding in (*verdict.findings, *verdict.explanations):
        assert " ".join(finding.sentence.split()) in plain
    lines = text.splitlines()
    assert lines[0] == claim.title and lines[3] == f"Verdict: {word}: {verdict.badge}"
    assert len(" ".join(lines[:4]).split()) <= WORDS and len(lines) == 4 + has_larger


@pytest.mark.parametrize("name", claims.experiments())
def test_every_figure_is_well_formed_and_says_its_numbers(name, page):
    claim = claims.get(name)
    html, text = page[name] if name in page else card(claim, claims.stored(claim))
    tree = ElementTree.fromstring(html)
    folded_away = {figure for each in tree.iter("details") if each.get("class") for figure in each.iter("figure")}
    shown = [figure for figure in tree.iter("figure") if figure not in folded_away]
    missing = len(claims.stored(claim).missing(claim))
    if claims.judge(claim, claims.stored(claim)).word == "not measured" and claim.budget == claims.LONG:
        assert not shown and f"not yet: {missing} of {len(claim.measurements())} measurements are missing" in text
        return
    results = claims.stored(claim).results(claim)
    every = [(drawing, drawing.drawn(results)) for drawing in claim.drawings]
    front = [(drawing, rows) for drawing, all_rows in every if (rows := drawing.in_front(all_rows))]
    assert 1 <= sum(len(rows) for _, rows in front) <= 4, "at most four rows stand in front"
    folded = [(drawing, rows) for drawing, rows in every if drawing.front is not None]
    for (drawing, rows), figure in zip(front + folded, shown, strict=True):
        strips = [element for element in figure.iter("{http://www.w3.org/2000/svg}svg") if element.get("width")]
        assert figure.get("role") == "img" and len(strips) == len(rows)
        for row, strip in zip(rows, strips, strict=True):
            marks = [
                each for shape in ("path", "circle") for each in strip.iter(f"{{http://www.w3.org/2000/svg}}{shape}")
            ]
            assert len(marks) == len(row.values) + len(row.theirs)
            assert all(0 <= float(value.rstrip("%")) <= 100 for value in re.findall(r'x="([^"]*%)"', strip_text(strip)))
            assert f"{row.label} {verdict_rows.row_text(row, drawing)[0]}" in figure.get("aria-label")


def sentences(claim):
    """All that a card says of our numbers: the summary, then what each check found."""
    numbers = claims.stored(claim)
    verdict = claims.judge(claim, numbers)
    checks = (*verdict.findings, verdict.unit, verdict.foreseen, *verdict.explanations)
    return [claim.measured(numbers.results(claim)), *(check.sentence for check in checks if check)]


def says(text, value):
    """Whether a text has a number that this value rounds to, with two digits or more.

    >>> says("+0.0043 bits", 0.00434), says("0.0045 bits", 0.00434), says("19 %", 19.05), says("0.00", 0.004)
    (True, False, True, False)
    """
    for token in re.findall(r"(?<![\d.])\d[\d,]*(?:\.\d+)?", text.replace("−", "-")):
        half = 0.5 * 10.0 ** -len(token.partition(".")[2])
        if abs(abs(value) - float(token.replace(",", ""))) <= 1.001 * half and half <= 0.05 * abs(value):
            return True
    return False


def in_brackets(text):
    """(middle, smallest, largest) wherever a text has a number and its range over the seeds: '3.4 (3.1–3.9)'."""
    one = r"([+−-]?\d[\d,]*(?:\.\d+)?)"
    found = re.findall(rf"{one} \({one}(?: to |–){one}\)", text)
    numbers = [tuple(token.replace("−", "-").replace(",", "") for token in three) for three in found]
    # A range of a few units of its last digit fits other things by chance.
    return [three for three in numbers if abs(float(three[2]) - float(three[1])) >= 10 * unit_of(three[1])]


def unit_of(token):
    """What the last digit of a number counts: 0.01 of '1.25'."""
    return 10.0 ** -len(token.partition(".")[2])


def rounded(value, token):
    """Whether a value is what a token of a text is rounded from."""
    return abs(value - float(token)) <= 0.501 * unit_of(token)


NO_SENTENCE_HAS_IT = {("sun_2020_gradscale", "largest gradients of the layers: octaves below the largest")}


@pytest.mark.parametrize("name", claims.experiments())
def test_the_number_beside_the_marks_is_the_one_of_the_sentences(name):
    claim = claims.get(name)
    numbers = claims.stored(claim)
    if claims.judge(claim, numbers).word == "not measured":
        pytest.skip("not all of it is measured")
    texts = sentences(claim)
    ranges = [three for text in texts for three in in_brackets(text)]
    for drawing in claim.drawings:
        rows = [row for row in drawing.drawn(numbers.results(claim)) if np.ptp(row.values)]
        middles = [(row, drawing.middle(row)) for row in rows]
        for row, middle in middles:
            ends = row.values.min(), row.values.max()
            same = [three for three in ranges if rounded(ends[0], three[1]) and rounded(ends[1], three[2])]
            assert middle is None or not same or any(rounded(middle, three[0]) for three in same), (row, same)
        if drawing.statistic == "range":
            assert all(middle is None for _, middle in middles)
        elif rows and (name, drawing.unit) not in NO_SENTENCE_HAS_IT:
            assert any(says(text, middle) for text in texts for _, middle in middles), drawing.unit


def test_a_figure_names_its_statistic():
    builder = toy(seeds=(0, 1, 5))
    builder.draw("in pairs", lambda results: {"8 bits": results.values("error", bits=8)}, statistic="mean")
    builder.draw("range", lambda results: {"8 bits": results.values("error", bits=8)}, statistic="range", over="links")
    claim = builder.build()
    html, _ = card(claim, numbers_of(claim))  # 2, 3 and 7 %
    median, mean, range_alone = ElementTree.fromstring(html).iter("figure")
    assert "median of 3 seeds" in median.find("figcaption/span").text and "8 bits 3.00" in median.get("aria-label")
    assert "mean of 3 seeds" in mean.find("figcaption/span").text and "8 bits 4.00" in mean.get("aria-label")
    assert "smallest–largest of 3 links" in range_alone.get("aria-label")
    assert "8 bits 2.00–7.00" in range_alone.get("aria-label")
    with pytest.raises(ValueError, match="statistic must be median, mean or range, got 'mode'"):
        Drawing("x", dict, statistic="mode")


def strip_text(element):
    """An element as XML."""
    return ElementTree.tostring(element, encoding="unicode")


def test_two_calls_give_the_same_card(page):
    for name in NAMES[::6]:
        again = figures.verdict_card(name)
        assert (again._repr_html_(), repr(again)) == page[name]


def test_nothing_is_fetched_or_run_and_cards_stay_small(page):
    for name, (html, _) in page.items():
        assert not re.search(r"<script|<link|<img|@import|url\(|https?://(?!www\.w3\.org/2000/svg)| on\w+=", html), name
        assert len(html) < 32_000 * (2 if "lplab-larger" in html.replace(STYLE, "") else 1), name  # bytes in a notebook


def test_both_sides_have_one_unit_in_front_and_words_of_sources_are_folded(page):
    for name, (html, _) in page.items():
        claim = claims.get(name)
        front, _, folded = html.partition("<details")
        if claim.ours_beside:
            ours = claim.ours_beside(claims.stored(claim).results(claim))
            assert all(f"<div>{part}</div>" in front for part in ours.split("; ")), ours
        words = ("second-hand", "recalled", "in pairs", "against it", "one at once")
        assert not any(word in front.casefold() for word in words), name
        assert all(part in folded for part in ("They report, and how we know it", "What decides")), name


def test_a_note_how_we_know_a_number_is_not_a_number():
    plain = without_notes("95 % (read), 1.8 % (8 GPUs), 3 (recalled; not checked); 8 bits (figure 2b, read)")
    assert plain == "95 %, 1.8 % (8 GPUs), 3; 8 bits"


def test_published_numbers_are_drawn_where_they_have_the_same_unit(page):
    html, _ = page["rapid_2021"]
    assert "theirs 102–588" in html and "◇" in html
    assert "◇" not in page["wang_2018_training"][0]


# ---- the verdict -----------------------------------------------------------------------------------------------------


def test_the_word_follows_the_numbers():
    claim = toy().build()
    good, bad = numbers_of(claim), numbers_of(claim, lambda point, value: value if point["bits"] == 4 else 9.0)
    for numbers, word in ((good, "shown"), (bad, "not shown"), (Stored({}), "not measured")):
        html, text = card(claim, numbers)
        assert claims.judge(claim, numbers).word == word
        assert f"Verdict: {word}" in text and f"</span> {word}</b>" in html
        assert not any(f"</span> {other}</b>" in html for other in SIGNS if other != word)
    assert "not yet: 4 of 4 measurements are missing" in card(claim, Stored({}))[1]
    assert card(claim, good)[0] != card(claim, bad)[0]


@pytest.mark.parametrize(("name", "change", "before", "after"), [
    ("gupta_2015", where({"rounding": "stochastic"}, test_error=30), "shown", "shown in part"),
    ("scalecom_2020_rates", where({"network": "resnet50"}, elements=60), "shown in part", "not shown"),
    ("rapid_2021", where({}, teras=20, per_watt=1), "shown in part", "not shown"),
    ("micikevicius_2018", where({"scale": 0}, loss=4.0), "shown in part", "shown"),
])  # fmt: skip
def test_other_numbers_of_a_published_claim_give_another_verdict(name, change, before, after, page):
    claim = claims.get(name)
    html, text = card(claim, changed(claim, change))
    assert f"</span> {before}:</b>" in page[name][0] and f"Verdict: {before}:" in page[name][1]
    assert f"</span> {after}:</b>" in html and f"Verdict: {after}:" in text


def test_what_holds_for_the_unit_only_says_so(monkeypatch):
    claim = claims.get("four_bits_saving")
    stored = claims.stored(claim)
    assert claims.judge(claim, stored).word == "shown for the unit, not for a training"
    assert not claims.judge(claim, stored).is_shown
    assert "The 4-bit unit alone does 7.3 times" in card(claim, stored)[0]
    monkeypatch.setattr("lplab.claims.papers.four_bits_saving.multiplier.density_2020", lambda: 6.9)
    assert claims.judge(claim, stored).word == "not shown"


@pytest.mark.parametrize(("holds", "words", "mark"), [
    (True, "not shown, and the paper says why", "✓ so it is"),
    (False, "not shown", "✗ not so"),
])  # fmt: skip
def test_a_reason_that_the_paper_gives_is_on_the_card(holds, words, mark):
    builder = toy()
    builder.paper_says_why("Few bits")(lambda results: CheckResult(holds, "Small numbers, it says."))
    claim = builder.build()
    html, text = card(claim, numbers_of(claim, lambda point, value: 9.0))
    assert text.endswith(f"Verdict: {words}") and f"</span> {words}</b>" in html
    assert (
        f"<b>What the paper itself foresees:</b><ul><li><i>{mark}:</i> Few bits. Small numbers, it says.</li></ul>"
        in html
    )
    assert "What the paper itself foresees" not in card(toy().build(), numbers_of(claim))[0]


def test_what_is_not_sure_is_undecided_and_not_refuted():
    builder = toy()
    builder.explanation("It helps")(lambda results: CheckResult(False, "Three seeds agree.", undecided=True))
    builder.explanation("It is cheap")(lambda results: CheckResult(False, "It is not."))
    claim = builder.build()
    html, _ = card(claim, numbers_of(claim))
    assert "<li><i>? undecided:</i> It helps. Three seeds agree.</li>" in html
    assert "<li><i>✗ not so:</i> It is cheap. It is not.</li>" in html
    with pytest.raises(ValueError, match="a check that holds is not undecided"):
        CheckResult(True, "It is.", undecided=True)


def test_the_unit_does_not_decide_what_holds_as_a_whole():
    builder = toy()
    builder.of_the_unit("Alone")(lambda results: CheckResult(False, "No."))
    claim = builder.build()
    assert claims.judge(claim, numbers_of(claim)).word == "shown"
    with pytest.raises(ValueError, match="two functions are marked as the check of the unit"):
        builder.of_the_unit("Again")(lambda results: CheckResult(True, "Yes."))


def test_what_no_miniature_can_show_says_so():
    claim = dataclasses.replace(
        toy().build(), points=(), criteria=(), drawings=(), untestable="A data centre is needed."
    )
    html, text = card(claim, Stored({}))
    assert text.endswith("We: A data centre is needed.\nVerdict: not testable in miniature") and "<figure" not in html


# ---- what is written -------------------------------------------------------------------------------------------------


def test_text_is_escaped_wherever_it_stands():
    claim = toy(**dict.fromkeys(("title", "paper", "where", "statement", "published", "experiment", "limits"), HARM))
    claim.explanation("Why")(lambda results: CheckResult(True, HARM))
    claim.draw(HARM, lambda results: {HARM: 1.0})
    html, _ = card(made := claim.build(), numbers_of(made))
    assert "<script" not in html and html.count("&lt;script&gt;") >= 11
    assert HARM in [figure.find("figcaption").text for figure in ElementTree.fromstring(html).iter("figure")]


def test_several_claims_are_several_cards():
    made = figures.verdict_card("wang_2018", "pact_2018")
    assert made._repr_html_().count("<section") == 2 and made._repr_html_().count("<style>") == 1
    assert repr(made) == f"{figures.verdict_card('wang_2018')!r}\n\n{figures.verdict_card('pact_2018')!r}"


def test_bad_input_is_told():
    with pytest.raises(ValueError, match="verdict_card needs the id of a claim"):
        figures.verdict_card()
    with pytest.raises(ValueError, match="did you mean gupta_2015"):
        figures.verdict_card("gupta_2051")
    results = claims.Results([({}, 0, {"a": 1.0})])
    with pytest.raises(ValueError, match="published numbers of b, but the rows are a"):
        Drawing("x", lambda results: {"a": 1.0}, {"b": 2.0}).drawn(results)
    with pytest.raises(ValueError, match="nothing that can be drawn for a"):
        Drawing("x", lambda results: {"a": [1.0, float("nan")]}).drawn(results)


def test_the_page_links_to_every_card():
    html = figures.verdict_page()
    links, ids = re.findall(r'href="#([^"]*)"', html), re.findall(r'<div id="([^"]*)"', html)
    assert links == ids == list(NAMES) and html.count("<h1>") == 1
    words = [claims.judge(claim, claims.stored(claim)).word for claim in map(claims.get, NAMES)]
    assert f"Of {len(NAMES)} claims:" in html and f"{words.count('shown')} ✓ shown" in html


# ---- rows of marks ---------------------------------------------------------------------------------------------------


def test_places_on_the_axis():
    rows = (DrawnRow("a", np.array([1.0, 10.0, 100.0])), DrawnRow("b", np.array([0.0])))
    log = verdict_rows.Axis(rows, Drawing("x", dict, logarithmic=True))
    side, far = verdict_rows.SIDE, 100 - verdict_rows.SIDE
    assert np.allclose([log.place(v) for v in (1, 10, 100, 0)], [side, 50, far, side])
    linear = verdict_rows.Axis(rows[:1], Drawing("x", dict, axis=(-98, 102)))
    assert np.allclose([linear.place(v) for v in (-98, 2, 102)], [side, 50, far])
    assert verdict_rows.Axis([DrawnRow("a", np.array([3.0, 3.1]))], Drawing("x", dict)).low == 3.0
    assert verdict_rows.Axis([DrawnRow("a", np.array([1.0, 3.1]))], Drawing("x", dict)).low == 0.0
    assert verdict_rows.Axis([DrawnRow("a", np.array([2.0]))], Drawing("x", dict)).place(2.0) == 50.0


def test_colour_is_never_the_only_sign():
    assert len({sign for sign, _ in SIGNS.values()}) == len(SIGNS)
    assert len(set(verdict_rows.SIGNS.values())) == len(verdict_rows.SIGNS)


def test_no_text_of_a_card_is_below_12_pixels():
    sizes = [float(size) for size in re.findall(r"font(?:-size)?: ([\d.]+)px", STYLE)]
    assert len(sizes) >= 8 and min(sizes) >= 12


def test_zero_has_its_number_and_an_end_beside_it_has_none():
    """A low end of −0.1 below the line of zero was read as the number of that line."""
    drawing = Drawing("bits", dict)
    texts = {
        ends: re.sub(r"<[^>]*>", "|", Axis([DrawnRow("all", np.array(ends))], drawing).numbers_html)
        for ends in ((-0.1, 1.6), (-1.0, 1.0), (-1.6, 0.1), (1.0, 9.0))
    }
    numbers = {ends: [part for part in text.split("|") if part] for ends, text in texts.items()}
    assert numbers == {
        (-0.1, 1.6): ["0", "1.60"], (-1.0, 1.0): ["−1.00", "0", "1.00"],
        (-1.6, 0.1): ["−1.60", "0"], (1.0, 9.0): ["0", "9.00"],
    }  # fmt: skip


def test_a_figure_of_differences_has_a_line_at_zero_also_where_its_axis_begins_there():
    def zero_lines(values, **kind):
        drawing, row = Drawing("bits", dict, **kind), DrawnRow("all", np.array(values))
        axis = Axis([row], drawing)
        upright = re.findall(r'<line x1="([\d.]+)%" x2="\1%"', verdict_rows.strip(row, axis, "measured"))
        assert axis.numbers_html.count(">0<") == (axis.low <= 0 <= axis.high), "0 stands there once"
        return [float(x) for x in upright]

    assert zero_lines([0.1, 1.6], differences=True) == zero_lines([0.0, 1.6], differences=True) == [verdict_rows.SIDE]
    assert zero_lines([-1.0, 1.0]) == zero_lines([-1.0, 1.0], differences=True) == [50.0]
    assert zero_lines([-1.6, 0.0], differences=True) == [100 - verdict_rows.SIDE]
    assert not zero_lines([0.1, 1.6]) and not zero_lines([1.5, 1.6], differences=True)
    assert not zero_lines([0.1, 1.6], differences=True, logarithmic=True)


def test_figures_of_differences_say_so():
    for claim in map(claims.get, claims.experiments()):
        for drawing in claim.drawings:
            says_so = re.search("above|below|more than|adds|help|saved", drawing.unit) and not drawing.logarithmic
            assert drawing.differences == bool(says_so), (claim.id, drawing.unit)
