"""Exercise 09.1: the residual, step by step: what is not sent is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lplab.exercises.checks.numbers import decimal
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import SameShape


def residuals(gradients, symbols, scales):
    """The residual of one layer after each step; sent in step t is scales[t] · symbols[t], with symbols −1, 0 or 1."""
    residual = np.zeros(gradients.shape[1])
    after = np.empty(gradients.shape)
    for t in range(len(gradients)):
        total = residual + gradients[t]
        residual = total - scales[t] * symbols[t]
        after[t] = residual
    return after


START, TOTAL = "residual = np.zeros(gradients.shape[1])", "total = residual + gradients[t]"
KEEP, NOTE = "residual = total - scales[t] * symbols[t]", "after[t] = residual"


def story(seed: int, steps: int, size: int) -> Args:
    """Gradients, symbols and scales of a run: multiples of 1/64, so that all sums are exact."""
    rng = np.random.default_rng(seed)
    gradients = rng.integers(-128, 129, (steps, size)) / 64
    symbols = rng.choice([-1.0, 0.0, 0.0, 0.0, 1.0], (steps, size))
    return gradients, symbols, rng.integers(1, 200, steps) / 64


def row(*steps: Sequence[float]) -> np.ndarray:
    """A row of numbers for each step."""
    return np.array(steps, np.float64)


def cases() -> list[Args]:
    """Runs of one element and of many, of one step and of several; steps without anything sent, steps that send all."""
    runs = [story(seed, steps, size) for seed, (steps, size) in enumerate(((1, 1), (3, 1), (2, 5), (6, 4), (20, 8)))]
    gradients, symbols, scales = story(9, 5, 3)
    quiet, loud = np.zeros_like(symbols), np.ones_like(symbols)
    return [*runs, (gradients, quiet, scales), (gradients, loud, scales), (gradients, symbols, 0 * scales)]


def long_runs() -> list[Args]:
    """Runs of many steps."""
    return [story(seed, 200, 16) for seed in (2018, 2019)]


def nothing_is_lost(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether all gradients together are what was sent, and the last residual, exactly."""
    for args, after in zip(calls, map(np.asarray, results), strict=True):
        gradients, symbols, scales = args
        expected, sent = gradients.sum(axis=0), (scales[:, None] * symbols).sum(axis=0)
        wrong = np.flatnonzero(sent + after[-1] != expected)
        if wrong.size:
            i = wrong[0]
            sums = (sent[i], after[-1][i], expected[i])
            found = "element {}: {} sent and {} kept, but the gradients add up to {}".format(i, *map(decimal, sums))
            return Finding(f"After {len(gradients)} steps, {found}.", args, float(after[-1][i]))
    return None


def show(args: Args) -> str:
    """Short runs in full."""
    gradients, symbols, scales = args
    if gradients.size > 8:
        return f"{gradients.shape[0]} steps of {gradients.shape[1]} elements"
    parts = zip(("gradients", "symbols", "scales"), (gradients, symbols, scales), strict=True)
    return ", ".join(f"{name} = {rows(x)}" for name, x in parts)


def rows(x: np.ndarray) -> str:
    """An array as a student would type it.

    >>> rows(np.array([[0.5, -1.0]]))
    '[[0.5, −1]]'
    """
    return "[" + ", ".join(rows(part) if np.ndim(part) else decimal(float(part)) for part in x) + "]"


def why(args: Args, expected: Any) -> str:
    """What happens to the first element."""
    gradients, symbols, scales = args
    sent = scales * symbols[:, 0]
    parts = [
        f"{decimal(b)} + {decimal(g)} − {decimal(s)} = {decimal(a)}"
        for b, g, s, a in zip((0.0, *expected[:-1, 0]), gradients[:3, 0], sent[:3] + 0.0, expected[:3, 0], strict=False)
    ]
    return f"Element 0, old residual + gradient − sent, step by step: {'; '.join(parts)}{'; …' if len(sent) > 3 else ''}."


