"""Wang et al. 2018, larger: whole trainings in FP8 whose sums, in 1-6-9, have no chunks, or chunks of 64.

The small experiment measured one gradient. Here every product of every layer is carried out with rounded additions, in
trainings from the first step on, and the sums of the weight gradients are nearly as long as the paper's.

A second register tests the reason. How far a sum is cut off depends on its length in units of 2^mantissa. The sums of
ResNet-18 on ImageNet are sixteen times as long as ours, for dW and forward. With four bits fewer ours are as long.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lplab.claims.framework.branches import above, loss_gaps, loss_gaps_text, paired_result, paired_text, within, worse
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.drawing import MEAN
from lplab.claims.framework.float32_end import Float32End
from lplab.claims.framework.larger_models import fashion_resnet8
from lplab.claims.framework.parity import ParityRow
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words, mean_and_range, median_and_range
from lplab.claims.framework.trainings import cosine, one_thread, train
from lplab.claims.papers import wang_2018_training as small
from lplab.claims.papers.wang_2018_training import CHUNKED, NONE, accumulator

if TYPE_CHECKING:
    from lplab.training import Recipe
    from lplab.training.loop.tasks import Task

WIDTH, BATCH, STEPS = 8, 256, 300  # channels of the first third; pictures a batch; of each training
SIDE = 14  # pixels of a picture's side in the first third of the net: each is a term of its sums
FLOAT, EXACT = "float32", "FP8, float32 sums"
ARMS = (FLOAT, EXACT, CHUNKED, NONE)
SHORT_CHUNKED, SHORT_NONE = SHORT_ARMS = ("1-6-5, chunk 64", "1-6-5, chunk 1")
SHORT_BITS = 5  # mantissa bits of the second register
LABELS = {
    NONE: "sums without chunks",
    CHUNKED: "sums with chunks of 64",
    SHORT_NONE: "in 1-6-5, without chunks",
    SHORT_CHUNKED: "in 1-6-5, with chunks of 64",
}
NEAR = 1.0  # points of the test error: what the paper calls no loss of accuracy
LONGEST = BATCH * SIDE * SIDE  # terms of a sum for dW
REGISTER, SHORT_REGISTER = 2**10, 2 ** (SHORT_BITS + 1)  # to which 1-6-9 and 1-6-5 count: there a sum of ones stops

POINTS: tuple[Point, ...] = tuple({"sums": sums} for sums in (*ARMS, *SHORT_ARMS))

claim = ClaimBuilder.larger(
    small.WANG_2018_TRAINING,
    experiment=f"A residual net of eight layers, width {WIDTH}, on Fashion-MNIST, {STEPS} steps of {BATCH} pictures "
    "with momentum 0.9, the learning rate falling from 0.1 to zero: the recipe of the paper (FP8 operands, weights in "
    "1-6-9 with stochastic rounding) with float32 sums, and with every addition of all three products of every layer "
    "rounded to 1-6-9, in chunks of 64 and without chunks. And float32. Two more trainings have sums in 1-6-5, a "
    "register for which these sums are as long as those of ResNet-18's 3 × 3 layers on ImageNet are for 1-6-9. All "
    "with the same weights and batches, compared seed by seed.",
    points=POINTS,
    seeds=(0, 1, 2, 3, 4),
    budget_seconds=1800,
    float32_ends=(Float32End("fashion_resnet8", {"sums": FLOAT}, "half as wide", STEPS, BATCH),),
    limits="A net of eight layers and width 8 for 300 steps; the paper's largest is ResNet-50 on ImageNet.",
    parity=(
        ParityRow(
            f"terms of the longest sum for dW of a 3 × 3 layer, divided by the number at which a sum of ones stops in "
            f"its register (larger: {LONGEST:,} over {REGISTER:,} in 1-6-9, over {SHORT_REGISTER} in 1-6-5)",
            (128 * 32 * 32 / REGISTER, 256 * 56 * 56 / REGISTER),
            "a residual net on CIFAR-10 (recalled) and ResNet-18 on ImageNet (recalled; shapes computed)",
            small=small.LONG * small.POSITIONS / REGISTER,
            large=(LONGEST / REGISTER, LONGEST / SHORT_REGISTER),
        ),
        ParityRow(
            "terms of the longest sum of the forward product of a 3 × 3 layer, divided by that number",
            (64 * 9 / REGISTER, 512 * 9 / REGISTER),
            "the same two nets, recalled; shapes computed",
            large=(4 * WIDTH * 9 / REGISTER, 4 * WIDTH * 9 / SHORT_REGISTER),
        ),
        ParityRow(
            "steps of a training",
            160 * 50_000 / 128,
            "160 epochs of CIFAR-10, recalled",
            large=STEPS,
            why="Each addition is emulated: a step without chunks takes 0.3 seconds, and 60,000 of them five "
            "hours for each seed.",
        ),
        ParityRow("pictures a batch", 128, "recalled", small=small.LONG, large=BATCH),
        ParityRow("learning rate over 1 − momentum", 1.0, "0.1 and 0.9, recalled", large=0.1 / (1 - 0.9)),
        ParityRow("share of the products whose sums are rounded", 1.0, "all of them, recalled", large=1.0),
    ),
    tried=(
        "Seed 100, which is not stored, for 40 steps, the learning rate falling to zero over them: test errors 29.7 % "
        "(float32), 30.1 % (FP8), 30.2 % (chunks of 64) and 30.9 % (no chunks). This timed the steps, and the number "
        "of steps was chosen by their time.",
        "When the first seed of the first four arms had been measured (test errors 13.3, 12.7, 13.7 and 13.7 %), the "
        "two arms in 1-6-5 were added, as an explanation. The criteria were not changed.",
    ),
)


def task() -> Task:
    """The residual net of eight layers on Fashion-MNIST, its test in one piece: the last digits depend on that.

    >>> sum(p.numel() for p in task().model(0).parameters())
    20026
    """
    return replace(fashion_resnet8(WIDTH), test_batch=None)


def recipe_of(sums: str) -> Recipe:
    """The recipe of an arm.

    >>> recipe_of("chunk 64").accumulator.chunk, recipe_of("FP8, float32 sums").accumulator
    (64, None)
    >>> recipe_of("1-6-5, chunk 1").accumulator.format.mantissa_bits
    5
    """
    from lplab.formats import FloatFormat
    from lplab.training import recipes

    if sums == FLOAT:
        return recipes.get("fp32")
    if sums == EXACT:
        return recipes.get("fp8_2018")
    how = accumulator(sums.removeprefix("1-6-5, "))
    if sums in SHORT_ARMS:
        how = replace(how, format=FloatFormat(6, SHORT_BITS, bias=31, specials="dlfloat", subnormals=False))
    return recipes.get("fp8_2018", accumulator=how)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """One training.

    Returns:
        Besides its numbers, of arms with rounded sums, at the weights where the training began and where it ended, and
        for the next batch: ``first_moved`` and ``moved``, how far rounded sums move the gradient of the convolutions,
        ‖ĝ − g‖ / ‖g‖, and ``first_slope`` and ``slope``, ⟨ĝ, g⟩ / ⟨g, g⟩, 1 without a bias along the gradient; g is
        that of FP8 operands with float32 sums.
    """
    sums = point["sums"]
    chosen = task()
    done = train(chosen, recipe_of(sums), STEPS, seed, batch=BATCH, schedule=cosine(STEPS))
    values = done.numbers()
    if sums not in (FLOAT, EXACT):
        from lplab.training import dequantize_model

        batch = chosen.data(BATCH, seed)(STEPS)
        for prefix, model in (("first_", chosen.model(seed)), ("", dequantize_model(done.trainer.model))):
            values |= {prefix + name: value for name, value in _moved(model, sums, batch).items()}
    return values


def _moved(model: Any, sums: str, batch: Any) -> dict[str, float]:
    with one_thread():
        exact, rounded = (_gradient(model, recipe_of(which), *batch) for which in (EXACT, sums))
    return {
        "moved": round(float(np.linalg.norm(rounded - exact) / np.linalg.norm(exact)), 6),
        "slope": round(float(rounded @ exact / (exact @ exact)), 6),
    }


def _gradient(model: Any, recipe: Recipe, inputs: Any, targets: Any) -> np.ndarray:
    import torch
    from torch.nn import functional

    from lplab.training import quantize_model

    quantized = quantize_model(model, recipe).train()
    (functional.cross_entropy(quantized(inputs), targets) * recipe.loss_scale).backward()
    gradients = [p.grad.flatten() for p in quantized.parameters() if p.ndim == 4]
    return (torch.cat(gradients).double() / recipe.loss_scale).numpy()


def _of(results: Results, sums: str, number: str = "loss") -> np.ndarray:
    return results.values(number, sums=sums)


def _points(results: Results, sums: str, other: str = FLOAT) -> np.ndarray:
    """Points of accuracy lost against another arm, seed by seed."""
    return _of(results, sums, "error") - _of(results, other, "error")


@claim.criterion("With chunks of 64 the training ends within a point of float32")
def chunks_end_where_float32_does(results: Results) -> CheckResult:
    """With chunks of 64 the test error is surely within one point of float32's, with the same weights and batches."""
    gap = _points(results, CHUNKED)
    return paired_result(
        f"Test error with chunks of 64: {mean_and_range(_of(results, CHUNKED, 'error'))} %, {paired_text(gap, 2)} "
        "points above float32's, seed by seed.",
        within(gap, NEAR),
    )


