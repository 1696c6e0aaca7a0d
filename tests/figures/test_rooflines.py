"""Roofline, bars of time, cost of multipliers, shares: what is drawn, and that its origin is told in words."""

from dataclasses import replace

import numpy as np
import pytest

from lplab import figures
from lplab.figures import lazy_figure, style
from lplab.figures.roofline import DEPTHS, Products, Roof, RooflinePoint
from lplab.figures.time_parts import by_layer
from lplab.hardware import compute

WIDE, NARROW = Roof("BF16", 1e15, 2e12), Roof("FP8", 2e15, 2e12)
THREE = Products(
    ["a", "b", "c"], np.array([10.0, 5000.0, 5000.0]), np.array([2e13, 1e15, 1e15]), np.array([1.0, 2.0, 1.0])
)
STEP = RooflinePoint("step", 300.0, 1e14)


def trace(fig, name):
    return next(t for t in fig.data if t.name == name)


def test_the_roof_has_its_corner_at_the_ridge():
    fig = figures.roofline([WIDE, NARROW], THREE, STEP)
    roof = trace(fig, "roof")
    assert roof.x[1] == 500 and roof.y[1] == roof.y[2] == 1e15 and roof.y[0] == pytest.approx(2e12)
    other = trace(fig, "other roofs")
    assert np.nanmax(other.y) == 2e15 and other.line.dash == "dot"
    chosen = figures.roofline([WIDE, NARROW], THREE, STEP, chosen=1)
    assert max(trace(chosen, "roof").y) == 2e15 and "5 %" in chosen.layout.meta["title"]


def test_the_axis_is_longer_where_a_product_is_slow():
    slow = Products(["depthwise"], np.array([10.0]), np.array([1e11]), np.array([1.0]))
    lows = [figures.roofline([WIDE], each, STEP).layout.yaxis.range[0] for each in (THREE, slow)]
    assert lows == pytest.approx([15 - DEPTHS[0], 15 - DEPTHS[1]]) and lows[0] < np.log10(2e12) and lows[1] < 11


def test_products_that_fall_together_are_one_square_as_large_as_their_time():
    squares = trace(figures.roofline([WIDE], THREE, STEP), "products, modelled")
    assert len(squares.x) == 2 and squares.customdata[1][0] == "b and 1 more"
    assert squares.marker.size[1] > squares.marker.size[0] and squares.marker.symbol == "square"


def test_measured_and_published_marks_have_their_own_shape_and_word():
    marks = [RooflinePoint("fp32, 64 × 64", 10.0, 1e12), RooflinePoint("fp32, 128 × 128", 20.0, 2e12)]
    published = [RooflinePoint("theirs", float("nan"), 3e14, 1e14, 5e14)]
    fig = figures.roofline([WIDE], THREE, STEP, measured=marks, published=published)
    measured, theirs = trace(fig, "measured"), trace(fig, "published")
    assert measured.text.tolist() == ["", " fp32 "]  # one word for each format, at the last
    assert {measured.marker.symbol, theirs.marker.symbol, "square"} == {"circle", "diamond-open", "square"}
    assert theirs.error_y.array[0] == pytest.approx(2e14) and theirs.error_y.arrayminus[0] == pytest.approx(2e14)
    assert "Measured: fp32, 64 × 64" in fig.layout.meta["alt"] and "Published: theirs" in fig.layout.meta["alt"]
    assert "measured" in fig.layout.meta["subtitle"] and "published" in fig.layout.meta["subtitle"]
    bare = figures.roofline([WIDE], THREE, STEP)
    assert [t.type for t in bare.data] == [t.type for t in fig.data]  # two states of one figure
    assert not trace(bare, "measured").visible and "measured" not in bare.layout.meta["subtitle"]


def test_measured_marks_of_one_format_are_joined_and_roofs_too_near_share_a_line():
    marks = [
        RooflinePoint("fp32, 64", 10.0, 1e12),
        RooflinePoint("fp32, 128", 20.0, 2e12),
        RooflinePoint("int8, 64", 10.0, 4e12),
    ]
    measured = trace(figures.roofline([WIDE], THREE, STEP, measured=marks), "measured")
    assert "lines" in measured.mode and np.isnan(measured.y).tolist() == [False, False, True, False]
    assert measured.text.tolist()[1::2] == [" fp32 ", " int8 "]
    marks.insert(2, RooflinePoint("bf16, 64", 10.0, 4e12))  # as fast as int8: one name below, the other above
    assert trace(figures.roofline([WIDE], THREE, STEP, measured=marks), "measured").textposition.tolist()[3:] == [
        "middle right",
        "middle right",
        "top right",
    ]
    roofs = [WIDE, Roof("INT8", 1.2e15, 2e12), NARROW]
    names = trace(figures.roofline(roofs, THREE, STEP), "names")
    assert names.text.tolist() == ["FP8", "INT8, <b>BF16</b>"] and names.y.tolist() == [2e15, 1.2e15]


