"""A Plotly figure for notebooks: small messages, responsive width, JupyterLab's light and dark theme.

Plotly's own `FigureWidget` sends its 5 MB of JavaScript with every figure, is always 700 pixels wide and stays white in
a dark notebook. `LiveFigure` sends that code once per kernel, gzipped, in a widget that all figures share; follows the
width of its container; takes ink and grid from JupyterLab's theme; and hands its alt text to screen readers.

It depends on a few internals of plotly, listed in :mod:`lplab.widgets.live.plotly_internals`. Where one is missing it
is a plain FigureWidget with the same behaviour but without responsive width and theme.
"""

import gzip
import re
import threading
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import deepcopy
from pathlib import Path
from typing import Any

import ipywidgets
import plotly
import plotly.graph_objects as go
import traitlets
from plotly.serializers import Undefined, custom_serializers

from lplab.figures.stacked import TITLES
from lplab.widgets.live import plotly_internals

_STATIC = Path(__file__).parents[1] / "static"

_ABOVE_PLOT, _LEGEND = 6, 40  # pixels of the upper margin that hold no title: a gap, and a legend where there is one


class _Bundle(ipywidgets.Widget):
    """The model, without a view, that all figures of a kernel share: JavaScript, plotly's and ours, and changes.

    Changes are sent through this model, because the figures' own models are anywidget's: one whose browser side took
    more than two seconds to start, on a busy machine, never receives a message again.
    """

    data = traitlets.Bytes(help="Plotly's JavaScript, gzipped.").tag(sync=True)
    parts = traitlets.Unicode((_STATIC / "figure_parts.js").read_text("utf-8")).tag(sync=True)
    frame = traitlets.Dict(help="The last changes that were sent.")

    def send_frame(self, frame: dict[str, Any]) -> None:
        """Send the changes of some figures, by key; from any thread.

        A message of its own, no part of the state: a page that is loaded anew gets the figures as they are, and a
        notebook whose widgets are saved has no places of arrays in a frame that another one has replaced.
        """
        buffers: dict[tuple[str | int, ...], memoryview] = {}
        content = _without_buffers(custom_serializers["to_json"](frame, None), (), buffers)
        with _sending:
            self.frame = frame
            self.send({"frame": content, "places": [list(place) for place in buffers]}, list(buffers.values()))


_sending = threading.RLock()


def _without_buffers(value: Any, place: tuple[str | int, ...], buffers: dict[tuple[str | int, ...], memoryview]) -> Any:
    """A message with None for each buffer in it; ``buffers`` receives them by their places."""
    if isinstance(value, memoryview):
        buffers[place] = value
        return None
    if isinstance(value, dict):
        return {name: _without_buffers(part, (*place, name), buffers) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without_buffers(part, (*place, k), buffers) for k, part in enumerate(value)]
    return value


_the_bundle: _Bundle | None = None


def _shared_bundle() -> _Bundle:
    """Return the bundle of this kernel; a closed one (`Widget.close_all()`) is replaced."""
    global _the_bundle
    if _the_bundle is None or _the_bundle.comm is None:
        _the_bundle = _Bundle(data=gzip.compress(plotly_internals.BUNDLE.read_bytes(), compresslevel=6))
    return _the_bundle


_missing: tuple[str, ...] | None = None


def _usable() -> bool:
    """Check plotly once per kernel; warn once of missing internals."""
    global _missing
    if _missing is None:
        _missing = plotly_internals.missing_internals()
        if _missing:
            lacks = f"this plotly ({plotly.__version__}) lacks {', '.join(_missing)}"
            warnings.warn(f"figures will be plain: {lacks}", stacklevel=3)
    return not _missing


_open_frame: ContextVar[dict[str, Any] | None] = ContextVar("open_frame", default=None)


@contextmanager
def single_redraw() -> Iterator[None]:
    """Redraw all live figures that change inside the block with one message and one frame in the browser.

    >>> first, second = LiveFigure(go.Figure(go.Scatter(y=[1]))), LiveFigure(go.Figure(go.Scatter(y=[1])))
    >>> with single_redraw():
    ...     first.data[0].y = [2]
    ...     with second.batch_update():
    ...         second.data[0].y = [3]
    >>> second._bundle.frame[second._key]["style_data"]
    {'y': [[3]]}
    """
    collected: dict[str, Any] = {}
    token = _open_frame.set(collected)
    try:
        yield
    finally:
        _open_frame.reset(token)
        if collected:
            _shared_bundle().send_frame(collected)


