"""The verdict on a claim, computed from its stored numbers."""

from __future__ import annotations

from dataclasses import dataclass

from lplab.claims.framework.claim import CheckResult, Claim
from lplab.claims.framework.store import Stored

SHOWN, NOT_SHOWN, UNTESTABLE, INCOMPLETE = "shown", "not shown", "not testable in miniature", "not measured"


@dataclass(frozen=True)
class Verdict:
    """A verdict and the results of the checks.

    Attributes:
        word: "shown", "not shown", "not testable in miniature", or "not measured" while numbers are missing.
        findings: the results of the criteria, in their order: these decide.
        explanations: the results of the further checks.
        missing: measurements that are not there.
    """

    word: str
    findings: tuple[CheckResult, ...] = ()
    explanations: tuple[CheckResult, ...] = ()
    missing: int = 0

    @property
    def is_shown(self) -> bool:
        """Whether all criteria hold."""
        return self.word == SHOWN

    @property
    def explained(self) -> tuple[CheckResult, ...]:
        """The former name of ``explanations``."""
        return self.explanations


def judge(claim: Claim, numbers: Stored) -> Verdict:
    """Judge a claim by its stored numbers: "shown" if, and only if, every criterion holds."""
    if claim.untestable:
        return Verdict(UNTESTABLE)
    missing = len(numbers.missing(claim))
    if missing:
        return Verdict(INCOMPLETE, missing=missing)
    results = numbers.results(claim)
    findings = tuple(check.test(results) for check in claim.criteria)
    word = SHOWN if all(finding.holds for finding in findings) else NOT_SHOWN
    return Verdict(word, findings, tuple(check.test(results) for check in claim.explanations))
