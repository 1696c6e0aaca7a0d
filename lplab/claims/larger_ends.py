"""Where the float32 trainings of the larger experiments end, beside the recorded baselines of such networks."""

from __future__ import annotations

import numpy as np

from lplab.claims.claim_catalogue import LARGER
from lplab.claims.framework.claim_verdict import judge
from lplab.claims.framework.store import read_stored
from lplab.recordings.float32_baselines import BATCHES, PICTURES, float32_baselines


def larger_runs_table() -> str:
    """Where the float32 trainings of the larger experiments end, as Markdown, for ``docs/baselines.md``.

    Each experiment says itself which of its trainings these are (``float32_ends`` of its claim). Experiments that are
    not measured yet, or whose baseline is not recorded yet, have no row.

    >>> larger_runs_table().splitlines()[0].partition(" | steps")[0]
    '| larger experiment | its network'
    """
    seen = "seen, of the examples above"
    head = ("larger experiment", "its network", "steps × examples", seen, "float32 there", "against above")
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    measured = [(claim, numbers) for claim in LARGER if judge(claim, numbers := read_stored(claim)).findings]
    for task, baseline in float32_baselines().items():
        base, usual = float(np.mean(baseline.values)), BATCHES[baseline.plan.unit]
        for claim, numbers in measured:
            for end in (each for each in claim.float32_ends if each.task == task):
                results, batch = numbers.results(claim), end.batch or usual
                if baseline.plan.unit == PICTURES:
                    value = 100 - float(np.mean(results.values("error", **end.point)))
                    here, beside = f"{value:.1f} %", _apart(value - base, 1, "points")
                else:
                    value = float(np.mean(results.values("loss", **end.point)))
                    here, beside = f"{value:.2f} bits", _apart(value - base, 2, "bits")
                cells = (
                    f"[`{claim.id}`](claims.md#{claim.id})",
                    f"{baseline.plan.network.partition(',')[0]}: {end.network}",
                    f"{end.steps:,} × {batch}",
                    f"{end.steps * batch / (baseline.plan.steps * usual):.0%}".replace("%", " %"),
                    here,
                    beside,
                )
                lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _apart(gap: float, digits: int, unit: str) -> str:
    if not round(gap, digits):
        return "the same"
    return f"{abs(gap):.{digits}f} {unit} {'higher' if gap > 0 else 'lower'}"
