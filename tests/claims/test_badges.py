"""What a badge says is what the stored numbers say: no word of it stands where its check does not hold."""

import dataclasses
import re

import pytest

from lplab import claims
from lplab.claims import Check, CheckResult, ClaimBuilder
from lplab.claims.framework.store import Stored

NAMES = claims.experiments()
NEVER = ("not for a network", "needs none", "left out", "no training")  # beside these words nothing simply holds
MOST_WORDS = 32


def judged(name):
    """A claim, its results and its verdict."""
    claim = claims.get(name)
    numbers = claims.stored(claim)
    verdict = claims.judge(claim, numbers)
    if claim.budget == claims.LONG and verdict.word == "not measured":
        pytest.skip(f"the long budget was not run here: {numbers.provenance_of(claim)}")
    return claim, numbers.results(claim), verdict


def checks_of(claim):
    """Criteria, explanations, the check of the unit and that of the paper's reason."""
    return [*claim.criteria, *claim.explanations, *(check for check in (claim.unit, claim.foreseen) if check)]


def said(clause, results, **found):
    """The words of a clause if each of its checks found this."""
    return clause.text({check: CheckResult(sentence="", **found) for check in clause.checks}, results)


@pytest.mark.parametrize("name", NAMES)
def test_each_criterion_has_one_clause_and_each_side_its_network(name):
    claim = claims.get(name)
    told = [check for clause in claim.badge for check in clause.checks]
    assert all(told.count(check) == 1 for check in claim.criteria), "a criterion that failed could be missing"
    assert set(told) <= set(checks_of(claim)) and len(told) == len(set(told))
    assert claim.theirs_on and claim.ours_on and all(clause.checks or clause.limits for clause in claim.badge)


@pytest.mark.parametrize("name", NAMES)
def test_the_words_are_those_of_the_verdict(name):
    claim, results, verdict = judged(name)
    found = {check: check.result(results) for check in checks_of(claim)}
    assert verdict.badge.split(" · ") == [clause.text(found, results) for clause in claim.badge]
    assert len(verdict.badge.split()) <= MOST_WORDS and not re.search(r"\bholds?\b|✓|✗", verdict.badge.casefold())
    limits = [clause.is_met(found) for clause in claim.badge if clause.limits]
    assert verdict.is_shown == (all(found[check].holds for check in claim.criteria) and not any(limits))
    if verdict.is_shown:
        assert not any(words in f"{claim.title} {claim.statement} {verdict.badge}" for words in NEVER)


@pytest.mark.parametrize("name", NAMES)
def test_other_findings_call_for_other_words(name):
    claim, results, _ = judged(name)
    for clause in (clause for clause in claim.badge if clause.checks):
        good, bad = (said(clause, results, holds=holds) for holds in (True, False))
        assert good and bad and good != bad
        assert said(clause, results, holds=False, undecided=True) == f"{good} (undecided)"


def with_failing(claim, criterion):
    """The claim with one criterion that fails, whatever was measured; its badge tells of this one."""
    failing = Check(criterion.statement, lambda results: CheckResult(False, ""))

    def put(checks):
        return tuple(failing if check == criterion else check for check in checks)

    badge = tuple(dataclasses.replace(clause, checks=put(clause.checks)) for clause in claim.badge)
    return dataclasses.replace(claim, criteria=put(claim.criteria), badge=badge), failing


@pytest.mark.parametrize("name", NAMES)
def test_a_claim_with_a_criterion_that_fails_says_so(name):
    original, _, _ = judged(name)
    numbers = claims.stored(original)
    for criterion in original.criteria:
        claim, failing = with_failing(original, criterion)
        verdict = claims.judge(claim, numbers)
        assert not verdict.is_shown
        (clause,) = (clause for clause in claim.badge if failing in clause.checks)
        assert said(clause, numbers.results(claim), holds=False) in verdict.badge.split(" · ")


@pytest.mark.parametrize("name", NAMES)
def test_a_number_on_the_badge_stands_in_what_its_check_says(name):
    """Nothing on a badge can be older than the measurements: its numbers come from a check's own text."""
    claim, results, _ = judged(name)
    for clause in (clause for clause in claim.badge if clause.checks):
        found = {check: check.result(results) for check in clause.checks}
        source = " ".join(result.text for result in found.values()) + f" {claim.published} {claim.experiment}"
        for token in re.findall(r"\d[\d,.]*\d|\d", clause.text(found, results)):
            assert re.search(rf"(?<![\d.]){re.escape(token)}(?![\d]|\.\d)", source), (token, source)


def toy():
    """A claim whose two criteria and whose limit are what ``of`` says."""
    made = ClaimBuilder(
        "toy", title="More bits", paper="A. Nobody 2020", where="figure 1", statement="Bits help.", published="1 %",
        experiment="Division.", points=({"bits": 4},), seeds=(0,),
    )  # fmt: skip
    made.measurement(lambda point, seed: {"error": 1.0})
    made.summary(lambda results: "1 %")
    return made


def fixed(holds, undecided=False):
    return lambda results: CheckResult(holds, "So it is.", undecided=undecided)


@pytest.mark.parametrize(("first", "second", "limit", "word", "badge"), [
    (fixed(True), fixed(True), fixed(False), "shown", "one · two · all"),
    (fixed(True), fixed(True), fixed(True), "shown in part", "one · two · but not three"),
    (fixed(True), fixed(False), fixed(False), "shown in part", "one · not two · all"),
    (fixed(False, True), fixed(True), fixed(False), "shown in part", "one (undecided) · two · all"),
    (fixed(False, True), fixed(False, True), fixed(False), "undecided", "one (undecided) · two (undecided) · all"),
    (fixed(False), fixed(False, True), fixed(True), "not shown", "not one · two (undecided) · but not three"),
])  # fmt: skip
def test_verdict_and_words_follow_the_checks(first, second, limit, word, badge):
    made = toy()
    made.criterion("One")(first)
    made.criterion("Two")(second)
    made.explanation("Not three")(limit)
    made.found(first, holds="one", fails="not one")
    made.found(second, holds="two", fails="not two")
    made.found(limit, holds="but not three", fails="all", limits=True)
    claim = made.build()
    verdict = claims.judge(claim, Stored({claim.keys()[0]: {"error": 1.0}}))
    assert (verdict.word, verdict.badge) == (word, badge)


def test_what_is_left_out_limits_and_a_clause_needs_a_check():
    made = toy()
    right = fixed(True)
    made.criterion("One")(right)
    made.found(right, holds="one", fails="not one")
    made.leaves_out("no training was run")
    claim = made.build()
    verdict = claims.judge(claim, Stored({claim.keys()[0]: {"error": 1.0}}))
    assert (verdict.word, verdict.badge) == ("shown in part", "one · no training was run")
    for tests in ((), (fixed(True),)):
        with pytest.raises(ValueError, match="the clause 'two' of the badge tells of functions that are no checks"):
            made.found(*tests, holds="two", fails="not two")
