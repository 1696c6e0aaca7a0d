"""The state that a quantized model carries: its recipe, its quantized ops, and which module is being called.

:mod:`lplab.training.emulation.interception` keeps the module calls up to date and intercepts the functions that the
model calls. Parameters, classes and ``state_dict`` of the model stay unchanged.

This module needs PyTorch.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from lplab.formats.torch_privates import forward_derivative_level, open_transform
from lplab.training.emulation import trained_clips
from lplab.training.emulation.quantized_op import Draws, QuantizedOp, Watcher
from lplab.training.recipe.recipe import LayerRules, Recipe


@dataclass(eq=False)
class StateLoading:
    """A call of ``load_state_dict`` that has not returned yet.

    Attributes:
        missing_keys: PyTorch's list of missing keys; every call has a list of its own.
        outermost: the name of the first module of the model that is loaded.
        without_state: names of the layers whose trained clip or gradient scale is not in what is loaded.
    """

    missing_keys: list[str]
    outermost: str
    without_state: list[str] = field(default_factory=list)


@dataclass(eq=False)
class ModuleCall:
    """A call of a module that has not returned yet.

    Attributes:
        name, module: the module.
        counts: products computed in this call so far, by kind.
        draws: where random bits come from if the call is inside an activation checkpoint.
        frame: of the call, where checkpoints are looked for; else None.
        without_mode: whether the function mode is switched off during the call, as PyTorch computes the whole module.
    """

    name: str
    module: nn.Module
    counts: dict[str, int] = field(default_factory=dict)
    draws: Draws | None = None
    frame: FrameType | None = None
    without_mode: bool = False

    @property
    def kind(self) -> tuple[str, bool, bool]:
        """Calls of different kinds may compute different things; a part of a model may be called alone."""
        return self.name, torch.is_grad_enabled(), self.module.training


class ModuleReference:
    """Holds a module weakly, so that a model that is deleted frees its memory at once.

    Its copies and files belong to the copy of the module.
    """

    def __init__(self, module: nn.Module) -> None:
        self.reference = weakref.ref(module)

    def __call__(self) -> nn.Module:
        """The module."""
        module = self.reference()
        assert module is not None
        return module

    def __getstate__(self) -> nn.Module:
        return self()

    def __setstate__(self, module: nn.Module) -> None:
        self.reference = weakref.ref(module)


class ThreadState(threading.local):
    """What one thread computes in a model. Several threads may run the same model.

    Attributes:
        calls: open calls of modules, the outermost first.
        modes: function modes that are switched on.
        shared: the last rounded input, and its rounded value.
        product_watch: the mode that looks for products that the recipe does not see, or None.
        loading: the ``load_state_dict`` that is going on, or None.
        draws: of the function that is running, if it is inside an activation checkpoint.
        again: in the recomputation of an activation checkpoint, the draws of the forward pass.
        compiler: of ``torch.compile``, switched off during the call of the model; None where there is none.
    """

    def __init__(self) -> None:
        self.loading: StateLoading | None = None
        self.calls: list[ModuleCall] = []
        self.modes: list[Any] = []
        self.shared: list[Any] = []
        self.product_watch: Any = None
        self.draws: Draws | None = None
        self.again: Draws | None = None
        self.compiler: Any = None

    @property
    def inherited_draws(self) -> Draws | None:
        """The draws of the innermost open call; without one, those of the recomputation that is going on."""
        return self.calls[-1].draws if self.calls else self.again


class Emulation:
    """How a model is computed under a recipe; made by :func:`lplab.training.quantize_model`.

    Args:
        recipe: of all layers without an override.
        kinds: of the modules that own weights, by name.
        overrides: pairs of a name pattern (as in a shell: ``"blocks.0.*"``) and a recipe; the first match decides.
        seed: of all random bits.
        tensor_state: whether ``state_dict`` of the model has quantizer state in tensors, too.

    Attributes:
        ops: the quantized ops by name; each is made when it first runs.
        sites: the names of the ops of each module.
        enabled: False while the model computes in float32.
        watch: None, or a function that is called with every rounding (see :class:`QuantizedOp`).
        unseen: products that the recipe did not see (:mod:`lplab.training.emulation.unseen_products`), as keys.
        watched_calls: the kinds of calls of the model in which such products were looked for.
        thread: the state of the current thread.
    """

    def __init__(
        self,
        recipe: Recipe,
        kinds: dict[str, frozenset[str]],
        overrides: tuple[tuple[str, Recipe], ...] = (),
        seed: int = 0,
        tensor_state: bool = False,
    ) -> None:
        self.kinds = _with_late(kinds, recipe.late_share)
        self.recipe, self.overrides, self.seed = recipe, overrides, seed
        self.tensor_state = tensor_state
        self.ops: dict[str, QuantizedOp] = {}
        self.sites: dict[str, list[str]] = {}
        self.enabled = True
        self.watch: Watcher | None = None
        self.unseen: dict[Any, None] = {}
        self.watched_calls: set[tuple[str, bool, bool]] = set()
        self.thread = ThreadState()

    @cached_property
    def is_identity(self) -> bool:
        """Whether nothing at all is rounded."""
        used = (self.recipe, *(other for _, other in self.overrides))
        return all(recipe.is_identity and not recipe.exceptions for recipe in used)

    # -- the current module -----------------------------------------------------------------------------------

    @property
    def module(self) -> nn.Module:
        """The module that is running."""
        return self.thread.calls[-1].module

    @property
    def name(self) -> str:
        """The name of the module that is running."""
        return self.thread.calls[-1].name

    @property
    def location(self) -> str:
        """The name and class of the module that is running, for messages."""
        call = self.thread.calls[-1]
        return f"{call.name or 'the model'} ({type(call.module).__name__})"

    # -- quantized ops ----------------------------------------------------------------------------------------

    def op(self, op_kind: str, kinds: frozenset[str] = frozenset(), own: bool = True) -> QuantizedOp:
        """The quantized op of the product that is being computed.

        Args:
            op_kind: such as "linear" or "matmul".
            kinds: what is known of the layer from its tensors.
            own: whether the first product of this kind has the name of the module alone.
        """
        call = self.thread.calls[-1]
        count = call.counts[op_kind] = call.counts.get(op_kind, 0) + 1
        if own and count == 1 and call.name in self.kinds:
            name = call.name
        else:
            name = f"{call.name}/{op_kind}{count if count > 1 else ''}"
        if name not in self.ops:
            kinds = kinds if "product" in kinds else kinds | self.kinds.get(call.name, frozenset())
            self._add(call.name, QuantizedOp(name, kinds, self.rules_of(call.name, kinds), self.seed))
        op = self.ops[name]
        if (open_transform() is not None or forward_derivative_level() >= 0) and not op.rules.is_identity:
            raise NotImplementedError(
                f"{self.location}: torch.func (vmap, grad, jvp, …) and forward-mode derivatives cannot transform what "
                "a recipe rounds: write the product for the whole batch, as with torch.bmm or torch.einsum, or name "
                "the module in skip=[…]"
            )
        op.watch, op.shared, op.thread = self.watch, self.thread.shared, self.thread
        return op

    def recipe_of(self, name: str) -> tuple[str | None, Recipe]:
        """The recipe of a layer, and the pattern of the first override that matches its name; None without one."""
        for pattern, recipe in self.overrides:
            if fnmatchcase(name, pattern):
                return pattern, recipe
        return None, self.recipe

    def rules_of(self, name: str, kinds: frozenset[str]) -> LayerRules:
        """The rules of a layer: those of the first override that matches its name, else of the recipe."""
        return self.recipe_of(name)[1].rules_for(kinds)

    def may_round(self, name: str) -> bool:
        """Whether the recipe of a layer rounds anything, in layers of some kind."""
        recipe = self.recipe_of(name)[1]
        return not recipe.is_identity or bool(recipe.exceptions)

    def switch(self, recipe: Recipe) -> None:
        """Take another recipe for all layers without an override; its rules hold from the next product on."""
        self.recipe, self.kinds = recipe, _with_late(self.kinds, recipe.late_share)
        self.__dict__.pop("is_identity", None)
        self.thread.shared.clear()
        for name, names in self.sites.items():
            for op in map(self.ops.__getitem__, names):
                if "product" not in op.kinds:
                    op.kinds = (op.kinds - {"late"}) | (self.kinds.get(name, frozenset()) & {"late"})
                op.take_rules(self.rules_of(name, op.kinds))

    def ops_of(self, name: str) -> dict[str, QuantizedOp]:
        """The ops of one module, by what follows its name: "" for its own product, "/matmul" for another."""
        return {site[len(name) :]: self.ops[site] for site in self.sites.get(name, ())}

    def _add(self, module: str, op: QuantizedOp) -> None:
        self.ops[op.name] = op
        self.sites.setdefault(module, []).append(op.name)

    def clipped(self, x: Tensor, op: QuantizedOp) -> Tensor:
        """The input of a layer, rounded under its trained clip; unchanged where the layer has none."""
        return x if op.rules.activation.learned is None else trained_clips.clipped(x, op, self.module)

    # -- copies and files -------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """A copy has no open calls and no watcher; its first calls are watched again for unseen products."""
        state = {name: value for name, value in self.__dict__.items() if name != "thread"}
        return state | {"watch": None, "watched_calls": set()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, thread=ThreadState())

    def load_state_of(self, name: str, sites: dict[str, dict[str, Any]]) -> None:
        """Restore the ops of one module from their ``state_dict``, by what follows the module's name.

        Ops that did not run yet are made; those without a state begin anew.
        """
        for site in self.sites.pop(name, ()):
            del self.ops[site]
        for suffix, values in sites.items():
            kinds = frozenset(values["kinds"])
            op = QuantizedOp(name + suffix, kinds, self.rules_of(name, kinds), self.seed)
            op.load_state_dict(values)
            self._add(name, op)

    def __repr__(self) -> str:
        return f"Emulation({self.recipe.name or 'recipe'}, {len(self.ops)} ops)"


@contextmanager
def disable_quantization(emulation: Emulation) -> Iterator[None]:
    """Compute in float32 within the block.

    >>> emulation = Emulation(Recipe(), {})
    >>> with disable_quantization(emulation):
    ...     emulation.enabled
    False
    """
    before, emulation.enabled = emulation.enabled, False
    try:
        yield
    finally:
        emulation.enabled = before


@contextmanager
def preserve_random_state(emulations: list[Emulation]) -> Iterator[None]:
    """Restore the counters of random roundings on exit: what is computed within the block changes no later random bit.

    >>> emulation = Emulation(Recipe(), {})
    >>> with preserve_random_state([emulation]):
    ...     emulation.ops["new"] = QuantizedOp("new")
    ...     seed = emulation.ops["new"].seed_of("weight")
    >>> emulation.ops["new"].calls
    {}
    """
    before = [{name: dict(op.calls) for name, op in emulation.ops.items()} for emulation in emulations]
    try:
        yield
    finally:
        for emulation, calls in zip(emulations, before, strict=True):
            for name, op in emulation.ops.items():
                op.calls = calls.get(name, {})


def _with_late(kinds: dict[str, frozenset[str]], share: float) -> dict[str, frozenset[str]]:
    """The kinds of layers by name, of which a share, those at the end, are "late"."""
    late = set(list(kinds)[len(kinds) - math.ceil(round(share * len(kinds), 9)) :])
    return {name: own | {"late"} if name in late else own - {"late"} for name, own in kinds.items()}
