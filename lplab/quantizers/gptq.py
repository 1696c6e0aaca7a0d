"""GPTQ: round a matrix column by column, and let the columns to come make up for the error (Frantar et al. 2022).

The layer's inputs X decide what an error costs: ‖W X − Q X‖² = Σ over rows of d H dᵀ, with d = w − q and H = X Xᵀ up to
a factor. Where input j is correlated with later inputs, the weights of these can correct a part of w_j's error. The
best change of the rest has a closed form (Optimal Brain Surgeon, Hassibi and Stork 1993); GPTQ gives all rows one order
of columns, so that one Cholesky factor serves them all (arXiv:2210.17323, algorithm 1).

Where the paper leaves a choice: H is summed in float64 (in float32 it may be indefinite). The scale of a group is taken
from the weights as they are when its first column's turn comes. The published code takes a copy from the beginning of
its block of 128 columns, which misses the corrections made since. A row's own scale is taken before the
first column.
"""

from __future__ import annotations

from typing import Any

from lplab.checks import check_at_least
from lplab.quantizers import array_inputs
from lplab.quantizers.weight_grid import WeightGrid, in_dtype_of, in_float64

BLOCK = 128  # columns whose errors are passed on together; for speed alone


def input_hessian(x: Any) -> Any:
    """H = 2/n · Σ x xᵀ of a layer's inputs: the second derivative of its mean squared error by the weights of a row.

    Args:
        x: array or tensor [..., inputs]; n is the product of the other sizes.

    Returns:
        float64 [inputs, inputs].

    Raises:
        ValueError: there is no input, or one is not finite.

    >>> import numpy as np
    >>> input_hessian(np.array([[1.0, 2.0], [1.0, 0.0]]))
    array([[2., 2.],
           [2., 4.]])
    """
    xp, array, _ = array_inputs.to_working_array(x)
    rows = in_float64(xp, array).reshape(-1, array.shape[-1] if array.ndim else 1)
    if not rows.shape[0] or not bool(xp.isfinite(rows).all()):
        raise ValueError(f"inputs must be finite numbers, at least one row of them, got shape {list(array.shape)}")
    return array_inputs.to_kind_of(x, rows.T @ rows * (2 / rows.shape[0]))


def gptq_round(
    w: Any,
    h: Any,
    grid: WeightGrid,
    *,
    damping: float = 0.01,
    by_activation: bool = False,
    static_groups: bool = False,
) -> Any:
    """The weights on a grid, so that the layer's output changes little.

    Args:
        w: matrix [outputs, inputs], as of ``nn.Linear``.
        h: from :func:`input_hessian`, of the inputs that the layer will have, from layers that are rounded already.
        grid: what to round to. For the published 4 bits: ``WeightGrid(4, group=128)``.
        damping: share of the mean diagonal that is added to the diagonal.
        by_activation: columns with large inputs first ("act-order"). Groups stay those of neighbours, so that their
            scales are static then.
        static_groups: take all scales from the weights before the first column.

    Returns:
        The kind, shape, dtype and device of w. An input that was always zero gets weights of zero, as published, or of
        the level that zero is rounded to.

    Raises:
        ValueError: shapes that do not fit, weights that are not finite, all inputs zero, or a Hessian that is not
            positive definite.

    Rounding the first weight up by 0.2 costs less when the second, whose input is the same, goes down by 0.2:

    >>> import numpy as np
    >>> x = np.array([[1.0, 1.0], [1.0, 1.1]])
    >>> gptq_round(np.array([[0.8, 0.7]]), input_hessian(x), WeightGrid(2, None, "symmetric"), damping=0)
    array([[0.8, 0.8]])
    """
    xp, array, close = array_inputs.to_working_array(w)
    if array.ndim != 2 or tuple(h.shape) != (array.shape[1], array.shape[1]):
        raise ValueError(f"a matrix [outputs, n] needs a Hessian [n, n], got {list(array.shape)} and {list(h.shape)}")
    (damping,) = check_at_least(0, damping=damping)
    weights = in_float64(xp, array)
    h = in_float64(xp, array_inputs.to_working_array(h).x)
    if not bool(xp.isfinite(weights).all()):
        raise ValueError("weights must be finite numbers")
    dead = xp.diagonal(h) == 0
    if bool(dead.all()):
        raise ValueError("all inputs of the layer were zero: pass calibration data that reaches it")
    weights[:, dead] = 0
    groups = grid.groups_of(weights)
    scales, zeros = grid.fit(xp, groups)
    static = static_groups or by_activation or grid.group is None
    order = xp.argsort(-xp.diagonal(h)) if by_activation else xp.arange(len(h))
    weights = weights[:, order]
    factor = inverse_factor(xp, h[order][:, order], damping)
    size = groups.shape[-1]
    block = BLOCK if static else size * -(-BLOCK // size)  # no group lies in two blocks
    for start in range(0, len(h), block):
        end = min(start + block, len(h))
        errors = xp.zeros_like(weights[:, start:end])
        for j in range(start, end):
            group = int(order[j]) // size
            if not static and j % size == 0:
                scales[:, group], zeros[:, group] = grid.fit(xp, weights[:, j : j + size])
            column = weights[:, j : j + 1]
            rounded = grid.nearest(xp, column, scales[:, group], zeros[:, group])
            error = (column - rounded) / factor[j, j]
            weights[:, j : j + 1] = rounded
            weights[:, j + 1 : end] -= error * factor[j, j + 1 : end]
            errors[:, j - start] = error[:, 0]
        weights[:, end:] -= errors @ factor[start:end, end:]
    return close(in_dtype_of(xp, array, weights[:, xp.argsort(order)]))


def inverse_factor(xp: Any, h: Any, damping: float) -> Any:
    """U, upper triangular, with Uᵀ U = (H + damping · mean diagonal · 1)⁻¹. Row j: how an error in column j spreads.

    Inputs that were always zero count as independent of all others, with a diagonal of 1.

    Raises:
        ValueError: H is not positive definite.
    """
    diagonal = xp.diagonal(h)
    dead = xp.where(diagonal == 0, xp.ones_like(diagonal), xp.zeros_like(diagonal))
    h = h + xp.diag(dead)
    h = h + xp.diag(xp.ones_like(diagonal)) * (damping * xp.diagonal(h).mean())
    try:
        xp.linalg.cholesky(h)  # the inverse of a matrix that is nearly singular may pass for definite
        return xp.linalg.cholesky(xp.linalg.inv(h)).T
    except xp.linalg.LinAlgError:
        raise ValueError(
            f"the Hessian is not positive definite with damping={damping:g}: calibrate with more rows than the layer "
            f"has inputs ({len(h)}), or raise damping"
        ) from None
