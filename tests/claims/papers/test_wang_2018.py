"""The sums of Wang's claim: the stored numbers can be measured again, and the verdict can fail."""

import numpy as np
import pytest

from lplab import arithmetic, claims
from lplab.arithmetic import Accumulator
from lplab.claims.framework.results import key
from lplab.claims.papers.wang_2018 import COUNT, POINTS, WANG_2018, numbers, running_sum
from tests.claims.changed_numbers import judged, where


@pytest.mark.parametrize("point", POINTS, ids=str)
def test_the_stored_numbers_can_be_measured_again(point):
    kept = claims.stored(WANG_2018).numbers
    assert claims.measure(WANG_2018, point, 3) == kept[key(point, 3)]


def test_the_claim_is_shown_and_explained():
    verdict = claims.judge(WANG_2018, claims.stored(WANG_2018))
    assert verdict.is_shown and all(finding.holds for finding in verdict.explanations)
    assert "4,096 after 65,536" in verdict.findings[0].sentence


@pytest.mark.parametrize(("change", "which"), [
    (where({"chunk": 1, "rounding": "nearest_even"}, sum_65536=65536), 0),
    (where({"chunk": 1, "rounding": "nearest_even"}, sum_16384=8192), 0),
    (where({"chunk": 32}, error=0.1), 1),
    (where({"chunk": 16}, error=0.001), 1),
    (where({"rounding": "stochastic"}, error=0.2), 2),
], ids=["never stops", "stops later", "32 fails", "16 is enough", "stochastic rounding fails"])  # fmt: skip
def test_the_claim_can_fail(change, which):
    verdict = judged(WANG_2018, change)
    assert not verdict.is_shown and not verdict.findings[which].holds


def test_the_explanations_can_fail():
    flat = judged(WANG_2018, where({}, error=0.01, sum_65536=65536))
    assert [finding.holds for finding in flat.explanations] == [False, False]


def test_the_numbers_are_those_of_the_paper():
    x = numbers(seed=2)
    assert x.shape == (COUNT,) and abs(x.mean() - 1) < 0.02 and abs(x.std() - 1) < 0.02
    np.testing.assert_array_equal(x, numbers(seed=2))
    assert (numbers(0.5, 0.0) == 0.5).all()


@pytest.mark.parametrize("chunk", [None, 1, 24, 256, 4096, COUNT])
@pytest.mark.parametrize("fmt", ["dlfloat16", "bf16"])
def test_a_running_sum_is_the_sum_of_the_first_numbers(fmt, chunk):
    x = numbers(seed=1)
    running = running_sum(x, Accumulator(fmt, chunk=chunk), points=8)
    for k in (0, 2, 7):
        first = x[: (k + 1) * COUNT // 8]
        assert running[k] == arithmetic.sum(first, fmt, chunk=chunk)


def test_points_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="7 points do not divide 64 numbers evenly"):
        running_sum(np.ones(64), Accumulator("bf16"), points=7)
