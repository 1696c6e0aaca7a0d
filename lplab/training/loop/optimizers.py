"""Optimizers whose weights and state are rounded by a recipe: SGD with momentum, Adam and AdamW.

With float32 rules they *are* those of ``torch.optim``, bit for bit. Otherwise each step of the arithmetic that a rule
names is rounded, all in the parameters' own float32.

This module needs PyTorch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from lplab.checks import check_int, check_positive
from lplab.training.emulation.conversion import emulation_of
from lplab.training.emulation.trained_clips import ALPHA
from lplab.training.loop.update_rounding import FLOAT32_GROUP, ParameterBatch, UpdateRounder, parameter_batches
from lplab.training.recipe import recipes
from lplab.training.recipe.recipe import Recipe, Update

OPTIMIZERS = ("sgd", "adam", "adamw")
BUFFER = "momentum_buffer"


class _Rounded:
    """What both optimizers share: rounding gradients, and weights with or without a master copy (master weights)."""

    update: Update
    rounding: UpdateRounder

    def _take_update(self, update: Update | None, seed: int, options: dict[str, Any], more: dict[str, Any]) -> Any:
        """Take the rules; returns the options of PyTorch's optimizer, of which a rounded one knows few."""
        self.update = update or Update()
        self.rounding = UpdateRounder(self.update, check_int("seed", seed, 0, 2**31 - 1))
        if self._is_plain:
            return _all_at_once(options | more)
        if unknown := set(more) - {"maximize"}:
            raise ValueError(f"a rounded {type(self).__name__} has no {', '.join(sorted(unknown))}; allowed: maximize")
        return options | more

    @property
    def _is_plain(self) -> bool:
        """Whether the update is PyTorch's own."""
        return self.update.is_identity

    def step(self, closure: Any = None) -> Any:
        """One update of all parameters that have a gradient."""
        return super().step(closure) if self._is_plain else self._step(closure)  # type: ignore[misc]

    @torch.no_grad()
    def _step(self: Any, closure: Any) -> Any:
        """One update of all parameters that have a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for batch in parameter_batches(self):
            weights = self._weights(batch)
            self._store(self._changed(self._gradients(batch), weights, batch), batch)
        return loss

    def _gradients(self, batch: ParameterBatch) -> list[Tensor]:
        """The gradients, rounded; their signs are changed where the group maximizes."""
        gradients = [p.grad for p in batch.parameters if p.grad is not None]
        gradients = torch._foreach_neg(gradients) if batch.group.get("maximize") else gradients
        return self.rounding.round_all(self.rounding.rule("gradient", batch.group), gradients, batch, 0)

    def _has_masters(self, batch: ParameterBatch) -> bool:
        return self.update.master_weight is not None and not batch.group.get(FLOAT32_GROUP)

    def _weights(self, batch: ParameterBatch) -> list[Tensor]:
        """The weights to be updated: the master copies where there are some."""
        if not self._has_masters(batch):
            return batch.parameters
        for p, state in zip(batch.parameters, batch.states, strict=True):
            if "master" not in state:
                state["master"] = p.detach().clone()
        return batch.get("master")

    def _store(self, new: list[Tensor], batch: ParameterBatch) -> None:
        """Round the new weights and store them in the model."""
        if self._has_masters(batch):
            masters = batch.get("master")
            self.rounding.round_into(self.update.master_weight, new, masters, batch, 3)
            new = masters
        self.rounding.round_into(self.rounding.rule("weight", batch.group), new, batch.parameters, batch, 4)


class SGD(_Rounded, torch.optim.SGD):
    """Stochastic gradient descent in few bits.

    With ``order="axpy"`` the three steps of Wang et al. 2018, each rounded: g ← g + λw, v ← μv + g, w ← w − ηv. With
    ``order="velocity"``: v ← μv − η(g + λw), w ← w + v (our reading of Gupta et al. 2015).

    Args:
        params, lr, momentum, weight_decay: as ``torch.optim.SGD``.
        update: an :class:`~lplab.training.recipe.recipe.Update`: which rule rounds weight, momentum and gradient.
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
        options = {"momentum": momentum, "weight_decay": weight_decay}
        super().__init__(params, lr=lr, **self._take_update(update, seed, options, more))

    def _changed(self, g: list[Tensor], w: list[Tensor], batch: ParameterBatch) -> list[Tensor]:
        return (self._velocity if self.update.order == "velocity" else self._axpy)(g, w, batch)

    def _axpy(self, g: list[Tensor], w: list[Tensor], batch: ParameterBatch) -> list[Tensor]:
        group, rule = batch.group, self.rounding.rule("momentum", batch.group)
        if group["weight_decay"]:
            g = self.rounding.round_all(rule, torch._foreach_add(g, w, alpha=group["weight_decay"]), batch, 1)
        if group["momentum"]:
            g = self._store_momentum(_with_momentum(g, group["momentum"], batch), batch)
        return torch._foreach_sub(w, g, alpha=group["lr"])

    def _velocity(self, g: list[Tensor], w: list[Tensor], batch: ParameterBatch) -> list[Tensor]:
        group = batch.group
        v = torch._foreach_add(g, w, alpha=group["weight_decay"])
        torch._foreach_mul_(v, -group["lr"])
        for each, state in zip(v, batch.states, strict=True):
            if group["momentum"] and BUFFER in state:
                each.add_(state[BUFFER], alpha=group["momentum"])
        if group["momentum"]:
            return torch._foreach_add(w, self._store_momentum(v, batch))
        return torch._foreach_add(w, self.rounding.round_all(self.rounding.rule("momentum", group), v, batch, 2))

    def _store_momentum(self, v: list[Tensor], batch: ParameterBatch) -> list[Tensor]:
        """Round the momentum and store it in the state."""
        rule = self.rounding.rule("momentum", batch.group)
        return batch.store(BUFFER, self.rounding.round_all(rule, v, batch, 2))


