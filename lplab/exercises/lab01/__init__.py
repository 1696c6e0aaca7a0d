"""Lab 01, Few bits, many decisions: decode, round, choose a format, and find the inputs that expose wrong roundings."""

from __future__ import annotations

import numpy as np

from lplab.exercises.lab01.decode import DECODE
from lplab.exercises.lab01.duel import DUEL
from lplab.exercises.lab01.killers import KILL
from lplab.exercises.lab01.round_e4m3 import E4M3, ROUND
from lplab.exercises.model.questions import Question


def codes_between(low: float, high: float) -> int:
    """How many codes of E4M3 stand for a number strictly between two."""
    values = E4M3.codebook()
    return int(np.sum((values > low) & (values < high)))


QUESTIONS = (
    Question("01.a", "How many of E4M3's 256 codes lie strictly between 0 and 1?", lambda: codes_between(0, 1), unit="codes", because="From 1/64 up to 1 a number can double six times, and in each doubling there are eight codes. Seven more codes lie below 1/64. Codes are spread evenly over doublings, not over numbers."),
)
EXERCISES = (DECODE, ROUND, KILL, DUEL)
