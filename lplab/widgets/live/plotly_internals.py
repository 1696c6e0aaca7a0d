"""What lplab uses of plotly that plotly does not promise: its JavaScript for widgets, and private names of its widget.

`LiveFigure` sends plotly's JavaScript once per kernel and replaces some methods of it, which no public function does. A
new version of plotly may move or rename any of this. Then `missing_internals` names what is gone and figures are plain
widgets of plotly; the test of this module says what to do.
"""

import re
from pathlib import Path

import anywidget
import plotly
from plotly.basewidget import BaseFigureWidget

BUNDLE = Path(plotly.__file__).parent / "package_data" / "widgetbundle.js"
"""The JavaScript of `FigureWidget`, some 5 MB."""
VIEW_METHODS = ("_sendTraceDeltas(", "_sendLayoutDelta(", "perform_render(", "do_update(", "remove(")
"""Methods of plotly's view that live_figure.js disables or replaces."""
WIDGET_ATTRIBUTES = ("_send_update_msg", "_py2js_update", "_py2js_restyle", "_widget_data", "_widget_layout")
"""What live_figure.py and live_figure.js override, read or set of the Python side."""


def missing_internals() -> tuple[str, ...]:
    """Return the names of the plotly internals that `LiveFigure` needs and that this plotly lacks.

    >>> missing_internals()
    ()
    """
    source = BUNDLE.read_text(encoding="utf-8") if BUNDLE.is_file() else ""
    # the default export makes an object with initialize() and render(): anywidget's own contract
    tail = source[-100_000:]
    exported = re.findall(r"([\w$]+)\s+as\s+default\b", tail)[-1:]
    methods = r"\s*=\s*\(\)\s*=>\s*{.{0,80}?initialize\(.{0,200}?render\("
    factory = exported and re.search(rf"[ ,;]{re.escape(exported[0])}{methods}", tail)
    found_by_name = {
        "package_data/widgetbundle.js": bool(source),
        "widgetbundle.js: default export is a factory": bool(factory),
        "FigureView": all(name in tail for name in VIEW_METHODS) and "as FigureView" in tail,
        "BaseFigureWidget._config": BaseFigureWidget.class_traits().get("_config") is not None,
        "BaseFigureWidget is an AnyWidget": issubclass(BaseFigureWidget, anywidget.AnyWidget),
        **{f"BaseFigureWidget.{name}": hasattr(BaseFigureWidget, name) for name in WIDGET_ATTRIBUTES},
    }
    return tuple(name for name, found in found_by_name.items() if not found)
