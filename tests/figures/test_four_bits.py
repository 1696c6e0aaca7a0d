"""Figures of four-bit gradients: grids, errors against the scale, both phases, scales over a training."""

import numpy as np
import pytest

from lplab import figures
from lplab.figures import style
from lplab.figures.grid_errors import good_scales
from lplab.quantizers import GRADIENT_GRIDS, GridEffect, grid_effect, two_phase

X = np.concatenate([np.exp2(np.linspace(-30, 8, 400)), [0.0, 0.0]])
EFFECTS = {name: grid_effect(X, name) for name in GRADIENT_GRIDS}


def test_the_bars_add_up_to_all_elements_but_the_zeros():
    fig = figures.gradient_grids(X, EFFECTS, "radix2")
    zero, rounded, beyond = fig.data[:3]
    assert sum(bar.customdata.sum() for bar in (zero, rounded, beyond)) == 400
    assert zero.customdata.sum() == (np.abs(X[:400]) < 0.75).sum() and beyond.customdata.sum() == (X > 64).sum()
    assert sum(bar.y.sum() for bar in (zero, rounded, beyond)) == pytest.approx(100 * 400 / 402)
    assert zero.marker.pattern.shape != beyond.marker.pattern.shape


def test_the_strokes_are_the_values_and_the_table_has_every_number():
    fig = figures.gradient_grids(X, EFFECTS, "luq", title="So it is")
    lost, held, chosen, others, table, bias = fig.data[3:]
    assert held.x[3:5].tolist() == [np.log2(0.75), 6] and lost.line.color != held.line.color
    assert (2.0**chosen.x).tolist() == [1, 2, 4, 8, 16, 32, 64] and chosen.marker.line.color == style.BLUE
    assert len(others.x) == sum(len(grid.values) for grid in GRADIENT_GRIDS.values()) - 7
    assert table.text[:2].tolist() == ["to 0<br>%", "error<br>%"] and bias.text[0] == "bias<br>%"
    assert (len(table.text), len(bias.text)) == (2 * 7, 7) and bias.meta["phone"] == {"visible": False}
    assert not any("%" in text for text in [*table.text[2:], *bias.text[1:]]), "the unit stands in the heads"
    assert "<b>−41</b>" in bias.text and "% zeroed, bias " in fig.layout.meta["alt"]
    assert fig.layout.meta["title"] == "So it is" and "FP4 radix 4, odd: " in fig.layout.meta["alt"]
    assert "<b>LUQ (radix 2, coin)</b>" in list(fig.layout.yaxis2.ticktext)


def test_the_axis_stays_where_it_is_whatever_the_scale():
    near, far = (figures.gradient_grids(X * s, EFFECTS) for s in (1.0, 2.0**20))
    assert near.layout.xaxis.range == far.layout.xaxis.range and near.data[3].x.tobytes() == far.data[3].x.tobytes()
    with pytest.raises(ValueError, match="no row for the grid 'fp4'; there are: int4"):
        figures.gradient_grids(X, EFFECTS, "fp4")


def test_errors_against_the_scale_mark_where_it_stands():
    curves = {"radix2": [0.9, 0.4, 0.2], "luq": [9.0, 0.6, 0.4]}
    fig = figures.grid_errors([8, 9, 10], curves, {"radix2": 0.1, "luq": 0.3}, what="error", limits=(0, 1.5), at=9)
    radix2, luq, *own, beyond = fig.data
    assert radix2.y.tolist() == [90, 40, 20] and luq.y.tolist() == [150, 60, 40] and luq.customdata[0] == 900
    assert beyond.x.tolist() == [8] and beyond.y.tolist() == [150] and beyond.customdata.tolist() == [900]
    assert "▲" in fig.layout.meta["subtitle"]
    assert fig.layout.shapes[0].x0 == 9 and [point.x[0] for point in own] == [12, 12]
    assert radix2.line.dash != luq.line.dash and "FP4 radix 2 40 %, LUQ (radix 2, coin) 60 %" in fig.layout.meta["alt"]
    owned = figures.grid_errors([8, 9, 10], curves, {"radix2": 0.1, "luq": 0.3}, what="error", limits=(0, 1), good=0.5)
    assert owned.layout.shapes[0].x0 == 12 and owned.layout.shapes[1].y0 == 50
    assert owned.layout.meta["title"] == "Good scales: FP4 radix 2 2, LUQ (radix 2, coin) 1"
    assert good_scales([8, 9, 10], curves["luq"]) == [10]
    with pytest.raises(ValueError, match="a number for each of 3 scales"):
        figures.grid_errors([8, 9, 10], {"radix2": [1.0]}, {"radix2": 1.0}, what="error", limits=(0, 1))


