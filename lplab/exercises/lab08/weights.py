"""Exercise 08.4: weights that travel in 8 bits and lose nothing: the owner keeps what rounding took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lplab.exercises.checks.numbers import MINUS, decimal
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import describe_value


def to_fp8(x):
    """x rounded to four significant bits, as FP8 1-4-3 has, ties to even; no limits to the exponent."""
    m, e = np.frexp(x)
    return np.ldexp(np.round(m * 16), e - 4)


def update_share(sent, residual, update):
    """New 8-bit weights to send, and what the owner keeps: (sent, residual)."""
    exact = sent + residual - update
    rounded = to_fp8(exact)
    return rounded, exact - rounded


@dataclass(frozen=True)
class Pair:
    """Two arrays of floating-point numbers with the shape of one of the arguments, stacked, or in a tuple or list."""

    argument: int = 0

    def problem(self, args: Args, result: Any) -> str:
        """What is wrong with the form of a result; "" if it is right.

        >>> Pair().problem((np.zeros(3),), np.zeros(3))
        'returns an array of shape (3,) and dtype float64: return two arrays of shape (3,), weights and residual'
        """
        shape = np.shape(args[self.argument])
        wanted = f"return two arrays of shape {shape}, weights and residual"
        parts = list(result) if isinstance(result, list | tuple | np.ndarray) and np.ndim(result) else []
        if len(parts) != 2 or any(np.shape(part) != shape for part in parts):
            return f"returns {describe_value(result)}: {wanted}"
        odd = next((part for part in parts if not isinstance(part, np.ndarray) or part.dtype.kind != "f"), None)
        return "" if odd is None else f"returns {describe_value(odd)} among its two: {wanted}, of floating-point numbers"

    def describe(self) -> str:
        """The form in words, for the documentation."""
        return "two arrays of floating-point numbers, shaped like the input"


def shares(seed: int, count: int) -> Args:
    """Weights on the grid, residuals of up to half a step, and updates; multiples of 2⁻³⁰, so that sums are exact."""
    rng = np.random.default_rng(seed)
    exact = np.round(rng.normal(0, 1, count) * 2**20) / 2**20
    sent = to_fp8(exact)
    update = np.round(rng.normal(0, 0.01, count) * 2**20) / 2**20
    return sent, exact - sent, update


def share_cases() -> list[Args]:
    """Single weights around steps, octaves and zero, then many."""
    ones = [
        (w, r, u)
        for w in (1.0, -1.0, 1.875, 0.5, 0.0)
        for r in (0.0, 0.03125, -0.046875)
        for u in (0.0, 0.015625, 0.0625, -0.03125, 1.0)
    ]
    return [*[tuple(np.array([value]) for value in row) for row in ones], *[shares(seed, 40) for seed in (1, 2, 3)]]


def trajectories() -> list[Args]:
    """Shares whose weight and residual say what the exact weight is."""
    return [shares(seed, 25) for seed in range(10, 16)]


def nothing_is_lost(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Sent weight and residual together are the exact weight, and what is sent has four significant bits."""
    for args, result in zip(calls, results, strict=True):
        sent, residual = (np.asarray(part) for part in result)
        exact = args[0] + args[1] - args[2]
        if not np.array_equal(to_fp8(sent), sent):
            where = int(np.argmax(to_fp8(sent) != sent))
            return Finding(
                f"a weight of {decimal(float(sent[where]))} has more than four significant bits: it cannot be sent in 8", args, result
            )
        if not np.array_equal(sent + residual, exact):
            where = int(np.argmax(sent + residual != exact))
            return Finding(
                f"weight and residual together are {decimal(float(sent[where] + residual[where]))}, the exact weight is "
                f"{decimal(float(exact[where]))}",
                args,
                result,
            )
    return None


def show_share(args: Args) -> str:
    """Weights, residuals and updates; of many, the first three."""
    return ", ".join(
        f"{name} = {short_text(values)}" for name, values in zip(("sent", "residual", "update"), args, strict=True)
    )


def why_share(args: Args, expected: Any) -> str:
    """The first exact weight, and its rounding."""
    sent, residual, update = (decimal(float(values[0])) for values in args)
    rounded, left = (float(part[0]) for part in expected)
    exact = f"{sent} + {residual} − {update} = {decimal(rounded + left)}".replace("+ −", "− ").replace("− −", "+ ")
    where = f"of the numbers with four significant bits {decimal(rounded)} is nearest"
    if left and to_fp8(np.float64(rounded + 2.001 * left)) == rounded + 2 * left:  # as far on the other side
        where = f"that is halfway between {decimal(rounded)} and {decimal(rounded + 2 * left)}: the even one is taken"
    return f"The first weight is exactly {exact}; {where}."


