"""Lab 02, Sixteen bits and a coin: fixed point, stochastic rounding, what is lost, and a drift that nobody ordered."""

from __future__ import annotations

from lplab.exercises.lab02.count_losses import LOSSES
from lplab.exercises.lab02.drift import DRIFT
from lplab.exercises.lab02.fixed_point import FIXED
from lplab.exercises.lab02.stochastic_round import COIN
from lplab.exercises.questions import Question

QUESTIONS: tuple[Question, ...] = ()
EXERCISES = (FIXED, COIN, LOSSES, DRIFT)
