"""The roundings of a recipe in a form that PyTorch's tools record; see :mod:`lplab.formats.recorded`.

A recorded model is for inference, in the process that recorded it.

This module needs PyTorch.
"""

from __future__ import annotations

from lplab.formats.recorded import recorded as record
from lplab.training.emulation.rounders import Rounded, Rounder


def recorded(rounder: Rounder) -> Rounder:
    """The same rounding, in a form that a trace records.

    >>> import torch
    >>> keep_signs = recorded(lambda x, seed, scale: Rounded(x.sign()))
    >>> keep_signs(torch.tensor([-3.0, 2.0]), 0, 1.0).values
    tensor([-1.,  1.])
    """
    return lambda x, seed, scale: Rounded(record(lambda y, s: rounder(y, 0, s).values, rounder, x, scale))
