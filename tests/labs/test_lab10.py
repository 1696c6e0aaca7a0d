"""Lab 10: its live run shows at its default length what the text beside it promises."""

import numpy as np
import pytest

from lplab.claims.papers import scalecom_2020
from lplab.labs import lab10


def losses_of(run):
    run.start()
    run.wait(300)
    assert run.state == "finished"
    return {name: np.array(losses) for name, losses in run.losses.items()}


@pytest.mark.slow
def test_compressors_are_slower_at_first_and_nearly_catch_up():
    losses = losses_of(lab10.three_ways())
    assert {len(values) for values in losses.values()} == {lab10.STEPS}
    for name in ("own top-k", "ScaleCom"):
        early, late = (losses[name][part].mean() - losses["dense"][part].mean() for part in (np.s_[40:60], np.s_[-10:]))
        assert early > 0.1 > late, name


@pytest.mark.slow
def test_with_momentum_both_compressors_fall_behind():
    losses = losses_of(lab10.three_ways(learning_rate=0.1, momentum=0.9))
    dense = losses["dense"][-20:].mean()
    assert losses["own top-k"][-20:].mean() > 2 * dense and losses["ScaleCom"][-20:].mean() > 2 * dense


def test_what_the_text_says_of_the_places_of_momentum():
    """Behind the average is worst; in front does less harm; cleared more than that; a lower rate none."""
    losses = scalecom_2020.place_losses()
    dense, behind, before, cleared, slow = (float(np.median(values)) for values in losses.values())
    assert before < behind - 0.1 and before < cleared - 0.1 and before > dense
    assert abs(slow - dense) < 0.1 * (behind - dense)
    fig = lab10.momentum_placement()
    assert [*fig.layout.yaxis.ticktext] == [*losses][1:]
