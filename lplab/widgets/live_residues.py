"""Learners under AdaComp, live: what every layer sends, what its residue holds back, while they train."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from lplab import figures
from lplab.compression import AdaComp
from lplab.figures.sent_and_kept import SentCourse
from lplab.figures.words import percent
from lplab.formats.base import whole
from lplab.residue_recording import residue_recording

from .live_run import LiveRun

if TYPE_CHECKING:
    from lplab.parallel.residues import Moment


def live_residues(
    compressor: AdaComp | None = None,
    *,
    steps: int = 120,
    seed: int = 1,
    layer: str = "dense",
    name: str = "Train four learners",
    start: bool = False,
) -> LiveRun:
    """A button that trains the net of the recording under AdaComp and draws what is sent and what stays, step by step.

    Args:
        compressor: an AdaComp; that of the paper unless told otherwise.
        steps: of the training, 1 to 10,000.
        seed: of weights and batches; the recording has 0.
        layer: the one that is drawn thick and named in the title.
        name: on the button.
        start: whether to start at once.

    Raises:
        TypeError: a compressor of another kind.
        ValueError: no such layer, or a number of steps out of range.

    >>> run = live_residues(AdaComp(bin=100), steps=2)
    >>> run.start()
    >>> run.wait(60)
    >>> run.figure.layout.meta["title"][:19]
    'Step 2 of 2: loss 2'
    """
    used = AdaComp() if compressor is None else compressor
    if not isinstance(used, AdaComp):
        raise TypeError(f"compressor must be an AdaComp, got {type(used).__name__}")
    layers = residue_recording().layers
    if layer not in layers:
        raise ValueError(f"no layer {layer!r}; there are: {'; '.join(layers)}")
    total = whole("steps", steps, 1, 10_000)

    def moments() -> Iterator[Moment]:
        from lplab.parallel.residues import ResidueRun

        return ResidueRun(used, seed).steps(total)

    def draw(got: tuple[Any, ...]) -> go.Figure:
        return residue_figure(got, total, layer)

    return LiveRun(moments, draw, total=total, name=name, unit="step", start=start)


def residue_figure(got: tuple[Moment, ...], steps: int, layer: str) -> go.Figure:
    """What is sent and what stays in the steps so far."""
    recorded = residue_recording()
    courses = []
    for place, (name, size) in enumerate(zip(recorded.layers, recorded.sizes, strict=True)):
        each = [list(moment.layers.values())[place] for moment in got]
        numbers = [moment.step + 1 for moment in got]
        courses.append(SentCourse(name, numbers, [m.sent / size for m in each], [m.residue / m.gradient for m in each]))
    chosen = recorded.layers.index(layer)
    title = ""
    if got:
        now = courses[chosen]
        sends = f"{layer} sends {percent(float(now.sent[-1]))}, holds {now.held[-1]:.1f} gradients"
        title = f"Step {len(got)} of {steps}: loss {got[-1].loss:.2f}; {sends}"
    return figures.sent_and_kept(courses, steps=steps, chosen=chosen, title=title)