@claim.criterion("Without chunks it ends worse than with them")
def no_chunks_are_worse(results: Results) -> CheckResult:
    """Without chunks the training loss is surely above that of chunks of 64, and the test loss on every seed."""
    gaps = loss_gaps(results, {"sums": NONE}, {"sums": CHUNKED})
    return paired_result(f"Without chunks against chunks of 64: {loss_gaps_text(gaps)}.", *worse(*gaps))


@claim.criterion("Without chunks it loses accuracy")
def no_chunks_lose_accuracy(results: Results) -> CheckResult:
    """Without chunks the test error is surely more than a point above float32's; that of a failure is guessing's."""
    gap = _points(results, NONE)
    failed = int(_of(results, NONE, "diverged").sum())
    return paired_result(
        f"Test error without chunks: {mean_and_range(_of(results, NONE, 'error'))} %, {paired_text(gap, 2)} points "
        f"above float32's, seed by seed; {failed} of {len(gap)} trainings diverged.",
        above(gap, NEAR),
    )


@claim.explanation("FP8 alone costs less than a point")
def operands_cost_little(results: Results) -> CheckResult:
    """What FP8 operands and 1-6-9 weights cost, with float32 sums."""
    gap = _points(results, EXACT)
    return paired_result(f"FP8 with float32 sums: {paired_text(gap, 2)} points above float32.", within(gap, NEAR))


