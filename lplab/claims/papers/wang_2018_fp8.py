"""Wang et al. 2018: FP8 for all operands trains as float32 does; whether the first and the last layer need 16 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.branches import BranchPlan, branch, paired_result, paired_text, within, worse
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.drawing import MEAN
from lplab.claims.framework.models import branch_resnet, branch_transformer
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words, median_and_range
from lplab.claims.framework.trainings import one_thread

if TYPE_CHECKING:
    from lplab.training import Recipe, Trainer

TASKS = {"transformer": branch_transformer, "resnet": branch_resnet}
PLANS = {"transformer": BranchPlan(before=500, steps=100), "resnet": BranchPlan(before=300, steps=100)}
VARIANTS = ("float32", "fp8", "fp8 ends")
UNITS = {"transformer": ("loss", 4, " bits a character"), "resnet": ("error", 2, " % wrong")}
# What counts as no loss of accuracy: 1 % of the Transformer's loss, one picture in a hundred. The paper's own networks
# lose up to 0.56 points.
BOUNDS = {"transformer": 0.01, "resnet": 1.0}

POINTS: tuple[Point, ...] = tuple({"task": task, "recipe": way} for task in TASKS for way in VARIANTS)

claim = ClaimBuilder(
    id="wang_2018_fp8",
    title="FP8 for all operands trains as float32 does, with 16 bits for the first and the last layer",
    paper=cite("wang_2018"),
    where="abstract; table 1 and the study of the last layer (second-hand)",
    statement="FP8 (1-5-2) for the operands of all products trains without loss of accuracy; the last layer, whose "
    "error the softmax amplifies, and the first are kept in 16 bits.",
    published="without loss of accuracy (abstract, read); test error in %, float32 and FP8: CIFAR10-ResNet 7.23, 7.79; "
    "ResNet-50 27.86, 28.28 (recalled, not checked)",
    experiment="A character Transformer of two blocks and a residual net on cluttered digits, after "
    f"{PLANS['transformer'].before} and {PLANS['resnet'].before} steps in float32. From there each recipe goes on for "
    f"{PLANS['transformer'].steps} steps with the same batches, its learning rate falling to zero: float32, the recipe "
    "of 2018, and the same with first and last layer in FP8. Compared seed by seed.",
    points=POINTS,
    seeds=(0, 1, 2, 3, 4),
    budget_seconds=195,
    limits="Sums are float32's here; wang_2018_training rounds them. FP8 lasts for a part of a short training of small "
    "networks, far from the accuracy at which the last half point is lost.",
    version=2,
)


def recipe(way: str) -> Recipe:
    """float32; the recipe of 2018; the same with first, last and embedding layers in FP8, too."""
    from lplab.training import recipes

    if way == "float32":
        return recipes.get("fp32")
    return recipes.get("fp8_2018", first_last="fp8_152" if way == "fp8 ends" else "dlfloat16")


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """One branch; then, with the weights at the end, what FP8 for the ends alone does to the answers."""
    task = TASKS[point["task"]]()
    done = branch(task, recipe(point["recipe"]), seed, PLANS[point["task"]])
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


def _gaps(results: Results, task: str, way: str, other: str) -> tuple[np.ndarray, np.ndarray]:
    """Differences of the training losses and of the test's numbers (bits or points), seed by seed."""
    train = _of(results, task, way, "train_loss") - _of(results, task, other, "train_loss")
    return train, _of(results, task, way) - _of(results, task, other)


def _gaps_text(results: Results, task: str, way: str, other: str) -> str:
    train, test = _gaps(results, task, way, other)
    unit = " points" if task == "resnet" else ""
    return f"{task} {paired_text(train)} bits in training, {paired_text(test, UNITS[task][1])}{unit} in the test"