def _with_momentum(g: list[Tensor], momentum: float, batch: ParameterBatch) -> list[Tensor]:
    """μv + g; where there is no v yet, g."""
    if not all(BUFFER in state for state in batch.states):
        buffers = (state.get(BUFFER) for state in batch.states)
        return [each.clone() if v is None else v.mul(momentum).add_(each) for each, v in zip(g, buffers, strict=True)]
    v = torch._foreach_mul(batch.get(BUFFER), momentum)
    torch._foreach_add_(v, g)
    return v


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
        options = {"betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, lr=lr, **self._take_update(update, seed, options, more))  # type: ignore[call-arg]

    @property
    def _is_plain(self) -> bool:
        """Whether the update is PyTorch's own; the order of SGD's arithmetic does not matter here."""
        return all(rule.is_identity for rule in self.update.rules)

    def _changed(self, g: list[Tensor], w: list[Tensor], batch: ParameterBatch) -> list[Tensor]:
        group, (beta1, beta2) = batch.group, batch.group["betas"]
        if group["weight_decay"] and self.decoupled:
            w = torch._foreach_mul(w, 1 - group["lr"] * group["weight_decay"])
        elif group["weight_decay"]:
            g = torch._foreach_add(g, w, alpha=group["weight_decay"])
        m = torch._foreach_lerp(batch.get("exp_avg"), g, 1 - beta1)
        v = torch._foreach_mul(batch.get("exp_avg_sq"), beta2)
        torch._foreach_addcmul_(v, g, g, value=1 - beta2)
        m = batch.store("exp_avg", self.rounding.round_all(self.rounding.rule("momentum", group), m, batch, 1))
        v = batch.store("exp_avg_sq", self.rounding.round_all(self.rounding.rule("variance", group), v, batch, 2))
        sizes = torch._foreach_sqrt(v)
        torch._foreach_div_(sizes, [(1 - beta2**count) ** 0.5 for count in batch.counts])
        torch._foreach_add_(sizes, group["eps"])
        return torch._foreach_addcdiv(w, m, sizes, [-group["lr"] / (1 - beta1**count) for count in batch.counts])


class Adam(_RoundedAdam, torch.optim.Adam):
    """Adam in few bits: both moments and the weights are rounded after each step.

    Args:
        params, lr, betas, eps, weight_decay: as ``torch.optim.Adam``.
        update: an :class:`~lplab.training.recipe.recipe.Update`: the rules of weight, momentum, variance and
            gradient; ``order`` does not matter.
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


def _all_at_once(options: dict[str, Any]) -> dict[str, Any]:
    """Options of PyTorch's update with each operation applied to all parameters at once: faster, with the same bits.

    >>> _all_at_once({"momentum": 0.9}), _all_at_once({"fused": True})
    ({'momentum': 0.9, 'foreach': True}, {'fused': True})
    """
    chosen = {"foreach", "fused", "differentiable", "capturable"} & set(options)
    return options if chosen else {**options, "foreach": True}


def make_optimizer(
    model: nn.Module,
    recipe: str | Recipe | None = None,
    kind: str = "sgd",
    *,
    lr: float = 0.05,
    weight_decay: float = 0.0,
    clip_decay: float | None = None,
    seed: int = 0,
    **more: Any,
) -> Any:
    """The optimizer of a recipe for a model.

    Trained clips (PACT) get a separate group: float32, decayed with ``clip_decay``, or, if None, as the weights.
    Where a recipe stores weights in few bits without a master copy, the model's weights are rounded now.

    Args:
        model: quantized or not.
        recipe: a recipe or its name; by default that of the model.
        kind: "sgd", "adam" or "adamw".
        lr, weight_decay, more: as of the optimizer.
        seed: of stochastic rounding.

    Raises:
        ValueError: an unknown recipe or optimizer; a model that is not quantized, without a recipe.
        TypeError: a recipe that is none.

    >>> make_optimizer(nn.Linear(1, 1), "fp8_2018", "adam", lr=0.01).defaults["lr"]
    0.01
    """
    if kind not in OPTIMIZERS:
        raise ValueError(f"unknown optimizer {kind!r}; allowed: {', '.join(OPTIMIZERS)}")
    if recipe is None:
        recipe = emulation_of(model).recipe
    recipe = recipes.get(recipe) if isinstance(recipe, str) else recipe
    if not isinstance(recipe, Recipe):
        raise TypeError(f"recipe must be a Recipe, the name of one or None, got {recipe!r}")
    update = recipe.update
    named = list(model.named_parameters())
    clips = [p for name, p in named if name.split(".")[-1] == ALPHA]
    groups: list[dict[str, Any]] = [{"params": [p for name, p in named if name.split(".")[-1] != ALPHA]}]
    if clips:
        decay = weight_decay if clip_decay is None else clip_decay
        groups.append({"params": clips, "weight_decay": decay, FLOAT32_GROUP: True})
    optimizer_class = {"sgd": SGD, "adam": Adam, "adamw": AdamW}[kind]
    optimizer = optimizer_class(
        groups, lr=check_positive("lr", lr), weight_decay=weight_decay, update=update, seed=seed, **more
    )
    if update.master_weight is None and not update.weight.is_identity:
        with torch.no_grad():
            for index, p in enumerate(groups[0]["params"]):
                p.copy_(optimizer.rounding.round(update.weight, p, index, 0, 5))
    return optimizer
