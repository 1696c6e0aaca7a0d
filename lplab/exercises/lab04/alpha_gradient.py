"""Exercise 04.2: the gradient of the loss for PACT's clip."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.exercises.checks.numbers import decimal, sequence_text
from lplab.exercises.model.exercise import Args, Example, Exercise, mistake
from lplab.exercises.model.forms import Number


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
        PACT trains $\alpha$, one number for a whole layer. By its definition $\partial y/\partial\alpha$ is 1 where $x\ge\alpha$ and 0 elsewhere: an element beyond the clip moves with it, and the rounding inside counts for nothing. Write `alpha_gradient(x, gradient, alpha, decay)`: the
        gradient for $\alpha$ of the loss plus $\frac{\lambda}{2}\alpha^2$, where `gradient` is that of the loss for `y`, an array like `x`, and `decay` is $\lambda$. All elements share the one $\alpha$.
    """,
    stub='''
        def alpha_gradient(x, gradient, alpha, decay):
            """The gradient of loss + decay/2 * alpha**2 for PACT's clip alpha, given the gradient of the loss for y."""
            raise NotImplementedError
    ''',
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
        "The skeleton: clipped = x >= alpha; return np.sum(gradient[clipped]) + decay * alpha.",
    ),
)
