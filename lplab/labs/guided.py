"""Guided questions: one at a time above an explorer, each with an answer computed from the position it asks about."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ipywidgets

from lplab.widgets.controls import ControlGroup, line, set_text, show_errors
from lplab.widgets.explorer_base import Explorer
from lplab.widgets.one_screen import OneScreen
from lplab.widgets.typed_value import format_value, parse_number


@dataclass(frozen=True)
class GuidedQuestion:
    """A question about an explorer, and its answer.

    Args:
        text: one or two sentences; ``*words*`` between asterisks are emphasized.
        position: where the explorer answers it: what ``Explorer.set`` takes, from the explorer's first position.
        answer: the answer as text, from the explorer's state at that position; it computes every number it gives.
        true: whether what the answer says in words holds in that state; the tests of the course ask it.
        controls: the controls that it needs, by their names in ``Explorer.side``: at most three beside presets.
        figure: the one that it asks about, of ``Explorer.figures``, or a panel of it.
        guess: what can be guessed: several answers, or the unit of a number; "" asks for no guess.

    >>> ask = GuidedQuestion("How many?", {"bits": 4}, lambda state: f"{2**state.bits} codes", lambda state: True)
    >>> ask.text
    'How many?'
    """

    text: str
    position: Mapping[str, Any]
    answer: Callable[[Any], str] = field(repr=False)
    true: Callable[[Any], bool] = field(repr=False)
    controls: tuple[str, ...] = ()
    figure: str = ""
    guess: str | tuple[str, ...] = ""


class GuidedExplorer(ipywidgets.VBox):
    """Questions above an explorer, one at a time, each with its controls and its figure; the answer is one click away.

    While a question is open, no title and no sentence of the explorer answers it. A guess opens the answer, too, and is
    shown with it. An open answer speaks of what is seen: controls and figure go where the question asks.

    Args:
        explorer: any explorer; its panels become figures of their own.
        questions: at least one.

    Attributes:
        number: of the question that is shown, from 0.
        guesses: those that were locked, by the number of the question.

    Raises:
        ValueError: no question, or one about a position, a control or a figure that the explorer does not have.
    """

    def __init__(self, explorer: Explorer, questions: Sequence[GuidedQuestion]) -> None:
        if not questions:
            raise ValueError("at least one question is needed")
        for question in questions:
            explorer.state_at(**question.position)
        self.explorer, self.questions, self.number = explorer, tuple(questions), 0
        self.guesses: dict[int, str] = {}
        self.question_line = line("", "lp-guided-question", "lp-live")
        self.answer_line = line("", "lp-guided-answer", "lp-live")
        self.error_line = line("", "lp-error", "lp-live")
        set_text(self.error_line, "")
        button = ipywidgets.Button
        self.previous_button = button(description="Previous", tooltip="the question before this one")
        self.next_button = button(description="Next", tooltip="the next question")
        self.go_button = button(description="Set the controls", tooltip="move the controls to where the answer is seen")
        self.answer_button = button(
            description="Show the answer", tooltip="the answer, with the controls where it is seen"
        )
        self.guess_fields = [self._guess_field(question) for question in self.questions]
        self.row = ipywidgets.Box()
        self.row.add_class("lp-row")
        self.row.layout.flex_flow = "row wrap"
        stepper = ipywidgets.VBox([self.question_line, self.row, self.error_line, ControlGroup()])
        stepper.add_class("lp-controls")
        stepper.add_class("lp-guided")
        self.screen = OneScreen(explorer, self.answer_line)
        super().__init__([stepper, explorer])
        for each, action in (
            (self.previous_button, lambda _: self.ask(self.number - 1)),
            (self.next_button, lambda _: self.ask(self.number + 1)),
            (self.go_button, lambda _: self.set_controls()),
            (self.answer_button, lambda _: self.toggle_answer()),
        ):
            each.on_click(show_errors(self.error_line, action))
        for number in reversed(range(len(self.questions))):  # an unknown control or figure of any question is refused
            self.ask(number)

    @property
    def question(self) -> GuidedQuestion:
        """The question that is shown."""
        return self.questions[self.number]

    def ask(self, number: int) -> None:
        """Show a question, by its number from 0, without its answer; beyond the ends the first or the last one."""
        last = len(self.questions) - 1
        self.number = min(max(number, 0), last)
        head = f"Question {self.number + 1} of {last + 1}."
        self.question_line.value = f"<b>{head}</b> {emphasized(self.question.text)}"
        self.previous_button.disabled, self.next_button.disabled = self.number == 0, self.number == last
        buttons = (self.answer_button, self.go_button, self.previous_button, self.next_button)
        self.row.children = [*self.guess_fields[self.number], *buttons]
        self.screen.show(self.question.controls, self.question.figure or next(iter(self.explorer.figures)))
        self._show_answer("")

    def lock(self, guess: str) -> None:
        """Lock a guess, as text, and show the answer; a second guess is ignored.

        Raises:
            ValueError: where a number is asked for, a text that is none.
        """
        if self.number in self.guesses:
            return
        if isinstance(self.question.guess, str):
            guess = f"{format_value(parse_number(guess))} {self.question.guess}"
        self.guesses[self.number] = guess
        self.open_answer()

    def set_controls(self) -> None:
        """Set the explorer to the position that the question asks about."""
        self.explorer.position = self.explorer.state_at(**self.question.position)

    def open_answer(self) -> None:
        """Show the answer, and what it speaks of: the explorer goes where the question asks."""
        self.set_controls()
        self._show_answer(self.answer())

    def toggle_answer(self) -> None:
        """Show the answer, or hide it again; the explorer stays where it is then."""
        if self.answer_line.value:
            self._show_answer("")
        else:
            self.open_answer()

    def answer(self) -> str:
        """The answer to the question that is shown, computed from the position that it asks about."""
        return self.question.answer(self.explorer.state_at(**self.question.position))

    def _guess_field(self, question: GuidedQuestion) -> list[ipywidgets.Widget]:
        """The widgets of a guess: a choice is locked at a click, a number with Enter or a button."""
        if not question.guess:
            return []
        if isinstance(question.guess, tuple):
            choices = ipywidgets.ToggleButtons(options=question.guess, value=None, description="your guess")
            choices.add_class("lp-guess")
            choices.observe(show_errors(self.error_line, lambda change: self.lock(change["new"])), "value")
            return [choices]
        box = ipywidgets.Text(placeholder="your guess", continuous_update=True)
        box.add_class("lp-guess")
        button = ipywidgets.Button(description="Lock my guess", tooltip="the guess cannot be changed after this")

        def lock(*_: Any) -> None:
            try:
                self.lock(box.value)
            except ValueError as problem:
                set_text(self.error_line, str(problem))
            else:
                set_text(self.error_line, "")

        box.on_msg(lambda _, content, buffers: lock() if content.get("event") == "submit" else None)
        button.on_click(lock)
        return [box, ipywidgets.Label(question.guess), button]

    def _show_answer(self, text: str) -> None:
        guess = self.guesses.get(self.number)
        said = f"You said: {guess}. " if text and guess else ""
        self.answer_line.value = emphasized(said + text)
        self.answer_line.layout.display = None if text else "none"
        self.answer_button.description = "Hide the answer" if text else "Show the answer"
        for each in self.guess_fields[self.number]:
            if not isinstance(each, ipywidgets.Label):
                each.disabled = bool(text or guess)
        self.screen.cover(not text)


def guided(explorer: Explorer, questions: Sequence[GuidedQuestion]) -> GuidedExplorer:
    """An explorer below its guided questions; see `GuidedExplorer`.

    >>> from lplab.widgets import BillExplorer
    >>> ask = GuidedQuestion("What does it cost?", {}, lambda state: "A little.", lambda state: True)
    >>> shown = guided(BillExplorer(), [ask])
    >>> shown.toggle_answer()
    >>> shown.answer_line.value
    'A little.'
    """
    return GuidedExplorer(explorer, questions)


def emphasized(text: str) -> str:
    """Text as HTML, with ``*words*`` emphasized.

    >>> emphasized("Read *flushed to 0* where |x| < 1.")
    'Read <em>flushed to 0</em> where |x| &lt; 1.'
    """
    return re.sub(r"\*(\S(?:[^*]*\S)?)\*", r"<em>\1</em>", html.escape(text, quote=False))