def test_a_curve_off_the_scale_does_not_look_like_a_plateau():
    fig = figures.grid_errors([7, 8, 9, 10], {"luq": [9, 7, 2, 0.3]}, {"luq": 0.3}, what="error", limits=(0, 1))
    luq, _, beyond = fig.data
    assert np.isnan(luq.y[:2]).all() and luq.y[2:].tolist() == [100, 30] and beyond.x.tolist() == [7, 8, 9]
    fig = figures.grid_errors([8, 9], {"luq": [0.4, 0.3]}, {"luq": 0.3}, what="error", limits=(0, 1))
    assert len(fig.data[2].x) == 0 and "off the scale" not in fig.layout.meta["subtitle"]


def test_a_curve_says_its_scale_itself():
    fig = figures.grid_errors([7, 8], {"luq": [0.4, 0.3]}, {"luq": 0.3}, what="error", limits=(0, 1))
    assert "%{x" not in fig.data[0].hovertemplate, "plotly gives the label of a tick for x, such as 2¹⁶"
    assert list(fig.data[0].text) == ["2<sup>7</sup>", "2<sup>8</sup>"]


def test_phases_are_compared_point_by_point():
    x = np.array([0.7, 3.0, 30.0])
    even, odd = two_phase(x)
    same, different = figures.phases((x, even, odd)).data[4:]
    assert len(same.x) == 6 and len(different.x) == 0
    same, different = figures.phases((x, even, even)).data[4:]
    assert len(same.x) == 3 and different.customdata[:, 0].tolist() == x.tolist()
    mean = figures.phases().data[1]
    assert mean.y[mean.x > -6].max() <= 1.2 + 1e-9  # 0.75·2ᵏ from 0.625·2ᵏ on
    with pytest.raises(ValueError, match="of one length, got 3, 3, 2"):
        figures.phases((x, even, odd[:2]))


def test_scales_of_layers_show_the_ends_and_yours():
    scales = {"low": [1, 2, 4], "middle": [1, 4, 8], "high": [1, 2, 16]}
    fig = figures.layer_scales(scales)
    every, high, low, yours = fig.data
    assert (high.name, low.name) == ("high", "low") and high.y.tolist() == [0, 1, 4] and low.line.dash == "dash"
    assert np.isnan(every.y).sum() == 3 and not yours.visible and fig.layout.meta["title"].endswith("2² to 2⁴")
    own = figures.layer_scales(scales, {**scales, "low": [1, -2, np.inf]})
    assert own.layout.meta["title"] == "Yours agrees at 7 of 9 scales" and own.data[3].visible
    drawn = own.data[3].y[: 3 + 1]
    assert drawn[0] == 0 and np.isnan(drawn[1:]).all() and np.isnan(own.data[3].y[4:]).all(), "only where it differs"
    for wrong in ({}, {"a": [1, 2], "b": [1]}):
        with pytest.raises(ValueError, match="one sequence for each layer"):
            figures.layer_scales(wrong)
    with pytest.raises(ValueError, match="the same layers"):
        figures.layer_scales(scales, {"low": [1, 2, 4]})


def test_means_of_effects():
    assert GridEffect.mean([EFFECTS["int4"]]) == EFFECTS["int4"]


def test_gains_have_a_row_for_each_layer_and_a_symbol_for_each_way():
    fig = figures.gradient_gains(
        {"radix 4": {"a.weight": 0.4, "b.weight": 0.9}, "LUQ": {"a.weight": 1.0, "b.weight": 1.01}}
    )
    radix4, luq = fig.data
    assert radix4.x.tolist() == [0.4, 0.9] and list(fig.layout.yaxis.ticktext) == ["a", "b"]
    assert radix4.marker.symbol != luq.marker.symbol and fig.layout.shapes[0].x0 == 1
    assert fig.layout.meta["title"] == "Left in the first layer: 40 % to 100 %"
    assert "LUQ: 100 %" in fig.layout.meta["subtitle"]
    for wrong in ({}, {"a": {}}, {"a": {"x": 1.0}, "b": {"y": 1.0}}):
        with pytest.raises(ValueError, match="one to 3 ways to round with the same layers"):
            figures.gradient_gains(wrong)
