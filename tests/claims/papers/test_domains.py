"""The claim of the four domains: what is compared with what, and what is judged."""

import numpy as np
import pytest

from lplab import claims
from lplab.claims import Results, judge
from lplab.claims.framework.branches import surely_above, surely_within
from lplab.claims.framework.store import Stored
from lplab.claims.papers import domains, domains_large
from lplab.claims.papers.domains import (
    ADACOMP,
    BOUNDS,
    CHARACTERS,
    DENSE,
    DETECTION,
    DOMAINS,
    DOMAINS_CLAIM,
    FLOAT,
    FOUR,
    FP8,
    HYBRID,
    METHODS,
    NVFP4,
    PICTURES,
    SCALECOM,
    SPEECH,
    gaps_to_float,
)
from lplab.claims.papers.domains_large import DOMAINS_LARGE, LARGER_DOMAINS
from lplab.labs.four_domains import four_domains

RAN = domains.methods_by_domain(DOMAINS_LARGE.points)


def results(**changes):
    """All methods as good as float32, but for ``domain_method=added`` of error (points) and loss (bits)."""
    rows = []
    for point, seed in DOMAINS_CLAIM.measurements():
        added = changes.get(f"{point['domain']}_{point['method']}".replace(" ", "_").replace("/", "_"), 0.0)
        base = {"error": 20.0 + seed, "loss": 2.0 + seed, "train_loss": 1.0}
        rows.append((point, seed, {name: value + added for name, value in base.items()}))
    return Results(rows)


def failing(found):
    """The statements of the criteria that do not hold."""
    return [check.statement for check in DOMAINS_CLAIM.criteria if not check.test(found).holds]


def test_a_recipe_is_compared_with_float32_and_a_compressor_with_four_learners_in_float32():
    found = results(pictures_float32=1.0, pictures_ScaleCom=3.0)
    assert gaps_to_float(found, PICTURES, HYBRID).tolist() == [-1.0] * 5
    assert gaps_to_float(found, PICTURES, SCALECOM).tolist() == [3.0] * 5
    assert {FLOAT, DENSE, *METHODS} == {*domains.RECIPES, *domains.COMPRESSORS}


def test_characters_are_compared_in_percent_of_the_loss_and_others_in_points():
    found = results(characters_hybrid_FP8=0.1, speech_hybrid_FP8=0.1)
    assert gaps_to_float(found, CHARACTERS, HYBRID) == pytest.approx([10 / (2 + seed) for seed in DOMAINS_CLAIM.seeds])
    assert gaps_to_float(found, SPEECH, HYBRID) == pytest.approx([0.1] * 5)


def test_each_paper_is_judged_in_the_domains_that_it_tested_alone():
    assert failing(results()) == []
    assert [s.partition(" is ")[0] for s in failing(results(detection_hybrid_FP8=1.5))] == [HYBRID]
    assert failing(results(detection_INT4_FP4=50.0)) == []
    assert [s.partition(" is ")[0] for s in failing(results(speech_INT4_FP4=3.5))] == [FOUR]
    assert all(set(tested) <= set(DOMAINS) for tested, _ in BOUNDS.values())
    assert [m for m, (tested, _) in BOUNDS.items() if DETECTION in tested] == [HYBRID]


def test_a_noisy_difference_is_not_surely_within_the_bound():
    found = results(pictures_hybrid_FP8=0.5)
    assert failing(found) == []
    noisy = Results(
        (p, s, {**n, "error": n["error"] + (s - 2) * (p["method"] == HYBRID and p["domain"] == PICTURES)})
        for p, s, n in found.rows
    )
    assert gaps_to_float(noisy, PICTURES, HYBRID).mean() == pytest.approx(0.5)
    assert [s.partition(" is ")[0] for s in failing(noisy)] == [HYBRID]


def test_every_cell_is_stored_and_drawn():
    stored = claims.stored(DOMAINS_CLAIM)
    assert not stored.missing(DOMAINS_CLAIM) and judge(DOMAINS_CLAIM, stored).word == "shown in part"
    made = domains.drawn_gaps(DOMAINS_CLAIM, domains.TESTED)
    assert list(made["gaps"]) == list(DOMAINS) and all(list(row) == list(METHODS) for row in made["gaps"].values())
    assert isinstance(stored, Stored)


@pytest.mark.parametrize(("methods", "panels"), [((ADACOMP, SCALECOM), 4), ((FP8, HYBRID), 5), ((FOUR, NVFP4), 4)])
def test_labs_draw_the_larger_experiment_and_its_depthwise_network_where_all_methods_were_run(methods, panels):
    made = domains.drawn_gaps(DOMAINS_LARGE, domains_large.TESTED, methods)
    drawn = [trace.x for trace in four_domains(*methods).data if trace.name == "each seed"]
    each = [np.concatenate([rows[method] for method in methods]) for rows in made["gaps"].values()]
    assert len(drawn) == panels and all(map(np.array_equal, drawn, each))


def test_an_unknown_method_is_named():
    with pytest.raises(ValueError, match="there is no method DGC; there are FP8 of 2018"):
        four_domains("DGC")


@pytest.mark.slow
@pytest.mark.parametrize("method", [FLOAT, SCALECOM])
def test_stored_numbers_of_speech_can_be_measured_again_to_the_last_bit(measured_and_stored, method):
    now, kept = measured_and_stored(DOMAINS_CLAIM, {"domain": SPEECH, "method": method}, 0)
    assert now == kept


def test_labs_06_to_10_tell_what_was_measured():
    """Which cells are within their limit, beyond it, or undecided, and numbers, in the words of the labs."""
    found = claims.stored(DOMAINS_LARGE).results(DOMAINS_LARGE)
    gaps = {(m, d): gaps_to_float(found, d, m) for d, methods in RAN.items() for m in methods}
    within = {cell for cell, gap in gaps.items() if surely_within(gap, BOUNDS[cell[0]][1])}
    beyond = {cell for cell, gap in gaps.items() if surely_above(gap, BOUNDS[cell[0]][1])}
    assert len(DOMAINS_LARGE.seeds) == 5
    assert {(HYBRID, domain) for domain in LARGER_DOMAINS if domain != SPEECH} <= within  # lab 06
    assert not {(FP8, SPEECH), (HYBRID, SPEECH)} & (within | beyond)
    assert gaps[FP8, CHARACTERS].mean() / gaps[HYBRID, CHARACTERS].mean() == pytest.approx(3, abs=0.1)
    assert {(FOUR, PICTURES), (FOUR, SPEECH)} <= within and {
        (FOUR, CHARACTERS),
        (NVFP4, CHARACTERS),
    } <= beyond  # lab 07
    assert {(ADACOMP, PICTURES), (ADACOMP, SPEECH), (SCALECOM, PICTURES)} <= within  # labs 09 and 10
    assert {(ADACOMP, CHARACTERS), (SCALECOM, CHARACTERS)} <= beyond and (SCALECOM, SPEECH) not in within | beyond
    told = {FOUR: 10.6, NVFP4: 3.6, ADACOMP: 4.0, SCALECOM: 9.3}
    assert {method: round(gaps[method, CHARACTERS].mean(), 1) for method in told} == told
    fewer = {d: gaps_to_float(found, d, domains_large.FEWER_STEPS, FLOAT).mean() for d in (CHARACTERS, PICTURES)}
    rates = [gaps_to_float(found, CHARACTERS, f"{SCALECOM}, {rate}").mean() for rate in domains_large.RATES]
    assert [round(float(gap), 1) for gap in (*fewer.values(), *rates)] == [2.2, 0.3, 6.8, 21.8]
