"""A claim: a statement of a paper, a small experiment, and criteria that the measured numbers must meet."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lplab.claims.framework.badge import BadgeClause
from lplab.claims.framework.drawing import Drawing
from lplab.claims.framework.float32_end import Float32End
from lplab.claims.framework.parity import ParityRow
from lplab.claims.framework.results import Check, Numbers, Point, Results, key
from lplab.lookup import refuse_wrong_attributes

QUICK, LONG = BUDGETS = ("quick", "long")
"""Of a claim: all quick ones together take less than 40 minutes on two cores; a long one takes up to some hours."""


def larger_id(claim_id: str) -> str:
    """The id of a claim's larger experiment.

    >>> larger_id("scalecom_2020")
    'scalecom_2020_large'
    """
    return f"{claim_id}_large"


@dataclass(frozen=True)
class Claim:
    """A published claim and an experiment that tests it: a small one, or a larger one of the same claim.

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
        larger_than: of a larger experiment, the id of the claim whose small experiment it repeats at a size where the
            statement can show. Its own id is then that one with "_large" behind it, and its budget is long.
        parity: the numbers that decide whether an experiment can show the claim, the paper's beside ours. They stand in
            the larger experiment, or, where there is none, in the claim.
        tried: of a larger experiment, what was tried before the stored run, one sentence each, with numbers; or
            :data:`~lplab.claims.framework.parity.NOTHING_TRIED`.
        float32_ends: of a larger experiment, its float32 trainings whose networks have a recorded baseline.
        no_larger_run: of a claim with parity and without a larger experiment, why no run of this size can have one.

    Raises:
        ValueError: parts that are missing or contradict each other.
    """

    if not TYPE_CHECKING:
        __getattr__ = refuse_wrong_attributes("lplab.claims.Claim")

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
    larger_than: str = ""
    parity: tuple[ParityRow, ...] = field(repr=False, default=())
    tried: tuple[str, ...] = field(repr=False, default=())
    no_larger_run: str = field(repr=False, default="")
    float32_ends: tuple[Float32End, ...] = field(repr=False, default=())

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
        if self.larger_than:
            self._check_larger()
        elif self.tried or any(each.large is not None for each in self.parity):
            raise ValueError(f"{self.id}: tried and values of a larger experiment belong to one with larger_than")
        elif bool(self.parity) != bool(self.no_larger_run):
            raise ValueError(f"{self.id}: a claim without a larger experiment has parity and no_larger_run, or neither")

    def _check_larger(self) -> None:
        if self.id != larger_id(self.larger_than):
            raise ValueError(f"{self.id}: the larger experiment of {self.larger_than} is {larger_id(self.larger_than)}")
        if self.budget != LONG:
            raise ValueError(f"{self.id}: a larger experiment is of the budget {LONG!r}, got {self.budget!r}")
        if not (self.parity and self.tried):
            raise ValueError(f"{self.id}: a larger experiment needs parity, and tried (or NOTHING_TRIED)")
        if self.no_larger_run:
            raise ValueError(f"{self.id}: no_larger_run belongs to a claim without a larger experiment")
        for each in self.parity:
            if each.large is None:
                raise ValueError(f"{self.id}: the row {each.name!r} of parity has no value of the larger experiment")

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
