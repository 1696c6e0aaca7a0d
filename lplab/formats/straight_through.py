"""Gradients through rounding: the straight-through estimator for torch tensors."""

from __future__ import annotations

from typing import Any

from lplab.formats.counter_rng import seed_to_int
from lplab.formats.inputs import is_torch
from lplab.formats.rounding import Rounding, as_rounding


def straight_through(
    fmt: Any, x: Any, rounding: str | Rounding = "nearest_even", seed: Any = None, *, clip: bool = False, axis: int = -1
) -> Any:
    """Round a torch tensor; in the backward pass treat rounding as the identity (Bengio et al. 2013).

    The true gradient of rounding is zero almost everywhere, so no parameter would be updated.

    Args:
        fmt: any format of this package.
        x: a torch tensor.
        rounding, seed, axis: as in ``fmt.quantize``.
        clip: set the gradient to zero where x lies outside the range of the format (the estimator of PACT and DoReFa).

    Raises:
        TypeError: x is not a torch tensor.

    >>> import torch
    >>> from lplab.formats import get
    >>> x = torch.tensor([0.3, 1000.0], requires_grad=True)
    >>> straight_through(get("e4m3fn"), x, clip=True).sum().backward()
    >>> x.grad
    tensor([1., 0.])
    """
    if not is_torch(x):
        raise TypeError(
            f"straight_through takes a torch tensor, got {type(x).__name__}; use fmt.quantize for other kinds"
        )
    from lplab.formats import tensors

    rounding = as_rounding(rounding)
    number = seed_to_int(seed) if rounding.is_stochastic else 0
    limits = (fmt.min, fmt.max) if clip else None
    return tensors.straight_through(fmt.prepared_roundings.of(rounding, x.dtype), x, number, axis, limits)
