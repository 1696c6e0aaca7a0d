"""Where the float32 trainings of the larger experiments end, beside the recorded baselines of such networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lplab.claims.claim_catalogue import get
from lplab.claims.framework.claim_verdict import judge
from lplab.claims.framework.store import stored
from lplab.claims.papers import adacomp_2018_language_large as adacomp
from lplab.claims.papers import error_feedback_large as feedback
from lplab.claims.papers import scalecom_2020_large as scalecom
from lplab.claims.papers import sun_2020_ablation_large as ablation
from lplab.claims.papers import sun_2020_two_phase_large as phases
from lplab.claims.papers import wang_2018_training_large as chunks
from lplab.recordings.float32_baselines import BATCHES, BITS, PICTURES, float32_baselines


@dataclass(frozen=True)
class LargerRun:
    """The float32 training of a larger experiment, beside the baseline that it is to be compared with.

    Attributes:
        task: of the baseline, by its name in :mod:`lplab.claims.framework.larger_models`.
        claim: the id of the larger experiment.
        point: its parameters that select float32, or gradients that are not compressed.
        network: how its network differs from that of the baseline.
        steps: of its training.
        batch: examples in a step, of all learners.
    """

    task: str
    claim: str
    point: Mapping[str, Any]
    network: str
    steps: int
    batch: int


def larger_runs() -> tuple[LargerRun, ...]:
    """The larger experiments whose networks are of the kind of a baseline; steps are those of their modules.

    >>> [run.steps for run in larger_runs() if run.claim == "wang_2018_training_large"]
    [300]
    """
    narrow, text = "half as wide", ablation.PLANS[ablation.TEXT]
    return (
        LargerRun(
            "fashion_resnet8", "wang_2018_training_large", {"sums": chunks.FLOAT}, narrow, chunks.STEPS, chunks.BATCH
        ),
        LargerRun(
            "fashion_resnet8",
            "error_feedback_large",
            {"method": feedback.DENSE, "memory": True},
            narrow,
            feedback.STEPS,
            feedback.LEARNERS * feedback.BATCH,
        ),
        *(
            LargerRun(
                "fashion_resnet8",
                "scalecom_2020_large",
                {"learners": each.learners, "method": scalecom.DENSE},
                f"{narrow}, {each.learners} learners",
                each.steps,
                each.learners * each.examples,
            )
            for each in (scalecom.FEW, scalecom.MANY)
        ),
        LargerRun(
            "fashion_resnet20", "sun_2020_two_phase_large", {"recipe": phases.FLOAT}, narrow, phases.STEPS, phases.BATCH
        ),
        LargerRun(
            "novel_transformer",
            "sun_2020_ablation_large",
            {"network": ablation.TEXT, "recipe": ablation.FLOAT},
            "the same",
            text.before + text.steps,
            BATCHES[BITS],
        ),
        LargerRun(
            "novel_lstm", "adacomp_2018_language_large", {"method": adacomp.DENSE}, narrow, adacomp.STEPS, adacomp.BATCH
        ),
    )


def larger_runs_table() -> str:
    """Where the float32 trainings of the larger experiments end, as Markdown, for ``docs/baselines.md``.

    Experiments that are not measured yet, or whose baseline is not recorded yet, have no row.

    >>> larger_runs_table().splitlines()[0].partition(" | steps")[0]
    '| larger experiment | its network'
    """
    seen = "seen, of the examples above"
    head = ("larger experiment", "its network", "steps × examples", seen, "float32 there", "against above")
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    baselines = float32_baselines()
    for run in larger_runs():
        claim = get(run.claim)
        numbers = stored(claim)
        if run.task not in baselines or not judge(claim, numbers).findings:
            continue
        baseline = baselines[run.task]
        results, base = numbers.results(claim), float(np.mean(baseline.values))
        if baseline.plan.unit == PICTURES:
            value = 100 - float(np.mean(results.values("error", **run.point)))
            here, beside = f"{value:.1f} %", _apart(value - base, 1, "points")
        else:
            value = float(np.mean(results.values("loss", **run.point)))
            here, beside = f"{value:.2f} bits", _apart(value - base, 2, "bits")
        cells = (
            f"[`{run.claim}`](claims.md#{run.claim})",
            f"{baseline.plan.network.partition(',')[0]}: {run.network}",
            f"{run.steps:,} × {run.batch}",
            f"{run.steps * run.batch / (baseline.plan.steps * BATCHES[baseline.plan.unit]):.0%}".replace("%", " %"),
            here,
            beside,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _apart(gap: float, digits: int, unit: str) -> str:
    return f"{abs(gap):.{digits}f} {unit} {'higher' if gap > 0 else 'lower'}"
