"""A guess beside the truth: any two floats, any choices."""

import itertools
import math

import numpy as np
import plotly.graph_objects as go
import pytest

from lplab import figures
from lplab.figures import style
from tests.kinds import in_turn

VALUES = (0.0, -0.0, 1.0, 1.01, -3.0, 55, 1e-300, -1e-12, 5e-324, 1.7e308, -1.7e308, math.inf, -math.inf, math.nan)
CHOICES = ("few", "half of them", "most")
DISTANCE, STEMS, SIGNS = range(3)


@pytest.mark.parametrize(("guess", "truth"), in_turn(VALUES, VALUES, every=4))
@pytest.mark.filterwarnings("error")
def test_any_two_numbers(guess: float, truth: float) -> None:
    fig = figures.guess_and_truth(guess, truth, unit="codes")
    low, high = fig.layout.xaxis.range
    assert math.isfinite(high - low) and low < high
    x = fig.data[SIGNS].x
    assert ((low <= x) & (x <= high)).all()
    assert fig.layout.meta["alt"].startswith("You said ") and fig.layout.meta["alt"].endswith(".")
    assert len(set(fig.data[SIGNS].y)) == 2, "each in its own lane"
    finite = math.isfinite(guess) and math.isfinite(truth)
    assert fig.data[DISTANCE].visible == (finite and guess != truth)
    assert len(fig.data[STEMS].x) == 3 * sum(map(math.isfinite, (guess, truth)))
    assert 120 <= fig.layout.height <= 160


def test_marks_stand_at_their_numbers() -> None:
    linear = figures.guess_and_truth(12, 55)
    assert linear.data[SIGNS].x.tolist() == linear.data[DISTANCE].x.tolist() == [12, 55]
    assert linear.layout.xaxis.range[0] == 0, "lengths from zero are honest"
    assert linear.layout.xaxis.range[1] >= 2 * 55, "words beside the larger mark have half of the figure"
    log = figures.guess_and_truth(2, 64)
    assert log.data[SIGNS].x.tolist() == [1, 6]
    labels = dict(zip(log.layout.xaxis.tickvals, log.layout.xaxis.ticktext, strict=True))
    assert labels[1] == "2" and labels[6] == "64"


def test_ticks_end_at_the_larger_number_or_just_above_it() -> None:
    """A share has no 140 %, though the figure goes on for the words; the line of the axis ends with its ticks."""
    axis = figures.guess_and_truth(100, 55, unit="%").layout.xaxis
    assert (
        axis.range[1] > 150
        and max(axis.tickvals) == 100
        and list(axis.ticktext) == ["0", "20", "40", "60", "80", "100"]
    )
    assert max(figures.guess_and_truth(0.0, 0.25).layout.xaxis.tickvals) == 0.25
    codes = figures.guess_and_truth(12, 55, unit="codes").layout
    assert list(codes.xaxis.ticktext) == ["0", "20", "40", "60"] and not codes.xaxis.showline
    assert (codes.shapes[0].x0, codes.shapes[0].x1) == (0, 60)
    log = figures.guess_and_truth(40, 3200, unit="MB")
    assert list(log.layout.xaxis.ticktext) == ["16", "64", "256", "1,024", "4,096"]
    assert "it is 3,200 MB" in log.data[SIGNS].text[1]


def test_signs_differ_by_shape_and_by_word() -> None:
    trace = figures.guess_and_truth(12, 55, unit="%").data[SIGNS]
    assert len(set(trace.marker.symbol)) == 2
    assert "you said 12 %" in trace.text[0] and "it is 55 %" in trace.text[1]


def test_no_stem_crosses_words() -> None:
    """All words go to the right, and the sign further right is in the lower lane: stems come from below."""
    for guess, truth in ((50, 55), (55, 50), (-3, 2), (1, 1000), (1000, 1)):
        trace = figures.guess_and_truth(guess, truth).data[SIGNS]
        assert np.argmax(trace.x) == np.argmin(trace.y)
        assert all("right" in side for side in trace.textposition)


def test_infinite_guesses_have_arrows() -> None:
    fig = figures.guess_and_truth(math.inf, 3)
    assert "you said ∞ →" in fig.data[SIGNS].text[0] and fig.data[SIGNS].x[0] == fig.layout.xaxis.range[1]
    assert "← you said −∞" in figures.guess_and_truth(-math.inf, 3).data[SIGNS].text[0]
    assert not figures.guess_and_truth(math.nan, math.inf).layout.xaxis.visible


@pytest.mark.parametrize(("guess", "truth"), list(itertools.product(CHOICES, CHOICES)))
def test_choices(guess: str, truth: str) -> None:
    fig = figures.guess_and_truth(guess, truth, choices=CHOICES)
    rows = dict(zip(CHOICES, fig.data[0].text, strict=True))
    assert [name for name, row in rows.items() if "you" in row] == [guess]
    assert [name for name, row in rows.items() if "it is" in row] == [truth]
    assert -fig.data[1].y[0] == CHOICES.index(guess) or -fig.data[1].y[1] == CHOICES.index(guess)
    assert len(set(fig.data[1].marker.symbol)) == 2
    assert fig.layout.meta["alt"].endswith("so it is." if guess == truth else f"it is {truth}.")


def test_figures_are_valid_and_keep_to_the_palette() -> None:
    for fig in (figures.guess_and_truth(1, 2), figures.guess_and_truth("few", "most", choices=CHOICES)):
        go.Figure(fig.to_plotly_json())
        colours = {colour for trace in fig.data[-1:] for colour in trace.marker.color}
        assert colours <= {style.BLUE, style.GREEN}


def test_clear_errors() -> None:
    with pytest.raises(ValueError, match="among the choices few, half of them, most"):
        figures.guess_and_truth("few", "all", choices=CHOICES)
    with pytest.raises(ValueError, match="must be numbers"):
        figures.guess_and_truth("few", 3)
