"""Larger experiments: what they must say, and how a claim and its larger experiment are shown together."""

import dataclasses
import math

import pytest

from lplab import claims
from lplab.claims import NOTHING_TRIED, ClaimBuilder, ParityRow, claim_catalogue
from tests.claims.framework.test_claims import TOY

ROW = ParityRow("examples a learner", 32, "table 2, read", small=1, large=16)
SMALL_ROW = dataclasses.replace(ROW, large=None, why="Two cores.")
LARGE = dataclasses.replace(
    TOY, id="toy_large", budget="long", larger_than="toy", parity=(ROW,), tried=(NOTHING_TRIED,), experiment="More."
)
CATALOGUE = [claims.get(name) for name in claims.experiments()]


# ---- parity ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("paper", "small", "large", "factor"), [
    (30, 10, None, 3.0), (10, 30, None, 3.0), (30, 1, 10, 3.0), (0.9, 0.9, None, 1.0), (0, 0, None, 1.0),
    ((4, 64), (2, 128), None, 2.0), (20, (18, 50), None, 2.5),
])  # fmt: skip
def test_near_is_within_a_factor_of_three_at_both_ends(paper, small, large, factor):
    row = ParityRow("n", paper, "read", small=small, large=large)
    assert row.is_near and row.factor == pytest.approx(factor) and row.apart == "within a factor of 3"


@pytest.mark.parametrize(("paper", "small", "large", "apart"), [
    (30, 9.9, None, "3 times away"), (30, 30, 1, "30 times away"), (0.9, 0, None, "not comparable"),
    ((4, 64), (4, 16), None, "4 times away"), (450_000, 300, None, "1,500 times away"),
])  # fmt: skip
def test_what_is_not_near_needs_a_reason_and_nothing_else_has_one(paper, small, large, apart):
    with pytest.raises(ValueError, match=f"is {apart}; say why in why="):
        ParityRow("n", paper, "recalled", small=small, large=large)
    row = ParityRow("n", paper, "recalled", small=small, large=large, why="Two cores.")
    assert row.is_near is False and row.texts()["found"] == f"{apart}: Two cores."
    with pytest.raises(ValueError, match="why= is for rows that are more than 3 times away"):
        ParityRow("n", paper, "recalled", small=paper, large=paper, why="Two cores.")


def test_what_the_paper_does_not_say_is_not_compared():
    row = ParityRow("waiting over steps", None, "the paper does not say how long an element waits", small=0.5)
    assert row.is_near is None and row.texts()["found"] == "no number of the paper"
    assert row.texts()["paper"] == "– (the paper does not say how long an element waits)"
    with pytest.raises(ValueError, match="source must say why there is none"):
        ParityRow("waiting over steps", None, "", small=0.5)
    with pytest.raises(ValueError, match="source must say read, second-hand or recalled, got 'table 2, already'"):
        ParityRow("waiting over steps", 0.5, "table 2, already", small=0.5)


@pytest.mark.parametrize("value", [-1.0, math.inf, math.nan, (4, 2)])
def test_values_are_finite_and_ranges_are_in_order(value):
    for which in ("paper", "small", "large"):
        with pytest.raises(ValueError, match="finite, not negative, lowest first"):
            ParityRow("n", **{"paper": 1, "source": "read", which: value})


# ---- what a larger experiment needs ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("changes", "text"), [
    ({"id": "toy_2"}, "the larger experiment of toy is toy_large"),
    ({"budget": "quick"}, "a larger experiment is of the budget 'long', got 'quick'"),
    ({"parity": ()}, "a larger experiment needs parity, and tried"),
    ({"tried": ()}, "a larger experiment needs parity, and tried"),
    ({"parity": (SMALL_ROW,)}, "the row 'examples a learner' of parity has no value of the larger experiment"),
    ({"no_larger_run": "It is large."}, "no_larger_run belongs to a claim without a larger experiment"),
    ({"larger_than": "", "id": "toy"}, "belong to one with larger_than"),
    ({"larger_than": "", "id": "toy", "tried": (), "parity": (SMALL_ROW,)}, "has parity and no_larger_run, or neither"),
    ({"larger_than": "", "id": "toy", "tried": (), "parity": (), "no_larger_run": "No."}, "or neither"),
])  # fmt: skip
def test_a_larger_experiment_that_is_not_whole_is_refused(changes, text):
    with pytest.raises(ValueError, match=text):
        dataclasses.replace(LARGE, **changes)


def test_a_claim_without_a_larger_experiment_says_why():
    claim = dataclasses.replace(TOY, parity=(SMALL_ROW,), no_larger_run="Four nodes of GPUs.")
    assert claim.parity[0].ours == 1


def test_the_builder_takes_from_the_claim_what_the_paper_states():
    made = ClaimBuilder.larger(
        TOY, experiment="More.", points=TOY.points, seeds=TOY.seeds, budget_seconds=60, limits="Toys.", parity=(ROW,),
        tried=("With 8 steps the error was 3 %.",), version=2,
    )  # fmt: skip
    made.measurement(TOY.measure)
    made.summary(TOY.measured)
    made.criterion("falls")(TOY.criteria[0].test)
    large = made.build()
    assert (large.id, large.larger_than, large.budget, large.version) == ("toy_large", "toy", "long", 2)
    for name in ("title", "paper", "where", "statement", "published"):
        assert getattr(large, name) == getattr(TOY, name)
    assert large.experiment == "More." and large.parity == (ROW,) and large.tried[0].startswith("With 8 steps")


# ---- the catalogue ---------------------------------------------------------------------------------------------------


def test_a_larger_experiment_is_no_claim_of_its_own(monkeypatch):
    monkeypatch.setattr(claim_catalogue, "CLAIMS", (TOY,))
    monkeypatch.setattr(claim_catalogue, "LARGER", (LARGE,))
    assert claims.names() == ("toy",) and claims.experiments() == ("toy", "toy_large")
    assert claims.get("toy_large") is LARGE and claims.larger(TOY) is LARGE and claims.larger(LARGE) is None


def test_each_larger_experiment_belongs_to_one_claim_and_states_what_it_states():
    assert sorted(each.id for each in claim_catalogue.LARGER) == sorted({*claims.experiments()} - {*claims.names()})
    for each in claim_catalogue.LARGER:
        claim = claims.get(each.larger_than)
        for name in ("title", "paper", "where", "statement", "published"):
            assert getattr(each, name) == getattr(claim, name)
        assert not claim.parity, "the numbers of both stand in the larger experiment"
        assert len(each.seeds) >= 3 and each.limits and each.experiment != claim.experiment
        for tried in each.tried:
            assert tried == NOTHING_TRIED or (any(map(str.isdigit, tried)) and tried.endswith(".")), tried
