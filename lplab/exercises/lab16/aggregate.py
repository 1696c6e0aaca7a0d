"""Exercise 16.4: the mean over those who sent an element, and the mean over all learners."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from lplab.compression.compressor import mean_of_messages
from lplab.compression.square_chunks import mean_of_senders
from lplab.exercises.checks.close import TOLERANCE, rounded_text
from lplab.exercises.checks.numbers import count_text, table_text
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import describe_value
from lplab.exercises.student_figures import as_array, read_results, student_figure


def two_means(positions, values, n):
    """Mean of each of n elements over those who sent it, and over all learners; row i is learner i's message."""
    total, senders = np.zeros(n), np.zeros(n)
    for i, where in enumerate(positions):
        total[where] += values[i]
        senders[where] += 1
    return total / np.maximum(senders, 1), total / len(positions)


ADD, COUNT = "total[where] += values[i]", "senders[where] += 1"
SENDERS, ALL = "total / np.maximum(senders, 1)", "total / len(positions)"


@dataclass(frozen=True)
class TwoVectors:
    """Two arrays of n floating-point numbers, where n is the third argument; an array of two rows will do."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of both."""
        return "mean over senders", "mean over all"

    def problem(self, args: tuple[Any, ...], result: Any) -> str:
        """What is wrong with the form of a result; "" if it is right.

        >>> TwoVectors().problem((None, None, 3), (np.zeros(3), np.zeros(2)))
        'returns a tuple of 2: return two arrays of 3 numbers each, the mean over senders and the mean over all'
        """
        n = args[2]
        parts = list(result) if isinstance(result, list | tuple) or np.ndim(result) == 2 else []
        if len(parts) == 2 and all(isinstance(p, np.ndarray) and p.shape == (n,) and p.dtype.kind == "f" for p in parts):
            return ""
        return f"returns {describe_value(result)}: return two arrays of {n} numbers each, the mean over senders and the mean over all"

    def describe(self) -> str:
        """The form in words, for the documentation."""
        return "two arrays of n floating-point numbers: the mean over senders and the mean over all"


