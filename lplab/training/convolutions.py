"""Convolutions under a recipe: arguments as PyTorch takes them, in one, two or three dimensions.

This module needs PyTorch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from lplab.training.emulation import Emulation
from lplab.training.gemms import Convolution
from lplab.training.untouched import plain


def kinds_of(weight: Tensor, groups: int, transposed: bool) -> frozenset[str]:
    """What the shape of a convolution's weight says of it.

    >>> sorted(kinds_of(torch.zeros(4, 8, 1, 1), groups=1, transposed=False))
    ['pointwise', 'reducing']
    """
    inputs = weight.shape[0] if transposed else weight.shape[1] * groups
    outputs = weight.shape[1] * groups if transposed else weight.shape[0]
    kinds = {"depthwise"} if groups > 1 and groups == inputs else set()
    if all(size == 1 for size in weight.shape[2:]) and not kinds:
        kinds |= {"pointwise", "reducing"} if outputs < inputs else {"pointwise"}
    return frozenset(kinds)


def _each(value: Any, dims: int) -> list[int]:
    return [int(value)] * dims if isinstance(value, int) else [*map(int, value)] * (dims if len(value) == 1 else 1)


def _padded(x: Tensor, weight: Tensor, padding: Any, dilation: list[int], dims: int) -> tuple[Tensor, list[int]]:
    """Padding as numbers; where "same" needs one more on the right, x is padded here."""
    if padding == "valid":
        return x, [0] * dims
    if padding != "same":
        return x, _each(padding, dims)
    totals = [d * (size - 1) for d, size in zip(dilation, weight.shape[2:], strict=True)]
    extra = [total % 2 for total in totals]
    if any(extra):
        x = functional.pad(x, [side for more in reversed(extra) for side in (0, more)])
    return x, [total // 2 for total in totals]


def _handler(dims: int, transposed: bool) -> Any:
    def forward(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, *rest: Any, **named: Any):
        dilation, groups = _rest(("dilation", "groups"), rest, named)
        return input, weight, bias, stride, padding, 0, groups, dilation

    def backward(
        input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, *rest: Any, **named: Any
    ):
        added, groups, dilation = _rest(("output_padding", "groups", "dilation"), rest, named)
        return input, weight, bias, stride, padding, added, groups, dilation

    arguments = backward if transposed else forward

    def convolve(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Tensor:
        x, weight, bias, stride, padding, added, groups, dilation = arguments(*args, **kwargs)
        site = emulation.site("conv", kinds_of(weight, groups, transposed))
        if site.rules.is_identity:
            return plain(site, func, args, kwargs, ("activation", x), ("weight", weight))
        alone = x.ndim == dims + 1
        dilation = _each(dilation, dims)
        x, padding = _padded(x[None] if alone else x, weight, padding, dilation, dims)
        geometry = (_each(stride, dims), padding, dilation, transposed, _each(added, dims), groups)
        y = Convolution.apply(emulation.clipped(x, site), weight, bias, site, geometry)
        return y[0] if alone else y

    return convolve


def _rest(names: tuple[str, ...], rest: tuple, named: dict) -> list[Any]:
    """Arguments by place or by name, with PyTorch's defaults."""
    defaults = {"dilation": 1, "groups": 1, "output_padding": 0}
    given = dict(zip(names, rest, strict=False))
    return [given.get(name, named.get(name, defaults[name])) for name in names]


def convolutions() -> dict[Any, Any]:
    """The handlers of all convolutions of PyTorch, by function."""
    plain = {getattr(torch, f"conv{n}d"): _handler(n, False) for n in (1, 2, 3)}
    return plain | {getattr(torch, f"conv_transpose{n}d"): _handler(n, True) for n in (1, 2, 3)}
