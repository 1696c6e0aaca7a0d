"""Training with few bits: Gupta's fixed point in numpy alone, and any PyTorch model under any recipe.

What needs PyTorch (models, trainer, recorder) is imported on first use.

- ``recipe``: which format each tensor is rounded to.
- ``emulation``: how PyTorch computes a model under a recipe.
- ``loop``: the trainer and what belongs to it.
- ``inference.py``: a trained model in few bits, also by GPTQ, AWQ, SmoothQuant …: :func:`quantize_for_inference` with
  calibration data. Batch norms are calibrated again by :func:`retune_batchnorm`, bits per weight are counted by
  :func:`bits_report`.
- ``fixed_point``: Gupta's training.

>>> from lplab.training import FixedPointConfig, train_fixed_point
>>> result = train_fixed_point(FixedPointConfig(fraction_bits=8, rounding="stochastic", epochs=2))
>>> len(result.epochs), result.test_error < 50
(2, True)
>>> from lplab.training import recipes
>>> recipes.get("hfp8_2019").weight
QuantSpec('hfp8_forward')
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lplab.lookup import package_error
from lplab.training.fixed_point.config import Epoch, FixedPointConfig, FixedPointResult
from lplab.training.fixed_point.convert import LABELS, ROUNDINGS, ConversionCounts, Converter
from lplab.training.fixed_point.training import digits_split, train_epochs, train_fixed_point, train_in_lockstep

if TYPE_CHECKING:
    from lplab.training.calibration import caught_inputs, change_in_order
    from lplab.training.emulation.checkpoint_state import (
        MissingQuantizerState,
        load_quantizer_state,
        quantizer_state,
    )
    from lplab.training.emulation.conversion import (
        RoundsNothing,
        dequantize_model,
        float32,
        quantize_model,
        switch_recipe,
    )
    from lplab.training.emulation.recipe_report import RecipeReport, ReportRow, recipe_report
    from lplab.training.emulation.unseen_products import UnseenProductWarning
    from lplab.training.few_bits import bits_report
    from lplab.training.few_bits_rule import FewBits
    from lplab.training.inference import (
        compare,
        inference_recipe,
        quantize_for_inference,
        retune_batchnorm,
        sensitivity,
    )
    from lplab.training.loop import tasks
    from lplab.training.loop.batches import Batches, SequenceBatches
    from lplab.training.loop.diagnosis import Diagnosis, DivergedError
    from lplab.training.loop.gradient_projection import gradient_projection, gradients_only
    from lplab.training.loop.optimizers import SGD, Adam, AdamW, make_optimizer
    from lplab.training.loop.recorder import Record, Recorder
    from lplab.training.loop.trainer import Step, Trainer, default_loss
    from lplab.training.onnx_export.export import export_onnx
    from lplab.training.recipe import recipes
    from lplab.training.recipe.quant_spec import LearnedClip, PerLayerGradScale, QuantSpec
    from lplab.training.recipe.recipe import LayerRules, Recipe, Switch, Update
    from lplab.training.step_time import step_seconds
    from lplab.training.weight_bits import BitsReport, BitsRow

_MODULES = {
    "calibration": ("caught_inputs", "change_in_order"),
    "emulation.checkpoint_state": ("MissingQuantizerState", "load_quantizer_state", "quantizer_state"),
    "emulation.conversion": ("RoundsNothing", "dequantize_model", "float32", "quantize_model", "switch_recipe"),
    "emulation.recipe_report": ("RecipeReport", "ReportRow", "recipe_report"),
    "emulation.unseen_products": ("UnseenProductWarning",),
    "few_bits": ("bits_report",),
    "few_bits_rule": ("FewBits",),
    "inference": ("compare", "inference_recipe", "quantize_for_inference", "retune_batchnorm", "sensitivity"),
    "loop": ("tasks",),
    "loop.batches": ("Batches", "SequenceBatches"),
    "loop.diagnosis": ("Diagnosis", "DivergedError"),
    "loop.gradient_projection": ("gradient_projection", "gradients_only"),
    "loop.optimizers": ("SGD", "Adam", "AdamW", "make_optimizer"),
    "loop.recorder": ("Record", "Recorder"),
    "loop.trainer": ("Step", "Trainer", "default_loss"),
    "onnx_export.export": ("export_onnx",),
    "recipe": ("recipes",),
    "recipe.quant_spec": ("LearnedClip", "PerLayerGradScale", "QuantSpec"),
    "recipe.recipe": ("LayerRules", "Recipe", "Switch", "Update"),
    "step_time": ("step_seconds",),
    "weight_bits": ("BitsReport", "BitsRow"),
}
_LAZY = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "LABELS",
    "ROUNDINGS",
    "SGD",
    "Adam",
    "AdamW",
    "Batches",
    "BitsReport",
    "BitsRow",
    "ConversionCounts",
    "Converter",
    "Diagnosis",
    "DivergedError",
    "Epoch",
    "FewBits",
    "FixedPointConfig",
    "FixedPointResult",
    "LayerRules",
    "LearnedClip",
    "MissingQuantizerState",
    "PerLayerGradScale",
    "QuantSpec",
    "Recipe",
    "RecipeReport",
    "Record",
    "Recorder",
    "ReportRow",
    "RoundsNothing",
    "SequenceBatches",
    "Step",
    "Switch",
    "Trainer",
    "UnseenProductWarning",
    "Update",
    "bits_report",
    "caught_inputs",
    "change_in_order",
    "compare",
    "default_loss",
    "dequantize_model",
    "digits_split",
    "export_onnx",
    "float32",
    "gradient_projection",
    "gradients_only",
    "inference_recipe",
    "load_quantizer_state",
    "make_optimizer",
    "quantize_for_inference",
    "quantize_model",
    "quantizer_state",
    "recipe_report",
    "recipes",
    "retune_batchnorm",
    "sensitivity",
    "step_seconds",
    "switch_recipe",
    "tasks",
    "train_epochs",
    "train_fixed_point",
    "train_in_lockstep",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _LAZY:
        raise package_error(__name__, name, __all__)
    module = f"{__name__}.{_LAZY[name]}"
    try:
        is_module = name in ("recipes", "tasks")
        value = import_module(f"{module}.{name}") if is_module else getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name == "torch":
            raise ImportError(f"lplab.training.{name} needs PyTorch: pip install 'lplab[torch]'") from error
        if error.name == "onnx":
            raise ImportError(f"lplab.training.{name} needs onnx: pip install 'lplab[export]'") from error
        raise
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
