"""The gradients of many learners that share one model: sequentially, or batched in one pass.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from lplab.compression.computed_gradients import ComputedGradients, learners_in_block
from lplab.compression.module_layers import trainable_parameters
from lplab.parallel.batching_check import check_pass_once
from lplab.parallel.stackable_layers import GroupBatchNorm2d, RecurrentLayer

Batch = tuple[Any, Any]
Loss = Callable[[Any, Any], Tensor]


@dataclass(frozen=True, eq=False)
class GradientProducts:
    """The gradients of one weight as products that are not computed yet.

    Attributes:
        rows: gradients of the layer's output: float32 [learners, positions, outputs].
        columns: the layer's inputs: float32 [learners, positions, inputs].
        shape: of the weight.
    """

    rows: Tensor
    columns: Tensor
    shape: torch.Size

    def all(self) -> Tensor:
        """The gradients of all learners: float32 [learners, *shape]."""
        return torch.bmm(self.rows.transpose(1, 2), self.columns).view(-1, *self.shape)

    def when_read(self, buffers: dict[torch.Size, Tensor]) -> ComputedGradients:
        """The gradients, computed as they are read.

        Args:
            buffers: memory of a block, by shape; kept from step to step, because new memory has to be cleared first.
        """
        rows, columns, learners = self.rows.transpose(1, 2), self.columns, len(self.rows)
        block = buffers.get(self.shape)
        if block is None:
            block = rows.new_empty(min(learners_in_block(self.shape), learners), rows.shape[1], columns.shape[2])
            buffers[self.shape] = block

        def compute(first: int, last: int) -> np.ndarray:
            out = torch.bmm(rows[first:last], columns[first:last], out=block[: last - first])
            return out.view(-1, *self.shape).numpy()

        return ComputedGradients(compute, learners, self.shape)

    def bound(self) -> float:
        """What no magnitude of a gradient exceeds, without computing them; NaN or infinity if one may not be finite.

        The factor of 2 covers whatever rounding does to the sums.
        """
        return 2 * self.rows.shape[1] * _largest(self.rows) * _largest(self.columns)

    @property
    def nbytes(self) -> int:
        """The size of all gradients."""
        return 4 * len(self.rows) * self.shape.numel()


@dataclass(frozen=True, eq=False)
class LearnerGradients:
    """Losses and gradients of one step.

    Attributes:
        losses: of each learner, before the update.
        gradients: for each parameter's name float32 [learners, *shape].
        products: those that are left to be computed, also by name; empty unless that was asked for.
    """

    losses: list[float]
    gradients: dict[str, Tensor]
    products: dict[str, GradientProducts] = field(default_factory=dict)

    def bound(self) -> float:
        """What no magnitude of a gradient exceeds, before the products are computed; as for GradientProducts."""
        return sum(map(_largest, self.gradients.values())) + sum(product.bound() for product in self.products.values())


def _largest(values: Tensor) -> float:
    """The largest magnitude; NaN or infinity if a value is not finite, 0 without values."""
    if not values.numel():
        return 0.0
    low, high = torch.aminmax(values)
    return max(-float(low), float(high))


def learner_seed(seed: int, step: int, rank: int) -> int:
    """The seed of one learner in one step, for dropout and the like; the same in simulated and distributed runs."""
    return (seed * 1_000_003 + step * 4099 + rank) % 2**63


def sequential_gradients(
    model: nn.Module, loss: Loss, batches: Sequence[Batch], seeds: Sequence[int]
) -> LearnerGradients:
    """One learner after another: works for every model, and is the reference for the other engine.

    Buffers such as running means are those of rank 0, as in DistributedDataParallel.
    """
    parameters = trainable_parameters(model)
    buffers = [b.clone() for b in model.buffers()]
    losses, rows, rank_0_buffers = [], [], buffers
    with torch.random.fork_rng(devices=[]):
        for rank, ((inputs, targets), seed) in enumerate(zip(batches, seeds, strict=True)):
            torch.manual_seed(seed)
            _restore(model, buffers)
            value = loss(model(inputs), targets)
            gradients = torch.autograd.grad(value, list(parameters.values()), allow_unused=True)
            rows.append(
                [torch.zeros_like(p) if g is None else g for p, g in zip(parameters.values(), gradients, strict=True)]
            )
            losses.append(value.item())
            if rank == 0:
                rank_0_buffers = [b.clone() for b in model.buffers()]
    _restore(model, rank_0_buffers)
    return LearnerGradients(losses, {name: torch.stack([row[i] for row in rows]) for i, name in enumerate(parameters)})


def _restore(model: nn.Module, buffers: Sequence[Tensor]) -> None:
    for buffer, value in zip(model.buffers(), buffers, strict=True):
        buffer.copy_(value)


def batched_gradients(
    model: nn.Module,
    loss: Loss,
    batches: Sequence[Batch],
    seeds: Sequence[int],
    passed: set[Hashable] | None = None,
    leave: Callable[[str, int], bool] = lambda name, nbytes: False,
) -> LearnerGradients:
    """All batches in one forward pass; each layer's input and output gradient then give the gradients of all learners.

    Batches must have equal sizes, along the first dimension. Dropout masks differ from :func:`sequential_gradients`.

    Args:
        model, loss, batches, seeds: as for :func:`sequential_gradients`.
        passed: the cases in which this model has passed :func:`~lplab.parallel.batching_check.check_pass`, which is
            skipped for them; a new one is added. None: the model is checked in each call.
        leave: whether the gradients of a weight are left to be computed, by its name and their size in bytes.

    Raises:
        ValueError: a model for which this is not possible; the message names the layer.
    """
    layers = batchable_layers(model)
    check_pass_once(model, layers, batches[0][0], batches[-1][0][:1], set() if passed is None else passed)
    parameters, learners = trainable_parameters(model), len(batches)
    taps: dict[str, tuple[Tensor, Tensor]] = {}
    hooks = [module.register_forward_hook(_tap(name, taps)) for name, module in layers.items()]
    for parameter in parameters.values():
        parameter.requires_grad_(False)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seeds[0])
            output = model(torch.cat([inputs for inputs, _ in batches]))
        parts = output.chunk(learners) if len(batches) > 1 else (output,)
        losses = [loss(part, targets) for part, (_, targets) in zip(parts, batches, strict=True)]
        torch.stack(losses).sum().backward()
    finally:
        for hook in hooks:
            hook.remove()
        for parameter in parameters.values():
            parameter.requires_grad_(True)
    gradients: dict[str, Tensor] = {}
    products: dict[str, GradientProducts] = {}
    for name, module in layers.items():
        for key, gradient in (_of_layer(module, *taps[name], learners) if name in taps else {}).items():
            parameter = f"{name}.{key}" if name else key
            if isinstance(gradient, Tensor):
                gradients[parameter] = gradient
            elif leave(parameter, gradient.nbytes):
                products[parameter] = gradient
            else:
                gradients[parameter] = gradient.all()
    for name in parameters.keys() - gradients.keys() - products.keys():
        gradients[name] = parameters[name].new_zeros(learners, *parameters[name].shape)
    ordered = {name: gradients[name] for name in parameters if name in gradients}
    return LearnerGradients([value.item() for value in losses], ordered, products)


def _tap(name: str, taps: dict[str, tuple[Tensor, Tensor]]) -> Any:
    """A forward hook that stores a layer's input, and later the gradient of its output."""

    def hook(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if name in taps:
            raise ValueError(f"layer {name!r} is used twice in a pass: use engine='loop'")
        if not output.requires_grad:
            output.requires_grad_()
        taps[name] = (inputs[0].detach(), output)
        output.register_hook(lambda gradient: taps.__setitem__(name, (inputs[0].detach(), gradient)))

    return hook


def batchable_layers(model: nn.Module) -> dict[str, nn.Module]:
    """The layers with trainable parameters, by name.

    Raises:
        ValueError: one of them cannot be batched, or two share a parameter.
    """
    layers, seen = {}, set()
    for name, module in model.named_modules():
        own = [p for p in module.parameters(recurse=False) if p.requires_grad]
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            raise ValueError(
                f"{name}: BatchNorm would mix the learners' statistics; use engine='loop', or GroupBatchNorm2d"
            )
        if not own:
            continue
        if type(module) not in RULES:
            allowed = ", ".join(sorted(t.__name__ for t in RULES))
            layer = f"{name or 'the model'}: {type(module).__name__}"
            raise ValueError(f"{layer} cannot be stacked, only {allowed}; use engine='loop'")
        if any(id(p) in seen for p in own):
            raise ValueError(f"{name} shares a parameter with another layer; use engine='loop'")
        seen |= {id(p) for p in own}
        layers[name] = module
    return layers


def _of_layer(module: nn.Module, x: Tensor, gradient: Tensor, learners: int) -> dict[str, Tensor | GradientProducts]:
    gradients = RULES[type(module)](module, x.unflatten(0, (learners, -1)), gradient.unflatten(0, (learners, -1)))
    own = {name for name, p in module.named_parameters(recurse=False)}
    return {name: g for name, g in gradients.items() if name in own}


def _linear(module: Any, x: Tensor, gradient: Tensor) -> dict[str, Tensor | GradientProducts]:
    rows, columns = gradient.flatten(1, -2), x.flatten(1, -2)
    return {"weight": GradientProducts(rows, columns, module.weight.shape), "bias": rows.sum(1)}


def _convolution(module: Any, x: Tensor, gradient: Tensor) -> dict[str, Tensor | GradientProducts]:
    if module.groups != 1 or module.padding_mode != "zeros" or isinstance(module.padding, str):
        raise ValueError("convolutions with groups or padding by name cannot be stacked; use engine='loop'")
    learners = x.shape[0]
    patches = functional.unfold(x.flatten(0, 1), module.kernel_size, module.dilation, module.padding, module.stride)
    columns = patches.unflatten(0, (learners, -1)).transpose(2, 3).flatten(1, 2)  # [learners, positions, inputs]
    rows = gradient.flatten(3).transpose(2, 3).flatten(1, 2)  # [learners, positions, outputs]
    return {"weight": GradientProducts(rows, columns, module.weight.shape), "bias": rows.sum(1)}


def _embedding(module: Any, x: Tensor, gradient: Tensor) -> dict[str, Tensor | GradientProducts]:
    learners, (vocabulary, width) = x.shape[0], module.weight.shape
    weight = gradient.new_zeros(learners * vocabulary, width)
    indices = x.flatten(1) + vocabulary * torch.arange(learners)[:, None]
    weight.index_add_(0, indices.flatten(), gradient.reshape(-1, width))
    return {"weight": weight.unflatten(0, (learners, vocabulary))}


def _layer_norm(module: Any, x: Tensor, gradient: Tensor) -> dict[str, Tensor | GradientProducts]:
    normalized = tuple(range(x.ndim - len(module.normalized_shape), x.ndim))
    others = tuple(range(1, x.ndim - len(normalized)))
    normal = (x - x.mean(normalized, keepdim=True)) * torch.rsqrt(
        x.var(normalized, unbiased=False, keepdim=True) + module.eps
    )
    return {"weight": (gradient * normal).sum(others), "bias": gradient.sum(others)}


def _group_batch_norm(module: Any, x: Tensor, gradient: Tensor) -> dict[str, Tensor | GradientProducts]:
    if x.shape[1] % module.examples:
        raise ValueError(f"groups of {module.examples} examples would mix learners with {x.shape[1]} examples each")
    of_weight, of_bias = (each.unflatten(0, (len(x), -1)).sum(1) for each in module.tape)
    return {"weight": of_weight, "bias": of_bias}


def _recurrence(module: Any, x: Tensor, gradient: Tensor) -> dict[str, Tensor | GradientProducts]:
    rows, states = (each.unflatten(0, (len(x), -1)).flatten(1, 2) for each in module.tape)
    return {
        "weight_in": GradientProducts(rows, x.flatten(1, 2), module.weight_in.shape),
        "weight_state": GradientProducts(rows, states, module.weight_state.shape),
        "bias": rows.sum(1),
    }


RULES: dict[type[nn.Module], Callable[[Any, Tensor, Tensor], dict[str, Tensor | GradientProducts]]] = {
    nn.Linear: _linear,
    nn.Conv2d: _convolution,
    nn.Embedding: _embedding,
    nn.LayerNorm: _layer_norm,
    GroupBatchNorm2d: _group_batch_norm,
    RecurrentLayer: _recurrence,
}
"""The gradients of all learners from a layer's input and the gradient of its output; a new layer is a new row."""

ENGINES: dict[str, Callable[..., LearnerGradients]] = {
    "loop": sequential_gradients,
    "stacked": batched_gradients,
}
