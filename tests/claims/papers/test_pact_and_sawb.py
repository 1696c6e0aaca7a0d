"""PACT and SAWB: the stored numbers are judged as they should be, others otherwise, and points can be measured."""

import numpy as np
import pytest
import torch

from lplab import claims, quantizers
from lplab.claims.framework.results import key
from lplab.claims.papers import pact_2018, sawb_2019
from tests.claims.changed_numbers import judged, where

PACT, SAWB = pact_2018.PACT_2018, sawb_2019.SAWB_2019


def test_all_criteria_hold_and_a_limit_is_named():
    for claim, limit in ((PACT, "18 points from float32"), (SAWB, "activations stayed in float32")):
        verdict = claims.judge(claim, claims.stored(claim))
        assert all(finding.holds for finding in verdict.findings)
        assert verdict.word == "shown in part" and limit in verdict.badge


@pytest.mark.parametrize(("claim", "change", "which"), [
    (PACT, where({"clip": 1.0, "bits": 3}, error=44), 0),
    (PACT, where({"clip": 10.0, "bits": 2}, error=50), 0),
    (PACT, where({"clip": "trained", "bits": 5}, error=90), 1),
    (PACT, where({"clip": 10.0, "bits": 5}, error=60), 1),
    (PACT, where({"clip": "trained", "bits": 2}, alpha_third=9.9), 2),
    (PACT, where({"clip": "trained", "bits": 3}, alpha_most=11), 2),
    (SAWB, where({"levels": 4}, c1=3.0), 0),
    (SAWB, where({"levels": 16}, c2=11.9), 0),
    (SAWB, where({"weights": "minmax"}, error=42.0), 1),
])  # fmt: skip
def test_they_can_fail(claim, change, which):
    verdict = judged(claim, change)
    assert not verdict.is_shown and not verdict.findings[which].holds


@pytest.mark.parametrize(("claim", "change", "which"), [
    (PACT, where({"clip": 3.0}, error=70), 0),
    (PACT, where({"clip": "none"}, error=54), 1),
    (PACT, where({"decay": pact_2018.LESS}, error=80), 2),
    (SAWB, where({"weights": "minmax"}, weight_error=0.1), 0),
    (SAWB, where({"levels": 32}, worst_error=0.02), 1),
])  # fmt: skip
def test_explanations_can_fail(claim, change, which):
    assert not judged(claim, change).explanations[which].holds


@pytest.mark.parametrize("levels", sawb_2019.FITS)
def test_the_stored_coefficients_can_be_fitted_again(levels):
    kept = claims.stored(SAWB).numbers[key({"levels": levels}, 1)]
    assert claims.measure(SAWB, {"levels": levels}, 1) == pytest.approx(kept, abs=2e-6)


def test_min_max_and_sawb_share_a_grid_but_not_its_ends():
    w = np.random.default_rng(0).normal(size=4096).astype(np.float32)
    wide, narrow = (np.unique(q.quantize(w)) for q in (sawb_2019.MinMax(), quantizers.SAWB(2)))
    assert wide[-1] == np.abs(w).max() > 1.5 * narrow[-1]
    for levels in (wide, narrow):
        np.testing.assert_allclose(levels / levels[-1], [-1, -1 / 3, 1 / 3, 1], rtol=1e-6)
    tensor = torch.from_numpy(w).requires_grad_()
    assert torch.equal(sawb_2019.MinMax().quantize(tensor), torch.from_numpy(sawb_2019.MinMax().quantize(w)))


def test_a_point_of_pact_can_be_measured(monkeypatch):
    monkeypatch.setattr(pact_2018, "STEPS", 3)
    trained, fixed = (claims.measure(PACT, {"clip": clip, "bits": 2}, 0) for clip in ("trained", 1.0))
    assert trained["steps"] == 3 and 9 < trained["alpha_least"] <= trained["alpha_most"] < 10
    assert fixed["alpha_least"] == fixed["alpha_most"] == fixed["alpha_third"] == 1
    assert "alpha_most" not in claims.measure(PACT, {"clip": "none"}, 0)


def test_a_point_of_sawb_can_be_measured(monkeypatch):
    monkeypatch.setattr(sawb_2019, "STEPS", 2)
    error = {w: claims.measure(SAWB, {"weights": w}, 0)["weight_error"] for w in ("float32", "sawb", "minmax")}
    assert error["float32"] == 0 < error["sawb"] < error["minmax"]
