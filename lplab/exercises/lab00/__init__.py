"""Lab 00, How to work here: a first failure on purpose, an input that exposes a mistake, and why green is not enough."""

from __future__ import annotations

from lplab.exercises.lab00.exposing_input import EXPOSE
from lplab.exercises.lab00.fooled import FOOLED
from lplab.exercises.lab00.midpoint import MIDPOINT
from lplab.exercises.model.questions import Question

QUESTIONS = (
    Question("00.a", "An 8-bit format has 256 codes. How many different numbers, at most, can a tensor of a million elements hold after it was rounded to it?", lambda: 256, unit="numbers", because="However large the tensor: eight bits are one of 256 codes."),
)
EXERCISES = (MIDPOINT, EXPOSE, FOOLED)
