"""Figures of what is sent and what stays: each number at its place, the chosen layer thick, differences crossed."""

import numpy as np
import pytest

from lplab import figures
from lplab.figures import style
from lplab.figures.adacomp_bins import MAX_HEIGHT
from lplab.figures.sent_and_kept import RESIDUAL, SHARES

A = figures.SentHistory("dense", [0, 1, 2], [0.5, 0.1, 0.01], [1.0, 2.0, 4.0])
B = figures.SentHistory("convolution", [0, 1, 2], [0.9, 0.2, 0.0], [1.0, 90.0, 3.0])


def test_both_panels_have_a_line_for_each_layer():
    fig = figures.sent_and_kept([A, B], steps=10, chosen=1, at=1)
    upper, lower, marks = fig.data[:2], fig.data[2:4], fig.data[4:]
    assert [t.yaxis for t in lower] == ["y2"] * 2 and upper[0].y.tolist() == [0.5, 0.1, 0.01]
    assert upper[1].line.width > upper[0].line.width and upper[0].line.dash != upper[1].line.dash
    assert [m.x.tolist() for m in marks] == [[1, 1]] * 2
    assert "convolution: sends 0 %, holds back 3.0 gradients" in fig.layout.meta["alt"]


def test_what_lies_beyond_an_axis_is_drawn_at_its_end_and_said_in_full():
    fig = figures.sent_and_kept([B], steps=10)
    assert fig.data[0].y.min() == SHARES[0] and fig.data[1].y.max() == RESIDUAL[1]
    assert fig.data[0].customdata.min() == 0 and fig.data[1].customdata.max() == 90


def test_before_the_first_step():
    empty = figures.SentHistory("dense", [], [], [])
    fig = figures.sent_and_kept([empty], steps=5)
    assert fig.layout.meta["title"] == "Not started yet" and "not started" in fig.layout.meta["alt"]


def test_two_states_are_one_figure():
    shown = figures.sent_and_kept([A, B], steps=10)
    figures.update(shown, figures.sent_and_kept([B, A], steps=10, at=2))
    assert shown.data[0].name == "convolution, sent"


def test_bins_show_symbols_thresholds_and_what_is_boosted():
    r, g = np.array([1.0, -3.0, 0.5, 0.25]), np.array([1.0, 0.0, 0.25, -0.25])
    fig = figures.adacomp_bins(r, g, [True, True, True, False], [3, 3, 0.75, 0.75], 2.0, bin=2)
    stays, sent, boost, limit, scale, symbols, crosses = fig.data
    assert symbols.x.tolist() == [0, 1, 2] and symbols.marker.symbol.tolist()[1] == "triangle-down"
    assert symbols.y.tolist() == [1.5, 1.5, 0.5], "|H| in units of S"
    assert limit.y[[0, 3]].tolist() == [1.5, 0.375] and limit.x[0] == -0.5 and scale.y.tolist() == [1, 1]
    assert boost.y[:2].tolist() == [1.0, 1.5] and stays.x[0] == 3 and len(sent.x) == 9
    assert not crosses.visible and fig.layout.meta["title"] == "3 of these 4 elements are sent"


def test_no_trace_comes_or_goes_with_what_is_sent():
    some, none = (figures.adacomp_bins([1.0], [0.5], [sent], [1.5], 1.0, bin=1) for sent in (True, False))
    assert [t.visible for t in none.data] == [t.visible for t in some.data]
    assert all(len(t.x) for t in none.data[:-1]), "plotly hides a trace without points, and draws all anew for it"
    assert np.isnan(none.data[-2].x).all() and np.isnan(none.data[1].x).all()


def test_a_mark_shows_h_also_where_it_is_below_g_and_hides_nothing_of_g():
    fig = figures.adacomp_bins([1.0], [-0.4], [False], [0.6], 1.0, bin=1)  # G = 0.6, H = 0.2
    stem, mark = fig.data[0], fig.data[2]
    assert mark.x[:4].tolist() == [0.0, 0.0, -0.35, 0.35] and mark.y[:4] == pytest.approx([0.2] * 4)
    assert stem.y[:2] == pytest.approx([0.0, 0.6])


def test_the_axis_has_room_for_other_steps():
    few, more = (figures.adacomp_bins([1.0], [0.5], [True], [1.5], 1.0, bin=1, top=top) for top in (None, 4.2))
    assert few.layout.yaxis.range[1] == pytest.approx(1.06 * 2) and more.layout.yaxis.range[1] == pytest.approx(5.3)


def test_yours_is_crossed_where_it_differs():
    args = [0.1, 4.0], [0.1, 0.5], [False, True], [4.5, 4.5], 1.0
    fig = figures.adacomp_bins(*args, bin=2, yours=[1.0, 1.0])
    assert fig.data[-1].visible and fig.data[-1].x.tolist() == [0]
    assert fig.layout.meta["title"] == "Yours agrees at 1 of 2 elements"
    assert (
        figures.adacomp_bins(*args, bin=2, yours=[0.0, 1.0]).layout.meta["title"] == "Yours agrees at 2 of 2 elements"
    )


def test_giants_are_drawn_at_the_top():
    fig = figures.adacomp_bins([100.0], [0.0], [True], [100.0], 1.0, bin=1)
    assert fig.data[5].y.max() == MAX_HEIGHT < fig.layout.yaxis.range[1]


def test_a_layer_of_zeros_can_be_drawn():
    zero = np.zeros(4)
    fig = figures.adacomp_bins(zero, zero, zero, zero, 0.0, bin=2)
    assert fig.layout.meta["title"] == "0 of these 4 elements are sent"


def test_markers_stay_few():
    x = np.ones(500)
    fig = figures.adacomp_bins(x, x, x, x, 1.0, bin=1)
    assert sum(len(t.x) for t in fig.data if "markers" in t.mode) <= style.MARKER_LIMIT


@pytest.mark.parametrize(("draw", "text"), [
    (lambda: figures.sent_and_kept([], steps=3), "one to 4 layers share a figure, got 0"),
    (lambda: figures.sent_and_kept([A], steps=3, chosen=1), "chosen must be a layer from 0 to 0, got 1"),
    (lambda: figures.SentHistory("x", [0], [0.1, 0.2], [1.0]), "must be of one length"),
    (lambda: figures.SentHistory("x", [0], [1.2], [1.0]), "lies between 0 and 1"),
    (lambda: figures.adacomp_bins([1], [1, 2], [1], [1], 1.0, bin=1), "must be of one length"),
    (lambda: figures.adacomp_bins([1], [1], [1], [1], 1.0, bin=1, yours=[1, 2]), "must be of one length"),
])  # fmt: skip
def test_what_cannot_be_drawn_is_refused(draw, text):
    with pytest.raises(ValueError, match=text):
        draw()