def short_text(values: np.ndarray) -> str:
    """Up to three numbers, to seven digits: 0.015625 and other short binary fractions are exact.

    >>> short_text(np.array([1.0, -0.015625, 2.0, 3.0]))
    '(1, −0.015625, 2, … 4 values)'
    """
    shown = [f"{value:.7g}".replace("-", MINUS) for value in values[:3].tolist()]
    return "(" + ", ".join(shown) + (f", … {len(values)} values)" if len(values) > 3 else ")")


EXACT, ROUNDED, KEPT = "sent + residual - update", "to_fp8(exact)", "exact - rounded"

WEIGHTS = Exercise(
    id="08.4",
    version=1,
    title="Eight bits on the wire, nothing lost",
    goal="Goal 4: send weights in 8 bits",
    minutes=10,
    difficulty=2,
    statement="""
        With a **shared update** every device owns one part of the weights: it gets the summed gradient of this part, updates it, and sends the new weights to all others, in FP8. All, the owner included, multiply by the 8-bit weights `sent`; the owner alone remembers in
        `residual` what rounding took from them. Write `update_share(sent, residual, update)`: subtract `update` from the exact weights, and return the new 8-bit weights and the new residual. `to_fp8` rounds; no argument may be changed.
    """,
    reference=update_share,
    form=Pair(),
    show=show_share,
    why=why_share,
    provided=(to_fp8,),
    examples=(
        Example((np.array([1.0]), np.array([0.0]), np.array([0.0])), "Without an update nothing changes."),
        Example((np.array([1.0]), np.array([0.0]), np.array([0.015625])), "0.984375 lies between 0.9375 and 1: 1 is sent again, and −0.015625 is kept."),
        Example((np.array([1.0]), np.array([-0.03125]), np.array([0.015625])), "What was kept counts: 0.953125 is nearer to 0.9375."),
        Example((np.array([-1.0, 2.0]), np.array([0.03125, 0.0]), np.array([0.015625, -0.03125])), "Below zero, and an update that makes a weight larger."),
        Example((np.array([0.0]), np.array([0.0]), np.array([0.0009765625])), "From zero: every small number is a number of FP8 with free exponents, or close to one."),
        Example(shares(5, 6), "A few weights of a network."),
    ),
    boundary=share_cases,
    properties=(Property("8-bit weight and residual together are the exact weight", trajectories, nothing_is_lost),),
    mistakes=(
        mistake("there is no residual: what rounding takes is lost", KEPT, "0 * exact"),
        mistake("the residual is kept but never used", EXACT, "sent - update"),
        mistake("the residual is subtracted", EXACT, "sent - residual - update"),
        mistake("the update is added", EXACT, "sent + residual + update"),
        mistake("the residual has the wrong sign", KEPT, "rounded - exact"),
        mistake("residuals are added up", KEPT, "residual + exact - rounded"),
        mistake("the residual is rounded to 8 bits as well", KEPT, "to_fp8(exact - rounded)"),
        mistake("the residual is what this update lost, not what is missing now", KEPT, "(sent - update) - rounded"),
        mistake("the update is rounded, and the sum is not", ROUNDED, "sent + to_fp8(residual - update)"),
        mistake("the weight and the update are rounded one by one", ROUNDED, "to_fp8(sent + to_fp8(residual) - to_fp8(update))", KEPT, "exact - rounded"),
        mistake("exact weights are sent, the wire is not 8 bits", "return rounded,", "return exact,"),
        mistake("the old weights are sent, one step late", "return rounded,", "return sent,"),
        mistake("the residual replaces the weight: only what is missing is sent", "return rounded, exact - rounded", "return to_fp8(exact - rounded), rounded"),
        mistake("cut off instead of rounded to the nearest", ROUNDED, "np.trunc(exact * 8) / 8"),
    ),
    hints=(
        "The exact weight is never stored, but it is known: `sent + residual`. Start from it.",
        "Subtract the update from the exact weight, round the result to 8 bits, and keep the difference between what is exact and what is sent: then the two together are exact again.",
        "Which two numbers must add up to the exact weight again, when the function returns? One of them is rounded. So the other is not the update's rounding alone: with sent 1, residual 0.03 and an update of 0.5, what is exact, and what is left of it after rounding?",
    ),
)  # fmt: skip
