"""Compressors around other compressors, for claims: one that looks on, one that forgets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lplab.compression import Compressor, Context, LayerInfo, LayerState, Transfer
from lplab.compression.protocol import Request, Steps

Note = Callable[[Context, Request], Any]


@dataclass(frozen=True)
class Watched(Compressor):
    """Another compressor; every request of every learner is shown to ``note`` on its way.

    >>> from lplab.compression import Dense, exchange
    >>> seen = []
    >>> watched = Watched(Dense(), lambda context, request: seen.append(type(request).__name__))
    >>> exchange(watched, [np.ones(2, np.float32)] * 2, [watched.init((2,))] * 2).tolist(), seen
    ([1.0, 1.0], ['Sum', 'Sum'])
    """

    compressor: Compressor
    note: Note

    def for_layer(self, layer: LayerInfo) -> Compressor:
        """Watched, with the settings of the layer."""
        return Watched(self.compressor.for_layer(layer), self.note)

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
class Forgetful(Compressor):
    """Another compressor that starts every step with a new memory: what is not sent is lost.

    >>> from lplab.compression import TopK, exchange
    >>> forgetful = Forgetful(TopK(0.5))
    >>> state = forgetful.init((2,))
    >>> for _ in range(3):
    ...     found = exchange(forgetful, [np.array([2, 1], np.float32)], [state])
    ...     state.commit()
    >>> found.tolist()
    [2.0, 0.0]
    """

    compressor: Compressor

    def for_layer(self, layer: LayerInfo) -> Compressor:
        """With the settings of the layer."""
        return Forgetful(self.compressor.for_layer(layer))

    def steps(self, gradient: np.ndarray, state: LayerState, context: Context) -> Steps:
        """Those of the compressor, with nothing remembered."""
        return (yield from self.compressor.steps(gradient, self.compressor.init(gradient.shape), context))

    def plan(self, shape: Sequence[int], activity: Any = None) -> tuple[Transfer, ...]:
        """That of the compressor."""
        return self.compressor.plan(shape, activity)
