"""A verdict in a notebook: the message, the number line with the counterexample, hints and solution as buttons."""

from __future__ import annotations

import html
from typing import Any

import ipywidgets
from IPython.display import display

from lplab import figures, widgets

from . import catalogue, notebook
from .verdict import FAILED, PASSED, Verdict

LOOKS = {PASSED: ("lp-check-passed", "✓"), FAILED: ("lp-check-failed", "✗")}


def show(verdict: Verdict) -> None:
    """Display a verdict: a widget where there is a front end, the plain text anywhere else."""
    box = view(verdict)
    bundle = box._repr_mimebundle_()
    display({**bundle, "text/plain": verdict.text}, raw=True)


def view(verdict: Verdict) -> ipywidgets.VBox:
    """The widget: message, figure where one helps, and the buttons."""
    parts: list[Any] = [ipywidgets.HTML(message(verdict))]
    picture = counterexample(verdict)
    if picture is not None:
        parts.append(widgets.LiveFigure(picture))
    box = ipywidgets.VBox([*parts, *_buttons(verdict)])
    box.add_class("lp-check")
    return box


def message(verdict: Verdict) -> str:
    """The message as HTML: announced by screen readers, with a sign beside the colour."""
    look, sign = LOOKS.get(verdict.status, ("lp-check-waiting", "…"))
    first, *others = (html.escape(line) for line in verdict.lines)
    paragraphs = "".join(f"<p>{line}</p>" for line in others)
    headline = f'<p><b><span aria-hidden="true">{sign}</span> {first}</b></p>'
    return f'<div class="lp-verdict {look}" role="status">{headline}{paragraphs}</div>'


def counterexample(verdict: Verdict) -> Any:
    """The number line with the miss on it, or None where a line says nothing."""
    exercise = catalogue.get(verdict.exercise)
    miss = verdict.miss
    if miss is None or exercise.line is None or not isinstance(miss.expected, float):
        return None
    x, fmt = float(miss.args[0]), exercise.line(miss.args)
    return None if x != x else figures.counterexample(fmt, x, float(miss.yours), miss.expected)


def _buttons(verdict: Verdict) -> list[Any]:
    """Hint by hint, then the solution; each is shown below the buttons and recorded as opened."""
    exercise = catalogue.get(verdict.exercise)
    hint = ipywidgets.Button(description=f"Hint ({len(exercise.hints)} in all)", tooltip="shows the next hint")
    solution = ipywidgets.Button(description="Solution", tooltip="shows a solution")
    text = ipywidgets.HTML("")
    shown: list[str] = []

    def more(_: Any) -> None:
        shown.append(notebook.next_hint(verdict.exercise, len(shown)))
        text.value = (
            '<div class="lp-hints" role="status">' + "".join(f"<p>{html.escape(line)}</p>" for line in shown) + "</div>"
        )
        hint.disabled = len(shown) == len(exercise.hints)

    def give(_: Any) -> None:
        source = notebook.solution(verdict.exercise, anyway=True)
        text.value = f'<pre class="lp-solution">{html.escape(str(source))}</pre>'

    hint.on_click(more)
    solution.on_click(give)
    row = ipywidgets.HBox([solution] if verdict.passed else [hint, solution])
    row.add_class("lp-row")
    return [row, text]
