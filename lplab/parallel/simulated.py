"""The run of :mod:`lplab.parallel.launch` without processes: same settings, same reports, same bits.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from lplab.compression.rates import sent_by_all
from lplab.parallel.learners import Learners
from lplab.parallel.settings import RunSettings
from lplab.parallel.worker import outcome, report, weights_of
from lplab.training.trainer import default_loss


class SimulatedRun:
    """A run in this process, as an iterator over what a real one reports: dictionaries, one a step, one at the end.

    Args:
        settings: what is trained; ``backend`` and ``save`` are of no use here.
        engine: "loop", which gives the bits of a real run, or "stacked", faster where the layers allow it.

    Attributes:
        weights: in the end, float32 by parameter; {} until the run has come to its end.

    >>> run = SimulatedRun(RunSettings("mlp", learners=2, steps=3))
    >>> [report["step"] for report in run if "step" in report], len(run.weights)
    ([0, 1, 2], 6)
    """

    def __init__(self, settings: RunSettings, engine: str = "loop") -> None:
        self.settings, self.engine = settings, engine
        self.weights: dict[str, np.ndarray] = {}
        self._stopped = False

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Train, and report like rank 0 of a real run."""
        settings, self.weights, self._stopped = self.settings, {}, False
        task = settings.task()
        model, batches = task.model(settings.seed), settings.batches()
        learners = Learners(
            model,
            default_loss,
            batches,
            settings.make_compressor(),
            settings.learners,
            optimizer=settings.optimizer,
            engine=self.engine,
            seed=settings.seed,
            example=batches(0, 0)[0],
        )
        for made in learners.steps(settings.steps):
            assert learners.ledger is not None  # it is kept unless told otherwise
            sent = sent_by_all(learners.ledger.entries, settings.learners)
            learners.ledger.entries.clear()
            yield report(made.number, made.loss, made.payload_bytes, sent, made.skipped)
            if self._stopped:
                return
        self.weights = weights_of(model)
        yield outcome(model, *task.test())

    def stop(self) -> None:
        """End after the step at hand."""
        self._stopped = True


def differing(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> tuple[int, int]:
    """How many numbers differ in any bit, and how many there are.

    Raises:
        ValueError: other names or shapes.

    >>> differing({"w": np.array([1.0, 2.0])}, {"w": np.array([1.0, 2.5])})
    (1, 2)
    """
    if {name: a.shape for name, a in one.items()} != {name: a.shape for name, a in other.items()}:
        raise ValueError(f"weights of different models: {sorted(one)} and {sorted(other)}")
    bits = [(a != other[name]) | (np.signbit(a) != np.signbit(other[name])) for name, a in one.items()]
    return sum(int(b.sum()) for b in bits), sum(b.size for b in bits)
