"""A veil: what answers a question stays hidden until somebody has guessed, or wants to see it without a guess."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets
import plotly.graph_objects as go
import traitlets

from .controls import ControlGroup, line, set_text, show_errors
from .live.live_figure import LiveFigure


class Veil(ipywidgets.VBox):
    """Something that is shown only when the veil is lifted: after a guess, or on request.

    Args:
        content: a widget, a Plotly figure, an object that notebooks show as HTML (``_repr_html_``), or a function
            without arguments that returns one of these; it is called when the veil is lifted, so it may be slow.
        question: what is asked; the veil names it.
        on_request: called when the button is pressed. By default it lifts this veil.

    Raises:
        TypeError: content that cannot be shown.

    >>> veil = Veil(lambda: line("55 codes"), "How many codes lie between 0 and 1?")
    >>> veil.is_lifted, len(veil.children)
    (False, 4)
    >>> veil.lift()
    >>> veil.is_lifted, veil.children[0].value
    (True, '55 codes')
    """

    is_lifted = traitlets.Bool(False, help="Whether the content is shown.")

    def __init__(self, content: Any, question: str, on_request: Callable[[], Any] | None = None) -> None:
        if not callable(content):
            content = shown(content)
        self._content = content
        self.message = line(f"Guess first: {question}", "lp-live")
        self.button = ipywidgets.Button(
            description="Show it without a guess", tooltip="shows everything that waits for this guess"
        )
        self.button.layout.width = "auto"
        self.error_line = line("", "lp-error", "lp-live")
        set_text(self.error_line, "")
        super().__init__([self.message, self.button, self.error_line, ControlGroup()])
        self.add_class("lp-controls")
        self.add_class("lp-veil")
        self.button.on_click(show_errors(self.error_line, lambda _: (on_request or self.lift)()))

    def lift(self) -> None:
        """Show the content; a second time changes nothing."""
        if self.is_lifted:
            return
        self.button.disabled = True
        set_text(self.message, "One moment, this is being computed.")
        try:
            content = shown(self._content()) if callable(self._content) else self._content
        except Exception as error:
            set_text(self.message, "This could not be shown. Press the button to try again.")
            set_text(self.error_line, f"{type(error).__name__}: {error}")
            self.button.disabled = False
            raise
        self.children = [content]
        self.remove_class("lp-veil")
        self.add_class("lp-lifted")
        self.is_lifted = True


def shown(content: Any) -> ipywidgets.Widget:
    """The widget that shows an object.

    >>> shown(go.Figure()).__class__.__name__
    'LiveFigure'
    >>> shown(3)
    Traceback (most recent call last):
    ...
    TypeError: a widget, a figure, a table or a function that makes one is needed, got int
    """
    if isinstance(content, ipywidgets.Widget):
        return content
    if isinstance(content, go.Figure):
        return LiveFigure(content)
    if hasattr(content, "_repr_html_"):
        return ipywidgets.HTML(content._repr_html_())
    kind = type(content).__name__
    raise TypeError(f"a widget, a figure, a table or a function that makes one is needed, got {kind}")
