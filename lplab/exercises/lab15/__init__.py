"""Lab 15, a language model in few bits: a step of GPTQ, smoothing, the axes of a cache; rotation, bits, packing, growth."""

from __future__ import annotations

from lplab.exercises.lab15.gptq_step import GPTQ_STEP
from lplab.exercises.lab15.gptq_step import draw_columns as draw_columns
from lplab.exercises.lab15.smooth import SMOOTH
from lplab.exercises.lab15.smooth import draw_alphas as draw_alphas

EXERCISES = (GPTQ_STEP, SMOOTH)
QUESTIONS = ()
