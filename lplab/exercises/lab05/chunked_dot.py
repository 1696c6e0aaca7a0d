"""Exercise 05.1: a dot product that is summed in chunks, in a narrow accumulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lplab import arithmetic
from lplab.exercises.checks.numbers import decimal
from lplab.exercises.lab05.rounding_169 import fp8_numbers, to_169
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import Number
from lplab.exercises.student_figures import read_results, student_figure


def chunked_dot(x, y, chunk):
    """Dot product of x and y: each chunk summed on its own in 1-6-9, then the sums of the chunks."""
    total = 0.0
    for start in range(0, len(x), chunk):
        part = 0.0
        for i in range(start, min(start + chunk, len(x))):
            part = to_169(part + x[i] * y[i])
        total = to_169(total + part)
    return total


CHUNKS = "in range(0, len(x), chunk)"
INSIDE = "range(start, min(start + chunk, len(x)))"
ADD, ADD_UP = "to_169(part + x[i] * y[i])", "to_169(total + part)"
ONES = np.ones(2000)
LADDER = np.array([1024.0, 1, 1, 1, 1, 1, 1, 1])


def dot_cases() -> list[Args]:
    """Numbers of FP8, of mean 1, 0 and −1: lengths around multiples of the chunk, chunks shorter and longer than x."""
    cases = [
        (fp8_numbers(length, seed, mean), fp8_numbers(length, seed + 50, mean), chunk)
        for seed, length in enumerate((1, 2, 7, 16, 33, 64, 100))
        for chunk in (1, 2, 3, 8, 64, 200)
        for mean in (1.0, 0.0, -1.0)
    ]
    return [*cases, (np.zeros(0), np.zeros(0), 4)]


def long_calls() -> list[Args]:
    """Long sums, in which narrow accumulators stall."""
    pairs = [(fp8_numbers(3000, seed), fp8_numbers(3000, seed + 1)) for seed in (101, 103)]
    return [(x, y, chunk) for x, y in pairs for chunk in (1, 10, 64, 3000)]


def agrees_with_the_library(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether every dot product is the one of lplab.arithmetic, which was written on its own, bit for bit."""
    for args, yours in zip(calls, results, strict=True):
        x, y, chunk = args
        expected = float(arithmetic.dot(x, y, "dlfloat16", chunk=chunk))
        if yours != expected:
            made = f"For {len(x):,} products in chunks of {chunk} yours is {decimal(yours)}"
            return Finding(f"{made}, expected {decimal(expected)}.", args, yours)
    return None


def show_dot(args: Args) -> str:
    """The arguments: short vectors in full."""
    x, y, chunk = args
    if len(x) > 8:
        return f"two vectors of {len(x)} numbers, chunk = {chunk}"
    x, y = ("[" + ", ".join(map(decimal, v.tolist())) + "]" for v in (x, y))
    return f"x = {x}, y = {y}, chunk = {chunk}"


def why_dot(args: Args, expected: Any) -> str:
    """The sums of the first chunks, and how the total grows from them."""
    x, y, chunk = args
    starts = range(0, min(len(x), 4 * chunk), chunk)
    if not len(starts):
        return "Nothing is added: both registers stay at 0."
    parts = [chunked_dot(x[i : i + chunk], y[i : i + chunk], chunk) for i in starts]
    totals = [chunked_dot(x[: i + chunk], y[: i + chunk], chunk) for i in starts]
    more = ", …" if len(x) > 4 * chunk else ""
    listed = (", ".join(map(decimal, values)) + more for values in (parts, totals))
    return "The chunks sum to {}; the total goes {}{}".format(*listed, "" if more else ".")


