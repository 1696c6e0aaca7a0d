"""LSQ: a learned step size (Esser et al. 2020, arXiv 1902.08153). For comparison with PACT and SAWB.

Unlike PACT's α, the step also gets a gradient from the rounding inside the range. The formulas are from memory of the
paper, checked against torch's learnable fake quantization.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lplab.checks import check_int, check_positive
from lplab.formats import IntFormat
from lplab.quantizers import array_inputs
from lplab.quantizers.sawb import sawb_clip
from lplab.quantizers.scalar_parameter import scalar_parameter_backward
from lplab.quantizers.scaling import bounded

MIN_STEP = 1e-8  # our choice: the paper does not say how the step stays positive


def lsq_format(bits: int = 4, signed: bool = True) -> IntFormat:
    """The integers of LSQ: −2^(bits − 1) … 2^(bits − 1) − 1, or 0 … 2^bits − 1 for activations after a ReLU.

    >>> lsq_format(4).range, lsq_format(2, signed=False).range
    ((-8, 7), (0, 3))
    """
    return IntFormat(check_int("bits", bits, 2 if signed else 1, 16), signed=signed)


@array_inputs.no_torch_compile
def lsq_forward(x: Any, step: float, bits: int = 4, *, signed: bool = True) -> Any:
    """Round(clip(x/step))·step, ties to even.

    Args:
        x: numpy array, torch tensor (no gradient is recorded; see :class:`~modules.Lsq`), number or list.
        step: the step size, a positive number.
        bits, signed: as :func:`lsq_format`.

    Returns:
        The kind, shape, dtype and device of x. NaN stays NaN, infinity saturates.

    Raises:
        ValueError: the step is not positive and finite, or bits out of range.

    >>> lsq_forward([-9.0, 0.3, 0.8, 9.0], step=0.5, bits=3)
    array([-2. ,  0.5,  1. ,  1.5])
    """
    xp, array, close = array_inputs.to_working_array(x)
    format = lsq_format(bits, signed)
    scale = float(array_inputs.number_like(xp, array, bounded(check_positive("step", step))))
    return close(IntFormat(format.bits, signed=signed, scale=scale).quantize(array))


@array_inputs.no_torch_compile
def lsq_backward(x: Any, step: float, gradient: Any, bits: int = 4, *, signed: bool = True) -> tuple[Any, Any]:
    """The gradients of the loss for x and for the step, given the one for the output.

    ∂y/∂x = 1 where lowest < x/step < highest, else 0. ∂y/∂step = round(x/step) − x/step there, else the lowest or the
    highest integer; summed over all elements and scaled by 1/√(count · highest), so that the step learns as
    fast as the weights. A NaN in x has no gradient for either.

    Returns:
        The gradient for x, of the kind and dtype of ``gradient``; and the one for the step as a float: elements in the
        working dtype, summed in float64, rounded, scaled.

    >>> lsq_backward(np.array([-9.0, 0.3, 9.0]), 1.0, np.array([1.0, 1.0, 1.0]), bits=2)[0]
    array([0., 1., 0.])
    """
    low, high = lsq_format(bits, signed).range

    def slopes(xp: Any, part: Any) -> tuple[Any, Any]:
        quotient = part / array_inputs.number_like(xp, part, bounded(check_positive("step", step)))
        inside = (quotient > low) & (quotient < high)
        with np.errstate(invalid="ignore"):  # infinity − infinity, where the other branch is taken
            for_step = xp.where(inside, xp.round(quotient) - quotient, xp.clip(quotient, low, high))
        return inside, xp.where(xp.isnan(quotient), xp.zeros_like(for_step), for_step)

    for_x, total = scalar_parameter_backward(x, gradient, slopes)
    return for_x, total / math.sqrt(max(math.prod(np.shape(x)), 1) * high)


@array_inputs.no_torch_compile
def lsq_step(x: Any, bits: int = 4, *, signed: bool = True) -> float:
    """The step to start from: 2·E|x|/√(highest integer). Finite elements count; 1 where all are zero.

    >>> lsq_step([-1.0, 1.0], bits=2)
    2.0
    """
    mean = sawb_clip(x, 1)
    step = 2 * mean / math.sqrt(lsq_format(bits, signed).range[1])
    return bounded(step) if mean else 1.0
