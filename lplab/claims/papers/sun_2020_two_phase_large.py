"""Sun et al. 2020, larger: one phase of radix-4 rounding against two on Fashion-MNIST, with the paper's learning rate.

The criteria are those of the small experiment. A bias adds up over steps times learning rate: of both together there is
three times as much, on real pictures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lplab.claims.framework.branches import above, loss_gaps, loss_gaps_text, paired_result
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.float32_end import Float32End
from lplab.claims.framework.larger_models import fashion_resnet20
from lplab.claims.framework.parity import ParityRow
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import median_and_range
from lplab.claims.framework.trainings import cosine, one_thread, train
from lplab.claims.papers import sun_2020_two_phase as small
from lplab.claims.papers.sun_2020_two_phase import FLOAT, POINTS, ROLES, SINGLE, SWITCHES, TUNING, TWO

if TYPE_CHECKING:
    from lplab.training import Trainer
    from lplab.training.loop.tasks import Task

DEPTH, WIDTH, STEPS = 20, 8, 1600  # layers; channels of the first third; of each training
BATCH, RATE, MOMENTUM = 64, 0.1, 0.9  # those of the task
PAPER_STEPS = 100 * 1_281_167 / 256  # ImageNet: 100 epochs, 256 pictures a batch
SMALL_BATCH, SMALL_RATE, SMALL_SIDE = 50, 0.05, 16

claim = ClaimBuilder.larger(
    small.SUN_2020_TWO_PHASE,
    experiment=f"A residual net of depth {DEPTH} and width {WIDTH} with batch norms on Fashion-MNIST, {STEPS:,} steps "
    f"of {BATCH} pictures by SGD with momentum {MOMENTUM}, the learning rate falling from {RATE} to zero: the whole "
    "INT4/FP4 recipe with one phase and with two, and float32, with the same weights and batches, compared seed by "
    "seed.",
    points=POINTS,
    seeds=(0, 1, 2, 3, 4),
    budget_seconds=2400,
    float32_ends=(Float32End("fashion_resnet20", {"recipe": FLOAT}, "half as wide", STEPS, BATCH),),
    limits="Less than two epochs of a net of 8 to 32 channels; the paper's trainings have 100 epochs and up to 512 "
    "channels. We could not read how the running means reach thousands there. Two explanations compare one phase with "
    "two. They were written after the run.",
    parity=(
        ParityRow("layers with weights", 18, "ResNet-18, read", small=small.DEPTH, large=DEPTH),
        ParityRow(
            "steps of a training",
            PAPER_STEPS,
            "100 epochs of ImageNet, 256 pictures a batch, read",
            small=small.STEPS,
            large=STEPS,
            why="500,000 steps of this net take eight hours of a core for each arm of each seed.",
        ),
        ParityRow(
            "learning rate over 1 − momentum",
            1.0,
            "the networks' defaults, read; 0.1 and 0.9, recalled",
            small=SMALL_RATE / (1 - MOMENTUM),
            large=RATE / (1 - MOMENTUM),
        ),
        ParityRow(
            "terms of the shortest sum of a 3 × 3 weight gradient",
            256 * 7 * 7,
            "ResNet-18 on ImageNet: 256 pictures, 7 × 7; computed from what was read",
            small=SMALL_BATCH * (SMALL_SIDE // 4) ** 2,
            large=BATCH * 4 * 4,
            why="Errors average out over the terms of a sum: in the last third of the net a picture of 14 × 14 has "
            "4 × 4 positions.",
        ),
        ParityRow(
            "share of the layers with four bits in all three products",
            16 / 18,
            "first and last layer wider, read",
            small=(small.DEPTH - 2) / small.DEPTH,
            large=(DEPTH - 2) / DEPTH,
        ),
    ),
    tried=(
        "Seed 100, which is not stored, for 800 steps on pictures averaged to 14 × 14, without weight decay: test "
        "errors 14.5 % (float32), 14.5 % (one phase) and 15.6 % (two phases), largest running means 3.8, 6.8 and 5.8. "
        "The number of steps was chosen by their time.",
    ),
)


def task() -> Task:
    """The residual net of twenty layers on Fashion-MNIST, narrow.

    >>> task().batch == BATCH, task().lr == RATE, dict(task().options)["momentum"] == MOMENTUM
    (True, True, True)
    """
    return fashion_resnet20(WIDTH)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Train the residual net once.

    Returns:
        As the small experiment; and ``mean_quarter`` and ``mean_half``, the largest running mean after a quarter and a
        half of the steps.
    """
    from lplab.training import Recorder, recipes, retune_batchnorm

    name = point["recipe"]
    chosen, means = task(), dict[int, float]()

    def watch(trainer: Trainer) -> None:
        if trainer.step in (STEPS // 4, STEPS // 2):
            means[trainer.step] = _largest_mean(trainer.model)

    recipe = recipes.get("int4_fp4_2020", **SWITCHES[name]) if name in SWITCHES else "fp32"
    recorder = Recorder(every=max(1, STEPS // 10), roles=ROLES)
    done = train(chosen, recipe, STEPS, seed, schedule=cosine(STEPS), recorder=recorder, watch=watch)
    values, model = done.numbers(), done.trainer.model
    values["mean"] = _largest_mean(model)
    values["mean_quarter"], values["mean_half"] = (
        means.get(STEPS // part, values["mean"]) for part in (4, 2)
    )  # of a training that diverged before, the last one
    data = chosen.data(chosen.batch, seed)
    with one_thread():
        retune_batchnorm(model, [data(step)[0] for step in range(TUNING)])
        loss = done.trainer.evaluate(*chosen.test())["loss"] / float(np.log(2))
    values["retuned"] = round(min(loss, values["loss"]) if done.diverged else loss, 6)
    for short, role in zip(("shrink_dx", "shrink_dw"), ROLES, strict=True):
        biases = [record.bias for record in recorder.records if record.role == role]
        values[short] = round(-float(np.median(biases)), 6) if name in SWITCHES else 0.0
    return values


def _largest_mean(model: Any) -> float:
    means = [module.running_mean for module in model.modules() if hasattr(module, "running_mean")]
    return round(min(max(float(mean.abs().max()) for mean in means), 1e9), 6)


def _numbers(results: Results, name: str, number: str = "loss") -> np.ndarray:
    return results.values(number, recipe=name)


def _points(results: Results, name: str) -> np.ndarray:
    """Points of accuracy lost against float32, seed by seed."""
    return _numbers(results, name, "error") - _numbers(results, FLOAT, "error")


claim.criterion("With one phase running means drift away")(small.means_drift_with_one_phase)
claim.criterion("With two phases they stay near float32's")(small.means_stay_with_two_phases)
claim.criterion("One phase is worse than two")(small.one_phase_is_worse)
claim.criterion("Batch norms measured anew bring one phase back")(small.retuning_recovers_one_phase)


@claim.explanation("With one phase they stay near float32's, too")
def means_stay_with_one_phase(results: Results) -> CheckResult:
    """Whether one phase passes the check of two phases as well, which then says nothing of the phases."""
    one = _numbers(results, SINGLE, "mean") / _numbers(results, FLOAT, "mean")
    return CheckResult(bool(one.max() <= small.NEAR), f"With one phase: {median_and_range(one)} times that of float32.")


@claim.explanation("The drift of one phase grows more with the steps than that of two phases")
def drift_grows(results: Results) -> CheckResult:
    """Whether more steps would show it: from a quarter of them on, one phase's means grow more than those of two."""
    parts = ("mean_quarter", "mean_half", "mean")
    texts, growths = [], []
    for name, words in ((SINGLE, "one phase"), (TWO, "two phases")):
        grown = [_numbers(results, name, part) / _numbers(results, FLOAT, part) for part in parts]
        quarter, half, end = (median_and_range(each) for each in grown)
        texts.append(f"with {words} {quarter} after a quarter of the steps, {half} after half, {end} at the end")
        growths.append(np.log2(grown[2] / grown[0]))
    text = f"The largest running mean in units of float32's: {'; '.join(texts)}."
    return paired_result(text, above(growths[0] - growths[1]))


@claim.explanation("In training one phase is worse than two")
def worse_in_training(results: Results) -> CheckResult:
    """Whether the training loss, a mean over more pictures than the test has, tells one phase from two."""
    gaps = loss_gaps(results, {"recipe": SINGLE}, {"recipe": TWO})
    return paired_result(f"One phase against two, the last tenth of the steps: {loss_gaps_text(gaps)}.", above(gaps[0]))


claim.explanation("Both phases shrink gradients alike")(small.both_shrink)
claim.explanation("Four bits cost more than the phases do")(small.four_bits_cost_more)
claim.summary(small.measured)

claim.draw("test loss, bits", lambda results: {name: _numbers(results, name) for name in (FLOAT, SINGLE, TWO)})
claim.draw(
    "largest running mean",
    lambda results: {name: _numbers(results, name, "mean") for name in (FLOAT, SINGLE, TWO)},
)


def in_their_unit(results: Results) -> str:
    """Points of accuracy lost against float32, and how far running means have grown, medians."""
    one, two = (float(np.median(_points(results, name))) for name in (SINGLE, TWO))
    grown = float(np.median(_numbers(results, SINGLE, "mean") / _numbers(results, FLOAT, "mean")))
    text = f"one phase loses {one:.1f} points, two phases {two:.1f}; running means {grown:.1f} times as large with one"
    return text.replace("-", "−")


claim.compared(
    theirs_on="ImageNet, ResNet-18",
    ours_on="Fashion-MNIST, a residual net of depth 20",
    rows=(
        {"one phase": "one phase", "two phases": "two phases"},
        {"one phase": "one phase", "two phases": "two phases"},
    ),
    ours=in_their_unit,
)
claim.found(
    small.means_drift_with_one_phase,
    small.means_stay_with_two_phases,
    holds="batch norms drift with one phase alone",
    fails="batch norms do not drift with one phase alone",
)
claim.found(
    means_stay_with_one_phase,
    holds="they stay near float32's with either",
    fails="with one phase they leave float32's",
)
claim.found(small.one_phase_is_worse, holds="one phase is worse than two", fails="one phase is no worse than two")
claim.found(
    small.retuning_recovers_one_phase,
    holds="batch norms measured anew mend one phase",
    fails="measuring batch norms anew mends nothing",
)

SUN_2020_TWO_PHASE_LARGE = claim.build()
