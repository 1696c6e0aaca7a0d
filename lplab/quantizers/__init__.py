"""How a tensor meets a format: scale, clip, phase.

Input may be a numpy array, torch tensor, number or list; the result has the same kind. Stateless quantizers are frozen
dataclasses; those with state (:class:`DelayedScaling`, :class:`GradScale`, :class:`DynamicLossScale`) are objects that
you hold. numpy is enough; torch is imported on the first tensor or when a trainable module is used.

For language models: weights by GPTQ (:func:`gptq_round`) or AWQ (:func:`awq_scales`), outliers by SmoothQuant
(:func:`smoothing_factors`) or LLM.int8 (:func:`llm_int8`), the KV cache by KIVI (:class:`KIVI`), bits per weight
(:func:`bits_per_weight`). ``lplab.training.quantize_for_inference`` rounds whole models.

>>> from lplab import quantizers as Q
>>> Q.Quantizer("int4", Q.Amax()).quantize([0.1, -0.7, 0.26])
array([ 0.1, -0.7,  0.3])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lplab.lookup import package_error
from lplab.quantizers.awq import awq_clipped, awq_scales
from lplab.quantizers.delayed_scaling import AmaxHistory, DelayedScaling
from lplab.quantizers.dorefa import dorefa_activations, dorefa_weights, dorefa_weights_backward
from lplab.quantizers.four_bit_grids import GRADIENT_GRIDS, FourBitGrid, GridEffect, grid_effect
from lplab.quantizers.gptq import gptq_round, input_hessian
from lplab.quantizers.gradscale import GradScale
from lplab.quantizers.hadamard import NVFP4_SIGNS, Hadamard
from lplab.quantizers.kv_cache import KIVI
from lplab.quantizers.layer_inputs import LayerInput, llm_int8
from lplab.quantizers.loss_scaling import ConstantLossScale, DynamicLossScale, all_finite
from lplab.quantizers.lsq import lsq_backward, lsq_format, lsq_forward, lsq_step
from lplab.quantizers.luq import LUQ
from lplab.quantizers.min_mse import MinMSE
from lplab.quantizers.pact import pact_alpha, pact_backward, pact_forward, pact_penalty
from lplab.quantizers.pre_scaled import PreScaled
from lplab.quantizers.quantizer import Quantizer
from lplab.quantizers.radix4 import Radix4, two_phase
from lplab.quantizers.rotation import random_rotation, rotate_reader, rotate_writer, without_mean
from lplab.quantizers.sawb import SAWB, SAWB_ROWS, SAWBRow, sawb_clip, sawb_scale
from lplab.quantizers.scaling import Amax, Percentile, Scaling
from lplab.quantizers.smoothing import smoothing_factors
from lplab.quantizers.stored_weights import STORED_WEIGHTS, StoredWeights, bits_per_weight
from lplab.quantizers.weight_grid import WeightGrid

if TYPE_CHECKING:  # for editors and type checkers, which do not see __getattr__
    from lplab.quantizers.modules import LSQ, PACT, parameter_groups

_WITH_TORCH = ("LSQ", "PACT", "parameter_groups")
__all__ = [
    "GRADIENT_GRIDS",
    "KIVI",
    "LSQ",
    "LUQ",
    "NVFP4_SIGNS",
    "PACT",
    "SAWB",
    "SAWB_ROWS",
    "STORED_WEIGHTS",
    "Amax",
    "AmaxHistory",
    "ConstantLossScale",
    "DelayedScaling",
    "DynamicLossScale",
    "FourBitGrid",
    "GradScale",
    "GridEffect",
    "Hadamard",
    "LayerInput",
    "MinMSE",
    "Percentile",
    "PreScaled",
    "Quantizer",
    "Radix4",
    "SAWBRow",
    "Scaling",
    "StoredWeights",
    "WeightGrid",
    "all_finite",
    "awq_clipped",
    "awq_scales",
    "bits_per_weight",
    "dorefa_activations",
    "dorefa_weights",
    "dorefa_weights_backward",
    "gptq_round",
    "grid_effect",
    "input_hessian",
    "llm_int8",
    "lsq_backward",
    "lsq_format",
    "lsq_forward",
    "lsq_step",
    "pact_alpha",
    "pact_backward",
    "pact_forward",
    "pact_penalty",
    "parameter_groups",
    "random_rotation",
    "rotate_reader",
    "rotate_writer",
    "sawb_clip",
    "sawb_scale",
    "smoothing_factors",
    "two_phase",
    "without_mean",
]


def __getattr__(name: str) -> Any:
    """Import the trainable modules, and torch with them, on first use (PEP 562)."""
    if name not in _WITH_TORCH:
        raise package_error("lplab.quantizers", name, __all__)
    try:
        return getattr(import_module("lplab.quantizers.modules"), name)
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] != "torch":
            raise
        hint = f"lplab.quantizers.{name} trains, so it needs torch: pip install 'lplab[torch]'"
        raise ModuleNotFoundError(hint, name=error.name) from error


def __dir__() -> list[str]:
    return sorted(__all__)
