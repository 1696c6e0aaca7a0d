"""The badge of a claim: in a few words what was found, each of them bound to a check of the stored numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lplab.claims.framework.results import UNDECIDED, Check, CheckResult, Results

Words = str | Callable[[Results], str]


@dataclass(frozen=True)
class BadgeClause:
    """One clause of a badge: words for checks that hold, and other words for checks that do not.

    Nobody chooses between the words: the stored numbers do, through the checks.

    Args:
        checks: the clause holds if all of them do. It is undecided if none is refuted and at least one is undecided.
        holds: the words where it holds. Instead of a text, a function of the results that returns one.
        fails: the words where it does not.
        limits: whether a clause that holds speaks against the statement as a whole. Such a claim is shown in part at
            most.
    """

    checks: tuple[Check, ...] = field(repr=False)
    holds: Words
    fails: Words
    limits: bool = False

    def is_met(self, found: Mapping[Check, CheckResult]) -> bool:
        """Whether all checks hold, by what each of them found."""
        return all(found[check].holds for check in self.checks)

    def text(self, found: Mapping[Check, CheckResult], results: Results) -> str:
        """The words that these findings call for; numbers in them come from the results."""
        refuted = any(not (found[check].holds or found[check].undecided) for check in self.checks)
        words = self.fails if refuted else self.holds
        said = words if isinstance(words, str) else words(results)
        return said if refuted or self.is_met(found) else f"{said} ({UNDECIDED})"


def badge_text(clauses: tuple[BadgeClause, ...], found: Mapping[Check, CheckResult], results: Results) -> str:
    """All clauses in their order, with a dot between them."""
    return " · ".join(clause.text(found, results) for clause in clauses)
