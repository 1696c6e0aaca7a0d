"""What every group of controls shares: keyboard focus, a visible line for errors, text on the clipboard."""

import functools
import html
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets
import traitlets
from IPython.display import display

_STATIC = Path(__file__).parent / "static"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def script(name: str) -> str:
    """The browser's part of a widget, with the functions that let it hear Python at all times and keep its keys.

    >>> "function keepHearing(model)" in script("controls.js")
    True
    """
    parts = ("keep_hearing.js", "keep_keys.js", name)
    return "\n".join((_STATIC / part).read_text(encoding="utf-8") for part in parts)


class ControlGroup(anywidget.AnyWidget):
    """The browser side of a group of controls: an invisible widget inside a box of CSS class ``lp-controls``.

    It keeps plain keys pressed in the group from Jupyter's shortcuts and lets the others through, loads the group's
    style sheet, copies text, and lets sliders say their values.

    >>> group = ControlGroup()
    >>> group.copy("F.get('e4m3fn')")
    >>> group.clipboard["text"]
    "F.get('e4m3fn')"
    """

    _esm = script("controls.js")
    _css = _STATIC / "controls.css"
    clipboard = traitlets.Dict(help="What to copy: text, and a count so that the same text can be copied twice.").tag(
        sync=True
    )
    units = traitlets.Dict(help="Labels of sliders, and what a screen reader says behind their values.").tag(sync=True)
    copied = traitlets.Dict(help="The result of the last copy: count, and done.").tag(sync=True)

    def copy(self, text: str) -> None:
        """Put text on the browser's clipboard."""
        self.clipboard = {"text": text, "count": self.clipboard.get("count", 0) + 1}


def display_as_data(widget: ipywidgets.Widget, text: str) -> None:
    """Show a widget as display data, in every version of ipywidgets; ``text`` is shown where there is no front end.

    >>> display_as_data(line("a line"), "a line")
    {...'text/plain': 'a line'}
    """
    view = {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}
    display({WIDGET_VIEW: view, "text/plain": text}, raw=True)


def line(text: str = "", *classes: str) -> ipywidgets.HTML:
    """Return one line of text; further CSS classes: ``lp-quiet``, ``lp-error``, ``lp-code``, ``lp-heading``."""
    widget = ipywidgets.HTML(html.escape(text))
    for name in ("lp-line", *classes):
        widget.add_class(name)
    return widget


def set_text(widget: ipywidgets.HTML, *texts: str) -> None:
    """Set the text of a line, or of several lines. HTML in it is escaped; an empty line is hidden."""
    widget.value = "<br>".join(html.escape(text) for text in texts)
    widget.layout.display = None if any(texts) else "none"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows of text as an HTML table: names at the left, the other columns right-aligned under their heads.

    HTML in the rows is escaped.

    >>> table(("", "bits"), [("e4m3", "8")]).count("<td")
    1
    """
    style = "style='text-align:right;padding-left:8px;white-space:nowrap'"
    head = "".join(f"<th scope='col' {style}>{text}</th>" for text in heads)
    body = "".join(
        "<tr><th scope='row' style='text-align:left;font-weight:400'>"
        f"{html.escape(name).replace('-', '&#8209;')}</th>"  # "1-5-2" stays in one line
        + "".join(f"<td {style}>{html.escape(text)}</td>" for text in texts)
        + "</tr>"
        for name, *texts in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def show_errors(error_line: ipywidgets.HTML, function: Callable[..., Any]) -> Callable[..., None]:
    """Wrap a callback so that an exception is shown in the line, and raised again for the log and for tests.

    JupyterLab does not show exceptions of widget callbacks on the page.

    >>> failed = line()
    >>> show_errors(failed, lambda change: 1 / 0)({"new": 1})
    Traceback (most recent call last):
    ...
    ZeroDivisionError: division by zero
    >>> failed.value
    'ZeroDivisionError: division by zero'
    """

    @functools.wraps(function)
    def callback(*arguments: Any) -> None:
        try:
            function(*arguments)
        except Exception as error:
            set_text(error_line, f"{type(error).__name__}: {error}")
            raise
        set_text(error_line, "")

    return callback
