"""LiveFigure without a browser: what is sent, what plotly must have, what happens where it lacks it."""

import gzip
import importlib
import threading

import ipywidgets
import numpy as np
import plotly.graph_objects as go
import pytest

from lplab import figures
from lplab.widgets import LiveFigure
from lplab.widgets.live import live_figure as module
from lplab.widgets.live import plotly_internals


@pytest.fixture
def figure():
    return go.Figure(go.Scatter(y=np.arange(3.0)), layout={"meta": {"alt": "three points"}})


def test_five_megabytes_are_sent_once(figure):
    first, second = LiveFigure(figure), LiveFigure(figure)
    assert first._bundle is second._bundle
    assert len(first.get_state()["_esm"]) < 10_000
    assert gzip.decompress(first._bundle.data) == plotly_internals.BUNDLE.read_bytes()
    assert len(first._bundle.data) < 2_000_000


def test_closed_bundle_is_made_again(figure):
    LiveFigure(figure)._bundle.close()
    assert LiveFigure(figure)._bundle.comm is not None


def test_fallback_is_a_plain_figure_widget_that_works(figure, monkeypatch):
    monkeypatch.setattr(module, "_missing", None)
    monkeypatch.setattr(plotly_internals, "missing_internals", lambda: ("FigureView",))
    with pytest.warns(UserWarning, match="lacks FigureView"):
        live = LiveFigure(figure)
    state = live.get_state()
    assert state["_bundle"] is None
    assert state["_esm"] == str(go.FigureWidget._esm)
    with live.batch_update():
        live.data[0].y = np.zeros(3)
    assert live.alt == "three points" and live._config["responsive"]


def test_config_and_class(figure):
    live = LiveFigure(figure)
    assert not live._config["responsive"], "live_figure.js follows the width; plotly would change the height, too"
    assert not live._config["displaylogo"]
    assert "lp-fig" in live._dom_classes


@pytest.mark.parametrize("meta", [None, "text", {"other": 1}, [1, 2]])
def test_any_meta_is_harmless(meta):
    assert LiveFigure(go.Figure(layout={"meta": meta})).alt == ""


def test_alt_follows_batches(figure):
    live = LiveFigure(figure)
    with live.batch_update():
        live.layout.meta = {"alt": "later"}
        live.data[0].y = np.ones(3)
    assert live.alt == "later"
    assert isinstance(live, ipywidgets.DOMWidget)


def test_css_knows_the_ink_of_the_house():
    ink = importlib.import_module("lplab.figures.style").INK
    rgb = ", ".join(str(int(ink[k : k + 2], 16)) for k in (1, 3, 5))
    assert f"rgb({rgb})" in (module._STATIC / "live_figure.css").read_text()


def test_one_frame_is_one_message(figure):
    first, second = LiveFigure(figure), LiveFigure(figure)
    sent = []
    first._bundle.observe(lambda change: sent.append(change["new"]), "frame")
    with module.single_redraw():
        for live in (first, second):
            with live.batch_update():
                live.data[0].y = np.full(3, 7.0)
                live.layout.meta = {"alt": "all alike"}
        assert not sent
    assert [set(frame) for frame in sent] == [{first._key, second._key}]
    assert sent[0][second._key]["alt"] == second.alt == "all alike"
    assert not first._py2js_update
    first.data[0].y = np.zeros(3)
    assert len(sent) == 1


def test_a_figure_that_changes_twice_in_a_frame_is_told_in_that_order(figure):
    """The second change may build on the first: it must not overtake it on its way to the browser."""
    live, sent = LiveFigure(figure), []
    live._bundle.observe(lambda change: sent.append(change["new"]), "frame")
    with module.single_redraw():
        for height in (7.0, 8.0):
            with live.batch_update():
                live.data[0].y = np.full(3, height)
    assert [frame[live._key]["style_data"]["y"][0][0] for frame in sent] == [7.0, 8.0]
    assert not live._py2js_update


def test_one_frame_without_the_bundle_sends_each_figure(figure, monkeypatch):
    monkeypatch.setattr(module, "_missing", ("something",))
    live = LiveFigure(figure)
    with module.single_redraw(), live.batch_update():
        live.data[0].y = np.full(3, 7.0)
    assert live._py2js_update["style_data"]["y"][0].tolist() == [7.0, 7.0, 7.0]


def test_page_loaded_anew_gets_the_figure_as_it_is(figure):
    live = LiveFigure(figure)
    with live.batch_update():
        live.data[0].y = np.full(3, 7.0)
        live.layout.title.text = "now"
    state = live.get_state()
    assert state["_widget_layout"]["title"]["text"] == "now"
    assert list(np.frombuffer(state["_widget_data"][0]["y"]["buffer"])) == [7.0, 7.0, 7.0]