class LiveFigure(go.FigureWidget):
    """A figure in the notebook whose traces and layout can be changed in place.

    Takes the arguments of `plotly.graph_objects.FigureWidget`, usually one `Figure` from `lplab.figures`. Change it
    inside `with live.batch_update():` (or through `figures.update(live, figure)`), with numpy arrays, so that each
    change is drawn as one frame. The alt text is that of `layout.meta["alt"]`.

    >>> figure = go.Figure(go.Scatter(y=[1, 2]), layout={"meta": {"alt": "two points, going up"}})
    >>> live = LiveFigure(figure)
    >>> live.alt
    'two points, going up'
    >>> live.layout.meta = {"alt": "flat"}
    >>> live.alt
    'flat'
    """

    _esm = _STATIC / "live_figure.js"
    _css = _STATIC / "live_figure.css"
    _bundle = traitlets.Instance(ipywidgets.Widget, allow_none=True).tag(sync=True, **ipywidgets.widget_serialization)
    _plotly_version = traitlets.Unicode(plotly.__version__).tag(sync=True)
    # Plotly counts its messages in these two, for the reports that live_figure.js disables: they are not sent.
    _last_layout_edit_id = traitlets.Integer(0)
    _last_trace_edit_id = traitlets.Integer(0)
    _key = traitlets.Unicode().tag(sync=True)
    _complete = False
    _cover = ""  # words instead of the title
    _heading = traitlets.Dict(help="Title and subtitle, and the room above the plot; from layout.meta.").tag(sync=True)
    alt = traitlets.Unicode(help="What the figure shows, in words; kept equal to layout.meta['alt'].").tag(sync=True)

    def __init__(self, data: Any = None, layout: Any = None, **kwargs: Any) -> None:
        if not _usable():
            self._esm = go.FigureWidget._esm
        self._touched: set[tuple[int | None, str]] = set()  # changed parts: trace (None: layout), and name of the part
        super().__init__(data, layout, **kwargs)
        self.add_class("lp-fig")
        # live_figure.js lets the figure follow the width of its place, without changing its height
        self._config = {"responsive": not _usable(), "displaylogo": False, "displayModeBar": False}
        self.layout.on_change(self._read_meta, "meta")
        self._read_meta(self.layout, self.layout.meta)
        self._complete = True
        self.on_msg(self._catch_up)
        self.open()

    def open(self) -> None:
        """Send the figure to the page once it is complete; plotly sends an empty one first, then its contents."""
        if self._complete:
            super().open()

    @traitlets.default("_key")
    def _new_key(self) -> str:
        return uuid.uuid4().hex

    @traitlets.default("_bundle")
    def _find_bundle(self) -> _Bundle | None:
        return _shared_bundle() if _usable() else None

    def _send_update_msg(
        self, restyle_data: Any, relayout_data: Any, trace_indexes: Any = None, source_view_id: Any = None
    ) -> None:
        """Send the changes of a batch, alt text included, in one message; plotly's own method sends five."""
        self._last_trace_edit_id += 1  # makes each message differ from the one before, so that it counts as a change
        message = {
            "style_data": restyle_data,
            "layout_data": relayout_data,
            "style_traces": trace_indexes,
            "trace_edit_id": self._last_trace_edit_id,
            "layout_edit_id": self._last_layout_edit_id,
            "source_view_id": source_view_id,
        }
        self._touched |= {(None, _part(name)) for name in relayout_data}
        self._touched |= {(trace, _part(name)) for trace in trace_indexes or () for name in restyle_data}
        alt = alt_of(relayout_data["meta"]) if "meta" in relayout_data else self.alt
        if self._bundle is None:
            with self.hold_sync():
                self._py2js_update, self.alt = message, alt
            return
        if trace_indexes:
            restyle_data, trace_indexes = self._without_titles(restyle_data, list(trace_indexes))
            message |= {"style_data": restyle_data, "style_traces": trace_indexes}
        heading = self._heading_now()
        with self._lock_property(alt=alt, _heading=heading):  # they are sent with the frame
            self.alt, self._heading = alt, heading
        # plotly would lay out the whole figure again for words that it does not draw
        unseen = {"meta", "title"} if heading else {"meta"}
        message["layout_data"] = {name: value for name, value in relayout_data.items() if _part(name) not in unseen}
        frame, change = _open_frame.get(), message | {"alt": alt, "heading": heading}
        if frame is None:
            _shared_bundle().send_frame({self._key: change})
            return
        if self._key in frame:  # a second change: the first one must arrive before it
            _shared_bundle().send_frame(dict(frame))
            frame.clear()
        frame[self._key] = change

    def _catch_up(self, _widget: Any, content: Any, _buffers: Any) -> None:
        """The browser side has started: send it the earlier changes, which it cannot have received."""
        if content != {"begun": True}:
            return
        self.send_state("_heading")  # a title that was covered meanwhile
        touched = self._touched.copy()  # another thread may be drawing
        if not touched:
            return
        traces = sorted({trace for trace, _ in touched if trace is not None})
        restyle = {
            part: [deepcopy(self._data[k].get(part)) if (k, part) in touched else Undefined for k in traces]
            for part in sorted({part for trace, part in touched if trace is not None})
        }
        layout = {part: deepcopy(self._layout.get(part)) for trace, part in touched if trace is None}
        self._send_update_msg(restyle, layout, traces)

    def _without_titles(self, restyle: dict[str, Any], indexes: list[int]) -> tuple[dict[str, Any], list[int]]:
        """A change of traces without the one that holds the titles, which are text of the page."""
        kept = [place for place, k in enumerate(indexes) if self._data[k].get("name") != TITLES]
        if len(kept) == len(indexes):
            return restyle, indexes
        of_each = {name: [values[place] for place in kept] for name, values in restyle.items()}
        return of_each, [indexes[place] for place in kept]

    def get_state(self, key: Any = None, drop_defaults: bool = False) -> Any:
        """Send the current figure to a reloaded page, without titles that are text of the page.

        Plotly sends the original figure.
        """
        if key is None and self.comm is not None:
            self._trait_values |= {"_widget_data": deepcopy(self._data), "_widget_layout": deepcopy(self._layout)}
        state = super().get_state(key, drop_defaults)
        if self._bundle is not None and self._heading:
            if "_widget_layout" in state:
                state["_widget_layout"] = without_title(state["_widget_layout"])
            if "_widget_data" in state:
                state["_widget_data"] = [
                    trace | {"visible": False} if trace.get("name") == TITLES else trace
                    for trace in state["_widget_data"]
                ]
        return state

    def _read_meta(self, _layout: Any, meta: Any) -> None:
        self.alt, self._heading = alt_of(meta), self._heading_now()

    def cover_title(self, words: str) -> None:
        """Show these words instead of the title, which may answer a question; "" shows the title again.

        >>> live = LiveFigure(layout={"title": {"text": "It falls"}, "meta": {"title": "It falls"}})
        >>> live.cover_title("The loss")
        >>> live._heading["title"], live.layout.meta["title"]
        ('The loss', 'It falls')
        """
        self._cover = words
        self._heading = self._heading_now()

    def _heading_now(self) -> dict[str, Any]:
        heading = heading_of(self._layout)
        if not self._cover or not heading:
            return heading
        title = {"title": self._cover}
        return heading | ({"panels": [each | title for each in heading["panels"]]} if "panels" in heading else title)


