"""Figures of lab 16: losses over steps, loss against bytes, seconds of a step."""

import numpy as np
import pytest

from lplab import figures
from lplab.figures.meeting_curves import NARROWEST_PLOT, PHONE_PLOT
from lplab.figures.names_beside_dots import DOT, LETTER, _box_of_name, _overlap

CURVE = ([0, 60, 120], [2.6, 2.5, 2.4])


def trace(fig, name):
    return next(each for each in fig.data if each.name == name)


def test_curves_and_references_stand_at_their_losses():
    fig = figures.meeting_losses({"ours": CURVE}, {"alone": ([0, 120], [2.6, 2.45])}, steps=240, limits=(2.2, 2.7))
    assert trace(fig, "ours").y.tolist() == CURVE[1] and trace(fig, "alone").x.tolist() == [0, 120]
    assert fig.layout.meta["title"] == "After 120 of 240 steps: ours 2.400"
    assert fig.layout.meta["alt"].endswith("alone 2.450, ours 2.400.")
    low, high = fig.layout.xaxis.range
    assert low < 240 < high and 240 % fig.layout.xaxis.dtick == 0, "the last step has a tick"
    looks = [(each.line.dash, each.marker.symbol) for each in fig.data]
    assert len(set(looks)) == 2, "nothing differs by colour alone"


def test_curves_that_have_not_begun_say_so():
    fig = figures.meeting_losses({"ours": ([], [])}, steps=240, limits=(2.2, 2.7))
    assert fig.layout.meta["title"] == "Not started yet"
    assert fig.layout.meta["alt"] == "Test loss in bits a character after 0 of 240 steps. Not started yet."


def test_a_loss_without_a_step_and_too_many_curves_are_refused():
    with pytest.raises(ValueError, match="one loss for each step"):
        figures.meeting_losses({"ours": ([0], [2.6, 2.5])}, steps=240, limits=(2.2, 2.7))
    with pytest.raises(ValueError, match="got 0 and 0"):
        figures.meeting_losses({}, steps=240, limits=(2.2, 2.7))
    with pytest.raises(ValueError, match="got 9 and 0"):
        figures.meeting_losses({str(name): CURVE for name in range(9)}, steps=240, limits=(2.2, 2.7))


def test_the_plane_has_all_dots_inside_and_names_them():
    fig = figures.byte_loss_plane({"few": (480.0, 2.35), "all": (455e3, 2.3)}, (38e3, 2.36), {"alone": 2.41})
    dots = trace(fig, "other ways to train")
    assert dots.x.tolist() == [480, 455e3] and dots.y.tolist() == [2.35, 2.3]
    low, high = fig.layout.xaxis.range
    assert 10**low < 480 and 10**high > 455e3
    assert fig.layout.yaxis.range[1] > 2.41 and fig.layout.yaxis.range[0] < 2.3
    assert trace(fig, "this setting").x.tolist() == [38e3]
    assert trace(fig, "names").textposition.tolist() == ["middle right", "middle left"], "names stay inside"
    assert set(trace(fig, "without meetings").y[:2]) == {2.41}
    assert "few 480 B, 2.350; all 455 kB, 2.300. alone 2.410." in fig.layout.meta["alt"]


OF_THE_CAPSTONE = {
    "FedAvg (2017)": (1.83e6, 2.365), "DiLoCo (2023)": (1.83e6, 2.354), "Streaming (2025)": (571e3, 2.338),
    "DeMo (2024)": (2.42e6, 2.337), "SparseLoCo (2025)": (92e3, 2.366), "AdaComp (2018)": (81e3, 2.384),
}  # fmt: skip
SHORT = {name: name.split()[0] for name in OF_THE_CAPSTONE} | {"one learner alone": "one alone", "each": "each"}
OF_AN_EXPLORER = {
    "FedAvg": (38e3, 2.363), "DiLoCo": (38e3, 2.338), "DiLoCo every 60": (7.7e3, 2.364),
    "DiLoCo in 4 bits": (4.7e3, 2.339), "SparseLoCo": (480.0, 2.354), "without memory": (480.0, 2.426),
    "in each step": (455e3, 2.297),
}  # fmt: skip
PLANES = {
    "capstone": (OF_THE_CAPSTONE, {"one learner alone": 2.398, "each": 2.284}, 108_927.0, 420),
    "explorer": (OF_AN_EXPLORER, {"one alone": 2.406}, None, 310),
}


