"""Call a function of PyTorch unchanged where a recipe rounds nothing, and report its tensors to the watcher.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lplab.training.emulation.quantized_op import QuantizedOp
from lplab.training.emulation.rounders import Rounded

GRADIENT = {"weight": "weight_gradient", "activation": "input_gradient"}


def call_observed(
    op: QuantizedOp, func: Any, args: tuple, kwargs: dict, *operands: tuple[str, Tensor], is_product: bool = True
) -> Any:
    """Call the function; report operands, output and gradients to the watcher, in the roles they would be rounded in.

    Args:
        op: the op that computes it.
        func, args, kwargs: the call.
        operands: (role, tensor) of each operand; the second activation of a product has the gradient of a weight, as
            in :class:`~lplab.training.emulation.gemms.Product`.
        is_product: False where ``func`` is no plain product of its operands: their gradients are not reported.
    """
    if op.watch is None:
        return func(*args, **kwargs)
    for role, x in operands:
        show(op, role, x.detach())
    if is_product and torch.is_grad_enabled():
        args, kwargs = _with_hooks(op, args, kwargs, operands)
    y = func(*args, **kwargs)
    if isinstance(y, Tensor):
        show(op, "output", y.detach())
        if y.requires_grad:
            y.register_hook(observer_hook(op, "output_gradient_dx"))
    return y


def show(op: QuantizedOp, role: str, x: Tensor) -> None:
    """Report a tensor that was not rounded, if a watcher is set."""
    if op.watch is not None:
        op.watch(op, role, x, Rounded(x))


def observer_hook(op: QuantizedOp, role: str) -> Callable[[Tensor], None]:
    """A hook that reports a gradient."""
    return lambda gradient: show(op, role, gradient)


def _with_hooks(
    op: QuantizedOp, args: tuple, kwargs: dict, operands: tuple[tuple[str, Tensor], ...]
) -> tuple[tuple, dict]:
    """The arguments, each operand replaced by a view, so that its gradient is that of this call only."""
    positional, named = list(args), dict(kwargs)
    both = [role for role, _ in operands] == ["activation", "activation"]
    for index, (role, x) in enumerate(operands):
        if not x.requires_grad:
            continue
        view = x.view_as(x)
        view.register_hook(observer_hook(op, "weight_gradient" if both and index else GRADIENT[role]))
        where = [i for i, value in enumerate(positional) if value is x]
        if where:
            positional[where[0]] = view
        else:
            named |= {key: view for key, value in named.items() if value is x}
    return tuple(positional), named
