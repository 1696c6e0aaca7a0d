"""Figures of clips: the numbers are the library's, axes stay where they are, all is said in words."""

import numpy as np
import pytest

from lplab import figures
from lplab.quantizers import pact_forward
from lplab.quantizers.clipping import Magnitudes

X = np.maximum(np.random.default_rng(1).normal(0, 1, 4000), 0)
M = Magnitudes(X)


def test_the_histogram_counts_every_element_that_is_not_zero():
    fig = figures.clip_histogram(M, 1.5, 7)
    within, beyond = fig.data[:2]
    assert sum(within.y) == pytest.approx(100 * ((X > 0) & (X <= 1.5)).mean())
    assert sum(beyond.y) == pytest.approx(100 * (X > 1.5).mean())
    assert f"{100 * (X == 0).mean():.1f} % are zero" in fig.layout.meta["subtitle"]
    assert within.marker.pattern.shape != beyond.marker.pattern.shape


def test_shares_on_levels_are_those_of_the_quantizer():
    shares = figures.level_shares(M, 1.5, 7)
    values = pact_forward(X, 1.5, 2)
    np.testing.assert_allclose(shares, [(values == v).mean() for v in np.arange(4) * 0.5], atol=1e-12)
    title = figures.clip_histogram(M, 1.5, 7).layout.meta["title"]
    assert title == f"α = 1.5: {100 * (X > 1.5).mean():.1f} % clipped; fullest level {100 * shares.max():.1f} %"


def test_levels_are_lines_and_many_levels_are_short():
    few, many = (figures.clip_histogram(M, 2.0, levels).data[2] for levels in (7, 511))
    assert sorted(set(few.x.tolist())) == pytest.approx([0, 2 / 3, 4 / 3, 2])
    assert min(few.y[::3]) == 0 and min(many.y[::3]) > 0 and len(many.x) == 3 * 256
    assert few.line == many.line, "another width is a new drawing of the whole figure while bits are dragged"


def test_the_share_of_the_clip_stands_beside_its_line():
    for clip, side in ((1.5, "top right"), (1.09 * M.largest, "top left")):
        words = figures.clip_histogram(M, clip, 7).data[3]
        assert words.textposition[-1] == side and words.text[-1].startswith(" ") and words.text[-1].endswith("%")
        assert words.textposition[:2].tolist() == ["top right", "top center"]


def test_errors_against_the_clip_add_up_and_mark_the_rules():
    rules = [figures.ClipRule("max |x|", M.largest, [0.1]), figures.ClipRule("mine", 1.0, [0.2])]
    fig = figures.clip_error(M, 1.0, 7, rules)
    total, rounding, clipping, marks = fig.data
    both = np.nan_to_num(rounding.y) + np.nan_to_num(clipping.y)
    np.testing.assert_allclose(total.y, both, rtol=0.05)
    assert marks.x.tolist() == [M.largest, 1.0]
    assert marks.y[1] == pytest.approx(M.errors(1.0, 7).total[0] / M.power)
    assert len({total.line.dash, rounding.line.dash, clipping.line.dash}) == 3
    assert "mine α = 1" in fig.layout.meta["alt"]


def test_axes_of_errors_do_not_move():
    one, other = figures.clip_error(M, 0.5, 7), figures.clip_error(M, 2.5, 7)
    assert one.layout.yaxis.range == other.layout.yaxis.range and one.layout.xaxis.range == other.layout.xaxis.range
    assert one.layout.shapes[0].x0 == 0.5 and other.layout.shapes[0].x0 == 2.5


def test_errors_against_bits():
    rules = [figures.ClipRule("a", 1.0, [0.5, 0.1]), figures.ClipRule("b", 1.0, [0.3, np.nan])]
    fig = figures.bits_error([2, 4], rules, at=(2, 0.4), limits=(0.001, 1))
    assert fig.layout.meta["title"] == "2 bits: a 50.0 %, b 30.0 %"
    assert [trace.visible for trace in fig.data] == [True, True, False, False, False, None]
    assert fig.data[5].y.tolist() == [0.4] and "none" in fig.layout.meta["alt"]
    with pytest.raises(ValueError, match="at most 5 rules, each with 2 errors"):
        figures.bits_error([2, 4], [figures.ClipRule("a", 1.0, [0.5])], at=(2, 0.4), limits=(0.001, 1))


