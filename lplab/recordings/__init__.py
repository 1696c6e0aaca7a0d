"""Recorded training runs that ship with lplab: magnitudes, maxima, many learners, AdaComp, recipes of 2025.

>>> gradient_maxima().largest.shape[0], recorded("transformer").steps[:3]
(400, (0, 50, 100))
"""

from lplab.recordings.adacomp_runs import AdaCompRecording, adacomp_recording
from lplab.recordings.ingredient_runs import IngredientBranches, Ingredients, ingredient_branches
from lplab.recordings.learner_runs import (
    BETAS,
    CHUNKS,
    LEARNERS,
    LEARNING_RATES,
    LearnerRun,
    LearnerSetting,
    many_learners,
)
from lplab.recordings.magnitudes import MagnitudeCounts, Recording, recorded
from lplab.recordings.recorded_gradients import GradientMaxima, gradient_maxima, gradients_at

__all__ = [
    "BETAS",
    "CHUNKS",
    "LEARNERS",
    "LEARNING_RATES",
    "AdaCompRecording",
    "GradientMaxima",
    "IngredientBranches",
    "Ingredients",
    "LearnerRun",
    "LearnerSetting",
    "MagnitudeCounts",
    "Recording",
    "adacomp_recording",
    "gradient_maxima",
    "gradients_at",
    "ingredient_branches",
    "many_learners",
    "recorded",
]
