"""A function of PyTorch as it is, where a recipe rounds nothing; shown to whoever watches, without changing a bit.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lplab.training.rounding import Rounded
from lplab.training.site import Site

GRADIENT = {"weight": "weight_gradient", "activation": "input_gradient"}


def plain(site: Site, func: Any, args: tuple, kwargs: dict, *operands: tuple[str, Tensor], open: bool = True) -> Any:
    """The function itself; a watcher is shown operands, output and gradients in the roles that rounding would give.

    Args:
        site: where it is computed.
        func, args, kwargs: the call.
        operands: (role, tensor) of each operand; the second activation of a product has the gradient of a weight, as
            in :class:`~lplab.training.gemms.Product`.
        open: False where ``func`` is no plain product of its operands: their gradients are not shown.
    """
    if site.watch is None:
        return func(*args, **kwargs)
    for role, x in operands:
        show(site, role, x.detach())
    if open and torch.is_grad_enabled():
        args, kwargs = _with_hooks(site, args, kwargs, operands)
    y = func(*args, **kwargs)
    if isinstance(y, Tensor):
        show(site, "output", y.detach())
        if y.requires_grad:
            y.register_hook(shower(site, "output_gradient_dx"))
    return y


def show(site: Site, role: str, x: Tensor) -> None:
    """Show a tensor that was not rounded to whoever still watches."""
    if site.watch is not None:
        site.watch(site, role, x, Rounded(x))


def shower(site: Site, role: str) -> Callable[[Tensor], None]:
    """A hook that shows a gradient."""
    return lambda gradient: show(site, role, gradient)


def _with_hooks(site: Site, args: tuple, kwargs: dict, operands: tuple[tuple[str, Tensor], ...]) -> tuple[tuple, dict]:
    """The arguments, each operand replaced by a view of it whose gradient is that of this call alone."""
    places, named = list(args), dict(kwargs)
    both = [role for role, _ in operands] == ["activation", "activation"]
    for place, (role, x) in enumerate(operands):
        if not x.requires_grad:
            continue
        view = x.view_as(x)
        view.register_hook(shower(site, "weight_gradient" if both and place else GRADIENT[role]))
        where = [i for i, value in enumerate(places) if value is x]
        if where:
            places[where[0]] = view
        else:
            named |= {key: view for key, value in named.items() if value is x}
    return tuple(places), named