@claim.explanation("In a register for which sums are as long as ImageNet's, chunks are needed")
def short_registers_need_chunks(results: Results) -> CheckResult:
    """In 1-6-5 the training without chunks ends worse than with them, and more than a point of accuracy below it."""
    gaps = loss_gaps(results, {"sums": SHORT_NONE}, {"sums": SHORT_CHUNKED})
    lost = _points(results, SHORT_NONE, SHORT_CHUNKED)
    texts = [f"{mean_and_range(_of(results, sums, 'error'))} %" for sums in SHORT_ARMS]
    return paired_result(
        f"Test error with sums in 1-6-5: in chunks of 64 {texts[0]}, without chunks {texts[1]}, {paired_text(lost, 2)} "
        f"points more, seed by seed; {loss_gaps_text(gaps)}.",
        *worse(*gaps),
        above(lost, NEAR),
    )


@claim.explanation("Without chunks the gradients are far off during the training")
def gradients_are_far_off(results: Results) -> CheckResult:
    """Without chunks gradients of the convolutions have five times the error that chunks leave, first and last."""
    texts, fine = [], True
    for prefix, when in (("first_", "before the first step"), ("", "where the training ended")):
        none, chunked = (100 * _of(results, sums, f"{prefix}moved") for sums in (NONE, CHUNKED))
        fine &= bool((none > 5 * chunked).all())
        texts.append(f"{when} {median_and_range(none, 0)} % without chunks, {median_and_range(chunked, 1)} % with them")
    return CheckResult(
        fine,
        f"Rounded sums move the gradients of the convolutions: {join_words(texts)}. Far off would be five times as "
        "far as with chunks. The small experiment rounds one product's sums, this one those of all layers.",
    )


@claim.explanation("Without chunks gradients are biased along themselves")
def gradients_are_biased(results: Results) -> CheckResult:
    """Without chunks the slope along the exact gradient is further from 1 than with them, on every seed."""
    none, chunked = (_of(results, sums, "slope") for sums in (NONE, CHUNKED))
    return CheckResult(
        bool((np.abs(none - 1) > np.abs(chunked - 1)).all()),
        f"The slope ⟨ĝ, g⟩ / ⟨g, g⟩ where the training ended: {median_and_range(none, 3)} without chunks, "
        f"{median_and_range(chunked, 3)} with them. Without chunks it would have to be further from 1 on every seed.",
    )


@claim.summary
def measured(results: Results) -> str:
    """Test errors of all arms, means: differences in pairs are differences of these."""
    parts = [f"{LABELS.get(sums, sums)} {mean_and_range(_of(results, sums, 'error'))}" for sums in (*ARMS, *SHORT_ARMS)]
    return f"mean test error, %: {'; '.join(parts)}"


claim.draw(
    "test error above float32's, points",
    lambda results: {LABELS.get(sums, sums): _points(results, sums) for sums in (*ARMS[1:], *SHORT_ARMS)},
    statistic=MEAN,
    differences=True,
)
claim.draw(
    "error of the gradients where the training ended, %",
    lambda results: {LABELS[sums]: 100 * _of(results, sums, "moved") for sums in LABELS},
)

claim.compared(
    theirs_on="trainings in FP8",
    ours_on="Fashion-MNIST, a residual net of eight layers",
    rows=({label: label for label in LABELS.values()},),
)
claim.found(
    chunks_end_where_float32_does,
    holds="FP8 with chunks of 64 ends within a point of float32",
    fails="FP8 with chunks of 64 does not end within a point of float32",
)
claim.found(
    no_chunks_are_worse,
    holds="without chunks it ends worse",
    fails="without chunks it ends no worse than with them",
)
claim.found(
    no_chunks_lose_accuracy,
    holds="without chunks it loses more than a point of accuracy",
    fails="without chunks it loses less than a point of accuracy",
)

WANG_2018_TRAINING_LARGE = claim.build()
