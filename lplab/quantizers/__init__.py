"""How a tensor meets a format: scale, clip, phase.

numpy arrays, torch tensors, numbers and lists go in, the same kind comes out. What is data is a frozen dataclass; what
has a memory (:class:`DelayedScaling`, :class:`GradScale`, :class:`DynamicLossScale`) is an object that you hold. numpy
is all that is needed; torch is imported when a tensor comes along or a module that trains is asked for.

>>> from lplab import quantizers as Q
>>> Q.Quantizer("int4", Q.Amax()).quantize([0.1, -0.7, 0.26])
array([ 0.1, -0.7,  0.3])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lplab.quantizers.dorefa import dorefa_activations, dorefa_weights, dorefa_weights_backward
from lplab.quantizers.four_bits import GRADIENT_GRIDS, GradientGrid, GridEffect, grid_effect
from lplab.quantizers.gradscale import GradScale
from lplab.quantizers.history import AmaxHistory, DelayedScaling, Hindsight
from lplab.quantizers.loss_scaling import ConstantLossScale, DynamicLossScale, all_finite
from lplab.quantizers.lsq import lsq_backward, lsq_format, lsq_forward, lsq_step
from lplab.quantizers.luq import Luq
from lplab.quantizers.minimal_error import MinimalError
from lplab.quantizers.pact import pact_alpha, pact_backward, pact_forward, pact_penalty
from lplab.quantizers.quantizer import Quantizer
from lplab.quantizers.radix4 import Radix4, two_phase
from lplab.quantizers.sawb import SAWB_ROWS, Sawb, SawbRow, sawb_scale
from lplab.quantizers.scaling import Amax, Percentile, Scaling

if TYPE_CHECKING:  # so that editors and type checkers see what __getattr__ serves
    from lplab.quantizers.modules import Lsq, Pact, parameter_groups

_WITH_TORCH = ("Lsq", "Pact", "parameter_groups")
__all__ = [
    "GRADIENT_GRIDS",
    "SAWB_ROWS",
    "Amax",
    "AmaxHistory",
    "ConstantLossScale",
    "DelayedScaling",
    "DynamicLossScale",
    "GradScale",
    "GradientGrid",
    "GridEffect",
    "Hindsight",
    "Lsq",
    "Luq",
    "MinimalError",
    "Pact",
    "Percentile",
    "Quantizer",
    "Radix4",
    "Sawb",
    "SawbRow",
    "Scaling",
    "all_finite",
    "dorefa_activations",
    "dorefa_weights",
    "dorefa_weights_backward",
    "grid_effect",
    "lsq_backward",
    "lsq_format",
    "lsq_forward",
    "lsq_step",
    "pact_alpha",
    "pact_backward",
    "pact_forward",
    "pact_penalty",
    "parameter_groups",
    "sawb_scale",
    "two_phase",
]


def __getattr__(name: str) -> Any:
    """Import the modules that train, and torch with them, the first time that somebody asks for one (PEP 562)."""
    if name not in _WITH_TORCH:
        raise AttributeError(f"module 'lplab.quantizers' has no attribute {name!r}; it has {', '.join(__all__)}")
    try:
        return getattr(import_module("lplab.quantizers.modules"), name)
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] != "torch":
            raise
        hint = f"lplab.quantizers.{name} trains, so it needs torch: pip install 'lplab[torch]'"
        raise ModuleNotFoundError(hint, name=error.name) from error


def __dir__() -> list[str]:
    return sorted(__all__)
