"""The field of recipes: points where they belong, one's own as a star, the budget as a line, the words."""

import math

import numpy as np
import pytest

from lplab import figures
from lplab.figures import RecipePoint, recipe_field

FIELD = (
    RecipePoint("MXFP4", 5.2, 0.55, 0.042),
    RecipePoint("MXFP8", 8.9, 0.69, 0.003),
    RecipePoint("NVFP4", 6.9, 0.61, 0.027),
)
OWN = RecipePoint("mine", 6.4, 0.60, 0.015)


def of(fig, name):
    return [trace for trace in fig.data if trace.name == name]


def test_points_are_drawn_in_both_panels():
    fig = recipe_field(FIELD, OWN, budget=(7.0, 0.62))
    bits, seconds = of(fig, "recipes")
    assert bits.x.tolist() == [8.9, 6.9, 5.2] and seconds.x.tolist() == [690, 610, 550]  # by rising gap
    assert bits.y.tolist() == seconds.y.tolist() == [0.003, 0.027, 0.042]
    assert [[text.strip() for text in trace.text] for trace in of(fig, "numbers")] == [["1", "2", "3"]] * 2
    star, other = of(fig, "yours")
    assert (star.x[0], star.y[0], other.x[0], star.marker.symbol) == (6.4, 0.015, 600, "star")
    assert [shape.x0 for shape in fig.layout.shapes] == [7.0, 620]
    assert "1 MXFP8  2 NVFP4<br>3 MXFP4<br>" in fig.layout.meta["subtitle"]
    assert "MXFP4 +0.0420 bits, 5.20 bits a number, 550 ms" in fig.layout.meta["alt"]
    assert fig.layout.meta["title"] == "Yours: +0.015 bits, a smaller gap than 2 of 3 recipes"


def test_all_points_and_the_budget_are_in_view():
    for own in (None, OWN, RecipePoint("wide", 32.0, 17.0, 0.0), RecipePoint("low", 2.0, 0.4, -0.02)):
        fig = recipe_field(FIELD, own, budget=(7.0, 0.62))
        for trace in fig.data:
            x, y = ("xaxis2", "yaxis2") if trace.xaxis == "x2" else ("xaxis", "yaxis")
            assert fig.layout[y].type == "log"
            for values, axis in ((trace.x, fig.layout[x]), (np.log10(trace.y), fig.layout[y])):
                assert all(axis.range[0] < value < axis.range[1] for value in values), (trace.name, axis.range)
        assert fig.layout.xaxis.range[0] < 7 < fig.layout.xaxis.range[1]


def test_a_hopeless_recipe_stays_at_the_upper_edge():
    fig = recipe_field(FIELD, RecipePoint("hopeless", 6.0, 0.6, 3.3))
    star = of(fig, "yours")[0]
    assert star.y[0] < 10 ** fig.layout.yaxis.range[1] < 0.1
    assert star.customdata[0][1] == 3.3 and "+3.300 bits" in fig.layout.meta["title"]


def test_a_costly_recipe_stays_at_the_right_edge():
    fig = recipe_field(FIELD, RecipePoint("wide", 32.0, 17.0, 0.01), budget=(7.0, 0.62))
    bits, seconds = of(fig, "yours")
    assert bits.x[0] == pytest.approx(1.15 * 8.9) and seconds.x[0] == pytest.approx(1.15 * 690)
    assert list(bits.customdata[0][1:]) == [0.01, 32.0, 17_000.0]


def test_before_the_first_training_the_costs_are_a_line():
    fig = recipe_field(FIELD, RecipePoint("mine", 6.4, 0.60), budget=(7.0, 0.62))
    assert [len(trace.x) for trace in of(fig, "yours")] == [0, 0] and not of(fig, "yours")[0].visible
    assert sorted(shape.x0 for shape in fig.layout.shapes) == [6.4, 7.0, 600, 620]
    assert "the gap is not known" in fig.layout.meta["title"] and "nan" not in fig.layout.meta["alt"]


def test_states_of_the_figure_are_updates_of_each_other():
    live = recipe_field(FIELD)
    for own in (RecipePoint("mine", 6.4, 0.60), OWN):
        figures.update(live, recipe_field(FIELD, own, budget=(7.0, 0.62)))
    assert of(live, "yours")[0].y.tolist() == [0.015]
    assert live.layout.meta["title"] == "Yours: +0.015 bits, a smaller gap than 2 of 3 recipes"


def test_negative_gaps_have_their_sign():
    fig = recipe_field(FIELD, RecipePoint("low", 6.0, 0.6, -0.002))
    assert fig.layout.meta["title"].startswith("Yours: −0.002 bits")
    assert of(fig, "yours")[0].y[0] == 0.001 and of(fig, "yours")[0].customdata[0][1] == -0.002


@pytest.mark.parametrize("field", [(), (RecipePoint("x", 4.0, 0.5),), (RecipePoint("x", 4.0, 0.5, math.inf),)])
def test_a_field_without_gaps_is_refused(field):
    with pytest.raises(ValueError, match="a field of at least one recipe"):
        recipe_field(field)


def test_one_recipe_alone_can_be_drawn():
    fig = recipe_field(FIELD[:1])
    assert np.diff(fig.layout.xaxis.range) > 0
