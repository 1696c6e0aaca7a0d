"""Recorded runs that ship with lplab: magnitudes, maxima, learners, AdaComp, recipes of 2025, a language model.

>>> gradient_maxima().largest.shape[0], recorded("transformer").steps[:3]
(400, (0, 50, 100))
"""

from lplab.lookup import refuse_wrong_names
from lplab.recordings.adacomp_runs import AdaCompRecording, adacomp_recording
from lplab.recordings.ingredient_runs import IngredientBranches, Ingredients, ingredient_branches
from lplab.recordings.language_model import LanguageModelRecording, LayerRecording, language_model_recording
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
    "LanguageModelRecording",
    "LayerRecording",
    "LearnerRun",
    "LearnerSetting",
    "MagnitudeCounts",
    "Recording",
    "adacomp_recording",
    "gradient_maxima",
    "gradients_at",
    "ingredient_branches",
    "language_model_recording",
    "many_learners",
    "recorded",
]

refuse_wrong_names(__name__)
