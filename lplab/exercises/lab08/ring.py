"""Exercise 08.1: a ring all-reduce, message by message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from lplab.exercises.model.exercise import Args, Example, Exercise, mistake, wrong
from lplab.exercises.model.forms import describe_value, is_number
from lplab.exercises.student_figures import read_results, student_figure

COLUMNS = "(step, sender, receiver, part, adds)"


def ring_messages(ranks):
    """Messages of a ring all-reduce: rows (step, sender, receiver, part, adds)."""
    rows = []
    for step in range(2 * (ranks - 1)):
        adds = step < ranks - 1
        for rank in range(ranks):
            rows.append((step, rank, (rank + 1) % ranks, (rank - step) % ranks, int(adds)))
    return rows


@dataclass(frozen=True)
class Messages:
    """A list of rows of five whole numbers, or an array of five columns; an empty list is allowed."""

    def problem(self, args: Args, result: Any) -> str:
        """What is wrong with the form of a result; "" if it is right.

        >>> Messages().problem((2,), [(0, 0, 1, 0)])
        'returns a tuple of 4 among its rows: return rows (step, sender, receiver, part, adds)'
        """
        rows = list(result) if isinstance(result, list | tuple | np.ndarray) and np.ndim(result) != 0 else None
        if rows is None:
            return f"returns {describe_value(result)}: return {self.describe()}"
        for row in rows:
            if np.ndim(row) != 1 or len(row) != 5:
                return f"returns {describe_value(row)} among its rows: return rows {COLUMNS}"
            for value in row:
                if not (is_number(value) or isinstance(value, bool | np.bool_)) or value != int(value):
                    return f"returns {describe_value(value)} in a row: return five whole numbers in each"
        return ""

    def describe(self) -> str:
        """The form in words, for the documentation."""
        return f"a list of rows {COLUMNS}, whole numbers"


def runs(args: Args, result: Any) -> str:
    """What is wrong with a schedule, found by running it; "" if every rank ends with every part complete."""
    ranks = int(args[0])
    rows = sorted(tuple(int(value) for value in row) for row in result)
    return next(_rules(ranks, rows), "") or _totals(ranks, rows)


def _rules(ranks: int, rows: list[tuple[int, ...]]) -> Iterator[str]:
    """What a single message may not do, and how many there are."""
    for step, sender, receiver, part, _ in rows:
        here = f"step {step}: rank {sender} sends part {part} to rank {receiver}"
        if not (0 <= sender < ranks and 0 <= receiver < ranks):
            yield f"{here}, but ranks are numbered 0 to {ranks - 1}"
        if not 0 <= part < ranks:
            yield f"{here}, but parts are numbered 0 to {ranks - 1}"
        if sender == receiver:
            yield f"{here}: nobody sends to himself"
    steps = sorted({row[0] for row in rows})
    if steps != list(range(len(steps))):
        yield f"steps are to be numbered 0, 1, 2, …, and these are {', '.join(map(str, steps[:6]))}"
    for column, verb in ((1, "sends"), (2, "receives")):
        counts = Counter((row[0], row[column]) for row in rows)
        for step in steps:
            for rank in range(ranks):
                count = counts[step, rank]
                if count > 1:
                    yield f"in step {step} rank {rank} {verb} {count} messages; one at a time in a ring"
    ways = {(receiver - sender) % ranks for _, sender, receiver, _, _ in rows}
    if len(ways) > 1 or (ways and not ways <= {1, ranks - 1}):
        yield "in a ring every rank sends to the same neighbour all the time"


def _totals(ranks: int, rows: list[tuple[int, ...]]) -> str:
    """Run it: how often each rank's numbers are in each part on each rank.

    Where an incomplete part has replaced another one before, that is said first.
    """
    held, early = np.zeros((ranks, ranks, ranks), int), ""
    for rank in range(ranks):
        held[rank, :, rank] = 1
    for step in sorted({row[0] for row in rows}):
        before = held.copy()
        for _, sender, receiver, part, adds in (row for row in rows if row[0] == step):
            held[receiver, part] = before[sender, part] + (before[receiver, part] if adds else 0)
            there = int((before[sender, part] > 0).sum())
            if not (adds or early) and there < ranks:
                early = (
                    f"in step {step} part {part} of rank {sender} replaces that of rank {receiver}, but it holds the "
                    f"numbers of only {there} of {ranks} ranks yet; "
                )
    for rank in range(ranks):
        for part in range(ranks):
            double, there = int(held[rank, part].max()), int((held[rank, part] > 0).sum())
            if double > 1:
                return f"{early}at the end, part {part} of rank {rank} holds the numbers of one rank {double} times"
            if there < ranks:
                return f"{early}at the end, part {part} of rank {rank} holds the numbers of {there} of {ranks} ranks"
    most, steps = 2 * (ranks - 1), len({row[0] for row in rows})
    return f"it is right, but takes {steps} steps; {most} are enough" if steps > most else ""


def show_ranks(args: Args) -> str:
    """How many ranks."""
    return f"ranks = {args[0]}"


PART, ADDS, STEPS, NEXT = "(rank - step) % ranks", "step < ranks - 1", "range(2 * (ranks - 1))", "(rank + 1) % ranks"

RING = Exercise(
    id="08.1",
    version=1,
    title="A ring, message by message",
    goal="Goal 1: say what travels",
    minutes=15,
    difficulty=2,
    statement="""
        `ranks` devices stand in a ring; each holds its own gradient, cut into `ranks` parts (numbered 0, 1, …, as the ranks are). A device is also called a *rank*. In one step every rank sends **one** part to the neighbour on its right, rank + 1, and gets one from the left. In the first `ranks − 1` steps
        the receiver **adds** the part to its own; in the last `ranks − 1` steps complete parts go round and **replace** what is there. In the end everybody has every part of the sum.

        Write `ring_messages(ranks)`: a list of all messages `(step, sender, receiver, part, adds)`, with `adds` 1 or 0. In step 0, rank r sends part r. One rank alone sends nothing. The check runs your messages; any correct schedule with this few steps passes, also one that runs the other way.
    """,
    reference=ring_messages,
    form=Messages(),
    accept=runs,
    show=show_ranks,
    examples=(
        Example((1,), "One rank alone has the sum already: no messages, an empty list."),
        Example((2,), "Two ranks: one step to add, one to send the result back. Four messages."),
        Example((3,), "Three ranks: four steps of three messages. Who holds which part completely after two of them?"),
        Example((4,), "Four ranks: six steps; each rank sends 6 parts of a quarter, 1.5 times its gradient."),
        Example((7,), "The number of ranks need not be a power of two."),
        Example((16,), "Sixteen ranks: 30 steps, and 1.875 times the gradient."),
    ),
    boundary=lambda: [(ranks,) for ranks in (*range(1, 13), 17, 32)],
    mistakes=(
        mistake("complete parts are added as well, and counted twice", ADDS, "True"),
        mistake("nothing is ever added: the last one to arrive wins", ADDS, "False"),
        mistake("it stops after the sums: each rank knows one part of the result", STEPS, "range(ranks - 1)"),
        mistake("one step too many in each half", STEPS, "range(2 * ranks)", ADDS, "step < ranks"),
        mistake("the halves are exchanged at the wrong step: one sum too few", ADDS, "step < ranks - 2"),
        mistake("one sum too many: a rank's own numbers come back to it", ADDS, "step < ranks"),
        mistake("everybody keeps sending its own part instead of passing on what came", PART, "rank"),
        mistake("all ranks send the same part in a step", PART, "step % ranks"),
        mistake("the next part instead of the one that just came: it is not complete", PART, "(rank + step) % ranks"),
        mistake("the second half begins with the part that a rank sent first, not with the one that is complete", PART, "(rank - step - (not adds)) % ranks"),
        mistake("the second half begins one part too far", PART, "(rank - step - 2 * (not adds)) % ranks"),
        mistake("part numbers below zero", PART, "rank - step"),
        mistake("the last rank has no neighbour", NEXT, "rank + 1"),
        mistake("messages go to the left, parts are numbered as if they went to the right", NEXT, "(rank - 1) % ranks"),
        mistake("the second half begins to count at step 0 again", "rows.append((step, rank", "rows.append((step % max(ranks - 1, 1), rank"),
        wrong("a star: everybody sends to rank 0, which sends the sums back", """
            def ring_messages(ranks):
                rows = [(0, rank, 0, part, 1) for rank in range(1, ranks) for part in range(ranks)]
                return rows + [(1, 0, rank, part, 0) for rank in range(1, ranks) for part in range(ranks)]
        """),
        wrong("whole gradients go round: as many steps, but all parts in every message", """
            def ring_messages(ranks):
                steps, others = range(ranks - 1), range(ranks)
                return [(s, r, (r + 1) % ranks, part, 1) for s in steps for r in others for part in others]
        """),
    ),
    hints=(
        "Do it with three ranks on paper. Step 0: rank 0 sends part 0 to rank 1, rank 1 part 1 to rank 2, rank 2 part 2 to rank 0. What rank 1 should pass on in step 1 is what it has just added up: part 0.",
        "A rank always passes on what came in the step before, in both halves. What came to rank r in step s − 1 was sent by rank r − 1. So the number of its part goes down by one in each step, modulo ranks.",
        "Write the parts that rank 0 sends with four ranks, step by step: 0, then what rank 3 sent (3), then 2, then 1, … Rank 1 begins with 1. So which two numbers make the part, and why modulo? How many steps has each half, and what changes between the halves but the last entry of the row?",
    ),
)  # fmt: skip


RANKS = 6


@student_figure("Here the messages of your {name} will be run")
def draw_ring(function: Callable[..., Any]) -> Any:
    """A live figure of what each rank holds after each step of the student's messages, or a line that says what it waits for.

    Args:
        function: takes the number of ranks and returns rows (step, sender, receiver, part, adds).
    """
    from lplab import figures

    def run(rows: Any) -> tuple[np.ndarray, int]:
        return contributions([[int(value) for value in row] for row in np.asarray(rows)], RANKS), len(rows)

    ((held, messages),) = read_results(function, [(RANKS,)], RING.form, run)
    return figures.ring_steps(held, messages=messages)


def contributions(rows: list[list[int]], ranks: int) -> np.ndarray:
    """How many ranks' numbers each rank has in each part, before the first and after every step: [steps + 1, rank, part].

    >>> contributions([[0, 0, 1, 0, 1], [0, 1, 0, 1, 1]], 2)[-1].tolist()
    [[1, 2], [2, 1]]
    """
    held = np.broadcast_to(np.eye(ranks, dtype=int)[:, None, :], (ranks, ranks, ranks)).copy()
    counts = [(held > 0).sum(axis=2)]
    for step in sorted({row[0] for row in rows}):
        before = held.copy()
        for _, sender, receiver, part, adds in (row for row in rows if row[0] == step):
            held[receiver, part] = before[sender, part] + (before[receiver, part] if adds else 0)
        counts.append((held > 0).sum(axis=2))
    return np.array(counts)
