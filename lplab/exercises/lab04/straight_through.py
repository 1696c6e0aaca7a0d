"""Exercise 04.1: the gradient of clip and round, as it is defined and not as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lplab.exercises.checks.numbers import decimal, sequence_text
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import SameShape


def straight_through(x, gradient, alpha):
    """The gradient for x of y = round(clip(x, 0, alpha) / step) * step, given the one for y."""
    inside = (x >= 0) & (x < alpha)
    return np.where(inside, gradient, 0.0)


INSIDE, PASS = "(x >= 0) & (x < alpha)", "np.where(inside, gradient, 0.0)"


def slopes() -> list[Args]:
    """One element at a time: around zero, around the clip, at the levels and halfway between them, far outside."""
    cases = []
    for alpha in (0.75, 1.0, 6.0):
        levels = np.arange(4) * alpha / 3
        middles = (levels[1:] + levels[:-1]) / 2
        ends = [np.nextafter(end, side) for end in (0.0, alpha) for side in (-np.inf, np.inf)]
        x = [-0.0, *levels, *middles, *ends, -alpha, -0.1, 0.01, 2 * alpha, 1e6, -1e6, np.inf, -np.inf]
        cases += [(np.array([value]), np.array([g]), alpha) for value in x for g in (1.0, -2.5, 8.0)]
    return cases


def many() -> list[Args]:
    """Whole tensors, with gradients of all sizes, and each a second time with twice the gradient."""
    rng = np.random.default_rng(4)
    calls = []
    for alpha, shape in ((1.0, (40,)), (2.5, (4, 3, 5)), (0.5, (0,))):
        x, gradient = rng.normal(alpha / 2, alpha, shape), rng.normal(0, 3, shape)
        calls += [(x, gradient, alpha), (x, 2 * gradient, alpha)]
    return calls


def scales_with_the_gradient(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Twice the gradient for y gives twice the gradient for x, element by element."""
    for args, one, two in zip(calls[::2], results[::2], results[1::2], strict=True):
        off = np.flatnonzero(2 * np.asarray(one) != np.asarray(two))
        if off.size:
            i = off[0]
            made = f"{decimal(float(np.ravel(one)[i]))} becomes {decimal(float(np.ravel(two)[i]))}"
            return Finding(f"With twice the gradient for y, {made}.", args, one)
    return None


def show(args: Args) -> str:
    """The arguments; of many elements, the first few."""
    x, gradient, alpha = args
    return f"x = {sequence_text(x)}, gradient = {sequence_text(gradient)}, alpha = {decimal(alpha)}"


def why(args: Args, expected: Any) -> str:
    """Where x lies."""
    x, _, alpha = args
    if np.size(x) != 1:
        return ""
    value = float(np.ravel(x)[0])
    if value == alpha:
        return "x lies exactly at α: there the gradient belongs to α, not to x."
    where = "below 0" if value < 0 else "beyond α" if value > alpha else "within the clip"
    outcome = "passes as if nothing had been rounded" if 0 <= value < alpha else "stops"
    return f"x lies {where}: the gradient {outcome}."


