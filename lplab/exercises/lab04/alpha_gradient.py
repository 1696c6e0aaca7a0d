"""Exercise 04.2: the gradient of the loss for PACT's clip."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from lplab import datasets
from lplab.exercises.checks.numbers import decimal, sequence_text
from lplab.exercises.model.exercise import Args, Example, Exercise, mistake
from lplab.exercises.model.forms import Number
from lplab.quantizers import pact_backward, pact_forward
from lplab.quantizers.clipping import Magnitudes


def alpha_gradient(x, gradient, alpha, decay):
    """The gradient of loss + decay/2 * alpha**2 for PACT's clip alpha, given the gradient of the loss for y."""
    clipped = x >= alpha
    return np.sum(gradient[clipped]) + decay * alpha


CLIPPED, SUM, PULL = "x >= alpha", "np.sum(gradient[clipped])", "decay * alpha"


def clip_cases() -> list[Args]:
    """Sums of few binary digits, exact in any order: elements below zero, inside, at and beyond the clip."""
    rng = np.random.default_rng(2018)
    cases = []
    for alpha in (0.5, 1.0, 2.0, 6.0):
        for shape in ((1,), (2,), (7,), (32,), (4, 6), (2, 3, 4)):
            x = rng.integers(-12, 28, shape) / 8 * alpha / 2
            gradient = rng.integers(-64, 65, shape) / 32
            cases += [(x, gradient, alpha, decay) for decay in (0.0, 0.125, 0.03125)]
    none = [(np.array([0.25, -1.0]), np.array([1.0, 1.0]), 2.0, decay) for decay in (0.0, 0.5)]
    return [*cases, *none, (np.zeros(0), np.zeros(0), 1.0, 0.25)]


def show(args: Args) -> str:
    """The arguments; of many elements, the first few."""
    x, gradient, alpha, decay = args
    return f"x = {sequence_text(x)}, gradient = {sequence_text(gradient)}, alpha = {decimal(alpha)}, decay = {decimal(decay)}"


def why(args: Args, expected: Any) -> str:
    """Which elements count."""
    x, gradient, alpha, decay = args
    beyond = int((np.asarray(x) >= alpha).sum())
    total = float(np.asarray(gradient)[np.asarray(x) >= alpha].sum())
    who = {0: "No element is", 1: "One element is"}.get(beyond, f"{beyond} elements are")
    return f"{who} at or beyond α: their gradients sum to {decimal(total)}; the decay adds {decimal(decay * alpha)}."