def messages(seed: int, learners: int, k: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions and values of all learners [learners, k], values multiples of 1/64, some of them 0."""
    rng = np.random.default_rng([2025, seed])
    positions = np.array([np.sort(rng.permutation(n)[:k]) for _ in range(learners)])
    return positions, rng.integers(-64, 65, (learners, k)) / 64 * (rng.random((learners, k)) < 0.9)


def cases() -> list[Args]:
    """One to eight learners; everything sent, the same positions, no position twice; values of 0, sums of 0."""
    found: list[Args] = []
    for seed, (learners, k, n) in enumerate(((1, 1, 1), (1, 2, 5), (2, 1, 4), (3, 3, 6), (4, 4, 16), (8, 5, 40), (3, 6, 6))):
        found.append((*messages(seed, learners, k, n), n))
    positions, values = messages(9, 4, 3, 12)
    same, apart = np.tile(positions[0], (4, 1)), np.arange(12).reshape(4, 3)
    opposite = np.array([1.0, -1, 1, -1])[:, None] * values[0]
    return [*found, (same, values, 12), (apart, values, 12), (same, opposite, 12), (positions, 0 * values, 12)]


def many() -> list[Args]:
    """Messages about one element of 64, out of 4,096."""
    return [(*messages(30 + seed, learners, 64, 4096), 4096) for seed, learners in enumerate((2, 8, 20))]


def sums_stay(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether nothing of what was sent is lost: learners · mean over all, and senders · mean over senders, add up to it."""
    for args, (over_senders, over_all) in zip(calls, results, strict=True):
        positions, values, n = args
        sent, counts = float(values.sum()), np.bincount(positions.ravel(), minlength=n)
        for name, found in (("mean over all, times the learners,", len(positions) * np.sum(over_all)), ("mean over senders, times the senders of each element,", counts @ over_senders)):
            if not abs(float(found) - sent) <= 1000 * TOLERANCE * np.abs(values).sum():
                return Finding(f"{len(positions)} learners sent values that add up to {rounded_text(sent)}, but the {name} adds up to {rounded_text(float(found))}.", args)
    return None


def show(args: Args) -> str:
    """Small messages in full."""
    positions, values, n = args
    if positions.size > 8:
        return f"{len(positions)} learners that send {positions.shape[1]} of {count_text(n)} elements each"
    return f"positions = {table_text(positions)}, values = {table_text(values)}, n = {n}"


def why(args: Args, expected: Any) -> str:
    """Who sent the element that most learners sent."""
    positions, values, n = args
    counts = np.bincount(positions.ravel(), minlength=n)
    i = int(counts.argmax())
    number = counts[i]
    return f"Element {i} was sent by {number} of {len(positions)}, and the sum is {rounded_text(float(values[positions == i].sum()))}."


def row(*values: Sequence[float]) -> np.ndarray:
    """A row for each learner, as float64."""
    return np.array(values, np.float64)


def at(*positions: Sequence[int]) -> np.ndarray:
    """A row of positions for each learner."""
    return np.array(positions, np.int64)


TWO_MEANS = Exercise(
    id="16.4",
    version=1,
    title="Who divides?",
    goal="Goal 4: divide a sum by its senders",
    minutes=10,
    difficulty=1,
    statement=r"""
        Each learner sends the same number of elements, but not the same ones. Row i of `positions` [learners, sent] says which elements learner i sends, none of them twice, and row i of `values` says what it sends for them. Write `two_means(positions, values, n)` that returns two arrays of n numbers:

        1. the mean of each element over the learners that **sent** it, as SparseLoCo takes it;
        2. the mean over **all** learners, where one that does not send an element counts as 0.

        An element that nobody sends is 0 in both. A value of 0 that is sent counts as sent. In which elements do both agree, and how much do they differ if each learner sends one element of 64?
    """,
    reference=two_means,
    form=TwoVectors(),
    signed_zero=False,
    tolerance=TOLERANCE,
    show=show,
    why=why,
    examples=(
        Example((at((0,), (2,)), row((6,), (4,)), 4), "Two learners send different elements. Over the senders these are 6 and 4, over all 3 and 2."),
        Example((at((1,), (1,)), row((6,), (4,)), 3), "Both send element 1, so both means are 5."),
        Example((at((0, 1), (1, 2), (1, 3)), row((1, 2), (4, 8), (6, 1)), 4), "Three learners send element 1. Its mean is 4 in both. The others have one sender each."),
        Example((at((1,), (1,), (0,)), row((4,), (0,), (3,)), 2), "A value of 0 was sent, so it counts: the mean of element 1 over its senders is 2."),
        Example((at((0,), (0,), (0,)), row((4,), (-4,), (3,)), 1), "Values of opposite sign cancel, in both means."),
        Example((at((3, 0)), row((5, -2)), 4), "One learner alone: both means are what it sent. Its positions come in any order."),
    ),
    boundary=cases,
    properties=(Property("nothing of what was sent is lost", many, sums_stay),),
    mistakes=(
        mistake("both means are over all learners", SENDERS, ALL),
        mistake("both means are over the senders", ALL, SENDERS),
        mistake("the mean over all is given first", f"{SENDERS}, {ALL}", f"{ALL}, {SENDERS}"),
        mistake("the sums are not divided", f"{SENDERS}, {ALL}", "total, total + 0"),
        mistake("the sum over senders is not divided", SENDERS, "total + 0"),
        mistake("a value of 0 does not count as sent", COUNT, "senders[where] += values[i] != 0"),
        mistake("an element that nobody sent is divided by 0 senders, and becomes NaN", SENDERS, "total / senders"),
        mistake("one learner replaces what others sent of an element", ADD, "total[where] = values[i]"),
        mistake("numpy's total[positions] += values and senders[positions] += 1 act once where several sent the same element", ADD, "total[where] = values[i]", COUNT, "senders[where] = 1"),
        mistake("the count of senders begins at 1", SENDERS, "total / (senders + 1)"),
        mistake("the mean over all divides by the number of elements", ALL, "total / n"),
        mistake("the mean over all divides by how many elements a learner sends", ALL, "total / positions.shape[1]"),
        mistake("the mean over all divides by how many values are sent in all", ALL, "total / positions.size"),
        mistake("the mean over all divides by the largest number of senders", ALL, "total / max(senders.max(), 1)"),
        mistake("magnitudes are added, without signs", ADD, "total[where] += abs(values[i])"),
        mistake("positions are not used: the values come in the order of the elements", ADD, "total[: len(where)] += values[i]"),
        mistake("the first learner is left out", ADD, "total[where] += values[i] * (i > 0)", COUNT, "senders[where] += i > 0"),
    ),
    hints=(
        "Three learners send (element, value): (0, 6), (0, 3), (1, 4). The sums are 9 and 4. Element 0 has two senders, element 1 has one, and there are three learners. What are the two means of element 0?",
        "You need two sums for each element: of the values, and of how many sent it. Go through the learners one by one, because numpy's total[positions] += values adds only once where a position occurs twice.",
        "The sums are the same for both means, only the divisors differ. One is a number, the other an array. What is in this array where nobody sent anything, and what happens there when you divide?",
    ),
)


# ---- messages of a real layer ----------------------------------------------------------------------------------------

LEARNERS, SHARE = (1, 2, 4, 8, 16), 64
LIBRARY = 1e-5  # relative: it computes in float32
CURVES = ("mean over senders", "mean over all")


@cache
def parts_of_a_gradient() -> np.ndarray:
    """A layer's weight gradient in each of 16 parts of a batch, of the captured Transformer: float64 [16, elements]."""
    from lplab.datasets import captured

    x, dy = (captured()[f"transformer/step1000/blocks.1.attention.project/{role}"] for role in ("activation", "gradient"))
    x, dy = (each.reshape(-1, each.shape[-1]).astype(np.float64) for each in (x, dy))
    found = np.array([(b.T @ a).ravel() for a, b in zip(np.array_split(x, 16), np.array_split(dy, 16), strict=True)])
    return found / np.abs(found).max()


@student_figure("Here the length of real steps, as your {name} averages them, will be drawn")
def draw_means(function: Callable[..., Any]) -> Any:
    """A live figure of how long the mean of 1 to 16 learners' messages is, against one message, by both means.

    Args:
        function: takes positions, values and the number of elements, and returns two means.
    """
    from lplab import figures

    calls = [sparse_messages(count) for count in LEARNERS]
    yours = read_results(function, calls, TWO_MEANS.form, as_array)
    expected = [library_means(*args) for args in calls]
    each = [[length(args, mean) for args, mean in zip(calls, found, strict=True)] for found in (expected, yours)]
    library, own = ({name: np.array(lengths)[:, i] for i, name in enumerate(CURVES)} for lengths in each)
    return figures.compared_curves(
        list(map(str, LEARNERS)),
        library,
        own,
        what="length of the step (% of one message)",
        name="A step of sparse messages",
        along="learners",
        tolerance=LIBRARY,
    )


def library_means(positions: np.ndarray, values: np.ndarray, n: int) -> np.ndarray:
    """Both means of the library, in float32: [2, n]."""
    sent = positions.shape[1]
    payloads = [np.concatenate([where, what]).astype(np.float32) for where, what in zip(positions, values, strict=True)]

    def decode(payload: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return payload[:sent].astype(np.int64), payload[sent:]

    def add(total: np.ndarray, payload: np.ndarray) -> None:
        where, what = decode(payload)
        total[where] += what

    return np.array([mean_of_senders(n, decode)(payloads), mean_of_messages(n, add)(payloads)])


def sparse_messages(count: int) -> Args:
    """The largest of each learner's elements: the arguments of a call."""
    parts = parts_of_a_gradient()[:count]
    positions = np.argsort(-np.abs(parts), axis=1)[:, : parts.shape[1] // SHARE]
    return positions, np.take_along_axis(parts, positions, axis=1), parts.shape[1]


def length(args: Args, means: Any) -> np.ndarray:
    """The lengths of both means in percent of a message's, which is the mean over the learners: float64 [2]."""
    own = np.linalg.norm(args[1], axis=1).mean()
    return 100 * np.linalg.norm(np.asarray(means), axis=1) / own
