"""Optimizers whose weights and state are rounded as a recipe says: SGD with momentum, Adam and AdamW.

With float32 rules they *are* those of ``torch.optim``, bit for bit. Otherwise each step of the arithmetic that a rule
names is rounded, all in the parameters' own float32.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from lplab.formats.base import whole
from lplab.quantizers.radix4 import positive
from lplab.training.learned import ALPHA
from lplab.training.recipe import Recipe, Update
from lplab.training.rounding import rounder_of
from lplab.training.rules import FLOAT32, Rule

OPTIMIZERS = ("sgd", "adam", "adamw")
_SEED = 0x9E3779B97F4A7C15
PLAIN = "plain"
"""A parameter group with this key set is updated in float32, whatever the recipe says (clips of PACT are)."""


class Rounding:
    """The roundings of an update: which rule for what, and a seed that no other parameter or step has."""

    def __init__(self, update: Update, seed: int) -> None:
        self.update, self.seed = update, seed

    def round(self, rule: Rule, x: Tensor, place: int, step: int, number: int) -> Tensor:
        """The tensor rounded; itself where there is nothing to do."""
        if rule.is_identity or not x.numel():
            return x
        seed = ((self.seed << 40 | place << 4 | number) * _SEED + step * 0xD1B54A32D192ED03) % 2**63
        return rounder_of(rule)(x, seed, 1.0).values


class _Rounded:
    """What both optimizers share: rounding gradients, and weights with or without a master copy."""

    update: Update
    rounding: Rounding

    def _parameters(self: Any) -> Iterable[tuple[int, dict[str, Any], Tensor, dict[str, Any]]]:
        """Every parameter with a gradient: its place, its group and its state, in which the step has been counted."""
        place = 0
        for group in self.param_groups:
            for p in group["params"]:
                place += 1
                if p.grad is None:
                    continue
                if p.grad.is_sparse:
                    raise RuntimeError("sparse gradients cannot be rounded; pass sparse=False to nn.Embedding")
                state = self.state[p]
                state["step"] = state.get("step", torch.zeros(())) + 1  # as torch.optim counts
                yield place, group, p, state

    def _rule(self, name: str, group: dict[str, Any]) -> Rule:
        return FLOAT32 if group.get(PLAIN) else getattr(self.update, name)

    def _gradient(self: Any, place: int, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> Tensor:
        """The gradient as its rule wants it, its sign turned where the group maximizes."""
        gradient = -p.grad if group.get("maximize") else p.grad
        return self.rounding.round(self._rule("gradient", group), gradient, place, int(state["step"]), 0)

    def _weight(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> Tensor:
        """The weights to be updated: the master copy where there is one."""
        if self.update.master_weight is None or group.get(PLAIN):
            return p
        if "master" not in state:
            state["master"] = p.detach().clone()
        return state["master"]

    def _store(self: Any, new: Tensor, place: int, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> None:
        """Round the new weights and put them into the model."""
        count = int(state["step"])
        if self.update.master_weight is not None and not group.get(PLAIN):
            new = self.rounding.round(self.update.master_weight, new, place, count, 3)
            state["master"].copy_(new)
        p.copy_(self.rounding.round(self._rule("weight", group), new, place, count, 4))


class SGD(_Rounded, torch.optim.SGD):
    """Stochastic gradient descent in few bits.

    With ``order="axpy"`` the three steps of Wang et al. 2018, each rounded: g ← g + λw, v ← μv + g, w ← w − ηv. With
    ``order="velocity"``: v ← μv − η(g + λw), w ← w + v (our reading of Gupta et al. 2015).

    Args:
        params, lr, momentum, weight_decay: as ``torch.optim.SGD``.
        update: an :class:`~lplab.training.recipe.Update`: which rule rounds weight, momentum and gradient.
        seed: of stochastic rounding.
        more: the other arguments of ``torch.optim.SGD``; rounded updates know ``maximize`` alone.

    >>> weight = nn.Parameter(torch.tensor([1.0]))
    >>> optimizer = SGD([weight], lr=0.25, update=Update(weight="bf16"))
    >>> weight.grad = torch.tensor([0.01])
    >>> optimizer.step(), weight.item()
    (None, 0.99609375)
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        *,
        update: Update | None = None,
        seed: int = 0,
        **more: Any,
    ) -> None:
        self.update = update or Update()
        self.rounding = Rounding(self.update, whole("seed", seed, 0, 2**31 - 1))
        if not self.update.is_identity and (unknown := set(more) - {"maximize"}):
            raise ValueError(f"a rounded SGD has no {', '.join(sorted(unknown))}; allowed: maximize")
        super().__init__(params, lr=lr, momentum=momentum, weight_decay=weight_decay, **more)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """One update of all parameters that have a gradient."""
        if self.update.is_identity:
            return super().step(closure)
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for place, group, p, state in self._parameters():
            g = self._gradient(place, group, p, state)
            w = self._weight(group, p, state)
            change = self._velocity if self.update.order == "velocity" else self._axpy
            self._store(change(g, w, place, group, state), place, group, p, state)
        return loss

    def _axpy(self, g: Tensor, w: Tensor, place: int, group: dict[str, Any], state: dict[str, Any]) -> Tensor:
        rule, count = self._rule("momentum", group), int(state["step"])
        if group["weight_decay"]:
            g = self.rounding.round(rule, g.add(w, alpha=group["weight_decay"]), place, count, 1)
        if group["momentum"]:
            v = state.get("momentum_buffer")
            v = g.clone() if v is None else v.mul(group["momentum"]).add_(g)
            g = state["momentum_buffer"] = self.rounding.round(rule, v, place, count, 2)
        return w.sub(g, alpha=group["lr"])

    def _velocity(self, g: Tensor, w: Tensor, place: int, group: dict[str, Any], state: dict[str, Any]) -> Tensor:
        v = g.add(w, alpha=group["weight_decay"]).mul_(-group["lr"])
        if group["momentum"] and "momentum_buffer" in state:
            v.add_(state["momentum_buffer"], alpha=group["momentum"])
        v = self.rounding.round(self._rule("momentum", group), v, place, int(state["step"]), 2)
        if group["momentum"]:
            state["momentum_buffer"] = v
        return w + v


