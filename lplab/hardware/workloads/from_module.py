"""A torch module as a workload: its products are recorded in one forward pass."""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lplab.checks import check_int
from lplab.compression import LayerInfo
from lplab.hardware.workloads.tensor_origins import Origins
from lplab.hardware.workloads.torch_ops import RecordedLayer, is_uncounted, layers_of
from lplab.hardware.workloads.workload import Layer, Workload

if TYPE_CHECKING:
    import torch


def from_module(
    model: torch.nn.Module, example_input: Any, *, batch: int | None = None, name: str = "", label: str = ""
) -> Workload:
    """The workload of a module: every product of its forward pass, and the work between, in order.

    The module runs once, in the mode it is in, and needs the memory of a forward pass in training; on the "meta" device
    it needs none. All its products are recorded, also those outside of submodules (attention, ``torch.matmul``). A
    product of a parameter, a buffer, or what is computed from them, is a dense layer or a convolution, and one of two
    factors that both depend on the example is attention.

    - A convolution counts its kernel at every position of its output, a transposed one at every position of its input.
    - A bilinear layer counts as a dense layer of the products of its inputs' elements, a complex product as four real
      ones. Masks, and zeros beside a sequence or image, count as other numbers do.
    - What is expanded or repeated for each example, such as queries, is multiplied for each. In a batch of one that
      cannot be told: it then counts as computed once in a step.
    - Parameters without ``requires_grad`` are not trained: they are ``frozen``, no gradient of them is computed or
      sent. No gradients flow below the first trained parameter. What a checkpoint computes again is not counted.
    - Of a quantized model the products are those of the plain one.

    Operators that multiply and are not counted, such as Fourier transforms, solvers, and sparse products, are warned of
    and named in ``Workload.uncounted``.

    Args:
        model: any module; its state is restored afterwards, except for random numbers.
        example_input: a batch of inputs, a tuple of arguments, or a dict of them by name. A named tuple, such as a
            packed sequence, is one argument.
        batch: examples in it, by which sizes are divided; None: the length of the first dimension of the first tensor.
            It is needed where that is something else, as in a list of images or in sequences with the time first. Rows
            that examples share unevenly, as experts and packed sequences do, are rounded so that layers of one size
            have the right sum; each layer has one at least.
        name, label: of the workload; by default the class's name.

    Returns:
        The workload, for one example.

    Raises:
        ImportError: there is no torch.
        ValueError: an input without a batch, a batch below 1, or a model without a product.

    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(512, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    >>> found = from_module(model, torch.zeros(8, 512))
    >>> [(layer.name, layer.kind, layer.m, layer.n, layer.k) for layer in found.layers if layer.has_product]
    [('0', 'linear', 1, 64, 512), ('2', 'linear', 1, 10, 64)]
    """
    import torch
    from torch.utils._pytree import tree_leaves, tree_map

    from lplab.compression.module_layers import counted_positions, module_infos

    named = dict(example_input) if isinstance(example_input, Mapping) else {}
    arguments = () if named else example_input if type(example_input) is tuple else (example_input,)
    with torch.inference_mode(False):  # what was made in inference mode could not be in a forward pass with gradients
        arguments, named = tree_map(lambda x: x.clone() if _is_inference(x) else x, (arguments, named))
    inputs = [x for x in tree_leaves((arguments, named)) if isinstance(x, torch.Tensor)]
    if not inputs or (batch is None and (inputs[0].ndim < 1 or len(inputs[0]) < 1)):
        raise ValueError(
            "example_input must be a tensor with a batch of at least one example, or a tuple or dict of arguments"
        )
    if any(torch.nn.parameter.is_lazy(x) for x in (*model.parameters(), *model.buffers())):
        raise ValueError(f"{type(model).__name__} has parameters without a shape; call it once on an example before")
    batch = check_int("batch", len(inputs[0]) if batch is None else batch, 1, 2**53)
    recorder = _recording_mode(model, inputs, batch)
    with ExitStack() as stack:
        positions = stack.enter_context(counted_positions(model))
        for context in (_restored_afterwards(model), _plain_operators(model), recorder.names_of(model), recorder):
            stack.enter_context(context)
        model(*arguments, **named)
    uncounted = tuple(recorder.uncounted)
    word = name or type(model).__name__
    if not any(record.layer.has_product for record in recorder.layers):
        besides = f" by operators that are counted, only by {', '.join(uncounted)}" if uncounted else ""
        raise ValueError(f"{type(model).__name__} multiplies no matrices{besides}, so there is nothing to speed up")
    if uncounted:
        warnings.warn(f"{word}: products are not counted in {', '.join(uncounted)}", stacklevel=2)
    layers = _named_ends(_with_weights(_merged(recorder.layers, batch), model, module_infos(model, positions)))
    return Workload(word, label or word, tuple(layers), tokens=1, uncounted=uncounted)


