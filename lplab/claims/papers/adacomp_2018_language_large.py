"""AdaComp on a recurrent network for sixty-five times as many steps as an element waits, in five pairs.

The small experiment has two thousand steps at one learning rate and three pairs, which differ by more than what they
should show. Here the LSTM is unrolled as the paper's kind of network, and the learning rate falls.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.claims.framework.branches import PairedCondition, above, paired_result, paired_text
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.drawing import MEAN
from lplab.claims.framework.float32_end import Float32End
from lplab.claims.framework.parity import ParityRow
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.papers import adacomp_2018_language as small
from lplab.claims.papers.adacomp_2018 import LEARNERS, LSTM, TASKS, Counted, RecordingCompressor
from lplab.claims.papers.adacomp_2018_language import ADACOMP, ADACOMP_2018_LANGUAGE, DENSE, METHODS
from lplab.compression import AdaComp, Compressor, Dense

STEPS = 6500
BATCH, UNROLLED = 16, 50
BIN = TASKS[LSTM][2]
WAIT = BIN / 5  # steps, with the five elements a bin that the paper's ratio means
CONSTANT, FINAL = 0.2, 0.34  # share of the steps at the full learning rate, and what is left of it at the end
QUARTERS = (1, 2, 3, 4)

POINTS: tuple[Point, ...] = tuple({"method": method} for method in METHODS)
_STEPS_OF_THE_PAPER = 45 * 50_000 // 10  # epochs, samples, batch

claim = ClaimBuilder.larger(
    ADACOMP_2018_LANGUAGE,
    experiment=f"{LEARNERS} learners with {BATCH // LEARNERS} windows each train an LSTM of two layers, unrolled "
    f"through {UNROLLED} characters, on the novel for {STEPS:,} steps by Adam, with AdaComp and with uncompressed "
    f"gradients; the learning rate stays for {100 * CONSTANT:.0f} % of the steps and then falls evenly, by the same "
    f"factor each step, to {FINAL:g} of its value, as that of char-rnn does; the same weights and batches, compared "
    "seed by seed. Every message is decoded and counted, and the test is the whole last tenth of the novel.",
    points=POINTS,
    seeds=(0, 1, 2, 3, 4),
    budget_seconds=2700,
    float32_ends=(Float32End("novel_lstm", {"method": DENSE}, "half as wide", STEPS, BATCH),),
    limits=f"A small LSTM, each window of which begins with a state of zeros. {STEPS:,} steps are {STEPS / WAIT:.0f} "
    f"times as long as an element waits if each bin sends {BIN / WAIT:.0f}, in the paper some two thousand times. "
    "Steps, batch and unrolling of the paper's network are recalled.",
    parity=(
        ParityRow(
            "how long an element waits before it is sent, as a share of the steps", WAIT / _STEPS_OF_THE_PAPER,
            "5 of 500 follows from the ratio; 45 epochs of 50,000 samples in batches of 10, recalled",
            WAIT / small.STEPS, WAIT / STEPS,
            f"A factor of three takes {_STEPS_OF_THE_PAPER / 3:,.0f} steps: ten runs of them are some four hours on "
            "one core.",
        ),
        ParityRow("elements in a bin", 500, "recalled", BIN, BIN),
        ParityRow("windows in a batch, of all learners", 10, "recalled", 16, BATCH),
        ParityRow("characters through which it is unrolled", 50, "char-rnn's, recalled", 64, UNROLLED),
        ParityRow("recurrent layers", 2, "char-rnn's, recalled", 2, 2),
        ParityRow("learning rate at the end, of that at the beginning", 0.97**35, "char-rnn's, recalled", 1, FINAL),
        ParityRow("learners", None, "that of the LSTM is not in our notes", LEARNERS, LEARNERS),
        ParityRow("pairs of seeds", None, "none: one run of each", 3, 5),
    ),
    tried=("20 steps of each arm to time them. Nothing else was tried before: rate, batch and width are those of the "
           "task of the small experiment and of char-rnn.",),
)  # fmt: skip


def schedule_of(steps: int) -> Any:
    """The factor of the learning rate at each step.

    >>> factor = schedule_of(1000)
    >>> [round(factor(step), 3) for step in (0, 199, 600, 1000)]
    [1.0, 1.0, 0.583, 0.34]
    """
    return lambda step: FINAL ** (max(0.0, step / steps - CONSTANT) / (1 - CONSTANT))


def run(method: str, seed: int, steps: int) -> dict[str, float]:
    """Train once; the numbers that are stored: those of the small experiment, and the training loss of each quarter."""
    from lplab.claims.framework import learner_models
    from lplab.claims.framework.learner_trainings import train
    from lplab.parallel import layer_infos

    task = learner_models.stackable_lstm()
    counted = Counted(layer_infos(task.model(seed)))
    compressor: Compressor = Dense() if method == DENSE else RecordingCompressor(AdaComp(), counted.note)
    finished = train(
        task,
        compressor,
        LEARNERS,
        steps,
        seed,
        batch=BATCH,
        engine="stacked",
        schedule=schedule_of(steps),
        watch=lambda run: run.ledger.clear() if run.ledger else None,
    )
    window = max(1, steps // 20)
    ends = {f"train_loss_{k}": finished.losses[: max(1, steps * k // 4)][-window:] for k in QUARTERS}
    return {
        **finished.numbers(),
        **{name: round(float(np.mean(losses)) / float(np.log(2)), 6) for name, losses in ends.items()},
        **({} if method == DENSE else counted.numbers(BIN)),
    }


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Train once."""
    return run(point["method"], seed, STEPS)


claim.criterion("At least 200 times smaller, by the paper's counting")(small.ratio_holds)
claim.criterion("As good as uncompressed")(small.as_good_as_dense)


@claim.explanation("It is late, and catches up")
def late_not_lost(results: Results) -> CheckResult:
    """Behind uncompressed after a quarter of the steps, and by less at the end, on every seed."""
    gaps = [small.gap_of(results, f"train_loss_{k}") for k in QUARTERS]
    text = ", ".join(paired_text(gap, 3) for gap in gaps)
    wait = BIN / np.median(small.values_of(results, ADACOMP, "sent_per_bin"))
    return paired_result(
        f"The training loss after each quarter of the steps is above the uncompressed one by {text} bits; an element "
        f"waits for about {wait:.0f} of {STEPS:,} steps.",
        PairedCondition(gaps[0], sure=False),
        above(gaps[0] - gaps[-1]),
    )


claim.summary(small.measured)
claim.draw(
    "times smaller, as the paper counts",
    lambda results: {LSTM: small.values_of(results, ADACOMP, "paper")},
    {LSTM: 200},
)
claim.draw(
    "loss, bits above uncompressed",
    lambda results: {
        "test": small.gap_of(results),
        **{f"training, {k} of 4 quarters": small.gap_of(results, f"train_loss_{k}") for k in QUARTERS},
    },
    statistic=MEAN,
    differences=True,
)
claim.compared(
    theirs_on="text, a recurrent network",
    ours_on="characters, an LSTM of two layers",
    rows=({"LSTM": "LSTM, times smaller"}, {"test": "LSTM, test loss"}),
)
claim.found(small.ratio_holds, holds="at least 200 times smaller", fails="less than 200 times smaller")
claim.found(small.as_good_as_dense, holds=small.seeds_within, fails="loss not within 1 % of uncompressed")

ADACOMP_2018_LANGUAGE_LARGE = claim.build()