def _part(name: str) -> str:
    """The part of a trace or a layout that a dotted name is in.

    >>> _part("yaxis2.range[1]"), _part("y")
    ('yaxis2', 'y')
    """
    return re.split(r"[.\[]", name, maxsplit=1)[0]


def without_title(layout: dict[str, Any]) -> dict[str, Any]:
    """A layout without the words of its title; the title keeps its place.

    >>> without_title({"title": {"text": "It falls", "y": 0.9}, "height": 300})
    {'title': {'text': '', 'y': 0.9}, 'height': 300}
    """
    return layout | {"title": layout.get("title", {}) | {"text": ""}}


def heading_of(layout: dict[str, Any]) -> dict[str, Any]:
    """What stands above the plot of a figure in the house style, or {} where plotly draws the title.

    Args:
        layout: plotly's dictionary of the layout.

    Returns:
        ``left``, where the plot begins, in pixels, and ``title`` and ``subtitle`` in plotly's small HTML with
        ``room``, the height that is left for them above the plot, in pixels. Of stacked figures instead of these
        ``panels``, which have them each, ``top``, where it begins, and ``axes``, the y axes that move down where title
        and subtitle need more room.

    >>> title = {"text": "It falls"}
    >>> heading_of({"title": title, "meta": {"title": "It falls", "subtitle": ""}, "margin": {"l": 64, "t": 48}})
    {'title': 'It falls', 'subtitle': '', 'left': 64, 'room': 42}
    >>> heading_of({"title": title})
    {}
    """
    meta, margin = layout.get("meta"), layout.get("margin", {})
    if isinstance(meta, dict) and meta.get("panels"):
        panels = [panel | {"room": panel["room"] - _ABOVE_PLOT} for panel in meta["panels"]]
        return {"panels": panels, "left": margin.get("l", 80)}
    if not (isinstance(meta, dict) and meta.get("title") and layout.get("title", {}).get("text")):
        return {}
    room = margin.get("t", 100) - _ABOVE_PLOT - (_LEGEND if layout.get("showlegend") else 0)
    return {
        "title": str(meta["title"]),
        "subtitle": str(meta.get("subtitle", "")),
        "left": margin.get("l", 80),
        "room": room,
    }


def alt_of(meta: Any) -> str:
    """Return the alt text in a layout's meta, or "".

    >>> alt_of({"alt": "a line"}), alt_of(None)
    ('a line', '')
    """
    return str(meta.get("alt", "")) if isinstance(meta, dict) else ""
