"""A capstone of a class on the overview: the recipes of students and the published ones, with the Pareto front."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lplab.exercises.capstone.capstone_exercise import CapstoneJudge, score_in
from lplab.exercises.capstone.capstone_value import Capstone
from lplab.exercises.capstone.points import Marking, pareto_front
from lplab.exercises.capstone.scores import CostAxis
from lplab.exercises.grading.marks import Student

WIDTH, HEIGHT = 560, 260  # of a panel, in units of the drawing
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 12, 44  # its margins
MAX_ROWS = 500  # of the table: of a larger class the smallest gaps are listed, and all are drawn
LEAST_GAP = 1e-3  # bits: the lower end of the logarithmic axis; smaller gaps are drawn there
GAP_TICKS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
MOST_GAP, MOST_COST = 1.6, 1.15  # times the largest of the field or the budget; recipes above are drawn at the edge


@dataclass(frozen=True)
class ScoredRecipe:
    """One recipe: whose it is, its costs along the axes, the mean gap, points."""

    name: str
    costs: tuple[float, ...]
    gap: float
    points: float = 0.0
    is_published: bool = False


@dataclass(frozen=True)
class Dot:
    """A point of a panel, in units of the drawing."""

    x: float
    y: float
    label: str
    is_published: bool
    is_on_front: bool


@dataclass(frozen=True)
class Panel:
    """A panel: the title of its x axis, its points, the front as the points of an SVG line, ticks, the budget."""

    title: str
    dots: Sequence[Dot]
    front: str
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    budget: float


@dataclass(frozen=True)
class CapstoneView:
    """What the overview shows of a capstone.

    Attributes:
        capstone: it is.
        seeds: the recipes were scored on.
        marking: how points follow from a gap.
        recipes: of the class and of the field, by rising gap; the first ones.
        count: how many there are.
        front: of these, the names of those that no other one is better than, along one of the axes.
        panels: gap against the costs, one for each axis.
    """

    capstone: Capstone
    seeds: tuple[int, ...]
    marking: Marking
    recipes: Sequence[ScoredRecipe]
    count: int
    front: frozenset[str]
    panels: Sequence[Panel]


def capstone_view(judge: CapstoneJudge, students: Iterable[Student]) -> CapstoneView:
    """The view of a class whose recipes this judge has scored."""
    capstone = judge.capstone
    recipes = [ScoredRecipe(one.name, one.costs.on_axes, one.gap, is_published=True) for one in judge.field]
    for student in students:
        mark = student.marks.get(capstone.id)
        if mark is not None and (found := score_in(mark.lines, capstone)):
            costs, gaps = found
            recipes.append(ScoredRecipe(student.name, costs.on_axes, float(np.mean(gaps)), mark.points))
    recipes.sort(key=lambda one: (one.gap, one.name))
    panels = [
        _panel(axis, [one.costs[place] for one in recipes], recipes) for place, axis in enumerate(capstone.costs.AXES)
    ]
    front = frozenset(dot.label for panel in panels for dot in panel.dots if dot.is_on_front)
    seeds = tuple(judge.known)
    return CapstoneView(capstone, seeds, judge.marking, recipes[:MAX_ROWS], len(recipes), front, panels)


def _panel(axis: CostAxis, costs: Sequence[float], recipes: Sequence[ScoredRecipe]) -> Panel:
    front = pareto_front(costs, [one.gap for one in recipes])
    field = [place for place, one in enumerate(recipes) if one.is_published]
    top = math.log10(MOST_GAP * max(recipes[place].gap for place in field))
    most = MOST_COST * max(axis.budget, *(costs[place] for place in field))
    place_of = (lambda cost: math.log10(max(cost, 1.0))) if axis.is_logarithmic else float
    low, high = place_of(min(*costs, axis.budget)), place_of(min(max(*costs, axis.budget), most))
    room = 0.05 * (high - low or 1.0)
    low, high = low - room, high + room

    def x_of(cost: float) -> float:
        return round(LEFT + (place_of(min(cost, most)) - low) / (high - low) * (WIDTH - LEFT - RIGHT), 1)

    def y_of(gap: float) -> float:
        height = min(math.log10(max(gap, LEAST_GAP)), top) - math.log10(LEAST_GAP)
        return round(HEIGHT - BOTTOM - height / (top - math.log10(LEAST_GAP)) * (HEIGHT - TOP - BOTTOM), 1)

    decades = range(math.ceil(low), math.floor(high) + 1)
    ticks = [10.0**decade for decade in decades] if axis.is_logarithmic else _ticks(low, high)
    dots = [
        Dot(x_of(cost), y_of(one.gap), one.name, one.is_published, place in front)
        for place, (cost, one) in enumerate(zip(costs, recipes, strict=True))
    ]
    return Panel(
        axis.title,
        dots,
        " ".join(f"{dots[place].x},{dots[place].y}" for place in front),
        [(x_of(value), f"{value:,g}") for value in ticks],
        [(y_of(value), f"{value:g}") for value in GAP_TICKS if math.log10(value) <= top],
        x_of(axis.budget),
    )


def _ticks(low: float, high: float) -> list[float]:
    """Three to seven round numbers between two ends.

    >>> _ticks(4.8, 9.2), _ticks(540, 790)
    ([5.0, 6.0, 7.0, 8.0, 9.0], [550.0, 600.0, 650.0, 700.0, 750.0])
    """
    unit = 10.0 ** math.floor(math.log10((high - low) / 3))
    wide = (unit * factor for factor in (1, 2, 5) if (high - low) / (unit * factor) >= 3)
    step = max(wide, default=unit)  # none where 0.3 / 0.1 is a little less than 3
    first, last = math.ceil(low / step), math.floor(high / step)
    return [round(step * i, 10) for i in range(first, last + 1)]
