"""SmoothQuant: move the outliers of a layer's inputs into its weights (Xiao et al. 2022, arXiv:2211.10438).

x · wᵀ = (x / s) · (w s)ᵀ for any factors s of the inputs. With s between 1 and the size of the inputs, both operands
are of middling size, and both can be rounded. Behind a norm 1/s goes into the norm's weight and costs nothing; all
layers behind one norm share s.
"""

from __future__ import annotations

from typing import Any

from lplab.checks import check_number
from lplab.quantizers import array_inputs
from lplab.quantizers.weight_grid import in_float64

LEAST = 1e-5


def smoothing_factors(x_max: Any, w_max: Any, alpha: float = 0.5) -> Any:
    """s = max|x_j|^α / max|w_j|^(1 − α) for each input j: divide x by it, multiply the columns of w by it.

    Args:
        x_max: largest magnitude of each input over the calibration data [inputs].
        w_max: largest magnitude of each column of the weights, of all layers that share the input [inputs].
        alpha: 0 to 1: 0 leaves the weights' columns with equal maxima, 1 the inputs.

    Returns:
        float64 [inputs], the kind of ``x_max``. Maxima and factors count as at least 1e-5, as published: an input that
        was always zero has a factor, too.

    Raises:
        ValueError: alpha outside of 0 … 1, shapes that differ, or a maximum that is negative or not finite.

    >>> smoothing_factors([100.0, 1.0], [1.0, 1.0]).tolist()
    [10.0, 1.0]
    """
    if not 0 <= check_number("alpha", alpha) <= 1:
        raise ValueError(f"alpha must be from 0 to 1, got {alpha}")
    xp, x_top, _ = array_inputs.to_working_array(x_max)
    w_top = array_inputs.to_working_array(w_max).x
    if x_top.shape != w_top.shape:
        raise ValueError(f"x_max and w_max must have one shape, got {list(x_top.shape)} and {list(w_top.shape)}")
    x_top, w_top = in_float64(xp, x_top), in_float64(xp, w_top)
    if not all(bool((xp.isfinite(top) & (top >= 0)).all()) for top in (x_top, w_top)):
        raise ValueError("maxima of magnitudes must be finite and at least 0")
    factors = xp.clip(x_top, LEAST, None) ** alpha / xp.clip(w_top, LEAST, None) ** (1 - alpha)
    return array_inputs.to_kind_of(x_max, xp.clip(factors, LEAST, None))