class _RoundedAdam(_Rounded):
    """Adam's arithmetic with rounded moments; decay of weights before (AdamW) or as part of the gradient (Adam)."""

    decoupled = False

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        update: Update | None = None,
        seed: int = 0,
        **more: Any,
    ) -> None:
        self.update = update or Update()
        self.rounding = Rounding(self.update, whole("seed", seed, 0, 2**31 - 1))
        if not self._is_plain and (unknown := set(more) - {"maximize"}):
            raise ValueError(f"a rounded Adam has no {', '.join(sorted(unknown))}; allowed: maximize")
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, **more)  # type: ignore[call-arg]

    @property
    def _is_plain(self) -> bool:
        return all(rule.is_identity for rule in self.update.rules)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """One update of all parameters that have a gradient."""
        if self._is_plain:
            return super().step(closure)  # type: ignore[misc]
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for place, group, p, state in self._parameters():
            g = self._gradient(place, group, p, state)
            w = self._weight(group, p, state)
            self._store(self._adam(g, w, place, group, state), place, group, p, state)
        return loss

    def _adam(self, g: Tensor, w: Tensor, place: int, group: dict[str, Any], state: dict[str, Any]) -> Tensor:
        count, (beta1, beta2), decay = int(state["step"]), group["betas"], group["weight_decay"]
        if decay and self.decoupled:
            w = w * (1 - group["lr"] * decay)
        elif decay:
            g = g.add(w, alpha=decay)
        if "exp_avg" not in state:
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(g), torch.zeros_like(g)
        m = state["exp_avg"].lerp(g, 1 - beta1)
        v = state["exp_avg_sq"].mul(beta2).addcmul_(g, g, value=1 - beta2)
        m = state["exp_avg"] = self.rounding.round(self._rule("momentum", group), m, place, count, 1)
        v = state["exp_avg_sq"] = self.rounding.round(self._rule("variance", group), v, place, count, 2)
        size = v.sqrt().div_((1 - beta2**count) ** 0.5).add_(group["eps"])
        return w.addcdiv(m, size, value=-group["lr"] / (1 - beta1**count))


class Adam(_RoundedAdam, torch.optim.Adam):
    """Adam in few bits: both moments and the weights are rounded after each step.

    Args:
        params, lr, betas, eps, weight_decay: as ``torch.optim.Adam``.
        update: an :class:`~lplab.training.recipe.Update`: which rule rounds weight, momentum, variance and gradient;
            ``order`` does not matter.
        seed: of stochastic rounding.
        more: the other arguments of ``torch.optim.Adam``; rounded updates know ``maximize`` alone.

    >>> weight = nn.Parameter(torch.tensor([1.0]))
    >>> optimizer = Adam([weight], lr=0.1, update=Update(weight="bf16"))
    >>> weight.grad = torch.tensor([1.0])
    >>> optimizer.step(), weight.item()
    (None, 0.8984375)
    """


class AdamW(_RoundedAdam, torch.optim.AdamW):
    """:class:`Adam` with decoupled weight decay (Loshchilov and Hutter 2019)."""

    decoupled = True

    def __init__(self, params: Any, lr: float = 1e-3, *, weight_decay: float = 0.01, **more: Any) -> None:
        super().__init__(params, lr, weight_decay=weight_decay, **more)


def make_optimizer(
    model: nn.Module,
    recipe: Recipe | None = None,
    kind: str = "sgd",
    *,
    lr: float = 0.05,
    weight_decay: float = 0.0,
    clip_decay: float | None = None,
    seed: int = 0,
    **more: Any,
) -> Any:
    """The optimizer of a recipe for a model.

    Trained clips (PACT) get a group of their own: float32, decayed with ``clip_decay``, or, if None, as the weights.
    Where a recipe stores weights in few bits without a master copy, the weights of the model are rounded at once.

    Args:
        model: quantized or not.
        recipe: by default that of the model.
        kind: "sgd", "adam" or "adamw".
        lr, weight_decay, more: as of the optimizer.
        seed: of stochastic rounding.

    >>> make_optimizer(nn.Linear(1, 1), Recipe(), "adam", lr=0.01).defaults["lr"]
    0.01
    """
    from lplab.training.conversion import emulation_of

    if kind not in OPTIMIZERS:
        raise ValueError(f"unknown optimizer {kind!r}; allowed: {', '.join(OPTIMIZERS)}")
    update = (recipe or emulation_of(model).recipe).update
    named = list(model.named_parameters())
    clips = [p for name, p in named if name.split(".")[-1] == ALPHA]
    groups: list[dict[str, Any]] = [{"params": [p for name, p in named if name.split(".")[-1] != ALPHA]}]
    if clips:
        decay = weight_decay if clip_decay is None else clip_decay
        groups.append({"params": clips, "weight_decay": decay, PLAIN: True})
    sort = {"sgd": SGD, "adam": Adam, "adamw": AdamW}[kind]
    optimizer = sort(groups, lr=positive("lr", lr), weight_decay=weight_decay, update=update, seed=seed, **more)
    if update.master_weight is None and not update.weight.is_identity:
        with torch.no_grad():
            for place, p in enumerate(groups[0]["params"]):
                p.copy_(optimizer.rounding.round(update.weight, p, place, 0, 5))
    return optimizer
