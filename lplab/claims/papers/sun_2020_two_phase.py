"""Sun et al. 2020: one phase of radix-4 rounding lets batch norms drift, two phases do not."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.claim import CheckResult, Numbers, Point, Results
from lplab.claims.framework.compare import clearly_above, join_words, median_and_range, seed_range
from lplab.claims.framework.trainings import cosine, one_thread, train

NETWORK, STEPS, TUNING = "digits_resnet", 120, 28  # TUNING: batches that batch norms are measured on, one epoch
ROLES = ("output_gradient_dx", "output_gradient_dw")
FLOAT, FORWARD, SINGLE, TWO = "float32", "INT4 forward alone", "one phase", "two phases"
SWITCHES: dict[str, dict[str, Any]] = {
    FORWARD: {"gradients": "fp32"},
    SINGLE: {"phases": "single"},
    TWO: {"phases": "two"},
}
GROWN = 10.0  # "orders of magnitude": at least one

POINTS: tuple[Point, ...] = tuple({"recipe": name} for name in (FLOAT, *SWITCHES))

claim = ClaimBuilder(
    id="sun_2020_two_phase",
    title="Two phases of rounding keep batch norms in place, one lets them drift",
    paper=cite("sun_2020"),
    where="sections 3.3 and 4, figures 4 and 5",
    statement="Gradients that are rounded in one phase for both products bias dW; running means of batch norms grow to "
    "thousands, and accuracy falls. Rounded in two phases they stay near those of float32.",
    published="ResNet-18 on ImageNet: one phase loses more than 4.5 %, two phases about 1 %; running means reach "
    "thousands with one phase; measuring them anew makes the loss flat again (read)",
    experiment=f"The residual net with batch norms on the digits, {STEPS} steps: the whole INT4/FP4 recipe with one "
    "phase and with two, INT4 forward alone, and float32.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=90,
    limits="Seven layers for 120 steps: the paper's networks have 18 and 50 layers and some hundred thousand steps, "
    "over which a small bias adds up. The character Transformer, which has no batch norms, tells one phase from two: "
    "see sun_2020_ablation.",
)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Train the residual net on the digits once.

    Returns:
        Besides the losses (bits) ``retuned``, the held-out loss with batch norms measured anew; ``mean``, the largest
        running mean of a channel; ``shrink_dx`` and ``shrink_dw``, by what share rounding makes the gradients smaller
        on average (median over layers and steps; with one phase dx and dW share a rounding, recorded as dx's).
    """
    from lplab.training import Recorder, recipes, retune_batchnorm

    name = point["recipe"]
    recipe = recipes.get("int4_fp4_2020", **SWITCHES[name]) if name in SWITCHES else "fp32"
    recorder = Recorder(every=37, roles=ROLES)
    done = train(NETWORK, recipe, STEPS, seed, schedule=cosine(STEPS), recorder=recorder)
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
        values[short] = round(-float(np.median(biases)), 6) if name in (SINGLE, TWO) else 0.0
    return values


def _numbers(results: Results, name: str, number: str = "loss") -> np.ndarray:
    return results.values(number, recipe=name)


@claim.criterion("Running means grow tenfold with one phase, not with two")
def means_grow_with_one_phase(results: Results) -> CheckResult:
    """With one phase the largest running mean is ten times that of float32, with two phases it is not."""
    means = {name: float(np.median(_numbers(results, name, "mean"))) for name in (FLOAT, SINGLE, TWO)}
    one, two = (means[name] / means[FLOAT] for name in (SINGLE, TWO))
    return CheckResult(
        one > GROWN > two,
        f"The largest running mean: float32 {means[FLOAT]:.1f}, one phase {one:.2f} times, two phases {two:.2f} times "
        "as large.",
    )


@claim.criterion("One phase is clearly worse than two")
def one_phase_is_worse(results: Results) -> CheckResult:
    """One phase ends clearly above two."""
    one, two = _numbers(results, SINGLE), _numbers(results, TWO)
    return CheckResult(
        clearly_above(one, two),
        f"Test loss: one phase {median_and_range(one, 3)}, two phases {median_and_range(two, 3)}, INT4 forward alone "
        f"{median_and_range(_numbers(results, FORWARD), 3)}, float32 {median_and_range(_numbers(results, FLOAT), 3)} "
        "bits.",
    )


@claim.criterion("Batch norms measured anew bring one phase back")
def retuning_recovers_one_phase(results: Results) -> CheckResult:
    """One phase clearly loses against two, and batch norms measured anew take back most of that."""
    one, two = _numbers(results, SINGLE), _numbers(results, TWO)
    before, after = float(np.median(one)), float(np.median(_numbers(results, SINGLE, "retuned")))
    target = float(np.median(_numbers(results, TWO, "retuned")))
    lost = clearly_above(one, two)
    return CheckResult(
        lost and after - target < (before - target) / 2,
        f"With batch norms measured anew: one phase {before:.3f} → {after:.3f}, two phases {float(np.median(two)):.3f} "
        f"→ {target:.3f} bits" + ("." if lost else "; there was nothing clear to take back."),
    )


@claim.explanation("The gap between one and two phases is smaller than that of seeds")
def no_room_to_differ(results: Results) -> CheckResult:
    """Why: the gap between one phase and two lies within what the seeds of either differ by."""
    one, two = _numbers(results, SINGLE), _numbers(results, TWO)
    gap, apart = abs(float(np.median(one) - np.median(two))), max(seed_range(one), seed_range(two))
    wrong = {name: float(np.median(_numbers(results, name, "error"))) for name in (FLOAT, SINGLE, TWO)}
    text = join_words([f"{name} {value:.1f} %" for name, value in wrong.items()])
    return CheckResult(
        gap <= apart,
        f"One phase and two lie {gap:.3f} bits apart, their seeds {apart:.3f}; wrong answers: {text}: the task is too "
        "easy, and the training too short, for the errors of one phase to add up.",
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


@claim.summary
def measured(results: Results) -> str:
    """Test losses and the largest running means."""
    parts = [f"{name} {median_and_range(_numbers(results, name), 3)}" for name in (FLOAT, FORWARD, SINGLE, TWO)]
    means = [f"{float(np.median(_numbers(results, name, 'mean'))):.1f}" for name in (FLOAT, SINGLE, TWO)]
    return "; ".join(parts) + f" bits; largest running means {means[0]}, {means[1]} and {means[2]} (float32, one, two)"


claim.draw(
    "test loss, bits",
    lambda results: {name: _numbers(results, name) for name in (FLOAT, FORWARD, SINGLE, TWO)},
)
claim.draw(
    "largest running mean",
    lambda results: {name: _numbers(results, name, "mean") for name in (FLOAT, SINGLE, TWO)},
)

SUN_2020_TWO_PHASE = claim.build()
