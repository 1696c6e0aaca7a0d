"""Wang et al. 2018: the product that gives the weight gradient has long sums, and its error a valley over the chunk.

The operands are those of a real training: inputs and output gradients of a convolution, rounded to FP8.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from lplab import arithmetic
from lplab import formats as F
from lplab.arithmetic import Accumulator
from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words
from lplab.claims.framework.trainings import one_thread, train

STEPS, PICTURES, SCALE = 60, 64, 1000.0  # of training before the operands are taken; of them; the recipe's loss scale
LONG, SHORT, ONE_SIGN = "update", "forward", "update, one sign"
CHUNKS = {LONG: (1, 4, 16, 32, 64, 128, 256, 1024, 4096, 16_384), SHORT: (1, 4, 16, 64)}
LENGTHS = (1024, 16_384)  # of the sums of the update product that are measured
VALLEY, PUBLISHED = (16, 32, 64, 128, 256), (64, 128, 256)
DRAWN = (1, 16, 32, 64, 256, LENGTHS[-1])

POINTS: tuple[Point, ...] = (
    *(
        {"product": LONG, "length": length, "chunk": chunk}
        for length in LENGTHS
        for chunk in CHUNKS[LONG]
        if chunk <= length
    ),
    *({"product": ONE_SIGN, "length": LENGTHS[-1], "chunk": chunk} for chunk in CHUNKS[LONG]),
    *({"product": SHORT, "chunk": chunk} for chunk in CHUNKS[SHORT]),
)

claim = ClaimBuilder(
    id="wang_2018_chunks",
    title="The weight gradient has long sums: its error is least with chunks of 64 to 256",
    paper=cite("wang_2018"),
    where="discussion of the chunk size (second-hand)",
    statement="The product that gives the weight gradient, with a sum over batch and positions, is the most sensitive "
    "to the rounding of additions; chunks of 64 to 256 have the least error there.",
    published="least error with chunks of 64 to 256 (second-hand: notes by others)",
    experiment=f"Operands of a 3 × 3 convolution after {STEPS} steps of training, in FP8 1-5-2: its weight gradient "
    f"(sums of {LENGTHS[-1]:,}) and its forward product (sums of 72), every addition rounded to 1-6-9.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=20,
    limits="One layer of a small net. Behind a batch norm the output gradients have mean zero, so sums grow slowly and "
    "the best chunk is shorter than that of numbers with a mean.",
)


@cache
def operands(seed: int) -> dict[str, np.ndarray]:
    """FP8 operands of the first 3 × 3 convolution: inputs [16384, 72], output gradients [16384, 8], weights [8, 72].

    The inputs are what a ReLU lets through.
    """
    return in_fp8(captured(seed))


def captured(seed: int, pictures: int = PICTURES, batch: int = 0) -> dict[str, np.ndarray]:
    """Operands of the gradient products of any batch, float32.

    Inputs are [256 · pictures, 72], output gradients [256 · pictures, 8]; the weights come with them.

    A residual net is trained for a while; then a batch of images of 16 × 16 goes forward and backward.
    """
    import torch
    from torch.nn import functional

    from lplab.training import tasks

    model = _trained(seed)
    layer: Any = model.blocks[0].conv1
    values: dict[str, Any] = {}

    def keep(module: Any, inputs: Any, output: Any) -> None:
        values["x"] = inputs[0].detach()
        output.register_hook(lambda gradient: values.update(dy=gradient.detach()))

    hook = layer.register_forward_hook(keep)
    inputs, targets = tasks.get("resnet").data(pictures, seed + 1000)(batch)
    with one_thread(), torch.enable_grad():
        (functional.cross_entropy(model(inputs), targets) * SCALE).backward()
    hook.remove()
    x = functional.unfold(values["x"], 3, padding=1).transpose(1, 2).flatten(0, 1)
    dy = values["dy"].permute(0, 2, 3, 1).flatten(0, 2)
    return {"x": x.numpy(), "dy": dy.numpy(), "w": layer.weight.detach().flatten(1).numpy()}


@cache
def _trained(seed: int) -> Any:
    return train("resnet", "fp32", STEPS, seed).trainer.model


def in_fp8(parts: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Operands rounded to FP8 1-5-2."""
    fp8 = F.get("fp8_152")
    return {name: np.ascontiguousarray(fp8.quantize(part)) for name, part in parts.items()}


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """The relative error of a product, every addition rounded to 1-6-9, against exact sums of the same operands."""
    parts = operands(seed)
    if point["product"] == SHORT:
        a, b = parts["x"], np.ascontiguousarray(parts["w"].T)
    else:
        a, b = np.ascontiguousarray(parts["dy"][: point["length"]].T), parts["x"][: point["length"]]
    if point["product"] == ONE_SIGN:
        a, b = np.abs(a), np.abs(b)
    accumulator = Accumulator("dlfloat16", chunk=point["chunk"], rounding="nearest_away")
    exact = a.astype(np.float64) @ b.astype(np.float64)
    error = np.linalg.norm(arithmetic.matmul(a, b, accumulator) - exact) / np.linalg.norm(exact)
    return {"error": round(float(error), 6), "length": float(a.shape[1])}


def curve(results: Results, product: str = LONG) -> dict[int, np.ndarray]:
    """Chunk → errors of the product with the longest sums, over the seeds."""
    chunks = results.along("chunk", product=product, length=LENGTHS[-1])
    return {c: results.values("error", product=product, length=LENGTHS[-1], chunk=c) for c in chunks}