DOT = Exercise(
    id="05.1",
    version=1,
    title="A dot product in chunks",
    goal="Goal 1: sum in a narrow accumulator",
    minutes=15,
    difficulty=2,
    statement=r"""
        Write `chunked_dot(x, y, chunk)`. It multiplies two vectors element by element and adds the products in chunks. The products `x[i] * y[i]` are exact. One register starts at 0 and adds the first `chunk` products, from first to last. It is rounded to 1-6-9 after **each** addition. Then
        its sum is added to a second register, the total, which is rounded as well. For the next `chunk` products the first register starts again at 0. The last chunk may be shorter. `to_169` rounds for you.
    """,
    provided=(to_169,),
    reference=chunked_dot,
    form=Number(),
    signed_zero=False,
    show=show_dot,
    why=why_dot,
    examples=(
        Example((np.array([1.0, 2, 3, 4]), np.ones(4), 2), "Two chunks, 3 and 7; nothing is rounded."),
        Example((np.array([1.0, 2, 3, 4, 5]), np.array([2.0, 2, 2, 2, -1]), 2), "The last chunk has one number only: 6, 14, −5."),
        Example((ONES, ONES, 2000), "One chunk. 1024 + 1 is a tie between 1024 and 1026, and 1024 is even: from there on nothing moves."),
        Example((ONES, ONES, 50), "Forty chunks of 50. Every sum along the way has at most ten significant bits."),
        Example((LADDER, np.ones(8), 4), "The first chunk stays at 1024, since each 1 alone is lost. The second one is 4, and 1028 is a number of 1-6-9."),
        Example((LADDER, np.ones(8), 8), "The same numbers in one chunk: all ones are lost."),
        Example((np.array([1024.0, 1, -1024, 1]), np.ones(4), 4), "Rounded after each addition, in order: 1024, 1024, 0, 1."),
        Example((np.array([1023.0, 2]), np.ones(2), 1), "The total is rounded, too: 1025 is a tie, and goes to 1024."),
    ),
    boundary=dot_cases,
    properties=(Property("long sums agree with the library's, bit for bit", long_calls, agrees_with_the_library),),
    mistakes=(
        mistake("there are no chunks: one register adds everything", CHUNKS, "in range(0, len(x), len(x) or 1)", INSIDE, "range(len(x))"),
        mistake("the total is kept in full precision", ADD_UP, "total + part"),
        mistake("the total is rounded once, at the end", ADD_UP, "total + part", "    return total", "    return to_169(total)"),
        mistake("a chunk is added exactly and rounded once", ADD, "part + x[i] * y[i]", ADD_UP, "to_169(total + to_169(part))"),
        mistake("a chunk is added exactly and never rounded on its own", ADD, "part + x[i] * y[i]"),
        mistake("everything is exact but the result", ADD, "part + x[i] * y[i]", ADD_UP, "total + part", "    return total", "    return to_169(total)"),
        mistake("the products are rounded instead of the additions", ADD, "part + to_169(x[i] * y[i])", ADD_UP, "total + part"),
        mistake("the products are rounded, too", ADD, "to_169(part + to_169(x[i] * y[i]))", equivalent="a product of two numbers of FP8 1-5-2 has at most six significant bits: it is never rounded"),
        mistake("the last, shorter chunk is left out", CHUNKS, "in range(0, len(x) - chunk + 1, chunk)"),
        mistake("the register of the chunk does not start again at 0", "        part = 0.0\n", "", "    total = 0.0\n", "    total = part = 0.0\n"),
        mistake("chunk is taken for the number of chunks", CHUNKS, "in range(0, len(x), -(-len(x) // chunk) or 1)", INSIDE, "range(start, min(start + -(-len(x) // chunk), len(x)))"),
        mistake("the numbers of a chunk are added last to first", INSIDE, "reversed(range(start, min(start + chunk, len(x))))"),
        mistake("the numbers of a chunk lie apart instead of side by side", CHUNKS, "in range(-(-len(x) // chunk))", INSIDE, "range(start, len(x), -(-len(x) // chunk))"),
        mistake("a chunk takes one number too many", "min(start + chunk, len(x))", "min(start + chunk + 1, len(x))"),
        mistake("digits are cut off instead of rounded", "round(m * 1024)", "int(m * 1024)"),
        mistake("the registers are rounded before an addition, not after it", ADD, "to_169(part) + x[i] * y[i]", ADD_UP, "to_169(total) + part"),
    ),
    hints=(
        "Begin with large sums on paper. 1-6-9 has ten significant bits, so whole numbers beyond 1024 go in steps of 2, beyond 2048 in steps of 4.",
        "Two loops and two registers: the outer loop goes over the starts of the chunks, range(0, len(x), chunk), the inner one over the numbers of the chunk. Each `+` has a to_169 around it.",
        "Follow the products 1, 2, 3, 4 with chunk = 2: the first register goes 0, 1, 3 and then, from 0 again, 3, 7; the total goes 0, 3, 10. Which of your lines sets the first register back to 0, and where is each of the two rounded?",
    ),
)


COUNT = 16_384
LENGTHS = tuple(2**k for k in range(15))  # of a chunk


@student_figure("Here your {name} will be drawn beside the library's")
def draw_chunked(function: Callable[..., float]) -> Any:
    """A live figure of the errors of a dot product of two FP8 vectors, or a line that says what it waits for.

    Args:
        function: takes two vectors and the length of a chunk, and returns one number.
    """
    from lplab import figures

    x, y = fp8_numbers(COUNT, 1), fp8_numbers(COUNT, 2)
    true = float(x @ y)
    results = read_results(function, [(x, y, chunk) for chunk in LENGTHS], DOT.form, float)
    library = [float(arithmetic.dot(x, y, "dlfloat16", chunk=chunk)) for chunk in LENGTHS]
    errors, yours = (np.abs(np.array(sums) - true) / true for sums in (library, results))
    return figures.chunk_error(LENGTHS, errors, yours, name=f"{COUNT:,} products of FP8")
