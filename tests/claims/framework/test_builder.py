"""A claim written from top to bottom, and the table of papers that claims cite."""

import dataclasses

import pytest

from lplab import claims
from lplab.claims import CheckResult, ClaimBuilder, Results, claim_catalogue
from lplab.claims.bibliography import PAPERS, Paper, cite


@pytest.fixture
def builder():
    return ClaimBuilder(
        id="toy", title="More bits, less error", paper=cite("gupta_2015"), where="figure 1", statement="Bits help.",
        published="1 %", experiment="Division.", points=({"bits": 4}, {"bits": 8}), seeds=(0, 1),
    )  # fmt: skip


def measure(point, seed):
    return {"error": 16 / point["bits"] + seed}


def measured(results):
    return f"{results.median('error', bits=8)} %"


def falls(results):
    return CheckResult(results.median("error", bits=8) < results.median("error", bits=4), "It falls.")


def halves(results):
    return CheckResult(bool((results.values("error", bits=8) == results.values("error", bits=4) / 2).all()), "By half.")


def test_a_claim_from_its_parts_is_measured_and_judged(builder, tmp_path):
    assert builder.measurement(measure) is measure and builder.summary(measured) is measured
    assert builder.criterion("The error falls")(falls) is falls
    assert builder.explanation("It is one over the bits")(halves) is halves
    claim = builder.build()
    stored = claims.run_claim(claim, folder=tmp_path)
    verdict = claims.judge(claim, stored)
    assert verdict.is_shown and [finding.holds for finding in verdict.explanations] == [False]
    assert claims.row(claim, tmp_path)["ours"] == "2.5 %"
    assert claim.paper.endswith("ICML 2015") and claim.version == 1


def test_checks_stay_in_the_order_in_which_they_are_written(builder):
    builder.measurement(measure)
    builder.summary(measured)
    for number in (2, 1, 3):
        builder.criterion(f"criterion {number}")(falls)
        builder.explanation(f"explanation {number}")(halves)
    claim = builder.build()
    assert [check.statement for check in claim.criteria] == ["criterion 2", "criterion 1", "criterion 3"]
    assert [check.statement for check in claim.explanations] == ["explanation 2", "explanation 1", "explanation 3"]


@pytest.mark.parametrize("part", ["measurement", "summary"])
def test_a_part_that_is_missing_or_there_twice_is_refused(builder, part):
    other = {"measurement": "summary", "summary": "measurement"}[part]
    function = {"measurement": measure, "summary": measured}
    getattr(builder, other)(function[other])
    builder.criterion("The error falls")(falls)
    with pytest.raises(ValueError, match="toy: a measurement and a summary are needed"):
        builder.build()
    getattr(builder, part)(function[part])
    with pytest.raises(ValueError, match=f"toy: two functions are marked as its {part}"):
        getattr(builder, part)(function[part])


def test_a_claim_without_a_criterion_is_refused(builder):
    builder.measurement(measure)
    builder.summary(measured)
    with pytest.raises(ValueError, match="toy: points, seeds and criteria are needed"):
        builder.build()


@pytest.mark.parametrize(("limit", "seen", "word"), [
    (3.0, True, "shown"),
    (2.0, True, "not shown, and the paper says why"),
    (2.0, False, "not shown"),
])  # fmt: skip
def test_a_reason_that_the_paper_gives_counts_where_the_statement_does_not_show(builder, tmp_path, limit, seen, word):
    builder.measurement(measure)
    builder.summary(measured)
    builder.criterion("The error is small")(
        lambda results: CheckResult(results.median("error", bits=8) < limit, f"Below {limit}?")
    )
    builder.paper_says_why("Few bits")(lambda results: CheckResult(seen, "Eight are few, the paper says."))
    claim = builder.build()
    stored = claims.run_claim(claim, folder=tmp_path)
    verdict = claims.judge(claim, stored)
    assert verdict.word == word and verdict.is_shown == (word == "shown")
    assert verdict.foreseen == CheckResult(seen, "Eight are few, the paper says.", "Few bits")
    record = claims.row(claim, tmp_path)
    assert record["foreseen"] == [
        {"holds": seen, "statement": "Few bits", "sentence": "Eight are few, the paper says.", "undecided": False}
    ]
    lines = claims.as_text([record]).splitlines()
    assert f"  {'foreseen' if seen else 'not so':<10}Few bits. Eight are few, the paper says." in lines
    page = claims.as_page([record]).splitlines()
    assert "What the paper itself foresees:" in page
    assert f"- *{'so it is' if seen else 'not so'}:* **Few bits.** Eight are few, the paper says." in page


def test_the_arithmetic_unit_comes_before_the_paper_s_reason(builder, tmp_path):
    builder.measurement(measure)
    builder.summary(measured)
    builder.criterion("Never")(lambda results: CheckResult(False, "No."))
    builder.of_the_unit("Alone")(lambda results: CheckResult(True, "Yes."))
    builder.paper_says_why("Few bits")(lambda results: CheckResult(True, "Yes."))
    claim = builder.build()
    verdict = claims.judge(claim, claims.run_claim(claim, folder=tmp_path))
    assert verdict.word == "shown for the unit, not for a training"
    with pytest.raises(ValueError, match="toy: two functions are marked as the check of the paper's reason"):
        builder.paper_says_why("Again")(lambda results: CheckResult(True, "Yes."))


def test_every_field_of_a_claim_can_be_declared():
    own, made = ({field.name for field in dataclasses.fields(kind)} for kind in (ClaimBuilder, claims.Claim))
    assert made - own == {"untestable"}, "a claim that cannot be tested has no functions"
    assert own <= made


@pytest.mark.parametrize("claim", (*claim_catalogue.CLAIMS, *claim_catalogue.LARGER), ids=lambda claim: claim.id)
def test_the_functions_of_a_claim_stand_in_its_module_under_its_name(claim):
    """Other processes find the measurement by its module and name; each check says something of the stored numbers."""
    assert claim.measure.__module__ == f"lplab.claims.papers.{claim.id}"
    stored = claims.stored(claim)
    if claim.budget == claims.QUICK or claims.judge(claim, stored).word != "not measured":
        results = stored.results(claim)
        assert isinstance(results, Results) and claim.measured(results)
    statements = [check.statement for check in (*claim.criteria, *claim.explanations)]
    assert len(set(statements)) == len(statements)


# ---- papers ----------------------------------------------------------------------------------------------------------


def test_papers_are_in_the_order_of_their_years_and_each_is_cited():
    years = [paper.year for paper in PAPERS.values()]
    assert years == sorted(years)
    assert all(key.endswith(f"_{paper.year}") for key, paper in PAPERS.items())
    cited = "\n".join(claim.paper for claim in claim_catalogue.CLAIMS)
    assert [key for key, paper in PAPERS.items() if paper.venue not in cited or paper.authors not in cited] == []


def test_a_second_paper_is_cited_without_its_title():
    text = cite("strubell_2019", "patterson_2021")
    assert text.endswith("in NLP, ACL 2019; D. Patterson et al., arXiv 2104.10350, 2021")


def test_an_unknown_paper_and_a_wrong_year_are_refused():
    with pytest.raises(ValueError, match="there is no paper 'gupta_2051'; did you mean gupta_2015"):
        cite("gupta_2051")
    with pytest.raises(ValueError, match="'Bits': the venue 'ICML 2015' does not name the year 2016"):
        Paper("A. Nobody", "Bits", "ICML 2015", 2016)
