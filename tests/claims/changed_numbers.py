"""Changed or invented numbers of a claim, to test whether each of its checks can hold and can fail."""

from collections.abc import Callable, Mapping
from typing import Any

from lplab import claims
from lplab.claims import Claim, ClaimVerdict
from lplab.claims.framework.results import key
from lplab.claims.framework.store import Stored


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


def judged(claim: Claim, change: Callable[[dict, dict], Mapping[str, float]]) -> ClaimVerdict:
    """The verdict on the claim if its numbers were those."""
    return claims.judge(claim, changed(claim, change))


def holds(claim, numbers):
    """Which findings hold, of the criteria and of the explanations, if a function (point, seed) gives the numbers."""
    verdict = claims.judge(claim, Stored({key(p, s): numbers(dict(p), s) for p, s in claim.measurements()}))
    return [f.holds for f in verdict.findings], [f.holds for f in verdict.explanations]


def but(numbers, name, value, **wanted):
    """The function with one number replaced where a point has these parameters (of any seed, or of seed=…)."""

    def changed(point, seed):
        result = numbers(point, seed)
        asked = point | {"seed": seed}
        fits = name in result and all(asked.get(k) == v for k, v in wanted.items())
        return result | {name: value} if fits else result

    return changed
