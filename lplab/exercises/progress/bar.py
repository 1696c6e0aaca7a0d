"""How far a student has come in a lab: numbers, a sentence, and a bar in a notebook."""

from __future__ import annotations

import html
from dataclasses import dataclass

from lplab.exercises.model import exercise_catalogue
from lplab.exercises.progress.records import ProgressState

BAR = """<div class="lp-progress" style="max-width:640px;margin:4px 0;font-size:14px;line-height:1.5">
<div style="color:var(--jp-content-font-color1,inherit)">{text}</div>
<div role="progressbar" aria-label="Progress in lab {lab}" aria-valuemin="0" aria-valuemax="{of}"
 aria-valuenow="{done}" aria-valuetext="{text}"
 style="height:10px;border:1px solid #7f7f7f;border-radius:6px;overflow:hidden">
<div style="height:100%;width:{percent:.0f}%;background:#0072b2;forced-color-adjust:none"></div></div>{again}</div>"""
AGAIN = '<div style="font-size:13px">Run this cell again to see what you passed since.</div>'


@dataclass(frozen=True)
class ProgressBar:
    """Exercises passed and points of one lab, and how many predictions were made in it.

    >>> ProgressBar("01", done=2, of=4, points=12, most_points=24, predictions=1)
    Lab 01: 2 of 4 exercises passed, 12 of 24 points; 1 prediction made
    """

    lab: str
    done: int
    of: int
    points: float
    most_points: int
    predictions: int = 0

    @property
    def text(self) -> str:
        """All of it in one line."""
        points = f"{self.points:g} of {self.most_points} points"
        line = f"Lab {self.lab}: {self.done} of {self.of} exercises passed, {points}"
        made = f"; {self.predictions} prediction{'s' * (self.predictions != 1)} made"
        return line + made if self.predictions else line

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        percent = 100 * self.done / self.of
        again = AGAIN * (self.done < self.of)
        text = html.escape(self.text)
        return BAR.format(lab=self.lab, text=text, of=self.of, done=self.done, percent=percent, again=again)


def bar_of(lab: str, state: ProgressState) -> ProgressBar:
    """The bar of one lab; ValueError if it has no exercises. A prediction belongs to the lab its id begins with."""
    exercises = exercise_catalogue.of_lab(lab)
    records = [state.exercises[exercise.id] for exercise in exercises if exercise.id in state.exercises]
    return ProgressBar(
        lab,
        done=sum(record.passed for record in records),
        of=len(exercises),
        points=sum(record.points for record in records),
        most_points=sum(exercise.points for exercise in exercises),
        predictions=sum(question.startswith(lab) for question in state.predictions),
    )
