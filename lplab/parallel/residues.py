"""Learners under AdaComp that are watched: what each layer sends in a step, and what stays in its residue.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn

from lplab.compression import AdaComp, Compressor, Context, Dense, LayerState, local
from lplab.parallel.learners import Learners, shards
from lplab.training import tasks
from lplab.training.trainer import default_loss

LEARNERS, BATCH, RATE, MOMENTUM = 4, 64, 0.1, 0.9
LAYERS = {  # of models.row_reader(), those that AdaComp compresses: parameter, and what it is called
    "convolution.weight": "convolution",
    "lstm.weight_ih_l0": "LSTM, from the rows",
    "lstm.weight_hh_l0": "LSTM, from its state",
    "dense.weight": "dense",
}


@dataclass(frozen=True, eq=False)
class Look:
    """What one learner sees of one layer in one step. To be copied if it is kept: residues reuse their memory.

    Attributes:
        residue, gradient: before the step, flat float32.
        found: what is selected, with the residue after the step.
        empty_bins: bins that send nothing.
    """

    residue: np.ndarray
    gradient: np.ndarray
    found: local.Selected
    empty_bins: int


Watch = Callable[[Context, Look], None]


@dataclass(frozen=True)
class WatchedAdaComp(AdaComp):
    """AdaComp with an onlooker, who changes nothing.

    Args:
        watch: called for each layer, learner and step.
    """

    watch: Watch | None = field(default=None, compare=False, repr=False)

    def _select(self, gradient: np.ndarray, state: LayerState, context: Context) -> local.Selected:
        found = super()._select(gradient, state, context)
        if self.watch is not None:
            length = self._bin()
            empty = -(-gradient.size // length) - np.unique(found.indices // length).size
            self.watch(context, Look(state["residue"], gradient, found, empty))
        return found


@dataclass(frozen=True)
class LayerMoment:
    """One layer in one step, as a mean over the learners.

    Attributes:
        sent: elements sent.
        empty: bins that send nothing.
        residue: Euclidean length of the residue after the step.
        gradient: that of the gradient.
        scale: S.
        agreeing: elements sent whose gradient of this step has the sign that is sent.
    """

    sent: float
    empty: float
    residue: float
    gradient: float
    scale: float
    agreeing: float


@dataclass(frozen=True)
class Moment:
    """One step of all learners.

    Attributes:
        step: from 0.
        loss: mean over the learners, before the update.
        layers: by parameter name; none if nothing was compressed.
    """

    step: int
    loss: float
    layers: dict[str, LayerMoment]


class ResidueRun:
    """Four learners that train a small net of convolutions, an LSTM and dense layers on the 8 × 8 digits.

    Args:
        compressor: an AdaComp, or another one, of which the loss alone is seen.
        seed: of weights and batches.
        watch: a further onlooker.

    >>> run = ResidueRun(AdaComp())
    >>> [sorted(moment.layers)[0] for moment in run.steps(2)]
    ['convolution.weight', 'convolution.weight']
    """

    def __init__(self, compressor: Compressor | None = None, seed: int = 0, watch: Watch | None = None) -> None:
        self._seen: dict[str, list[LayerMoment]] = {}
        self._watch = watch
        self.learners = learners_of(self._watched(compressor or Dense()), seed)

    def steps(self, count: int) -> Iterator[Moment]:
        """Train ``count`` steps and yield after each."""
        for done in self.learners.steps(count):
            yield Moment(done.number, done.loss, {name: _mean(seen) for name, seen in self._seen.items()})
            self._seen = {}

    def test_error(self) -> float:
        """Share of the test images that the model now gets wrong."""
        inputs, targets = tasks.get("mlp").test()
        model = self.learners.model
        with torch.no_grad():
            return float((model(inputs).argmax(dim=1) != targets).float().mean())

    def _watched(self, compressor: Compressor) -> Compressor:
        if type(compressor) is not AdaComp:
            return compressor
        settings = {name: getattr(compressor, name) for name in AdaComp.__dataclass_fields__}
        return WatchedAdaComp(**settings, watch=self._note)

    def _note(self, context: Context, look: Look) -> None:
        found = look.found
        signs = np.where(found.negative, -1, 1)
        agreeing = int((signs * look.gradient[found.indices] > 0).sum())
        residue, gradient = (float(np.linalg.norm(x)) for x in (found.residue, look.gradient))
        moment = LayerMoment(found.indices.size, look.empty_bins, residue, gradient, float(found.scale), agreeing)
        self._seen.setdefault(context.layer, []).append(moment)
        if self._watch is not None:
            self._watch(context, look)


def learners_of(compressor: Compressor, seed: int = 0) -> Learners:
    """The learners of a :class:`ResidueRun`: SGD with momentum, 16 digits each."""
    from lplab import models

    data = tasks.get("mlp").data(BATCH, seed)
    model: nn.Module = models.row_reader(seed=seed)
    sgd = lambda parameters: torch.optim.SGD(parameters, lr=RATE, momentum=MOMENTUM)  # noqa: E731
    return Learners(model, default_loss, shards(data, LEARNERS), compressor, LEARNERS, optimizer=sgd, seed=seed)


def _mean(seen: list[LayerMoment]) -> LayerMoment:
    return LayerMoment(*(float(np.mean([getattr(s, name) for s in seen])) for name in LayerMoment.__dataclass_fields__))
