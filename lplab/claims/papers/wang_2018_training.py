"""Wang et al. 2018: trainings in FP8 whose sums, in 1-6-9, have no chunks, or chunks of 64.

Every addition of every product is rounded. The sums of weight gradients run over batch and positions, 16,384 terms in
the first stage of the network.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lplab.arithmetic import Accumulator
from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.claim import CheckResult, Numbers, Point, Results
from lplab.claims.framework.compare import clearly_above, median_and_range, within_noise
from lplab.claims.framework.trainings import one_thread, train
from lplab.formats import FloatFormat

if TYPE_CHECKING:
    from torch import Tensor

    from lplab.training import Trainer

STEPS, BATCH, WIDTH = 100, 64, 4
LENGTH = BATCH * 16 * 16
SUMS = ("float32", "chunk 1", "chunk 64", "short, chunk 1")
SHORT_FORMAT = FloatFormat(exponent_bits=6, mantissa_bits=4)  # stops 32 times earlier than 1-6-9
WATCHED = "blocks.0.conv1.weight"

POINTS: tuple[Point, ...] = tuple({"sums": sums} for sums in SUMS)

claim = ClaimBuilder(
    id="wang_2018_training",
    title="FP8 training with sums in 16 bits needs chunks",
    paper=cite("wang_2018"),
    where="abstract; figures of the training curves (second-hand)",
    statement="With sums in 16 bits (1-6-9) FP8 training loses accuracy or fails if the sums have no chunks; with "
    "chunks of 64 it ends where float32 does.",
    published="chunk-based accumulation makes 16-bit sums possible without loss of accuracy (abstract, read); without "
    "it the training fails (recalled, not checked)",
    experiment=f"A residual net of width {WIDTH} on cluttered digits, {STEPS} steps of {BATCH} images, all operands in "
    f"FP8, every addition rounded; sums of weight gradients with {LENGTH:,} terms in the first stage.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=180,
    limits="Loss of the training batches: running statistics of batch norms do not settle in so few steps. The sums of "
    "large networks are ten to fifty times as long, and their trainings ten thousand times.",
)


def accumulator(sums: str) -> Accumulator | None:
    """How sums are carried out: the machine's own, or in 1-6-9 or 1-6-4.

    >>> accumulator("chunk 64").chunk, accumulator("float32")
    (64, None)
    """
    if sums == "float32":
        return None
    chunk = 1 if sums.endswith(" 1") else 64
    return Accumulator(SHORT_FORMAT if sums.startswith("short") else "dlfloat16", chunk=chunk, rounding="nearest_away")


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Train a small residual net; its losses, and how wrong the weight gradient of a long sum is at the end.

    ``rounding`` is the distance of the gradient with rounded sums from that with float32 sums on the same batch,
    ``sampling`` that between two batches, both with float32 sums; relative to the gradient.
    """
    from lplab import models
    from lplab.training import recipes, tasks

    task = tasks.get("resnet")
    task = replace(task, model=lambda seed: models.resnet(width=WIDTH, seed=seed), batch=BATCH)
    done = train(task, recipes.get("fp8_2018", accumulator=accumulator(point["sums"])), STEPS, seed, lr=0.1)
    numbers = done.numbers()
    kept = {name: numbers[name] for name in ("train_loss", "diverged", "steps")}
    return {**kept, **gradient_errors(done.trainer, point["sums"])}


def gradient_errors(trainer: Trainer, sums: str) -> dict[str, float]:
    """Rounding and sampling error of one layer's weight gradient, with the weights as they are."""
    first, second = (trainer._batch(STEPS + step) for step in range(2))
    exact, other = (_gradient(trainer, "float32", batch) for batch in (first, second))
    rounded = _gradient(trainer, sums, first)
    norm = float(exact.norm())
    return {
        "rounding": round(float((rounded - exact).norm()) / norm, 6),
        "sampling": round(float((other - exact).norm()) / norm, 6),
    }


def _gradient(trainer: Trainer, sums: str, batch: Any) -> Tensor:
    from lplab.training import dequantize_model, quantize_model, recipes

    recipe = recipes.get("fp8_2018", accumulator=accumulator(sums))
    model = quantize_model(dequantize_model(trainer.model), recipe).train()
    inputs, targets = batch
    with one_thread():
        (trainer.loss(model(inputs), targets) * recipe.loss_scale).backward()
    values: Tensor = dict(model.named_parameters())[WATCHED].grad
    return values


def _of(results: Results, sums: str, number: str = "train_loss") -> np.ndarray:
    return results.values(number, sums=sums)


@claim.criterion("Chunks of 64 are as good as float32 sums")
def chunks_are_as_good(results: Results) -> CheckResult:
    """With chunks of 64 the training ends as with float32 sums, within the spread of the seeds."""
    chunks, base = _of(results, "chunk 64"), _of(results, "float32")
    return CheckResult(
        within_noise(chunks, base),
        f"Chunks of 64: {median_and_range(chunks)} bits, float32 sums {median_and_range(base)}.",
    )


@claim.criterion("Without chunks the training is clearly worse")
def no_chunks_fail(results: Results) -> CheckResult:
    """Without chunks every seed ends clearly above all seeds with float32 sums."""
    none, base = _of(results, "chunk 1"), _of(results, "float32")
    return CheckResult(
        clearly_above(none, base),
        f"Without chunks: {median_and_range(none)} bits, float32 sums {median_and_range(base)}.",
    )


@claim.explanation("The error of the sums is smaller than the difference between two batches")
def less_than_sampling(results: Results) -> CheckResult:
    """Why it does no harm here: that error is smaller than the difference between two batches."""
    rounding, sampling = (_of(results, "chunk 1", number) for number in ("rounding", "sampling"))
    return CheckResult(
        bool((rounding < sampling).all()),
        f"From one batch to the next the same gradient changes by {100 * np.median(sampling):.0f} %: the error of its "
        f"sums, {100 * np.median(rounding):.0f} %, is lost in that.",
    )


@claim.explanation("Roundings to FP8 differ nearly as much with chunks")
def fp8_hides_it(results: Results) -> CheckResult:
    """With chunks of 64 the same gradient is not much closer: any difference flips roundings to FP8 in all layers."""
    none, chunks = (float(np.median(_of(results, sums, "rounding"))) for sums in ("chunk 1", "chunk 64"))
    return CheckResult(
        chunks > none / 4,
        f"Against float32 sums the gradient is {100 * none:.0f} % off without chunks and {100 * chunks:.0f} % with "
        "chunks of 64: the smallest difference flips roundings to FP8 in the layers after it.",
    )


@claim.explanation("Sums that stop 32 times earlier do no harm either")
def short_formats_train_as_well(results: Results) -> CheckResult:
    """Even with 4 mantissa bits, whose sums stop 32 times earlier, and without chunks the training ends no worse."""
    short, base = _of(results, "short, chunk 1"), _of(results, "float32")
    return CheckResult(
        within_noise(short, base),
        f"With 1-6-4 in place of 1-6-9, whose sums stop 32 times earlier, and no chunks: {median_and_range(short)} "
        "bits.",
    )


@claim.summary
def measured(results: Results) -> str:
    """Training losses at the end, median and spread."""
    return f"{', '.join(f'{sums} {median_and_range(_of(results, sums))}' for sums in SUMS[:3])} bits an image"


claim.draw("training loss, bits", lambda results: {sums: _of(results, sums) for sums in SUMS[:3]})

WANG_2018_TRAINING = claim.build()
