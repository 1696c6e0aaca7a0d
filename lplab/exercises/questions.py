"""Questions that are answered before a figure shows the truth: recorded, never graded."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lplab.exercises import progress


@dataclass(frozen=True)
class Question:
    """A question with the truth behind it.

    Args:
        id: lab and letter, such as "01.a".
        text: one sentence.
        truth: computes it, when it is needed: a number, or one of the choices.
        choices: the possible answers; without them a number is asked for.
        unit: of the number.
        limits: the least and the most that the number can be at all: a guess beyond is asked for again, not locked.
        because: a sentence shown with the truth.
    """

    id: str
    text: str
    truth: Callable[[], float | str]
    choices: tuple[str, ...] = ()
    unit: str = ""
    because: str = ""
    limits: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\d\d\.[a-z]", self.id):
            raise ValueError(f"a question's id is lab and letter such as '01.a', got {self.id!r}")


def predict(question_id: str) -> Any:
    """The question as a widget: guess first, then see guess and truth together. A guess made before is shown again.

    Raises:
        ValueError: there is no such question.

    >>> predict("01.a").question
    "How many of E4M3's 256 codes lie strictly between 0 and 1?"
    """
    from lplab import widgets  # shown in a notebook only
    from lplab.exercises import catalogue

    question = catalogue.question(question_id)
    widget = widgets.Prediction(
        question.text,
        question.choices or None,
        answer=question.truth,
        unit=question.unit,
        because=question.because,
        limits=question.limits,
        guess=progress.prediction(question_id),
    )
    widget.observe(lambda change: _record(question, change["new"]), "outcome")
    return widget


def _record(question: Question, outcome: Any) -> None:
    if outcome is not None:
        progress.record_prediction(question.id, question.text, outcome.guess, outcome.truth, question.unit)