@pytest.mark.parametrize("on_a_phone", [False, True])
@pytest.mark.parametrize("plane", PLANES)
def test_names_lie_on_no_dot_no_other_name_and_not_on_the_budget(plane, on_a_phone):
    dots, levels, budget, height = PLANES[plane]
    fig = figures.byte_loss_plane(dots, None, levels, budget=budget, short=SHORT, height=height)
    width, kind = (PHONE_PLOT, " on a phone") if on_a_phone else (NARROWEST_PLOT, "")
    (left, right), (low, high) = fig.layout.xaxis.range, fig.layout.yaxis.range
    tall = height - fig.layout.margin.t - fig.layout.margin.b

    def at(x, y):
        return width * (np.log10(x) - left) / (right - left), tall * (high - y) / (high - low)

    names = trace(fig, f"names{kind}")
    boxes = [
        _box_of_name(*at(x, y), str(text), str(place))
        for x, y, text, place in zip(names.x, names.y, names.text, names.textposition, strict=True)
    ]
    if budget:
        line = at(budget, low)[0]
        assert all(" (" not in text for text in names.text) == on_a_phone, "short names on a phone"
        level_names = trace(fig, f"levels{kind}").text
        assert max(LETTER * len(text) for text in level_names) < line, "names of levels end before the budget"
        assert not any(_overlap(box, (line - 1, 0, line + 1, tall)) for box in boxes)
    boxes += [(x - DOT, y - DOT, x + DOT, y + DOT) for x, y in (at(*dot) for dot in dots.values())]
    lie_over = [(a, b) for k, a in enumerate(boxes) for b in boxes[:k] if _overlap(a, b)]
    assert not lie_over and all(box[0] >= 0 and box[2] <= width for box in boxes)


def test_one_form_of_the_names_is_shown_at_each_width():
    fig = figures.byte_loss_plane(OF_THE_CAPSTONE, None, {"one learner alone": 2.398}, budget=1e5, short=SHORT)
    forms = {each.name: (each.visible, each.meta["phone"]["visible"]) for each in fig.data if each.meta}
    assert forms == {
        "names": (True, False), "levels": (True, False), "names on a phone": (False, True),
        "levels on a phone": (False, True),
    }  # fmt: skip
    told = [*trace(fig, "other ways to train").text, *trace(fig, "without meetings").text, fig.layout.meta["alt"]]
    for name in (*OF_THE_CAPSTONE, "one learner alone"):
        assert any(str(text).startswith(name) for text in told[:-1]) and name in told[-1], "the whole name"


def test_a_training_that_diverges_does_not_press_the_others_together():
    dots, alone = {"few": (480.0, 2.35), "all": (455e3, 2.3)}, {"alone": 2.41}
    fig = figures.byte_loss_plane(dots, (480.0, 3.336), alone)
    (ring,) = trace(fig, "this setting").y
    assert 2.41 < ring < fig.layout.yaxis.range[1] < 2.46 and trace(fig, "above the axis").text[0].strip() == "3.336 ↑"
    assert "480 B a step, 3.336 bits" in fig.layout.meta["title"]
    near = figures.byte_loss_plane(dots, (480.0, 2.42), alone)
    assert trace(near, "this setting").y.tolist() == [2.42] and trace(near, "above the axis").text[0] == ""


@pytest.mark.parametrize("dot", [(0.0, 2.3), (10.0, np.nan)])
def test_what_a_logarithm_cannot_show_is_refused(dot):
    with pytest.raises(ValueError, match="above 0 and finite"):
        figures.byte_loss_plane({"bad": dot}, (38e3, 2.36), {})


def test_waiting_begins_where_computing_ends():
    fig = figures.meeting_seconds({"in each step": 10.0, "ours": 0.25}, 0.1, "ours", link="a slow link")
    assert trace(fig, "a step").x.tolist() == [10, 0.25]
    waiting = trace(fig, "waiting").x
    assert waiting[:2].tolist() == [0.1, 10] and trace(fig, "seconds").text[1] == " 250 ms, 40 % computing"
    assert fig.layout.meta["title"] == "Ours computes 40 % of the time"
    with pytest.raises(ValueError, match="seconds must be"):
        figures.meeting_seconds({"ours": 0.0}, 0.1, "ours", link="a slow link")
