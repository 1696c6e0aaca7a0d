"""Check whether the learners of a model can be batched in one pass, with one learner's batch and one more example.

Each layer must be given one row for each example, weights must be used only by their own layers, and the output for an
example must not depend on the others. Otherwise the gradients of the learners cannot be separated, and would be
silently wrong.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from lplab.training.loop.train_eval_mode import eval_mode


def check_pass_once(
    model: nn.Module, layers: Mapping[str, nn.Module], inputs: Tensor, other: Tensor, passed: set[Hashable]
) -> None:
    """:func:`check_pass`, skipped where a case with the same layers and inputs of the same shape has passed before.

    The check costs two forward passes of one learner; a training makes it in its first step.

    Args:
        model, layers, inputs, other: as for :func:`check_pass`.
        passed: the cases of this model that have passed; a new one is added.

    >>> layer, passed = nn.Linear(2, 2), set()
    >>> for _ in range(2):
    ...     check_pass_once(layer, {"": layer}, torch.ones(3, 2), torch.zeros(1, 2), passed)
    >>> len(passed)
    1
    """
    case = inputs.shape, inputs.dtype, tuple(layers.items())
    if case not in passed:
        check_pass(model, layers, inputs, other)
        passed.add(case)


@torch.no_grad()
def check_pass(model: nn.Module, layers: Mapping[str, nn.Module], inputs: Tensor, other: Tensor) -> None:
    """Refuse a model whose learners cannot be batched although each of its layers can.

    Two batch sizes are run: another dimension may equal the number of examples by chance, but not both times. Dropout
    is off.

    Args:
        model: whose layers can be batched one by one.
        layers: those with trainable parameters, by name.
        inputs: of one learner.
        other: one example of another learner, with its leading dimension.

    Raises:
        ValueError: a condition is not met; the message names the layer.

    >>> layer = nn.Linear(2, 2)
    >>> check_pass(layer, {"": layer}, torch.ones(3, 2), torch.zeros(1, 2))
    """
    with eval_mode(model), torch.random.fork_rng(devices=[]):
        alone = _output(model, layers, inputs)
        more = _output(model, layers, torch.cat([inputs, other]))
    if not alone.ndim or alone.shape[1:] != more.shape[1:]:
        raise ValueError("the output's rows are not those of its examples, one after another: use engine='loop'")
    tolerance = 1e-3 * float(alone.abs().nan_to_num(posinf=0.0).max()) if alone.numel() else 0.0
    if not torch.allclose(alone, more[: len(alone)], rtol=1e-3, atol=tolerance, equal_nan=True):
        raise ValueError("the output for an example depends on the others of its batch: use engine='loop'")


def _output(model: nn.Module, layers: Mapping[str, nn.Module], batch: Tensor) -> Tensor:
    """The model's output, with checks in each layer."""
    inside: list[str] = []
    with _hooked(layers, len(batch), inside), _OwnUse(layers, inside):
        output: Tensor = model(batch)
    return output


@contextmanager
def _hooked(layers: Mapping[str, nn.Module], examples: int, inside: list[str]) -> Iterator[None]:
    """Record the layer that is running, and refuse one that is not given a row for each example."""

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
    """Refuses operations on a layer's weights outside of that layer that return a tensor."""

    def __init__(self, layers: Mapping[str, nn.Module], inside: list[str]) -> None:
        super().__init__()
        self.inside = inside
        self.names = {id(p): n for n, module in layers.items() for p in module.parameters(recurse=False)}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not self.inside and isinstance(result, Tensor):
            operands = [part for a in args for part in (a if isinstance(a, (list, tuple)) else (a,))]
            for name in (self.names[id(part)] for part in operands if id(part) in self.names):
                raise ValueError(f"the weights of layer {name!r} are also used outside of it: use engine='loop'")
        return result
