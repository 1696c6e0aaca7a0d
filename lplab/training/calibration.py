"""Calibration: what the layers of a model get to see, as it is or while they are rounded one after the other.

Statistics of batch norms are calibrated by ``retune_batchnorm`` of ``inference.py``. This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

Change = Callable[[tuple[str, ...], Tensor], None]


def calibration_batch(batches: Any) -> Tensor:
    """All batches as one tensor, one below the other.

    Args:
        batches: a tensor, or several that differ in their first size only; of tuples the first part is taken.

    Raises:
        ValueError: there is none, or they do not fit together.
        TypeError: something else than tensors.

    >>> calibration_batch([torch.zeros(2, 5), (torch.zeros(1, 5), "targets")]).shape
    torch.Size([3, 5])
    """
    parts = [batches] if isinstance(batches, Tensor) else list(batches)
    parts = [part[0] if isinstance(part, tuple | list) else part for part in parts]
    if not all(isinstance(part, Tensor) for part in parts):
        kinds = ", ".join(dict.fromkeys(type(part).__name__ for part in parts))
        raise TypeError(f"calibration batches must be tensors, or tuples that begin with one, got {kinds}")
    if not parts or not sum(part.numel() for part in parts):
        raise ValueError("calibration needs at least one batch of inputs")
    if len({part.shape[1:] for part in parts}) > 1:
        raise ValueError(f"calibration batches may differ in their first size only, got {_shapes(parts)}")
    return torch.cat(parts)


def _shapes(parts: Sequence[Tensor]) -> str:
    return ", ".join(dict.fromkeys(str(list(part.shape)) for part in parts))


def sharing_layers(model: nn.Module, batch: Tensor, layers: Iterable[str]) -> list[tuple[str, ...]]:
    """The names of layers in the order in which they run; those that are called with one and the same tensor together.

    Queries, keys and values share their input, and so do the gate and the up projection of a Llama.

    Raises:
        ValueError: a layer does not run.

    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> sharing_layers(net, torch.zeros(1, 2), ["2", "0"])
    [('0',), ('2',)]
    """
    found: list[tuple[str, ...]] = []
    seen: list[Tensor] = []

    def add(name: str, x: Tensor) -> None:
        if any(name in group for group in found):
            return
        if seen and seen[-1] is x:
            found[-1] = (*found[-1], name)
        else:
            found.append((name,))
            seen[:] = [x]

    layers = list(layers)
    _run(model, batch, layers, add)
    if unused := [name for name in layers if not any(name in group for group in found)]:
        raise ValueError(f"{unused[0]} does not run on the calibration data: leave it out of layers")
    return found


def caught_inputs(model: nn.Module, batches: Any, layers: Iterable[str]) -> dict[str, Tensor]:
    """The inputs of layers on some batches, in the model as it is.

    Args:
        model: it is put into evaluation mode while it runs.
        batches: as for :func:`calibration_batch`.
        layers: names of modules that are called with one tensor.

    Returns:
        For each layer the rows of all its calls: [rows, inputs].

    >>> caught_inputs(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), [torch.ones(4, 2)], ["1"])["1"].shape
    torch.Size([4, 3])
    """
    found: dict[str, list[Tensor]] = {name: [] for name in layers}
    _run(model, calibration_batch(batches), found, lambda name, x: found[name].append(x.flatten(0, -2).clone()))
    if unused := [name for name, parts in found.items() if not parts]:
        raise ValueError(f"{unused[0]} does not run on the calibration data: leave it out of layers")
    return {name: torch.cat(parts) for name, parts in found.items()}


def change_in_order(model: nn.Module, batches: Any, layers: Iterable[str], change: Change) -> None:
    """Change layers one after the other, each for the inputs that it gets from those which are changed already.

    All batches run through the model as one, once: just before a layer computes, ``change`` may write its weights. So
    this is the "true sequential" order of GPTQ's code. A layer that runs several times is changed at its first call.

    Args:
        model: its weights are changed; it is put into evaluation mode while it runs.
        batches: as for :func:`calibration_batch`; their activations must fit into memory together.
        layers: names.
        change: gets the names of the layers that share an input, and the input [rows, inputs].

    >>> net = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
    >>> def double(names, x):
    ...     print(names, x.tolist())
    ...     _ = [net.get_submodule(name).weight.fill_(2) for name in names]
    >>> change_in_order(net, torch.ones(1, 1), ["0", "1"], double)
    ('0',) [[1.0]]
    ('1',) [[2.0]]
    """
    batch = calibration_batch(batches)
    waiting = {group[0]: group for group in sharing_layers(model, batch[:1], layers)}

    def call(name: str, x: Tensor) -> None:
        if name in waiting:
            change(waiting.pop(name), x.flatten(0, -2))

    _run(model, batch, list(waiting), call)


@torch.no_grad()
def _run(model: nn.Module, batch: Tensor, layers: Iterable[str], call: Callable[[str, Tensor], None]) -> None:
    """Run a model on a batch; ``call`` gets the name and the input of each of the layers just before it computes."""
    modes = {module: module.training for module in model.modules()}
    handles = [
        model.get_submodule(name).register_forward_pre_hook(lambda _, inputs, name=name: call(name, inputs[0]))
        for name in layers
    ]
    model.eval()
    try:
        model(batch)
    finally:
        for handle in handles:
            handle.remove()
        for module, training in modes.items():
            module.training = training