def test_who_waits_for_memory_is_told_by_those_who_know():
    known = replace(THREE, waiting=np.array([False, True, True]))
    text = [figures.roofline([WIDE], products, STEP).layout.meta["alt"] for products in (THREE, known)]
    assert "1 of 3 modelled products wait" in text[0] and "2 of 3 modelled products wait" in text[1]


def test_long_times_have_the_unit_of_their_labels():
    fig = figures.time_parts({"a": {"compute": 1120.0}, "b": {"compute": 600.0}})
    assert "(minutes)" in fig.layout.xaxis.title.text and 18 < fig.data[0].x[0] < 20
    assert "18.7 minutes" in "".join(fig.data[-1].text)


def test_bars_sum_to_the_step_and_follow_the_layers():
    times = compute.layer_times("resnet18", "h100", "hfp8_2019", batch=4)
    rows = by_layer(times, per=4)
    assert sum(sum(row.values()) for row in rows.values()) == pytest.approx(times.step_seconds / 4)
    many = by_layer(compute.layer_times("gpt3", "h100", "bf16"), most=10)
    assert len(many) <= 10 and "block9–18" in many and "tokens … block8" in many
    fig = figures.time_parts({"a": {"compute": 2e-3, "between": 1e-3}, "b": {"compute": 1e-3}}, "b")
    assert fig.layout.meta["title"] == "b is 3.0 times as fast as a"
    assert trace(fig, "multiplying").x.tolist() == [2.0, 1.0] and "(ms), modelled" in fig.layout.xaxis.title.text
    patterns = [t.marker.pattern.shape for t in fig.data if t.type == "bar"]
    assert len(set(patterns)) == len(patterns)  # colour is not the only sign


def test_the_multiplier_goes_through_what_was_published():
    for quantity in ("energy", "area"):
        fig = figures.multiplier_cost(quantity)
        alone, theirs = trace(fig, "multiplier"), trace(fig, "published")
        for bits in (11, 24):
            at = list(alone.x).index(bits)
            assert alone.y[at] == pytest.approx(theirs.y[list(theirs.x).index(bits)])
        assert np.all(trace(fig, "with its sum").y > alone.y)
        assert theirs.marker.symbol == style.PROVENANCE["published"][0]
    assert "the whole 37 %" in figures.multiplier_cost("energy").layout.meta["title"]
    chunked = figures.multiplier_cost("area", "dlfloat16")
    assert chunked.layout.meta["title"].startswith("Sums in dlfloat16")


def test_shares_tell_agreement():
    fig = figures.shares(["a", "b"], [0.5, 0.2], [0.5, 0.9], name="N", what="use", band=(0.1, 0.7))
    assert "yours agrees at 1 of 2" in fig.layout.meta["title"] and fig.layout.shapes[0].y1 == pytest.approx(70)
    assert "published range" in fig.layout.meta["subtitle"]
    assert trace(fig, "yours, the same").y.tolist() == [50] and trace(fig, "yours, different").y.tolist() == [90]
    groups = figures.shares(["a", "b"], [0.5, 0.2], name="N", what="use", begins={0: "first", 1: "second"})
    assert [note.text for note in groups.layout.annotations] == ["first", "second"]
    assert [shape.x0 for shape in groups.layout.shapes] == [0.5]
    alone = figures.shares(["a"], [0.5], name="N", what="use")
    assert "yours" not in alone.layout.meta["title"] + alone.layout.meta["subtitle"]


@pytest.mark.parametrize(
    ("draw", "text"),
    [
        (lambda: figures.roofline([], THREE, STEP), "at least one roof"),
        (lambda: Roof("x", 0, 1), "both rates must be above 0"),
        (lambda: Products(["a"], np.ones(2), np.ones(2), np.ones(2)), "must be of one length"),
        (lambda: figures.time_parts({}), "at least one row"),
        (lambda: figures.time_parts({"a": {"sleep": 1.0}}), "unknown part 'sleep'; allowed: compute"),
        (lambda: figures.time_parts({"a": {"compute": 1.0}}, "b"), "there is no row 'b'"),
        (lambda: figures.multiplier_cost("colour"), "unknown quantity 'colour'; allowed: energy, area"),
        (lambda: figures.shares(["a"], [0.1, 0.2], name="n", what="w"), "must be of one length"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_line(draw, text):
    with pytest.raises(ValueError, match=text):
        draw()


def test_all_are_drawn_alike_each_time_and_within_the_limits_of_a_page():
    with lazy_figure.as_dicts():
        drawn = [figures.roofline([WIDE], THREE, STEP) for _ in range(2)]
    first, second = (d.figure.to_json() for d in drawn)
    assert first == second
    times = compute.layer_times("gpt3", "h100", "bf16")
    some = times.flops > 0
    rates = times.flops[some] / times.product_seconds[some]
    every = Products([""] * int(some.sum()), times.intensity[some], rates, times.product_seconds[some])
    assert len(every.names) > 2000
    assert len(trace(figures.roofline([WIDE], every, STEP), "products, modelled").x) < style.MARKER_LIMIT / 6
