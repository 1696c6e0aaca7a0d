"""Figures of trainings: spread visible, told apart without colour, said in words."""

import numpy as np
import pytest

from lplab import figures
from lplab.figures import Curve, style
from lplab.figures.training_error import ERRORS

BITS = [4, 6, 8]
CURVES = [
    Curve("coin", BITS, [[2.0, 3.0, 2.5], [2.0, 2.0, 1.5], [1.5, 2.0, 1.0]]),
    Curve("nearest", BITS, [[90.0, 91.0, 88.0], [60.0, 90.0, 80.0], [3.0, 3.5, 2.5]]),
]


def test_every_seed_is_a_point_and_the_line_goes_through_the_medians():
    fig = figures.training_error(CURVES, [1.5, 2.0, 1.8])
    points, line = fig.data[5], fig.data[6]
    assert len(points.x) == 9 and sorted(points.y[:3]) == [88.0, 90.0, 91.0]
    assert line.y.tolist() == [90.0, 80.0, 3.0] and line.x.tolist() == BITS
    floating = next(trace for trace in fig.data if trace.name == "floating point")
    assert floating.y.tolist() == [1.8, 1.8] and floating.line.color == style.GREEN


def test_curves_differ_in_more_than_colour():
    fig = figures.training_error([Curve(f"rule {i}", BITS, CURVES[0].errors) for i in range(4)])
    lines = [trace for trace in fig.data if trace.mode == "lines+markers"]
    assert len({line.line.dash for line in lines}) == len({line.marker.symbol for line in lines}) == 4
    colours = {colour for colour, _, _ in style.SERIES_BESIDE_GREEN}
    assert len(colours) == 4 and style.GREEN not in colours and {line.line.color for line in lines} == colours


def test_words_say_the_numbers():
    fig = figures.training_error(CURVES, [1.8], marked_bits=6, note="measured today")
    meta = fig.layout.meta
    assert meta["title"] == "FL 6: coin 2.0 %, nearest 80 %"
    assert "nearest: 90 % at 4, 80 % at 6, 3.0 % at 8" in meta["alt"] and "Floating point: 1.8 %." in meta["alt"]
    assert fig.layout.annotations[0].text == "measured today"
    assert fig.layout.shapes[0].x0 == 6 and fig.layout.shapes[0].visible
    elsewhere = figures.training_error(CURVES, [1.8], marked_bits=4).layout.meta
    assert elsewhere["title"].startswith("FL 4: ") and elsewhere["alt"] == meta["alt"]
    nowhere = figures.training_error(CURVES, [1.8]).layout.meta
    assert nowhere["title"] == meta["title"], "where they differ most"


def test_a_long_key_is_two_lines_within_the_margin():
    curves = [Curve(f"rule {i}", BITS, CURVES[0].errors) for i in range(4)]
    long, short = figures.training_error(curves, [1.8]), figures.training_error(CURVES)
    first, second = long.layout.meta["subtitle"].split("<br>")
    assert "rule 2" in first and "rule 3" in second and "floating point" in second
    assert long.layout.margin == short.layout.margin and long.layout.title.y == short.layout.title.y


def test_hidden_curves_keep_the_place_and_looks_of_the_others():
    hidden = [Curve("coin", BITS, CURVES[0].errors, shown=False), CURVES[1]]
    both, one = figures.training_error(CURVES), figures.training_error(hidden)
    assert [t.type for t in both.data] == [t.type for t in one.data]
    assert one.data[4].visible is False and one.data[6].line.color == both.data[6].line.color
    assert "coin" not in one.layout.meta["alt"] + one.layout.title.text
    none = figures.training_error([Curve("coin", BITS, CURVES[0].errors, shown=False)])
    assert none.layout.meta["title"] == "Test error against fraction bits"


def test_the_axis_does_not_move_and_nothing_falls_off_it():
    fig = figures.training_error([Curve("perfect", [4], [[0.0, 0.5]])], bits=(4, 18))
    assert tuple(fig.layout.xaxis.range) == (3.5, 18.5) and fig.layout.yaxis.type == "log"
    assert min(fig.data[3].y) == ERRORS[0] == min(fig.data[4].y)


def test_epochs_grow_within_fixed_axes():
    early = figures.training_epochs([Curve("coin", [], [])], epochs=60)
    late = figures.training_epochs(
        [Curve("coin", [1, 2, 3], [50.0, 9.0, 2.0])], Curve("floating point", [1, 2, 3], [40.0, 8.0, 2.0]), epochs=60
    )
    assert early.layout.meta["title"] == "Not started yet" and early.layout.xaxis.range == late.layout.xaxis.range
    assert late.layout.meta["title"] == "After 3 of 60 epochs: coin 2.0 %, floating point 2.0 %"
    figures.update(early, late)
    assert early.data[0].y.tolist() == [50.0, 9.0, 2.0] and early.data[1].visible


def test_losses_name_both_ways_to_lose():
    fig = figures.lost_updates(
        (4, 18), [6, 14], [[1.0, 0.99], [0.2, 0.3]], [[0, 0], [0.4, 0.5]], rule="nearest", marked_bits=6
    )
    assert fig.layout.meta["title"] == "Nearest: what is lost"
    lost, saturated = fig.data[1], fig.data[3]
    assert lost.y.tolist() == [99.5, 25.0] and saturated.y.tolist() == [0.0, 45.0]
    assert lost.line.dash != saturated.line.dash and lost.marker.symbol != saturated.marker.symbol
    assert "99.5 % and 0 % at 6, 25.0 % and 45.0 % at 14" in fig.layout.meta["alt"]


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match=r"coin: errors must be \[n\] or \[n, seeds\]"):
        Curve("coin", [1, 2], [[1.0]])
    with pytest.raises(ValueError, match="at most 4 curves"):
        figures.training_error([CURVES[0]] * 5)
    with pytest.raises(ValueError, match="must be \\[n, seeds\\] for 2 fraction bits"):
        figures.lost_updates((4, 8), [4, 8], np.zeros((3, 2)), np.zeros((2, 2)), rule="x")
