"""The larger experiment of the domains: what runs, what is judged, and that each criterion can fail."""

import numpy as np
import pytest
from torch import nn

from lplab.claims import Results
from lplab.claims.framework.branches import BranchPlan
from lplab.claims.papers import domains, domains_large
from lplab.claims.papers.domains import (
    ADACOMP,
    BOUNDS,
    CHARACTERS,
    FOUR,
    FP8,
    HYBRID,
    NVFP4,
    PICTURES,
    SCALECOM,
    SPEECH,
)
from lplab.claims.papers.domains_large import (
    DEPTHWISE,
    DOMAINS_LARGE,
    FEWER_STEPS,
    LARGER_DOMAINS,
    LAYERS,
    TESTED,
    task_of,
)


def results(**changes):
    """All methods as good as float32, but for ``domain_method=added`` of error (points) and loss (bits)."""
    rows = []
    for point, seed in DOMAINS_LARGE.measurements():
        added = changes.get(f"{point['domain']}_{point['method']}".replace(" ", "_").replace("/", "_"), 0.0)
        base = {"error": 8.0 + seed / 10, "loss": 2.0 + seed / 10, "train_loss": 1.0}
        numbers = {name: value + added for name, value in base.items()}
        rows.append((point, seed, numbers | ({"smaller": 20.0} if point["method"] in domains.COMPRESSORS else {})))
    return Results(rows)


def failing(found):
    """The methods whose criterion does not hold."""
    return [each.statement.partition(" is ")[0] for each in DOMAINS_LARGE.criteria if not each.test(found).holds]


@pytest.mark.parametrize(("method", "domain", "added"), [
    (FP8, PICTURES, 1.5), (HYBRID, DEPTHWISE, 1.5), (FOUR, SPEECH, 3.5), (NVFP4, CHARACTERS, 0.05),
    (ADACOMP, PICTURES, 1.5), (SCALECOM, CHARACTERS, 0.05),
])  # fmt: skip
def test_each_criterion_can_fail(method, domain, added):
    assert failing(results()) == []
    changed = {f"{domain}_{method}".replace(" ", "_").replace("/", "_"): added}
    assert failing(results(**changed)) == [method]


def test_limits_are_those_of_the_small_experiment_and_depthwise_networks_are_judged_where_a_paper_has_one():
    for method, tested in TESTED.items():
        assert tuple(each for each in tested if each != DEPTHWISE) == BOUNDS[method][0]
        assert (DEPTHWISE in tested) == (method in (HYBRID, FOUR))
    ran = {(point["domain"], point["method"]) for point in DOMAINS_LARGE.points}
    assert all((domain, method) in ran for method, tested in TESTED.items() for domain in tested)
    assert len(ran) == len(DOMAINS_LARGE.points) == 42


def test_each_explanation_can_hold_and_can_fail():
    def found(**changes):
        return [each.test(results(**changes)).holds for each in DOMAINS_LARGE.explanations]

    assert found() == [*[False] * 3, True, *[False] * 3, True, False, True]
    assert found(depthwise_pictures_FP8_of_2018=0.1, characters_FP8_of_2018=0.1)[0]
    assert found(**{f"{each.replace(' ', '_')}_INT4_FP4": 0.1 for each in LARGER_DOMAINS})[1]
    assert found(depthwise_pictures_INT4_FP4=0.2, pictures_INT4_FP4=0.1)[2]
    assert not found(characters_float32=0.5)[3]
    assert found(**{"characters_float32,_3_4_of_the_steps": 0.1})[4]
    assert not found(**{f"{each}_float32,_3_4_of_the_steps": 1.1 for each in (CHARACTERS, PICTURES)})[4]
    rates = {f"characters_ScaleCom,_{rate}_the_rate": gap for rate, gap in (("half", 0.06), ("twice", 0.04))}
    assert found(characters_ScaleCom=0.1, **rates)[5:7] == [False, True]
    assert found(characters_ScaleCom=0.13, **rates)[5:7] == [True, True]
    assert found(characters_ScaleCom=0.07, **rates)[5:7] == [False, False]
    assert not found(pictures_ScaleCom=1.5)[7]
    beyond = {f"characters_{method}".replace("/", "_"): 0.2 for method in (FOUR, NVFP4, ADACOMP, SCALECOM)}
    assert found(**beyond)[8] and not found(**beyond, pictures_AdaComp=1.5)[8]


def test_the_rows_of_parity_count_what_the_networks_have():
    def layers(task):
        named = task.model(0).named_modules()
        return sum(isinstance(m, nn.Conv2d | nn.Linear) for name, m in named if "shortcut" not in name)

    assert {"small": layers(domains.task_of(PICTURES)), "large": layers(task_of(PICTURES))} == LAYERS
    assert domains.task_of(PICTURES).batch == 16
    assert [row.is_near for row in DOMAINS_LARGE.parity] == [True, True, True, False, False, False]


@pytest.mark.parametrize(("domain", "method"), [
    (SPEECH, NVFP4), (SPEECH, SCALECOM), (CHARACTERS, FEWER_STEPS), (CHARACTERS, f"{SCALECOM}, twice the rate"),
])  # fmt: skip
def test_a_measurement_is_made_as_in_the_small_experiment(domain, method, monkeypatch, tmp_path):
    monkeypatch.setenv("LPLAB_CHECKPOINTS", str(tmp_path))
    monkeypatch.setitem(domains_large.LARGER_PLANS, domain, BranchPlan(before=2, steps=4))
    found = domains_large.measure({"domain": domain, "method": method}, 0)
    assert np.isfinite(list(found.values())).all() and ("smaller" in found) == (SCALECOM in method)
    if method in (NVFP4, FEWER_STEPS):
        assert found["steps"] == (3 if method == FEWER_STEPS else 4)
    if "rate" in method:
        assert found != domains_large.measure({"domain": domain, "method": SCALECOM}, 0)
