"""Stored numbers that somebody made up: a claim's own, changed in some places."""

from collections.abc import Callable, Mapping
from typing import Any

from lplab import claims
from lplab.claims import Claim, Verdict
from lplab.claims.claim import key
from lplab.claims.store import Stored


def changed(claim: Claim, change: Callable[[dict, dict], Mapping[str, float]]) -> Stored:
    """The stored numbers, each measurement replaced by change(point, numbers)."""
    rows = claims.stored(claim).results(claim).rows
    return Stored({key(p, s): change(dict(p), dict(n)) for p, s, n in rows})


def where(wanted: Mapping[str, Any], **numbers: Any) -> Callable[[dict, dict], dict]:
    """A change: these numbers (or functions of the old ones) at all points that agree with ``wanted``."""

    def change(point: dict, old: dict) -> dict:
        if any(point.get(k) != v for k, v in wanted.items()):
            return old
        return old | {name: float(new(old) if callable(new) else new) for name, new in numbers.items()}

    return change


def judged(claim: Claim, change: Callable[[dict, dict], Mapping[str, float]]) -> Verdict:
    """The verdict on the claim if its numbers were those."""
    return claims.judge(claim, changed(claim, change))
