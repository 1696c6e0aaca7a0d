"""The recorded branches of the recipes of 2025: complete, in pairs, and made again in their first steps."""

from itertools import product

import numpy as np
import pytest

from lplab.claims import BranchPlan
from lplab.recordings.ingredient_runs import (
    COMBINATIONS,
    FORMATS,
    HELPERS,
    MXFP4_2025,
    MXFP8_2025,
    NVFP4_2025,
    PLAIN,
    SWITCHED,
    Ingredients,
    ingredient_branches,
)
from tests.datasets.scripts import script

RECORDED = ingredient_branches()


def test_every_combination_has_a_curve_and_a_test_loss_on_every_seed():
    assert set(RECORDED.losses) == set(RECORDED.test) == {None, *COMBINATIONS} and len(set(COMBINATIONS)) == 20
    assert len(RECORDED.seeds) >= 3 and RECORDED.steps == 100 and RECORDED.before == 500
    for losses in RECORDED.losses.values():
        assert losses.shape == (len(RECORDED.seeds), RECORDED.steps) and np.isfinite(losses).all()
        with pytest.raises(ValueError, match="read-only"):
            losses[0, 0] = 1


def test_branches_of_a_seed_begin_with_the_same_weights_and_batch():
    """The first losses differ by rounding in the forward pass alone; where it is BF16 in both, not at all."""
    first = {chosen: losses[:, 0] for chosen, losses in RECORDED.losses.items()}
    wide = [first[each] for each in COMBINATIONS if each.forward == "bf16"]
    assert all(np.array_equal(one, wide[0]) for one in wide) and len(wide) >= 5
    assert all(np.abs(each - first[None]).max() < 0.2 for each in first.values())
    assert len({each.tobytes() for each in first.values()}) >= 5


def test_the_switch_changes_nothing_before_its_step():
    plain, switched = RECORDED.losses[NVFP4_2025], RECORDED.losses[SWITCHED]
    at = RECORDED.switch_step - RECORDED.before
    assert at == 82 and np.array_equal(plain[:, :at], switched[:, :at]) and (plain[:, at] != switched[:, at]).all()


def test_a_gap_is_a_difference_seed_by_seed():
    expected = RECORDED.test[PLAIN["mxfp4"]].astype(float) - RECORDED.test[None].astype(float)
    np.testing.assert_allclose(RECORDED.gap(PLAIN["mxfp4"]), expected)
    np.testing.assert_allclose(RECORDED.gap(NVFP4_2025, NVFP4_2025), 0)
    assert RECORDED.share(PLAIN["mxfp4"]) == pytest.approx(expected.mean() / RECORDED.test[None].mean(), rel=1e-6)
    with pytest.raises(ValueError, match="not recorded: forward MXFP8, backward BF16"):
        RECORDED.gap(Ingredients("mxfp8", "bf16"))


def test_the_order_of_the_formats_is_that_of_the_papers_on_every_seed():
    eight, nvfp4, mxfp4 = (RECORDED.gap(PLAIN[kind]) for kind in ("mxfp8", "nvfp4", "mxfp4"))
    assert (eight < nvfp4).all() and (nvfp4 < mxfp4).all() and (RECORDED.gap(MXFP8_2025) == eight).all()


@pytest.mark.parametrize(("forward", "backward"), list(product(FORMATS, FORMATS)))
def test_helpers_are_possible_or_refused_in_one_line(forward, backward):
    everything = Ingredients.possible(forward, backward, **dict.fromkeys(HELPERS, True))
    assert (everything.forward, everything.backward) == (forward, backward)
    for helper in set(HELPERS) - set(everything.helpers):
        with pytest.raises(ValueError, match=f"got forward {FORMATS[forward]}, backward {FORMATS[backward]}$"):
            Ingredients(forward, backward, **{helper: True})
    for helper in everything.helpers:
        assert helper in Ingredients(forward, backward, **{helper: True}).name or HELPERS[helper] in everything.name


def test_bad_ingredients_are_told():
    with pytest.raises(ValueError, match="unknown forward 'fp4'; allowed: bf16, mxfp8, nvfp4, mxfp4"):
        Ingredients("fp4")
    with pytest.raises(ValueError, match="late must be True or False, got 1"):
        Ingredients(late=1)
    assert MXFP4_2025.without("hadamard", "stochastic") == Ingredients("bf16", "mxfp4")


@pytest.mark.slow
@pytest.mark.parametrize("chosen", [None, PLAIN["nvfp4"]], ids=["float32", "plain NVFP4"])
def test_a_branch_can_be_made_again(chosen, monkeypatch):
    """Its first step up to float32 rounding; this trains the checkpoint where it is not kept."""
    record = script("record_ingredients")
    plan = BranchPlan(RECORDED.before, RECORDED.steps)
    assert plan == record.PLAN and RECORDED.seeds == record.SEEDS
    losses, test = record.record(chosen, 0)
    np.testing.assert_allclose(losses[0], RECORDED.losses[chosen][0, 0], rtol=1e-2)
    assert abs(test - RECORDED.test[chosen][0]) < 0.05
