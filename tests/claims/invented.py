"""Invented results of a claim, to see whether its checks can hold and can fail, one by one."""

from lplab import claims
from lplab.claims.claim import key
from lplab.claims.store import Stored


def holds(claim, numbers):
    """Which findings hold, of the shape and of the explanations, if a function (point, seed) gives the numbers."""
    verdict = claims.judge(claim, Stored({key(p, s): numbers(dict(p), s) for p, s in claim.measurements()}))
    return [f.holds for f in verdict.findings], [f.holds for f in verdict.explained]


def but(numbers, name, value, **wanted):
    """The function with one number replaced where a point has these parameters (of any seed, or of seed=…)."""

    def changed(point, seed):
        found = numbers(point, seed)
        asked = point | {"seed": seed}
        fits = name in found and all(asked.get(k) == v for k, v in wanted.items())
        return found | {name: value} if fits else found

    return changed
