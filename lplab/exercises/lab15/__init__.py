"""Lab 15, a language model in few bits: a step of GPTQ, smoothing, the axes of a cache; rotation, bits, packing, growth."""

from __future__ import annotations

from lplab.exercises.lab15.file_bits import FILE_BITS
from lplab.exercises.lab15.file_bits import draw_file_bits as draw_file_bits
from lplab.exercises.lab15.gptq_step import GPTQ_STEP
from lplab.exercises.lab15.gptq_step import draw_columns as draw_columns
from lplab.exercises.lab15.pack_ternary import PACK_TERNARY
from lplab.exercises.lab15.pack_ternary import draw_ternary as draw_ternary
from lplab.exercises.lab15.rotate import ROTATE
from lplab.exercises.lab15.rotate import draw_rotation as draw_rotation
from lplab.exercises.lab15.round_cache import ROUND_CACHE
from lplab.exercises.lab15.round_cache import draw_axes as draw_axes
from lplab.exercises.lab15.smooth import SMOOTH
from lplab.exercises.lab15.smooth import draw_alphas as draw_alphas

EXERCISES = (GPTQ_STEP, SMOOTH, ROUND_CACHE, ROTATE, FILE_BITS, PACK_TERNARY)
QUESTIONS = ()
