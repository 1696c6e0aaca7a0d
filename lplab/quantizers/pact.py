"""PACT: activations with a trained clip (Choi et al. 2018, arXiv 1805.06085).

Pure functions: the forward pass, the two gradients and the regularization as published. :class:`~modules.PACT` is the
torch module around them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.checks import check_int, check_positive
from lplab.formats import IntFormat
from lplab.quantizers import array_inputs
from lplab.quantizers.quantizer import Quantizer
from lplab.quantizers.reductions import clip_sides
from lplab.quantizers.scalar_parameter import scalar_parameter_backward
from lplab.quantizers.scaling import Percentile

MIN_ALPHA = 1e-3  # our choice: the paper does not say how the clip stays positive


@array_inputs.no_torch_compile
def pact_forward(x: Any, alpha: float, bits: int | None = 4) -> Any:
    """Clip at 0 and α, then round to 2^bits − 1 even steps: round(y·(2^k − 1)/α)·α/(2^k − 1), ties to even.

    Computed as code·step with step = α/(2^k − 1), both in the working dtype of x.

    Args:
        x: numpy array, torch tensor (no gradient is recorded; see :class:`~modules.PACT`), number or list.
        alpha: the clip α, a positive number. Below 0.001 it counts as 0.001.
        bits: k, 1 to 16; None clips and does not round.

    Returns:
        The kind, shape, dtype and device of x. NaN stays NaN, infinity becomes α, −infinity 0.

    Raises:
        ValueError: α is not positive and finite, or bits out of range.

    >>> pact_forward([-1, 1.6, 1.7, 4.9, 5.1, 9, 12], alpha=10.0, bits=2).round(4)
    array([ 0.    ,  0.    ,  3.3333,  3.3333,  6.6667, 10.    , 10.    ])
    """
    xp, array, close = array_inputs.to_working_array(x)
    clip = _clip(xp, array, alpha)
    if bits is None:
        return close(xp.clip(array, clip * 0, clip))
    levels = 2 ** check_int("bits", bits, 1, 16) - 1
    step = float(clip / xp.full_like(clip, levels))
    return close(IntFormat(bits, signed=False, scale=step).quantize(array))


@array_inputs.no_torch_compile
def pact_backward(x: Any, alpha: float, gradient: Any) -> tuple[Any, Any]:
    """The gradients of the loss for x and for α, given the one for the output.

    ∂y/∂x = 1 for 0 ≤ x < α, else 0. ∂y/∂α = 1 for x ≥ α, else 0, summed over all elements: the rounding inside the
    range contributes nothing (unlike LSQ). A NaN in x has no gradient for either.

    Args:
        x: the input.
        alpha: the clip, as in :func:`pact_forward`.
        gradient: of the output, in the kind and shape of x.

    Returns:
        The gradient for x, of the kind and dtype of ``gradient``; and the one for α as a float, summed in float64 and
        rounded to the working dtype.

    >>> pact_backward(np.array([-1.0, 0.0, 2.0, 4.0, 5.0]), 4.0, np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    (array([0., 2., 3., 0., 0.]), 9.0)
    """

    def slopes(xp: Any, part: Any) -> tuple[Any, Any]:
        inside, above, _ = clip_sides(part, _clip(xp, part, alpha), signed=False)
        return inside, above

    return scalar_parameter_backward(x, gradient, slopes)


def _clip(xp: Any, x: Any, alpha: float) -> Any:
    """The clip, at least MIN_ALPHA, as an array without dimensions in the dtype of x."""
    return array_inputs.number_like(xp, x, max(check_positive("alpha", alpha), MIN_ALPHA))


def pact_penalty(alpha: Any, weight_decay: float) -> Any:
    """The regularization of α: weight_decay/2 · α², whose gradient is weight_decay · α.

    The paper takes the coefficient of the weight decay (a little smaller for more bits). For torch optimizers the same
    is a parameter group with its own ``weight_decay``; see :func:`lplab.quantizers.modules.parameter_groups`.

    Args:
        alpha: a number or a torch parameter.
        weight_decay: λ.

    >>> pact_penalty(10.0, 0.0002)
    0.01
    """
    return weight_decay / 2 * alpha * alpha


@array_inputs.no_torch_compile
def pact_alpha(x: Any, percent: float = 99.9) -> float:
    """An initial clip: the magnitude that ``percent`` percent of the positive activations do not exceed.

    The paper starts at 10, far above typical activations; this follows the data. 10 if no activation is positive.

    >>> pact_alpha(np.arange(-100.0, 1001.0))
    999.0
    """
    active = array_inputs.to_numpy(array_inputs.to_working_array(x).x)
    active = active[np.isfinite(active) & (active > 0)]
    if not active.size:
        return 10.0
    return Quantizer(IntFormat(1, signed=False), Percentile(percent)).scale(active)
