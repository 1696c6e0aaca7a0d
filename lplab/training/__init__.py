"""Training with few bits: Gupta's fixed point in numpy alone, and any PyTorch model under any recipe.

What needs PyTorch (models, trainer, recorder) is imported when it is asked for.

>>> from lplab.training import FixedPointRun, finish
>>> trained = finish(FixedPointRun(fraction_bits=8, rounding="stochastic", epochs=2))
>>> len(trained.epochs), trained.test_error < 50
(2, True)
>>> from lplab.training import recipes
>>> recipes.get("hfp8_2019").weight
Rule('hfp8_forward')
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lplab.training.convert import LABELS, ROUNDINGS, Converter, Tally
from lplab.training.fixed_point import digits_split, train
from lplab.training.runs import Epoch, FixedPointRun, Trained, finish, side_by_side

if TYPE_CHECKING:
    from lplab.training import recipes, tasks
    from lplab.training.batches import Batches, Windows
    from lplab.training.conversion import dequantize_model, float32, quantize_model
    from lplab.training.diagnosis import Diagnosis, DivergedError
    from lplab.training.inference import (
        compare,
        inference_recipe,
        quantize_for_inference,
        retune_batchnorm,
        sensitivity,
    )
    from lplab.training.optimizers import SGD, Adam, AdamW, make_optimizer
    from lplab.training.recipe import LayerRules, Recipe, Update
    from lplab.training.recorder import Record, Recorder
    from lplab.training.rules import Learned, PerLayer, Rule
    from lplab.training.trainer import Step, Trainer

_LAZY = {
    "recipes": "recipes",
    "tasks": "tasks",
    "LayerRules": "recipe",
    "Recipe": "recipe",
    "Update": "recipe",
    "Learned": "rules",
    "PerLayer": "rules",
    "Rule": "rules",
    "Batches": "batches",
    "Windows": "batches",
    "dequantize_model": "conversion",
    "float32": "conversion",
    "quantize_model": "conversion",
    "Diagnosis": "diagnosis",
    "DivergedError": "diagnosis",
    "compare": "inference",
    "inference_recipe": "inference",
    "quantize_for_inference": "inference",
    "retune_batchnorm": "inference",
    "sensitivity": "inference",
    "SGD": "optimizers",
    "Adam": "optimizers",
    "AdamW": "optimizers",
    "make_optimizer": "optimizers",
    "Record": "recorder",
    "Recorder": "recorder",
    "Step": "trainer",
    "Trainer": "trainer",
}
_NEED_TORCH = {"batches", "conversion", "diagnosis", "inference", "optimizers", "recorder", "tasks", "trainer"}

__all__ = [
    "LABELS",
    "ROUNDINGS",
    "SGD",
    "Adam",
    "AdamW",
    "Batches",
    "Converter",
    "Diagnosis",
    "DivergedError",
    "Epoch",
    "FixedPointRun",
    "LayerRules",
    "Learned",
    "PerLayer",
    "Recipe",
    "Record",
    "Recorder",
    "Rule",
    "Step",
    "Tally",
    "Trained",
    "Trainer",
    "Update",
    "Windows",
    "compare",
    "dequantize_model",
    "digits_split",
    "finish",
    "float32",
    "inference_recipe",
    "make_optimizer",
    "quantize_for_inference",
    "quantize_model",
    "recipes",
    "retune_batchnorm",
    "sensitivity",
    "side_by_side",
    "tasks",
    "train",
]


def __getattr__(name: str) -> Any:
    """What is imported when it is asked for."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"{__name__}.{_LAZY[name]}")
    except ModuleNotFoundError as error:
        if error.name == "torch" and _LAZY[name] in _NEED_TORCH:
            raise ImportError(f"lplab.training.{name} needs PyTorch: pip install 'lplab[torch]'") from error
        raise
    found = module if name == _LAZY[name] else getattr(module, name)
    globals()[name] = found
    return found