def _is_inference(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and value.is_inference()


@contextmanager
def _restored_afterwards(model: torch.nn.Module) -> Iterator[None]:
    """Restore the modes of all modules, buffers (running means, caches) and quantizers after the run."""
    import torch

    modules = [module for module in model.modules() if not isinstance(module, torch.jit.ScriptModule)]
    places = [(module._buffers, dict(module._buffers)) for module in modules]
    modes = [(module, module.training) for module in model.modules()]
    values = [(buffer, buffer.clone()) for buffer in model.buffers()]  # a state_dict has the persistent ones alone
    before = copy.deepcopy(model.state_dict())  # with its metadata, where a quantized model has its clips and scales
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
        for buffers, original in places:  # a forward pass may put tensors of other shapes in their place
            buffers.clear()
            buffers.update(original)
        for buffer, value in values:
            with torch.inference_mode(buffer.is_inference()), torch.no_grad():
                buffer.copy_(value)
        model.load_state_dict(before)


@contextmanager
def _plain_operators(model: torch.nn.Module) -> Iterator[None]:
    """Let every product be an operator of its own, that knows whether it has gradients.

    Recurrent layers of oneDNN and cuDNN, and the attention of inference, are single operators, in which no product can
    be recorded; so is the rounding of a quantized model.
    """
    import torch

    # of lplab.training, which stands on a higher floor
    emulations = [e for module in model.modules() if (e := getattr(module, "_lplab_emulation", None)) is not None]
    enabled = [emulation.enabled for emulation in emulations]
    flags = bool(torch.backends.mkldnn.set_flags(False)[0]), torch.backends.cudnn.enabled
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.cudnn.enabled = False
    torch.backends.mha.set_fastpath_enabled(False)
    for emulation in emulations:
        emulation.enabled = False
    try:
        made_there = any(x.is_inference() for x in (*model.parameters(), *model.buffers()))
        dynamo = "torch._dynamo" in sys.modules  # without it nothing is compiled
        eager = torch.compiler.set_stance("force_eager") if dynamo else nullcontext()
        with eager, torch.inference_mode(made_there), torch.set_grad_enabled(not made_there):
            yield
    finally:
        torch.backends.mkldnn.set_flags(flags[0])
        torch.backends.cudnn.enabled = flags[1]
        torch.backends.mha.set_fastpath_enabled(fused)
        for emulation, was in zip(emulations, enabled, strict=True):
            emulation.enabled = was


def _merged(found: list[RecordedLayer], batch: int) -> list[RecordedLayer]:
    """Equal products of the same weights are time steps of one layer, and uneven ones share their rows."""
    merged: list[RecordedLayer] = []
    at: dict[tuple[Any, ...], int] = {}
    for record in found:
        layer, rows = record.layer, record.uneven_rows
        sizes = (0 if rows else layer.m, layer.n, layer.k, layer.groups)
        key = (record.parameters, record.part, layer.kind, layer.per_step, *sizes)
        if layer.has_product and record.parameters and key in at:
            before = merged[at[key]]
            old, rows = before.layer, before.uneven_rows + rows
            merged[at[key]] = replace(before, uneven_rows=rows, layer=replace(
                old,
                steps=old.steps if rows else old.steps + 1,
                inputs=old.inputs + layer.inputs,
                outputs=old.outputs + layer.outputs,
                gradients=tuple(sorted({*(old.gradients or ()), *(layer.gradients or ())}, reverse=True)),
            ))  # fmt: skip
            continue
        at[key] = len(merged)
        merged.append(record)
    left: dict[tuple[int, ...], int] = {}  # rows of the batch that layers of one size have still to share
    for i, record in enumerate(merged):
        if record.uneven_rows:
            size = (record.layer.n, record.layer.k, record.layer.groups)
            rows = record.uneven_rows + left.get(size, batch - 1)  # the sum is rounded up
            m = max(rows // batch, 1)
            left[size] = rows - m * batch
            merged[i] = replace(record, layer=replace(record.layer, m=m))
    return merged


def _with_weights(found: list[RecordedLayer], model: torch.nn.Module, infos: Mapping[str, LayerInfo]) -> list[Layer]:
    """Give each parameter to the first layer that reads it; what belongs to none is a layer at the end.

    A layer that works on weights alone gets them only if no other layer reads them.
    """
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    owners: dict[str, int] = {}
    for of_weights in (False, True):
        for i, record in enumerate(found):
            if (record.layer.per_step and record.layer.kind != "embedding") == of_weights:
                for name in record.parameters:
                    owners.setdefault(name, i)

    held: dict[int | None, list[str]] = {}
    for name in sizes:
        held.setdefault(owners.get(name), []).append(name)

    def owned(index: int | None) -> dict[str, Any]:
        names = held.get(index, [])
        tensors = tuple(infos[name] for name in names if name in infos)
        return {
            "weights": sum(info.numel for info in tensors),
            "frozen": sum(sizes[name] for name in names if name not in infos),
            "tensors": tensors,
        }

    layers = []
    for i, record in enumerate(found):
        layer = replace(record.layer, **owned(i))
        if record.parameters and not (layer.weights or layer.frozen):
            layer = replace(layer, shared=True, weights=sum(infos[n].numel for n in record.parameters if n in infos))
        layers.append(layer)
    rest = Layer("others", "add", **owned(None))  # only added or scaled by, or never used
    return [*layers, rest] if rest.weights or rest.frozen else layers


def _named_ends(layers: list[Layer]) -> list[Layer]:
    """The first and the last product with weights are exceptions of every recipe."""
    products = [i for i, x in enumerate(layers) if x.has_product and x.kind != "attention" and not x.per_step]
    for i, word in zip(products[:1] + products[1:][-1:], ("first", "last"), strict=False):
        layers[i] = replace(layers[i], exception=word)
    return layers


def _recording_mode(model: torch.nn.Module, inputs: list[torch.Tensor], batch: int) -> Any:
    """A dispatch mode that records every operator, with the name of the module in which it runs."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class RecordingMode(TorchDispatchMode):
        supports_higher_order_operators = True

        def __init__(self) -> None:
            super().__init__()
            self.layers: list[RecordedLayer] = []
            self.uncounted: dict[str, None] = {}
            self.where: list[str] = []
            self.origins = Origins(model, inputs, batch)

        @contextmanager
        def names_of(self, model: torch.nn.Module) -> Iterator[None]:
            """Know which module runs."""
            handles = []
            for name, module in model.named_modules():
                if name and not isinstance(module, torch.jit.ScriptModule):  # these take no hooks
                    handles.append(module.register_forward_pre_hook(self.enter(name)))
                    handles.append(module.register_forward_hook(lambda *_: self.where.pop() and None))
            try:
                yield
            finally:
                for handle in handles:
                    handle.remove()

        def enter(self, name: str) -> Callable[..., None]:
            return lambda *_: self.where.append(name)

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if isinstance(func, torch._ops.OpOverload) and func is not torch.ops.prim.device.default:
                with self:  # within torch.inference_mode operators come here that are made of others
                    made_of_others = func.decompose(*args, **kwargs)
                if made_of_others is not NotImplemented:
                    return made_of_others
            out = func(*args, **kwargs)
            self.note(func, args, [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)], out)
            return out

        def note(self, func: Any, args: Any, operands: list[torch.Tensor], out: Any) -> None:
            """Add the layers of an operator that has run, or its name, and where its results come from."""
            space, operator = func.namespace, getattr(func, "_opname", str(func)).removesuffix("_")
            where, sources = self.where[-1] if self.where else "", [self.origins.of(x) for x in operands]
            is_foreign = space not in ("aten", "prim", "prims") and any(x.is_floating_point() for x in operands)
            if is_foreign or (space == "aten" and is_uncounted(operator, args)):
                self.uncounted[f"{space}.{operator} ({where or 'the model'})"] = None
            elif space == "aten":
                self.layers += layers_of(operator, args, out, where, self.origins, batch)
            repeated = batch > 1 and operator == "repeat" and batch in args[1]
            self.origins.follow(sources, [x for x in tree_leaves(out) if isinstance(x, torch.Tensor)], repeated)

    return RecordingMode()
