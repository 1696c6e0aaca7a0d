"""Exercise 10.1: a choice that commutes with the sum, as one learner makes it for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from lplab.exercises.checks.numbers import decimal, sequence_text
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import SameShape
from lplab.exercises.student_figures import read_results, student_figure


def leaders_choice(p, chunk, step):
    """What each learner sends of p [learners, elements]; zeros where it sends nothing."""
    leader = p[step % len(p)]
    sent = np.zeros_like(p)
    for start in range(0, p.shape[1], chunk):
        best = start + np.argmax(np.abs(leader[start : start + chunk]))
        sent[:, best] = p[:, best]
    return sent


LEADER, CHUNKS = "leader = p[step % len(p)]", "in range(0, p.shape[1], chunk)"
BEST = "best = start + np.argmax(np.abs(leader[start : start + chunk]))"
SEND, NOTHING = "sent[:, best] = p[:, best]", "sent = np.zeros_like(p)"


def rows(learners: int, elements: int, seed: int) -> np.ndarray:
    """What learners want to send: small whole numbers over eight, so that equal magnitudes occur and sums are exact."""
    shared, own = np.random.default_rng([2020, seed]).integers(-40, 41, (2, learners, elements))
    return (shared[:1] + own) / 8.0


def cases() -> list[Args]:
    """One to eight learners, chunks that divide the elements and chunks that do not, three rounds of leaders."""
    shapes = [(n, size) for n in (1, 2, 3, 5, 8) for size in (1, 7, 12, 20)]
    every = [(n, size, chunk, step) for n, size in shapes for chunk in (1, 3, 4, 50) for step in (0, 1, 2, 5, 17)]
    return [(rows(n, size, k), chunk, step) for k, (n, size, chunk, step) in enumerate(every)]


def many() -> list[Args]:
    """Up to 64 learners."""
    return [(rows(n, 300, n), 25, 3 * n + 1) for n in (2, 8, 64)]


def commutes(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether the sum of what is sent is what the mask leaves of the sum, and no larger than one learner's message."""
    for args, result in zip(calls, map(np.asarray, results), strict=True):
        p, chunk, _ = args
        chunks, places = -(-p.shape[1] // chunk), np.flatnonzero((result != 0).any(axis=0))
        if places.size > chunks:
            text = f"The sum over {len(p)} learners holds {places.size} elements, more than the {chunks} chunks"
            return Finding(f"{text}: it grows with the learners.", args, result)
        expected = np.zeros(p.shape[1])
        expected[places] = p.sum(axis=0)[places]
        if not np.array_equal(result.sum(axis=0), expected):
            text = f"For {len(p)} learners the sum of what is sent is not the sum of p at these places"
            return Finding(f"{text}: choosing and adding do not commute.", args, result)
    return None


def show(args: Args) -> str:
    """Learners one by one where that is short."""
    p, chunk, step = args
    wanted = f"p = [{'; '.join(sequence_text(row) for row in p[:4])}{'; …' if len(p) > 4 else ''}]"
    return f"{wanted}, chunk = {chunk}, step = {step}"


def why(args: Args, expected: Any) -> str:
    """The leader, and its choice."""
    p, chunk, step = args
    leader = step % len(p)
    places = [s + int(np.argmax(np.abs(p[leader, s : s + chunk]))) for s in range(0, p.shape[1], chunk)]
    chosen = sequence_text(np.array(places)).strip("()")
    return f"Learner {leader} leads ({step} mod {len(p)}); its largest magnitudes by chunk stand at {chosen}, the first of them {decimal(float(p[leader, places[0]]))}."


LEADERS_CHOICE = Exercise(
    id="10.1",
    version=1,
    title="One learner chooses for all",
    goal="Goal 1: choose so that adding keeps the message small",
    minutes=15,
    difficulty=2,
    statement=r"""
        The array `p` has a row for each learner, with what this learner would like to send (residual plus gradient). In every step **one** learner leads, the one with the number `step` mod the number of learners. It divides its row into chunks of `chunk` elements, and the last chunk may be shorter. From each chunk it chooses the element where **its own** magnitude is largest, or the first one if several are equal.

        Write `leaders_choice(p, chunk, step)`. It returns an array shaped like `p` with each learner's own values at the leader's places, and 0 everywhere else.
    """,
    reference=leaders_choice,
    form=SameShape(0),
    signed_zero=False,
    show=show,
    why=why,
    examples=(
        Example((np.array([[3.0, 1.0], [1.0, 2.0]]), 2, 0), "Learner 0 leads and chooses its 3; learner 1 sends its own 1 there, though its 2 is larger."),
        Example((np.array([[3.0, 1.0], [1.0, 2.0]]), 2, 1), "In the next step learner 1 leads: its 2, and the 1 of learner 0."),
        Example((np.array([[3.0, 1.0], [1.0, 2.0]]), 2, 4), "4 mod 2 = 0: learner 0 leads again."),
        Example((np.array([[1.0, -5.0, 2.0]]), 3, 7), "A single learner always leads. Magnitudes count: −5."),
        Example((np.array([[1.0, 2.0, 4.0, 3.0, 9.0], [5.0, 5.0, 5.0, 5.0, 5.0]]), 2, 0), "Three chunks, the last one with a single element: 2, 4 and 9 of learner 0, and three times 5."),
        Example((np.array([[2.0, -2.0, 2.0], [0.0, 1.0, 8.0]]), 3, 0), "Three equal magnitudes: the first one, where learner 1 has nothing. Its 8 stays in its residual."),
        Example((np.array([[1.0, 0.0], [0.0, 6.0], [0.0, 6.0]]), 2, 0), "The sum of all would have chosen the second place. The leader does not know it."),
    ),
    boundary=cases,
    properties=(Property("choosing and adding commute, and the sum stays as short as one message", many, commutes),),
    mistakes=(
        mistake("each learner's own choice is best for the sum", LEADER, "pass", BEST, "best = start + np.argmax(np.abs(p[:, start : start + chunk]), axis=1)", SEND, "sent[range(len(p)), best] = p[range(len(p)), best]"),
        mistake("learner 0 always leads: the others' large elements never get their turn", LEADER, "leader = p[0]"),
        mistake("the last learner begins: the count of steps starts at 0", LEADER, "leader = p[(step - 1) % len(p)]"),
        mistake("the leader sends, the others only listen", SEND, "sent[step % len(p), best] = leader[best]"),
        mistake("all send the leader's values", SEND, "sent[:, best] = leader[best]"),
        mistake("the largest value, not the largest magnitude", "np.argmax(np.abs(leader[start : start + chunk]))", "np.argmax(leader[start : start + chunk])"),
        mistake("magnitudes are sent, without their signs", SEND, "sent[:, best] = np.abs(p[:, best])"),
        mistake("a 1 is sent for each place, not the value", SEND, "sent[:, best] = 1"),
        mistake("all magnitudes together decide, not those of the leader", LEADER, "leader = np.abs(p).sum(axis=0)"),
        mistake("the choice of the sum, which nobody knows before everything has been sent", LEADER, "leader = p.sum(axis=0)"),
        mistake("the largest of all learners decides", LEADER, "leader = np.abs(p).max(axis=0)"),
        mistake("the elements of a last, shorter chunk are forgotten", CHUNKS, "in range(0, p.shape[1] - chunk + 1, chunk)"),
        mistake("of equal magnitudes the last one", BEST, "part = np.abs(leader[start : start + chunk])[::-1]\n        best = start + len(part) - 1 - np.argmax(part)"),
        mistake("the place within the chunk is taken for the place in the vector", BEST, "best = np.argmax(np.abs(leader[start : start + chunk]))"),
        mistake("the lead changes from chunk to chunk", BEST, "leader = p[(step + start // chunk) % len(p)]\n        best = start + np.argmax(np.abs(leader[start : start + chunk]))"),
        mistake("what is kept is returned, not what is sent", NOTHING, "sent = p.copy()", SEND, "sent[:, best] = 0"),
        mistake("all send the mean: it is known only after the sum", SEND, "sent[:, best] = p[:, best].mean()"),
        mistake("as many elements as chunks, wherever they are", "    for start in range(0, p.shape[1], chunk):\n        best = start + np.argmax(np.abs(leader[start : start + chunk]))\n        sent[:, best] = p[:, best]\n", "    best = np.argsort(-np.abs(leader), kind='stable')[: -(-p.shape[1] // chunk)]\n    sent[:, best] = p[:, best]\n"),
    ),
    hints=(
        "Two learners, (3, 1) and (1, 2), one chunk, step 0. Learner 0 leads; its larger element is the first. So learner 0 sends (3, 0) and learner 1 sends (1, 0), not (0, 2).",
        "`np.argmax` gives the first of equal values, and a place that counts from the start of the slice: add where the chunk begins. Slices may reach beyond the end of an array, so the last chunk needs no case of its own.",
        "Begin with zeros like p. For each chunk, one column of p is copied: `sent[:, best] = p[:, best]` takes the values of all learners at the leader's place at once.",
    ),
)


CHUNK, COUNTS = 112, (1, 2, 4, 8, 16, 32, 64)
LAYER = "layers.2.weight"  # 1,280 weights


@cache
def gradients() -> np.ndarray:
    """First gradients of the last layer of 64 learners, eight digits each: float64 [64, 1280]."""
    from lplab.parallel.learner_gradients import batched_gradients
    from lplab.training import tasks
    from lplab.training.loop.trainer import default_loss
    from lplab.training.thread_counts import torch_threads

    task = tasks.get("mlp")
    with torch_threads(1):
        inputs, targets = task.data(8 * COUNTS[-1], 0)(0)
        batches = list(zip(inputs.chunk(COUNTS[-1]), targets.chunk(COUNTS[-1]), strict=True))
        result = batched_gradients(task.model(0), default_loss, batches, [0] * COUNTS[-1])
    return result.gradients[LAYER].flatten(1).numpy().astype(np.float64)


@student_figure("Here the sum that your {name} leads to will be drawn")
def draw_choice(function: Callable[..., Any]) -> Any:
    """A live figure of how the sum of a function's messages grows with the learners, or a line that says what it waits for.

    Args:
        function: takes p [learners, elements], a chunk and a step, and returns what each learner sends.
    """
    from lplab import figures
    from lplab.compression.scalecom import largest_per_chunk
    from lplab.parallel.agreement import union_size

    g = gradients()
    yours = read_results(function, [(g[:n], CHUNK, 0) for n in COUNTS], LEADERS_CHOICE.form, share_of_the_sum)
    own = [union_size([largest_per_chunk(row, CHUNK) for row in g[:n]]) / g.shape[1] for n in COUNTS]
    return figures.union_growth(COUNTS, own, yours, own[0])


def share_of_the_sum(sent: Any) -> float:
    """The share of the elements that the sum of all messages [learners, elements] holds."""
    return float((np.asarray(sent, np.float64) != 0).any(axis=0).mean())
