"""Exercise 10.2: the low-pass filter of ScaleCom's residual, exactly so.

The function keeps the paper's word for the residual, "memory", in its name: notebooks and reports of students have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lplab.exercises.checks.numbers import decimal, sequence_text
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import SameShape


def next_memory(m, g, sent_at, beta):
    """The residual after a step: m before it, g the gradient, sent_at the indices that were sent."""
    p = m + g
    kept = p.copy()
    kept[sent_at] = 0.0
    return (1 - beta) * m + beta * kept


ALL, WANTED, KEPT = "(1 - beta) * m + beta * kept", "p = m + g", "kept[sent_at] = 0.0"
BETAS = (1.0, 0.5, 0.25, 0.125)  # powers of two: every right formula then gives the same bits


def numbers(size: int, seed: int) -> np.ndarray:
    """Multiples of 1/16 up to ±8, zeros among them."""
    return np.random.default_rng([2020, seed]).integers(-128, 129, size) / 16.0


def indices(size: int, seed: int) -> np.ndarray:
    """About a quarter of the indices, rising; none of one element now and then."""
    return np.flatnonzero(np.random.default_rng([9, seed]).random(size) < 0.25)


def cases() -> list[Args]:
    """Vectors of several lengths, every beta, nothing sent, all sent."""
    every = [(size, beta) for size in (1, 2, 5, 16, 40) for beta in BETAS]
    found: list[Args] = [
        (numbers(size, k), numbers(size, 100 + k), indices(size, k), beta) for k, (size, beta) in enumerate(every)
    ]
    none, everything = np.zeros(0, np.int64), np.arange(6)
    return found + [(numbers(6, 7), numbers(6, 8), at, beta) for at in (none, everything) for beta in BETAS]


def long_vectors() -> list[Args]:
    """Long vectors for the rule by element."""
    return [(numbers(400, 50 + k), numbers(400, 60 + k), indices(400, k), beta) for k, beta in enumerate(BETAS)]


def by_element(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether it is m + βg where nothing was sent and (1 − β)m where it was."""
    for args, result in zip(calls, results, strict=True):
        m, g, sent_at, beta = args
        expected = m + beta * g
        expected[sent_at] = (1 - beta) * m[sent_at]
        wrong = np.flatnonzero(np.asarray(result) != expected)
        if wrong.size:
            i = int(wrong[0])
            where = "sent" if i in sent_at else "not sent"
            text = f"An element that was {where}, m = {decimal(m[i])}, g = {decimal(g[i])}, beta = {decimal(beta)}"
            return Finding(f"{text}: yours {decimal(np.asarray(result)[i])}, expected {decimal(expected[i])}.", args)
    return None


def show(args: Args) -> str:
    """Residual, gradient, indices, beta."""
    m, g, sent_at, beta = args
    arrays = (f"[{sequence_text(each).strip('()') if len(each) else ''}]" for each in (m, g, sent_at))
    return "m = {}, g = {}, sent_at = {}".format(*arrays) + f", beta = {decimal(beta)}"


def why(args: Args, expected: Any) -> str:
    """The first element, sent or not."""
    m, g, sent_at, beta = args
    if not len(m):
        return ""
    first = [decimal(float(v)) for v in (m[0], g[0], beta, np.asarray(expected)[0])]
    if 0 in sent_at:
        return f"Element 0 was sent: c = p, so (1 − {first[2]}) · {first[0]} = {first[3]} stays."
    return f"Element 0 was not sent: (1 − {first[2]}) · {first[0]} + {first[2]} · ({first[0]} + {first[1]}) = {first[3]}."


