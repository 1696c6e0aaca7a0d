"""A torch module as a workload: its products are recorded in one forward pass."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lplab.hardware.workloads.layer import Layer, Workload
from lplab.hardware.workloads.torch_ops import layer_from_op

if TYPE_CHECKING:
    import torch


def from_module(model: torch.nn.Module, example_input: Any, *, name: str = "", label: str = "") -> Workload:
    """The workload of a module: every product of its forward pass, and the work between, in order.

    The module runs once, without gradients, on the input; all its products are recorded, also those outside
    of submodules (attention, ``torch.matmul``). Products whose second factor is no parameter count as attention.

    Args:
        model: any module; its state is restored afterwards, except for random numbers.
        example_input: a batch of inputs, or a tuple of arguments whose first is one. Sizes are divided by the length of
            its first dimension, which must be the batch.
        name, label: of the workload; by default the class's name.

    Returns:
        The workload, for one example.

    Raises:
        ImportError: there is no torch.
        ValueError: an input without a batch, or a model without a product.

    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(512, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    >>> found = from_module(model, torch.zeros(8, 512))
    >>> [(layer.name, layer.kind, layer.m, layer.n, layer.k) for layer in found.layers if layer.has_product]
    [('0', 'linear', 1, 64, 512), ('2', 'linear', 1, 10, 64)]
    """
    import torch

    arguments = example_input if isinstance(example_input, tuple) else (example_input,)
    first = arguments[0]
    if not isinstance(first, torch.Tensor) or first.ndim < 1 or len(first) < 1:
        raise ValueError("example_input must be a tensor with a batch of at least one example, or a tuple of arguments")
    recorder = _recording_mode(model, len(first))
    with _restored_afterwards(model), torch.no_grad(), recorder:
        model(*arguments)
    layers = _named_ends(_merged(recorder.layers))
    if not any(layer.has_product for layer in layers):
        raise ValueError(f"{type(model).__name__} multiplies no matrices, so there is nothing to speed up")
    word = name or type(model).__name__
    total = sum(p.numel() for p in model.parameters())
    found = Workload(word, label or word, tuple(layers), tokens=1)
    return _with_other_parameters(found, total)


@contextmanager
def _restored_afterwards(model: torch.nn.Module) -> Iterator[None]:
    """Restore mode, buffers (running means) and quantizers after the run, and switch oneDNN off during it.

    Recurrent layers of oneDNN are a single operation, in which no product can be recorded.
    """
    import torch

    was_training = model.training
    before = copy.deepcopy(model.state_dict())  # with its metadata, where a quantized model has its clips and scales
    enabled = bool(torch.backends.mkldnn.set_flags(False)[0])
    try:
        yield
    finally:
        torch.backends.mkldnn.set_flags(enabled)
        model.train(was_training)
        model.load_state_dict(before)


def _with_other_parameters(found: Workload, parameters: int) -> Workload:
    """Put parameters of no recorded operation (only added or scaled by) into a separate layer."""
    rest = parameters - found.parameters
    return replace(found, layers=(*found.layers, Layer("others", "add", weights=rest))) if rest > 0 else found


def _merged(layers: list[tuple[Layer, int]]) -> list[Layer]:
    """Products with the same weights one after the other are time steps of one layer; weights count once."""
    merged: list[Layer] = []
    at: dict[int, int] = {}
    for layer, weight in layers:
        if weight and weight in at and merged[at[weight]].m == layer.m and layer.has_product:
            old = merged[at[weight]]
            inputs, outputs = old.inputs + layer.inputs, old.outputs + layer.outputs
            merged[at[weight]] = replace(old, steps=old.steps + 1, inputs=inputs, outputs=outputs)
            continue
        if weight and weight in at:
            layer = replace(layer, shared=True)
        elif weight:
            at[weight] = len(merged)
        merged.append(layer)
    return merged


def _named_ends(layers: list[Layer]) -> list[Layer]:
    """The first and the last product with weights are exceptions of every recipe."""
    products = [i for i, layer in enumerate(layers) if layer.has_product and layer.kind != "attention"]
    for i, word in zip(products[:1] + products[1:][-1:], ("first", "last"), strict=False):
        layers[i] = replace(layers[i], exception=word)
    return layers


def _recording_mode(model: torch.nn.Module, batch: int) -> Any:
    """A dispatch mode that records every operation, with the name of the module in which it runs."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class RecordingMode(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.layers: list[tuple[Layer, int]] = []
            self.where: list[str] = []
            self.parameters = {p.untyped_storage().data_ptr(): p for p in model.parameters()}
            self.buffers = {b.untyped_storage().data_ptr() for b in model.buffers()}
            self.handles: list[Any] = []
            for name, module in model.named_modules():
                if name:
                    self.handles.append(module.register_forward_pre_hook(self.enter(name)))
                    self.handles.append(module.register_forward_hook(lambda *_: self.where.pop() and None))

        def enter(self, name: str) -> Callable[..., None]:
            return lambda *_: self.where.append(name)

        def __exit__(self, *error: Any) -> None:
            super().__exit__(*error)
            for handle in self.handles:
                handle.remove()

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            name = self.where[-1] if self.where else ""
            moving = [a for a in args if not _is_one_of(a, self.buffers)]  # without running means
            self.layers += layer_from_op(str(func).split(".")[1], moving, out, name, self.parameters, batch)
            return out

    return RecordingMode()


def _is_one_of(value: Any, addresses: set[int]) -> bool:
    storage = getattr(value, "untyped_storage", None)
    return storage is not None and storage().data_ptr() in addresses
