"""One call puts a model under a recipe: :func:`quantize_model`.

This module needs PyTorch.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn

from lplab.checks import check_int
from lplab.training.emulation.convolutions import convolution_kinds
from lplab.training.emulation.interception import ForwardHook, PreForwardHook
from lplab.training.emulation.model_state import Emulation, disable_quantization
from lplab.training.emulation.pact import ALPHA
from lplab.training.recipe import recipes
from lplab.training.recipe.recipe import Recipe

ATTRIBUTE = "_lplab_emulation"
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
_SKIP = "pass skip=[{name!r}] to leave it in float32"
UNSUPPORTED: dict[Any, str] = {
    nn.RNN: "use nn.GRU or nn.LSTM, or " + _SKIP,
    nn.RNNCell: "use nn.GRUCell or nn.LSTMCell, or " + _SKIP,
    nn.Bilinear: "write it with torch.einsum, two tensors at a time, or " + _SKIP,
    nn.EmbeddingBag: "use nn.Embedding and a sum, or " + _SKIP,
    nn.modules.lazy.LazyModuleMixin: "run the model once, so that its shapes are known, then quantize it",
    torch.jit.ScriptModule: "quantize the model before torch.jit.script",
    nn.DataParallel: "quantize the model inside, before it is wrapped",
    nn.parallel.DistributedDataParallel: "quantize the model inside, before it is wrapped",
}


def quantize_model(
    model: nn.Module,
    recipe: str | Recipe = "hfp8_2019",
    *,
    overrides: Mapping[str, str | Recipe] | None = None,
    skip: Iterable[str] = (),
    first: str | None = "auto",
    last: str | None = "auto",
    seed: int = 0,
    inplace: bool = False,
) -> nn.Module:
    """Put a model under a recipe: the forward and backward pass of every product it contains.

    It works on any module: ``nn.Linear``, ``nn.Conv…``, ``nn.Embedding``, ``nn.LSTM``, ``nn.GRU``, normalizations,
    ``nn.MultiheadAttention``, and on what your own ``forward`` computes with ``functional.linear``, ``@``,
    ``torch.einsum``, ``functional.scaled_dot_product_attention`` and others. All formats are emulated: rounded numbers
    are stored in the model's float32, so neither memory nor time are those of hardware for the format.

    Classes, parameters, buffers and ``state_dict`` of the model stay unchanged: a state of the plain model can be
    loaded into the quantized one and back. ``copy.deepcopy``, ``torch.save(model)``, ``train()``/``eval()``, hooks,
    shared weights and gradient accumulation work as before. A recipe with trained clips (PACT) adds one parameter a
    layer, ``pact_alpha``, which is trained and not in ``state_dict``; gradient scales and clips are saved with
    :func:`quantizer_state`. Stored weights are not rounded here: that is done by the optimizer
    (:func:`lplab.training.make_optimizer`). Functions called outside of every ``forward`` are plain PyTorch.

    Args:
        model: the model.
        recipe: a :class:`~lplab.training.recipe.recipe.Recipe` or the name of one (``lplab.training.recipes.names()``).
        overrides: recipes for some layers, by name or pattern, as in ``{"blocks.0.*": "fp32"}``; the first
            match decides.
        skip: names or patterns of layers that stay in float32.
        first, last: names of the layers that are the exceptions of these kinds; "auto" takes the first and the last
            layer with weights in the order of registration (a model that begins with an embedding has no first
            layer); None for none.
        seed: of stochastic rounding: same seed, same bits.
        inplace: change ``model`` itself; by default a deep copy is returned and ``model`` is not changed.

    Raises:
        ValueError: the model is quantized already; an unsupported module (the message names it and says what to do);
            unknown names.

    >>> model = quantize_model(nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 1)), "hfp8_2019", first=None)
    >>> with torch.no_grad():
    ...     weight = model[0].weight.copy_(torch.tensor([[0.3, 1.0], [1.1, 0.0]]))
    >>> model[0](torch.eye(2)).T
    tensor([[0.3125, 1.0000],
            [1.1250, 0.0000]], grad_fn=<PermuteBackward0>)
    """
    recipe = recipes.get(recipe) if isinstance(recipe, str) else recipe
    if not isinstance(model, nn.Module) or not isinstance(recipe, Recipe):
        raise TypeError(f"expected a torch.nn.Module and a recipe, got {type(model).__name__} and {recipe!r}")
    if emulations(model):
        raise ValueError("the model is quantized already; quantize the plain model, or take dequantize_model(model)")
    pairs = _overrides(model, overrides or {}, skip)
    plain = ("*",) if recipe.is_identity and not recipe.exceptions else ()
    _check_support(model, plain + tuple(pattern for pattern, other in pairs if other.is_identity))
    model = model if inplace else copy.deepcopy(model)
    kinds = kinds_of(model, first, last)
    emulation = Emulation(recipe, kinds, pairs, check_int("seed", seed, 0, 2**63 - 1))
    _add_clips(model, emulation)
    for name, module in model.named_modules():
        module.register_forward_pre_hook(PreForwardHook(emulation, name), prepend=True)
        module.register_forward_hook(ForwardHook(emulation), always_call=True)
    setattr(model, ATTRIBUTE, emulation)
    return model


def _overrides(model: nn.Module, overrides: Mapping[str, Any], skip: Iterable[str]) -> tuple[tuple[str, Recipe], ...]:
    skip = [skip] if isinstance(skip, str) else list(skip)
    if not isinstance(overrides, Mapping) or not all(isinstance(pattern, str) for pattern in (*skip, *overrides)):
        raise TypeError(f"skip takes names, overrides a dict of names and recipes; got {skip!r} and {overrides!r}")
    given = [*((pattern, "fp32") for pattern in skip), *overrides.items()]
    names = [name for name, _ in model.named_modules()]
    for pattern, _ in given:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ValueError(f"no layer is called {pattern!r}; see [name for name, _ in model.named_modules()]")
    return tuple((pattern, recipes.get(other) if isinstance(other, str) else other) for pattern, other in given)


def _check_support(model: nn.Module, skipped: tuple[str, ...]) -> None:
    for name, module in model.named_modules():
        if any(fnmatchcase(name, pattern) for pattern in skipped):
            continue
        for module_class, advice in UNSUPPORTED.items():
            if isinstance(module, module_class):
                where = f"{name or 'the model'} ({type(module).__name__})"
                raise ValueError(f"{where} has no quantized form; {advice.format(name=name)}")
        if any(p.dtype in (torch.complex64, torch.complex128) for p in module.parameters(recurse=False)):
            raise ValueError(f"{name or 'the model'} has complex weights; formats are of real numbers")


def kinds_of(model: nn.Module, first: str | None = "auto", last: str | None = "auto") -> dict[str, frozenset[str]]:
    """The modules that own the weights of products or lookups, in the order of registration, with their kinds.

    Raises:
        ValueError: ``first`` or ``last`` is no such module.

    >>> kinds_of(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)))
    {'0': frozenset({'first'}), '2': frozenset({'last'})}
    """
    kinds: dict[str, set[str]] = {name: set() for name, module in model.named_modules() if _owns_weights(module)}
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


def _owns_weights(module: nn.Module) -> bool:
    """A layer of PyTorch, or a module without children that owns a matrix (and is no normalization)."""
    if isinstance(module, LAYERS):
        return True
    normalizes = "Norm" in type(module).__name__
    matrices = any(p.ndim >= 2 for p in module.parameters(recurse=False))
    return matrices and not normalizes and not any(True for _ in module.children())


def _is_shortcut(model: nn.Module, name: str) -> bool:
    pointwise = all(size == 1 for size in getattr(model.get_submodule(name), "kernel_size", (0,)))
    return pointwise and any(word in name.lower() for word in ("shortcut", "downsample"))


def _add_clips(model: nn.Module, emulation: Emulation) -> None:
    """Add a parameter to each layer whose activations have a trained clip."""
    for name, layer_kinds in emulation.kinds.items():
        module = model.get_submodule(name)
        if not isinstance(module, nn.Linear | nn.modules.conv._ConvNd) or hasattr(module, ALPHA):
            continue
        if isinstance(module, nn.modules.linear.NonDynamicallyQuantizableLinear):
            continue  # the output of nn.MultiheadAttention: a weight whose module is never called
        kinds = layer_kinds
        if isinstance(module, nn.modules.conv._ConvNd):
            kinds = layer_kinds | convolution_kinds(module.weight, module.groups, module.transposed)
        learned = emulation.rules_of(name, kinds).activation.learned
        if learned is None:
            continue
        weight = module.weight
        start = torch.tensor(learned.initial or 10.0, dtype=weight.dtype, device=weight.device)
        module.register_parameter(ALPHA, nn.Parameter(start))
        module.register_state_dict_post_hook(leave_clip_out)
        module.register_load_state_dict_pre_hook(keep_clip)


def leave_clip_out(module: nn.Module, state: dict[str, Any], prefix: str, metadata: Any) -> None:
    """The hook that removes the clip from ``state_dict``, so that it equals that of the plain model."""
    state.pop(prefix + ALPHA, None)


def keep_clip(module: nn.Module, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    """The hook that runs before the state of a plain model is loaded: the clip is not changed."""
    state.setdefault(prefix + ALPHA, getattr(module, ALPHA).detach())


def emulations(model: nn.Module) -> list[Emulation]:
    """The emulations of a model and of the modules inside it."""
    candidates = (getattr(module, ATTRIBUTE, None) for module in model.modules())
    return [emulation for emulation in candidates if emulation is not None]


def emulation_of(model: nn.Module) -> Emulation:
    """The emulation of a quantized model.

    Raises:
        ValueError: the model is not quantized.
    """
    emulation = getattr(model, ATTRIBUTE, None)
    if emulation is None:
        raise ValueError("the model is not quantized; call quantize_model(model, recipe) first")
    return emulation


def float32(model: nn.Module) -> Any:
    """A context in which a quantized model computes in float32.

    >>> model = quantize_model(nn.Linear(1, 1, bias=False), "fp8_2018")
    >>> with float32(model):
    ...     exact = model(torch.ones(1)) == model.weight[0]
    >>> bool(exact)
    True
    """
    return disable_quantization(emulation_of(model))


def dequantize_model(model: nn.Module) -> nn.Module:
    """A plain copy of a quantized model, with its weights as they are stored."""
    emulation_of(model)
    plain = copy.deepcopy(model)
    for module in plain.modules():
        for hooks in (module._forward_pre_hooks, module._forward_hooks):
            for key in [key for key, hook in hooks.items() if isinstance(hook, PreForwardHook | ForwardHook)]:
                del hooks[key]
                module._forward_hooks_always_called.pop(key, None)
        if ALPHA in module._parameters:
            del module._parameters[ALPHA]
            _without_clip_hooks(module)
    delattr(plain, ATTRIBUTE)
    return plain


def _without_clip_hooks(module: nn.Module) -> None:
    for hooks in (module._state_dict_hooks, module._load_state_dict_pre_hooks):
        for key in [key for key, hook in hooks.items() if _function_of(hook) in (leave_clip_out, keep_clip)]:
            del hooks[key]


def _function_of(hook: Any) -> Any:
    return getattr(hook, "hook", getattr(hook, "func", hook))


def quantizer_state(model: nn.Module) -> dict[str, Any]:
    """What ``state_dict`` does not hold: gradient scales, counts of random roundings, trained clips. For checkpoints.

    >>> sorted(quantizer_state(quantize_model(nn.Linear(1, 1), "fp32")))
    ['clips', 'sites']
    """
    clips = {name: p.detach().clone() for name, p in model.named_parameters() if name.split(".")[-1] == ALPHA}
    return {"sites": emulation_of(model).state_dict(), "clips": clips}


def load_quantizer_state(model: nn.Module, state: dict[str, Any]) -> None:
    """Continue from :func:`quantizer_state`.

    Raises:
        ValueError: the state is of a model with other trained clips.
    """
    parameters = dict(model.named_parameters())
    if missing := [name for name in state["clips"] if name not in parameters]:
        raise ValueError(f"the state is of another model or recipe: it has {missing[0]}, the model has not")
    with torch.no_grad():
        for name, clip in state["clips"].items():
            parameters[name].copy_(clip)
    emulation_of(model).load_state_dict(state["sites"])
