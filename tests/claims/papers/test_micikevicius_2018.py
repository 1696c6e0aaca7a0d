"""Loss scaling: the stored numbers say so, other numbers would not, and a point can be measured."""

import pytest

from lplab import claims
from lplab.claims.papers import micikevicius_2018 as module
from tests.claims.changed_numbers import judged, where

CLAIM = module.MICIKEVICIUS_2018
SMALL = {"recipe": "fp16_mixed", "scale": module.SMALL_LOG2}


def test_it_is_shown_and_explained():
    verdict = claims.judge(CLAIM, claims.stored(CLAIM))
    assert all(finding.holds for finding in (*verdict.findings, *verdict.explanations))
    assert verdict.word == "shown in part" and "without one, too" in verdict.badge


@pytest.mark.parametrize(("change", "which"), [
    (where({"scale": "dynamic"}, loss=lambda n: n["loss"] + 0.2), 0),
    (where(SMALL, loss=3.36), 1),
    (where({"recipe": "fp32"}, loss=lambda n: n["loss"] + 1), 1),
], ids=["scaling does not help", "nothing vanishes", "float32 is as bad"])  # fmt: skip
def test_it_can_fail(change, which):
    verdict = judged(CLAIM, change)
    assert not verdict.is_shown and not verdict.findings[which].holds


@pytest.mark.parametrize(("change", "which"), [
    (where({"scale": module.SCALES[-1]}, diverged=0), 0),
    (where({"scale": module.SCALES[0]}, loss=3.3), 0),
    (where(SMALL, scores_lost=0.1), 1),
    (where(SMALL, linear_lost=0.95), 1),
    (where({"scale": 0}, loss=4.0), 2),
])  # fmt: skip
def test_explanations_can_fail(change, which):
    assert not judged(CLAIM, change).explanations[which].holds


def test_a_point_can_be_measured(monkeypatch):
    monkeypatch.setattr(module, "STEPS", 3)
    small, base = (claims.measure(CLAIM, point, 0) for point in (SMALL, {"recipe": "fp32"}))
    assert small["scores_lost"] > 0.3 > small["linear_lost"] and base["scores_lost"] == 0
    assert abs(small["loss"] - base["loss"]) < 0.5 and small["steps"] == 3
