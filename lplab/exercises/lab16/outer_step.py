"""Exercise 16.1: the outer step of learners that meet seldom, with Nesterov's momentum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lplab.exercises.checks.close import TOLERANCE, rounded_text
from lplab.exercises.checks.numbers import decimal, sequence_text, table_text
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import SameShapes
from lplab.exercises.student_figures import as_array, read_results, student_figure


def outer_step(start, ends, momentum, rate, beta):
    """The new shared weights and the new momentum; learner i began with the weights start and has ends[i] now."""
    delta = start - ends.mean(axis=0)
    new = beta * momentum + delta
    return start - rate * (delta + beta * new), new


DELTA, NEW, STEP, RESULT = "start - ends.mean(axis=0)", "beta * momentum + delta", "rate * (delta + beta * new)", "start - rate * (delta + beta * new), new"


def numbers(*values: float) -> np.ndarray:
    """A vector as float64."""
    return np.array(values, np.float64)


def learners(*rows: Sequence[float]) -> np.ndarray:
    """A row for each learner, as float64."""
    return np.array(rows, np.float64)


def meeting(seed: int, count: int, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights before and after some steps of each learner, and a momentum: multiples of 1/64."""
    rng = np.random.default_rng([2023, seed])
    start, ends, momentum = (rng.integers(-256, 257, shape) / 64 for shape in (size, (count, size), size))
    return start, start + ends / 4, momentum


RULES = ((1.0, 0.0), (0.7, 0.9), (1.0, 0.5), (0.25, 0.75))


def cases() -> list[Args]:
    """One to eight learners, one weight and many, four rules; without momentum, without steps, as many learners as weights."""
    shapes = ((1, 1), (1, 4), (2, 3), (3, 3), (4, 6), (8, 20))
    found: list[Args] = [(*meeting(seed, *shape), *rule) for seed, shape in enumerate(shapes) for rule in RULES]
    start, ends, momentum = meeting(9, 4, 5)
    nothing = np.zeros(5)
    still = np.tile(start, (4, 1))
    return [*found, (start, ends, nothing, 0.7, 0.9), (start, still, momentum, 0.7, 0.9), (start, still, nothing, 0.7, 0.9), (start, ends, momentum, 0.0, 0.9)]


def twins() -> list[Args]:
    """Pairs of calls: a meeting, and the same one with its learners in another order and all weights moved by 3."""
    found: list[Args] = []
    for seed, rule in enumerate(RULES):
        start, ends, momentum = meeting(20 + seed, 5, 6)
        found += [(start, ends, momentum, *rule), (start + 3, ends[::-1] + 3, momentum, *rule)]
    return found


