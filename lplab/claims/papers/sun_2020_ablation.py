"""Sun et al. 2020: what each step away from four bits everywhere brings."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.claim import CheckResult, Numbers, Point, Results
from lplab.claims.framework.compare import join_words, median_and_range, seed_range
from lplab.claims.framework.models import bottleneck_net, small_transformer
from lplab.claims.framework.trainings import cosine, one_thread, train

if TYPE_CHECKING:
    from lplab.training import Recipe

STEPS, BEFORE, BATCHES = 100, 40, 4  # BEFORE: float32 steps before gradients are compared on so many batches
TEXT, PICTURES = "transformer", "bottleneck net"
FLOAT, FORWARD, TWO, SINGLE = "float32", "INT4 forward alone", "two phases", "one phase"
EIGHT, ALL, SOME = "dx FP4, dW FP8", "all 1 × 1 FP8", "reducing 1 × 1 FP8"

SWITCHES: dict[str, dict[str, Any]] = {
    FORWARD: {"gradients": "fp32"},
    EIGHT: {"dw": "fp8"},
    ALL: {"pointwise": "fp8"},
    SOME: {"pointwise": "reducing_fp8"},
    TWO: {},
    SINGLE: {"phases": "single"},
}
ORDER = {TEXT: (FLOAT, FORWARD, EIGHT, TWO, SINGLE), PICTURES: (FLOAT, FORWARD, ALL, SOME, TWO)}
"""From the least loss to the largest, as the paper's tables have it."""

POINTS: tuple[Point, ...] = (
    *({"network": TEXT, "recipe": name} for name in ORDER[TEXT]),
    *({"network": PICTURES, "recipe": name} for name in (*ORDER[PICTURES], EIGHT)),
)

claim = ClaimBuilder(
    id="sun_2020_ablation",
    title="Each step away from four bits everywhere brings accuracy back",
    paper=cite("sun_2020"),
    where="tables 1 to 3, figure 1",
    statement="FP8 for dW, or for the gradients of some or all 1 × 1 convolutions, brings back part of what four bits "
    "everywhere lose; INT4 forward alone loses least.",
    published="ResNet-50 on ImageNet: float32 76.48, INT4 forward 75.76, all 1 × 1 FP8 75.51, bottom 1 × 1 FP8 74.99, "
    "dx FP4 with dW FP8 74.92, two phases 74.01 %; Transformer BLEU 27.5, dW FP8 25.9, two phases 25.4 (read)",
    experiment=f"{STEPS} steps of a character Transformer of two blocks and of a residual net of three bottleneck "
    "blocks on the digits; and, at the same weights, how far each recipe moves the weight gradients of the latter.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=180,
    limits="Three bottleneck blocks on easy images; which 1 × 1 convolutions the paper calls “bottom” is our reading "
    "(sun_2020_hardware has a reason). Sums are float32's; the paper's are 1-6-9.",
)