RESIDUAL = Exercise(
    id="09.1",
    version=1,
    title="The residual",
    goal="Goal 1: keep what is not sent, exactly",
    minutes=10,
    difficulty=1,
    statement=r"""
        Write `residuals(gradients, symbols, scales)` for one layer of one learner. Row t of `gradients` is the gradient of step t; row t of `symbols` says −1, 0 or 1 for each element; the number sent for it is `scales[t] * symbols[t]`, and 0 means that nothing is sent. Return an array like `gradients` whose row t is the residual **after** step t.
        The residual begins at zero, and in every step **old residual + gradient = sent + new residual**, exactly, for the elements that are sent as for the others.
    """,
    reference=residuals,
    form=SameShape(0),
    signed_zero=False,
    show=show,
    why=why,
    examples=(
        Example((row([0.5, -0.25]), row([0, 0]), np.array([1.0])), "Nothing is sent: all of it stays."),
        Example((row([0.5], [0.5], [0.5]), row([0], [0], [0]), np.array([1.0, 1.0, 1.0])), "What stays adds up: 0.5, 1, 1.5."),
        Example((row([0.75, 0.25]), row([1, 0]), np.array([0.5])), "Sent is 0.5, not 0.75: the error of the symbol stays, too."),
        Example((row([0.25]), row([1]), np.array([1.0])), "More is sent than there was: the residual becomes −0.75, and takes it back later."),
        Example((row([-0.75]), row([-1]), np.array([0.5])), "Sent is −0.5; −0.25 is left."),
        Example((row([1.0], [1.0]), row([1], [1]), np.array([0.5, 2.0])), "Every step has its own scale: 1 − 0.5 = 0.5, then 1.5 − 2 = −0.5."),
        Example((row([1.0, 1.0], [-2.0, 1.0]), row([0, 0], [0, 1]), np.array([4.0, 1.5])), "A gradient of the other sign eats up the residual: 1, −1. The second element: 1, then 2 − 1.5."),
    ),
    boundary=cases,
    properties=(Property("gradients add up to what was sent and what is left", long_runs, nothing_is_lost),),
    mistakes=(
        mistake("what is not sent is lost", KEEP, "residual = np.where(symbols[t] != 0, total - scales[t] * symbols[t], 0.0)"),
        mistake("what is sent leaves nothing behind: its residual becomes zero", KEEP, "residual = np.where(symbols[t] != 0, 0.0, total)"),
        mistake("the residual is of this step alone: what was there before is forgotten", TOTAL, "total = 1.0 * gradients[t]"),
        mistake("the old residual is not part of what is sent, and is only added up", KEEP, "residual = np.where(symbols[t] != 0, gradients[t] - scales[t] * symbols[t], total)"),
        mistake("the new residual replaces the old one only where something was sent", KEEP, "residual = np.where(symbols[t] != 0, total - scales[t] * symbols[t], residual)"),
        mistake("sent is added instead of taken away", KEEP, "residual = total + scales[t] * symbols[t]"),
        mistake("the symbol itself is taken away, without its scale", KEEP, "residual = total - symbols[t]"),
        mistake("the scale is taken from all elements", KEEP, "residual = total - scales[t]"),
        mistake("the scale of the first step serves all", KEEP, "residual = total - scales[0] * symbols[t]"),
        mistake("a residual must not change its sign: what is sent too much is cut off", KEEP, "residual = np.where(total * (total - scales[t] * symbols[t]) < 0, 0.0, total - scales[t] * symbols[t])"),
        mistake("the residual before the step is returned", NOTE, "after[t] = total - gradients[t]"),
        mistake("G is returned, before anything is sent", NOTE, "after[t] = total"),
        mistake("the boosted vector H is kept instead of G: the gradient counts twice", TOTAL, "total = residual + 2 * gradients[t]"),
        mistake("the residual fades: half of it is dropped in each step", TOTAL, "total = residual / 2 + gradients[t]"),
        mistake("it begins with the first gradient, which then counts twice", START, "residual = gradients[0].copy()"),
        mistake("all rows are the last residual", "    return after\n", "    return np.repeat(residual[None], len(gradients), axis=0)\n"),
    ),
    hints=(
        "Take gradients = 0.75 with the scale 0.5 and the symbol 1 on paper: sent is 0.5, so 0.25 is left, although the element was sent.",
        "One equation does it, for sent and unsent elements alike: new residual = old residual + gradient − scale · symbol. A symbol of 0 takes nothing away.",
        "Follow two steps on paper, the gradients 0.75 and 0.75, the scale 0.5, the symbols 1 and 0. After the first step 0.25 is left. What is left after the second, in which nothing is sent? What must the loop remember from step to step, and when does it write its row?",
    ),
)
