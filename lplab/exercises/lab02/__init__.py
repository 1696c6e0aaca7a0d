"""Lab 02, Sixteen bits and a coin: fixed point, stochastic rounding, what is lost, and a drift that nobody ordered."""

from __future__ import annotations

from ..questions import Question
from .count_losses import LOSSES
from .drift import DRIFT
from .fixed_point import FIXED
from .stochastic_round import COIN

QUESTIONS: tuple[Question, ...] = ()
EXERCISES = (FIXED, COIN, LOSSES, DRIFT)
