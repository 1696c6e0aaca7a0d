"""Exercise 05.2: the bound of the error, and the chunk that makes it smallest."""

from __future__ import annotations

from typing import Any

from lplab.exercises.model.exercise import Args, Example, Exercise, mistake
from lplab.exercises.model.forms import Numbers


def best_chunk(n, mantissa_bits):
    """The chunk with the smallest error bound for n terms, and that bound."""
    chunk = min(range(1, n + 1), key=lambda c: (c + -(-n // c), c))
    additions = chunk + -(-n // chunk)
    return chunk, additions * 2.0 ** -(mantissa_bits + 1)


ALL = "chunk = min(range(1, n + 1), key=lambda c: (c + -(-n // c), c))"


def bound_cases() -> list[Args]:
    """All short sums, squares and their neighbours, powers of two, primes."""
    lengths = [*range(1, 66), *(k * k + d for k in (10, 16, 31) for d in (-1, 0, 1)), 127, 128, 500, 1009, 2048, 4096]
    return [(n, 9) for n in lengths] + [(100, m) for m in (2, 7, 10, 23)]


def why_bound(args: Args, expected: Any) -> str:
    """The additions that a term passes through in the best chunk."""
    n, chunk = args[0], int(expected[0])
    chunks = -(-n // chunk)
    return f"With chunks of {chunk} there are {chunks} chunks: a term passes through at most {chunk} + {chunks} = {chunk + chunks} additions."


BOUND = Exercise(
    id="05.2",
    version=1,
    title="The bound, and the best chunk",
    goal="Goal 2: choose the chunk",
    minutes=10,
    difficulty=2,
    statement=r"""
        In chunks of $c$, the first of $n$ numbers passes through $c$ additions in its chunk, and then through $\lceil n/c\rceil$ additions in the total (count the additions to a register's 0, too). Each addition is off by at most $u = 2^{-(m+1)}$ of its result, with $m$ mantissa bits. So the bound
        of the error is $(c + \lceil n/c\rceil)\,u$. Write `best_chunk(n, mantissa_bits)`. It returns two numbers: the chunk from 1 to $n$ with the smallest bound, and this bound. If several chunks have the same bound, take the shortest.
    """,
    reference=best_chunk,
    form=Numbers(count=2),
    examples=(
        Example((16, 9), "Chunks of 4: 4 + 4 additions, times 2⁻¹⁰."),
        Example((12, 9), "Chunks of 3 and of 4 both need 7 additions: the shorter one."),
        Example((7, 9), "n need not be a multiple: with chunks of 2 there are four chunks, the last of one term."),
        Example((21, 9), "3 + 7 = 4 + 6 = 5 + 5: the shortest of the three, although √21 is nearer to 5."),
        Example((1, 9), "One term: one addition in the chunk and one in the total."),
        Example((4096, 9), "Chunks of 64: 128 additions instead of 4,096."),
        Example((100, 7), "bfloat16 has 7 mantissa bits: u = 2⁻⁸."),
    ),
    boundary=bound_cases,
    why=why_bound,
    mistakes=(
        mistake("the root of n, rounded down, without a look at its neighbours", ALL, "chunk = int(n ** 0.5)"),
        mistake("the root of n, rounded to the nearest", ALL, "chunk = round(n ** 0.5)"),
        mistake("the root of n, rounded up", ALL, "chunk = math.ceil(n ** 0.5)"),
        mistake("of equal bounds the longest chunk is taken", "-(-n // c), c))", "-(-n // c), -c))"),
        mistake("the last, shorter chunk is not counted", "(c + -(-n // c), c)", "(c + n // c, c)", "-(-n // chunk)", "n // chunk"),
        mistake("n/c is not rounded up", "(c + -(-n // c), c)", "(c + n / c, c)", "-(-n // chunk)", "n / chunk"),
        mistake("all additions are counted, not those that one term passes through", "additions = chunk", "additions = n"),
        mistake("the longer of the two ways is counted, not their sum", "(c + -(-n // c), c)", "(max(c, -(-n // c)), c)", "chunk + -(-n // chunk)", "max(chunk, -(-n // chunk))"),
        mistake("u is a whole step, 2⁻ᵐ, though rounding is off by half a step at most", "(mantissa_bits + 1)", "mantissa_bits"),
        mistake("u is a quarter of a step: the leading 1 is counted twice", "(mantissa_bits + 1)", "(mantissa_bits + 2)"),
        mistake("additions to 0 are not counted", "additions = chunk + -(-n // chunk)", "additions = chunk - 1 + -(-n // chunk) - 1"),
        mistake("only powers of two are tried", "range(1, n + 1)", "[2**k for k in range(n.bit_length())]"),
        mistake("only chunks that divide n are tried", "range(1, n + 1)", "[c for c in range(1, n + 1) if n % c == 0]"),
        mistake("the bound of the sum without chunks", "additions = chunk + -(-n // chunk)", "additions = n"),
        mistake("errors are taken to cancel: the root of the additions", "chunk + -(-n // chunk)", "(chunk + -(-n // chunk)) ** 0.5"),
    ),
    hints=(
        "Write c + ⌈n/c⌉ for n = 12 and c = 1, 2, 3, 4, 6, 12: 13, 8, 7, 7, 8, 13. Long chunks and many chunks are equally bad.",
        "Try all chunks: min(range(1, n + 1), key=...) takes the first of the smallest, which is the shortest. ⌈n/c⌉ is -(-n // c) in Python.",
        "The key is a function of c that counts the additions. The bound is this count for the chunk that you found, times u; with 9 mantissa bits u is 2⁻¹⁰, half of the step after 1.",
    ),
)