def test_a_clip_over_steps():
    fig = figures.clip_steps({"library": [10.0, 8.0], "yours": []}, steps=5, best=2.5, largest=6.0)
    assert fig.data[0].y.tolist() == [10, 8] and len(fig.data[1].y) == 0
    assert [shape.y0 for shape in fig.layout.shapes] == [2.5, 6.0]
    assert figures.clip_steps({"a": []}, steps=5, best=1, largest=2).layout.meta["title"] == "Not started yet"
    with pytest.raises(ValueError, match="at most 3 curves"):
        figures.clip_steps({key: [1.0] for key in "abcd"}, steps=5, best=1, largest=2)


def test_harm_of_layers():
    names = ["stem", "block.0.conv", "head"]
    fig = figures.layer_sensitivity(names, [3.0, np.nan, -1.0], [0.1, 0.2, 0.1], wide=[0])
    narrow, wide, dots = fig.data
    assert wide.x.tolist() == [0] and narrow.x.tolist() == [2] and dots.y.tolist() == [10, 20, 10]
    assert fig.layout.yaxis.range[0] < -1 and fig.layout.xaxis.ticktext[1] == "block<br>conv"
    empty = figures.layer_sensitivity(names, [np.nan] * 3, [np.nan] * 3)
    assert empty.layout.meta["title"] == "Not measured yet" and "not known yet" in empty.layout.meta["alt"]
    with pytest.raises(ValueError, match="must be of one length, got 3, 2, 3"):
        figures.layer_sensitivity(names, [1.0, 2.0], [0.1] * 3)


def test_whole_networks_are_compared_below_the_layers():
    wrong = {"float32": 1.0, "2 bits everywhere": 19.0, "yours": np.nan}
    fig = figures.layer_sensitivity(["stem", "head"], [3.0, 2.0], [0.1, 0.1], wrong=wrong)
    bars = fig.data[-1]
    assert bars.y.tolist() == [1, 19] and bars.text.tolist() == ["1.0 %", "19.0 %"] and bars.yaxis == "y3"
    assert fig.layout.xaxis2.ticktext[1] == "2 bits<br>everywhere" and fig.layout.yaxis3.domain[1] < 0.5
    alt = fig.layout.meta["alt"]
    assert "float32 1.0 %, 2 bits everywhere 19.0 %." in alt and "yours" not in alt
    empty = figures.layer_sensitivity(["stem"], [1.0], [0.1], wrong={"yours": np.nan})
    assert len(empty.data) == len(fig.data), "a live figure always has the same traces"


def test_symbols_of_rules_are_named():
    rules = [figures.ClipRule("max |x|", M.largest, [0.1]), figures.ClipRule("mine", 1.0, [0.2])]
    middle = figures.clip_error(M, 1.0, 7, rules)
    last = figures.bits_error([2], rules, at=(2, 0.1), limits=(0.001, 1))
    assert "■" in middle.layout.meta["subtitle"] and "◆" in middle.layout.meta["subtitle"]
    assert "■</span> max |x|" in last.layout.meta["subtitle"] and "◆</span> mine" in last.layout.meta["subtitle"]
    assert "rules" not in figures.clip_error(M, 1.0, 7).layout.meta["subtitle"]


def test_a_linear_axis_shows_the_least_error_and_that_of_the_largest_clip():
    fig = figures.clip_error(M, 1.0, 7, linear=True)
    low, high = fig.layout.yaxis.range
    total = fig.data[0].y
    assert fig.layout.yaxis.type != "log" and low == 0
    assert max(total[-1], 3 * total.min()) < high < 8 * max(total[-1], total.min())
    assert (total <= high).sum() > len(total) / 2, "most of the curve is seen"
