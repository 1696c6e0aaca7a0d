"""The verdict on a claim, from its numbers alone."""

from __future__ import annotations

from dataclasses import dataclass

from lplab.claims.claim import Claim, Finding
from lplab.claims.store import Stored

SHOWN, NOT_SHOWN, UNTESTABLE, INCOMPLETE = "shown", "not shown", "not testable in miniature", "not measured"


@dataclass(frozen=True)
class Verdict:
    """A verdict and what it rests on.

    Attributes:
        word: "shown", "not shown", "not testable in miniature", or "not measured" while numbers are missing.
        findings: of the shape, in its order: these decide.
        explained: of the further checks.
        missing: measurements that are not there.
    """

    word: str
    findings: tuple[Finding, ...] = ()
    explained: tuple[Finding, ...] = ()
    missing: int = 0

    @property
    def is_shown(self) -> bool:
        """Whether all of the shape holds."""
        return self.word == SHOWN


def judge(claim: Claim, numbers: Stored) -> Verdict:
    """Judge a claim by the numbers that are stored of it: "shown" if, and only if, every part of its shape holds."""
    if claim.untestable:
        return Verdict(UNTESTABLE)
    missing = len(numbers.missing(claim))
    if missing:
        return Verdict(INCOMPLETE, missing=missing)
    results = numbers.results(claim)
    findings = tuple(check.test(results) for check in claim.shape)
    word = SHOWN if all(finding.holds for finding in findings) else NOT_SHOWN
    return Verdict(word, findings, tuple(check.test(results) for check in claim.explained))
