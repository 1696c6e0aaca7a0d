"""Which modules own the weights of products or lookups, and of which kinds a recipe takes them to be.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn
from torch.nn.utils import parametrize

from lplab.training.emulation.convolutions import convolution_kinds

LAYERS = (
    nn.Linear,
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.ConvTranspose1d,
    nn.ConvTranspose2d,
    nn.ConvTranspose3d,
    nn.Embedding,
    nn.LSTM,
    nn.GRU,
    nn.LSTMCell,
    nn.GRUCell,
    nn.MultiheadAttention,
)

PARAMETRIZATIONS = "parametrizations"
"""The child of a module in which PyTorch keeps what the module's weights are computed from."""


def kinds_of(model: nn.Module, first: str | None = "auto", last: str | None = "auto") -> dict[str, frozenset[str]]:
    """The modules that own the weights of products or lookups, in the order of registration, with their kinds.

    Raises:
        ValueError: ``first`` or ``last`` is no such module.

    >>> kinds_of(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)))
    {'0': frozenset({'first'}), '2': frozenset({'last'})}
    """
    kinds: dict[str, set[str]] = {name: set() for name, module in _modules(model) if _owns_weights(module)}
    tables = [name for name in kinds if isinstance(model.get_submodule(name), nn.Embedding)]
    order = list(kinds)
    products = [name for name in order if name not in tables]
    if first == "auto":
        first = order[0] if order and order[0] not in tables else None
    if last == "auto":
        last = products[-1] if products else None
    for word, name in (("first", first), ("last", last)):
        if name is not None and name not in kinds:
            raise ValueError(f"{word} must be a layer with weights, got {name!r}; allowed: {', '.join(order)}")
        if name is not None:
            kinds[name].add(word)
    for name in order:
        if isinstance(model.get_submodule(name), nn.modules.conv._ConvNd) and _is_shortcut(model, name):
            kinds[name].add("shortcut")
    return {name: frozenset(names) for name, names in kinds.items()}


def _modules(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The modules with their names, but for those that compute the weights of others: parametrizations."""
    return ((name, module) for name, module in model.named_modules() if PARAMETRIZATIONS not in name.split("."))


def _owns_weights(module: nn.Module) -> bool:
    """A layer of PyTorch, or a module without children that owns a matrix (and is no normalization)."""
    if isinstance(module, LAYERS):
        return True
    normalizes = "Norm" in type(module).__name__
    own = [module, *module.parametrizations.values()] if parametrize.is_parametrized(module) else [module]
    matrices = any(p.ndim >= 2 for part in own for p in part.parameters(recurse=False))
    return matrices and not normalizes and not set(module._modules) - {PARAMETRIZATIONS}


def _is_shortcut(model: nn.Module, name: str) -> bool:
    pointwise = all(size == 1 for size in getattr(model.get_submodule(name), "kernel_size", (0,)))
    return pointwise and any(word in name.lower() for word in ("shortcut", "downsample"))


def with_tensor_kinds(module: nn.Module, kinds: frozenset[str]) -> frozenset[str]:
    """The kinds of a layer, with those that follow from its weight; as products know them when they are computed.

    >>> sorted(with_tensor_kinds(nn.Conv2d(8, 4, 1), frozenset({"first"})))
    ['first', 'pointwise', 'reducing']
    """
    if isinstance(module, nn.modules.conv._ConvNd):
        return kinds | convolution_kinds(module.weight, module.groups, module.transposed)
    return kinds | {"embedding"} if isinstance(module, nn.Embedding) else kinds


def is_called(module: nn.Module) -> bool:
    """False for the output of ``nn.MultiheadAttention``: it holds a weight, and attention computes the product itself.

    >>> is_called(nn.Linear(2, 2)), is_called(nn.MultiheadAttention(2, 1).out_proj)
    (True, False)
    """
    return not isinstance(module, nn.modules.linear.NonDynamicallyQuantizableLinear)
