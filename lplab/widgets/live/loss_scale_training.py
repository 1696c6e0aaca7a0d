"""A training in emulated float16 whose loss scale follows the user's rule, beside the library's rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import plotly.graph_objects as go

from lplab import figures
from lplab.checks import check_int
from lplab.figures.loss_scale_history import LossScaleHistory
from lplab.quantizers import DynamicLossScale
from lplab.training.thread_counts import torch_threads

from .live_run import LiveRun

INITIAL_SCALE, MAX_SCALE = 2.0**24, 2.0**24  # the scale begins where it overflows
LIBRARY = "the library's rule"


class UserLossScale(DynamicLossScale):
    """A dynamic loss scale that follows a function.

    Args:
        rule: function of (scale, good_steps, finite, interval) that returns the next scale and the next count.
        **scaler: as of `DynamicLossScale`.

    >>> scaler = UserLossScale(lambda scale, good, finite, interval: (scale / 2, 0), scale=8.0)
    >>> scaler.update(True), scaler.scale
    (True, 4.0)
    """

    def __init__(self, rule: Callable[..., Any], **scaler: Any) -> None:
        super().__init__(**scaler)
        self.rule = rule

    def update(self, finite: bool) -> bool:
        """Update scale and count by the function; a step with NaN or infinity is always skipped.

        Raises:
            ValueError: the function does not return a positive scale and a count.
        """
        name = getattr(self.rule, "__name__", "your function")
        try:
            returned = self.rule(self.scale, self.good_steps, finite, self.interval)
        except NotImplementedError:
            raise NotImplementedError(f"{name} is still to be written; then run this cell again") from None
        try:
            scale, good = (float(part) for part in returned)
        except (TypeError, ValueError):
            raise ValueError(f"{name} must return a scale and a count, got {returned!r}") from None
        if not (math.isfinite(scale) and scale > 0 and good >= 0):
            raise ValueError(f"{name} must return a positive scale and a count from 0 up, got {returned!r}")
        self.scale, self.good_steps = scale, int(good)
        return bool(finite)


def train_with_scale(rule: Callable[..., Any], *, steps: int = 80, interval: int = 15, start: bool = True) -> LiveRun:
    """Train the character Transformer in emulated float16 under a rule for the loss scale, beside the library's rule.

    Both begin at 2²⁴, where gradients overflow. Batches are small, four passages of 64 characters.

    Args:
        rule: see `UserLossScale`. For one that raises NotImplementedError the widget shows "not yet".
        steps: of both trainings, 1 to 10,000.
        interval: good steps before the scale may grow.
        start: whether to start at once.

    Raises:
        TypeError: ``rule`` is not a function.

    >>> run = train_with_scale(lambda scale, good, finite, interval: (scale / (1 if finite else 4), 0), steps=4)
    >>> run.wait(120)
    >>> run.state, [step[0].skipped for step in run.result()][:2]
    ('finished', [True, True])
    """
    if not callable(rule):
        raise TypeError(f"rule must be a function of (scale, good_steps, finite, interval), got {type(rule).__name__}")
    name = getattr(rule, "__name__", "your rule").replace("<lambda>", "your rule")
    settings: dict[str, Any] = {"scale": INITIAL_SCALE, "interval": interval, "max_scale": MAX_SCALE}

    def rounds() -> Iterator[tuple[Any, ...]]:
        from lplab.training import tasks

        trainers = [tasks.get("transformer").trainer("fp16_mixed", seed=0, batch=4) for _ in range(2)]
        trainers[0].scaler = UserLossScale(rule, **settings)
        trainers[1].scaler = DynamicLossScale(**settings)
        with torch_threads(1):
            for _ in range(steps):
                yield tuple(trainer.one_step() for trainer in trainers)

    def draw(results: tuple[tuple[Any, ...], ...]) -> go.Figure:
        columns = list(zip(*results, strict=True)) or [(), ()]
        histories = [
            LossScaleHistory(label, [step.loss_scale for step in column], [step.skipped for step in column])
            for label, column in zip(("yours", LIBRARY), columns, strict=True)
        ]
        return figures.loss_scale_history(histories, steps=steps)

    total = check_int("steps", steps, 1, 10_000)
    return LiveRun(rounds, draw, total=total, name=f"Train with {name}", unit="step", start=start)
