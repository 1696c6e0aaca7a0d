"""Lab 10: what learners send and keep is what the exercise's own rule and a sort say."""

import numpy as np
import pytest

from lplab.exercises.lab10.leaders_choice import leaders_choice
from lplab.widgets.mechanisms import union


def by_hand(choice, learners, step):
    """What each learner would like to send in a step, and what it sends, without the compressors."""
    owed = np.zeros((learners, union.ELEMENTS))
    for number in range(step + 1):
        wanted = owed + union.gradients()[number, :learners]
        if choice == "leader":
            sent = leaders_choice(wanted, union.ELEMENTS // union.SENT, number)
        else:
            largest = np.argsort(-abs(wanted), axis=1, kind="stable")[:, : union.SENT]
            sent = np.zeros_like(wanted)
            np.put_along_axis(sent, largest, np.take_along_axis(wanted, largest, axis=1), axis=1)
        owed = wanted - sent
    return wanted, sent


@pytest.mark.parametrize("choice", union.CHOICES)
@pytest.mark.parametrize("learners", [1, 2, 3, 5, 8])
def test_messages_sums_and_residuals_are_those_computed_by_hand(choice, learners):
    for step, found in enumerate(union.run(choice, learners)):
        wanted, sent = by_hand(choice, learners, step)
        assert np.array_equal(found["wanted"], wanted) and np.array_equal(found["after"], wanted - sent)
        assert found["union"] == np.flatnonzero(sent.sum(axis=0)).tolist()


def test_own_choices_fill_the_sum_and_one_choice_does_not():
    runs = union.data()["runs"]
    own, one = ([[len(step["union"]) for step in run] for run in runs[choice]] for choice in ("own", "leader"))
    assert [steps[0] for steps in own] == sorted(steps[0] for steps in own) and own[0][0] == 2 and own[7][0] > 8
    assert np.all(np.array(one) == union.SENT)
    assert min(own[7]) > 4 * union.SENT
