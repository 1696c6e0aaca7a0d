"""May a model's learners be stacked in one pass? Tried with one learner's batch, and with one example more.

Each layer must be given one row for each example, weights must be used by their own layers alone, and what comes out
for an example must not depend on the others: else the gradients of learners could not be told apart, and would be
wrong without a word.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from lplab.training.modes import evaluating


@torch.no_grad()
def check_pass(model: nn.Module, layers: Mapping[str, nn.Module], inputs: Tensor, other: Tensor) -> None:
    """Refuse a model whose learners cannot be stacked, whatever its layers are.

    Positions, say, may be as many as the examples by chance, but not both times. Dropout is off meanwhile.

    Args:
        model: whose layers can be stacked each by itself.
        layers: those with trained parameters, by name.
        inputs: of one learner.
        other: one example of another learner, with its leading dimension.

    Raises:
        ValueError: what is not as it must be; the message names the layer.

    >>> layer = nn.Linear(2, 2)
    >>> check_pass(layer, {"": layer}, torch.ones(3, 2), torch.zeros(1, 2))
    """
    with evaluating(model), torch.random.fork_rng(devices=[]):
        alone = _output(model, layers, inputs)
        more = _output(model, layers, torch.cat([inputs, other]))
    if not alone.ndim or alone.shape[1:] != more.shape[1:]:
        raise ValueError("the output's rows are not those of its examples, one after another: use engine='loop'")
    room = 1e-3 * float(alone.abs().nan_to_num(posinf=0.0).max()) if alone.numel() else 0.0
    if not torch.allclose(alone, more[: len(alone)], rtol=1e-3, atol=room, equal_nan=True):
        raise ValueError("what comes out for an example depends on the others of its batch: use engine='loop'")


def _output(model: nn.Module, layers: Mapping[str, nn.Module], batch: Tensor) -> Tensor:
    """The model's output; each layer is looked at on the way."""
    inside: list[str] = []
    with _hooked(layers, len(batch), inside), _OwnUse(layers, inside):
        output: Tensor = model(batch)
    return output


@contextmanager
def _hooked(layers: Mapping[str, nn.Module], examples: int, inside: list[str]) -> Iterator[None]:
    """Note which layer is at work, and refuse one that is not given a row for each example."""

    def enter(name: str) -> Callable[[nn.Module, Any], None]:
        def hook(module: nn.Module, args: Any) -> None:
            if len(args[0]) != examples:
                raise ValueError(f"layer {name!r} is not given one row for each example: use engine='loop'")
            inside.append(name)

        return hook

    def leave(module: nn.Module, args: Any, output: Any) -> None:
        inside.pop()

    hooks = [module.register_forward_pre_hook(enter(name)) for name, module in layers.items()]
    hooks += [module.register_forward_hook(leave) for module in layers.values()]
    try:
        yield
    finally:
        for handle in hooks:
            handle.remove()


class _OwnUse(TorchFunctionMode):
    """Refuses to compute with a layer's weights outside of that layer; to ask for their type or shape is allowed."""

    def __init__(self, layers: Mapping[str, nn.Module], inside: list[str]) -> None:
        super().__init__()
        self.inside = inside
        self.names = {id(p): n for n, module in layers.items() for p in module.parameters(recurse=False)}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not self.inside and isinstance(result, Tensor):
            given = [part for a in args for part in (a if isinstance(a, (list, tuple)) else (a,))]
            for name in (self.names[id(part)] for part in given if id(part) in self.names):
                raise ValueError(f"the weights of layer {name!r} are used outside of it, too: use engine='loop'")
        return result