@pytest.fixture
def messages(monkeypatch):
    """What is sent to the page from here on, opened models included."""
    sent = []
    opening, sending = ipywidgets.Widget.open, ipywidgets.Widget._send

    def opened(widget):
        if widget.comm is None:
            sent.append((widget, "open", widget.get_state()))
        opening(widget)

    def told(widget, message, buffers=None):
        if widget.comm is not None:
            sent.append((widget, "update", message.get("state") or message.get("content", {})))
        sending(widget, message, buffers)

    monkeypatch.setattr(ipywidgets.Widget, "open", opened)
    monkeypatch.setattr(ipywidgets.Widget, "_send", told)
    return sent


def test_the_page_hears_of_a_figure_once_it_is_complete_and_then_only_through_the_bundle(figure, messages):
    """A page that was slow to begin takes no message of the figure's own model any more: none may be needed."""
    live = LiveFigure(figure)
    with live.batch_update():
        live.data[0].y = np.full(3, 7.0)
        live.layout.meta = {"alt": "later"}
    (how, state), *later = [(how, state) for widget, how, state in messages if widget is live]
    assert how == "open" and not later
    assert state["_widget_layout"]["meta"] == {"alt": "three points"} == {"alt": state["alt"]}
    assert len(state["_widget_data"]) == 1 and "lp-fig" in state["_dom_classes"]
    (sent,) = [state for widget, how, state in messages if widget is live._bundle and how == "update"]
    change = sent["frame"][live._key]
    assert change["alt"] == live.alt == "later" and change["style_data"].keys() == {"y"}
    assert sent["places"] == [[live._key, "style_data", "y", 0, "buffer"]], "where the page puts the array"
    assert "frame" not in live._bundle.get_state(), "a page that is loaded anew, or saved, gets no old frame"


def test_frames_of_several_threads_are_all_sent(figure, messages):
    lives = [LiveFigure(figure) for _ in range(4)]

    def change(live):
        for height in range(25):
            with live.batch_update():
                live.data[0].y = np.full(3, float(height))

    threads = [threading.Thread(target=change, args=(live,)) for live in lives]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    frames = [state["frame"] for widget, how, state in messages if how == "update" and "frame" in state]
    assert sorted(key for frame in frames for key in frame) == sorted(
        live._key for live in lives for _ in range(24 + 1)
    )


def test_a_page_that_begins_late_is_told_what_changed_before(figure):
    """Frames sent while a page loads plotly find no figure there; the first one may be the only one with an axis."""
    live, sent = LiveFigure(figure), []
    live._bundle.observe(lambda change: sent.append(change["new"]), "frame")
    live._handle_custom_msg({"begun": True}, [])
    assert sent == [], "nothing has changed"
    with live.batch_update():
        live.data[0].y = np.full(3, 7.0)
        live.layout.yaxis.range = [0, 9]
        live.layout.yaxis.title.text = "size"
        live.layout.meta = {"alt": "higher"}
    live._handle_custom_msg({"begun": True}, [])
    _, again = (frame[live._key] for frame in sent)
    assert again["style_data"]["y"][0].tolist() == [7.0, 7.0, 7.0] and again["style_traces"] == [0]
    assert list(again["layout_data"]["yaxis"]["range"]) == [0, 9] and again["alt"] == "higher"
    assert again["layout_data"]["yaxis"]["title"] == {"text": "size"}


def test_a_page_that_begins_late_gets_a_title_that_was_covered_before(monkeypatch):
    live, sent = LiveFigure(figures.error_curve("e4m3fn", octaves=(-12, 10))), []
    live.cover_title("What is shown")
    monkeypatch.setattr(live, "_send", lambda message, buffers=None: sent.append(message))
    live._handle_custom_msg({"begun": True}, [])
    assert [message["state"]["_heading"]["title"] for message in sent] == ["What is shown"]


def test_titles_of_the_page_are_not_in_the_plot():
    """Neither in what a page gets at first, nor in a later change, nor once more; a picture has them."""
    parts = [figures.error_curve(name, octaves=(-12, 10)) for name in ("e4m3fn", "e5m2")]
    both, other = figures.stacked(parts[:1], parts[1:]), figures.stacked(parts[1:], parts[:1])
    live, alone = LiveFigure(both), LiveFigure(parts[0])
    assert live.get_state()["_widget_data"][-1]["visible"] is False and both.data[-1].visible
    assert [panel["title"] for panel in live._heading["panels"]] == [part.layout.meta["title"] for part in parts]
    for _ in range(2):
        layout = alone.get_state()["_widget_layout"]
        assert layout["title"]["text"] == "" and alone.layout.title.text
    figures.update(live, other)
    change = live._bundle.frame[live._key]
    assert len(live.data) - 1 not in change["style_traces"]
    assert all(len(values) == len(change["style_traces"]) for values in change["style_data"].values())
    assert [panel["title"] for panel in change["heading"]["panels"]] == [
        part.layout.meta["title"] for part in parts[::-1]
    ]
    assert live.data[-1].text[0] == other.data[-1].text[0]
