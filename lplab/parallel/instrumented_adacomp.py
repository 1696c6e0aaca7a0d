"""Learners with an instrumented AdaComp: what each layer sends in a step, and its residual after it.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields

import numpy as np
import torch
from torch import nn

from lplab.compression import AdaComp, Compressor, Context, Dense, LayerState
from lplab.compression.adacomp import Selection
from lplab.parallel.learners import Learners, shards
from lplab.training import tasks
from lplab.training.loop.trainer import default_loss

LEARNERS, BATCH, LEARNING_RATE, MOMENTUM = 4, 64, 0.1, 0.9
LAYERS = {  # of models.row_lstm(), those that AdaComp compresses: parameter and label
    "convolution.weight": "convolution",
    "lstm.weight_ih_l0": "LSTM, from the rows",
    "lstm.weight_hh_l0": "LSTM, from its state",
    "dense.weight": "dense",
}


@dataclass(frozen=True, eq=False)
class LayerSample:
    """One layer of one learner in one step. Copy arrays to keep them: residuals reuse their memory.

    Attributes:
        residual, gradient: before the step, flat float32.
        selection: the elements sent, and the residual after the step.
        empty_bins: bins that send nothing.
    """

    residual: np.ndarray
    gradient: np.ndarray
    selection: Selection
    empty_bins: int


Observer = Callable[[Context, LayerSample], None]


@dataclass(frozen=True)
class InstrumentedAdaComp(AdaComp):
    """AdaComp with an observer, which does not change the results.

    Args:
        observer: called for each layer, learner and step.
    """

    observer: Observer | None = field(default=None, compare=False, repr=False)

    def _select(self, gradient: np.ndarray, state: LayerState, context: Context) -> Selection:
        selected = super()._select(gradient, state, context)
        if self.observer is not None:
            length = self._bin()
            empty = -(-gradient.size // length) - np.unique(selected.indices // length).size
            self.observer(context, LayerSample(state["residual"], gradient, selected, empty))
        return selected


@dataclass(frozen=True)
class LayerRecord:
    """One layer in one step, as a mean over the learners.

    Attributes:
        sent: elements sent.
        empty: bins that send nothing.
        residual: Euclidean norm of the residual after the step.
        gradient: that of the gradient.
        scale: S.
        agreeing: elements sent with the sign of their gradient in this step.
    """

    sent: float
    empty: float
    residual: float
    gradient: float
    scale: float
    agreeing: float


@dataclass(frozen=True)
class StepRecord:
    """One step of all learners.

    Attributes:
        step: from 0.
        loss: mean over the learners, before the update.
        layers: by parameter name; empty if nothing was compressed.
    """

    step: int
    loss: float
    layers: dict[str, LayerRecord]


class AdaCompRun:
    """Four learners that train a small net of convolutions, an LSTM and dense layers on the 8 × 8 digits.

    Args:
        compressor: an AdaComp; of another compressor only the loss is recorded.
        seed: of weights and batches.
        observer: a further one.

    >>> run = AdaCompRun(AdaComp())
    >>> [sorted(record.layers)[0] for record in run.steps(2)]
    ['convolution.weight', 'convolution.weight']
    """

    def __init__(self, compressor: Compressor | None = None, seed: int = 0, observer: Observer | None = None) -> None:
        self._records: dict[str, list[LayerRecord]] = {}
        self._observer = observer
        self.learners = make_learners(self._instrumented(compressor or Dense()), seed)

    def steps(self, count: int) -> Iterator[StepRecord]:
        """Train ``count`` steps and yield after each."""
        for step in self.learners.steps(count):
            yield StepRecord(step.number, step.loss, {name: _mean(records) for name, records in self._records.items()})
            self._records = {}

    def test_error(self) -> float:
        """Fraction of the test images that the model misclassifies."""
        inputs, targets = tasks.get("mlp").test()
        model = self.learners.model
        with torch.no_grad():
            return float((model(inputs).argmax(dim=1) != targets).float().mean())

    def _instrumented(self, compressor: Compressor) -> Compressor:
        if type(compressor) is not AdaComp:
            return compressor
        settings = {field.name: getattr(compressor, field.name) for field in fields(AdaComp)}
        return InstrumentedAdaComp(**settings, observer=self._record)

    def _record(self, context: Context, sample: LayerSample) -> None:
        sent = sample.selection
        signs = np.where(sent.negative, -1, 1)
        agreeing = int((signs * sample.gradient[sent.indices] > 0).sum())
        residual, gradient = (float(np.linalg.norm(x)) for x in (sent.residual, sample.gradient))
        record = LayerRecord(sent.indices.size, sample.empty_bins, residual, gradient, float(sent.scale), agreeing)
        self._records.setdefault(context.layer, []).append(record)
        if self._observer is not None:
            self._observer(context, sample)


def make_learners(compressor: Compressor, seed: int = 0) -> Learners:
    """The learners of an :class:`AdaCompRun`: SGD with momentum, 16 digits each."""
    from lplab import models

    data = tasks.get("mlp").data(BATCH, seed)
    model: nn.Module = models.row_lstm(seed=seed)
    sgd = lambda parameters: torch.optim.SGD(parameters, lr=LEARNING_RATE, momentum=MOMENTUM)  # noqa: E731
    return Learners(model, default_loss, shards(data, LEARNERS), compressor, LEARNERS, optimizer=sgd, seed=seed)


def _mean(records: list[LayerRecord]) -> LayerRecord:
    return LayerRecord(
        *(float(np.mean([getattr(r, name) for r in records])) for name in LayerRecord.__dataclass_fields__)
    )
