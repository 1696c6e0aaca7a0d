"""The LayerInfo of a model's layers: kinds from the modules, weight reuse from one forward pass.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from lplab.compression import LayerInfo
from lplab.parallel.gradients import trainable_parameters
from lplab.training.loop.train_eval_mode import eval_mode

KINDS: tuple[tuple[type[nn.Module] | tuple[type[nn.Module], ...], str], ...] = (
    ((nn.Conv1d, nn.Conv2d, nn.Conv3d), "convolution"),
    (nn.RNNBase, "recurrent"),
    ((nn.Embedding, nn.EmbeddingBag), "embedding"),
)


def layer_infos(model: nn.Module, example: Any = None) -> dict[str, LayerInfo]:
    """A :class:`~lplab.compression.LayerInfo` for each trainable parameter, by its name, in the model's order.

    Args:
        model: any module. A shared parameter counts where it occurs first, one without elements not at all.
        example: an input for one forward pass, which counts the output positions of each convolution; without it
            every weight counts as used once.

    >>> [info.kind for info in layer_infos(nn.Sequential(nn.Conv2d(1, 8, 3), nn.Linear(8, 2))).values()]
    ['convolution', 'small', 'dense', 'small']
    """
    weight_reuse = _weight_reuse(model, example) if example is not None else {}
    owners = {name: module for name, module in model.named_modules()}
    infos: dict[str, LayerInfo] = {}
    for name, parameter in trainable_parameters(model).items():
        owner = name.rpartition(".")[0]
        kind = _kind(owners[owner], parameter)
        first = kind != "small" and all(info.kind == "small" for info in infos.values())
        infos[name] = LayerInfo(name, tuple(parameter.shape), kind, weight_reuse.get(owner, 1), first)
    return infos


def _kind(module: nn.Module, parameter: Tensor) -> str:
    if parameter.ndim < 2:
        return "small"
    return next((kind for types, kind in KINDS if isinstance(module, types)), "dense")


@torch.no_grad()
def _weight_reuse(model: nn.Module, example: Any) -> dict[str, int]:
    """Height × width of the output of each convolution."""
    positions: dict[str, int] = {}

    def record(name: str) -> Callable[[nn.Module, Any, Tensor], None]:
        def hook(module: nn.Module, inputs: Any, output: Tensor) -> None:
            positions[name] = output[0, 0].numel()

        return hook

    convolutions = [(n, m) for n, m in model.named_modules() if isinstance(m, (nn.Conv1d, nn.Conv2d, nn.Conv3d))]
    hooks = [module.register_forward_hook(record(name)) for name, module in convolutions]
    try:
        with eval_mode(model):
            model(example)
    finally:
        for hook in hooks:
            hook.remove()
    return positions