def learners_count_alike(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether the order of the learners does not matter, and weights that all lie 3 higher end 3 higher."""
    for args, one, other in zip(calls[1::2], results[::2], results[1::2], strict=True):
        moved = np.abs(np.asarray(other) - np.asarray(one) - [[3.0], [0.0]])
        if not (moved <= 100 * TOLERANCE).all():
            i = int(moved.max(axis=0).argmax())
            ends = f"{rounded_text(one[0][i])} and {rounded_text(other[0][i])}"
            return Finding(f"The learners came in another order, and all weights lay 3 higher. Then weight {i} must end 3 higher, but yours ends at {ends}.", args, other)
    return None


def show(args: Args) -> str:
    """Small meetings in full."""
    start, ends, momentum, rate, beta = args
    rule = f"rate = {decimal(rate)}, beta = {decimal(beta)}"
    if ends.size > 8:
        return f"{len(ends)} learners with {start.size} weights each, {rule}"
    return f"start = {sequence_text(start)}, ends = {table_text(ends)}, momentum = {sequence_text(momentum)}, {rule}"


def why(args: Args, expected: Any) -> str:
    """Δ, momentum and step of the first weight."""
    start, ends, momentum, rate, _ = args
    delta, new = start[0] - ends[:, 0].mean(), float(expected[1][0])
    parts = f"its mean Δ is {rounded_text(delta)} and the momentum goes from {rounded_text(momentum[0])} to {rounded_text(new)}"
    return f"Weight 0 begins at {rounded_text(start[0])}; {parts}. With the rate {decimal(rate)} the weight ends at {rounded_text(float(expected[0][0]))}."


OUTER_STEP = Exercise(
    id="16.1",
    version=1,
    title="The outer step",
    goal="Goal 1: make the outer step of learners that meet seldom",
    minutes=10,
    difficulty=1,
    statement=r"""
        All learners began with the shared weights `start`. Now learner i has `ends[i]`, so `ends` is [learners, weights]. Write `outer_step(start, ends, momentum, rate, beta)` that returns two new arrays, the shared weights after the meeting and the momentum.

        1. $\Delta$ is the mean of the learners' pseudo-gradients.
        2. The momentum $b$ becomes $\beta\,b+\Delta$.
        3. Gradient descent would subtract $\text{rate}\cdot\Delta$ from the weights. Nesterov's momentum, as PyTorch has it, subtracts $\text{rate}\cdot(\Delta+\beta\,b)$ with the **new** b.
    """,
    reference=outer_step,
    form=SameShapes((("weights", 0), ("momentum", 2))),
    signed_zero=False,
    tolerance=TOLERANCE,
    show=show,
    why=why,
    examples=(
        Example((numbers(1, 4), learners((3, 4), (5, 0)), numbers(0, 0), 1.0, 0.0), "With a rate of 1 and no momentum, the weights become the plain mean of what the learners have, 4 and 2."),
        Example((numbers(10), learners((8,)), numbers(0), 0.5, 0.0), "One learner went down by 2. Half of that is the step, and it goes down, too."),
        Example((numbers(10), learners((9,), (9,)), numbers(0), 1.0, 0.9), "Both learners went down by 1, and there was no momentum yet. The step is 1.9: 1, and 0.9 of the new momentum."),
        Example((numbers(10), learners((9,), (9,)), numbers(0), 0.7, 0.9), "DiLoCo's rule. The step is 0.7 · 1.9 = 1.33, further than any learner went."),
        Example((numbers(10), learners((10,), (10,)), numbers(2), 1.0, 0.5), "The learners stay where they are. The momentum fades to 1, and half of it still moves the weights."),
        Example((numbers(10, 10), learners((11, 12), (9, 12)), numbers(0, 0), 0.5, 0.5), "The learners disagree about the first weight, so it stays. They agree about the second."),
        Example((numbers(10), learners((9,), (8,), (6,)), numbers(-3), 1.0, 0.5), "Three learners went down by 1, 2 and 4, 7/3 on average. The momentum points the other way, so the step is shorter."),
    ),
    boundary=cases,
    properties=(Property("the order of the learners does not matter, and where the weights lie does not matter", twins, learners_count_alike),),
    mistakes=(
        mistake("Δ is end − start: the shared weights go away from where the learners went", DELTA, "ends.mean(axis=0) - start"),
        mistake("the step is added: the shared weights go away from where the learners went", RESULT, "start + rate * (delta + beta * new), new"),
        mistake("Δ is end − start, and the step is added: the weights are right, but the momentum has the other sign", DELTA, "ends.mean(axis=0) - start", RESULT, "start + rate * (delta + beta * new), new"),
        mistake("the learners' Δ are added up, not averaged", DELTA, "(start - ends).sum(axis=0)"),
        mistake("only the first learner counts", DELTA, "start - ends[0]"),
        mistake("one Δ for all weights", DELTA, "(start - ends).mean()"),
        mistake("the mean over the weights of a learner, not over the learners", DELTA, "start - ends.mean(axis=1)", raises="ValueError"),
        mistake("the median of the learners, not their mean", DELTA, "start - np.median(ends, axis=0)"),
        mistake("the step is rate · b, as with plain momentum and with Δ + β · old b: Nesterov takes the new b", STEP, "rate * new"),
        mistake("the momentum is kept, but the step does not use it", STEP, "rate * delta"),
        mistake("the rate acts on Δ alone, not on the momentum", STEP, "(rate * delta + beta * new)"),
        mistake("the rate is a part of the momentum", NEW, "beta * momentum + rate * delta", STEP, "(rate * delta + beta * new)"),
        mistake("the new momentum is an average: Δ enters it with 1 − β", NEW, "beta * momentum + (1 - beta) * delta"),
        mistake("the old momentum does not fade", NEW, "momentum + delta"),
        mistake("the momentum is Δ + β · b, the direction of the step", RESULT, "start - rate * (delta + beta * new), delta + beta * new"),
        mistake("the momentum is returned as it was", RESULT, "start - rate * (delta + beta * new), 1.0 * momentum"),
        mistake("the step begins at the mean of the ends, not at the start: the way counts twice", RESULT, "ends.mean(axis=0) - rate * (delta + beta * new), new"),
        mistake("the momentum is an average of Δ, and the step is rate · b", NEW, "beta * momentum + (1 - beta) * delta", STEP, "rate * new"),
        mistake("momentum first, weights second", RESULT, "new, start - rate * (delta + beta * new)"),
        mistake("the weights that were given are changed, not a copy of them", "    return start", "    start -= rate * (delta + beta * new)\n    return start, new\n    return start"),
    ),
    hints=(
        "Take one weight that begins at 10, two learners that end at 9 and 7, no momentum yet, rate 1 and beta 0.5. A learner's pseudo-gradient is start − end, so they are 1 and 3. What is Δ, what is b, and where do the weights end?",
        "ends.mean(axis=0) is the mean over the rows, which are the learners. A pseudo-gradient points uphill as a gradient does, so the weights go against it.",
        "There are three lines, for Δ, for b and for the result. Check with beta = 0 and rate = 1 that the weights become the mean of the ends. Then check that the first step with beta = 0.9 is 1.9 times as long. Which b does the step use?",
    ),
)


# ---- a valley in which four learners walk ----------------------------------------------------------------------------

CURVATURES, INNER_STEPS, INNER_RATE, MEETINGS = numbers(1.0, 0.02), 12, 0.2, 12
BEGIN = numbers(1.0, 4.0)  # the valley is lowest at 0
OWN_LOWEST = learners((1, 1), (-1, 1), (1, -1), (-1, -1))  # each learner sees other data, and another lowest point
OUTER = {"plain mean": (1.0, 0.0), "rate 0.7, no momentum": (0.7, 0.0), "rate 0.7, momentum 0.9": (0.7, 0.9)}


@student_figure("Here four learners that meet by your {name} will be drawn")
def draw_meetings(function: Callable[..., Any]) -> Any:
    """A live figure of how far the shared weights are from the lowest point after each meeting, by three outer steps.

    Args:
        function: takes start, ends, momentum, rate and beta, and returns weights and momentum.
    """
    from lplab import figures

    walks = {name: walk(*rule) for name, rule in OUTER.items()}
    calls = [(start, end_of_steps(start), b, *OUTER[name]) for name, states in walks.items() for start, b in states[:-1]]
    results = read_results(function, calls, OUTER_STEP.form, weights_of)
    yours = np.array([distance(result) for result in results]).reshape(len(walks), -1)
    return figures.compared_curves(
        [str(number + 1) for number in range(MEETINGS)],
        {name: np.array([distance(start) for start, _ in states[1:]]) for name, states in walks.items()},
        dict(zip(walks, yours, strict=True)),
        what="distance from the lowest point",
        name="Four learners in a long valley",
        along="meeting",
    )


def end_of_steps(start: np.ndarray) -> np.ndarray:
    """Where each learner is after its steps of gradient descent: float64 [learners, 2]."""
    return OWN_LOWEST + (1 - INNER_RATE * CURVATURES) ** INNER_STEPS * (start - OWN_LOWEST)


def walk(rate: float, beta: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """Shared weights and momentum before the first meeting and after each.

    The learners' lowest points have the mean 0, so along each direction a meeting is a matrix for weight and momentum.
    """
    moved = 1 - (1 - INNER_RATE * CURVATURES) ** INNER_STEPS  # Δ is this share of the weight
    meetings = np.array([[[1 - rate * m * (1 + beta), -rate * beta**2], [m, beta]] for m in moved])
    states = [np.stack([BEGIN, np.zeros(2)], axis=1)]
    for _ in range(MEETINGS):
        states.append(np.einsum("dij,dj->di", meetings, states[-1]))
    return [(state[:, 0], state[:, 1]) for state in states]


def weights_of(result: Any) -> np.ndarray:
    """The weights of a result; ValueError if they are not two numbers beside a momentum."""
    weights, _ = result
    return as_array(weights).reshape(2)


def distance(weights: np.ndarray) -> float:
    """How far weights are from the lowest point."""
    return float(np.linalg.norm(weights))
