"""Points for a recipe of one's own, from the gaps of published recipes on the same seeds.

1. A recipe that is over the budget, whose training diverges on some seed, or that does what one of the field does,
   earns nothing. Any other earns :data:`FOR_BUDGET` points.
2. Up to :data:`AT_BEST` points are given by its gap, in a straight line from the gap of a plain recipe to the
   smallest gap of a published recipe that keeps the budget. In lab 14 the plain one is MXFP4 (all six operands,
   nearest rounding, no helpers). In lab 16 it is one learner alone, whose gap is 1.
3. The rest, up to :data:`MAX_POINTS`, is for a smaller gap than that, in a straight line to half of it.
4. Half points are given, rounded down.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from lplab.exercises.capstone.scores import Score

MAX_POINTS, AT_BEST, FOR_BUDGET = 12, 9, 3


@dataclass(frozen=True)
class Marking:
    """The gaps between which points are given.

    Attributes:
        plain: the gap of the plain recipe.
        best: the smallest gap of a published recipe that keeps the budget.
        best_name: the name of that recipe.
        gaps: of each published recipe, seed by seed.
        plain_name: the name of the plain recipe.
        unit: of gaps.
    """

    plain: float
    best: float
    best_name: str
    gaps: tuple[tuple[float, ...], ...] = ()
    plain_name: str = "plain MXFP4"
    unit: str = "bits"

    def is_of_the_field(self, score: Score) -> bool:
        """Whether this recipe does what a published one does: as its data say, or since every gap is the same.

        Gaps have six digits behind the point, and the seeds are the same.
        """
        return score.is_published or score.gaps in self.gaps

    def points(self, score: Score) -> float:
        """The points of a score.

        >>> from lplab.exercises.capstone.costs import Costs
        >>> def gap(value):
        ...     return Score("mine", Costs(5.0, 0.55), (0, 1), (value, value))
        >>> [Marking(0.05, 0.03, "NVFP4").points(gap(bits)) for bits in (0.06, 0.04, 0.03, 0.02, 0.0)]
        [3.0, 6.0, 9.0, 11.0, 12.0]
        """
        if not score.is_done or score.diverged or not score.keeps_budget or self.is_of_the_field(score):
            return 0.0
        gaps, points = [self.best / 2, self.best, self.plain], [MAX_POINTS, AT_BEST, FOR_BUDGET]
        return math.floor(2 * float(np.interp(score.gap, gaps, points)) + 1e-9) / 2

    def reason(self, score: Score) -> str:
        """Why a score has its points, in one line."""
        if not score.keeps_budget:
            told = "It costs more than the budget allows."
            if not score.gaps:
                return told
            seeds = ", ".join(map(str, score.seeds[: len(score.gaps)]))
            where = "" if score.is_done else f", on seed {seeds} alone, as it earns nothing on the others"
            return f"{told} Its gap is {score.gap:+.4f} {self.unit}{where}."
        if not score.is_done:
            return "It was not scored."
        if score.diverged:
            return f"Its training diverged on {score.diverged} of {len(score.seeds)} seeds."
        if self.is_of_the_field(score):
            return "It is a recipe of the field as it is. Change a key that changes the training."
        return (
            f"Its gap is {score.gap:+.4f} {self.unit}. Within the budget every recipe that is not a published one has "
            f"{FOR_BUDGET} points. It has more below a gap of {self.plain:+.4f} {self.unit} ({self.plain_name}): "
            f"{AT_BEST} at {self.best:+.4f} ({self.best_name}), and {MAX_POINTS} at half of that. "
            "Points are rounded down to half a point."
        )


def marking_of(
    field: Iterable[Score], plain: str = "plain MXFP4", unit: str = "bits", plain_gap: float | None = None
) -> Marking:
    """The marking that follows from the scores of the published recipes.

    Args:
        field: the scores.
        plain: the name of the plain recipe.
        unit: of gaps.
        plain_gap: the gap of the plain recipe; None: as the field has it.

    Raises:
        ValueError: the plain recipe is missing, no published recipe keeps the budget, or the best of these is not
            between a gap of 0 and that of the plain recipe.
    """
    field = tuple(field)
    scores = {score.name: score for score in field}
    if plain_gap is None and plain not in scores:
        raise ValueError(f"the field needs {plain!r}, got {', '.join(scores) or 'nothing'}")
    above = scores[plain].gap if plain_gap is None else plain_gap
    kept = [score for name, score in scores.items() if name != plain and score.keeps_budget and not score.diverged]
    best = min(kept, key=lambda score: score.gap, default=None)
    if best is None or not 0 < best.gap < above:
        raise ValueError(f"no published recipe that keeps the budget lies between no gap and {plain} on these seeds")
    gaps = tuple(score.gaps for score in field)
    return Marking(above, best.gap, best.name, gaps, plain, unit)


def pareto_front(costs: Iterable[float], gaps: Iterable[float]) -> list[int]:
    """The places of the points that no other one is better than, by rising cost: cheaper, with at most its gap.

    >>> pareto_front([5.2, 6.4, 6.9, 5.2], [0.04, 0.01, 0.03, 0.05])
    [0, 1]
    """
    found: list[int] = []
    least = math.inf
    for place, (_, gap) in sorted(enumerate(zip(costs, gaps, strict=True)), key=lambda entry: entry[1]):
        if gap < least:
            found.append(place)
            least = gap
    return found
