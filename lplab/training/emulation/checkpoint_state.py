"""Quantizer state in checkpoints: trained clips, gradient scales, and how many random roundings were done.

Hooks of every module put this state into the metadata of ``state_dict()`` and take it out in ``load_state_dict()``. So
the keys are those of the plain model, and the state of a plain model can be loaded as well.

This module needs PyTorch.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lplab.training.emulation.layer_kinds import with_tensor_kinds
from lplab.training.emulation.model_state import Emulation, StateLoading
from lplab.training.emulation.trained_clips import ALPHA, first_clip

KEY = "lplab_quantizers"
"""Where the quantizer state of a module is: ``state_dict()._metadata[module][KEY]``, a dict of plain values.

With ``quantize_model(..., tensor_state=True)`` it is also an entry ``<module>.lplab_quantizers`` of the state: a uint8
tensor that holds the same as JSON in ASCII. Safetensors files and dicts that are built anew keep such entries, and lose
the metadata.
"""
_NAMES_SHOWN = 3


class MissingQuantizerState(UserWarning):
    """A state without the trained clips or gradient scales of a quantized model was loaded into it."""


@dataclass(eq=False)
class StateHook:
    """A hook of a module of this name.

    Args:
        emulation: of the model.
        name: of the module in the model.
    """

    emulation: Emulation
    name: str


class SaveHook(StateHook):
    """Runs after ``state_dict`` of a module: adds its quantizer state, leaves its clip out of the parameters."""

    def __call__(self, module: nn.Module, state: dict[str, Any], prefix: str, metadata: dict[str, Any]) -> None:
        """Change the state in place."""
        state.pop(prefix + ALPHA, None)
        metadata[KEY] = module_state(self.emulation, self.name, module)
        is_needed = metadata[KEY]["sites"] or _has_trained_state(self.emulation, self.name, module)
        if self.emulation.tensor_state and is_needed:
            state[prefix + KEY] = as_tensor(metadata[KEY])


class BeforeLoadHook(StateHook):
    """Runs before a module loads its part of a state: takes the quantizer state out of it."""

    def __call__(
        self, module: nn.Module, state: dict[str, Any], prefix: str, metadata: dict[str, Any], *rest: Any
    ) -> None:
        """Restore the state of the module. Where there is none, the module keeps its own, which is noted."""
        _, missing_keys, _, errors = rest
        saved_state = metadata.get(KEY)
        if prefix + KEY in state:
            try:
                saved_state = from_tensor(state.pop(prefix + KEY))
            except ValueError as problem:
                errors.append(f"{prefix + KEY} holds no quantizer state: {problem}")
        if saved_state is not None:
            self.emulation.load_state_of(self.name, saved_state["sites"])
        clip = module._parameters.get(ALPHA)
        trained = None if saved_state is None else saved_state["clips"].get(ALPHA)
        if clip is not None:
            device = _device(clip, state, prefix)
            if trained is not None:
                saved = torch.as_tensor(trained, dtype=clip.dtype, device=device)
            elif clip.is_meta and metadata.get("assign_to_params_buffers", False):
                saved = begin_anew(self.emulation, self.name, module, torch.empty_like(clip, device=device))
            else:
                saved = clip.detach()
            state.setdefault(prefix + ALPHA, saved)
        thread = self.emulation.thread
        if thread.loading is None or thread.loading.missing_keys is not missing_keys:  # each load has a list of its own
            thread.loading = StateLoading(missing_keys, self.name)
        if (clip is not None and trained is None) or (
            saved_state is None and _has_trained_state(self.emulation, self.name, module)
        ):
            thread.loading.without_state.append(self.name or "the model")


def begin_anew(emulation: Emulation, name: str, module: nn.Module, clip: Tensor) -> Tensor:
    """Set the trained clip of a module to what a layer has that has seen no input."""
    for op in emulation.ops_of(name).values():
        op.clip_signed = None
    learned = emulation.rules_of(name, with_tensor_kinds(module, emulation.kinds[name])).activation.learned
    with torch.no_grad():
        return clip.fill_(first_clip(learned))


def _device(clip: Tensor, state: dict[str, Any], prefix: str) -> torch.device:
    """Where a clip goes: where it is, or from the meta device to the weights that are loaded with it."""
    if not clip.is_meta:
        return clip.device
    tensors = (x for name, x in state.items() if name.startswith(prefix) and isinstance(x, Tensor))
    return next((x.device for x in tensors), torch.device("cpu"))


class AfterLoadHook(StateHook):
    """Runs after a module and all modules inside it were loaded: the outermost one warns of what was missing."""

    def __call__(self, module: nn.Module, incompatible_keys: Any) -> None:
        """Warn once for a whole model."""
        thread = self.emulation.thread
        loading = thread.loading
        if loading is None or loading.outermost != self.name:
            return
        thread.loading = None
        if names := loading.without_state:
            shown = ", ".join(names[:_NAMES_SHOWN]) + (", …" if len(names) > _NAMES_SHOWN else "")
            layers = f"{len(names)} layer{'s' if len(names) > 1 else ''}"
            warnings.warn(
                f"the state holds no trained clips or gradient scales for {layers} ({shown}), which keep those that "
                f"they have: right for the checkpoint of a plain model. That of a quantized one has them in its "
                f"metadata ({KEY!r}), which safetensors files and dicts built anew lose: save it with "
                "quantize_model(..., tensor_state=True), or carry quantizer_state(model) along",
                MissingQuantizerState,
                stacklevel=4,
            )


def add_state_hooks(emulation: Emulation, name: str, module: nn.Module) -> None:
    """Let the quantizer state of a module travel with its ``state_dict``."""
    module.register_state_dict_post_hook(SaveHook(emulation, name))
    module.register_load_state_dict_pre_hook(BeforeLoadHook(emulation, name))
    module.register_load_state_dict_post_hook(AfterLoadHook(emulation, name))


def remove_state_hooks(module: nn.Module) -> None:
    """Undo :func:`add_state_hooks`."""
    for hooks in (module._state_dict_hooks, module._load_state_dict_pre_hooks, module._load_state_dict_post_hooks):
        for key in [key for key, hook in hooks.items() if isinstance(getattr(hook, "hook", hook), StateHook)]:
            del hooks[key]


def _has_trained_state(emulation: Emulation, name: str, module: nn.Module) -> bool:
    """Whether a module has a trained clip or a gradient scale, or will have one as soon as it has run."""
    if ALPHA in module._parameters or any(op.scale for op in emulation.ops_of(name).values()):
        return True
    if name not in emulation.kinds:
        return False
    rules = emulation.rules_of(name, with_tensor_kinds(module, emulation.kinds[name]))
    return bool(rules.output_gradient_dx.per_layer or rules.output_gradient_dw.per_layer)


def module_state(emulation: Emulation, name: str, module: nn.Module) -> dict[str, Any]:
    """The quantizer state of one module, without those inside it: of its ops by what follows its name, and its clip."""
    sites = {suffix: op.state_dict() for suffix, op in emulation.ops_of(name).items() if op.has_state}
    clip = module._parameters.get(ALPHA)
    return {"sites": sites, "clips": {} if clip is None else {ALPHA: clip.detach().clone()}}


def as_tensor(state: dict[str, Any]) -> Tensor:
    """A state of :func:`module_state` as uint8 [bytes]: JSON in ASCII, which any cast of a checkpoint leaves intact.

    >>> from_tensor(as_tensor({"sites": {}, "clips": {"pact_alpha": torch.tensor(1.5)}}).double())
    {'sites': {}, 'clips': {'pact_alpha': 1.5}}
    """
    text = json.dumps(state | {"clips": {name: clip.item() for name, clip in state["clips"].items()}})
    return torch.tensor(list(text.encode("ascii")), dtype=torch.uint8)


def from_tensor(x: Tensor) -> dict[str, Any]:
    """Undo :func:`as_tensor`.

    Raises:
        ValueError: the numbers are no such state.
    """
    state = json.loads(bytes(x.to(torch.uint8).flatten().tolist()))
    if not isinstance(state, dict) or set(state) != {"sites", "clips"}:
        raise ValueError(f"a quantizer state has 'sites' and 'clips', got {state!r}")
    return state


def quantized_modules(model: nn.Module) -> list[tuple[str, nn.Module, SaveHook]]:
    """The modules that belong to a quantized model, with their names in ``model``.

    Raises:
        ValueError: nothing in the model is quantized.
    """
    modules = [
        (name, module, hook)
        for name, module in model.named_modules()
        for hook in module._state_dict_hooks.values()
        if isinstance(hook, SaveHook)
    ]
    if not modules:
        raise ValueError("the model is not quantized; call quantize_model(model, recipe) first")
    return modules


def quantizer_state(model: nn.Module) -> dict[str, Any]:
    """The trained clips, gradient scales and counts of random roundings of a quantized model.

    ``model.state_dict()`` holds the same in its metadata. Where metadata gets lost (safetensors, dicts that are built
    anew), save this beside it; ``torch.load(…, weights_only=True)`` reads it.

    Args:
        model: a quantized model, a part of one, or a model with quantized parts.

    Returns:
        "sites": the state of each op that has one, by name; "clips": the trained clips, by the name of the parameter.

    Raises:
        ValueError: nothing in the model is quantized.

    >>> from lplab.training import quantize_model
    >>> quantizer_state(quantize_model(nn.Linear(1, 1), "pact_sawb_2019", first=None, last=None))
    {'sites': {}, 'clips': {'pact_alpha': tensor(10.)}}
    """
    sites: dict[str, Any] = {}
    clips: dict[str, Tensor] = {}
    for name, module, hook in quantized_modules(model):
        state = module_state(hook.emulation, hook.name, module)
        sites |= {name + suffix: values for suffix, values in state["sites"].items()}
        clips |= {f"{name}.{key}".lstrip("."): clip for key, clip in state["clips"].items()}
    return {"sites": sites, "clips": clips}


def load_quantizer_state(model: nn.Module, state: dict[str, Any]) -> None:
    """Continue from :func:`quantizer_state`: scales and counts that it does not hold begin anew.

    Raises:
        ValueError: a model that is not quantized; no such state, or one of other layers or other trained clips.

    >>> from lplab.training import quantize_model
    >>> model, other = (quantize_model(nn.Linear(1, 1), "luq_2022", first=None, last=None) for _ in range(2))
    >>> load_quantizer_state(other, quantizer_state(model))
    """
    if not isinstance(state, dict) or not {"sites", "clips"} <= set(state):
        raise ValueError("a quantizer state has 'sites' and 'clips'; it is made by quantizer_state(model)")
    modules = quantized_modules(model)
    parameters = dict(model.named_parameters())
    if missing := [name for name in state["clips"] if name not in parameters]:
        raise ValueError(f"the state is of another model or recipe: it has {missing[0]}, the model has not")
    if lost := [name for name in state["clips"] if parameters[name].is_meta]:
        raise ValueError(f"{lost[0]} is on the meta device, which holds no numbers: load the weights before the state")
    sites: dict[str, dict[str, Any]] = {name: {} for name, _, _ in modules}
    for site, values in state["sites"].items():
        name, slash, product = site.partition("/")
        if name not in sites:
            raise ValueError(f"the state is of another model: it has the layer {site}, the model has not")
        sites[name][slash + product] = values
    for name, _, hook in modules:
        hook.emulation.load_state_of(hook.name, sites[name])
    with torch.no_grad():
        for name, clip in state["clips"].items():
            parameters[name].copy_(clip)
