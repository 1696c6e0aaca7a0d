"""Exercise 10.3: how alike the residuals of two learners are, and their choices, step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from lplab.exercises.checks.close import distinct_texts, float32_hint
from lplab.exercises.checks.numbers import sequence_text
from lplab.exercises.lab10.leaders_choice import CHUNK, LAYER
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import describe_value, is_number
from lplab.exercises.student_figures import NotReady, as_array, read_results, student_figure
from lplab.number_text import MINUS


def similarity(a, b, k):
    """Cosine and Hamming distance of residuals a and b of two learners [steps, elements]: one pair for each step."""
    pairs = np.empty((len(a), 2))
    for t, x in enumerate(a):
        y = b[t]
        size = np.linalg.norm(x) * np.linalg.norm(y)
        if size == 0:
            pairs[t] = np.nan
            continue
        own, other = (set(np.argsort(-np.abs(v))[:k].tolist()) for v in (x, y))
        pairs[t] = 1 - x @ y / size, len(own - other) / k
    return pairs


SIZE, NONE = "size = np.linalg.norm(x) * np.linalg.norm(y)", "pairs[t] = np.nan"
SETS = "own, other = (set(np.argsort(-np.abs(v))[:k].tolist()) for v in (x, y))"
COSINE, HAMMING = "1 - x @ y / size", "len(own - other) / k"
TOLERANCE = 1e-9  # sums of at most 200 products of numbers below 100: rounding errors stay below 1e-12
ROUNDED = 10  # decimals shown at most: 1 − 1 may come out as 1e-16


@dataclass(frozen=True)
class PairsOfSteps:
    """An array of two columns with a row for each step; a list of pairs will do."""

    def problem(self, args: tuple[Any, ...], result: Any) -> str:
        """What is wrong with the form of a result; "" if it is right.

        >>> PairsOfSteps().problem((np.zeros((3, 5)),), np.zeros(3))
        'returns an array of shape (3,) and dtype float64: return 3 rows, each with two numbers'
        """
        steps = len(args[0])
        wanted = f"return {steps} row{'s' * (steps != 1)}, each with two numbers"
        rows = list(result) if isinstance(result, list | tuple) or np.ndim(result) == 2 else None
        if rows is None or len(rows) != steps:
            return f"returns {describe_value(result)}: {wanted}"
        odd = [row for row in rows if np.shape(row) != (2,) or not all(is_number(value) for value in row)]
        return f"returns {describe_value(odd[0])} as a row: {wanted}" if odd else ""

    def describe(self) -> str:
        """The form in words, for the documentation."""
        return "an array with a row of two numbers for each step"


def wrong_pair(args: Args, result: Any) -> str:
    """What is wrong with the pairs, in one sentence, or ""."""
    expected, yours = similarity(*args), np.asarray(result, np.float64)
    for column, name in enumerate(("cosine distance", "Hamming distance")):
        close = np.isclose(yours[:, column], expected[:, column], rtol=0, atol=TOLERANCE, equal_nan=True)
        if not close.all():
            t = int(np.flatnonzero(~close)[0])
            mine, right = yours[t, column], expected[t, column]
            texts = distinct_texts(np.round(mine, ROUNDED), np.round(right, ROUNDED))
            return f"In step {t} the {name} is {texts[1]}, yours is {texts[0]}{float32_hint(mine, right)}"
    return ""


def distinct(steps: int, elements: int, seed: int) -> np.ndarray:
    """Residuals whose magnitudes within a step differ, with both signs: no ties among the largest."""
    rng = np.random.default_rng([2020, seed])
    sizes = rng.permuted(np.tile(np.arange(1, elements + 1), (steps, 1)), axis=1)
    return sizes * rng.choice([-1.0, 1.0], (steps, elements)) / 4


def cases() -> list[Args]:
    """Unrelated, alike, opposite and equal residuals; zeros; one element; every k."""
    found: list[Args] = []
    for seed, (steps, elements, k) in enumerate([(1, 1, 1), (3, 2, 1), (4, 6, 2), (5, 9, 3), (6, 12, 12), (2, 20, 5)]):
        x, y = distinct(steps, elements, seed), distinct(steps, elements, 40 + seed)
        found += [(x, y, k), (x, x + y / 100, k), (x, -x, k), (x, 8 * x, k), (x, x, k)]
        with_zero = x.copy()
        with_zero[0] = 0
        found += [(with_zero, y, k), (y, with_zero, k), (with_zero, with_zero, k)]
    return found


def long_runs() -> list[Args]:
    """Two residuals that drift together."""
    x, y = distinct(30, 60, 70), distinct(30, 60, 71)
    weight = np.linspace(0, 1, 30)[:, None]
    return [(x, weight * x + (1 - weight) * y / 3, 6), (3 * x, weight * x + (1 - weight) * y / 3, 6)]


def size_does_not_matter(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether a residual that is three times as large is as similar: directions and places count, sizes do not."""
    one, three = (np.asarray(result, np.float64) for result in results)
    apart = np.abs(one - three) > TOLERANCE
    if apart.any():
        t = int(np.flatnonzero(apart.any(axis=1))[0])
        text = f"In step {t} your numbers change when one residual is multiplied by 3"
        return Finding(f"{text}: directions and places count, sizes do not.", calls[0], results[0])
    return None


