"""One panel of a figure alone: its traces, shapes and axes, and nothing of the others."""

import numpy as np
import pytest

from lplab import figures
from lplab.figures.panel import panel
from lplab.figures.precision import tensor_row


@pytest.fixture(scope="module")
def whole():
    rows = [
        tensor_row(np.array([1.1, 2.5, 2.0**-20]), "e4m3fn", label=label, group=label) for label in ("one", "other")
    ]
    return figures.range_precision(rows, "e4m3fn", ["e5m2"])


@pytest.mark.parametrize(("y", "shapes"), [("y", 0), ("y2", 1)])
def test_a_panel_has_its_own_traces_and_shapes_alone(whole, y, shapes):
    alone = panel(whole, y, height=300)
    inside = [trace for trace in whole.data if (trace.yaxis or "y") == y]
    assert [trace.name for trace in alone.data] == [trace.name for trace in inside]
    assert {trace.yaxis for trace in alone.data} == {"y"} and len(alone.layout.shapes) == shapes
    assert all(shape.yref == "y" for shape in alone.layout.shapes)
    axis = "yaxis" + y[1:]
    assert alone.layout.yaxis.range == whole.layout[axis].range and alone.layout.yaxis.domain is None
    assert alone.layout.xaxis.range == whole.layout.xaxis.range
    assert alone.layout.height == 300 and alone.layout.meta["alt"] == whole.layout.meta["alt"]


def test_a_panel_may_say_something_else(whole):
    alone = panel(whole, "y2", height=300, title="What is kept", subtitle="in rows")
    assert (alone.layout.meta["title"], alone.layout.meta["subtitle"]) == ("What is kept", "in rows")
    with pytest.raises(ValueError, match="no trace has the y axis 'y7'"):
        panel(whole, "y7", height=300)
