"""The LayerInfo of a module's parameters: kinds from the modules that own them, weight reuse from a forward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from lplab.compression.layer_info import LayerInfo, mark_first, parameter_info

KINDS: tuple[tuple[type[nn.Module] | tuple[type[nn.Module], ...], str], ...] = (
    (_ConvNd, "convolution"),
    ((nn.RNNBase, nn.RNNCellBase), "recurrent"),
    ((nn.Embedding, nn.EmbeddingBag), "embedding"),
)


def trainable_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters with ``requires_grad`` that have elements, by name: those that are trained and sent."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad and p.numel()}


def module_infos(model: nn.Module, weight_reuse: Mapping[str, int]) -> dict[str, LayerInfo]:
    """A :class:`~lplab.compression.LayerInfo` for each trainable parameter, by its name, in the model's order.

    Args:
        model: any module. A shared parameter counts where it occurs first, one without elements not at all.
        weight_reuse: of its convolutions, by name, as :func:`counted_positions` finds it; others count as used once.

    >>> [info.kind for info in module_infos(nn.Sequential(nn.ConvTranspose2d(1, 8, 3), nn.Linear(8, 2)), {}).values()]
    ['convolution', 'small', 'dense', 'small']
    """
    owners = dict(model.named_modules())
    infos = []
    for name, parameter in trainable_parameters(model).items():
        owner = name.rpartition(".")[0]
        kind = next((kind for types, kind in KINDS if isinstance(owners[owner], types)), "dense")
        infos.append(parameter_info(name, parameter.shape, kind, weight_reuse.get(owner, 1)))
    return {info.name: info for info in mark_first(infos)}


@contextmanager
def counted_positions(model: nn.Module) -> Iterator[dict[str, int]]:
    """While the model runs in the block: how often each convolution uses a weight for one example, by its name.

    That is the number of positions in its output; in its input, where it is transposed.
    """
    positions: dict[str, int] = {}

    def record(name: str) -> Callable[[_ConvNd, Any, Any, Tensor], None]:
        def hook(module: _ConvNd, inputs: Any, named: Any, output: Tensor) -> None:
            image = (*inputs, *named.values())[0] if module.transposed else output
            positions[name] = image.shape[-len(module.kernel_size) :].numel()

        return hook

    convolutions = [(name, module) for name, module in model.named_modules() if isinstance(module, _ConvNd)]
    hooks = [module.register_forward_hook(record(name), with_kwargs=True) for name, module in convolutions]
    try:
        yield positions
    finally:
        for hook in hooks:
            hook.remove()
