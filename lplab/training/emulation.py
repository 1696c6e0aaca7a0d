"""What a quantized model carries along: its recipe, its sites, and the eye that sees every product it computes.

While a quantized model runs, PyTorch shows each function that is called (``nn.Linear`` and ``x @ w`` alike) to a
:class:`torch.overrides.TorchFunctionMode`; :mod:`lplab.training.functions` says what becomes of it. Hooks on the
modules tell in which one we are. So parameters, classes and ``state_dict`` of the model stay what they were.

This module needs PyTorch.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode

from lplab.training.recipe import LayerRules, Recipe
from lplab.training.site import Site, Watcher


@dataclass(eq=False)
class Frame:
    """A call of a module: its name, itself, and how many products of each sort it has computed so far."""

    name: str
    module: nn.Module
    counts: dict[str, int] = field(default_factory=dict)


class Running(threading.local):
    """What a thread computes in a model right now; threads may compute in the same model side by side.

    Attributes:
        frames: the calls of modules, the outermost first.
        eyes: those that are switched on.
        shared: the input that was rounded last, and what it became.
    """

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.eyes: list[Eye] = []
        self.shared: list[Any] = []


class Emulation:
    """How a model is computed under a recipe; made by :func:`lplab.training.quantize_model`.

    Args:
        recipe: of all layers without an override.
        kinds: of the modules that own weights, by name.
        overrides: pairs of a pattern of names (as in a shell: ``"blocks.0.*"``) and a recipe; the first that fits
            holds.
        seed: of all coins.
    """

    def __init__(
        self,
        recipe: Recipe,
        kinds: dict[str, frozenset[str]],
        overrides: tuple[tuple[str, Recipe], ...] = (),
        seed: int = 0,
    ) -> None:
        self.recipe, self.kinds, self.overrides, self.seed = recipe, kinds, overrides, seed
        self.sites: dict[str, Site] = {}
        self.enabled = True
        self.watch: Watcher | None = None
        self._running = Running()

    @cached_property
    def is_plain(self) -> bool:
        """Whether nothing at all is rounded."""
        used = (self.recipe, *(other for _, other in self.overrides))
        return all(each.is_identity and not each.exceptions for each in used)

    # -- where we are -----------------------------------------------------------------------------------------

    def enter(self, name: str, module: nn.Module) -> None:
        """A module begins, called two frames further out; the first one switches the eye on."""
        running = self._running
        if running.eyes and running.eyes[-1].is_left_behind():
            self._abandon()
        if not running.frames:
            if torch.is_grad_enabled():
                for site in self.sites.values():
                    site.end_step()
            eye = Eye(self, None if torch.compiler.is_compiling() else sys._getframe(2))
            running.eyes.append(eye)
            eye.__enter__()
        running.frames.append(Frame(name, module))
        if len(running.frames) == 1 and not self.is_plain and any(map(torch.is_autocast_enabled, ("cpu", "cuda"))):
            raise RuntimeError(
                "torch.autocast is on, and a recipe decides formats itself; call the model outside of autocast"
            )

    def leave(self) -> None:
        """A module ends."""
        running = self._running
        running.frames.pop()
        if not running.frames:
            running.eyes.pop().__exit__(None, None, None)
            running.shared.clear()

    def _abandon(self) -> None:
        """Forget a call that Ctrl-C ended: PyTorch's hooks hear of errors, but not of interrupts."""
        running = self._running
        eye = running.eyes[-1]
        if _get_current_function_mode() is eye:
            eye.__exit__(None, None, None)  # one below others stays where it is, and does nothing any more
        for kept in (running.frames, running.eyes, running.shared):
            kept.clear()

    @property
    def module(self) -> nn.Module:
        """The module that is running."""
        return self._running.frames[-1].module

    @property
    def name(self) -> str:
        """The name of the module that is running."""
        return self._running.frames[-1].name

    @property
    def place(self) -> str:
        """The name of the module that is running, for messages."""
        frame = self._running.frames[-1]
        return f"{frame.name or 'the model'} ({type(frame.module).__name__})"

    # -- sites ------------------------------------------------------------------------------------------------

    def site(self, sort: str, kinds: frozenset[str] = frozenset(), own: bool = True) -> Site:
        """The site of the product that is being computed.

        Args:
            sort: of product, such as "linear" or "matmul".
            kinds: what is known of the layer from its tensors.
            own: whether the first product of this sort goes by the name of the module alone.
        """
        frame = self._running.frames[-1]
        count = frame.counts[sort] = frame.counts.get(sort, 0) + 1
        if own and count == 1 and frame.name in self.kinds:
            name = frame.name
        else:
            name = f"{frame.name}/{sort}{count if count > 1 else ''}"
        if name not in self.sites:
            kinds = kinds if "product" in kinds else kinds | self.kinds.get(frame.name, frozenset())
            self.sites[name] = Site(name, kinds, self.rules_of(frame.name, kinds), self.seed)
        site = self.sites[name]
        site.watch, site.shared = self.watch, self._running.shared
        return site

    def rules_of(self, name: str, kinds: frozenset[str]) -> LayerRules:
        """The rules of a layer: those of the first override that fits its name, else of the recipe."""
        for pattern, recipe in self.overrides:
            if fnmatchcase(name, pattern):
                return recipe.rules_for(kinds)
        return self.recipe.rules_for(kinds)

    def clipped(self, x: Tensor, site: Site) -> Tensor:
        """The input of a layer, where its clip is one that trains; else as it is, to be rounded by its product."""
        if site.rules.activation.learned is None:
            return x
        from lplab.training.learned import clipped

        return clipped(x, site, self.module)

    # -- copies and files -------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """A copy is never in the middle of a call."""
        return {name: value for name, value in self.__dict__.items() if name != "_running"} | {"watch": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _running=Running())

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint must hold: gradient scales and how often each coin was thrown."""
        return {name: site.state_dict() for name, site in self.sites.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state_dict`; sites that did not run yet are made."""
        for name, values in state.items():
            if name not in self.sites:
                kinds = frozenset(values["kinds"])
                self.sites[name] = Site(name, kinds, self.rules_of(name.partition("/")[0], kinds), self.seed)
            self.sites[name].load_state_dict(values)

    def __repr__(self) -> str:
        return f"Emulation({self.recipe.name or 'recipe'}, {len(self.sites)} sites)"


