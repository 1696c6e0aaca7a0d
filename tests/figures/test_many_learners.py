"""Figures of many learners: what is drawn, what is said, what is refused."""

import numpy as np
import plotly.graph_objects as go
import pytest

from lplab import figures
from lplab.figures import LearnerCurve, LearnerScaling, LearnerSimilarity

POINTS = LearnerScaling([1, 2, 4], [0.01, 0.02, 0.04], [0.01] * 3, [0, 100, 300], [0, 60, 90], [0, 4000, 6000])
COURSE = LearnerSimilarity([6, 12], [0.6, 0.3], [0.8, 0.7], [0.6, 0.4])


def checked(fig):
    """A figure that has passed plotly's own check of every property."""
    assert fig.layout.meta["alt"].endswith(".") and fig.layout.meta["title"]
    assert len(go.Figure(fig.to_dict()).data) == len(fig.data)
    return fig


def test_a_call_gives_the_same_figure_twice_and_a_valid_one():
    made = [figures.many_learners(POINTS, COURSE, 4, 0.01) for _ in range(2)]
    assert made[0] == made[1]
    drawn = checked(made[0])
    assert [trace.name for trace in drawn.data[:3]] == ["own top-k", "independent choices", "ScaleCom"]
    np.testing.assert_allclose(drawn.data[1].y, [100 * (1 - 0.99**n) for n in (1, 2, 4)])
    assert len(drawn.data[3].y) == 2, "one learner sends nothing: no point on a logarithmic axis"
    assert [shape.x0 for shape in drawn.layout.shapes] == [2, 2]
    assert "3.9 % if they were independent" in drawn.layout.meta["alt"]
    assert "300 B and 90 B" in drawn.layout.meta["alt"]


def test_one_learner_has_no_curve_and_no_entry_of_a_distance():
    nowhere = [np.nan, np.nan]
    fig = figures.many_learners(POINTS, LearnerSimilarity([6, 12], nowhere, [0.0, 0.0], nowhere), 1, 0.01)
    key = fig.layout.annotations[0].text
    assert "missed by the leader" in key and "distance" not in key and "β = 1" not in key


def test_yours_is_drawn_beside_own_choices():
    fig = checked(figures.union_growth([1, 64], [0.01, 0.3], [0.01, 0.01], 0.01))
    assert fig.data[2].y.tolist() == [1.0, 1.0] and "1.0 % at 64" in fig.layout.meta["alt"]


def test_agreement_of_two_distances_is_counted():
    known = np.array([[np.nan, np.nan], [0.5, 0.25], [0.4, 0.5]])
    yours = known.copy()
    yours[2, 1] = 0.6
    fig = checked(figures.two_distances(known, yours))
    assert fig.layout.meta["title"] == "Yours agrees at 2 of 3 steps"
    assert [trace.mode for trace in fig.data] == ["lines", "markers"] * 2


def test_runs_are_drawn_with_losses_above_and_bytes_below():
    nothing = checked(figures.learner_runs([LearnerCurve("a", [], [])], steps=5))
    assert nothing.layout.meta["alt"] == "Training loss: not started yet. Sent by all learners: nothing yet."
    curves = [LearnerCurve("a", [2.0, 1.0], [100, 100]), LearnerCurve("b", [2.0, 1.5], [1000, 3000])]
    fig = checked(figures.learner_runs(curves, steps=5))
    assert len(fig.data) == len(figures.learner_runs([LearnerCurve(n, [], []) for n in "ab"], steps=5).data)
    sent = {trace.name: trace.y for trace in fig.data}
    assert sent["b: sent"].tolist() == [1.0, 4.0] and sent["a: sent"].tolist() == [0.1, 0.2]
    assert "a 200 B, b 4 kB" in fig.layout.meta["alt"]


@pytest.mark.parametrize(("sent", "unit", "last"), [(100, " B", 400.0), (1e7, " MB", 40.0), (1e9, " GB", 4.0)])
def test_bytes_are_drawn_in_a_unit_that_keeps_ticks_short(sent, unit, last):
    fig = checked(figures.learner_runs([LearnerCurve("a", [2.0] * 4, [sent] * 4)], steps=8))
    assert fig.layout.yaxis2.ticksuffix == unit and 0 < fig.layout.yaxis2.range[1] < 1000
    line = next(trace for trace in fig.data if trace.name == "a: sent")
    assert line.y[-1] == last < fig.layout.yaxis2.range[1] and f"{unit}<extra>" in line.hovertemplate


def test_a_loss_that_is_not_finite_ends_the_line():
    fig = figures.learner_runs([LearnerCurve("a", [2.0, np.nan, 1.0], [1, 1, 1])], steps=5)
    assert fig.data[0].y.tolist() == [2.0]


@pytest.mark.parametrize(("call", "text"), [
    (lambda: LearnerScaling([1], [], [], [], [], []), "of one length"),
    (lambda: figures.many_learners(POINTS, COURSE, 3, 0.01), "no point for 3 learners; there are: 1, 2, 4"),
    (lambda: figures.union_growth([1], [], [0.1], 0.1), "of one length"),
    (lambda: figures.two_distances(np.zeros(3), np.zeros(3)), "pairs for each step"),
    (lambda: figures.two_distances(np.zeros((3, 2)), np.zeros((4, 2))), "pairs for each step"),
    (lambda: figures.two_distances(np.zeros((0, 2)), np.zeros((0, 2))), "pairs for each step"),
    (lambda: figures.learner_runs([], steps=3), "one to 4 runs"),
    (lambda: LearnerCurve("a", [1.0], []), "a: 1 losses, but 0 numbers of bytes"),
])  # fmt: skip
def test_what_cannot_be_drawn_is_refused(call, text):
    with pytest.raises(ValueError, match=text):
        call()
