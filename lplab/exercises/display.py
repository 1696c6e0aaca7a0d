"""A verdict in a notebook: the message, the number line with the counterexample, hints and solution as buttons."""

from __future__ import annotations

import html
import math
import re
from typing import Any

import ipywidgets

from lplab import figures, widgets
from lplab.exercises import notebook, progress
from lplab.exercises.checks.verdict import Verdict
from lplab.exercises.model import exercise_catalogue
from lplab.exercises.model.exercise import Exercise
from lplab.widgets.controls import ControlGroup, display_as_data, line, set_text, show_errors

SIGNS = {"passed": "✓", "failed": "✗", "not yet": "…"}


def show(verdict: Verdict) -> None:
    """Display a verdict: a widget where there is a front end, the plain text anywhere else."""
    display_as_data(CheckView(verdict), verdict.text)


class CheckView(ipywidgets.VBox):
    """What a check says: message, figure where one helps, and the next hint or a solution at the press of a button.

    >>> from lplab.exercises import check
    >>> CheckView(check("00.1", lambda low, high: (low + high) / 2)).message.value[:60]
    '<div role="status"><p><b><span aria-hidden="true">✓</span> E'
    """

    def __init__(self, verdict: Verdict) -> None:
        self.exercise = exercise_catalogue.get(verdict.exercise)
        self.message = ipywidgets.HTML(message_html(verdict))
        self.figure = number_line_figure(self.exercise, verdict)
        self.opened = ipywidgets.HTML("")
        self.error_line = line("", "lp-error", "lp-live")
        set_text(self.error_line, "")
        figure = [self.figure] if self.figure is not None else []
        row = ipywidgets.HBox(self._buttons(verdict.passed))
        row.add_class("lp-row")
        super().__init__([self.message, *figure, row, self.opened, self.error_line, ControlGroup()])
        for name in ("lp-controls", "lp-check", f"lp-check-{verdict.status.replace(' ', '-')}"):
            self.add_class(name)

    def _buttons(self, passed: bool) -> list[ipywidgets.Button]:
        count = len(self.exercise.hints)
        self.hint_button = ipywidgets.Button(description=f"Hint 1 of {count}", tooltip="shows the next hint")
        self.solution_button = ipywidgets.Button(description="Solution", tooltip="shows a solution")
        self.hints: list[str] = []
        self.is_asked = False
        self.hint_button.on_click(show_errors(self.error_line, lambda _: self.open_hint()))
        self.solution_button.on_click(show_errors(self.error_line, lambda _: self.show_solution()))
        return [self.solution_button] if passed else [self.hint_button, self.solution_button]

    def open_hint(self) -> None:
        """Show one hint more."""
        count = len(self.exercise.hints)
        self.hints.append(notebook.next_hint(self.exercise.id, len(self.hints)))
        self._open(*self.hints)
        self.hint_button.disabled = len(self.hints) == count
        self.hint_button.description = f"Hint {min(len(self.hints) + 1, count)} of {count}"

    def show_solution(self) -> None:
        """Show a solution in place of the hints; before the exercise is passed, the first press only asks."""
        if not (self.is_asked or progress.has_passed(self.exercise.id)):
            self.is_asked = True
            self.solution_button.description = "Show it anyway"
            way = "To see a solution all the same, press the button again."
            self._open(*self.hints, f"Exercise {self.exercise.id} is not passed yet. {way}")
            return
        source = str(notebook.solution(self.exercise.id, anyway=True))
        self.opened.value = f"<pre>{html.escape(source)}</pre>"

    def _open(self, *paragraphs: str) -> None:
        """Show paragraphs below the buttons; screen readers announce them."""
        self.opened.value = '<div role="status">' + "".join(map(paragraph_html, paragraphs)) + "</div>"


def message_html(verdict: Verdict) -> str:
    """The message as HTML: announced by screen readers, with a sign beside the colour."""
    first, *others = verdict.lines
    sign = f'<span aria-hidden="true">{SIGNS[verdict.status]}</span>'
    return f'<div role="status"><p><b>{sign} {code_html(first)}</b></p>{"".join(map(paragraph_html, others))}</div>'


def paragraph_html(text: str) -> str:
    """One line of plain text as HTML."""
    return f"<p>{code_html(text)}</p>"


def code_html(text: str) -> str:
    """Plain text as HTML, parts between backticks as code.

    >>> code_html("`x < 1` is not 1 > x")
    '<code>x &lt; 1</code> is not 1 &gt; x'
    """
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


def number_line_figure(exercise: Exercise, verdict: Verdict) -> Any:
    """The number line with the counterexample, or None for exercises without one."""
    wrong = verdict.counterexample
    if wrong is None or exercise.number_line_format is None or not isinstance(wrong.expected, int | float):
        return None
    x = float(wrong.args[0]) if isinstance(wrong.args[0], int | float) else math.nan
    if math.isnan(x):
        return None
    fmt = exercise.number_line_format(wrong.args)
    return widgets.LiveFigure(figures.counterexample(fmt, x, float(wrong.yours), float(wrong.expected)))
