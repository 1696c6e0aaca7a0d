"""Roundings as operators of PyTorch, so that ``torch.jit.trace`` can record them.

A trace records operators. It does not see what a compiled loop writes into memory, and would keep as constants the
scales that are computed from the example. So while a model is traced, each rounding is a call of ``lplab::round``,
which rounds whatever the traced model is given later. The traced model is for inference, in the process that recorded
it.

This module needs PyTorch.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lplab.training.emulation.rounders import Rounded, Rounder

_library = torch.library.Library("lplab", "DEF")
_library.define("round(Tensor x, int rounder, float scale) -> Tensor")
_rounders: list[Rounder] = []


def _round(x: Tensor, rounder: int, scale: float) -> Tensor:
    if rounder >= len(_rounders):
        raise RuntimeError("a traced model under a recipe runs only in the process that traced it; trace it again")
    values = _rounders[rounder](x.detach(), 0, scale).values
    return values.clone() if values is x or values._is_view() else values


_library.impl("round", _round, "CompositeExplicitAutograd")


def recorded(rounder: Rounder) -> Rounder:
    """The same rounding, in a form that a trace records.

    >>> keep_signs = recorded(lambda x, seed, scale: Rounded(x.sign()))
    >>> keep_signs(torch.tensor([-3.0, 2.0]), 0, 1.0).values
    tensor([-1.,  1.])
    """
    if rounder not in _rounders:
        _rounders.append(rounder)
    index = _rounders.index(rounder)
    return lambda x, seed, scale: Rounded(torch.ops.lplab.round(x, index, scale))


def is_tracing() -> bool:
    """Whether ``torch.jit.trace`` is recording."""
    return torch._C._get_tracing_state() is not None
