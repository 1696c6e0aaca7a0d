"""The parts of which figures are made: traces, axes, shapes, and the legend that is made from the traces."""

import numpy as np
import plotly.graph_objects as go
import pytest

from lplab import figures
from lplab.figures import axes, shapes, style, traces
from lplab.figures.compare_to_library import agreement, compare_to_library
from lplab.figures.legend import PATTERNS, SIGNS, entry, legend

X = np.array([1.0, 2.0, 3.0])
STROKE, MARKER = traces.stroke(style.BLUE, 2, "dash"), traces.marker("x", 9, style.PINK, 2)
PARTS = {
    "line": traces.line("a", X, X, STROKE, "{name} %{y}"),
    "points": traces.points("a", X, X, MARKER, "{name} %{y}"),
    "curve": traces.curve("a", X, X, STROKE, MARKER, "{name} %{y}"),
    "bars": traces.bars("a", X, X, style.OUTCOME_STYLES["exact"], "{name} %{y}"),
    "words": traces.words("a", X, X, ["one", "two", "three"], "top center"),
    "reference": traces.reference("a", X, X, style.GREY, "dot"),
}


@pytest.mark.parametrize("part", PARTS)
def test_every_part_is_a_valid_trace(part):
    trace = go.Figure(PARTS[part]).data[0]  # plotly checks every property
    assert trace.name == "a" and trace.x.tolist() == trace.y.tolist() == X.tolist()
    boxed = part in ("line", "points", "curve", "bars")
    assert (trace.hovertemplate, trace.hoverinfo) == (("a %{y}<extra></extra>", None) if boxed else (None, "skip"))


def test_further_properties_go_before_those_of_the_part():
    trace = traces.line("a", X, X, STROKE, "%{y}", mode="lines+text", visible=False)
    assert (trace["mode"], trace["visible"], trace["line"]) == ("lines+text", False, STROKE)


def test_a_layout_of_axes_and_shapes_is_valid():
    layout = go.Layout(
        xaxis=axes.axis(0, 3, "step", **axes.ticks(X, "abc")),
        yaxis=axes.power_axis(-3, 5, "magnitude"),
        shapes=[shapes.upright(1.0), shapes.region(1, 2, style.LOST_RANGE)],
        annotations=[shapes.note("here")],
    )
    assert layout.xaxis.ticktext.tolist() == ["a", "b", "c"] and list(layout.xaxis.range) == [0, 3]
    assert layout.shapes[0].x0 == layout.shapes[0].x1 == 1.0 and layout.annotations[0].text == "here"


@pytest.mark.parametrize(("dash", "sign"), [("", "━"), ("solid", "━"), ("dash", "╍"), ("dot", "┅"), ("dashdot", "┉")])
def test_the_legend_has_the_dash_and_the_colour_of_the_line(dash, sign):
    assert entry(traces.line("a", X, X, traces.stroke(style.PINK, 2, dash))) == (style.PINK, sign, "a")


def test_the_legend_has_the_symbol_of_points_and_the_pattern_of_bars():
    for _, _, symbol in style.SERIES:
        assert entry(traces.points("a", X, X, traces.marker(symbol, 9, style.PINK)), "b")[1:] == (SIGNS[symbol], "b")
    assert entry(PARTS["curve"]) == (style.PINK, "×", "a")
    signs = [entry(traces.bars(name, X, X, look))[1] for name, look in style.OUTCOME_STYLES.items()]
    assert len(set(signs)) == len(signs) and set(signs) <= set(PATTERNS.values())


def test_signs_that_series_have_together_differ():
    for series in (style.SERIES, style.SERIES_BESIDE_GREEN):
        for signs in ([SIGNS[dash] for _, dash, _ in series], [SIGNS[symbol] for _, _, symbol in series]):
            assert len(set(signs)) == len(signs)


def test_a_legend_breaks_into_lines():
    entries = [(style.BLUE, "━", word) for word in "abcde"]
    assert [text.count("</span>") for text in legend(*entries, per_line=2).split("<br>")] == [2, 2, 1]
    assert "<br>" not in legend(*entries) and legend() == ""


def test_results_are_compared_point_by_point():
    ring, cross = traces.marker("circle-open", 9, style.PINK, 2), traces.marker("x", 9, style.PINK, 2)
    same = np.array([True, False, True])
    alike, different = compare_to_library(X, 10 * X, same, ring, cross, "{name}", text=np.array(["a", "b", "c"]))
    assert alike["x"].tolist() == [1, 3] and alike["text"].tolist() == ["a", "c"] and alike["marker"] == ring
    assert different["y"].tolist() == [20] and different["text"].tolist() == ["b"] and different["marker"] == cross
    assert different["hovertemplate"] == "yours, different<extra></extra>"
    assert agreement(same, "points") == "yours agrees at 2 of 3 points"


def test_a_run_that_has_not_begun_leaves_the_others_their_signs():
    runs = [figures.LearnerCurve(name, losses, [480] * len(losses)) for name, losses in (("a", []), ("b", [2.0]))]
    fig = figures.learner_runs(runs, steps=10)
    lines = {trace.name: trace for trace in fig.data}
    titles = " ".join(fig.data[-1].text)
    _, look, _ = style.SERIES_BESIDE_GREEN[1]
    assert lines["b: sent"].line.dash == look
    assert f"<span style='color:{lines['b: sent'].line.color}'>{SIGNS[look]}</span> b 480 B" in titles
