"""A site: one place of a model where tensors meet their formats, with the memory that its quantizers need.

This module needs PyTorch.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from lplab.quantizers import GradScale
from lplab.training.recipe import LayerRules
from lplab.training.rounding import Rounded, both_of, rounder_of

_SEED = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: multiples of it are spread evenly over 64 bits
Watcher = Callable[["Site", str, Tensor, Rounded], None]


@dataclass(eq=False, repr=False)
class Site:
    """One place where a product (or a lookup, or a normalization) is computed under a recipe.

    Args:
        name: of the module, with the product's number where a module computes several: "attention/matmul2".
        kinds: what the layer is (see ``lplab.training.recipe.KINDS``).
        rules: how its tensors are rounded.
        seed: of its coins; together with the name and the number of the call it decides every random bit.

    Attributes:
        calls: roundings by role so far that threw a coin.
        scale: the gradient scale of the layer, where a rule asks for one.
        clip_signed: whether a trained clip has two sides; None before the first input.
        watch: None, or a function (site, role, tensor before, what it became) that sees every rounding.
    """

    name: str
    kinds: frozenset[str] = frozenset()
    rules: LayerRules = field(default_factory=LayerRules)
    seed: int = 0

    def __post_init__(self) -> None:
        self.calls: dict[str, int] = {}
        self.watch: Watcher | None = None
        self.clip_signed: bool | None = None
        self.shared: list[Any] = []
        self._rounders: dict[str, Any] = {}
        self._both: dict[float, Any] = {}
        per_layer = self.rules.output_gradient_dx.per_layer or self.rules.output_gradient_dw.per_layer
        self.scale = GradScale(per_layer.scale, maximum=per_layer.maximum) if per_layer else None

    def __repr__(self) -> str:
        kinds = f", {'/'.join(sorted(self.kinds))}" if self.kinds else ""
        return f"Site({self.name!r}{kinds})"

    # -- rounding ---------------------------------------------------------------------------------------------

    def round(self, role: str, x: Tensor) -> Tensor:
        """The tensor as this role's rule wants it; x itself where there is nothing to do."""
        rule = getattr(self.rules, role)
        if rule.is_identity:
            if self.watch is not None:
                self.watch(self, role, x, Rounded(x, 1.0))
            return x
        seed = self.seed_of(role) if rule.is_random else 0
        if role not in self._rounders:
            self._rounders[role] = rounder_of(rule)
        rounded = self._rounders[role](x.detach(), seed, self.scale.scale if self.scale else 1.0)
        if self.watch is not None:
            self.watch(self, role, x, rounded)
        return no_view(rounded.values)

    def activation(self, x: Tensor) -> Tensor:
        """The input of a layer as its rule wants it; what several layers take in turn is rounded once for all.

        ``shared`` is a list of the whole model: which tensor was rounded last, how, and what it became. The tensor
        is kept alive in it, so that its identity stays its own.
        """
        rule = self.rules.activation
        if rule.is_identity or self.watch is not None or x.is_inference():
            return self.round("activation", x)
        last = next(iter(self.shared), None)  # in one go: another thread may round here, too
        if last is not None and last[0] is x and last[1] == x._version and last[2] == rule:
            return last[3]
        rounded = self.round("activation", x)
        self.shared[:] = [(x, x._version, rule, rounded)]
        return rounded

    def gradients(self, dy: Tensor, for_dx: bool, for_dw: bool) -> tuple[Tensor | None, Tensor | None]:
        """An output gradient as the product for dx and as that for dW want it; the same tensor where both agree."""
        in_one_pass = self._both_gradients(dy) if for_dx and for_dw else None
        if in_one_pass is not None:
            return in_one_pass
        if self.scale is not None and (for_dx or for_dw):
            self.scale.vote(dy)
        rules = self.rules
        same = rules.output_gradient_dx == rules.output_gradient_dw and not rules.output_gradient_dx.is_random
        dx = self.round("output_gradient_dx", dy) if for_dx else None
        if not for_dw:
            return dx, None
        return dx, dx if same and dx is not None else self.round("output_gradient_dw", dy)

    def _both_gradients(self, dy: Tensor) -> tuple[Tensor, Tensor] | None:
        """As :meth:`gradients`, reading dy once; None where that cannot be."""
        if self.scale is None or not self.scale.is_set or self.watch is not None:
            return None
        scale = self.scale.scale
        if scale not in self._both:
            self._both[scale] = both_of(self.rules.output_gradient_dx, self.rules.output_gradient_dw, scale)
        rounded = self._both[scale] and self._both[scale](dy.detach())
        if rounded is None:
            return None
        self.scale.vote_for(rounded[2])
        return no_view(rounded[0]), no_view(rounded[1])

    def end_step(self) -> None:
        """Let the gradient scale follow what it has seen since the last call."""
        if self.scale is not None and self.scale.votes:
            self.scale.step()

    def seed_of(self, role: str) -> int:
        """A seed that no other place, role or call has."""
        count = self.calls.get(role, 0)
        self.calls[role] = count + 1
        place = zlib.crc32(f"{self.name}/{role}".encode())
        return ((self.seed << 32 | place) * _SEED + count * 0xD1B54A32D192ED03) % 2**63

    # -- state ------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint must hold."""
        scale = self.scale.state_dict() if self.scale else None
        counts = {"calls": dict(self.calls), "kinds": sorted(self.kinds)}
        return counts | {"scale": scale, "clip_signed": self.clip_signed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state_dict`."""
        self.calls, self.clip_signed = dict(state["calls"]), state["clip_signed"]
        if self.scale is not None and state["scale"] is not None:
            self.scale.load_state_dict(state["scale"])

    def __getstate__(self) -> dict[str, Any]:
        """Copies and files know nothing of who is watching, and keep no tensors."""
        return {**self.__dict__, "watch": None, "shared": [], "_rounders": {}, "_both": {}}


def no_view(x: Tensor) -> Tensor:
    """The same numbers, not known as a view: what a Function makes may then be changed in place, as by ``relu_``."""
    return x.data if x._is_view() else x


class StraightThrough(torch.autograd.Function):
    """Round one operand of a product in the forward pass; hand the gradient on as it is."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, site: Site, role: str) -> Tensor:
        """Round."""
        rounded = site.round(role, x)
        return rounded.view_as(rounded) if rounded is x else rounded

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        """The gradient itself."""
        return gradient, None, None


def rounded_gradient(x: Tensor, site: Site, role: str) -> Tensor:
    """The tensor itself, whose gradient will be rounded; no view of it, so that activations may work in place."""
    if not x.requires_grad:
        return x

    def hook(gradient: Tensor) -> Tensor:
        if site.scale is not None and role.startswith("output_gradient"):
            site.scale.vote(gradient)  # here no product asks for the gradient, so that nothing else would look at it
        return site.round(role, gradient)

    x.register_hook(hook)
    return x


def operand(x: Tensor, site: Site, role: str) -> Tensor:
    """An operand as its role's rule wants it, with the gradient straight through."""
    if getattr(site.rules, role).is_identity and site.watch is None:
        return x
    if x.requires_grad and torch.is_grad_enabled():
        return StraightThrough.apply(x, site, role)
    return site.round(role, x)
