"""The figure of the domains: a panel each, all seeds, the bound where a paper states one."""

import numpy as np
import pytest

from lplab import figures

GAPS = {
    "pictures": {"FP8": [0.2, 0.4], "INT4": [1.0, 3.0]},
    "speech": {"FP8": [-0.5, 0.1], "INT4": [0.4, 0.6]},
}


def of(fig, name, axis):
    return next(t for t in fig.data if t.name == name and (t.xaxis or "x") == axis)


def test_every_seed_and_mean_stands_in_its_panel_and_row():
    fig = figures.domain_gaps(GAPS, {"speech": {"INT4": 3.0}}, units={"speech": "% of the loss"})
    assert of(fig, "each seed", "x").x.tolist() == [0.2, 0.4, 1.0, 3.0]
    assert of(fig, "each seed", "x").y.tolist() == [0, 0, -1, -1]
    assert of(fig, "mean", "x2").x.tolist() == pytest.approx([-0.2, 0.5])
    assert of(fig, "limit", "x").x.size == 0
    bound = of(fig, "limit", "x2")
    assert bound.x[:2].tolist() == [3.0, 3.0] and bound.y[:2].tolist() == [-1.35, -0.65]
    assert fig.layout.xaxis2.title.text == "speech<br>% of the loss" and fig.layout.xaxis2.range[1] > 3
    assert fig.layout.xaxis.domain[1] < fig.layout.xaxis2.domain[0]


def test_more_than_two_domains_stand_two_by_two_so_that_titles_fit_a_small_screen():
    one = {"FP8": [0.1, 0.2]}
    layout = figures.domain_gaps({"a": one, "b": one, "c": one}, height=200).layout
    assert layout.height == 400
    assert [layout[f"xaxis{n}"].anchor for n in ("", "2", "3")] == ["y", "y", "y2"]
    assert layout.xaxis3.domain == layout.xaxis.domain and layout.xaxis2.domain[0] > layout.xaxis.domain[1]
    assert (layout.yaxis.anchor, layout.yaxis2.anchor) == ("x", "x3")
    room = (layout.yaxis.domain[0] - layout.yaxis2.domain[1]) * (400 - layout.margin.t - layout.margin.b)
    assert room > 35  # pixels: for ticks of the upper panels and their titles
    assert layout.yaxis2.ticktext == layout.yaxis.ticktext == ("FP8",)


def test_title_and_text_have_the_numbers():
    fig = figures.domain_gaps(GAPS)
    assert fig.layout.meta["title"] == "Furthest from float32: INT4 in pictures, +2.00 points"
    named = figures.domain_gaps(
        GAPS, {"speech": {"INT4": 3.0}}, units={"speech": "% of loss"}, baseline="no compression"
    )
    assert named.layout.meta["title"].startswith("Furthest from no compression: INT4")
    assert of(named, "no compression", "x").x.tolist() == [0, 0]
    assert "pictures, points: FP8 +0.30, INT4 +2.00; speech, points: FP8 −0.20, INT4 +0.50." in fig.layout.meta["alt"]
    assert "speech, % of loss: FP8 −0.20, INT4 +0.50 (limit 3)." in named.layout.meta["alt"]


@pytest.mark.parametrize(("gaps", "message"), [
    ({}, "each domain needs the same methods, at least one; got nothing"),
    ({"a": {}}, "a: nothing"),
    ({"a": {"FP8": [0.0]}, "b": {"INT4": [0.0]}}, "a: FP8; b: INT4"),
    ({"a": {"FP8": []}}, "FP8 in a must be finite numbers"),
    ({"a": {"FP8": [np.nan]}}, "FP8 in a must be finite numbers"),
    ({"a": {"FP8": [[0.0]]}}, "FP8 in a must be finite numbers"),
])  # fmt: skip
def test_wrong_input_is_refused(gaps, message):
    with pytest.raises(ValueError, match=message):
        figures.domain_gaps(gaps)
