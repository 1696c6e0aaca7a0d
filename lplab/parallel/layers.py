"""The LayerInfo of a model's layers, as learners and hooks compress them.

This module needs PyTorch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from lplab.compression import LayerInfo
from lplab.compression.tensors.layers import counted_positions, module_infos
from lplab.training.loop.train_eval_mode import eval_mode


def layer_infos(model: nn.Module, example: Any = None) -> dict[str, LayerInfo]:
    """A :class:`~lplab.compression.LayerInfo` for each trainable parameter, by its name, in the model's order.

    Args:
        model: any module. A shared parameter counts where it occurs first, one without elements not at all.
        example: an input for one forward pass, which counts how often each convolution uses a weight; without it every
            weight counts as used once.

    >>> [info.kind for info in layer_infos(nn.Sequential(nn.Conv2d(1, 8, 3), nn.Linear(8, 2))).values()]
    ['convolution', 'small', 'dense', 'small']
    """
    with counted_positions(model) as positions:
        if example is not None:
            with torch.no_grad(), eval_mode(model):
                model(example)
    return module_infos(model, positions)
