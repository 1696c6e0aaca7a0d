"""A training of the clip α with the student's gradient, beside the library's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from lplab import datasets
from lplab.quantizers import pact_backward, pact_forward
from lplab.quantizers.clipping import Magnitudes

ACTIVATIONS = "resnet/step200/layer3.conv2/activation"
START, LEARNING_RATE, BATCH = 10.0, 2.0, 2048  # the paper's first α; our learning rate; activations in a step
LIBRARY, YOURS, NO_DECAY = "library", "yours", "without decay"
Gradient = Callable[[Any, Any, float, float], float]


def library_gradient(x: np.ndarray, gradient: np.ndarray, alpha: float, decay: float) -> float:
    """What exercise 04.2 asks for, by the library.

    >>> library_gradient(np.array([0.5, 3.0]), np.array([1.0, 2.0]), 1.0, 0.5)
    2.5
    """
    return pact_backward(x, alpha, gradient)[1] + decay * alpha


def clip_training(gradient: Gradient, bits: int, decay: float, steps: int) -> Iterator[dict[str, float]]:
    """Train α so that the rounded activations resemble the activations: half the mean squared error, plus the decay.

    Args:
        gradient: a function of (x, gradient, alpha, decay) for the second training; the first uses the library's, the
            third the library's without decay. All see the same activations.
        bits: of the activations.
        decay: λ.
        steps: how many.

    Yields:
        α of each, before the first step and after every one; an α below 0.001 counts as that. The second is left out
        if its function is still to be written (it raises NotImplementedError).
    """
    x = datasets.captured()[ACTIVATIONS].ravel().astype(np.float64)
    rng = np.random.default_rng(2018)
    alphas = dict.fromkeys((LIBRARY, YOURS, NO_DECAY), START)
    rules = {LIBRARY: (library_gradient, decay), YOURS: (gradient, decay), NO_DECAY: (library_gradient, 0.0)}
    if not _is_written(gradient):
        del rules[YOURS], alphas[YOURS]
    yield dict(alphas)
    for _ in range(steps):
        some = rng.choice(x, BATCH)
        for name, (function, pull) in rules.items():
            alpha = alphas[name]
            upstream = (pact_forward(some, alpha, bits) - some) / BATCH
            slope = float(function(some.copy(), upstream, alpha, pull))
            if not math.isfinite(slope):
                raise ValueError(f"the gradient of {name} is {slope} at α = {alpha:.4g}")
            alphas[name] = min(max(alpha - LEARNING_RATE * slope, 1e-3), 1e6)
        yield dict(alphas)


def _is_written(gradient: Gradient) -> bool:
    try:
        gradient(np.array([0.5]), np.array([1.0]), 1.0, 0.0)
    except NotImplementedError:
        return False
    return True


def train_clip(gradient: Gradient, bits: int = 2, decay: float = 0.005, steps: int = 300, *, start: bool = True) -> Any:
    """A live training of one clip with a gradient of one's own, beside the library's with and without decay.

    Args:
        gradient: a function of (x, gradient, alpha, decay) that returns the gradient for alpha.
        bits: of the activations; decay: λ; steps: how many.
        start: whether to start at once.

    Without a function of one's own (it raises NotImplementedError) the library trains alone.
    """
    from lplab import figures, widgets  # drawn in a notebook only

    tensor = Magnitudes(datasets.captured()[ACTIVATIONS])
    best, name = tensor.best_clip(2 ** (bits + 1) - 1), getattr(gradient, "__name__", "your gradient")

    def draw(got: Sequence[dict[str, float]]) -> Any:
        curves = {key: [each[key] for each in got if key in each] for key in (LIBRARY, YOURS, NO_DECAY)}
        note = f"{bits} bits, λ = {decay:g}, α from {START:g}"
        return figures.clip_steps(curves, steps=steps, best=best, largest=tensor.largest, note=note)

    def remark(got: Sequence[dict[str, float]]) -> Sequence[str]:
        return [] if not got or YOURS in got[-1] else [f"Your {name} is not drawn: it is not written yet."]

    run = partial(clip_training, gradient, bits, decay, steps)
    return widgets.LiveRun(run, draw, total=steps + 1, name=f"Train α with {name}", start=start, remark=remark)
