"""Lab 00, How to work here: a first failure on purpose, an input that exposes a mistake, and why green is not enough."""

from __future__ import annotations

from lplab.exercises.lab00.exposing_input import EXPOSE
from lplab.exercises.lab00.fooled import FOOLED
from lplab.exercises.lab00.midpoint import MIDPOINT
from lplab.exercises.model.questions import Question

QUESTIONS = (
    Question("00.a", "A tensor has a million elements. You round each of them to a format of eight bits. How many different numbers can the tensor hold then, at most?", lambda: 256, unit="numbers", because="Eight switches have 2 · 2 · 2 · 2 · 2 · 2 · 2 · 2 = 256 positions. So each element can only be one of 256 numbers, however many elements there are."),
)
EXERCISES = (MIDPOINT, EXPOSE, FOOLED)
