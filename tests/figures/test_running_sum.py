"""Figures of sums: the axis belongs to the true sum, and every number is said in words."""

import numpy as np
import pytest

from lplab import figures
from lplab.figures import style

N = np.array([1024.0, 2048.0, 4096.0])


def test_a_running_sum_stands_beside_the_true_one():
    fig = figures.running_sum(N, [1024, 1024, 1024], N, name="1-6-9")
    true, register = fig.data
    assert true.y.tolist() == [0, *N] and register.y.tolist() == [0, 1024, 1024, 1024]
    assert true.line.color == style.GREEN and true.line.dash != register.line.dash
    assert "1,024 instead of 4,096 (75.0 % off)" in fig.layout.meta["alt"]


def test_the_axis_stays_where_it_is():
    stops, overflows = (figures.running_sum(N, y, N, name="x") for y in ([1, 1, 1], [1000, np.inf, np.inf]))
    assert stops.layout.yaxis.range == overflows.layout.yaxis.range
    assert np.isnan(overflows.data[1].y[-1]) and "overflow" in overflows.layout.meta["title"]
    below = figures.running_sum(N, -N, -N, name="x")
    assert below.layout.yaxis.range[0] < -4096 and "−4,096 instead of −4,096 (exact)" in below.layout.meta["title"]


def test_the_mark_of_an_overflow_stands_where_it_happens():
    """Between two of the lengths, the last finite sum is given: the mark is there, and the true sum stays as it was."""
    y = [1000, np.inf, np.inf]
    between = figures.running_sum(N, y, N, name="x", last=(1500, 1490.0))
    register = between.data[1]
    assert (register.x[2], register.y[2], register.text[2]) == (1500, 1490, "then ∞ ")
    assert [text for text in register.text if text] == ["then ∞ "] and np.isnan(register.y[3:]).all()
    assert between.data[0].x.tolist() == [0, *N]
    assert "−∞" in "".join(figures.running_sum(N, [-1000, -np.inf, -np.inf], -N, name="x").data[1].text)


def test_errors_against_chunks_tell_agreement():
    fig = figures.chunk_error([1, 64, 4096], [0.9, 0.001, 0.1], [0.9, 0.5, 0.1], name="Sums")
    library, same, other = fig.data
    assert library.x.tolist() == [0, 6, 12] and same.x.tolist() == [0, 12] and other.x.tolist() == [6]
    assert same.marker.symbol != other.marker.symbol and "agrees at 2 of 3" in fig.layout.meta["title"]
    named = figures.chunk_error([1, 64], [0.9, 0.0], [0.9, 0.1], name="Sums", names=("stored run", "new run"))
    assert [trace.name for trace in named.data] == ["stored run", "new run, the same", "new run, different"]
    assert named.layout.meta["title"].endswith("; new run agrees at 1 of 2")
    alone = figures.chunk_error([1, 64], [0.9, 0.0], name="Sums")
    assert len(alone.data[1].x) == len(alone.data[2].x) == 0 and min(alone.data[0].y) > 0


def test_lengths_that_differ_are_refused():
    with pytest.raises(ValueError, match="must be of one length"):
        figures.running_sum(N, N[:2], N, name="x")
    with pytest.raises(ValueError, match="must be of one length"):
        figures.chunk_error([1, 2], [0.1], name="x")


@pytest.mark.parametrize("end", [65_000.0, 66_100.0, -65_000.0, -66_100.0])
def test_true_sums_that_differ_by_little_have_one_axis(end):
    """A slider that changes the numbers, and hardly their sum, moves no axis."""
    low, high = sorted(np.sign(end) * np.array([-1450.0, 72_500.0]))
    assert figures.running_sum([1, 2], [0, end], [end / 2, end], name="fp16").layout.yaxis.range == pytest.approx(
        (low, high)
    )


@pytest.mark.parametrize("ends", [(0.0, 0.0), (0.0, 0.5), (-500.0, 30.0), (0.0, 98_304.0), (0.0, 1e-3), (-7e9, 0.0)])
def test_the_axis_holds_true_sums_and_zero_with_room(ends):
    low, high = figures.running_sum([1, 2], [0, 0], ends, name="fp16").layout.yaxis.range
    assert low < min(ends) and max(ends) < high
    span = max(max(ends) - min(ends), 1.0)
    assert high - low < 1.8 * span