def best(errors: dict[int, np.ndarray]) -> int:
    """The chunk with the least median error."""
    return min(errors, key=lambda chunk: float(np.median(errors[chunk])))


def best_of_each_seed(results: Results) -> np.ndarray:
    """The chunk with the least error of each seed, [seeds]."""
    errors = curve(results)
    return np.array([*errors])[np.stack([*errors.values()]).argmin(axis=0)]


@claim.criterion("The error has a valley over the chunk")
def valley(results: Results) -> CheckResult:
    """On every seed the error falls at least tenfold from chunk 1 to its least, and rises tenfold to the whole sum."""
    errors = curve(results)
    ends = np.stack([errors[1], errors[LENGTHS[-1]]])
    least = np.stack([*errors.values()]).min(axis=0)
    medians = {chunk: 100 * float(np.median(errors[chunk])) for chunk in DRAWN}
    text = join_words([f"{error:.3g} % at {chunk:,}" for chunk, error in medians.items()])
    return CheckResult(bool((ends.min(axis=0) > 10 * least).all()), f"Error of the weight gradient, by chunk: {text}.")


@claim.criterion("Chunks of 64 to 256 have the least error")
def least_where_the_paper_says(results: Results) -> CheckResult:
    """Every seed has its least error at a chunk that the paper names."""
    values = best_of_each_seed(results)
    seeds = {chunk: f"{(values == chunk).sum()} of {len(values)} seeds" for chunk in sorted({*values.tolist()})}
    text = join_words([f"of {chunk:,} on {count}" for chunk, count in seeds.items()])
    return CheckResult(
        bool(np.isin(values, PUBLISHED).all()),
        f"Sums of {LENGTHS[-1]:,} have their least error with chunks {text}.",
    )


@claim.criterion("Short sums are flat")
def short_sums_are_flat(results: Results) -> CheckResult:
    """The forward product, with 72 terms a sum: small at every chunk, also without chunks."""
    values = np.array([results.values("error", product=SHORT, chunk=chunk) for chunk in CHUNKS[SHORT]])
    long = curve(results)[1]
    return CheckResult(
        bool(values.max() < 0.02 * long.min()),
        f"The forward product, sums of 72: {100 * values.min():.2g} to {100 * values.max():.2g} % at any chunk.",
    )


@claim.explanation("The least error is in the middle, at 64 or close to it")
def bottom_is_in_the_middle(results: Results) -> CheckResult:
    """Every seed has its least error between 16 and 256; at 64, the paper's, it is at most half as much again."""
    errors = curve(results)
    ratio = errors[64] / np.stack([*errors.values()]).min(axis=0)
    return CheckResult(
        bool(np.isin(best_of_each_seed(results), VALLEY).all() and (ratio < 1.5).all()),
        f"With chunks of 64 the error is at most {ratio.max():.2f} times the least one.",
    )


@claim.explanation("Products of one sign have their best chunk at √n")
def numbers_with_a_mean_need_longer_chunks(results: Results) -> CheckResult:
    """Why the best chunk is below √n: the products have both signs. With one sign it is √n, and chunks matter more."""
    both, one = curve(results), curve(results, ONE_SIGN)
    lost = float(np.median(one[1]))
    return CheckResult(
        best(both) < best(one) and 64 <= best(one) <= 256,
        f"With the signs taken away the best chunk is {best(one)} instead of {best(both)} (√n is "
        f"{LENGTHS[-1] ** 0.5:.0f}), and without chunks {100 * lost:.0f} % of the sum is lost.",
    )


@claim.explanation("Without chunks the error grows with the length")
def error_grows_with_the_length(results: Results) -> CheckResult:
    """Without chunks sixteen times as many terms have at least four times the error."""
    short = float(np.median(results.values("error", product=LONG, length=LENGTHS[0], chunk=1)))
    long = float(np.median(curve(results)[1]))
    return CheckResult(
        long > 4 * short,
        f"Without chunks: {100 * short:.2g} % for sums of {LENGTHS[0]:,}, {100 * long:.2g} % for {LENGTHS[-1]:,}.",
    )


@claim.summary
def measured(results: Results) -> str:
    """Errors of the long sums, medians."""
    errors = curve(results)
    text = ", ".join(f"{100 * float(np.median(errors[c])):.2g} % at {c:,}" for c in DRAWN)
    return f"median error of sums of {LENGTHS[-1]:,}: {text}"


claim.draw(
    f"error of sums of {LENGTHS[-1]:,}, %",
    lambda results: {f"chunks of {c:,}": 100 * curve(results)[c] for c in DRAWN},
    log=True,
)

claim.compared(
    theirs_on="not named in our source",
    ours_on="digits, one convolution of a small net",
    rows=(
        {
            "chunks of 1": "no chunks",
            "chunks of 32": "chunks of 32",
            "chunks of 64": "chunks of 64",
            "chunks of 256": "chunks of 256",
        },
    ),
)
claim.found(
    least_where_the_paper_says,
    holds="best with chunks of 64 to 256",
    fails=lambda results: (
        f"a chunk below 64 is best on {int((best_of_each_seed(results) < 64).sum())} of "
        f"{len(best_of_each_seed(results))} seeds"
    ),
)
claim.found(valley, holds="much shorter and longer ones are worse", fails="no chunk in the middle is best")
claim.found(short_sums_are_flat, holds="short sums do not care", fails="short sums care, too")

WANG_2018_CHUNKS = claim.build()
