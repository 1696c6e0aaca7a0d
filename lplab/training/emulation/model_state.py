"""The state that a quantized model carries: its recipe, its quantized ops, and which module is being called.

:mod:`lplab.training.emulation.interception` keeps the module calls up to date and intercepts the functions that the
model calls. Parameters, classes and ``state_dict`` of the model stay unchanged.

This module needs PyTorch.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from types import FrameType
from typing import Any

from torch import Tensor, nn

from lplab.training.emulation import pact
from lplab.training.emulation.quantized_op import Draws, QuantizedOp, Watcher
from lplab.training.recipe.recipe import LayerRules, Recipe


@dataclass(eq=False)
class ModuleCall:
    """A call of a module that has not returned yet.

    Attributes:
        name, module: the module.
        counts: products computed in this call so far, by kind.
        draws: where random bits come from if the call is inside an activation checkpoint.
        frame: of the call, where checkpoints are looked for; else None.
    """

    name: str
    module: nn.Module
    counts: dict[str, int] = field(default_factory=dict)
    draws: Draws | None = None
    frame: FrameType | None = None


class ThreadState(threading.local):
    """What one thread computes in a model. Several threads may run the same model.

    Attributes:
        calls: open calls of modules, the outermost first.
        modes: function modes that are switched on.
        shared: the last rounded input, and its rounded value.
        draws: of the function that is running, if it is inside an activation checkpoint.
        again: in the recomputation of an activation checkpoint, the draws of the forward pass.
        compiler: of ``torch.compile``, switched off during the call of the model; None where there is none.
    """

    def __init__(self) -> None:
        self.calls: list[ModuleCall] = []
        self.modes: list[Any] = []
        self.shared: list[Any] = []
        self.draws: Draws | None = None
        self.again: Draws | None = None
        self.compiler: Any = None


class Emulation:
    """How a model is computed under a recipe; made by :func:`lplab.training.quantize_model`.

    Args:
        recipe: of all layers without an override.
        kinds: of the modules that own weights, by name.
        overrides: pairs of a name pattern (as in a shell: ``"blocks.0.*"``) and a recipe; the first match decides.
        seed: of all random bits.

    Attributes:
        ops: the quantized ops by name; each is made when it first runs.
        enabled: False while the model computes in float32.
        watch: None, or a function that is called with every rounding (see :class:`QuantizedOp`).
        thread: the state of the current thread.
    """

    def __init__(
        self,
        recipe: Recipe,
        kinds: dict[str, frozenset[str]],
        overrides: tuple[tuple[str, Recipe], ...] = (),
        seed: int = 0,
    ) -> None:
        self.recipe, self.kinds, self.overrides, self.seed = recipe, kinds, overrides, seed
        self.ops: dict[str, QuantizedOp] = {}
        self.enabled = True
        self.watch: Watcher | None = None
        self.thread = ThreadState()

    @cached_property
    def is_identity(self) -> bool:
        """Whether nothing at all is rounded."""
        used = (self.recipe, *(other for _, other in self.overrides))
        return all(each.is_identity and not each.exceptions for each in used)

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
            self.ops[name] = QuantizedOp(name, kinds, self.rules_of(call.name, kinds), self.seed)
        op = self.ops[name]
        op.watch, op.shared, op.thread = self.watch, self.thread.shared, self.thread
        return op

    def rules_of(self, name: str, kinds: frozenset[str]) -> LayerRules:
        """The rules of a layer: those of the first override that matches its name, else of the recipe."""
        for pattern, recipe in self.overrides:
            if fnmatchcase(name, pattern):
                return recipe.rules_for(kinds)
        return self.recipe.rules_for(kinds)

    def clipped(self, x: Tensor, op: QuantizedOp) -> Tensor:
        """The input of a layer, rounded under its trained clip; unchanged where the layer has none."""
        return x if op.rules.activation.learned is None else pact.clipped(x, op, self.module)

    # -- copies and files -------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """A copy has no open calls and no watcher."""
        return {name: value for name, value in self.__dict__.items() if name != "thread"} | {"watch": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, thread=ThreadState())

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint must hold: gradient scales and how many random roundings each op has done."""
        return {name: op.state_dict() for name, op in self.ops.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state_dict`; ops that did not run yet are made."""
        for name, values in state.items():
            if name not in self.ops:
                kinds = frozenset(values["kinds"])
                self.ops[name] = QuantizedOp(name, kinds, self.rules_of(name.partition("/")[0], kinds), self.seed)
            self.ops[name].load_state_dict(values)

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
    before = [{name: dict(op.calls) for name, op in each.ops.items()} for each in emulations]
    try:
        yield
    finally:
        for each, calls in zip(emulations, before, strict=True):
            for name, op in each.ops.items():
                op.calls = calls.get(name, {})
