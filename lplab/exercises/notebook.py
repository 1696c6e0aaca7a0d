"""The functions that labs call: check an answer, open a hint, see a solution, make a prediction, score a recipe."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from html import escape
from typing import Any
from weakref import WeakSet

from lplab.exercises import progress
from lplab.exercises.checks import feedback
from lplab.exercises.checks.judge import judge
from lplab.exercises.checks.verdict import Verdict
from lplab.exercises.isolation import run_answer, why_no_process
from lplab.exercises.isolation.answers import answer_of
from lplab.exercises.model import exercise_catalogue
from lplab.exercises.model.questions import Question


@dataclass(frozen=True)
class Text:
    """Text whose repr is the text itself, for notebooks and terminals."""

    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """The text as HTML, whose lines break between words; a notebook breaks those of plain text inside of words."""
        return f'<pre style="white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere">{escape(self.text)}</pre>'


def check(exercise_id: str, function: Callable[..., Any]) -> Verdict:
    """Check an answer, record the attempt in the progress file, and return the verdict (it displays itself).

    Args:
        exercise_id: lab and number, such as "01.2".
        function: the student's function. Its source is run in a process of its own; see `isolation`. Where there are
            no processes it runs in this one, and a line says so.

    Raises:
        ValueError: there is no such exercise, or its answer is the recipe of a capstone.

    >>> check("00.1", lambda low, high: low)  # doctest: +ELLIPSIS
    Exercise 00.1: ...
    """
    exercise = exercise_catalogue.get(exercise_id)
    if exercise_id in exercise_catalogue.CAPSTONES:
        raise ValueError(f"exercise {exercise_id} is a recipe: {exercise.name}(mine) scores it")
    if not callable(function):
        call = f'check("{exercise_id}", {exercise.name})'
        return feedback.unreadable(
            exercise, f"Pass the function itself, without parentheses behind its name: `{call}`."
        )
    try:
        answer = answer_of(function)
    except ValueError as problem:
        return feedback.unreadable(exercise, str(problem))
    say_where_answers_run()
    verdict = judge(exercise, answer, run=run_answer)
    progress.record(verdict, answer)
    return verdict


def say_where_answers_run() -> None:
    """Print, once, one line where answers run without a fence, or where progress is kept elsewhere than usual."""
    reason, place = why_no_process(), progress.storage_place()
    fence = (
        f"There is no fence around your answers here: they run inside this notebook, since {reason}." if reason else ""
    )
    line = f"{fence} {f'Your progress is kept {place}.' if place else ''}".strip()
    if line and line not in _said:
        _said.add(line)
        print(line)


_said: set[str] = set()  # lines that were printed in this kernel


def hint(exercise_id: str) -> Text:
    """The next hint of an exercise; after the last one, all of them again.

    >>> hint("00.1")
    Hint 1 of 3: ...
    """
    exercise = exercise_catalogue.get(exercise_id)
    opened = progress.hints_opened(exercise_id)
    if opened >= len(exercise.hints):
        return Text("\n".join(_hint(exercise_id, number) for number in range(len(exercise.hints))))
    return Text(next_hint(exercise_id, opened))


def next_hint(exercise_id: str, number: int) -> str:
    """Hint ``number`` (from 0) as text; it is recorded as opened."""
    progress.open_hint(exercise_id, number + 1)
    return _hint(exercise_id, number)


def _hint(exercise_id: str, number: int) -> str:
    hints = exercise_catalogue.get(exercise_id).hints
    return f"Hint {number + 1} of {len(hints)}: {hints[number]}"


def solution(exercise_id: str, anyway: bool = False) -> Text:
    """A solution, once the exercise is passed, or on request (``anyway=True``, which the report mentions).

    >>> print(solution("00.1", anyway=True))
    def midpoint(low, high):
        \"\"\"The number halfway between two neighbours; of 1 and 1.125 it is 1.0625.\"\"\"
        return (low + high) / 2
    """
    exercise = exercise_catalogue.get(exercise_id)
    if not anyway and not progress.has_passed(exercise_id):
        way = f"solution({exercise_id!r}, anyway=True)"
        return Text(f"Exercise {exercise_id} is not passed yet. To see a solution all the same: {way}.")
    if exercise.withheld:
        return Text(f"The solution of exercise {exercise_id} is with your instructor.")
    progress.solution_seen(exercise_id)
    return Text(exercise.solution.strip())


def own_recipe(data: Any) -> Any:
    """Score a recipe of one's own: a button, the field of published recipes, a star. The last one scored is handed in.

    Args:
        data: the recipe as a dictionary: see :mod:`lplab.training.recipe.recipe_data`.

    Returns:
        The button with its figure, behind the veil of question 14.a, whose answer the field gives away; where the data
        are no recipe, one line that says why.

    >>> own_recipe({"weight": "nvpf4"})  # doctest: +ELLIPSIS
    Not a recipe yet: weight: format: unknown format 'nvpf4'; closest: nvfp4, ...
    """
    return _scored(data, "14.4")


def own_meetings(data: Any) -> Any:
    """Score a way to meet of one's own: a button, loss against bytes of published ones, and a dot for one's own.

    Args:
        data: the recipe as a dictionary: see :mod:`lplab.exercises.capstone.meeting_recipe`.

    Returns:
        The button with its figure, behind the veil of question 16.a; where the data are no recipe, one line that says
        why. The last one scored is handed in.

    >>> own_meetings({"evry": 30})  # doctest: +ELLIPSIS
    Not a recipe yet: the recipe: unknown key 'evry'; closest: every...
    """
    return _scored(data, "16.5")


def _scored(data: Any, exercise_id: str) -> Any:
    """The button that scores a recipe of a capstone behind its veil, or a line that says why there is none."""
    from lplab.exercises.capstone.live_score import CapstoneRun  # widgets are shown in a notebook only

    capstone = exercise_catalogue.capstone(exercise_id)
    try:
        capstone.checked(data)
    except ValueError as problem:
        return Text(f"Not a recipe yet: {problem}.")
    return after_guess(capstone.veil, CapstoneRun(data, capstone=capstone))


def predict(question_id: str) -> Any:
    """The question as a widget: guess first, then see guess and truth together. A guess made before is shown again.

    Raises:
        ValueError: there is no such question.

    >>> predict("01.a").question
    "How many of E4M3's 256 codes lie strictly between 0 and 1?"
    """
    from lplab import widgets  # shown in a notebook only

    question = exercise_catalogue.question(question_id)
    widget = widgets.Prediction(
        question.text,
        question.choices or None,
        answer=question.truth,
        unit=question.unit,
        because=question.because,
        limits=question.limits,
        guess=progress.prediction(question_id),
        skipped=_is_skipped(question),
    )
    _asked.setdefault(question_id, WeakSet()).add(widget)
    widget.observe(lambda _: _answered(question, widget.outcome), "is_revealed")
    widget.children += (widgets.GlossaryWords(),)  # every lab asks a question before its first word
    return widget


def after_guess(question_id: str, content: Any) -> Any:
    """Veil what answers a prediction until its guess is locked or skipped; a veil stays lifted after a restart.

    Where the environment has LPLAB_ANSWERS=show, no veil is down, and each prediction begins with its truth: for a page
    that is printed, or made by nbconvert. Nothing of that is kept as progress.

    Text in Markdown cells cannot be veiled: what gives an answer away there belongs into the prediction's ``because``,
    or below a ``<details>`` element.

    Args:
        question_id: of the prediction, such as "01.a".
        content: a widget, a Plotly figure, a table, or a function without arguments that makes one of these when the
            veil is lifted.

    Raises:
        ValueError: there is no such question.
        TypeError: content that cannot be shown.

    >>> from lplab import figures
    >>> type(after_guess("01.a", figures.DataTable({"codes": [55]}))).__name__
    'Veil'
    """
    from lplab import widgets

    question = exercise_catalogue.question(question_id)
    veil = widgets.Veil(content, question.text, on_request=lambda: _show_all(question))
    if _is_answered(question):
        veil.lift()
    else:
        _veiled.setdefault(question_id, WeakSet()).add(veil)
    return veil


_asked: dict[str, WeakSet[Any]] = {}  # the predictions in this kernel, by question
_veiled: dict[str, WeakSet[Any]] = {}  # what waits for each of them


def _is_answered(question: Question) -> bool:
    """Whether a guess at this question is locked, or it was skipped."""
    return progress.prediction(question.id) is not None or _is_skipped(question)


def _is_skipped(question: Question) -> bool:
    """Whether a question was skipped, or all answers are shown: LPLAB_ANSWERS=show, for a page without a kernel."""
    return os.environ.get("LPLAB_ANSWERS") == "show" or progress.has_skipped(question.id, question.text)


def _answered(question: Question, outcome: Any) -> None:
    """Record the guess at a question, or that there was none, and lift its veils."""
    if outcome is None:
        progress.skip_prediction(question.id, question.text)
    else:
        progress.record_prediction(question.id, question.text, outcome.guess, outcome.truth, question.unit)
    _lift_veils(question)


def _show_all(question: Question) -> None:
    """Show the answer without a guess: in the prediction, and behind all veils (those that failed before, too)."""
    for widget in list(_asked.get(question.id, ())):
        widget.skip()
    if not _is_answered(question):  # a veil may stand alone
        progress.skip_prediction(question.id, question.text)
    _lift_veils(question)


def _lift_veils(question: Question) -> None:
    with ExitStack() as others:  # where one veil cannot show its content, all others are lifted before the error comes
        for veil in list(_veiled.get(question.id, ())):
            others.callback(veil.lift)