@claim.criterion("FP8 loses no accuracy")
def fp8_is_as_good(results: Results) -> CheckResult:
    """On both networks the recipe is surely within the bound of float32 in the test."""
    bound = {
        "transformer": BOUNDS["transformer"] * float(_of(results, "transformer", "float32").mean()),
        "resnet": BOUNDS["resnet"],
    }
    text = "; ".join(_gaps_text(results, task, "fp8", "float32") for task in TASKS)
    return paired_result(
        f"FP8 against float32: {text}; the bounds are {bound['transformer']:.3f} bits and {bound['resnet']:.0f} point.",
        *(within(_gaps(results, task, "fp8", "float32")[1], bound[task]) for task in TASKS),
    )


@claim.criterion("First and last layer in FP8 are visibly worse")
def ends_need_sixteen_bits(results: Results) -> CheckResult:
    """With the ends in FP8, too, at least one of the networks is worse than with the ends in 16 bits."""
    each = [worse(*_gaps(results, task, "fp8 ends", "fp8")) for task in TASKS]
    shown = any(all(condition.holds for condition in both) for both in each)
    refuted = all(any(condition.refuted for condition in both) for both in each)
    text = "; ".join(_gaps_text(results, task, "fp8 ends", "fp8") for task in TASKS)
    sentence = f"First and last layer in FP8, too, against the recipe: {text}."
    return CheckResult(shown, sentence, undecided=not (shown or refuted))


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
    """How much harm it does: the answers that change are many, those that get worse few."""
    changed = float(np.median(_of(results, "transformer", "float32", "changed_fp8")))
    gap = _of(results, "transformer", "fp8 ends", "error") - _of(results, "transformer", "fp8", "error")
    return CheckResult(
        abs(float(gap.mean())) < changed / 2,
        f"That changes {changed:.1f} % of its answers; yet a training with such ends has {paired_text(gap, 2)} points "
        "of wrong answers: where most answers are guesses, another guess costs nothing.",
    )


@claim.explanation("It is within the bounds, and worse all the same")
def it_loses_a_little(results: Results) -> CheckResult:
    """Whether the small loss of FP8 is noise: in pairs it is not."""
    each = {task: worse(*_gaps(results, task, "fp8", "float32")) for task in TASKS}
    where = join_words([task for task, both in each.items() if all(one.holds for one in both)]) or "neither of the two"
    text = f"In pairs FP8 is worse than float32, if by little, on: {where}."
    return paired_result(text, *(condition for both in each.values() for condition in both))


@claim.summary
def measured(results: Results) -> str:
    """The two networks: float32, and the others' differences to it."""
    parts = []
    for task, (_, digits, unit) in UNITS.items():
        gaps = {way: _gaps(results, task, way, "float32")[1] for way in VARIANTS[1:]}
        each = ", ".join(f"{way} {paired_text(gap, digits)}" for way, gap in gaps.items())
        parts.append(f"{task}: float32 {median_and_range(_of(results, task, 'float32'))}{unit}, against it {each}")
    return "; ".join(parts)


claim.draw(
    "test loss of the Transformer above float32, bits a character",
    lambda results: {way: _gaps(results, "transformer", way, "float32")[1] for way in VARIANTS[1:]},
    statistic=MEAN,
    differences=True,
)
claim.draw(
    "wrong pictures more than float32, points",
    lambda results: {way: _gaps(results, "resnet", way, "float32")[1] for way in VARIANTS[1:]},
    statistic=MEAN,
    differences=True,
)

claim.compared(
    theirs_on="CIFAR-10 and ImageNet, residual nets",
    ours_on="characters, a Transformer; cluttered digits, a residual net",
    rows=(
        {"fp8": "FP8", "fp8 ends": "FP8, first and last layer, too"},
        {"fp8": "FP8", "fp8 ends": "FP8, first and last layer, too"},
    ),
)
claim.found(
    fp8_is_as_good,
    holds="FP8 within 1 point and 1 % of float32",
    fails="FP8 not surely within 1 point and 1 % of float32",
)
claim.found(
    ends_need_sixteen_bits,
    holds="first and last layer in FP8 are a little worse",
    fails="first and last layer in FP8 are no worse",
)

WANG_2018_FP8 = claim.build()
