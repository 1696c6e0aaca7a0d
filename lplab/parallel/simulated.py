"""The run of :mod:`lplab.parallel.launch` in this process: same settings, same reports, same bits.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from lplab.compression.ratios import total_wire_bytes
from lplab.parallel.learners import Learners
from lplab.parallel.run_settings import RunSettings
from lplab.parallel.worker import final_report, step_report, weights_of


class SimulatedRun:
    """A run in this process, as an iterator over the reports of a distributed one: one a step, one at the end.

    Args:
        settings: of the run; ``backend`` and ``save`` are ignored.
        engine: "loop", with the bits of a distributed run, or "stacked", faster where the layers allow it.
        state: of :meth:`state_dict`, to make ``settings.steps`` further steps: bit for bit those of a longer run.

    Attributes:
        weights: at the end, float32 by parameter; {} until the run is complete.

    Raises:
        ValueError: a state of other settings.

    >>> run = SimulatedRun(RunSettings("mlp", learners=2, steps=3))
    >>> [report["step"] for report in run if "step" in report], len(run.weights)
    ([0, 1, 2], 6)
    >>> longer = SimulatedRun(run.settings, state=run.state_dict())
    >>> [report["step"] for report in longer if "step" in report]
    [3, 4, 5]
    """

    def __init__(self, settings: RunSettings, engine: str = "loop", state: Mapping[str, Any] | None = None) -> None:
        self.settings, self.engine, self._state = settings, engine, state
        self._learners: Learners | None = None
        saved = settings.signature() if state is None else state["signature"]
        for name, value in settings.signature().items():
            if saved[name] != value:
                raise ValueError(f"the checkpoint is of {name} {saved[name]}, this run's is {value}")
        self.weights: dict[str, np.ndarray] = {}
        self._stopped = False

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Train, and report like rank 0 of a distributed run."""
        settings, self.weights, self._stopped = self.settings, {}, False
        task = settings.task()
        model, batches = task.model(settings.seed), settings.batches()
        learners = self._learners = Learners(
            model,
            task.loss,
            batches,
            settings.make_compressor(),
            settings.learners,
            optimizer=settings.optimizer,
            engine=self.engine,
            seed=settings.seed,
            example=batches(0, 0)[0],
        )
        if self._state is not None:
            learners.load_state_dict(self._state["learners"])
        for step in learners.steps(settings.steps):
            # The default of keep_ledger keeps it.
            assert learners.ledger is not None
            sent = total_wire_bytes(learners.ledger.entries, settings.learners)
            learners.ledger.entries.clear()
            yield step_report(step.number, step.loss, step.payload_bytes, sent, step.skipped)
            if self._stopped:
                return
        self.weights = weights_of(model)
        yield final_report(model, *task.test(), task.loss, task.error)

    def stop(self) -> None:
        """End after the current step."""
        self._stopped = True

    def state_dict(self) -> dict[str, Any]:
        """The state after the last step, for a checkpoint: tensors and plain values.

        Raises:
            ValueError: no step has been made.
        """
        if self._learners is None:
            raise ValueError("the run has not begun: there is no state yet")
        return {"signature": self.settings.signature(), "learners": self._learners.state_dict()}


def count_differences(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> tuple[int, int]:
    """The number of values that differ in any bit, and the number of all values.

    Raises:
        ValueError: the names or shapes differ.

    >>> count_differences({"w": np.array([1.0, 2.0])}, {"w": np.array([1.0, 2.5])})
    (1, 2)
    """
    if {name: a.shape for name, a in one.items()} != {name: a.shape for name, a in other.items()}:
        raise ValueError(f"weights of different models: {sorted(one)} and {sorted(other)}")
    bits = [(a != other[name]) | (np.signbit(a) != np.signbit(other[name])) for name, a in one.items()]
    return sum(int(b.sum()) for b in bits), sum(b.size for b in bits)
