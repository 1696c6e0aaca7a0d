"""One call puts a model under a recipe: :func:`quantize_model`.

This module needs PyTorch.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn

from lplab.checks import check_int
from lplab.formats.torch_privates import is_to_empty
from lplab.training.emulation.checkpoint_state import SaveHook, add_state_hooks, begin_anew, remove_state_hooks
from lplab.training.emulation.interception import ForwardHook, NameOutsideTraces, PreForwardHook
from lplab.training.emulation.layer_kinds import is_called, kinds_of, with_tensor_kinds
from lplab.training.emulation.model_state import Emulation, ModuleReference, disable_quantization
from lplab.training.emulation.trained_clips import ALPHA, first_clip
from lplab.training.recipe import recipes
from lplab.training.recipe.recipe import Recipe

ATTRIBUTE = "_lplab_emulation"
_SKIP = "pass skip=[{name!r}] to leave it in float32"
UNSUPPORTED: dict[Any, str] = {
    nn.RNN: "use nn.GRU or nn.LSTM, or " + _SKIP,
    nn.RNNCell: "use nn.GRUCell or nn.LSTMCell, or " + _SKIP,
    nn.Bilinear: "write it with torch.einsum, two tensors at a time, or " + _SKIP,
    nn.EmbeddingBag: "use nn.Embedding and a sum, or " + _SKIP,
    nn.modules.lazy.LazyModuleMixin: "run the model once, so that its shapes are known, then quantize it",
    torch.jit.ScriptModule: "quantize the plain model; record that with torch.jit.trace within torch.no_grad()",
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
    tensor_state: bool = False,
) -> nn.Module:
    """Put a model under a recipe: the forward and backward pass of every product it contains.

    It works on any module: ``nn.Linear``, ``nn.Conv…``, ``nn.Embedding``, ``nn.LSTM``, ``nn.GRU``, normalizations,
    ``nn.MultiheadAttention``, and on what your own ``forward`` computes with ``functional.linear``, ``@``,
    ``torch.einsum``, ``functional.scaled_dot_product_attention`` and others. All formats are emulated: rounded numbers
    are stored in the model's float32, so neither memory nor time are those of hardware for the format.

    Classes, parameters, buffers and the keys of ``state_dict`` stay unchanged: a state of the plain model can be
    loaded into the quantized one and back. ``copy.deepcopy``, ``torch.save(model)``, ``train()``/``eval()``, hooks,
    shared weights and gradient accumulation work as before. A recipe with trained clips (PACT) adds one parameter a
    layer, ``pact_alpha``, which is trained with the others.

    Trained clips, gradient scales and the counts of random roundings travel with ``state_dict`` as metadata: each
    module's are ``model.state_dict()._metadata[module]["lplab_quantizers"]``. ``torch.save``, ``torch.load`` and
    ``load_state_dict`` keep them, so that a loaded model computes the same bits. A state without them, as that of a
    plain model, is loaded with a warning where the recipe trains any:
    :class:`~lplab.training.emulation.checkpoint_state.MissingQuantizerState`.

    ``torch.autocast`` does not act on what a recipe computes, around the model or inside it: the recipe decides the
    formats, and the rest stays in float32. Arguments that PyTorch refuses are refused with PyTorch's error.

    Stored weights are not rounded here: that is done by the optimizer (:func:`lplab.training.make_optimizer`).
    Functions called outside of every ``forward`` are plain PyTorch. A product that a recipe cannot see, such as one
    inside ``torch.jit.script`` or in the backward pass of your own ``autograd.Function``, stays in float32: the first
    call of the model warns of it by :class:`~lplab.training.emulation.unseen_products.UnseenProductWarning`, and
    :func:`lplab.training.recipe_report` lists it.

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
        tensor_state: put what is in the metadata into ordinary entries of ``state_dict``, too, for files and dicts that
            lose metadata, such as safetensors: uint8 tensors ``<module>.lplab_quantizers``. A plain model loads such a
            state with ``strict=False``.

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
    if not isinstance(tensor_state, bool):
        raise TypeError(f"tensor_state must be True or False, got {tensor_state!r}")
    pairs = _overrides(model, overrides or {}, skip)
    plain = ("*",) if recipe.is_identity and not recipe.exceptions else ()
    _check_support(model, plain + tuple(pattern for pattern, other in pairs if other.is_identity))
    model = model if inplace else _copied(model)
    kinds = kinds_of(model, first, last)
    emulation = Emulation(recipe, kinds, pairs, check_int("seed", seed, 0, 2**63 - 1), tensor_state)
    _add_clips(model, emulation)
    for name, module in model.named_modules():
        add_state_hooks(emulation, name, module)
        _add_hooks(emulation, name, module)
    _warn_if_nothing_is_rounded(model, emulation)
    return model


