"""Trainings by many learners, live: simulated in this process, or in several processes of this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from lplab import figures
from lplab.widgets.controls import set_text

from .live_run import LiveRun

if TYPE_CHECKING:
    import numpy as np
    import plotly.graph_objects as go

    from lplab.parallel.launch import DistributedRun
    from lplab.parallel.simulated import SimulatedRun

    Run = DistributedRun | SimulatedRun

Report = dict[str, Any]
Reports = tuple[Report | None, ...]  # the latest report of each run; None after its end


class LiveLearners(LiveRun):
    """The widget that :func:`live_learners` returns.

    Attributes:
        runs: by name; each has ``weights`` once it is finished.
    """

    runs: dict[str, Run]

    def __init__(
        self, runs: Mapping[str, Run], *, steps: int, loss_range: tuple[float, float] | None, **options: Any
    ) -> None:
        self.runs = dict(runs)

        def reports() -> Iterator[Reports]:
            return interleave_runs([iter(run) for run in self.runs.values()], steps)

        def draw(results: tuple[Reports, ...]) -> go.Figure:
            curves = [figures.LearnerCurve(name, *_columns(results, i)) for i, name in enumerate(self.runs)]
            return figures.learner_runs(curves, steps=steps, loss_range=loss_range)

        super().__init__(reports, draw, total=steps, unit="step", remark=None, **options)

    def stop(self) -> None:
        """End all runs with all their processes; returns at once."""
        super().stop()
        if self.state == "running":  # processes may still be starting: do not wait for their first step
            for run in self.runs.values():
                threading.Thread(target=run.stop, name=f"stop {self.name}", daemon=True).start()

    @property
    def losses(self) -> dict[str, list[float]]:
        """The losses so far, mean of the learners, of each run."""
        return {name: _columns(tuple(self._results), i)[0] for i, name in enumerate(self.runs)}

    @property
    def weights(self) -> dict[str, dict[str, np.ndarray]]:
        """The weights of each finished run."""
        return {name: run.weights for name, run in self.runs.items() if run.weights}

    def start(self) -> None:
        """Start or restart; see `LiveRun.start`."""
        super().start()
        count = sum(run.settings.learners for run in self.runs.values() if hasattr(run, "processes"))
        with self._lock:  # no step can report meanwhile, so this never overwrites its "Running."
            if count and self.state == "running" and not self._results:
                set_text(self.status, f"Running. {count} processes are starting; that takes some seconds.")

    def summary(self) -> str:
        """How many weights of two finished runs differ."""
        if len(self.weights) != 2 or len(self.runs) != 2:
            return ""
        from lplab.parallel.simulated import count_differences

        differ, total = count_differences(*self.weights.values())
        return f"{' and '.join(self.runs)}: {differ:,} of {total:,} weights differ."


def live_learners(
    runs: Mapping[str, Run],
    *,
    name: str = "Train",
    loss_range: tuple[float, float] | None = None,
    start: bool = False,
) -> LiveLearners:
    """A button that trains with many learners and draws losses and bytes sent, step by step.

    Up to four runs advance side by side, a step of each in turn: simulated ones in this process, and distributed ones,
    whose processes are started by the button and ended by Stop. If one process dies, the others are ended, and the line
    below names it. Two runs that both finish are compared.

    Args:
        runs: names and runs, :class:`lplab.parallel.launch.DistributedRun` or
            :class:`lplab.parallel.simulated.SimulatedRun`, all with the same number of steps.
        name: on the button.
        loss_range: ends of the loss axis.
        start: whether to start at once.

    Returns:
        a widget with ``losses`` and ``weights`` by name, beside what any `LiveRun` has.

    Raises:
        ValueError: no run, more than four, or different numbers of steps.
        TypeError: something else than a run.

    >>> from lplab.parallel import RunSettings, SimulatedRun
    >>> settings = RunSettings("mlp", "scalecom:chunk=50", learners=8, steps=3, batch=4)
    >>> run = live_learners({"8 learners": SimulatedRun(settings, engine="stacked")})
    >>> run.start()
    >>> run.wait(60)
    >>> run.state, len(run.losses["8 learners"])
    ('finished', 3)
    """
    if not 1 <= len(runs) <= 4:
        raise ValueError(f"one to four runs can be drawn together, got {len(runs)}")
    for key, run in runs.items():
        if not hasattr(run, "settings") or not hasattr(run, "stop"):
            raise TypeError(f"runs[{key!r}] must be a DistributedRun or a SimulatedRun, got {type(run).__name__}")
    counts = sorted({run.settings.steps for run in runs.values()})
    if len(counts) != 1:
        raise ValueError(f"all runs must have the same number of steps, got {', '.join(map(str, counts))}")
    return LiveLearners(runs, steps=counts[0], loss_range=loss_range, name=name, start=start)


def interleave_runs(runs: Sequence[Iterator[Report]], steps: int) -> Iterator[Reports]:
    """The reports of all runs, step by step; reports after the last step are dropped. Closing it closes all runs."""
    try:
        for number, reports in enumerate(zip_longest(*runs)):
            if number < steps:
                yield reports
    finally:
        for run in runs:
            close = getattr(run, "close", None)
            if close is not None:
                close()


def _columns(results: tuple[Reports, ...], index: int) -> tuple[list[float], list[int]]:
    """Losses and bytes of one run."""
    of_run = [report for reports in results if (report := reports[index]) is not None and "loss" in report]
    return [report["loss"] for report in of_run], [report["sent_bytes"] for report in of_run]
