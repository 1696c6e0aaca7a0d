"""Chen et al. 2018 (AdaComp): a recurrent network on text, trained long enough that what waits has come.

With bins of 500 and about four elements sent of each, an element waits for more than a hundred steps. A training of 500
steps ends before it can show whether that harms: so this claim is of the long budget.
"""

from __future__ import annotations

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.branches import PairedCondition, above, paired_result, paired_text, within
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.claim import LONG
from lplab.claims.framework.drawing import MEAN
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import median_and_range
from lplab.claims.papers.adacomp_2018 import LEARNERS, LSTM, PUBLISHED, TASKS, run

STEPS = 2000
DENSE, ADACOMP = METHODS = ("dense", "adacomp")
BOUND = 0.01  # of dense's loss: what "no noticeable loss" allows

POINTS: tuple[Point, ...] = tuple({"method": method} for method in METHODS)

claim = ClaimBuilder(
    id="adacomp_2018_language",
    title="AdaComp: a recurrent network as accurate with gradients 200 times smaller",
    paper=cite("adacomp_2018"),
    where="abstract; the counting of section 3 (recalled)",
    statement="Gradients of recurrent layers become about 200 times smaller without noticeable loss of accuracy, in "
    "language, too.",
    published="200 times with bins of 500, which are 5 elements a bin at 16 bits each (the abstract, read; the "
    "counting, recalled)",
    experiment=f"{LEARNERS} learners in one process train an LSTM of two layers on the characters of a novel, "
    f"{STEPS:,} steps by Adam, with AdaComp and with uncompressed gradients; the same weights and batches, compared "
    "seed by seed. Every message is decoded and counted.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=1800,
    budget=LONG,
    limits=f"A small LSTM and a short training: {STEPS:,} steps are some fifteen times as long as an element waits, in "
    "the paper some two thousand times. Three pairs bound a difference only where they agree.",
)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Train once."""
    return run(LSTM, point["method"], seed, STEPS)


def values_of(results: Results, method: str, number: str = "loss") -> np.ndarray:
    """A number of a method, seed by seed."""
    return results.values(number, method=method)


def gap_of(results: Results, number: str = "loss") -> np.ndarray:
    """AdaComp minus uncompressed, seed by seed."""
    return values_of(results, ADACOMP, number) - values_of(results, DENSE, number)


@claim.criterion("At least 200 times smaller, by the paper's counting")
def ratio_holds(results: Results) -> CheckResult:
    """Every seed's ratio is at least the published one."""
    ratio, sent = (values_of(results, ADACOMP, number) for number in ("paper", "sent_per_bin"))
    return CheckResult(
        bool(ratio.min() >= PUBLISHED[LSTM]),
        f"{median_and_range(ratio, 0)} times smaller as the paper counts ({median_and_range(sent, 1)} elements in each "
        f"bin of {TASKS[LSTM][2]}).",
    )


@claim.criterion("As good as uncompressed")
def as_good_as_dense(results: Results) -> CheckResult:
    """The test loss is surely within 1 % of that with uncompressed gradients."""
    gap, base = gap_of(results), values_of(results, DENSE)
    bound = BOUND * float(base.mean())
    errors = [float(np.median(values_of(results, method, "error"))) for method in (ADACOMP, DENSE)]
    return paired_result(
        f"AdaComp minus uncompressed, test loss, mean of {gap.size} pairs: {paired_text(gap)} bits. Every pair must "
        f"surely be within 1 %, which is {bound:.3f}; {int((gap > bound).sum())} of {gap.size} is not (uncompressed "
        f"{median_and_range(base, 3)}; {errors[0]:.1f} % wrong, uncompressed {errors[1]:.1f} %).",
        within(gap, bound),
    )


@claim.explanation("It is late, and catches up")
def late_not_lost(results: Results) -> CheckResult:
    """Behind uncompressed by less at the end than in the middle, on every seed: what is kept back comes late."""
    half, end = gap_of(results, "train_loss_half"), gap_of(results, "train_loss")
    wait = TASKS[LSTM][2] / np.median(values_of(results, ADACOMP, "sent_per_bin"))
    return paired_result(
        f"The training loss is behind the uncompressed one by {paired_text(half)} bits after {STEPS // 2:,} steps and "
        f"by {paired_text(end)} (means of the pairs) after {STEPS:,}; an element waits for about {wait:.0f} steps.",
        PairedCondition(half, sure=False),
        above(half - end),
    )


@claim.summary
def measured(results: Results) -> str:
    """Ratio and losses."""
    paper, payload = (float(np.median(values_of(results, ADACOMP, number))) for number in ("paper", "payload"))
    ours, base = (median_and_range(values_of(results, method), 3) for method in (ADACOMP, DENSE))
    ratios = f"{paper:.0f} times as the paper counts, {payload:.0f} as bytes"
    return f"{ratios}, median test loss {ours} bits (uncompressed {base})"


claim.draw(
    "times smaller, as the paper counts", lambda results: {LSTM: values_of(results, ADACOMP, "paper")}, {LSTM: 200}
)
claim.draw(
    "loss, bits above uncompressed",
    lambda results: {"test": gap_of(results), "training": gap_of(results, "train_loss")},
    statistic=MEAN,
    differences=True,
)

claim.compared(
    theirs_on="text, a recurrent network",
    ours_on="characters, an LSTM of two layers",
    rows=(
        {"LSTM": "LSTM, times smaller"},
        {"test": "LSTM, test loss"},
    ),
)
claim.found(ratio_holds, holds="at least 200 times smaller", fails="less than 200 times smaller")


def seeds_within(results: Results) -> str:
    """On how many seeds the test loss is within 1 % of that with uncompressed gradients, for the badge."""
    gap = gap_of(results)
    fine = int((gap <= BOUND * float(values_of(results, DENSE).mean())).sum())
    return f"loss within 1 % on {fine} of {gap.size} seeds"


claim.found(
    as_good_as_dense,
    holds=seeds_within,
    fails="loss not within 1 % of uncompressed",
)

ADACOMP_2018_LANGUAGE = claim.build()
