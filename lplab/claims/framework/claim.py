"""A claim: a statement of a paper, a small experiment, and criteria that the measured numbers must meet."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lplab.claims.framework.drawing import Drawing

if TYPE_CHECKING:
    from lplab.claims.framework.badge import BadgeClause

Point = Mapping[str, Any]  # the parameters of one measurement: text, numbers, True or False
Numbers = Mapping[str, float]  # what was measured, by name

UNDECIDED = "undecided"
"""Of a check that does not hold and whose opposite is not sure either."""

QUICK, LONG = BUDGETS = ("quick", "long")
"""Of a claim: all quick ones together take less than 40 minutes on two cores; a long one takes up to some hours."""


def key(point: Point, seed: int) -> str:
    """One measurement as text, the same for the same parameters in any order.

    >>> key({"fraction_bits": 8, "rounding": "up"}, 0)
    '{"fraction_bits": 8, "rounding": "up", "seed": 0}'
    """
    return json.dumps({**point, "seed": seed}, sort_keys=True)


@dataclass(frozen=True)
class CheckResult:
    """The result of a check: whether it holds, a sentence with the numbers, and the statement that was checked.

    Attributes:
        holds: whether the numbers meet the condition; only this counts in a verdict.
        sentence: the numbers in words.
        statement: what was checked.
        undecided: whether a condition that is not met is not refuted either: the seeds are too few to be sure.

    Raises:
        ValueError: a check that holds and is undecided.
    """

    holds: bool
    sentence: str
    statement: str = ""
    undecided: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "holds", bool(self.holds))  # json cannot write numpy.bool
        object.__setattr__(self, "undecided", bool(self.undecided))
        if self.holds and self.undecided:
            raise ValueError(f"a check that holds is not undecided: {self.sentence}")

    def in_words(self, true: str, false: str) -> str:
        """One of two words, or "undecided".

        >>> [CheckResult(False, "3 %", undecided=u).in_words("so it is", "not so") for u in (True, False)]
        ['undecided', 'not so']
        """
        return UNDECIDED if self.undecided else true if self.holds else false

    @property
    def text(self) -> str:
        """The statement, then the numbers.

        >>> CheckResult(False, "Wrong in float32: 60 %.", "The network has learned").text
        'The network has learned. Wrong in float32: 60 %.'
        """
        return f"{self.statement}. {self.sentence}" if self.statement else self.sentence


@dataclass(frozen=True)
class Check:
    """One criterion: a statement, and a function of the results that tests it."""

    statement: str
    test: Callable[[Results], CheckResult]

    def result(self, results: Results) -> CheckResult:
        """What the test finds, with the statement."""
        return replace(self.test(results), statement=self.statement)


class Results:
    """The measured numbers of a claim, looked up by parameters.

    Args:
        rows: (point, seed, numbers), any order.

    >>> results = Results([({"bits": 8}, 1, {"error": 4.0}), ({"bits": 8}, 0, {"error": 2.0})])
    >>> results.values("error", bits=8)
    array([2., 4.])
    """

    def __init__(self, rows: Iterable[tuple[Point, int, Numbers]]) -> None:
        self.rows = sorted(rows, key=lambda row: row[1])
        # by all parameters of a point: the most frequent look-up
        self._exact: dict[str, list[tuple[Point, int, Numbers]]] = {}
        for row in self.rows:
            self._exact.setdefault(key(row[0], 0), []).append(row)

    def __len__(self) -> int:
        return len(self.rows)

    def values(self, number: str, **parameters: Any) -> np.ndarray:
        """A number of all measurements with these parameters, in the order of their seeds: float64 [seeds].

        Raises:
            ValueError: there is no such measurement, or the parameters are not enough to select one point.
        """
        result = self._exact.get(key(parameters, 0)) or [
            row for row in self.rows if all(row[0].get(k) == v for k, v in parameters.items())
        ]
        if not result:
            raise ValueError(f"no measurement at {parameters}")
        if len({key(point, 0) for point, _, _ in result}) > 1:
            raise ValueError(f"{parameters} is more than one point; give more parameters")
        return np.array([numbers[number] for _, _, numbers in result], dtype=np.float64)

    def median(self, number: str, **parameters: Any) -> float:
        """The median over the seeds; as :meth:`values`."""
        return float(np.median(self.values(number, **parameters)))

    def along(self, axis: str, **parameters: Any) -> list[Any]:
        """The values of one parameter that were measured together with the others, in rising order.

        >>> Results([({"bits": 8}, 0, {}), ({"bits": 4}, 0, {})]).along("bits")
        [4, 8]
        """
        rows = [p for p, _, _ in self.rows if all(p.get(k) == v for k, v in parameters.items())]
        return sorted({p[axis] for p in rows if axis in p})


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