class Eye(TorchFunctionMode):
    """Shows every function of PyTorch that is called to :mod:`lplab.training.functions`.

    Args:
        emulation: what computes them.
        caller: the call that the eye is open for; None where somebody is sure to close it.
    """

    def __init__(self, emulation: Emulation, caller: FrameType | None = None) -> None:
        from lplab.training.functions import HANDLERS

        super().__init__()
        self.emulation, self.handlers, self.caller = emulation, HANDLERS, caller

    def is_left_behind(self) -> bool:
        """Whether the call has ended without closing the eye, by Ctrl-C: an eye that saw on would round all models."""
        if self.caller is None or torch.compiler.is_compiling():
            return False
        try:
            self.caller.clear()
        except RuntimeError:  # Python refuses while the call is going on
            return False
        return True

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Compute under the recipe what has a handler, everything else as it is."""
        handler = self.handlers.get(func)
        if handler is None or not self.emulation.enabled or self.is_left_behind():
            return func(*args, **(kwargs or {}))
        return handler(self.emulation, func, args, kwargs or {})


class Enter:
    """The hook that runs before a module; it knows its name."""

    def __init__(self, emulation: Emulation, name: str) -> None:
        self.emulation, self.name = emulation, name

    def __call__(self, module: nn.Module, args: Any) -> None:
        """Tell the emulation."""
        self.emulation.enter(self.name, module)


class Leave:
    """The hook that runs after a module, whatever happened in it."""

    def __init__(self, emulation: Emulation) -> None:
        self.emulation = emulation

    def __call__(self, module: nn.Module, args: Any, output: Any) -> None:
        """Tell the emulation."""
        self.emulation.leave()


@contextmanager
def paused(emulation: Emulation) -> Iterator[None]:
    """Compute in float32 for a while.

    >>> emulation = Emulation(Recipe(), {})
    >>> with paused(emulation):
    ...     emulation.enabled
    False
    """
    before, emulation.enabled = emulation.enabled, False
    try:
        yield
    finally:
        emulation.enabled = before


@contextmanager
def undisturbed(emulations: list[Emulation]) -> Iterator[None]:
    """Compute for a while with coins that do not count: what comes afterwards is as if nothing had been computed.

    >>> emulation = Emulation(Recipe(), {})
    >>> with undisturbed([emulation]):
    ...     emulation.sites["new"] = Site("new")
    ...     seed = emulation.sites["new"].seed_of("weight")
    >>> emulation.sites["new"].calls
    {}
    """
    before = [{name: dict(site.calls) for name, site in each.sites.items()} for each in emulations]
    try:
        yield
    finally:
        for each, calls in zip(emulations, before, strict=True):
            for name, site in each.sites.items():
                site.calls = calls.get(name, {})
