"""Wang et al. 2018: FP8 for all operands trains as float32 does; whether the first and the last layer need 16 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.claim import CheckResult, Numbers, Point, Results
from lplab.claims.framework.compare import clearly_above, median_and_range, within_noise
from lplab.claims.framework.trainings import cosine, one_thread, train

if TYPE_CHECKING:
    from lplab.training import Recipe, Trainer

STEPS = {"transformer": 200, "resnet": 300}
VARIANTS = ("float32", "fp8", "fp8 ends")
UNITS = {"transformer": ("loss", 2, " bits a character"), "resnet": ("error", 1, " % wrong")}

POINTS: tuple[Point, ...] = (
    *({"task": "transformer", "recipe": way} for way in VARIANTS),
    *({"task": "resnet", "rate": "cosine", "recipe": way} for way in VARIANTS),  # else its seeds lie ten points apart
)

claim = ClaimBuilder(
    id="wang_2018_fp8",
    title="FP8 for all operands trains as float32 does, with 16 bits for the first and the last layer",
    paper=cite("wang_2018"),
    where="abstract; table 1 and the study of the last layer (second-hand)",
    statement="FP8 (1-5-2) for the operands of all products trains without loss of accuracy; the last layer, whose "
    "error the softmax amplifies, and the first are kept in 16 bits.",
    published="without loss of accuracy (abstract, read); test error in %, float32 and FP8: CIFAR10-ResNet 7.23, 7.79; "
    "ResNet-50 27.86, 28.28 (recalled, not checked)",
    experiment=f"The character Transformer, {STEPS['transformer']} steps, and a residual net on cluttered digits, "
    f"{STEPS['resnet']} steps: float32, the recipe of 2018, and the same with first and last layer in FP8.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=150,
    limits="Sums are float32's here; wang_2018_training rounds them. Short trainings of small networks, far from the "
    "accuracy at which the last half point is lost.",
)


def recipe(way: str) -> Recipe:
    """float32; the recipe of 2018; the same with first, last and embedding layers in FP8, too."""
    from lplab.training import recipes

    if way == "float32":
        return recipes.get("fp32")
    return recipes.get("fp8_2018", first_last="fp8_152" if way == "fp8 ends" else "dlfloat16")


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Train; then, with the weights at the end, what FP8 for the ends alone does to the answers."""
    steps = STEPS[point["task"]]
    schedule = cosine(steps) if point.get("rate") == "cosine" else None
    done = train(point["task"], recipe(point["recipe"]), steps, seed, schedule=schedule)
    if point["recipe"] == "fp8 ends":
        return done.numbers()
    inputs, _ = done.task.test()
    return {**done.numbers(), **ends_alone(done.trainer, inputs)}


def ends_alone(trainer: Trainer, inputs: Any) -> dict[str, float]:
    """The trained weights with nothing rounded but the ends: how far outputs move, and how many answers change."""
    import torch

    from lplab.training import LayerRules, Recipe, dequantize_model, quantize_model

    plain = dequantize_model(trainer.model).eval()
    values: dict[str, float] = {}
    with one_thread(), torch.no_grad():
        before = plain(inputs)
        for name, fmt in (("fp8", "fp8_152"), ("fp16", "dlfloat16")):
            rounded = LayerRules(weight=fmt, activation=fmt)
            exceptions = {"first": rounded, "last": rounded, "embedding": LayerRules(weight=fmt)}
            after = quantize_model(plain, Recipe(name="the ends alone", exceptions=exceptions)).eval()(inputs)
            values[f"moved_{name}"] = round(float((after - before).norm() / before.norm()), 6)
            values[f"changed_{name}"] = round(100 * float((after.argmax(-1) != before.argmax(-1)).float().mean()), 4)
    return values


def _of(results: Results, task: str, way: str, number: str = "") -> np.ndarray:
    return results.values(number or UNITS[task][0], task=task, recipe=way)


def _text(results: Results, task: str, way: str) -> str:
    return median_and_range(_of(results, task, way), UNITS[task][1], UNITS[task][2])


@claim.criterion("FP8 is as good as float32")
def fp8_is_as_good(results: Results) -> CheckResult:
    """On both networks the recipe ends within the spread of float32."""
    fine = [within_noise(_of(results, task, "fp8"), _of(results, task, "float32")) for task in STEPS]
    text = [f"{task}: FP8 {_text(results, task, 'fp8')}, float32 {_text(results, task, 'float32')}" for task in STEPS]
    return CheckResult(all(fine), f"{'; '.join(text)}.")


@claim.criterion("First and last layer in FP8 are visibly worse")
def ends_need_sixteen_bits(results: Results) -> CheckResult:
    """With the ends in FP8, too, at least one of the networks is clearly worse than with the ends in 16 bits."""
    worse = [clearly_above(_of(results, task, "fp8 ends"), _of(results, task, "fp8")) for task in STEPS]
    text = [f"{task} {_text(results, task, 'fp8 ends')}" for task in STEPS]
    return CheckResult(any(worse), f"First and last layer in FP8, too: {'; '.join(text)}.")


@claim.explanation("FP8 ends do move the outputs")
def ends_move_outputs(results: Results) -> CheckResult:
    """What FP8 ends do to outputs of a trained network, against 1-6-9: over thirty times as much."""
    moved = {f: float(np.median(_of(results, "transformer", "float32", f"moved_{f}"))) for f in ("fp8", "fp16")}
    return CheckResult(
        moved["fp8"] > 30 * moved["fp16"],
        f"The trained Transformer with nothing but its ends rounded: FP8 moves the outputs by {100 * moved['fp8']:.1f} "
        f"%, 1-6-9 by {100 * moved['fp16']:.2f} %.",
    )


@claim.explanation("But answers change without getting worse")
def yet_training_makes_up_for_it(results: Results) -> CheckResult:
    """Why it does no visible harm here: the answers that change are many, those that get worse few."""
    changed = float(np.median(_of(results, "transformer", "float32", "changed_fp8")))
    gap = float(
        np.median(_of(results, "transformer", "fp8 ends", "error") - _of(results, "transformer", "fp8", "error"))
    )
    return CheckResult(
        abs(gap) < changed / 2,
        f"That changes {changed:.1f} % of its answers; yet a training with such ends has {gap:+.1f} points of wrong "
        "answers: where most answers are guesses, another guess costs nothing.",
    )


@claim.summary
def measured(results: Results) -> str:
    """Both networks, median and spread."""
    parts = (
        f"{task}: "
        + ", ".join(f"{way} {median_and_range(_of(results, task, way), UNITS[task][1])}" for way in VARIANTS)
        + unit
        for task, (_, _, unit) in UNITS.items()
    )
    return "; ".join(parts)


claim.draw(
    "test loss of the Transformer, bits a character",
    lambda results: {way: _of(results, "transformer", way) for way in VARIANTS},
)
claim.draw("wrong pictures, %", lambda results: {way: _of(results, "resnet", way) for way in VARIANTS})

WANG_2018_FP8 = claim.build()
