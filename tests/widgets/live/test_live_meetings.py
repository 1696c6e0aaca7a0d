"""Learners that meet, live: their losses are those of the same learners without a widget, from one checkpoint."""

import numpy as np
import pytest

from lplab import widgets
from lplab.claims.framework import local_trainings as trainings
from lplab.claims.framework.local_trainings import Arm
from lplab.claims.framework.models import branch_transformer
from lplab.widgets.live.live_meetings import TESTED


@pytest.fixture
def short(monkeypatch, tmp_path):
    """A checkpoint after four steps, and rounds of two."""
    monkeypatch.setenv("LPLAB_CHECKPOINTS", str(tmp_path))
    monkeypatch.setattr(trainings, "BEFORE", 4)
    return {"mean": Arm(2, 2, "mean"), "few": Arm(2, 2, "mean", "sparseloco")}


def test_losses_are_those_of_the_learners(short):
    run = widgets.live_meetings(short, rounds=2)
    assert run.figure.layout.meta["title"] == "Not started yet"
    run.start()
    run.wait(120)
    assert run.state == "finished", run.error_line.value
    assert len(run.result()) == 4 + 3, "the checkpoint's steps, and a look before the first round"
    learners = trainings.learners_of(short["few"], 0)
    inputs, targets = branch_transformer().test()
    expected = [trainings.test_loss(learners.model, lambda: (inputs[:TESTED], targets[:TESTED]))]
    for _ in learners.rounds(2):
        expected.append(trainings.test_loss(learners.model, lambda: (inputs[:TESTED], targets[:TESTED])))
    np.testing.assert_allclose(run.losses["few"], expected, atol=1e-6)
    assert run.losses["mean"][0] == run.losses["few"][0] and run.losses["mean"][1] != run.losses["few"][1]
    assert run.figure.layout.meta["title"].startswith("After 4 of 4 steps: mean ")


def test_ways_that_meet_at_other_steps_are_refused():
    with pytest.raises(ValueError, match="one number of steps"):
        widgets.live_meetings({"a": Arm(every=12), "b": Arm(every=60)})
