"""DoReFa: weights through tanh, activations between 0 and 1 (Zhou et al. 2016, arXiv 1606.06160).

For comparison; PACT's paper quantizes its weights this way. The formulas are from memory of the paper. One reading is
ours: max|tanh(w)| counts as a constant in the backward pass.
"""

from __future__ import annotations

from typing import Any

from lplab.checks import check_int
from lplab.quantizers import array_inputs
from lplab.quantizers.pact import pact_forward
from lplab.quantizers.reductions import finite_row_maxima
from lplab.quantizers.sawb import sawb_clip


@array_inputs.no_torch_compile
def dorefa_activations(x: Any, bits: int = 4) -> Any:
    """Numbers rounded to k / (2^bits − 1) and clipped to [0, 1], as PACT does with the clip 1.

    Returns:
        The kind, shape, dtype and device of x. The gradient of a tensor passes where 0 ≤ x ≤ 1.

    Raises:
        ValueError: bits not from 1 to 16.

    >>> dorefa_activations([-0.2, 0.4, 2.0], bits=1).tolist()
    [0.0, 0.0, 1.0]
    """
    values = pact_forward(x, 1.0, check_int("bits", bits, 1, 16))
    return array_inputs.straight_through(x, values, lambda: (x >= 0) & (x <= 1))


@array_inputs.no_torch_compile
def dorefa_weights(w: Any, bits: int = 4) -> Any:
    """2·dorefa_activations(tanh(w)/(2·max|tanh(w)|) + ½) − 1; with one bit sign(w)·E|w|, where zero counts as positive.

    Args:
        w: numpy array, torch tensor, number or list.
        bits: 1 to 16.

    Returns:
        Values in [−1, 1], in the kind, shape, dtype and device of w. NaN stays NaN and is ignored in maximum and mean.
        With more than one bit zero is not a level; a tensor of zeros goes to the level above zero.

    Raises:
        ValueError: bits out of range.

    >>> dorefa_weights([-2.0, -0.1, 0.0, 0.5], bits=2).round(4)
    array([-1.    , -0.3333,  0.3333,  0.3333])
    >>> dorefa_weights([-2.0, 0.0, 1.0], bits=1)
    array([-1.,  1.,  1.])
    """
    check_int("bits", bits, 1, 16)
    xp, array, close = array_inputs.to_working_array(w)
    if array_inputs.requires_gradient(w):
        from lplab.quantizers import autograd

        return autograd.GivenGradient.apply(
            w, lambda x: dorefa_weights(x, bits), lambda x, gradient: dorefa_weights_backward(x, gradient, bits)
        )
    return close(_one_bit(xp, array) if bits == 1 else _many_bits(xp, array, bits))


@array_inputs.no_torch_compile
def dorefa_weights_backward(w: Any, gradient: Any, bits: int = 4) -> Any:
    """The gradient for w: straight through the rounding, then gradient·(1 − tanh²(w))/max|tanh(w)|.

    With one bit it passes straight through, as published.

    >>> dorefa_weights_backward([0.0, 20.0], [1.0, 1.0], bits=2)
    array([1., 0.])
    """
    xp, array, _ = array_inputs.to_working_array(w)
    _, upstream, close = array_inputs.to_working_array(gradient)
    if check_int("bits", bits, 1, 16) == 1:
        return close(upstream)
    squashed, largest = _squash(xp, array)
    return close(upstream * (1 - squashed * squashed) / largest)


def _many_bits(xp: Any, w: Any, bits: int) -> Any:
    squashed, largest = _squash(xp, w)
    return pact_forward(squashed / (largest + largest) + 0.5, 1.0, bits) * 2 - 1


def _one_bit(xp: Any, w: Any) -> Any:
    mean = xp.full_like(w, sawb_clip(w, 1))
    return xp.where(xp.isnan(w), w, xp.where(w >= 0, mean, -mean))


def _squash(xp: Any, w: Any) -> tuple[Any, Any]:
    """tanh(w), and the largest magnitude of it (1 where it is zero).

    Libraries differ in the last bit of tanh. Computed in float64 and rounded to float32 the results are the same.
    """
    squashed = xp.asarray(xp.tanh(xp.asarray(w, dtype=xp.float64)), dtype=w.dtype)
    largest = finite_row_maxima(xp, squashed.reshape(1, -1)).reshape(())
    return squashed, xp.where(largest > 0, largest, xp.ones_like(largest))