def show(args: Args) -> str:
    """The residuals of the first step, and k."""
    a, b, k = args
    more = ", …" if len(a) > 1 else ""
    first = (f"[[{sequence_text(each[0]).strip('()')}]{more}]" for each in (a, b))
    shape = f" (shape {a.shape}, step 0 shown)" if more else ""
    return "a = {}, b = {}".format(*first) + f"{shape}, k = {k}"


def why(args: Args, expected: Any) -> str:
    """The sets of the first step."""
    a, b, k = args
    if not (a[0].any() and b[0].any()):
        return "A residual that is all zero has no direction and no largest elements: NaN, twice."
    own, other = (sorted(np.argsort(-np.abs(v))[:k].tolist()) for v in (a[0], b[0]))
    product, sizes = a[0] @ b[0], np.linalg.norm(a[0]) * np.linalg.norm(b[0])
    said = f"{product:.6g}".replace("-", MINUS)
    return f"Step 0: a · b = {said}, |a||b| = {sizes:.6g}; the places of the {k} largest are {sequence_text(own)} and {sequence_text(other)}."


def residual_rows(*rows: Sequence[float]) -> np.ndarray:
    """One learner's residual, a row for each step."""
    return np.array(rows, np.float64)


SIMILARITY = Exercise(
    id="10.3",
    version=1,
    title="How alike are two learners?",
    goal="Goal 3: measure what makes one choice serve all",
    minutes=15,
    difficulty=2,
    statement=r"""
        The arrays `a` and `b` hold the residuals of two learners, with a row for each step. Write `similarity(a, b, k)`. It returns an array with a row for each step and two numbers in each row:

        - the **cosine distance** $1 - a\cdot b\,/\,(|a||b|)$,
        - the **Hamming distance** of the choices. Each learner would choose its `k` places with the largest magnitudes. Of the places of `a`, this is the share that is not among the places of `b`.

        A residual may be all zero, as at the start. Then both numbers are NaN. Otherwise no two magnitudes of a step are equal. The check allows for rounding errors.
    """,
    reference=similarity,
    form=PairsOfSteps(),
    accept=wrong_pair,
    tolerance=TOLERANCE,
    show=show,
    why=why,
    examples=(
        Example((residual_rows([3, 4]), residual_rows([6, 8]), 1), "The same direction: distance 0, whatever the size, and the same place."),
        Example((residual_rows([3, 4]), residual_rows([-3, -4]), 1), "Opposite: cosine distance 2, and yet the same place is the largest. The two numbers tell different things."),
        Example((residual_rows([3, 0]), residual_rows([0, 2]), 1), "At right angles: 1, and another place: 1."),
        Example((residual_rows([0, 0], [1, 2]), residual_rows([1, 3], [1, 2]), 1), "Step 0: an empty residual. Step 1: equal."),
        Example((residual_rows([5, -4, 1, 2]), residual_rows([-4, 5, 2, 1]), 2), "Both choose places 0 and 1, in another order: as sets they are equal, Hamming distance 0."),
        Example((residual_rows([5, -4, 1, 2]), residual_rows([5, 1, 2, -4]), 2), "Places {0, 1} and {0, 3}: one of two is missing, ½."),
        Example((residual_rows([1, 2], [4, 3]), residual_rows([2, 1], [1, 5]), 1), "Two steps, two rows, in their order: 1 − 4/5, then 1 − 19/(5·√26)."),
    ),
    boundary=cases,
    properties=(Property("a residual three times as large is as similar", long_runs, size_does_not_matter),),
    mistakes=(
        mistake("the cosine itself, not the distance", COSINE, "x @ y / size"),
        mistake("not divided by the sizes: the inner product", COSINE, "1 - x @ y"),
        mistake("divided by the size of one residual, squared", SIZE, "size = np.linalg.norm(x) ** 2"),
        mistake("two empty residuals, or one, count as equal", NONE, "pairs[t] = 0"),
        mistake("an empty residual counts as nothing in common", NONE, "pairs[t] = 1"),
        mistake("opposite directions count as equal: the size of the cosine", COSINE, "1 - abs(x @ y) / size"),
        mistake("the means are taken off first: a correlation", COSINE, "1 - (x - x.mean()) @ (y - y.mean()) / size"),
        mistake("the distance of the end points instead of the angle", COSINE, "np.linalg.norm(x - y)"),
        mistake("the largest values, not the largest magnitudes", SETS, "own, other = (set(np.argsort(-v)[:k].tolist()) for v in (x, y))"),
        mistake("the smallest magnitudes", SETS, "own, other = (set(np.argsort(np.abs(v))[:k].tolist()) for v in (x, y))"),
        mistake("the order of the places counts", SETS, "own, other = (np.argsort(-np.abs(v))[:k] for v in (x, y))", HAMMING, "(own != other).sum() / k"),
        mistake("each missing place is counted in both sets", HAMMING, "len(own ^ other) / k"),
        mistake("the share in common, not the share that is missing", HAMMING, "len(own & other) / k"),
        mistake("a share of all elements instead of the k chosen ones", HAMMING, "len(own - other) / len(x)"),
        mistake("a count instead of a share", HAMMING, "len(own - other)"),
        mistake("the columns are exchanged", "1 - x @ y / size, len(own - other) / k", "len(own - other) / k, 1 - x @ y / size"),
        mistake("residuals add up over the steps", "for t, x in enumerate(a):\n        y = b[t]", "for t in range(len(a)):\n        x, y = a[: t + 1].sum(axis=0), b[: t + 1].sum(axis=0)"),
        mistake("the steps run backwards", "return pairs", "return pairs[::-1]"),
    ),
    hints=(
        "a = (5, −4, 1, 2), b = (5, 1, 2, −4), k = 2: a's largest magnitudes stand at 0 and 1, b's at 0 and 3. One of a's two places is not b's: ½.",
        "`np.argsort(-np.abs(x))[:k]` gives the places of the k largest magnitudes. Make sets of them: `own - other` is what one has and the other has not. Before dividing, see whether a norm is 0.",
        "Loop over the steps and fill an array of shape (len(a), 2). The product of both norms tells whether a residual is empty. `len(own - other)` counts the places that are missing, and the share is this count over k.",
    ),
)


