"""Curves of several quantities with somebody's results beside them."""

import numpy as np
import pytest

from lplab import figures

LIBRARY = {"plain": [20.0, 10.0, 5.0], "with": [19.0, 12.0, 4.0]}


def trace(fig, name):
    return next(each for each in fig.data if each.name == name)


def test_rings_are_where_it_agrees_and_crosses_where_it_differs():
    yours = {"plain": [20.0, 10.0, 6.0], "with": [19.0, np.nan, 4.0]}
    fig = figures.compared_curves(["a", "b", "c"], LIBRARY, yours, what="error (%)", name="Three layers")
    assert trace(fig, "plain").y.tolist() == LIBRARY["plain"]
    assert trace(fig, "yours, the same").x.tolist() == [0, 1, 0, 2]
    assert (trace(fig, "yours, different").x.tolist(), trace(fig, "yours, different").y.tolist()) == ([2], [6.0])
    assert fig.layout.meta["title"] == "Three layers: error (%), yours agrees at 4 of 6"
    assert "plain a 20, b 10, c 5" in fig.layout.meta["alt"]


def test_without_yours_there_is_no_agreement_in_the_title():
    fig = figures.compared_curves(["a", "b", "c"], LIBRARY, what="error (%)", name="Three layers", along="layer")
    assert fig.layout.meta["title"] == "Three layers: error (%)" and "yours" not in fig.layout.meta["subtitle"]
    assert not len(trace(fig, "yours, the same").x)


def test_a_result_far_away_is_drawn_at_the_edge():
    yours = {"plain": [1e9, 10.0, 5.0], "with": LIBRARY["with"]}
    fig = figures.compared_curves(["a", "b", "c"], LIBRARY, yours, what="error (%)", name="x")
    (low, high), (y,) = fig.layout.yaxis.range, trace(fig, "yours, different").y
    assert low < 0 < 20 < y == high


@pytest.mark.parametrize(
    ("library", "yours", "said"),
    [
        ({}, None, "one to 4 quantities are needed"),
        ({str(k): [1.0] for k in range(5)}, None, "one to 4 quantities are needed"),
        ({"a": [1.0]}, {"b": [1.0]}, "the same in both, got a"),
        ({"a": [1.0, 2.0]}, None, "a number for each of the 1 places"),
        ({"a": [1.0]}, {"a": 1.0}, "a number for each of the 1 places"),
    ],
)
def test_wrong_input_is_told(library, yours, said):
    with pytest.raises(ValueError, match=said):
        figures.compared_curves(["p"], library, yours, what="error", name="x")


def test_an_axis_title_is_no_longer_than_its_axis():
    """One of 62 letters was cut at both ends, and what was left could not be understood."""
    words = "difference between the two weights (% of the norm)"
    fig = figures.compared_curves(["a", "b"], {"plain": [1.0, 2.0]}, what=words, name="Two")
    lines = fig.layout.yaxis.title.text.split("<br>")
    plot = fig.layout.height - fig.layout.margin.t - fig.layout.margin.b
    assert " ".join(lines) == words and len(lines) == 2
    assert max(map(len, lines)) * 6.8 <= plot and fig.layout.margin.l == 80
    short = figures.compared_curves(["a", "b"], {"plain": [1.0, 2.0]}, what="error (%)", name="Two")
    assert short.layout.yaxis.title.text == "error (%)" and short.layout.margin.l == 64
