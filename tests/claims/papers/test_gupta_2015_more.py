"""Lost updates and longer words: the stored numbers can be measured again, and others would not do."""

import pytest

from lplab import claims
from lplab.claims.papers.gupta_2015_recovery import GUPTA_2015_RECOVERY as RECOVERY
from lplab.claims.papers.gupta_2015_updates import GUPTA_2015_UPDATES as UPDATES
from tests.claims.changed_numbers import judged, where


@pytest.mark.parametrize("claim", [RECOVERY, UPDATES], ids=lambda claim: claim.id)
def test_they_are_shown_and_explained(claim):
    verdict = claims.judge(claim, claims.stored(claim))
    assert verdict.is_shown and all(finding.holds for finding in verdict.explanations)


@pytest.mark.parametrize(("claim", "point"), [
    (RECOVERY, {"way": "switch"}),
    (UPDATES, {"rounding": "nearest_down", "fraction_bits": 8}),
    (UPDATES, {"rounding": "stochastic", "fraction_bits": 4}),
], ids=str)  # fmt: skip
def test_stored_numbers_can_be_measured_again_to_the_last_bit(measured_and_stored, claim, point):
    now, kept = measured_and_stored(claim, point, 1)
    assert now == kept


@pytest.mark.parametrize(("claim", "change", "which"), [
    (UPDATES, where({"fraction_bits": 6}, made=0.9), 0),
    (UPDATES, where({"fraction_bits": 4}, made=0.4), 0),
    (UPDATES, where({"rounding": "nearest_down", "fraction_bits": 4}, still=3), 1),
    (UPDATES, where({"rounding": "nearest_down", "fraction_bits": 4}, drift=0.01), 1),
    (UPDATES, where({"rounding": "stochastic", "fraction_bits": 4}, loss_last=2.3), 1),
    (RECOVERY, where({"way": "short"}, error=2.0), 0),
    (RECOVERY, where({"way": "switch"}, error=4.0), 1),
    (RECOVERY, where({"way": "switch"}, before=1.0), 1),
    (RECOVERY, where({"way": "switch"}, after=4.4), 2),
])  # fmt: skip
def test_they_can_fail(claim, change, which):
    verdict = judged(claim, change)
    assert not verdict.is_shown and not verdict.findings[which].holds


@pytest.mark.parametrize(("claim", "change", "which"), [
    (UPDATES, where({"rounding": "stochastic", "fraction_bits": 4}, error=30), 0),
    (UPDATES, where({"rounding": "nearest_down", "fraction_bits": 6}, made=0.015), 1),
    (RECOVERY, where({"way": "long"}, error=0.1), 0),
])  # fmt: skip
def test_explanations_can_fail(claim, change, which):
    assert not judged(claim, change).explanations[which].holds
