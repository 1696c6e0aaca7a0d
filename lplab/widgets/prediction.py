"""A prediction: the user locks a guess, then sees the true answer; both are drawn side by side."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ipywidgets
import traitlets

from lplab.figures import guess_and_truth

from .controls import ControlGroup, line, set_text, show_errors
from .live.live_figure import LiveFigure
from .typed_value import format_value, parse_number


@dataclass(frozen=True)
class GuessOutcome:
    """A guess and the truth, once the guess is locked: text for a choice, a number otherwise."""

    guess: str | float
    truth: str | float
    unit: str = ""

    @property
    def is_right(self) -> bool:
        """Whether the guess is the truth (numbers: to within one percent of it)."""
        if isinstance(self.guess, str) or isinstance(self.truth, str):
            return self.guess == self.truth
        return math.isclose(self.guess, self.truth, rel_tol=0.01)

    def sentence(self) -> str:
        """Return guess and truth as text.

        >>> GuessOutcome("half of them", "almost all").sentence()
        'You said: half of them. It is: almost all.'
        >>> GuessOutcome(12.0, 6.0, "%").sentence()
        'You said 12 %. It is 6 %: you were 2 times too high.'
        >>> GuessOutcome(65536.0, 4096.0).sentence()
        'You said 65,536. It is 4,096: you were 16 times too high.'
        """
        if isinstance(self.guess, str) or isinstance(self.truth, str):
            return f"You said: {self.guess}. " + ("So it is." if self.is_right else f"It is: {self.truth}.")
        unit = f" {self.unit}" if self.unit else ""
        text = f"You said {short_number(self.guess)}{unit}. "
        return text + ("So it is." if self.is_right else f"It is {short_number(self.truth)}{unit}{self._distance()}.")

    def _distance(self) -> str:
        guess, truth = float(self.guess), float(self.truth)
        if not (math.isfinite(guess) and math.isfinite(truth) and guess * truth > 0):
            return ""
        high = abs(guess) > abs(truth)
        ratio = guess / truth if high else truth / guess
        if ratio < 1.1:
            return ", you were close"
        return f": you were {short_number(ratio)} times too {'high' if high else 'low'}"


def short_number(value: float) -> str:
    """A number as a prediction writes it: three digits, whole numbers with commas.

    >>> short_number(65536), short_number(-0.31251)
    ('65,536', '−0.313')
    """
    if not 0.001 <= abs(value) < 1e6:
        return format_value(value)
    return f"{value:,.0f}".replace("-", "−") if value == int(value) else format_value(float(f"{value:.3g}"))


class Prediction(ipywidgets.VBox):
    """A question that is answered before the truth is shown.

    Args:
        question: one sentence.
        choices: the possible answers; None for a question whose answer is a number.
        answer: the true answer: one of the choices, a number, or a function that computes it when it is needed.
        unit: of the number, such as "%".
        because: a sentence shown with the truth.
        limits: the smallest and the largest possible number; a guess outside is not locked.
        on_reveal: called with guess and truth once the guess is locked, so that a figure can draw both.
        guess: a guess that was locked earlier, from saved progress: the widget begins locked. It is set before
            `outcome` can be observed, so that it does not count as a new guess. Where it no longer fits the question,
            it is shown, and the question is asked again.
        skipped: whether it was skipped earlier: the widget begins with the truth.

    `is_revealed` says whether the truth is shown, after a guess or because the question was skipped. `outcome` is None
    until the guess is locked, and does not change after that; `figure` then draws both.

    >>> prediction = Prediction("How many codes of e4m3fn are NaN?", answer=2)
    >>> prediction.lock("12")
    >>> prediction.outcome
    GuessOutcome(guess=12.0, truth=2.0, unit='')
    >>> Prediction("How many codes of e4m3fn are NaN?", answer=2, guess=12).figure.alt
    'You said 12; it is 2, less by a factor of 6, on a logarithmic axis.'
    >>> prediction.lock("2"), prediction.outcome.guess
    (None, 12.0)
    """

    outcome = traitlets.Instance(GuessOutcome, allow_none=True, help="Guess and truth, once the guess is locked.")
    is_revealed = traitlets.Bool(False, help="Whether the truth is shown: after a guess, or without one.")

    def __init__(
        self,
        question: str,
        choices: Sequence[str] | None = None,
        *,
        answer: Any,
        unit: str = "",
        because: str = "",
        limits: tuple[float, float] | None = None,
        on_reveal: Callable[[Any, Any], Any] | None = None,
        guess: Any = None,
        skipped: bool = False,
    ) -> None:
        if choices is not None and not callable(answer) and answer not in choices:
            raise ValueError(f"answer must be one of the choices, got {answer!r}")
        if choices is None and not callable(answer) and not isinstance(answer, int | float):
            raise ValueError(f"answer must be a number where there are no choices, got {answer!r}")
        self.question, self.choices, self.unit, self.because = question, choices, unit, because
        self.limits = limits
        self._answer = answer
        self._watchers = [on_reveal] if on_reveal else []
        self.figure: LiveFigure | None = None
        self._build()
        super().__init__([self.title, self.row, self.result, self.error_line, self._control_group])
        self.add_class("lp-controls")
        self.add_class("lp-prediction")
        if guess is not None:
            self._restore(guess)
        elif skipped:
            self.skip()

    @property
    def guess(self) -> Any:
        """The locked guess, or None."""
        return self.outcome.guess if self.outcome else None

    @property
    def truth(self) -> Any:
        """The truth, or None before the guess is locked."""
        return self.outcome.truth if self.outcome else None

    def on_reveal(self, watcher: Callable[[Any, Any], Any]) -> None:
        """Call a function with guess and truth when the guess is locked, or at once if it is."""
        self._watchers.append(watcher)
        if self.outcome:
            watcher(self.outcome.guess, self.outcome.truth)

    def lock(self, guess: Any = None) -> None:
        """Lock a guess, by default what the controls hold, and show the truth; a second guess is ignored."""
        if self.is_revealed:
            return
        try:
            value = self._read(self.box.value if guess is None else guess)
        except ValueError as error:
            set_text(self.result, str(error))
            self.result.add_class("lp-error")
            return
        self._reveal(value)

    def skip(self) -> None:
        """Show the truth without a guess; after a guess this changes nothing."""
        if self.is_revealed:
            return
        truth = self._truth()
        text = truth if isinstance(truth, str) else f"{short_number(truth)} {self.unit}".strip()
        self.result.remove_class("lp-error")
        self._close()
        set_text(self.result, f"You did not guess. It is: {text}. {self.because}".strip())
        self.is_revealed = True

    def _truth(self) -> str | float:
        truth = self._answer() if callable(self._answer) else self._answer
        return truth if isinstance(truth, str) else float(truth)

    def _close(self) -> None:
        self.box.disabled = self.button.disabled = self.skip_button.disabled = True

    def _restore(self, guess: Any) -> None:
        try:
            value = self._read(guess)
        except (TypeError, ValueError):
            set_text(
                self.result, f"Your earlier guess, {guess}, does not fit this question any more. Please guess again."
            )
        else:
            self._reveal(value)

    def _reveal(self, value: str | float) -> None:
        outcome = GuessOutcome(value, self._truth(), self.unit)
        drawn = guess_and_truth(value, outcome.truth, choices=self.choices or (), unit=self.unit)
        self.figure = LiveFigure(drawn)
        self.result.remove_class("lp-error")
        self.box.value = value if isinstance(value, str) else format_value(value)
        self._close()
        set_text(self.result, f"{outcome.sentence()} {self.because}".strip())
        self.children = [self.title, self.row, self.result, self.figure, self.error_line, self._control_group]
        self.outcome = outcome
        self.is_revealed = True
        for watcher in self._watchers:
            watcher(outcome.guess, outcome.truth)

    def _build(self) -> None:
        self.title = line(self.question, "lp-question")
        self.result = line("", "lp-live", "lp-result")
        set_text(self.result, "")
        self._control_group = ControlGroup()
        if self.choices is None:
            self.box = ipywidgets.Text(placeholder="a number", continuous_update=True)
            unit = [ipywidgets.Label(self.unit)] if self.unit else []
        else:
            self.box, unit = ipywidgets.RadioButtons(options=list(self.choices), value=None), []
        self.button = ipywidgets.Button(description="Lock my guess", tooltip="the guess cannot be changed after this")
        self.error_line = line("", "lp-error", "lp-live")
        set_text(self.error_line, "")
        self.button.on_click(show_errors(self.error_line, lambda _: self.lock()))
        if self.choices is None:
            self.box.on_msg(show_errors(self.error_line, lambda _, content, buffers: self._on_key(content)))
        self.skip_button = ipywidgets.Button(description="Skip", tooltip="show the answer without a guess")
        self.skip_button.on_click(show_errors(self.error_line, lambda _: self.skip()))
        self.row = ipywidgets.Box([self.box, *unit, self.button, self.skip_button])
        self.row.add_class("lp-row")

    def _on_key(self, content: Any) -> None:
        """Enter in the box is the button; the box sends no other event."""
        if content.get("event") == "submit":
            self.lock()

    def _read(self, guess: Any) -> str | float:
        if self.choices is None:
            return self._check_limits(parse_number(guess) if isinstance(guess, str) else float(guess))
        if guess not in self.choices:
            raise ValueError("choose one of the answers first")
        return str(guess)

    def _check_limits(self, value: float) -> float:
        if self.limits is not None and not self.limits[0] <= value <= self.limits[1]:
            low, high = (f"{short_number(end)} {self.unit}".strip() for end in self.limits)
            raise ValueError(f"this can only be from {low} to {high}: guess again")
        return value
