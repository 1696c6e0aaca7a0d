"""Prediction questions, answered before a figure shows the truth: recorded, never graded."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """A question with the truth behind it.

    Args:
        id: lab and letter, such as "01.a".
        text: one sentence.
        truth: computes the true answer: a number, or one of the choices.
        choices: the possible answers; without them a number is asked for.
        unit: of the number.
        limits: minimum and maximum of the number; a guess outside is not recorded, and the student is asked again.
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
