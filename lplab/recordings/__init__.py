"""Recorded training runs that ship with lplab: magnitudes, maxima, many learners, AdaComp, recipes of 2025.

>>> gradient_maxima().largest.shape[0], recorded("transformer").steps[:3]
(400, (0, 50, 100))
"""

from lplab.recordings.adacomp import AdaCompRecording, adacomp_recording
from lplab.recordings.gradients import GradientMaxima, gradient_maxima, gradients_at
from lplab.recordings.ingredients import IngredientBranches, Ingredients, ingredient_branches
from lplab.recordings.learner_runs import BETAS, CHUNKS, LEARNERS, LEARNING_RATES, LearnerRun, Setting, many_learners
from lplab.recordings.magnitudes import Magnitudes, Recording, recorded

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
    "Magnitudes",
    "Recording",
    "Setting",
    "adacomp_recording",
    "gradient_maxima",
    "gradients_at",
    "ingredient_branches",
    "many_learners",
    "recorded",
]
