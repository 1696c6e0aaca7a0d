"""What rounded updates share: the parameters of a group side by side, and their roundings, all in one go.

A small network has dozens of small parameters, and an update a dozen operations for each of them: called one by one,
they cost more than what they compute. Each function of PyTorch is called once for a list instead, which computes the
same bits.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lplab.training.recipe import Update
from lplab.training.rounding import prepared_of, rounder_of
from lplab.training.rules import FLOAT32, Rule

_SEED = 0x9E3779B97F4A7C15
_STEP = 0xD1B54A32D192ED03
PLAIN = "plain"
"""A parameter group with this key set is updated in float32, whatever the recipe says (clips of PACT are)."""


@dataclass(frozen=True)
class Members:
    """The parameters of a group that have a gradient; all lists have the same order.

    Attributes:
        group: of the optimizer.
        parameters, states: of each.
        places: of each among all parameters of the optimizer, from 1 on.
        counts: of steps of each, this one included.
    """

    group: dict[str, Any]
    parameters: list[Tensor]
    states: list[dict[str, Any]]
    places: list[int]
    counts: list[int]

    def get(self, name: str) -> list[Tensor]:
        """A tensor of each state; zeros like the parameter where there was none."""
        for p, state in zip(self.parameters, self.states, strict=True):
            if name not in state:
                state[name] = torch.zeros_like(p, memory_format=torch.preserve_format)
        return [state[name] for state in self.states]

    def put(self, name: str, values: list[Any]) -> list[Any]:
        """The values, now part of the states: new ones, as somebody may have taken the old ones for a checkpoint."""
        for state, value in zip(self.states, values, strict=True):
            state[name] = value
        return values


def members_of(optimizer: Any) -> Iterator[Members]:
    """Every group that has gradients; the steps of its parameters have been counted."""
    place = 0
    for group in optimizer.param_groups:
        places = [place + i for i, p in enumerate(group["params"], 1) if p.grad is not None]
        parameters = [p for p in group["params"] if p.grad is not None]
        place += len(group["params"])
        if any(p.grad.is_sparse for p in parameters):
            raise RuntimeError("sparse gradients cannot be rounded; pass sparse=False to nn.Embedding")
        states = [optimizer.state[p] for p in parameters]
        if parameters:
            counts = [int(state.get("step", 0)) + 1 for state in states]  # a tensor where torch has read it from a file
            members = Members(group, parameters, states, places, counts)
            members.put("step", counts)
            yield members


class Rounding:
    """The roundings of an update: which rule for what, and a seed that no other parameter or step has.

    Args:
        update: the rules.
        seed: of stochastic rounding.
    """

    def __init__(self, update: Update, seed: int) -> None:
        self.update, self.seed = update, seed

    def rule(self, name: str, group: dict[str, Any]) -> Rule:
        """The rule for weight, momentum, variance or gradient in a group."""
        return FLOAT32 if group.get(PLAIN) else getattr(self.update, name)

    def round(self, rule: Rule, x: Tensor, place: int, step: int, number: int) -> Tensor:
        """The tensor rounded; itself where there is nothing to do."""
        if rule.is_identity or not x.numel():
            return x
        return rounder_of(rule)(x, self._seed_of(place, step, number), 1.0).values

    def round_all(self, rule: Rule, xs: list[Tensor], members: Members, number: int) -> list[Tensor]:
        """A tensor of each member rounded; the tensors themselves where there is nothing to do."""
        if rule.is_identity:
            return xs
        outs = [torch.empty_like(x) for x in xs]
        self.round_into(rule, xs, outs, members, number)
        return outs

    def round_into(self, rule: Rule, xs: list[Tensor], outs: list[Tensor], members: Members, number: int) -> None:
        """A tensor of each member rounded into the memory of another one."""
        if rule.is_identity:
            torch._foreach_copy_(outs, xs)
            return
        ready = prepared_of(rule)
        if ready is not None:
            seeds = [self._seed_of(*each, number) for each in zip(members.places, members.counts, strict=True)]
            ready.round_into(xs, outs, seeds)
            return
        for x, out, place, count in zip(xs, outs, members.places, members.counts, strict=True):
            out.copy_(self.round(rule, x, place, count, number))

    def _seed_of(self, place: int, step: int, number: int) -> int:
        return ((self.seed << 40 | place << 4 | number) * _SEED + step * _STEP) % 2**63
