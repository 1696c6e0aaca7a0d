"""Updating a figure in place gives the figure that would have been drawn anew; showing keeps the alt text."""

import time
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from lplab import figures
from lplab.figures.lazy_figure import LazyFigure, as_dicts
from tests.figures.test_every_format import DRAW

CHAIN = ["e4m3fn", "int4", "fp16", "posit8_1", "mxfp4", "e8m0", "radix4_fp4_odd", "e4m3fn"]


def tree(fig: Any) -> Any:
    """What a figure holds, apart from the ids of its traces."""
    content = go.Figure(fig).to_plotly_json()
    for trace in content["data"]:
        trace.pop("uid", None)
    return content


@pytest.mark.parametrize("name", DRAW)
def test_update_equals_drawing_anew(name: str) -> None:
    draw = DRAW[name]
    live = draw(CHAIN[0])
    for fmt in CHAIN[1:]:
        fresh = draw(fmt)
        assert figures.update(live, fresh) is live
        assert figures.figure_display.same(tree(live), tree(fresh)), fmt


def test_update_of_a_widget() -> None:
    widget = go.FigureWidget(DRAW["magnitude_histogram"]("e4m3fn"))
    traces = widget.data
    fresh = DRAW["magnitude_histogram"]("e2m1")
    figures.update(widget, fresh)
    assert widget.data == traces, "the same trace objects"
    assert widget.layout.title == fresh.layout.title and widget.layout.meta == fresh.layout.meta
    assert np.array_equal(widget.data[2].y, fresh.data[2].y)


def test_update_sends_only_what_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    widget = go.FigureWidget(DRAW["error_curve"]("e4m3fn"))
    sent: list[Any] = []
    monkeypatch.setattr(type(widget), "_send_update_msg", lambda self, **message: sent.append(message), raising=True)
    figures.update(widget, DRAW["error_curve"]("e4m3fn"))
    assert sent == []
    figures.update(widget, DRAW["error_curve"]("e5m2"))
    assert len(sent) == 1, "one message"
    assert not any("template" in key for key in sent[0]["relayout_data"])


@pytest.mark.parametrize("name", DRAW)
def test_an_update_takes_a_moment(name: str) -> None:
    """Measured 6 to 29 ms of CPU time for 20,000 elements; the bound leaves room for slow machines."""
    live, best = DRAW[name]("e4m3fn"), float("inf")
    for fmt in ("e5m2", "e4m3fn") * 3:
        start = time.process_time()
        figures.update(live, DRAW[name](fmt))
        best = min(best, time.process_time() - start)
    assert best < 0.1


def test_update_refuses_another_figure() -> None:
    with pytest.raises(ValueError, match="not two states of one figure"):
        figures.update(figures.number_line("e2m1"), figures.error_curve("e2m1"))


def test_same() -> None:
    same = figures.figure_display.same
    assert same(np.array([1.0, np.nan]), np.array([1.0, np.nan]))
    assert not same(np.array([1.0]), np.array([1.0, 2.0])) and not same(np.array([1.0]), [1.0])
    assert same(np.array(["a"]), np.array(["a"])) and not same({"a": 1}, {"b": 1}) and not same((1, 2), (1, 3))


def test_show_has_the_alt_text_as_its_plain_form() -> None:
    fig = figures.number_line("e2m1")
    shown = figures.show(fig, theme="dark")
    data, metadata = shown._repr_mimebundle_()
    alt = fig.layout.meta["alt"]
    assert repr(shown) == data["text/plain"] == alt
    assert metadata["application/vnd.plotly.v1+json"]["alt"] == alt
    assert data["application/vnd.plotly.v1+json"]["layout"]["paper_bgcolor"] == "#111111"


@pytest.mark.parametrize("name", [n for n in DRAW if not n.startswith("compare")])
def test_light_drawings_are_the_same_figures(name: str) -> None:
    whole = DRAW[name]("e4m3fn")
    with as_dicts():
        drawn = DRAW[name]("e4m3fn")
        other = DRAW[name]("e5m2")
    assert figures.figure_display.same(tree(drawn.to_dict()), tree(whole.to_dict()))
    assert figures.figure_display.same(tree(figures.update(whole, other)), tree(DRAW[name]("e5m2")))


def test_drawing_becomes_a_figure_only_when_asked() -> None:
    with as_dicts():
        drawn = figures.number_line("e2m1")
    assert isinstance(drawn, LazyFigure) and "figure" not in vars(drawn)
    assert drawn.layout.height == drawn.figure.layout.height and "figure" in vars(drawn)
    assert isinstance(figures.number_line("e2m1"), go.Figure), "outside as ever"
    with pytest.raises(AttributeError):
        drawn._repr_nothing_  # noqa: B018
