"""What a small figure of a claim shows: rows of numbers over the seeds, and the published number beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from lplab.claims.framework.results import Results


MEDIAN, MEAN, RANGE = STATISTICS = ("median", "mean", "range")
"""What stands beside the marks of a row: a middle with the range in brackets, or the range alone."""


@dataclass(frozen=True)
class DrawnRow:
    """One row of a figure: our values, and the published ones on the same axis.

    Attributes:
        label: what the values are of.
        values: ours, one a seed, or one a case where a model computes them: float64 [values].
        theirs: the published number, or several if a range is published; empty where it has another unit.
    """

    label: str
    values: np.ndarray
    theirs: tuple[float, ...] = ()


@dataclass(frozen=True)
class Drawing:
    """How rows are made from the stored numbers; all rows share one axis.

    Args:
        unit: the quantity and its unit, as the heading of the axis.
        rows: function of the results that returns our values by label.
        theirs: published numbers by label, in the same unit: a number or several.
        logarithmic: whether the axis is; values that are not positive are then drawn at its lower end.
        axis: the least range of the axis, (lower, upper); it grows if a value lies outside.
        statistic: the number beside the marks of a row: the one that the claim's sentences use of the same values, so
            that a reader sees one number for one thing. "mean" of differences in pairs, "median" of other values, and
            "range" where the sentences have no middle.
        over: what the values of a row are of, in the plural: seeds, or the cases of a model.
        differences: whether the values are differences or changes, so that 0 means none: the figure has a line at 0.
        front: which rows stand in front of the card, and under which plain label; the others are folded. By default all
            rows stand in front.

    Raises:
        ValueError: a statistic that is none of the three.
    """

    unit: str
    rows: Callable[[Results], Mapping[str, ArrayLike]] = field(repr=False)
    theirs: Mapping[str, float | Sequence[float]] = field(default_factory=dict)
    logarithmic: bool = False
    axis: tuple[float, float] | None = None
    statistic: str = MEDIAN
    over: str = "seeds"
    differences: bool = False
    front: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if self.statistic not in STATISTICS:
            raise ValueError(f"statistic must be {', '.join(STATISTICS[:-1])} or {RANGE}, got {self.statistic!r}")

    def middle(self, row: DrawnRow) -> float | None:
        """The number that stands beside a row; None where its range alone does.

        >>> row = DrawnRow("8 bits", np.array([1.0, 2.0, 6.0]))
        >>> Drawing("error", dict).middle(row), Drawing("error", dict, statistic="mean").middle(row)
        (2.0, 3.0)
        """
        if self.statistic == RANGE and np.ptp(row.values):
            return None
        return float(np.mean(row.values) if self.statistic == MEAN else np.median(row.values))

    def beside(self, rows: Sequence[DrawnRow]) -> str:
        """What the numbers beside the marks are, in words; nothing where each row is a single number.

        >>> row = DrawnRow("8 bits", np.array([1.0, 2.0, 6.0]))
        >>> Drawing("error", dict, statistic="mean").beside([row])
        'mean of 3 seeds (smallest–largest)'
        >>> Drawing("error", dict, statistic="range", over="networks").beside([row])
        'smallest–largest of 3 networks'
        """
        counts = {len(row.values) for row in rows if len(row.values) > 1}
        if not counts:
            return ""
        of = f"{'–'.join(map(str, sorted({min(counts), max(counts)})))} {self.over}"
        return (
            f"smallest–largest of {of}" if self.statistic == RANGE else f"{self.statistic} of {of} (smallest–largest)"
        )

    def in_front(self, rows: Sequence[DrawnRow]) -> tuple[DrawnRow, ...]:
        """The rows in front of the card, in the order of ``front``, with the labels that they have there.

        Raises:
            ValueError: a label that no row has.

        >>> row = DrawnRow("lr=5e-4, wrong", np.array([1.0]))
        >>> Drawing("error", dict, front={"lr=5e-4, wrong": "8 bits"}).in_front([row])
        (DrawnRow(label='8 bits', values=array([1.]), theirs=()),)
        """
        if self.front is None:
            return tuple(rows)
        named = {row.label: row for row in rows}
        unknown = [label for label in self.front if label not in named]
        if unknown:
            raise ValueError(f"{', '.join(unknown)} in front, but the rows are {', '.join(named)}")
        return tuple(replace(named[label], label=plain) for label, plain in self.front.items())

    def drawn(self, results: Results) -> tuple[DrawnRow, ...]:
        """The rows of these results, in their order.

        Raises:
            ValueError: a published number has a label that no row has, or a value is not finite.

        >>> from lplab.claims.framework.results import Results
        >>> made = Drawing("error, %", lambda results: {"8 bits": results.values("error", bits=8)}, {"8 bits": 1.4})
        >>> made.drawn(Results([({"bits": 8}, 0, {"error": 2.0}), ({"bits": 8}, 1, {"error": 4.0})]))
        (DrawnRow(label='8 bits', values=array([2., 4.]), theirs=(1.4,)),)
        """
        values = {label: np.atleast_1d(np.asarray(v, np.float64)) for label, v in self.rows(results).items()}
        unknown = [label for label in self.theirs if label not in values]
        if unknown:
            raise ValueError(f"published numbers of {', '.join(unknown)}, but the rows are {', '.join(values)}")
        wrong = [label for label, v in values.items() if not (v.size and np.isfinite(v).all())]
        if wrong:
            raise ValueError(f"nothing that can be drawn for {', '.join(wrong)}")
        published = {label: tuple(np.atleast_1d(v).tolist()) for label, v in self.theirs.items()}
        return tuple(DrawnRow(label, v, published.get(label, ())) for label, v in values.items())
