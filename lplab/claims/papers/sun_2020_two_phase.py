"""Sun et al. 2020: one phase of radix-4 rounding lets batch norms drift, two phases do not.

A bias of a gradient adds up over steps and layers, so the net is deep for this library and its trainings are long: the
claim is of the long budget.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.branches import above, paired_result, paired_text, surely_above
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.claim import LONG
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words, median_and_range
from lplab.claims.framework.trainings import cosine, one_thread, train

DEPTH, STEPS = 20, 1000  # convolutions and the linear layer; of each training
TUNING = 40  # batches that batch norms are measured on, half of an epoch
ROLES = ("output_gradient_dx", "output_gradient_dw")
FLOAT, SINGLE, TWO = "float32", "one phase", "two phases"
SWITCHES: dict[str, dict[str, Any]] = {SINGLE: {"phases": "single"}, TWO: {"phases": "two"}}
NEAR = 2.0  # times the running mean of float32: still near it

POINTS: tuple[Point, ...] = tuple({"recipe": name} for name in (FLOAT, *SWITCHES))

claim = ClaimBuilder(
    id="sun_2020_two_phase",
    version=2,
    title="Two phases of rounding keep batch norms in place, one lets them drift",
    paper=cite("sun_2020"),
    where="sections 3.3 and 4, figures 4 and 5",
    statement="Gradients that are rounded in one phase for both products bias dW; running means of batch norms grow to "
    "thousands, and accuracy falls. Rounded in two phases they stay near those of float32.",
    published="one phase loses more than 4.5 %, two phases about 1 %; running means reach "
    "thousands with one phase; measuring them anew makes the loss flat again (read)",
    experiment=f"A residual net of depth {DEPTH} with batch norms on cluttered digits, {STEPS:,} steps by SGD with "
    "momentum 0.9, the learning rate falling to zero: the whole INT4/FP4 recipe with one phase and with two, and "
    "float32, with the same weights and batches, compared seed by seed.",
    points=POINTS,
    seeds=(0, 1, 2, 3, 4),
    budget_seconds=7200,
    budget=LONG,
    limits=f"A net of eight channels for {STEPS:,} steps: the paper's have hundreds of channels and some hundred "
    "thousand steps, over which a small bias adds up: their running means reach thousands, ours grow by a small "
    "factor. The character Transformer, which has no batch norms, tells one phase from two in sun_2020_ablation.",
)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Train the residual net once.

    Returns:
        Besides the losses (bits) ``retuned``, the held-out loss with batch norms measured anew; ``mean``, the largest
        running mean of a channel; ``shrink_dx`` and ``shrink_dw``, by what share rounding makes the gradients smaller
        on average (median over layers and steps; with one phase dx and dW share a rounding, recorded as dx's).
    """
    from lplab import models
    from lplab.training import Recorder, recipes, retune_batchnorm, tasks

    name = point["recipe"]
    task = replace(tasks.get("resnet"), model=lambda seed: models.resnet(depth=DEPTH, seed=seed))
    recipe = recipes.get("int4_fp4_2020", **SWITCHES[name]) if name in SWITCHES else "fp32"
    recorder = Recorder(every=101, roles=ROLES)
    done = train(task, recipe, STEPS, seed, schedule=cosine(STEPS), recorder=recorder)
    values = done.numbers()
    model, data = done.trainer.model, done.task.data(done.task.batch, seed)
    means = [module.running_mean for module in model.modules() if hasattr(module, "running_mean")]
    values["mean"] = round(min(max(float(mean.abs().max()) for mean in means), 1e9), 6)
    with one_thread():
        retune_batchnorm(model, [data(step)[0] for step in range(TUNING)])
        loss = done.trainer.evaluate(*done.task.test())["loss"] / float(np.log(2))
    values["retuned"] = round(min(loss, values["loss"]) if done.diverged else loss, 6)
    for short, role in zip(("shrink_dx", "shrink_dw"), ROLES, strict=True):
        biases = [record.bias for record in recorder.records if record.role == role]
        values[short] = round(-float(np.median(biases)), 6) if name in SWITCHES else 0.0
    return values


def _numbers(results: Results, name: str, number: str = "loss") -> np.ndarray:
    return results.values(number, recipe=name)


def _gap(results: Results, number: str = "loss") -> np.ndarray:
    """One phase minus two, seed by seed."""
    return _numbers(results, SINGLE, number) - _numbers(results, TWO, number)


def _grown(results: Results, name: str) -> np.ndarray:
    """The largest running mean, in units of float32's on the same seed."""
    return _numbers(results, name, "mean") / _numbers(results, FLOAT, "mean")


@claim.criterion("With one phase running means drift away")
def means_drift_with_one_phase(results: Results) -> CheckResult:
    """With one phase the largest running mean is surely above float32's and above that of two phases."""
    one, two = _grown(results, SINGLE), _grown(results, TWO)
    return paired_result(
        f"The largest running mean with one phase: {median_and_range(one)} times that of float32 on the same seed, and "
        f"{median_and_range(one / two)} times that of two phases.",
        above(np.log2(one)),
        above(np.log2(one / two)),
    )


