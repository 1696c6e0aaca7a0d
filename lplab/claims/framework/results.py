"""Measured numbers of a claim, looked up by parameters, and the checks that test them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Point = Mapping[str, Any]  # the parameters of one measurement: text, numbers, True or False
Numbers = Mapping[str, float]  # what was measured, by name

UNDECIDED = "undecided"
"""Of a check that does not hold and whose opposite is not sure either."""


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
