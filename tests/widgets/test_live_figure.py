"""LiveFigure without a browser: what is sent, what plotly must have, what happens where it lacks it."""

import gzip
import importlib

import ipywidgets
import numpy as np
import plotly.graph_objects as go
import pytest

from lplab.widgets import LiveFigure
from lplab.widgets import live_figure as module


@pytest.fixture
def figure():
    return go.Figure(go.Scatter(y=np.arange(3.0)), layout={"meta": {"alt": "three points"}})


@pytest.mark.parametrize(
    "internal",
    [
        "package_data/widgetbundle.js",
        "widgetbundle.js: default export is a factory",
        "gd._responsiveChartHandler",
        "FigureView reports defaults",
        "BaseFigureWidget._config",
        "BaseFigureWidget is an AnyWidget",
    ],
)
def test_plotly_still_has(internal):
    assert internal not in module.missing_internals()


def test_missing_bundle_is_noticed(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "_BUNDLE_PATH", tmp_path / "gone.js")
    assert "package_data/widgetbundle.js" in module.missing_internals()
    (tmp_path / "gone.js").write_text("export {f as default}")
    assert "widgetbundle.js: default export is a factory" in module.missing_internals()


def test_five_megabytes_are_sent_once(figure):
    first, second = LiveFigure(figure), LiveFigure(figure)
    assert first._bundle is second._bundle
    assert len(first.get_state()["_esm"]) < 10_000
    assert gzip.decompress(first._bundle.data) == module._BUNDLE_PATH.read_bytes()
    assert len(first._bundle.data) < 2_000_000


def test_closed_bundle_is_made_again(figure):
    LiveFigure(figure)._bundle.close()
    assert LiveFigure(figure)._bundle.comm is not None


def test_fallback_is_a_plain_figure_widget_that_works(figure, monkeypatch):
    monkeypatch.setattr(module, "_missing", None)
    monkeypatch.setattr(module, "missing_internals", lambda: ("gd._responsiveChartHandler",))
    with pytest.warns(UserWarning, match="lacks gd._responsiveChartHandler"):
        live = LiveFigure(figure)
    state = live.get_state()
    assert state["_bundle"] is None
    assert state["_esm"] == str(go.FigureWidget._esm)
    with live.batch_update():
        live.data[0].y = np.zeros(3)
    assert live.alt == "three points"


def test_config_and_class(figure):
    live = LiveFigure(figure)
    assert live._config["responsive"]
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