NEXT_MEMORY = Exercise(
    id="10.2",
    version=1,
    title="A slow residual",
    goal="Goal 2: keep the residuals of many learners alike",
    minutes=10,
    difficulty=2,
    statement=r"""
        A learner has the residual `m` and a new gradient `g`. It would like to send $p = m + g$. It sends $c$, which is $p$ at the indices `sent_at` (an array) and 0 elsewhere. Write `next_memory(m, g, sent_at, beta)`, which returns ScaleCom's residual after the step, **exactly**

        $$m \leftarrow (1-\beta)\,m + \beta\,(p - c).$$

        With $\beta=1$ this is the error feedback of lab 09.
    """,
    reference=next_memory,
    form=SameShape(0),
    signed_zero=False,
    show=show,
    why=why,
    examples=(
        Example((np.array([1.0, 1.0]), np.array([2.0, 4.0]), np.array([1]), 1.0), "Beta 1: 3 is kept, 5 was sent and leaves nothing."),
        Example((np.array([1.0, 1.0]), np.array([2.0, 4.0]), np.array([1]), 0.5), "Kept: ½·1 + ½·3 = 2. Sent: ½·1 + ½·0 = ½, not 0."),
        Example((np.array([8.0]), np.array([8.0]), np.array([0]), 0.125), "7/8 of the old residual stays although all of p was sent."),
        Example((np.array([0.0]), np.array([8.0]), np.zeros(0, np.int64), 0.125), "Nothing is sent: the residual takes in an eighth of the gradient, 1."),
        Example((np.array([4.0, -4.0]), np.array([0.0, 0.0]), np.zeros(0, np.int64), 0.5), "Without a gradient nothing changes: ½·4 + ½·4."),
        Example((np.array([2.0, 2.0, 2.0]), np.array([1.0, -3.0, 5.0]), np.array([0, 2]), 0.25), "1.5, 1.25, 1.5: what was sent does not depend on its gradient."),
    ),
    boundary=cases,
    properties=(Property("not sent: m + βg; sent: (1 − β)m", long_vectors, by_element),),
    mistakes=(
        mistake("what was sent is set to zero, as with beta 1: another algorithm", "return (1 - beta) * m + beta * kept", "new = (1 - beta) * m + beta * kept\n    new[sent_at] = 0.0\n    return new"),
        mistake("beta and 1 − beta are exchanged", ALL, "beta * m + (1 - beta) * kept"),
        mistake("no filter: plain error feedback", ALL, "kept"),
        mistake("the filter takes in p, sent or not", ALL, "(1 - beta) * m + beta * p"),
        mistake("only the gradient is kept, the residual is counted once", "kept = p.copy()", "kept = g.copy()"),
        mistake("what was not sent is only scaled: the old residual is gone", ALL, "beta * kept"),
        mistake("the old residual stays whole", ALL, "m + beta * kept"),
        mistake("the filter comes before the choice: p itself is filtered, then plain error feedback", WANTED, "p = (1 - beta) * m + beta * g", ALL, "kept"),
        mistake("the old part is taken from p, not from m", ALL, "(1 - beta) * p + beta * kept"),
        mistake("what was sent is kept, what was not sent is forgotten", KEPT, "kept[sent_at] = 0.0\n    kept = p - kept"),
        mistake("the sent gradient is taken off, not the sent p", KEPT, "kept[sent_at] -= g[sent_at]"),
        mistake("the sign of what is owed is reversed", "beta * kept", "beta * -kept"),
        mistake("beta counts twice", "beta * kept", "beta**2 * kept"),
        mistake("m itself is changed: the caller's residual", "return (1 - beta) * m + beta * kept", "m *= 1 - beta\n    return m + beta * kept"),
        mistake("only the first of the indices is emptied", KEPT, "kept[sent_at[:1]] = 0.0"),
    ),
    hints=(
        "m = 1, g = 4, β = ½, and the element is sent: p = 5 = c, so p − c = 0, and ½·1 + ½·0 = ½ stays. Not 0: the old residual has its own term.",
        "Only β·(p − c) knows what was sent. (1 − β)·m is the residual before the gradient, the same for sent and kept elements. Do not change m itself: copy.",
        "Make a copy of p and set it to 0 at the indices sent_at: that is p − c. Then one line adds (1 − β) times the old residual and β times this copy.",
    ),
)
