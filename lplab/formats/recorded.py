"""Rounding as an operator of PyTorch, for the tools that record operators or compute shapes alone.

``torch.jit.trace``, ``make_fx`` and ``torch.export`` record operators. They do not see what a compiled loop writes into
memory, and would keep as constants the scales that are computed from the example. Fake tensors and those of the meta
device have no memory at all. For all of them a rounding is one call of the operator ``lplab::round``, which rounds
whatever the recorded program is given later. Such a program runs in the process that recorded it.

This module imports torch; it is imported when the first tensor is passed.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor

from lplab.formats.torch_privates import (
    FAKE,
    FUNCTIONAL,
    PROXY,
    count_dispatch_modes,
    dispatch_mode,
    forward_derivative_level,
    is_fake,
    open_transform,
    tracing_state,
)

Rounding = Callable[[Tensor, float], Tensor]
"""(tensor without gradient, scale) → the rounded tensor."""
_roundings: dict[int, Rounding] = {}
_numbers: dict[Hashable, int] = {}
LIBRARY = torch.library.Library("lplab", "DEF")
LIBRARY.define("round(Tensor x, int rounding, float scale, float? lowest=None, float? highest=None) -> Tensor")


def _round(x: Tensor, rounding: int, scale: float, lowest: Any = None, highest: Any = None) -> Tensor:
    if rounding not in _roundings:
        raise RuntimeError("a recorded rounding of lplab runs only in the process that recorded it; record it again")
    values = _roundings[rounding](x.detach(), scale)
    return values.clone() if values._is_view() or values.data_ptr() == x.data_ptr() else values


def shape_of_rounded(x: Tensor, *how: Any) -> Tensor:
    """What a rounding of x gives, as far as it is known without numbers: shape, dtype, device and strides."""
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _keep(ctx: Any, inputs: tuple, output: Tensor) -> None:
    ctx.limits = inputs[3:]
    if inputs[3] is not None:
        ctx.save_for_backward(inputs[0])


def _straight_through(ctx: Any, gradient: Tensor) -> tuple:
    if ctx.limits[0] is not None:
        gradient = gradient * is_inside(ctx.saved_tensors[0], ctx.limits)
    return gradient, None, None, None, None


LIBRARY.impl("round", _round, "CompositeExplicitAutograd")
torch.library.register_fake("lplab::round", shape_of_rounded, lib=LIBRARY)
torch.library.register_autograd("lplab::round", _straight_through, setup_context=_keep, lib=LIBRARY)


def is_inside(x: Tensor, limits: tuple[float, float]) -> Tensor:
    """Which elements lie within two limits, as a bool tensor."""
    return (x >= limits[0]) & (x <= limits[1])


def recorded(
    rounding: Rounding, key: Hashable, x: Tensor, scale: float = 1.0, limits: tuple[float, float] | None = None
) -> Tensor:
    """Round by a call that PyTorch records; gradients pass straight through.

    Args:
        rounding: how.
        key: what it is known by: equal keys stand for the same rounding.
        x: the tensor.
        scale: a number for ``rounding``.
        limits: outside of these the gradient is zero.

    >>> recorded(lambda x, scale: x.sign(), "keep signs", torch.tensor([-3.0, 2.0]))
    tensor([-1.,  1.])
    """
    if key not in _numbers:
        _numbers[key] = secrets.randbits(62)  # no number of another process, where it would be another rounding
        _roundings[_numbers[key]] = rounding
    return torch.ops.lplab.round(x, _numbers[key], scale, *(limits or (None, None)))


def is_tracing() -> bool:
    """Whether PyTorch records operators now: ``torch.jit.trace``, ``make_fx``, ``torch.export``; or knows shapes alone.

    >>> is_tracing()
    False
    """
    if tracing_state() is not None:
        return True
    return count_dispatch_modes() > 0 and any(map(dispatch_mode, (PROXY, FAKE, FUNCTIONAL)))


def is_recording() -> bool:
    """Whether PyTorch records operators now, to run them again later.

    >>> is_recording()
    False
    """
    return tracing_state() is not None or (count_dispatch_modes() > 0 and dispatch_mode(PROXY) is not None)


def knows_shapes_alone() -> bool:
    """Whether PyTorch computes with fake tensors now.

    >>> knows_shapes_alone()
    False
    """
    return dispatch_mode(FAKE) is not None


def is_recorded(x: Tensor) -> bool:
    """Whether a rounding of this tensor must be a call of the operator, see :func:`recorded`."""
    return (
        x.is_meta
        or tracing_state() is not None
        or (count_dispatch_modes() > 0 and is_tracing())
        or (type(x) is not Tensor and not has_numbers(x))
    )


def has_numbers(x: Tensor) -> bool:
    """Whether a tensor holds numbers: not on the meta device, and no fake tensor."""
    return not (x.is_meta or (type(x) is not Tensor and is_fake(x)))


def is_transforming() -> bool:
    """Whether ``torch.func`` (vmap, grad, jvp, …) or forward-mode differentiation is going on.

    >>> is_transforming()
    False
    """
    return open_transform() is not None or forward_derivative_level() >= 0


def check_not_traced(what: str) -> None:
    """Refuse what such tools cannot see into: it reads numbers, and computes with them outside of PyTorch.

    Raises:
        NotImplementedError: a tool records or transforms what is computed.

    >>> check_not_traced("encode")
    """
    if is_tracing() or is_transforming():
        raise NotImplementedError(
            f"torch.jit.trace, make_fx, torch.export and torch.func cannot see into {what}: call it outside of them; "
            "Format.quantize works inside"
        )
