"""LSQ: a learned step size (Esser et al. 2020, arXiv 1902.08153). For comparison with PACT and SAWB.

Unlike PACT's α, the step also gets a gradient from the rounding inside the range. The formulas are from memory of the
paper, checked against torch's learnable fake quantization.

ParetoQ (Liu et al. 2025, arXiv:2502.02631) trains language models so. Its 3 and 4 bits are LSQ's integers. Its two bits
have no zero: ±1/2 and ±3/2 of a step, SAWB's four levels; its three levels are −1, 0 and 1. Its clip α is 2^(bits − 1)
steps at two bits and 3/2 steps at three levels. Gradients pass up to α there (in its code up to 0.99 α), and one α a
row is trained; here one step a tensor.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from lplab.checks import check_int, check_positive
from lplab.formats import IntFormat
from lplab.quantizers import array_inputs
from lplab.quantizers.reductions import finite_row_maxima
from lplab.quantizers.sawb import sawb_clip
from lplab.quantizers.scalar_parameter import scalar_parameter_backward
from lplab.quantizers.scaling import bounded

MIN_STEP = 1e-8  # our choice: the paper does not say how the step stays positive
KINDS = {
    "full_range": "−2^(bits − 1) … 2^(bits − 1) − 1, or 0 … 2^bits − 1 without a sign",
    "no_zero": "2^bits levels half-way between integers",
    "ternary": "−1, 0, 1; bits must be 2",
}
"""The levels, in steps."""


def lsq_format(bits: int = 4, signed: bool = True) -> IntFormat:
    """The integers of LSQ: −2^(bits − 1) … 2^(bits − 1) − 1, or 0 … 2^bits − 1 for activations after a ReLU.

    >>> lsq_format(4).range, lsq_format(2, signed=False).range
    ((-8, 7), (0, 3))
    """
    return IntFormat(check_int("bits", bits, 2 if signed else 1, 16), signed=signed)


def _levels(bits: int, signed: bool, kind: str) -> tuple[IntFormat, float]:
    """The integers of a kind, and what is added to each to give a level."""
    if kind not in KINDS:
        raise ValueError(f"unknown kind {kind!r}; allowed: {', '.join(KINDS)}")
    if kind == "ternary" and bits != 2:
        raise ValueError(f"three levels need bits=2, got bits={bits}")
    if kind != "full_range" and not signed:
        raise ValueError(f"levels of the kind {kind!r} need signed=True")
    format = IntFormat(2, symmetric=True) if kind == "ternary" else lsq_format(bits, signed)
    return format, 0.5 if kind == "no_zero" else 0.0


@array_inputs.no_torch_compile
def lsq_forward(x: Any, step: float, bits: int = 4, *, signed: bool = True, kind: str = "full_range") -> Any:
    """Round(clip(x/step))·step, ties to even.

    Args:
        x: numpy array, torch tensor (no gradient is recorded; see :class:`~modules.LSQ`), number or list.
        step: the step size, a positive number.
        bits, signed: as :func:`lsq_format`.
        kind: a key of :data:`KINDS`: which levels.

    Returns:
        The kind, shape, dtype and device of x. NaN stays NaN, infinity saturates.

    Raises:
        ValueError: the step is not positive and finite, bits out of range, or an unknown kind.

    >>> lsq_forward([-9.0, 0.3, 0.8, 9.0], step=0.5, bits=3)
    array([-2. ,  0.5,  1. ,  1.5])
    >>> lsq_forward([-9.0, -0.1, 0.1, 0.6], step=0.5, bits=2, kind="no_zero")
    array([-0.75, -0.25,  0.25,  0.75])
    """
    xp, array, close = array_inputs.to_working_array(x)
    format, shift = _levels(bits, signed, kind)
    scale = float(array_inputs.number_like(xp, array, bounded(check_positive("step", step))))
    if shift:
        codes = xp.clip(xp.round(array / array_inputs.number_like(xp, array, scale) - shift), *format.range)
        return close((codes + shift) * array_inputs.number_like(xp, array, scale))
    return close(replace(format, scale=scale).quantize(array))


@array_inputs.no_torch_compile
def lsq_backward(
    x: Any, step: float, gradient: Any, bits: int = 4, *, signed: bool = True, kind: str = "full_range"
) -> tuple[Any, Any]:
    """The gradients of the loss for x and for the step, given the one for the output.

    ∂y/∂x = 1 where lowest < x/step < highest, else 0. ∂y/∂step = round(x/step) − x/step there, else the lowest or the
    highest integer; summed over all elements and scaled by 1/√(count · highest), so that the step learns as
    fast as the weights. A NaN in x has no gradient for either. With levels of ParetoQ, x has its gradient up to half a
    step beyond the outermost levels.

    Returns:
        The gradient for x, of the kind and dtype of ``gradient``; and the one for the step as a float: elements in the
        working dtype, summed in float64, rounded, scaled.

    >>> lsq_backward(np.array([-9.0, 0.3, 9.0]), 1.0, np.array([1.0, 1.0, 1.0]), bits=2)[0]
    array([0., 1., 0.])
    """
    format, shift = _levels(bits, signed, kind)
    low, high = format.range
    beyond = 0.0 if kind == "full_range" else 0.5

    def slopes(xp: Any, part: Any) -> tuple[Any, Any]:
        quotient = part / array_inputs.number_like(xp, part, bounded(check_positive("step", step)))
        quotient = quotient - shift if shift else quotient
        inside = (quotient > low - beyond) & (quotient < high + beyond)
        with np.errstate(invalid="ignore"):  # infinity − infinity, where the other branch is taken
            for_step = xp.where(inside, xp.round(quotient) - quotient, xp.clip(quotient, low, high) + shift)
        return inside, xp.where(xp.isnan(quotient), xp.zeros_like(for_step), for_step)

    for_x, total = scalar_parameter_backward(x, gradient, slopes)
    return for_x, total / math.sqrt(max(math.prod(np.shape(x)), 1) * (high + shift))


@array_inputs.no_torch_compile
def lsq_step(x: Any, bits: int = 4, *, signed: bool = True, kind: str = "full_range") -> float:
    """The step to start from: 2·E|x|/√(highest integer). Finite elements count; 1 where all are zero.

    With levels of ParetoQ the first α is the largest magnitude.

    >>> lsq_step([-1.0, 1.0], bits=2), lsq_step([-1.0, 0.25], bits=2, kind="no_zero")
    (2.0, 0.5)
    """
    _levels(bits, signed, kind)
    if kind != "full_range":
        xp, array, _ = array_inputs.to_working_array(x)
        top = float(finite_row_maxima(xp, array_inputs.as_rows(array, None))[0])
        return bounded(top / (3 / 2 if kind == "ternary" else 2 ** (bits - 1))) if top else 1.0
    mean = sawb_clip(x, 1)
    step = 2 * mean / math.sqrt(lsq_format(bits, signed).range[1])
    return bounded(step) if mean else 1.0