def recipe_of(name: str) -> Recipe:
    """The recipe behind a name.

    >>> recipe_of("float32").name, recipe_of("two phases").name
    ('fp32', 'int4_fp4_2020')
    """
    from lplab.training import recipes

    return recipes.get("fp32") if name == FLOAT else recipes.get("int4_fp4_2020", **SWITCHES[name])


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Train once: losses (bits); of the bottleneck net also how far its gradients are off (:func:`gradient_error`)."""
    task = small_transformer() if point["network"] == TEXT else bottleneck_net()
    name = point["recipe"]
    values = train(task, recipe_of(name), STEPS, seed, schedule=cosine(STEPS)).numbers()
    if point["network"] == PICTURES:
        values["gradient_error"] = gradient_error(name, seed)
    return values


def gradient_error(name: str, seed: int) -> float:
    """How far rounding gradients moves dW, at the same weights and batches: ‖dW − dW₀‖ / ‖dW₀‖, median over batches.

    The weights are those after ``BEFORE`` steps in float32; dW₀ is the gradient with INT4 forward and float32 backward,
    so that the gradients' own formats are all that differs. Convolutions alone.

    >>> gradient_error("INT4 forward alone", seed=0)
    0.0
    """
    from lplab.training import dequantize_model

    if name in (FLOAT, FORWARD):
        return 0.0
    task = bottleneck_net()
    model = dequantize_model(train(task, "fp32", BEFORE, seed).trainer.model)
    data = task.data(task.batch, seed)
    errors = []
    with one_thread():
        for step in range(BEFORE, BEFORE + BATCHES):
            exact, rounded = (_gradient(model, recipe_of(which), *data(step)) for which in (FORWARD, name))
            errors.append(float(np.linalg.norm(rounded - exact) / np.linalg.norm(exact)))
    return round(float(np.median(errors)), 6)


def _gradient(model: Any, recipe: Recipe, inputs: Any, targets: Any) -> np.ndarray:
    import torch
    from torch.nn import functional

    from lplab.training import quantize_model

    quantized = quantize_model(model, recipe).train()
    functional.cross_entropy(quantized(inputs), targets).backward()
    return torch.cat([p.grad.flatten() for p in quantized.parameters() if p.ndim == 4]).numpy()


def _numbers(results: Results, network: str, name: str, number: str = "loss") -> np.ndarray:
    return results.values(number, network=network, recipe=name)


def _ordered(results: Results, network: str) -> CheckResult:
    medians = {name: float(np.median(_numbers(results, network, name))) for name in ORDER[network]}
    apart = max(seed_range(_numbers(results, network, name)) for name in ORDER[network])
    text = ", ".join(f"{name} {value:.3f}" for name, value in medians.items())
    return CheckResult(
        all(a < b for a, b in pairwise(medians.values())),
        f"{network.capitalize()}, from the paper's best to its worst: {text} bits; seeds lie up to {apart:.3f} apart.",
    )


@claim.criterion("The Transformer is in the paper's order")
def text_is_in_order(results: Results) -> CheckResult:
    """Transformer: float32, INT4 forward alone, dW in FP8, two phases, one phase: each worse than the one before."""
    return _ordered(results, TEXT)


@claim.criterion("The bottleneck net is in the paper's order")
def images_are_in_order(results: Results) -> CheckResult:
    """Bottleneck net: float32, INT4 forward, all 1 × 1 in FP8, the reducing ones, none: each worse than before."""
    return _ordered(results, PICTURES)


@claim.explanation("The weight gradients are in the paper's order")
def gradients_are_in_order(results: Results) -> CheckResult:
    """At the same weights the gradients themselves are in the paper's order, on every seed."""
    names = (ALL, SOME, TWO)
    errors = {name: _numbers(results, PICTURES, name, "gradient_error") for name in names}
    text = join_words([f"{100 * float(np.median(e)):.0f} % ({name})" for name, e in errors.items()])
    return CheckResult(
        all(bool((errors[a] < errors[b]).all()) for a, b in pairwise(names)),
        f"How far the weight gradients of the bottleneck net are off, at the same weights and batches: {text}.",
    )


@claim.explanation("FP8 for dW leaves the error of dx alone")
def eight_bits_for_dw(results: Results) -> CheckResult:
    """dW in FP8 leaves the error that came through dx: less than two phases, more than none."""
    eight, two = (_numbers(results, PICTURES, name, "gradient_error") for name in (EIGHT, TWO))
    return CheckResult(
        bool((eight < two).all()),
        f"With dW in FP8 they are {100 * float(np.median(eight)):.0f} % off, all of it through dx; with FP4 for both "
        f"{100 * float(np.median(two)):.0f} %.",
    )


@claim.explanation("Transformer: one phase is worse than two on every seed")
def one_phase_is_worse(results: Results) -> CheckResult:
    """Transformer: one phase is worse than two, and worse than INT4 forward alone, seed by seed."""
    one, two, forward = (_numbers(results, TEXT, name) for name in (SINGLE, TWO, FORWARD))
    gaps = one - two
    return CheckResult(
        bool(gaps.min() > 0 and (one > forward).all()),
        f"Seed by seed one phase is {gaps.min():+.3f} to {gaps.max():+.3f} bits above two; the steps between INT4 "
        "forward alone, dW in FP8 and two phases are too small to see in so short a training.",
    )


@claim.explanation("The order of the bottleneck nets is one of medians: seeds differ by more")
def medians_alone(results: Results) -> CheckResult:
    """How sure that order is: all variants with four-bit gradients lie within what seeds differ by."""
    names = (ALL, SOME, TWO)
    medians = [float(np.median(_numbers(results, PICTURES, name))) for name in names]
    apart = max(seed_range(_numbers(results, PICTURES, name)) for name in names)
    gap = max(medians) - min(medians)
    return CheckResult(
        gap < apart,
        f"The bottleneck nets with four-bit gradients end within {gap:.3f} bits of each other, their seeds {apart:.3f} "
        "apart.",
    )


@claim.summary
def measured(results: Results) -> str:
    """Medians of both networks and the errors of the gradients."""
    text = "; ".join(f"{name} {median_and_range(_numbers(results, TEXT, name))}" for name in ORDER[TEXT])
    return f"Transformer: {text} bits. {gradients_are_in_order(results).sentence}"


claim.draw(
    "test loss of the Transformer, bits a character",
    lambda results: {name: _numbers(results, TEXT, name) for name in ORDER[TEXT]},
)
claim.draw(
    "error of the weight gradients, %",
    lambda results: {name: 100 * _numbers(results, PICTURES, name, "gradient_error") for name in (ALL, SOME, TWO)},
    axis=(0, 100),
)

SUN_2020_ABLATION = claim.build()