def _copied(model: nn.Module) -> nn.Module:
    """A deep copy, also of a model with weights that its hooks compute before each call.

    PyTorch copies only leaves of the graph. The weight of pruning and of the old weight and spectral norms is none; the
    copy gets its numbers, and its hooks compute it anew.
    """
    memo: dict[int, Any] = {}
    for module in model.modules():
        for name, value in module.__dict__.items():
            if isinstance(value, torch.Tensor) and any(name + end in module._parameters for end in ("_orig", "_v")):
                memo[id(value)] = value.detach().clone()
    try:
        return copy.deepcopy(model, memo)
    except RuntimeError as error:
        if "graph leaves" not in str(error):
            raise
        raise ValueError(
            "the model holds a tensor that was computed with a gradient, such as an activation of its last call, which "
            "PyTorch does not copy: detach it or set it to None; quantize_model(…, inplace=True) needs no copy"
        ) from None


def _add_hooks(emulation: Emulation, name: str, module: nn.Module) -> None:
    """Let a module call the emulation, and say in its text what is rounded."""
    module.register_forward_pre_hook(PreForwardHook(emulation, name), prepend=True)
    module.register_forward_hook(ForwardHook(emulation), always_call=True)
    module.__dict__["_get_name"] = NameOutsideTraces(emulation, module)
    if (name in emulation.kinds and is_called(module)) or not name:
        module.__dict__["extra_repr"] = QuantizedRepr(emulation, name, module)
    if not name:
        setattr(module, ATTRIBUTE, emulation)
    if isinstance(module, torch.fx.GraphModule):
        module._deepcopy_hooks.append(_add_lost_hooks)


def _add_lost_hooks(copied: nn.Module) -> None:
    """Add the hooks that a copied ``torch.fx.GraphModule`` has lost: it keeps those of ``state_dict`` alone."""
    (hook,) = (hook for hook in copied._state_dict_hooks.values() if isinstance(hook, SaveHook))
    copied._deepcopy_hooks.remove(_add_lost_hooks)
    _add_hooks(hook.emulation, hook.name, copied)


class RoundsNothing(UserWarning):
    """A recipe leaves every layer of a model in float32."""


class QuantizedRepr:
    """Takes the place of a module's ``extra_repr``: PyTorch's text, and in short what the recipe rounds."""

    def __init__(self, emulation: Emulation, name: str, module: nn.Module) -> None:
        self.emulation, self.name, self.module = emulation, name, ModuleReference(module)

    def __call__(self) -> str:
        """The text that ``print`` shows for the module."""
        module = self.module()
        parts = [type(module).extra_repr(module)]
        if hasattr(module, ATTRIBUTE):
            parts.append(f"recipe={self.emulation.recipe.name or 'unnamed'}")
        if self.name in self.emulation.kinds:
            kinds = with_tensor_kinds(module, self.emulation.kinds[self.name])
            rules = self.emulation.rules_of(self.name, kinds)
            parts.append("in float32" if rules.is_identity else f"rounded: {rules.summary}")
        return ", ".join(filter(None, parts))


def _warn_if_nothing_is_rounded(model: nn.Module, emulation: Emulation) -> None:
    """Warn where the recipe itself (no override) leaves all layers with weights in float32, though it rounds others."""
    by_recipe = {}
    for name, kinds in emulation.kinds.items():
        kinds = with_tensor_kinds(model.get_submodule(name), kinds)
        if not emulation.rules_of(name, kinds).is_identity:
            return
        pattern, recipe = emulation.recipe_of(name)
        if pattern is None and (kind := recipe.exception_for(kinds)):
            by_recipe[name or "the model"] = kind
    if by_recipe:
        recipe = emulation.recipe
        cure = "change its exceptions"
        if {"first", "last"} & set(by_recipe.values()):
            has_switch = recipe.name in recipes.names() and "first_last" in recipes.switches_of(recipe.name)
            switch = f", or recipes.get({recipe.name!r}, first_last='bf16')" if has_switch else ""
            cure = f"pass first=None, last=None to quantize_model{switch}"
        layers = ", ".join(f"{name} ({kind})" for name, kind in by_recipe.items())
        warnings.warn(
            f"{recipe.name or 'the recipe'} rounds no layer of this model: it leaves {layers} in float32; {cure}",
            RoundsNothing,
            stacklevel=3,
        )


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


