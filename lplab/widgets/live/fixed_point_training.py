"""Trainings in fixed point, live: several rounding rules side by side, one of them the user's."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import plotly.graph_objects as go

from lplab import figures
from lplab.training import LABELS, Epoch, FixedPointConfig, train_in_lockstep

from .live_run import LiveRun

FLOATING = "floating point"
Runs = Mapping[str, FixedPointConfig]


def live_training(
    runs: Runs | Callable[[], Runs], *, epochs: int = 60, name: str = "Train", start: bool = False
) -> LiveRun:
    """A button that trains up to four runs side by side and draws their test errors, epoch by epoch.

    Args:
        runs: names and runs; one named "floating point" is drawn as the reference. A function is called at each
            start, and must return the same names each time.
        epochs: of every run.
        name: on the button.
        start: whether to start at once.

    Raises:
        ValueError: more than four runs beside floating point.

    >>> run = live_training({"coin": FixedPointConfig(epochs=2)}, epochs=2)
    >>> run.start()
    >>> run.wait(60)
    >>> run.figure.layout.meta["title"][:28]
    'After 2 of 2 epochs: coin 16'
    """
    current = dict(runs() if callable(runs) else runs)
    names = list(current)

    def steps() -> Iterator[tuple[Epoch, ...]]:
        fresh = dict(runs() if callable(runs) else runs)
        return train_in_lockstep([fresh[n] for n in names])

    def draw(results: tuple[tuple[Epoch, ...], ...]) -> go.Figure:
        curves = {n: _curve(n, [epochs_[i] for epochs_ in results]) for i, n in enumerate(names)}
        floating = curves.pop(FLOATING, None)
        return figures.training_epochs(list(curves.values()), floating, epochs=epochs)

    return LiveRun(steps, draw, total=epochs, name=name, unit="epoch", start=start)


def _curve(name: str, epochs: list[Epoch]) -> figures.Curve:
    return figures.Curve(name, [epoch.number for epoch in epochs], [epoch.test_error for epoch in epochs])


def rules_at(fraction_bits: int, rules: tuple[str, ...] = ("stochastic", "nearest_down"), **run: Any) -> Runs:
    """Runs that differ in the rounding rule alone, and floating point.

    >>> list(rules_at(6))
    ['stochastic', 'nearest (ties down)', 'floating point']
    """
    chosen = {LABELS.get(rule, rule): FixedPointConfig(fraction_bits, rounding=rule, **run) for rule in rules}
    return {**chosen, FLOATING: FixedPointConfig(None, **run)}


def train_with(rounding: Callable[..., Any], fraction_bits: int = 6, *, start: bool = True, **run: Any) -> LiveRun:
    """Train with the user's rounding function, beside the library's stochastic rounding and round to nearest.

    Args:
        rounding: function of (x, fraction_bits, rng) that returns x rounded to multiples of 2^−fraction_bits.
        fraction_bits: of weights and updates; outputs are ⟨6, 10⟩ by default.
        start: whether to start at once.
        **run: other fields of `FixedPointConfig`, such as ``seed=3``.

    For a function that raises NotImplementedError the widget shows "not yet".

    >>> import numpy as np
    >>> run = train_with(lambda x, bits, rng: np.ceil(x * 2**bits) / 2**bits, 8, epochs=1)
    >>> run.wait(60)
    >>> run.state, len(run.figure.data)
    ('finished', 4)
    """
    if not callable(rounding):
        raise TypeError(f"rounding must be a function of (x, fraction_bits, rng), got {type(rounding).__name__}")
    name = getattr(rounding, "__name__", "your rounding")
    settings = {"outputs": "q6.10", **run}

    def own(x: Any, bits: int, rng: Any) -> Any:
        try:
            return rounding(x, bits, rng)
        except NotImplementedError:
            raise NotImplementedError(f"{name} is still to be written; then run this cell again") from None

    own.__name__ = name
    runs = {"yours": FixedPointConfig(fraction_bits, rounding=own, **settings), **rules_at(fraction_bits, **settings)}
    runs = {("the library's coin" if n == LABELS["stochastic"] else n): each for n, each in runs.items()}
    return live_training(runs, epochs=runs["yours"].epochs, name=f"Train with {name}", start=start)