STRAIGHT = Exercise(
    id="04.1",
    version=1,
    title="A gradient that is defined",
    goal="Goal 1: define a gradient where there is none",
    minutes=15,
    difficulty=1,
    statement=r"""
        Activations of few bits are $y=\text{round}(\text{clip}(x, 0, \alpha)/s)\cdot s$ ($s$ is the step between two levels). Here clip sets $x<0$ to 0 and $x>\alpha$ to $\alpha$. `gradient` is the gradient of the loss for `y`, an array like `x`. Write `straight_through(x, gradient, alpha)`, which returns the **defined** gradient for `x`. The rounding counts as if it were not there. The clip stays as it is.
        So ask for each element how much $\text{clip}(x, 0, \alpha)$ changes when $x$ grows a little. (That also settles the two corners, $x=0$ and $x=\alpha$.)
    """,
    reference=straight_through,
    form=SameShape(0),
    signed_zero=False,
    show=show,
    why=why,
    examples=(
        Example((np.array([0.25]), np.array([3.0]), 1.0), "Within the clip: the gradient passes as it is, although y does not move with x."),
        Example((np.array([1.5]), np.array([3.0]), 1.0), "Beyond the clip: y is α, whatever x is."),
        Example((np.array([-0.5]), np.array([3.0]), 1.0), "Below zero: y is 0, whatever x is."),
        Example((np.array([0.0, 1.0]), np.array([3.0, 3.0]), 1.0), "At 0 the clip grows when x grows a little. At α it does not grow any more."),
        Example((np.array([0.1, 0.5, 0.9]), np.array([1.0, -2.0, 4.0]), 1.0), "Three gradients, three slopes of 1. The largest x rounds to α and still lies inside."),
        Example((np.array([0.5, 0.5]), np.array([100.0, -100.0]), 2.0), "Large gradients pass, too: it is x that is clipped, not the gradient."),
        Example((np.array([[1.0, -1.0], [7.0, 5.9]]), np.array([[1.0, 2.0], [3.0, 4.0]]), 6.0), "Any shape; each element for itself."),
    ),
    boundary=slopes,
    properties=(Property("twice the gradient for y is twice the gradient for x", many, scales_with_the_gradient),),
    mistakes=(
        mistake("the true derivative: a staircase has slope 0", PASS, "np.zeros(x.shape) + 0.0 * inside"),
        mistake("a difference quotient of the staircase: 0 or huge", PASS, "np.where(inside, gradient, 0.0) * (np.round((x + 1e-3 * alpha) * 3 / alpha) - np.round((x - 1e-3 * alpha) * 3 / alpha)) * 500 / 3"),
        mistake("the clip is forgotten: everything passes", PASS, "np.where(inside, gradient, gradient)"),
        mistake("the mask itself instead of the gradient times the mask", PASS, "np.where(inside, 1.0, 0.0)"),
        mistake("α belongs to the inside", "(x < alpha)", "(x <= alpha)"),
        mistake("zero does not belong to the inside", "(x >= 0)", "(x > 0)"),
        mistake("both corners are taken the other way round: α belongs to the inside, zero does not", INSIDE, "(x > 0) & (x <= alpha)"),
        mistake("only the upper end is looked at", INSIDE, "x < alpha"),
        mistake("only the lower end is looked at", INSIDE, "x >= 0"),
        mistake("the clip of symmetric weights, −α to α", INSIDE, "np.abs(x) < alpha"),
        mistake("the gradient is clipped instead of x", PASS, "np.clip(gradient, -alpha, alpha) + 0.0 * inside"),
        mistake("the size of the gradient decides, not that of x", INSIDE, "np.abs(gradient) < alpha"),
        mistake("inside and outside are exchanged", PASS, "np.where(inside, 0.0, gradient)"),
        mistake("the rounded value decides: what rounds to 0 or α is stopped", INSIDE, "(np.round(x * 3 / alpha) > 0) & (np.round(x * 3 / alpha) < 3)"),
        mistake("the gradient is multiplied by y", PASS, "np.where(inside, gradient * x, 0.0)"),
        mistake("only the sign of the gradient passes", PASS, "np.where(inside, np.sign(gradient), 0.0)"),
        mistake("outside, a little passes: a leaky clip", PASS, "np.where(inside, gradient, 0.01 * gradient)"),
    ),
    hints=(
        "Take one number: x = 0.25, α = 1. A small change of x leaves y where it is, so the true slope is 0. The definition pretends that y = x there.",
        "Two questions for each element: would the clip raise it to 0, would the clip cut it to α? Where both are answered no, the clip has slope 1.",
        "The skeleton: inside = (x >= 0) & (x < alpha); return inside * gradient.",
    ),
)
