"""How a tensor meets a format: scale, clip, phase.

numpy arrays, torch tensors, numbers and lists go in, the same kind comes out. What is data is a frozen dataclass; what
has a memory (:class:`DelayedScaling`, :class:`GradScale`, :class:`DynamicLossScale`) is an object that you hold. numpy
is all that is needed; torch is imported when a tensor comes along or a module that trains is asked for.

>>> from lplab import quantizers as Q
>>> Q.Quantizer("int4", Q.Amax()).quantize([0.1, -0.7, 0.26])
array([ 0.1, -0.7,  0.3])
"""

from lplab.quantizers.gradscale import GradScale
from lplab.quantizers.history import AmaxHistory, DelayedScaling, Hindsight
from lplab.quantizers.loss_scaling import ConstantLossScale, DynamicLossScale, all_finite
from lplab.quantizers.luq import Luq
from lplab.quantizers.minimal_error import MinimalError
from lplab.quantizers.quantizer import Quantizer
from lplab.quantizers.radix4 import Radix4, two_phase
from lplab.quantizers.sawb import SAWB_ROWS, Sawb, SawbRow, sawb_scale
from lplab.quantizers.scaling import Amax, Percentile, Scaling

__all__ = [
    "SAWB_ROWS",
    "Amax",
    "AmaxHistory",
    "ConstantLossScale",
    "DelayedScaling",
    "DynamicLossScale",
    "GradScale",
    "Hindsight",
    "Luq",
    "MinimalError",
    "Percentile",
    "Quantizer",
    "Radix4",
    "Sawb",
    "SawbRow",
    "Scaling",
    "all_finite",
    "sawb_scale",
    "two_phase",
]
