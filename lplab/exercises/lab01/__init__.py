"""Lab 01, Few bits, many decisions: decode, round, choose a format, and find the inputs that expose wrong roundings."""

from __future__ import annotations

import numpy as np

from ..questions import Question
from .decode import DECODE
from .duel import DUEL
from .killers import KILL
from .round_e4m3 import E4M3, ROUND


def codes_between(low: float, high: float) -> int:
    """How many codes of E4M3 stand for a number strictly between two."""
    values = E4M3.codebook()
    return int(np.sum((values > low) & (values < high)))


QUESTIONS = (
    Question("01.a", "How many of E4M3's 256 codes lie strictly between 0 and 1?", lambda: codes_between(0, 1), unit="codes", because="Codes are spread evenly over octaves, not over numbers."),
)
EXERCISES = (DECODE, ROUND, KILL, DUEL)