def _add_clips(model: nn.Module, emulation: Emulation) -> None:
    """Add a parameter to each layer whose activations have a trained clip."""
    for name, layer_kinds in emulation.kinds.items():
        module = model.get_submodule(name)
        if not isinstance(module, nn.Linear | nn.modules.conv._ConvNd) or hasattr(module, ALPHA):
            continue
        if not is_called(module):
            continue
        learned = emulation.rules_of(name, with_tensor_kinds(module, layer_kinds)).activation.learned
        if learned is None:
            continue
        weight = module.weight
        start = torch.tensor(first_clip(learned), dtype=weight.dtype, device=weight.device)
        module.register_parameter(ALPHA, nn.Parameter(start))
        module.__dict__["_apply"] = ApplyAndBegin(emulation, name, module)


class ApplyAndBegin:
    """Takes the place of ``_apply`` of a module with a trained clip: after ``to_empty`` the clip begins anew.

    ``to_empty`` gives parameters memory without values. Weights are loaded into it, and a plain state has no clip.
    """

    def __init__(self, emulation: Emulation, name: str, module: nn.Module) -> None:
        self.emulation, self.name, self.module = emulation, name, ModuleReference(module)

    def __call__(self, fn: Any, *args: Any, **kwargs: Any) -> nn.Module:
        """Apply a function to all parameters, as PyTorch's method of this name does."""
        module = self.module()
        result = type(module)._apply(module, fn, *args, **kwargs)
        if is_to_empty(fn):
            begin_anew(self.emulation, self.name, module, module._parameters[ALPHA])
        return result


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


def switch_recipe(model: nn.Module, recipe: str | Recipe) -> None:
    """Compute a quantized model under another recipe from now on; overrides, weights and random bits go on as before.

    With ``recipe.with_forward(…)`` it is the forward pass alone that changes. How an optimizer of
    :func:`lplab.training.make_optimizer` rounds stored weights stays as it is. A trainer does this by itself under a
    recipe with a :class:`~lplab.training.recipe.recipe.Switch`.

    Args:
        model: a quantized model; it is changed.
        recipe: a recipe or its name.

    Raises:
        ValueError: the model is not quantized; one of the two recipes trains clips or scales, which a layer has from
            the beginning or not at all.

    >>> model = quantize_model(nn.Linear(1, 1, bias=False), "fp8_2018", last=None, first=None)
    >>> switch_recipe(model, "fp32")
    >>> bool(model(torch.ones(1)) == model.weight[0])
    True
    """
    emulation = emulation_of(model)
    recipe = recipes.get(recipe) if isinstance(recipe, str) else recipe
    if not isinstance(recipe, Recipe):
        raise TypeError(f"expected a recipe or its name, got {recipe!r}")
    for one in (emulation.recipe, recipe):
        for rules in (one, *one.exceptions.values()):
            if rules.activation.learned or rules.output_gradient_dx.per_layer or rules.output_gradient_dw.per_layer:
                raise ValueError(f"{one.name or 'the recipe'} trains clips or scales of layers; it cannot be switched")
    emulation.switch(recipe)


def dequantize_model(model: nn.Module) -> nn.Module:
    """A plain copy of a quantized model, with its weights as they are stored."""
    emulation_of(model)
    plain = _copied(model)
    for module in plain.modules():
        for hooks in (module._forward_pre_hooks, module._forward_hooks):
            for key in [key for key, hook in hooks.items() if isinstance(hook, PreForwardHook | ForwardHook)]:
                del hooks[key]
                module._forward_hooks_always_called.pop(key, None)
        remove_state_hooks(module)
        for name in ("extra_repr", "_get_name", "_apply"):
            if isinstance(module.__dict__.get(name), QuantizedRepr | NameOutsideTraces | ApplyAndBegin):
                del module.__dict__[name]
        if isinstance(module, torch.fx.GraphModule):
            module._deepcopy_hooks.remove(_add_lost_hooks)
        module._parameters.pop(ALPHA, None)
    delattr(plain, ATTRIBUTE)
    return plain
