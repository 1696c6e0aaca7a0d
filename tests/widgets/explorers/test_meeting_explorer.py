"""The explorer of learners that meet seldom: all that it offers is recorded, and times are the simulator's."""

import pytest

from lplab.hardware import Cluster, simulate, simulate_local_steps
from lplab.recordings.recorded_meetings import DENSE, FEW, RECORDED, SMALL, meeting_runs
from lplab.widgets import MeetingExplorer
from lplab.widgets.explorers import meeting_explorer as meet
from lplab.widgets.explorers.meeting_explorer import MeetingState


def offered(name):
    """The values of a control."""
    values = MeetingState.controls()[name].offered(MeetingState())
    return [each[1] if isinstance(each, tuple) else each for each in values]


def test_each_value_leads_to_a_recorded_setting_that_has_it():
    for meeting in meet.recorded():
        state = MeetingState(**{name: getattr(meeting, name) for name in meet.PREFERRED})
        for name in meet.PREFERRED:
            for value in offered(name):
                after = state.changed(**{name: value})
                assert getattr(after, name) == value and after.meeting.name in meeting_runs()


def test_every_recorded_setting_can_be_reached():
    names = {meeting.name for meeting in RECORDED if meeting.memory}
    reached = {MeetingState(**{name: getattr(each, name) for name in meet.PREFERRED}).meeting.name for each in RECORDED}
    assert names == reached


def test_what_was_not_recorded_gives_way_in_the_order_of_its_weight():
    few = MeetingState().changed(sends=FEW)
    assert few.changed(learners=8) == MeetingState(learners=8), "eight learners send everything"
    assert few.changed(bits=8).sends == FEW and few.changed(bits=8).bits == 8
    nesterov = MeetingState(rate=0.7, momentum=0.9)
    assert nesterov.changed(rate=1.0).momentum == 0.9, "recorded, so that nothing else moves"
    assert nesterov.changed(learners=8, rate=1.0).momentum == 0.0
    with pytest.raises(ValueError, match="is recorded"):
        MeetingState(learners=8, sends=FEW)


def test_times_are_those_of_the_simulator():
    state = MeetingState(link="wan_1g").changed(sends=FEW)
    cluster = Cluster("h100", 4, "wan_1g")
    ours = simulate_local_steps("gpt", cluster, every=12, compressor=state.meeting.compressor, outer="mean", batch=32)
    found = meet.seconds(state)
    assert found["this setting"] == ours.step_seconds and found["alone"] == ours.step_alone_seconds
    assert found["in each step"] == simulate("gpt", cluster, batch=32).step_seconds
    assert meet.computing(state) == pytest.approx(ours.efficiency)


def test_what_means_nothing_where_everything_is_sent_is_grey():
    explorer = MeetingExplorer()
    for sends, grey in ((DENSE, True), (SMALL, True), (FEW, False)):
        explorer.set(sends=sends)
        assert {explorer.controls[name].disabled for name in meet.OF_FEW} == {grey}


def test_the_plane_has_each_published_method_and_the_setting():
    state = MeetingState(rate=0.7, momentum=0.9)
    fig = meet.plane_figure(state)
    dots = next(each for each in fig.data if each.name == "other ways to train")
    names = [text.partition(",")[0] for text in dots.text]
    assert names == [*meet.STARS, "in each step"]
    here = next(each for each in fig.data if each.name == "this setting")
    place = names.index("DiLoCo")
    assert (here.x[0], here.y[0]) == (dots.x[place], dots.y[place])
