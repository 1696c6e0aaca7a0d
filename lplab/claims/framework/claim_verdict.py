"""The verdict on a claim, computed from its stored numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lplab.claims.framework.badge import badge_text
from lplab.claims.framework.claim import Claim
from lplab.claims.framework.results import UNDECIDED, CheckResult
from lplab.claims.framework.store import Stored, read_stored

SHOWN, NOT_SHOWN, UNTESTABLE, INCOMPLETE = "shown", "not shown", "not testable in miniature", "not measured"
IN_PART, NOT_SURE = "shown in part", UNDECIDED
OF_THE_UNIT = "shown for the unit, not for a training"
FORESEEN = "not shown, and the paper says why"


@dataclass(frozen=True)
class ClaimVerdict:
    """A verdict and the results of the checks.

    Attributes:
        word: "shown"; "shown in part" where some criteria hold, or where all do and the badge names a limit;
            "undecided" where no criterion holds and none is refuted; "not shown"; "shown for the unit, not for a
            training" where only the check of the arithmetic unit holds; "not shown, and the paper says why" where a
            reason that the paper itself gives is seen here; "not testable in miniature"; or "not measured" while
            numbers are missing.
        findings: the results of the criteria, in their order: these decide.
        explanations: the results of the further checks.
        missing: measurements that are not there.
        unit: the result of the check of the arithmetic unit alone, where the claim has one.
        foreseen: the result of the check of the paper's own reason for not showing, where the claim has one.
        badge: what was found, in a few words; empty where the claim has no clauses, or is not judged.
    """

    word: str
    findings: tuple[CheckResult, ...] = ()
    explanations: tuple[CheckResult, ...] = ()
    missing: int = 0
    unit: CheckResult | None = None
    foreseen: CheckResult | None = None
    badge: str = ""

    @property
    def is_shown(self) -> bool:
        """Whether all criteria hold, and no limit that the badge names."""
        return self.word == SHOWN


def stored(claim: Claim | str, folder: str | Path | None = None) -> Stored:
    """The stored numbers of a claim; empty if there is no file, or only one of another version of the claim.

    Args:
        claim: the claim or larger experiment, or its id.
        folder: of the files; by default ``data/claims``.

    Raises:
        ValueError: an unknown id; or the file cannot be read, or is of another claim.

    >>> from lplab import claims
    >>> stored("gupta_2015") == stored(claims.get("gupta_2015"))
    True
    """
    return read_stored(claim_named(claim), folder)


def claim_named(claim: Claim | str) -> Claim:
    """A claim or larger experiment, or that with this id; ValueError for an unknown one."""
    from lplab.claims.claim_catalogue import get  # which imports every claim, and they this package

    return get(claim) if isinstance(claim, str) else claim


def judge(claim: Claim | str, numbers: Stored | None = None) -> ClaimVerdict:
    """Judge a claim by its stored numbers: "shown" only if every criterion holds, and no limit that its badge names.

    A claim of the long budget that was stopped is judged on its first seeds, if three or more of them are whole
    (:meth:`~lplab.claims.Stored.seeds`); the others need all of their measurements.

    Where a statement does not show, two further checks are judged, if the claim has them. One is of the arithmetic unit
    alone: some numbers are true of a unit and repeated as ones of trainings. The other is of the paper's own reason why
    a small experiment would not show it.

    Args:
        claim: the claim or larger experiment, or its id.
        numbers: those to judge by; by default those that are stored (:func:`~lplab.claims.stored`).

    Raises:
        ValueError: an unknown id, or stored numbers that cannot be read.

    >>> judge("gupta_2015").word
    'shown'
    """
    claim = claim_named(claim)
    numbers = read_stored(claim) if numbers is None else numbers
    if claim.untestable:
        return ClaimVerdict(UNTESTABLE)
    counted = numbers.seeds(claim)
    missing = numbers.missing(claim)
    if any(seed in counted for _, seed in missing):
        return ClaimVerdict(INCOMPLETE, missing=len(missing))
    results = numbers.results(claim)
    further = [check for check in (claim.unit, claim.foreseen) if check]
    results_of = {check: check.result(results) for check in (*claim.criteria, *claim.explanations, *further)}
    findings = tuple(results_of[check] for check in claim.criteria)
    word = SHOWN if all(finding.holds for finding in findings) else NOT_SHOWN
    explanations = tuple(results_of[check] for check in claim.explanations)
    unit = results_of[claim.unit] if claim.unit else None
    foreseen = results_of[claim.foreseen] if claim.foreseen else None
    if word == NOT_SHOWN and unit and unit.holds:
        word = OF_THE_UNIT
    if word == NOT_SHOWN and foreseen and foreseen.holds:
        word = FORESEEN
    if word == NOT_SHOWN and any(finding.holds for finding in findings):
        word = IN_PART
    if word == NOT_SHOWN and all(finding.undecided for finding in findings):
        word = NOT_SURE
    if word == SHOWN and any(clause.limits and clause.is_met(results_of) for clause in claim.badge):
        word = IN_PART
    badge = badge_text(claim.badge, results_of, results)
    return ClaimVerdict(word, findings, explanations, unit=unit, foreseen=foreseen, badge=badge)
