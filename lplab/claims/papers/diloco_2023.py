"""Douillard et al. 2023 (DiLoCo): learners that meet seldom, and an outer optimizer that overshoots.

The abstract says that DiLoCo on 8 workers "performs as well as fully synchronous optimization while communicating 500
times less"; section 3 compares outer optimizers: Nesterov's momentum is best, plain averaging (SGD with rate 1) and
Adam are worse. The paper's own table has the synchronous run with the larger batch behind DiLoCo, and the one with as
many more updates in front of it. From this the criteria were written, before the first measurement with these seeds.
"""

from __future__ import annotations

from lplab.claims.bibliography import cite
from lplab.claims.framework.branches import above, paired_result, paired_text, within
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.claim import LONG
from lplab.claims.framework.drawing import MEAN
from lplab.claims.framework.local_trainings import BOUND, SEEDS, final_loss, trained
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results

LABELS = {
    "alone": "one learner alone",
    "mean": "plain mean",
    "nesterov": "Nesterov",
    "synchronous": "synchronous",
}  # by the names of the arms

claim = ClaimBuilder(
    id="diloco_2023",
    title="Learners that meet every 12 steps learn more with an outer Nesterov step than with the plain mean",
    paper=cite("diloco_2023"),
    where="abstract, section 3 and the tables of outer optimizers, learners and inner steps",
    statement="Eight workers that meet every 500 steps are as good as fully synchronous training. Nesterov's momentum "
    "is the best outer optimizer; the plain mean is worse.",
    published="perplexity 15.02; synchronous with the same tokens in an 8 times larger batch 15.30, in 8 times as many "
    "updates 14.72, one worker alone 16.23",
    experiment="A Transformer of two blocks, trained on characters for 800 steps; then 4 learners with 8 sequences a "
    "step go on for 240 steps. Every 12 steps they meet, and the shared weights move: to the plain mean of "
    "the learners, or towards it with Nesterov's momentum (rate 0.7, momentum 0.9). Synchronous is one learner with "
    "all 32 sequences a step. Compared seed by seed: the loss of 32,768 test characters.",
    points=tuple({"arm": name} for name in LABELS),
    seeds=SEEDS,
    budget_seconds=500,
    budget=LONG,
    limits="A hundred thousand parameters, 20 meetings, learners that draw from the same text.",
)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Test losses (bits) on the way and at the end, bytes that one learner sent."""
    return trained(point["arm"], seed)


@claim.criterion("Nesterov's momentum is better than the plain mean")
def nesterov_is_better(results: Results) -> CheckResult:
    """Met every 12 steps, the outer Nesterov step ends surely below the plain mean."""
    gap = final_loss(results, "mean") - final_loss(results, "nesterov")
    return paired_result(f"Bits that Nesterov's momentum saves: {paired_text(gap)}.", above(gap))


@claim.criterion("Better than alone")
def better_than_alone(results: Results) -> CheckResult:
    """Four learners that meet every 12 steps end surely below one alone, with either outer step."""
    gaps = [final_loss(results, "alone") - final_loss(results, arm) for arm in ("mean", "nesterov")]
    text = f"Bits below one learner alone: the mean {paired_text(gaps[0])}, Nesterov {paired_text(gaps[1])}."
    return paired_result(text, *map(above, gaps))


@claim.criterion("As good as synchronous")
def as_good_as_synchronous(results: Results) -> CheckResult:
    """DiLoCo ends surely within 0.027 bits of the synchronous training that sees the same characters."""
    gap = final_loss(results, "nesterov") - final_loss(results, "synchronous")
    return paired_result(f"DiLoCo minus synchronous: {paired_text(gap)} bits.", within(gap, BOUND))


def closed(results: Results, arm: str) -> float:
    """The share of the gap from alone to synchronous that an arm closes, in the mean over the seeds."""
    alone, together = final_loss(results, "alone"), final_loss(results, "synchronous")
    return float(((alone - final_loss(results, arm)) / (alone - together)).mean())


@claim.summary
def measured(results: Results) -> str:
    """The losses, and the share of the gap that the meetings close."""
    losses = ", ".join(f"{label} {final_loss(results, arm).mean():.3f}" for arm, label in LABELS.items())
    shares = ", ".join(f"{LABELS[arm]} {100 * closed(results, arm):.0f} %" for arm in ("mean", "nesterov"))
    sent = results.values("bytes", arm="synchronous")[0] / results.values("bytes", arm="nesterov")[0]
    return (
        f"bits a character: {losses}; of the gap between alone and synchronous they close: {shares}, with "
        f"{sent:.0f} times fewer bytes"
    )


claim.draw(
    "test loss, bits a character",
    lambda results: {label: final_loss(results, arm) for arm, label in LABELS.items()},
    statistic=MEAN,
)

claim.compared(
    theirs_on="C4, 150 million parameters, 8 workers",
    ours_on="characters, 0.1 million parameters, 4 learners",
    rows=({label: label for label in LABELS.values()},),
)
claim.found(
    nesterov_is_better,
    holds="an outer step with Nesterov's momentum beats the plain mean",
    fails="an outer step with Nesterov's momentum does not surely beat the plain mean",
)
claim.found(
    better_than_alone,
    holds="both beat one learner alone",
    fails="not surely better than one learner alone",
)
claim.found(
    as_good_as_synchronous,
    holds="as good as synchronous",
    fails="not as good as synchronous with the same characters",
)

DILOCO_2023 = claim.build()
