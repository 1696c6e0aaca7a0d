"""An explorer on one screen: a few controls and one figure; all others wait behind two buttons."""

from __future__ import annotations

from collections.abc import Sequence

import ipywidgets

from .controls import line
from .explorer_base import Explorer

FOLDED, OPEN, LATER = "lp-folded", "lp-open", "lp-later"  # classes of the style sheet


class OneScreen:
    """Shows some controls and one figure of an explorer, and lets its titles wait.

    The explorer is taken apart: each panel is a figure of its own. What is behind a button opens below the button.

    Args:
        explorer: it is changed in place.
        below: a widget that stands below the controls, and on a narrow page below the figure.

    >>> from lplab.widgets import RangeExplorer
    >>> screen = OneScreen(RangeExplorer(), line(""))
    >>> screen.show(["step"], "map")
    >>> [control.description for control in screen.shown.children], "lp-folded" in screen.more._dom_classes
    (['step'], True)
    """

    def __init__(self, explorer: Explorer, below: ipywidgets.Widget) -> None:
        explorer.take_apart()
        self.explorer = explorer
        self.controls_button = ipywidgets.Button(description="More controls", tooltip="all other controls")
        name = "More figures" if len(explorer.figures) > 1 else "In words"
        self.figures_button = ipywidgets.Button(description=name, tooltip="what else this position shows")
        self.shown, self.more = ipywidgets.VBox(), ipywidgets.VBox()
        side, main = explorer._columns.children
        others = [each for each in main.children if each not in explorer.figures.values() and each != explorer.summary]
        self.words = ipywidgets.VBox([explorer.summary, *others])
        side.children = [self.shown, below, self.controls_button, self.more]
        self.frames = {name: ipywidgets.VBox([figure]) for name, figure in explorer.figures.items()}
        main.children = [*self.frames.values(), self.figures_button, self.words]
        explorer.children = [each for each in explorer.children if each != explorer.summary]
        self.shown.add_class("lp-guided-controls")
        below.add_class("lp-below")
        for box, css in ((explorer._columns, "lp-one-screen"), (self.words, LATER), (self.more, FOLDED)):
            box.add_class(css)
        for button in (self.controls_button, self.figures_button):
            button.add_class("lp-disclosure")
        self.controls_button.on_click(lambda _: self._turn(self.controls_button))
        self.figures_button.on_click(lambda _: self._turn(self.figures_button))
        self._figure, self._is_covered = "", False

    def show(self, controls: Sequence[str], figure: str) -> None:
        """Show these controls, by their names in ``side`` of the explorer, and this one of its ``figures``.

        Raises:
            ValueError: the explorer has no such control or figure.
        """
        side, parts = self.explorer.side, self.explorer.parts
        all_controls = [name for names in side.values() for name in names]
        for kind, wanted, offered in (("control", controls, all_controls), ("figure", [figure], list(self.frames))):
            for missing in (name for name in wanted if name not in offered):
                raise ValueError(f"no {kind} {missing!r}; there are: {', '.join(offered)}")
        self._figure = figure
        self.shown.children = [widget for name in controls for widget in parts[name]]
        more: list[ipywidgets.Widget] = []
        for heading, names in side.items():
            rest = [widget for name in names if name not in controls for widget in parts[name]]
            more += [line(heading, "lp-heading"), *rest] if heading and rest else rest
        self.more.children = [*more, self.explorer.buttons, self.explorer.code_line]
        self._update()

    def cover(self, is_covered: bool) -> None:
        """Hide what says the point of a figure, its title and the sentence, or show it."""
        self._is_covered = is_covered
        for name, figure in self.explorer.figures.items():
            figure.cover_title(self.explorer.figure_names[name] if is_covered else "")
        self._update()

    def _turn(self, button: ipywidgets.Button) -> None:
        """Open or close what is behind a button."""
        _mark(button, OPEN, OPEN not in button._dom_classes)
        self._update()

    def _update(self) -> None:
        _mark(self.more, FOLDED, OPEN not in self.controls_button._dom_classes)
        is_open = OPEN in self.figures_button._dom_classes
        for name, frame in self.frames.items():  # a figure does not hear of new classes
            _mark(frame, LATER, name != self._figure)
            _mark(frame, FOLDED, name != self._figure and not is_open)
        _mark(self.words, FOLDED, self._is_covered or not is_open)


def _mark(widget: ipywidgets.DOMWidget, css: str, is_on: bool) -> None:
    (widget.add_class if is_on else widget.remove_class)(css)
