"""Compressors that wrap another one, for claims: one records requests, one has no error feedback."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lplab.compression import Compressor, Context, LayerInfo, LayerState, Transfer
from lplab.compression.compressor import Request, Steps

Note = Callable[[Context, Request], Any]


@dataclass(frozen=True)
class Recorded(Compressor):
    """A compressor that calls ``note`` with every request of every learner.

    >>> from lplab.compression import Dense, exchange
    >>> seen = []
    >>> recorded = Recorded(Dense(), lambda context, request: seen.append(type(request).__name__))
    >>> exchange(recorded, [np.ones(2, np.float32)] * 2, [recorded.init((2,))] * 2).tolist(), seen
    ([1.0, 1.0], ['AllReduce', 'AllReduce'])
    """

    compressor: Compressor
    note: Note

    def for_layer(self, layer: LayerInfo) -> Compressor:
        """Recorded, with the settings of the layer."""
        return Recorded(self.compressor.for_layer(layer), self.note)

    def init(self, shape: Any) -> LayerState:
        """The state of the compressor."""
        return self.compressor.init(shape)

    def steps(self, gradient: np.ndarray, state: LayerState, context: Context) -> Steps:
        """Those of the compressor."""
        run, answer = self.compressor.steps(gradient, state, context), None
        while True:
            try:
                request = run.send(answer)
            except StopIteration as stop:
                return stop.value
            self.note(context, request)
            answer = yield request

    def plan(self, shape: Any, activity: Any = None) -> tuple[Transfer, ...]:
        """That of the compressor."""
        return self.compressor.plan(shape, activity)


@dataclass(frozen=True)
class WithoutErrorFeedback(Compressor):
    """A compressor without error feedback: every step starts with a new state, and what is not sent is lost.

    >>> from lplab.compression import TopK, exchange
    >>> wrapped = WithoutErrorFeedback(TopK(0.5))
    >>> state = wrapped.init((2,))
    >>> for _ in range(3):
    ...     result = exchange(wrapped, [np.array([2, 1], np.float32)], [state])
    ...     state.commit()
    >>> result.tolist()
    [2.0, 0.0]
    """

    compressor: Compressor

    def for_layer(self, layer: LayerInfo) -> Compressor:
        """With the settings of the layer."""
        return WithoutErrorFeedback(self.compressor.for_layer(layer))

    def steps(self, gradient: np.ndarray, state: LayerState, context: Context) -> Steps:
        """The steps of the compressor from a new state."""
        return (yield from self.compressor.steps(gradient, self.compressor.init(gradient.shape), context))

    def plan(self, shape: Sequence[int], activity: Any = None) -> tuple[Transfer, ...]:
        """That of the compressor."""
        return self.compressor.plan(shape, activity)
