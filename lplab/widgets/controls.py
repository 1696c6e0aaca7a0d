"""What every group of controls shares: keys that reach it, a visible place for errors, text on the clipboard."""

import functools
import html
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets
import traitlets

_STATIC = Path(__file__).parent / "static"


class Helper(anywidget.AnyWidget):
    """An invisible member of a group of controls (a box of CSS class ``lp-controls``): it keeps the group's keys from
    JupyterLab, brings the group's style, and copies text.

    >>> helper = Helper()
    >>> helper.copy("F.get('e4m3fn')")
    >>> helper.clipboard["text"]
    "F.get('e4m3fn')"
    """  # noqa: D205

    _esm = _STATIC / "controls.js"
    _css = _STATIC / "controls.css"
    clipboard = traitlets.Dict(help="What to copy: text, and a count so that the same text can be copied twice.").tag(
        sync=True
    )
    copied = traitlets.Dict(help="What came of it: count, and done.").tag(sync=True)

    def copy(self, text: str) -> None:
        """Put text on the clipboard of whoever looks at the widget."""
        self.clipboard = {"text": text, "count": self.clipboard.get("count", 0) + 1}


def line(text: str = "", *classes: str) -> ipywidgets.HTML:
    """Return one line of text; further CSS classes: ``lp-quiet``, ``lp-error``, ``lp-code``, ``lp-heading``."""
    widget = ipywidgets.HTML(html.escape(text))
    for name in ("lp-line", *classes):
        widget.add_class(name)
    return widget


def say(widget: ipywidgets.HTML, *texts: str) -> None:
    """Set the text of a line, or of several; what looks like HTML in it stays text. An empty line takes no room."""
    widget.value = "<br>".join(html.escape(text) for text in texts)
    widget.layout.display = None if any(texts) else "none"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows of text as an HTML table: names at the left, the rest right-aligned under its heads.

    What looks like HTML in the rows stays text.

    >>> table(("", "bits"), [("e4m3", "8")]).count("<td")
    1
    """
    look = "style='text-align:right;padding-left:8px'"
    head = "".join(f"<th scope='col' {look}>{text}</th>" for text in heads)
    body = "".join(
        f"<tr><th scope='row' style='text-align:left;font-weight:400'>{html.escape(name)}</th>"
        + "".join(f"<td {look}>{html.escape(text)}</td>" for text in texts)
        + "</tr>"
        for name, *texts in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def guarded(error_line: ipywidgets.HTML, function: Callable[..., Any]) -> Callable[..., None]:
    """Wrap a callback so that whatever it raises is seen: in the line, and raised again for the log and for tests.

    JupyterLab shows an exception in a widget callback nowhere in the page.

    >>> failed = line()
    >>> guarded(failed, lambda change: 1 / 0)({"new": 1})
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
            say(error_line, f"{type(error).__name__}: {error}")
            raise
        say(error_line, "")

    return callback
