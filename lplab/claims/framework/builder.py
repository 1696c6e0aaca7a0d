"""A claim written from top to bottom: what the paper states, how it is measured, how it is judged.

The module of a claim begins with a :class:`ClaimBuilder`. Functions join it by its decorators, and ``build`` gives the
finished :class:`~lplab.claims.Claim`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from lplab.claims.framework.badge import BadgeClause, Words
from lplab.claims.framework.claim import LONG, QUICK, Claim, larger_id
from lplab.claims.framework.drawing import MEDIAN, Drawing
from lplab.claims.framework.float32_end import Float32End
from lplab.claims.framework.parity import ParityRow
from lplab.claims.framework.results import Check, CheckResult, Numbers, Point, Results

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Measure = TypeVar("Measure", bound=Callable[[Point, int], Numbers])
Test = TypeVar("Test", bound=Callable[[Results], CheckResult])
Summary = TypeVar("Summary", bound=Callable[[Results], str])


@dataclass
class ClaimBuilder:
    """What a paper states and which measurements test it; the functions are added by decorators.

    The arguments are those of :class:`~lplab.claims.Claim`. Each decorator returns its function unchanged. Criteria and
    explanations are judged and printed in the order in which they stand in the module.

    >>> toy = ClaimBuilder(
    ...     "toy", title="More bits, less error", paper="A. Nobody: Bits, 2020", where="figure 1",
    ...     statement="Bits help.", published="1 %", experiment="Division.",
    ...     points=({"bits": 4}, {"bits": 8}), seeds=(0,),
    ... )
    >>> @toy.measurement
    ... def measure(point, seed):
    ...     return {"error": 16 / point["bits"]}
    >>> @toy.criterion("The error falls")
    ... def falls(results):
    ...     many, few = (results.median("error", bits=bits) for bits in (8, 4))
    ...     return CheckResult(many < few, f"{few} % with 4 bits, {many} % with 8.")
    >>> @toy.summary
    ... def measured(results):
    ...     return f"{results.median('error', bits=8)} %"
    >>> claim = toy.build()
    >>> claim.id, claim.criteria[0].statement, claim.measure({"bits": 8}, 0)
    ('toy', 'The error falls', {'error': 2.0})
    """

    id: str
    title: str
    paper: str
    where: str
    statement: str
    published: str
    experiment: str
    points: tuple[Point, ...]
    seeds: tuple[int, ...]
    budget_seconds: float = 60.0
    budget: str = QUICK
    limits: str = ""
    modelled: bool = False
    timed: bool = False
    version: int = 1
    larger_than: str = ""
    parity: tuple[ParityRow, ...] = ()
    tried: tuple[str, ...] = ()
    no_larger_run: str = ""
    float32_ends: tuple[Float32End, ...] = ()
    criteria: list[Check] = field(init=False, default_factory=list)
    explanations: list[Check] = field(init=False, default_factory=list)
    unit: Check | None = field(init=False, default=None)
    foreseen: Check | None = field(init=False, default=None)
    drawings: list[Drawing] = field(init=False, default_factory=list)
    badge: list[BadgeClause] = field(init=False, default_factory=list)
    theirs_on: str = field(init=False, default="")
    ours_on: str = field(init=False, default="")
    ours_beside: Callable[[Results], str] | None = field(init=False, default=None)
    measure: Callable[[Point, int], Numbers] | None = field(init=False, default=None)
    measured: Callable[[Results], str] | None = field(init=False, default=None)

    @classmethod
    def larger(
        cls,
        claim: Claim,
        *,
        experiment: str,
        points: tuple[Point, ...],
        seeds: tuple[int, ...],
        budget_seconds: float,
        limits: str,
        parity: tuple[ParityRow, ...],
        tried: tuple[str, ...],
        **parts: Any,
    ) -> ClaimBuilder:
        """Begin the larger experiment of a claim: what the paper states is the claim's.

        Args:
            claim: the claim with its small experiment.
            experiment: as the others those of :class:`~lplab.claims.Claim`; the budget is long.

        >>> from lplab.claims import get
        >>> large = ClaimBuilder.larger(
        ...     get("scalecom_2020"), experiment="Fashion-MNIST.", points=({"learners": 64},), seeds=(0, 1, 2),
        ...     budget_seconds=3600, limits="One data set.", tried=("Nothing was tried before.",),
        ...     parity=(ParityRow("examples a learner", 32, "table 2, read", small=1, large=16),),
        ... )
        >>> large.id, large.larger_than, large.budget, large.where
        ('scalecom_2020_large', 'scalecom_2020', 'long', 'tables 2 and 3')
        """
        stated = {name: getattr(claim, name) for name in ("title", "paper", "where", "statement", "published")}
        return cls(
            id=larger_id(claim.id), experiment=experiment, points=points, seeds=seeds, budget_seconds=budget_seconds,
            budget=LONG, limits=limits, larger_than=claim.id, parity=parity, tried=tried, **stated, **parts,
        )  # fmt: skip

    def measurement(self, function: Measure) -> Measure:
        """Decorator of the function that makes one measurement: (point, seed) → numbers by name.

        Raises:
            ValueError: there is one already.
        """
        if self.measure:
            raise ValueError(f"{self.id}: two functions are marked as its measurement")
        self.measure = function
        return function

    def criterion(self, statement: str) -> Callable[[Test], Test]:
        """Decorator of a check that decides: results → :class:`~lplab.claims.CheckResult`."""

        def add(function: Test) -> Test:
            self.criteria.append(Check(statement, function))
            return function

        return add

    def explanation(self, statement: str) -> Callable[[Test], Test]:
        """Decorator of a check that shows why, and does not decide."""

        def add(function: Test) -> Test:
            self.explanations.append(Check(statement, function))
            return function

        return add

    def of_the_unit(self, statement: str) -> Callable[[Test], Test]:
        """Decorator of the check whether the statement holds for the arithmetic unit alone: as :meth:`criterion`.

        Raises:
            ValueError: there is one already.
        """
        if self.unit:
            raise ValueError(f"{self.id}: two functions are marked as the check of the unit")

        def set_unit(function: Test) -> Test:
            self.unit = Check(statement, function)
            return function

        return set_unit

    def paper_says_why(self, statement: str) -> Callable[[Test], Test]:
        """Decorator of the check of the paper's own reason why the claim may not show here: as :meth:`criterion`.

        Raises:
            ValueError: there is one already.
        """
        if self.foreseen:
            raise ValueError(f"{self.id}: two functions are marked as the check of the paper's reason")

        def set_foreseen(function: Test) -> Test:
            self.foreseen = Check(statement, function)
            return function

        return set_foreseen

    def draw(
        self,
        unit: str,
        rows: Callable[[Results], Mapping[str, ArrayLike]],
        theirs: Mapping[str, float | Sequence[float]] | None = None,
        *,
        log: bool = False,
        axis: tuple[float, float] | None = None,
        statistic: str = MEDIAN,
        over: str = "seeds",
        differences: bool = False,
    ) -> None:
        """Add numbers to the small figure of the claim; the arguments are those of :class:`~lplab.claims.Drawing`."""
        self.drawings.append(Drawing(unit, rows, theirs or {}, log, axis, statistic, over, differences))

    def compared(
        self,
        *,
        theirs_on: str,
        ours_on: str,
        rows: Sequence[Mapping[str, str]] | None = None,
        ours: Callable[[Results], str] | None = None,
    ) -> None:
        """Say what stands in front of the card, after the figures were added.

        Args:
            theirs_on: network and data set of the paper's numbers, in a few words.
            ours_on: those of our numbers.
            rows: for each figure, which rows stand in front and under which plain label; a figure without rows is
                folded, and so are all figures after the last of these. By default all rows stand in front.
            ours: our numbers in the unit of the published ones, where the rows have another unit.
        """
        self.theirs_on, self.ours_on, self.ours_beside = theirs_on, ours_on, ours
        if rows is not None:
            fronts = [*rows, *[{}] * (len(self.drawings) - len(rows))]
            self.drawings = [replace(each, front=front) for each, front in zip(self.drawings, fronts, strict=True)]

    def found(self, *tests: Callable[[Results], CheckResult], holds: Words, fails: Words, limits: bool = False) -> None:
        """Add a clause to the badge: see :class:`~lplab.claims.framework.badge.BadgeClause`.

        Args:
            tests: functions that are marked as criteria, explanations, the check of the unit or of the paper's reason.
            holds: the words where all of them hold.
            fails: the words where one of them does not.
            limits: whether it speaks against the statement as a whole that they hold.

        Raises:
            ValueError: no function, or one that no decorator has marked.
        """
        marked = [*self.criteria, *self.explanations, *(check for check in (self.unit, self.foreseen) if check)]
        checks = [check for test in tests for check in marked if check.test is test]
        if not checks or len(checks) != len(tests):
            raise ValueError(f"{self.id}: the clause {holds!r} of the badge tells of functions that are no checks")
        self.badge.append(BadgeClause(tuple(checks), holds, fails, limits))

    def leaves_out(self, words: str) -> None:
        """Add to the badge what the experiment leaves out of the statement; the claim is then shown in part at most."""
        self.badge.append(BadgeClause((), words, "", limits=True))

    def summary(self, function: Summary) -> Summary:
        """Decorator of the function that says our numbers in a short text: results → text.

        Raises:
            ValueError: there is one already.
        """
        if self.measured:
            raise ValueError(f"{self.id}: two functions are marked as its summary")
        self.measured = function
        return function

    def build(self) -> Claim:
        """The claim, after the last of its functions.

        Raises:
            ValueError: the measurement or the summary is missing, or parts contradict each other.
        """
        if not (self.measure and self.measured):
            raise ValueError(f"{self.id}: a measurement and a summary are needed; mark their functions with decorators")
        lists = ("criteria", "explanations", "drawings", "badge")
        return Claim(**{**vars(self), **{name: tuple(getattr(self, name)) for name in lists}})