STEPS, PAIR = 60, 2


@cache
def residuals() -> np.ndarray:
    """Residuals (the paper's memories) of the last layer of two learners under ScaleCom, before each step: float64 [60, 2, 1280]."""
    from lplab.compression import ScaleCom
    from lplab.parallel import Learners, shards
    from lplab.training import tasks
    from lplab.training.loop.trainer import default_loss

    task = tasks.get("mlp")
    batches = shards(task.data(8 * PAIR, 0), PAIR)
    learners = Learners(task.model(0), default_loss, batches, ScaleCom(chunk=CHUNK), PAIR)
    recorded = []
    for _ in range(STEPS):
        recorded.append(learners.residuals(LAYER).astype(np.float64))
        learners.one_step()
    return np.stack(recorded)


@student_figure("Here both distances as your {name} finds them will be drawn")
def draw_similarity(function: Callable[..., Any]) -> Any:
    """A live figure of both distances of two learners over a training, or a line that says what it waits for.

    Args:
        function: takes the residuals of two learners [steps, elements] and k, and returns a pair for each step.
    """
    from lplab import figures
    from lplab.parallel import cosine_distance, hamming_distance

    m = residuals()
    k = -(-m.shape[2] // CHUNK)
    library = [(cosine_distance(pair), hamming_distance(pair, k)) if pair.any() else (np.nan, np.nan) for pair in m]
    (yours,) = read_results(function, [(m[:, 0], m[:, 1], k)], SIMILARITY.form, as_array)
    if np.shape(yours) != (STEPS, 2):
        raise NotReady(f"it returns an array of shape {np.shape(yours)}; one of shape ({STEPS}, 2) is needed")
    return figures.two_distances(np.array(library), yours)