ALPHA = Exercise(
    id="04.2",
    version=1,
    title="The gradient of the clip",
    goal="Goal 2: train a clip",
    minutes=15,
    difficulty=2,
    statement=r"""
        In PACT the rounding counts as if it were not there, so $y=\text{clip}(x, 0, \alpha)$. Write `alpha_gradient(x, gradient, alpha, decay)`, which returns the gradient for $\alpha$ of the loss plus the penalty $\frac{\lambda}{2}\alpha^2$. Here `gradient` is the gradient of the loss for `y`, an array like `x`, and `decay` is $\lambda$.
        Which elements of $y$ change when $\alpha$ changes a little, and how much? (An element that equals $\alpha$ counts as clipped.) All elements share the one $\alpha$, so the result is one number.
    """,
    reference=alpha_gradient,
    form=Number(),
    signed_zero=False,
    show=show,
    why=why,
    examples=(
        Example((np.array([0.5, 1.5, 3.0]), np.array([4.0, 1.0, 2.0]), 1.0, 0.0), "Two elements are clipped, and both move with α: 1 + 2."),
        Example((np.array([0.5, 1.0]), np.array([4.0, 1.0]), 1.0, 0.0), "x = α belongs to the clip: its gradient goes to α, and not to x."),
        Example((np.array([-2.0, -0.5, 2.0]), np.array([4.0, 8.0, 1.0]), 1.0, 0.0), "Below zero y is 0 and does not move with α, however far below."),
        Example((np.array([0.1, 0.4, 0.7]), np.array([4.0, 8.0, 1.0]), 1.0, 0.25), "Nothing is clipped: only the decay is left, λα."),
        Example((np.array([5.0, 6.0]), np.array([-1.0, -2.0]), 4.0, 0.5), "The decay pulls one way, the clipped elements the other: −3 + 2."),
        Example((np.full(8, 3.0), np.full(8, 0.5), 2.0, 0.0), "The sum over all elements, not the mean: eight times 0.5."),
        Example((np.array([[0.3, 4.0], [9.0, 1.0]]), np.array([[1.0, 2.0], [-4.0, 8.0]]), 2.0, 0.125), "Any shape gives one number."),
    ),
    boundary=clip_cases,
    mistakes=(
        mistake("the mean over all elements instead of the sum", SUM, "np.sum(gradient[clipped]) / max(x.size, 1)"),
        mistake("the mean over the clipped elements", SUM, "np.sum(gradient[clipped]) / max(clipped.sum(), 1)"),
        mistake("x = α does not count as clipped", CLIPPED, "x > alpha"),
        mistake("all elements count", SUM, "np.sum(gradient)"),
        mistake("the elements inside count, those beyond do not", CLIPPED, "x < alpha"),
        mistake("the clipped elements are counted, their gradients forgotten", SUM, "np.sum(clipped)"),
        mistake("elements far below zero count as clipped", CLIPPED, "np.abs(x) >= alpha"),
        mistake("of those far below zero the gradient is subtracted, as for a symmetric clip", SUM, "(np.sum(gradient[clipped]) - np.sum(gradient[x <= -alpha]))"),
        mistake("the decay is forgotten", " + decay * alpha", ""),
        mistake("the decay is subtracted", " + decay * alpha", " - decay * alpha"),
        mistake("the penalty itself instead of its gradient", PULL, "decay / 2 * alpha**2"),
        mistake("the gradient of the penalty without α: λ", PULL, "decay"),
        mistake("twice the gradient of the penalty, as for λα² without the half", PULL, "2 * decay * alpha"),
        mistake("the decay is added once for each element", PULL, "decay * alpha * x.size"),
        mistake("the rounding inside counts, too, as in LSQ and PACT+", SUM, "(np.sum(gradient[clipped]) + np.sum(np.where((x >= 0) & ~clipped, gradient * (np.round(x * 3 / alpha) / 3 - x / alpha), 0.0)))"),
        mistake("the gradients are multiplied by x", SUM, "np.sum(gradient[clipped] * x[clipped])"),
    ),
    hints=(
        "Take two elements, 0.5 and 3, and α = 1: y = 0.5 and 1. Make α a little larger. Which y moves, and how far?",
        "Each clipped element passes its own gradient to α; they add up. To that comes the derivative of λ/2 · α².",
        "The skeleton: clipped = x >= alpha; return gradient[clipped].sum() + decay * alpha.",
    ),
)


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
        α of each after every step; an α below 0.001 counts as that. The second is left out if its function is still to
        be written (it raises NotImplementedError).
    """
    x = datasets.captured()[ACTIVATIONS].ravel().astype(np.float64)
    rng = np.random.default_rng(2018)
    alphas = dict.fromkeys((LIBRARY, YOURS, NO_DECAY), START)
    rules = {LIBRARY: (library_gradient, decay), YOURS: (gradient, decay), NO_DECAY: (library_gradient, 0.0)}
    if not _is_written(gradient):
        del rules[YOURS], alphas[YOURS]
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
        there = got[0] if got else {}  # all begin at START, before the first step
        curves = {
            key: [START, *(each[key] for each in got)] if key in there else [] for key in (LIBRARY, YOURS, NO_DECAY)
        }
        note = f"{bits} bits, λ = {decay:g}, α from {START:g}"
        return figures.clip_steps(curves, steps=steps, best=best, largest=tensor.largest, note=note)

    def remark(got: Sequence[dict[str, float]]) -> Sequence[str]:
        if not got or YOURS in got[-1]:
            return []
        return [f"Your {name} is not drawn: it was not written when this cell ran. Once it is, run this cell again."]

    run = partial(clip_training, gradient, bits, decay, steps)
    return widgets.LiveRun(run, draw, total=steps, name=f"Train α with {name}", start=start, remark=remark)
