"""Learners under AdaComp, live: what every layer sends, and its residual, while they train."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from lplab import figures
from lplab.checks import check_int
from lplab.compression import AdaComp
from lplab.figures.sent_and_kept import SentHistory
from lplab.number_text import percent
from lplab.recordings.adacomp_runs import adacomp_recording

from .live_run import LiveRun

if TYPE_CHECKING:
    from lplab.parallel.instrumented_adacomp import StepRecord


def live_adacomp(
    compressor: AdaComp | None = None,
    *,
    steps: int = 120,
    seed: int = 1,
    layer: str = "dense",
    name: str = "Train four learners",
    start: bool = False,
) -> LiveRun:
    """A button that trains the net of the recording under AdaComp and draws what is sent and the residual, by step.

    The paper calls the residual "residue".

    Args:
        compressor: an AdaComp; by default with the paper's settings.
        steps: of the training, 1 to 10,000.
        seed: of weights and batches; the recording has 0.
        layer: the one that is drawn thick and named in the title.
        name: on the button.
        start: whether to start at once.

    Raises:
        TypeError: a compressor of another kind.
        ValueError: no such layer, or a number of steps out of range.

    >>> run = live_adacomp(AdaComp(bin=100), steps=2)
    >>> run.start()
    >>> run.wait(60)
    >>> run.figure.layout.meta["title"][:19]
    'Step 2 of 2: loss 2'
    """
    used = AdaComp() if compressor is None else compressor
    if not isinstance(used, AdaComp):
        raise TypeError(f"compressor must be an AdaComp, got {type(used).__name__}")
    layers = adacomp_recording().layers
    if layer not in layers:
        raise ValueError(f"no layer {layer!r}; there are: {'; '.join(layers)}")
    total = check_int("steps", steps, 1, 10_000)

    def records() -> Iterator[StepRecord]:
        from lplab.parallel.instrumented_adacomp import AdaCompRun

        return AdaCompRun(used, seed).steps(total)

    def draw(results: tuple[Any, ...]) -> go.Figure:
        return adacomp_figure(results, total, layer)

    return LiveRun(records, draw, total=total, name=name, unit="step", start=start)


def adacomp_figure(records: tuple[StepRecord, ...], steps: int, layer: str) -> go.Figure:
    """Shares sent and residuals in the steps so far."""
    recorded = adacomp_recording()
    histories = []
    for index, (name, size) in enumerate(zip(recorded.layers, recorded.sizes, strict=True)):
        samples = [list(record.layers.values())[index] for record in records]
        sent = [sample.sent / size for sample in samples]
        ratios = [sample.residual / sample.gradient for sample in samples]
        histories.append(SentHistory(name, [record.step + 1 for record in records], sent, ratios))
    chosen = recorded.layers.index(layer)
    title = ""
    if records:
        now = histories[chosen]
        sends = f"{layer} sends {percent(float(now.sent[-1]))}, holds {now.residual[-1]:.1f} gradients"
        title = f"Step {len(records)} of {steps}: loss {records[-1].loss:.2f}; {sends}"
    return figures.sent_and_kept(histories, steps=steps, chosen=chosen, title=title)
