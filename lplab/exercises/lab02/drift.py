"""Exercise 02.4: the drift of floor(x + 0.5)."""

from __future__ import annotations

from lplab.exercises.model.exercise import Example, Exercise, mistake
from lplab.exercises.model.forms import Number


def drift(extra_bits, updates):
    """Mean drift, in steps, of a sum of `updates` values rounded by floor(x + 0.5) that had `extra_bits` more bits."""
    if extra_bits == 0:
        return 0.0
    return updates * 0.5 / 2**extra_bits


DRIFT = Exercise(
    id="02.4",
    version=1,
    title="The drift of floor(x + 0.5)",
    goal="Goal 2: tell a bias from noise",
    minutes=10,
    difficulty=3,
    statement=r"""
        `floor(x + 0.5)` sends every tie up. Values with $k$ fraction bits more than the grid keeps have $2^k$ equally likely fractions $0, 1/2^k, \dots, (2^k-1)/2^k$ of a step. What is the mean error of one rounding? And of a sum of $n$ of them?
        Write `drift(extra_bits, updates)`: the mean drift of the sum, in steps, with its sign (result minus truth). Try it out for $k=1$ and $k=2$ by hand first.
    """,
    stub='''
        def drift(extra_bits, updates):
            """Mean drift, in steps, of a sum of `updates` values rounded by floor(x + 0.5)."""
            raise NotImplementedError
    ''',
    reference=drift,
    form=Number(),
    examples=(
        Example((1, 1), "Fractions 0 and ½: the errors are 0 and +½, a quarter on average."),
        Example((2, 1), "Fractions 0, ¼, ½, ¾: the errors are 0, −¼, +½, +¼, an eighth on average."),
        Example((1, 1000), "Every update adds a quarter: after a thousand, 250 steps."),
        Example((0, 1000), "Nothing is cut off, so nothing drifts."),
        Example((16, 65536), "With 16 bits cut off ties are rare: half a step in 65,536 updates."),
    ),
    boundary=lambda: [(bits, n) for bits in range(25) for n in (0, 1, 7, 1000, 10**6)],
    why=lambda args, expected: f"Of {2 ** args[0]:,} equally likely fractions one is the tie, and it alone has no opposite: +½ step in {2 ** args[0]:,}." if args[0] else "No bits are cut off: every value is on the grid.",
    mistakes=(
        mistake("without extra bits there is a tie, too", "    if extra_bits == 0:\n        return 0.0\n", ""),
        mistake("nearest rounding has no bias", "updates * 0.5 / 2**extra_bits", "0.0"),
        mistake("the drift goes down", "updates * 0.5", "-updates * 0.5"),
        mistake("a tie costs a whole step", "updates * 0.5 / 2**extra_bits", "updates / 2**extra_bits"),
        mistake("every second value is a tie", "updates * 0.5 / 2**extra_bits", "updates * 0.25"),
        mistake("the drift of truncation", "updates * 0.5 / 2**extra_bits", "-updates * (0.5 - 0.5 / 2**extra_bits)"),
        mistake("the drift does not grow with the number of updates", "updates * 0.5 / 2**extra_bits", "0.5 / 2**extra_bits"),
        mistake("the drift grows like the square root, as noise does", "updates * 0.5", "math.sqrt(updates) * 0.5"),
        mistake("one bit is counted too many", "2**extra_bits", "2 ** (extra_bits + 1)"),
        mistake("linear in the number of bits", "2**extra_bits", "(2 * extra_bits)"),
    ),
    hints=(
        "Write the errors for k = 2 in a row: 0, −¼, +½, +¼. Which of them cancel?",
        "Fractions f and 1 − f have opposite errors; only f = ½ has no partner. Its error is +½ step and it is one of 2^k.",
        "The mean of one rounding is ½ / 2^k, and means add up: updates × ½ / 2^k. And if k = 0?",
    ),
)
