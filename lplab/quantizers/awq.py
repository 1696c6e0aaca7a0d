"""AWQ: scale the weights of large inputs up before rounding, and down again after (Lin et al. 2023, arXiv:2306.00978).

Weights whose inputs are large matter most. A weight that is multiplied by s > 1 before it is rounded has an error of
1/s of before, as long as the scale of its group stays. How strongly inputs decide, s = (mean |x|)^r, is searched by the
error of the layer's output.

Reading: the error is that of the layers which share the input, not of the whole block around them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.checks import check_int
from lplab.quantizers import array_inputs
from lplab.quantizers.weight_grid import WeightGrid, in_dtype_of, in_float64

POINTS = 20  # exponents r = 0, 1/20 … 19/20, and ranges 1, 19/20 … that are tried
LEAST = 1e-4
NARROWEST = 0.5


def awq_scales(w: Any, x: Any, grid: WeightGrid, points: int = POINTS) -> Any:
    """The factors s of the inputs with the least error of the output x · (Q(w s) / s)ᵀ.

    Args:
        w: matrix [outputs, inputs]; of several layers with one input, one below the other.
        x: their inputs [..., inputs].
        grid: what is rounded to; as published ``WeightGrid(4, 128, "asymmetric_awq")``.
        points: exponents r that are tried; r = 0, which changes nothing, is the first.

    Returns:
        float64 [inputs], the kind of w; √(largest · smallest) is 1.

    Raises:
        ValueError: x has other inputs than w, or none.

    >>> w, x = np.array([[0.1, 1.0, 0.6, -1.0]]), np.array([[9.0, 0.1, 0.1, 0.1]])
    >>> s = awq_scales(w, x, WeightGrid(3, None, "symmetric"))
    >>> bool(s[0] > s[1])
    True
    """
    check_int("points", points, 1, 1000)
    xp, matrix, rows = _operands(w, x)
    importance = xp.abs(rows).mean(0)
    second = rows.T @ rows
    least, best = np.inf, xp.ones_like(importance)
    for step in range(points):
        scales = xp.clip(importance ** (step / points), LEAST, None)
        scales = scales / (scales.max() * scales.min()) ** 0.5
        change = grid.quantize(matrix * scales) / scales - matrix
        error = float(((change @ second) * change).sum())
        if error < least:
            least, best = error, scales
    return array_inputs.to_kind_of(w, best)


def awq_clipped(w: Any, x: Any, grid: WeightGrid, points: int = POINTS) -> Any:
    """Weights whose groups are clipped to the share of their largest magnitude that gives the least output error.

    The shares are 1, 1 − 1/points … down to above a half. The published code leaves queries and keys as they are.

    Args:
        w, x, grid, points: as :func:`awq_scales`.

    Returns:
        The kind, shape and dtype of w, not rounded yet.

    >>> w = awq_clipped(np.array([[0.1, 0.1, 0.1, 1.0]]), np.array([[1.0, 1, 1, 0.01]]), WeightGrid(2, None))
    >>> bool(w[0, 3] < 1), float(w[0, 0])
    (True, 0.1)
    """
    check_int("points", points, 1, 1000)
    xp, matrix, rows = _operands(w, x)
    groups, inputs = grid.groups_of(matrix), grid.groups_of(rows)
    second = xp.einsum("tgi,tgj->gij", inputs, inputs)
    top = xp.abs(groups).max(-1)[..., None] if xp is np else groups.abs().amax(-1, keepdim=True)
    least, best = xp.full_like(top, np.inf), top
    for step in range(int(points * (1 - NARROWEST))):
        bound = top * (1 - step / points)
        clipped = xp.minimum(xp.maximum(groups, -bound), bound)
        change = grid.nearest(xp, clipped, *grid.fit(xp, clipped)) - groups
        error = xp.einsum("rgi,gij,rgj->rg", change, second, change)[..., None]
        best = xp.where(error < least, bound, best)
        least = xp.minimum(error, least)
    values = xp.minimum(xp.maximum(groups, -best), best).reshape(matrix.shape)
    _, array, close = array_inputs.to_working_array(w)
    return close(in_dtype_of(xp, array, values))


def _operands(w: Any, x: Any) -> tuple[Any, Any, Any]:
    """numpy or torch, w and the rows of x in float64."""
    xp, matrix, _ = array_inputs.to_working_array(w)
    rows = array_inputs.to_working_array(x).x
    if matrix.ndim != 2 or not rows.ndim or rows.shape[-1] != matrix.shape[1] or 0 in rows.shape:
        raise ValueError(f"w [outputs, n] needs inputs [..., n], got {list(matrix.shape)} and {list(rows.shape)}")
    return xp, in_float64(xp, matrix), in_float64(xp, rows.reshape(-1, rows.shape[-1]))
