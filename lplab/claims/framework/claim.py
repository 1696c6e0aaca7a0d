"""A claim: a statement of a paper, a small experiment, and criteria that the measured numbers must meet."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from lplab.claims.framework.badge import BadgeClause
from lplab.claims.framework.drawing import Drawing
from lplab.claims.framework.results import Check, Numbers, Point, Results, key

QUICK, LONG = BUDGETS = ("quick", "long")
"""Of a claim: all quick ones together take less than 40 minutes on two cores; a long one takes up to some hours."""


@dataclass(frozen=True)
class Claim:
    """A published claim and a small experiment that tests it.

    Args:
        id: lower case, for the command line and the file.
        version: to be raised when the experiment changes: stored numbers of another version do not count.
        title: the claim in a few words.
        paper: authors, title, venue, year.
        where: section, table or figure.
        statement: what the paper states, in one or two sentences.
        published: the published numbers.
        experiment: what is done here instead, in one or two sentences.
        points: the parameters of all measurements.
        seeds: every point is measured with each of them.
        measure: function of (point, seed) that returns the numbers by name; defined at the top of a module, so that
            other processes find it.
        criteria: the checks that decide: the verdict is "shown" if all of them hold.
        measured: function of the results that returns our numbers as a short text.
        explanations: further checks, which show why; they do not decide.
        budget_seconds: what all measurements may take together, on one core.
        budget: "quick" or "long": which ``lplab claims run`` measures it, without ``--long`` or with it.
        limits: what does not carry over.
        modelled: whether the numbers are computed by a model instead of measured in a training.
        timed: whether the numbers are costs, which other measurements beside them would distort: one at a time.
        untestable: why no miniature can show this; then there are no points, and the verdict says so.
        drawings: what a small figure shows of the numbers; each has an axis of its own.
        unit: a check of the arithmetic unit alone, for a statement that is repeated as one about a whole training: if
            the criteria do not hold and this does, the verdict is "shown for the unit, not for a training".
        foreseen: a check of the reason that the paper itself gives why a small experiment would not show the statement:
            if the criteria do not hold and this does, the verdict is "not shown, and the paper says why".
        badge: what was found, in a few clauses; each criterion belongs to one of them.
        theirs_on: network and data set of the paper's numbers, in a few words.
        ours_on: network and data set of our numbers.
        ours_beside: function of the results that returns our numbers in the unit of the published ones, for the card,
            where its rows have another unit.

    Raises:
        ValueError: parts that are missing or contradict each other.
    """

    id: str
    version: int
    title: str
    paper: str
    where: str
    statement: str
    published: str
    experiment: str
    points: tuple[Point, ...] = field(repr=False)
    seeds: tuple[int, ...]
    measure: Callable[[Point, int], Numbers] = field(repr=False)
    criteria: tuple[Check, ...] = field(repr=False)
    measured: Callable[[Results], str] = field(repr=False)
    explanations: tuple[Check, ...] = field(repr=False, default=())
    budget_seconds: float = 60.0
    budget: str = QUICK
    limits: str = ""
    modelled: bool = False
    timed: bool = False
    untestable: str = ""
    drawings: tuple[Drawing, ...] = field(repr=False, default=())
    unit: Check | None = None
    foreseen: Check | None = None
    badge: tuple[BadgeClause, ...] = field(repr=False, default=())
    theirs_on: str = ""
    ours_on: str = ""
    ours_beside: Callable[[Results], str] | None = field(repr=False, default=None)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", self.id):
            raise ValueError(f"a claim's id must be lower-case letters, digits and underscores, got {self.id!r}")
        if self.budget not in BUDGETS:
            raise ValueError(f"{self.id}: budget must be {' or '.join(BUDGETS)}, got {self.budget!r}")
        if self.untestable and (self.points or self.criteria):
            raise ValueError(f"{self.id}: a claim that cannot be tested has no points and no criteria")
        if not self.untestable and not (self.points and self.seeds and self.criteria):
            raise ValueError(f"{self.id}: points, seeds and criteria are needed, or a reason in untestable")
        if len({*self.keys()}) != len(self.points) * len(self.seeds):
            raise ValueError(f"{self.id}: duplicate point or seed")

    def keys(self) -> list[str]:
        """All measurements, as text (:func:`key`), in the order in which they are stored."""
        return [key(point, seed) for point in self.points for seed in self.seeds]

    def measurements(self) -> list[tuple[Point, int]]:
        """All measurements: (point, seed), in the order in which they are stored."""
        return [(point, seed) for point in self.points for seed in self.seeds]

    @property
    def command(self) -> str:
        """The command that measures what is missing."""
        return f"lplab claims run {self.id}{' --long' if self.budget == LONG else ''}"
