"""The recorded meetings: one run for each setting, bytes as the messages have them, and what the lab says of them."""

import numpy as np
import pytest

from lplab.compression import compressor_catalogue
from lplab.recordings.recorded_meetings import (
    ALONE,
    FEW,
    NESTEROV,
    RECORDED,
    SMALL,
    SYNCHRONOUS,
    MeetingSetting,
    meeting_runs,
)
from tests.datasets.scripts import script

FOUND = meeting_runs()
STEPS = 240


def test_each_setting_has_a_run_from_the_same_start():
    assert list(FOUND) == [ALONE, SYNCHRONOUS, *(meeting.name for meeting in RECORDED)]
    for run in FOUND.values():
        assert run.steps.tolist() == [0, 60, 120, 180, STEPS] and np.isfinite(run.losses).all()
        # A learner's weights less 0, as the shared ones are kept, can differ in the last bit.
        np.testing.assert_allclose(run.losses[0], FOUND[ALONE].losses[0], atol=5e-6)


def test_bytes_are_those_of_the_messages():
    """The shapes of the Transformer, and what a learner sends about each, at every meeting."""
    from lplab.claims.framework.models import branch_transformer

    shapes = [tuple(p.shape) for p in branch_transformer().model(0).parameters()]
    elements = sum(int(np.prod(shape)) for shape in shapes)
    assert FOUND[ALONE].sent_bytes == 0 and FOUND[SYNCHRONOUS].sent_bytes == 4 * elements * STEPS
    for meeting in RECORDED:
        compressor = compressor_catalogue.from_text(meeting.compressor)
        message = sum(transfer.payload_bytes for shape in shapes for transfer in compressor.plan(shape))
        assert FOUND[meeting.name].sent_bytes == message * STEPS // meeting.every, meeting.name


def loss(**setting):
    return FOUND[MeetingSetting(**setting).name].loss


def test_meeting_helps_and_does_not_reach_each_step():
    """A rate of 1 with a momentum of 0.9 overshoots too far for 20 meetings."""
    too_far = MeetingSetting(rate=1.0, momentum=0.9)
    assert FOUND[too_far.name].loss > FOUND[ALONE].loss
    for meeting in RECORDED:
        if meeting.every == 12 and meeting.learners == 4 and meeting.sends != FEW and meeting != too_far:
            assert FOUND[SYNCHRONOUS].loss < FOUND[meeting.name].loss < FOUND[ALONE].loss, meeting.name


def test_overshooting_helps_and_meeting_seldom_costs():
    nesterov = dict(zip(("rate", "momentum"), NESTEROV, strict=True))
    assert loss(**nesterov) < loss()
    assert loss(every=60) > loss() and loss(every=60, **nesterov) > loss(**nesterov)
    assert abs(loss(sends=SMALL, **nesterov) - loss(**nesterov)) < 0.027


def test_memory_is_what_makes_few_numbers_work():
    assert loss(sends=FEW) < loss(sends=FEW, memory=False)
    before = FOUND[ALONE].losses[0]
    assert FOUND[MeetingSetting(4, 12, *NESTEROV, sends=FEW).name].loss > before, "two memories overshoot"
    shares = [loss(sends=FEW, share=share) for share in (16, 64, 256)]
    assert shares == sorted(shares), "the more is sent, the lower the loss"


@pytest.mark.slow
def test_a_run_can_be_made_again():
    from lplab.claims.framework.local_trainings import train

    meeting = MeetingSetting(2, 12)
    made = train(script("record_meetings").arm_of(meeting), 3)
    np.testing.assert_allclose(made["loss"], FOUND[meeting.name].loss, atol=5e-3)
    assert made["bytes"] == FOUND[meeting.name].sent_bytes