@claim.criterion("With two phases they stay near float32's")
def means_stay_with_two_phases(results: Results) -> CheckResult:
    """With two phases the largest running mean is at most twice that of float32, on every seed."""
    two, floats = _grown(results, TWO), _numbers(results, FLOAT, "mean")
    return CheckResult(
        bool(two.max() <= NEAR),
        f"With two phases: {median_and_range(two)} times that of float32, which is {median_and_range(floats, 1)}.",
    )


@claim.criterion("One phase is worse than two")
def one_phase_is_worse(results: Results) -> CheckResult:
    """One phase ends surely above two in the test loss, with the same weights and batches."""
    gap = _gap(results)
    losses = join_words([f"{name} {median_and_range(_numbers(results, name), 3)}" for name in (FLOAT, SINGLE, TWO)])
    text = f"One phase against two, test loss: {paired_text(gap, 3)} bits, seed by seed ({losses})."
    return paired_result(text, above(gap))


@claim.criterion("Batch norms measured anew bring one phase back")
def retuning_recovers_one_phase(results: Results) -> CheckResult:
    """One phase surely loses against two, and batch norms measured anew take back most of that."""
    before, after = _gap(results), _gap(results, "retuned")
    lost = surely_above(before)
    return CheckResult(
        lost and float(after.mean()) < float(before.mean()) / 2,
        f"One phase against two after batch norms were measured anew: {paired_text(after, 3)} bits, before "
        f"{paired_text(before, 3)}" + ("." if lost else "; there was nothing sure to take back."),
    )


@claim.explanation("Both phases shrink gradients alike")
def both_shrink(results: Results) -> CheckResult:
    """Rounding makes gradients smaller on average in both phases: two of them do not centre the error."""
    single = float(np.median(_numbers(results, SINGLE, "shrink_dx")))  # one phase: the same rounding for dx and dW
    even, odd = (float(np.median(_numbers(results, TWO, f"shrink_{product}"))) for product in ("dx", "dw"))
    return CheckResult(
        min(single, even, odd) > 0.05 and abs(odd - even) < 0.05,
        f"With one phase gradients shrink by {100 * single:.0f} % on average; with two those for dx by "
        f"{100 * even:.0f} %, those for dW by {100 * odd:.0f} %. Two phases take variance away, not this shrinking.",
    )


@claim.explanation("Four bits cost more than the phases do")
def four_bits_cost_more(results: Results) -> CheckResult:
    """What four bits cost, with two phases, beside what the second phase saves."""
    cost, saved = _numbers(results, TWO) - _numbers(results, FLOAT), _gap(results)
    return CheckResult(
        float(cost.mean()) > abs(float(saved.mean())),
        f"Four bits with two phases against float32: {paired_text(cost, 3)} bits; one phase against two: "
        f"{paired_text(saved, 3)}.",
    )


@claim.summary
def measured(results: Results) -> str:
    """Test losses and the largest running means."""
    parts = [f"{name} {median_and_range(_numbers(results, name), 3)}" for name in (FLOAT, SINGLE, TWO)]
    means = [f"{float(np.median(_numbers(results, name, 'mean'))):.1f}" for name in (FLOAT, SINGLE, TWO)]
    return "; ".join(parts) + f" bits; largest running means {means[0]}, {means[1]} and {means[2]} (float32, one, two)"


claim.draw("test loss, bits", lambda results: {name: _numbers(results, name) for name in (FLOAT, SINGLE, TWO)})
claim.draw(
    "largest running mean",
    lambda results: {name: _numbers(results, name, "mean") for name in (FLOAT, SINGLE, TWO)},
)


def in_their_unit(results: Results) -> str:
    """Points of accuracy lost against float32, seed by seed, medians."""
    base = _numbers(results, FLOAT, "error")
    one, two = (float(np.median(_numbers(results, name, "error") - base)) for name in (SINGLE, TWO))
    grown = float(np.median(_numbers(results, SINGLE, "mean") / _numbers(results, FLOAT, "mean")))
    return f"one phase loses {one:.1f} points, two phases {two:.1f}; running means {grown:.1f} times as large with one"


claim.compared(
    theirs_on="ImageNet, ResNet-18",
    ours_on="cluttered digits, a residual net of depth 20",
    rows=(
        {"one phase": "one phase", "two phases": "two phases"},
        {"one phase": "one phase", "two phases": "two phases"},
    ),
    ours=in_their_unit,
)
claim.found(
    means_drift_with_one_phase,
    means_stay_with_two_phases,
    holds="batch norms drift with one phase, not with two",
    fails="batch norms do not drift with one phase alone",
)
claim.found(one_phase_is_worse, holds="one phase is worse than two", fails="one phase is no worse than two")
claim.found(
    retuning_recovers_one_phase,
    holds="batch norms measured anew mend one phase",
    fails="measuring batch norms anew mends nothing",
)

SUN_2020_TWO_PHASE = claim.build()
