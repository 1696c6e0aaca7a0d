"""Rounding in updates: the parameters of a group as lists, and the rounding of a whole list at once.

A small network has dozens of small parameters, and an update a dozen operations for each of them; separate calls cost
more than what they compute. So each function of PyTorch is called once for a whole list, which gives the same bits.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lplab.training.emulation.rounders import rounder_of
from lplab.training.recipe.quant_spec import FLOAT32, QuantSpec
from lplab.training.recipe.recipe import Update

_SEED = 0x9E3779B97F4A7C15
_STEP = 0xD1B54A32D192ED03
FLOAT32_GROUP = "plain"
"""A parameter group with this key set is updated in float32, regardless of the recipe (the clips of PACT are)."""


@dataclass(frozen=True)
class ParameterBatch:
    """The parameters of a group that have a gradient; all lists have the same order.

    Attributes:
        group: of the optimizer.
        parameters, states: of each.
        indices: of each among all parameters of the optimizer, from 1 on.
        counts: of steps of each, this one included.
    """

    group: dict[str, Any]
    parameters: list[Tensor]
    states: list[dict[str, Any]]
    indices: list[int]
    counts: list[int]

    def get(self, name: str) -> list[Tensor]:
        """A tensor of each state; zeros like the parameter where there was none."""
        for p, state in zip(self.parameters, self.states, strict=True):
            if name not in state:
                state[name] = torch.zeros_like(p, memory_format=torch.preserve_format)
        return [state[name] for state in self.states]

    def store(self, name: str, values: list[Any]) -> list[Any]:
        """Store the values in the states. They are new tensors, as a checkpoint may hold the old ones."""
        for state, value in zip(self.states, values, strict=True):
            state[name] = value
        return values


def parameter_batches(optimizer: Any) -> Iterator[ParameterBatch]:
    """Every group that has gradients; the steps of its parameters have been counted."""
    offset = 0
    for group in optimizer.param_groups:
        indices = [offset + i for i, p in enumerate(group["params"], 1) if p.grad is not None]
        parameters = [p for p in group["params"] if p.grad is not None]
        offset += len(group["params"])
        if any(p.grad.is_sparse for p in parameters):
            raise RuntimeError("sparse gradients cannot be rounded; pass sparse=False to nn.Embedding")
        states = [optimizer.state[p] for p in parameters]
        if parameters:
            counts = [int(state.get("step", 0)) + 1 for state in states]  # a tensor after torch has loaded it
            batch = ParameterBatch(group, parameters, states, indices, counts)
            batch.store("step", counts)
            yield batch


class UpdateRounder:
    """The roundings of an update: the rule of each tensor, and a seed of its own for each parameter and step.

    Args:
        update: the rules.
        seed: of stochastic rounding.
    """

    def __init__(self, update: Update, seed: int) -> None:
        self.update, self.seed = update, seed

    def rule(self, name: str, group: dict[str, Any]) -> QuantSpec:
        """The rule for weight, momentum, variance or gradient in a group."""
        return FLOAT32 if group.get(FLOAT32_GROUP) else getattr(self.update, name)

    def round(self, rule: QuantSpec, x: Tensor, index: int, step: int, number: int) -> Tensor:
        """The tensor rounded; the tensor itself where nothing is rounded."""
        if rule.is_identity or not x.numel():
            return x
        return rounder_of(rule)(x, self._seed_of(index, step, number), 1.0).values

    def round_all(self, rule: QuantSpec, xs: list[Tensor], batch: ParameterBatch, number: int) -> list[Tensor]:
        """One tensor of each parameter rounded; the tensors themselves where nothing is rounded."""
        if rule.is_identity:
            return xs
        outs = [torch.empty_like(x) for x in xs]
        self.round_into(rule, xs, outs, batch, number)
        return outs

    def round_into(
        self, rule: QuantSpec, xs: list[Tensor], outs: list[Tensor], batch: ParameterBatch, number: int
    ) -> None:
        """One tensor of each parameter rounded into the memory of another tensor."""
        if rule.is_identity:
            torch._foreach_copy_(outs, xs)
            return
        seeds = [self._seed_of(*numbers, number) for numbers in zip(batch.indices, batch.counts, strict=True)]
        rounder_of(rule).round_into(xs, outs, seeds)

    def _seed_of(self, index: int, step: int, number: int) -> int:
        return ((self.seed << 40 | index << 4 | number) * _SEED + step * _STEP) % 2**63
