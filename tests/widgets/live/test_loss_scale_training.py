"""A training whose loss scale follows the user's rule: what the rule may return, and what is shown."""

import numpy as np
import pytest

from lplab.exercises.checks.variants import function_of
from lplab.exercises.model import exercise_catalogue
from lplab.quantizers import DynamicLossScale
from lplab.widgets import train_with_scale
from lplab.widgets.live.loss_scale_training import UserLossScale

RULE = function_of(exercise_catalogue.get("03.1"))


def unfinished(scale, good_steps, finite, interval):
    raise NotImplementedError


def test_the_exercise_is_the_librarys_rule():
    own = UserLossScale(RULE, scale=2.0**22, interval=3, max_scale=2.0**24)
    library = DynamicLossScale(scale=2.0**22, interval=3, max_scale=2.0**24)
    for finite in np.random.default_rng(1).random(400) < 0.9:
        assert own.update(bool(finite)) == library.update(bool(finite)) == finite
        assert (own.scale, own.good_steps) == (library.scale, library.good_steps)


def test_the_solution_draws_the_librarys_course():
    run = train_with_scale(RULE, steps=9, interval=2)
    run.wait(300)
    assert run.state == "finished", run.error_line.value
    yours, library = zip(*run.result(), strict=True)
    assert [step.loss_scale for step in yours] == [step.loss_scale for step in library]
    assert [step.loss for step in yours] == [step.loss for step in library]
    assert yours[0].skipped and not all(step.skipped for step in yours)
    assert run.figure.layout.meta["title"] == "Loss scale after 9 of 9 steps"


def test_an_unfinished_rule_is_met_politely():
    run = train_with_scale(unfinished, steps=3)
    run.wait(300)
    assert run.state == "ready" and "unfinished is still to be written" in run.status.value


@pytest.mark.parametrize(("returned", "message"), [
    (None, "must return a scale and a count, got None"),
    ((1.0,), "must return a scale and a count"),
    ((-1.0, 0), "must return a positive scale"),
    ((float("nan"), 0), "must return a positive scale"),
    ((1.0, -1), "a count from 0 up"),
])  # fmt: skip
def test_what_a_rule_may_not_return(returned, message):
    with pytest.raises(ValueError, match=message):
        UserLossScale(lambda *given: returned).update(True)


def test_a_rule_is_a_function():
    with pytest.raises(TypeError, match="got float"):
        train_with_scale(2.0)
