"""Chmiel et al. 2022: gradients rounded to powers of two without bias, at the price of variance that samples divide."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.drawing import RANGE
from lplab.claims.framework.models import deep_mlp
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words, median_and_range, within_noise
from lplab.claims.framework.trainings import cosine, train
from lplab.claims.papers.sun_2020_threshold import GRADIENTS, samples
from lplab.quantizers import LUQ

if TYPE_CHECKING:
    from lplab.training import Recipe

STEPS, DRAWS, COUNT = 200, 48, 2**13
LOGNORMAL = "lognormal, σ = 2"
TENSORS = (LOGNORMAL, GRADIENTS)
FLOAT, ONE, TWO = "float32", "LUQ", "LUQ, two samples"
NEAREST, PHASES = "nearest powers of two", "radix 4, two phases"
RULES = (FLOAT, ONE, TWO, NEAREST, PHASES)
HALF = (0.45, 0.55)  # what counts as halved

POINTS: tuple[Point, ...] = (*({"tensor": tensor} for tensor in TENSORS), *({"rule": rule} for rule in RULES))

claim = ClaimBuilder(
    id="luq_2022",
    title="Powers of two without bias train better than radix 4; samples divide the variance",
    paper=cite("luq_2023"),
    where="section 4; tables",
    statement="Gradients need rounding without bias: powers of two, rounded stochastically, below the smallest value, "
    "too, beat radix 4 in two phases; the mean of several samples makes up for the added variance.",
    published="75.42 % with LUQ and 75.63 % with two samples, 74.01 % with radix 4 in two "
    "phases, 76.5 % in float32 (read)",
    experiment=f"Bias and squared error over {DRAWS} draws, of lognormal numbers and of real gradients; and five "
    f"linear layers on the digits, {STEPS} steps, all in float32 but for the output gradients.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=15,
    limits="A small network on easy images, with float32 forward. Fine-tuning at the end in high precision, which the "
    "paper adds, is not run here; its α is printed in three ways, ours makes the largest value max|dy|.",
)


def numbers_of(tensor: str, seed: int) -> np.ndarray:
    """The numbers to be rounded, float64: lognormal ones with random signs, or a real output gradient.

    >>> len(numbers_of(LOGNORMAL, 0))
    8192
    """
    if tensor == GRADIENTS:
        return samples(GRADIENTS, seed)
    rng = np.random.default_rng(seed)
    return np.exp(2 * rng.standard_normal(COUNT)) * rng.choice((-1.0, 1.0), COUNT)


def recipe_of(rule: str) -> Recipe:
    """float32 but for the output gradients of all layers but first and last.

    >>> recipe_of("LUQ").output_gradient_dx
    QuantSpec(quantizer=LUQ(samples=1, exponent_bits=3, random_bits=16, nearest=False))
    """
    from lplab.training import QuantSpec, recipes

    if rule == FLOAT:
        return recipes.get("fp32")
    whole = recipes.get("luq_2022", samples=2) if rule == TWO else recipes.get("luq_2022")
    if rule == PHASES:
        whole = recipes.get("int4_fp4_2020")
    if rule == NEAREST:
        own = QuantSpec(quantizer=LUQ(nearest=True))
        whole = whole.replace(output_gradient_dx=own, output_gradient_dw=own)
    return whole.replace(weight=None, activation=None)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Measure a tensor (bias and error of each way to round it) or a rule (the losses of a training)."""
    if "rule" in point:
        return train(deep_mlp(), recipe_of(point["rule"]), STEPS, seed, schedule=cosine(STEPS)).numbers()
    x = numbers_of(point["tensor"], seed)
    values: dict[str, float] = {}
    for name, quantizer, draws in (("one", LUQ(), DRAWS), ("two", LUQ(2), DRAWS), ("nearest", LUQ(nearest=True), 1)):
        rounded = np.stack([quantizer.quantize(x, seed=1000 * seed + k) for k in range(draws)])
        wrong = rounded - x
        values[f"{name}_bias"] = round(float(np.mean(wrong * np.sign(x)) / np.mean(np.abs(x))), 8)
        values[f"{name}_error"] = round(float(np.mean(wrong**2) / np.mean(x**2)), 8)
    return values


def _tensor(results: Results, tensor: str, number: str) -> np.ndarray:
    return results.values(number, tensor=tensor)


def _losses(results: Results, rule: str) -> np.ndarray:
    return results.values("loss", rule=rule)


@claim.criterion("No bias")
def no_bias(results: Results) -> CheckResult:
    """The mean of stochastic rounding is the number itself, to 1 %; nearest rounding is off by more."""
    values = {t: [_tensor(results, t, f"{name}_bias") for name in ("one", "nearest")] for t in TENSORS}
    text = [f"{_percent(one)} against {_percent(near)} ({t})" for t, (one, near) in values.items()]
    return CheckResult(
        all(np.abs(one).max() < 0.01 < np.abs(near).min() for one, near in values.values()),
        f"Bias of the mean magnitude, LUQ against nearest: {join_words(text)}.",
    )


@claim.criterion("A larger squared error than rounding to nearest")
def more_variance(results: Results) -> CheckResult:
    """The squared error is larger than with nearest rounding, on every tensor and seed."""
    values = {t: _tensor(results, t, "one_error") / _tensor(results, t, "nearest_error") for t in TENSORS}
    text = [f"{r.min():.1f} to {r.max():.1f} times ({t})" for t, r in values.items()]
    return CheckResult(
        all(bool(r.min() > 1) for r in values.values()),
        f"The mean squared error of LUQ is {join_words(text)} that of rounding to nearest.",
    )


@claim.criterion("Two samples halve it")
def two_samples_halve_it(results: Results) -> CheckResult:
    """The mean of two samples has half the error."""
    ratios = np.concatenate([_tensor(results, t, "two_error") / _tensor(results, t, "one_error") for t in TENSORS])
    return CheckResult(
        bool(HALF[0] < ratios.min() and ratios.max() < HALF[1]),
        f"Two samples leave {100 * ratios.min():.0f} to {100 * ratios.max():.0f} % of the squared error.",
    )


@claim.criterion("Trains better than radix 4 in two phases")
def better_than_two_phases(results: Results) -> CheckResult:
    """A training with LUQ ends lower than one with radix 4 in two phases, seed by seed."""
    luq, phases = _losses(results, ONE), _losses(results, PHASES)
    gaps = phases - luq
    return CheckResult(
        bool(gaps.min() > 0),
        f"Five linear layers, {STEPS} steps: LUQ {median_and_range(luq)}, radix 4 in two phases "
        f"{median_and_range(phases)}, float32 {median_and_range(_losses(results, FLOAT))} bits; seed by seed LUQ is "
        f"{gaps.min():.2f} to {gaps.max():.2f} lower.",
    )


@claim.explanation("One sample leaves nothing to win for the second")
def nothing_left_for_samples(results: Results) -> CheckResult:
    """One sample trains as float32 does here, so that a second one has nothing to win."""
    one, two, base = (_losses(results, rule) for rule in (ONE, TWO, FLOAT))
    return CheckResult(
        within_noise(one, base) and within_noise(two, one) and within_noise(one, two),
        f"With one sample {median_and_range(one)} bits, with two for dW {median_and_range(two)}, float32 "
        f"{median_and_range(base)}: nothing is left for the second sample to win.",
    )


@claim.explanation("The finer grid counts here, not the bias")
def grid_before_bias(results: Results) -> CheckResult:
    """What separates LUQ from radix 4 here is the finer grid: the same powers of two with a bias train as well."""
    near, one, phases = (_losses(results, rule) for rule in (NEAREST, ONE, PHASES))
    return CheckResult(
        within_noise(near, one) and float(np.median(near)) < float(np.median(phases)),
        f"The same powers of two rounded to nearest, with their bias: {median_and_range(near)} bits. At a scale for "
        "each tensor the finer grid counts here, not freedom from bias.",
    )


def _percent(values: np.ndarray) -> str:
    return f"{100 * float(np.median(values)):+.1f} %".replace("-", "−")


@claim.summary
def measured(results: Results) -> str:
    """Bias, variance and the trainings."""
    bias = max(float(np.abs(_tensor(results, t, "one_bias")).max()) for t in TENSORS)
    trained = "; ".join(f"{rule} {median_and_range(_losses(results, rule))}" for rule in RULES)
    return f"bias below {100 * bias:.1f} %. {two_samples_halve_it(results).sentence} Trainings: {trained} bits"


claim.draw("test loss, bits", lambda results: {rule: _losses(results, rule) for rule in RULES})
claim.draw(
    "squared error of two samples, % of that of one",
    lambda results: {t: 100 * _tensor(results, t, "two_error") / _tensor(results, t, "one_error") for t in TENSORS},
    axis=(0, 100),
    statistic=RANGE,
)


def in_their_unit(results: Results) -> str:
    """Right answers in percent, in the order of the published ones."""
    right = [100 - results.median("error", rule=rule) for rule in (ONE, TWO, PHASES, FLOAT)]
    return (
        "{:.1f} % with LUQ and {:.1f} % with two samples, {:.1f} % with radix 4 in two phases, {:.1f} % in float32"
    ).format(*right)


claim.compared(
    theirs_on="ImageNet, ResNet-50",
    ours_on="8 × 8 digits, five linear layers",
    rows=(
        {
            "float32": "float32",
            "LUQ": "LUQ",
            "radix 4, two phases": "radix 4, two phases",
            "nearest powers of two": "powers of two, nearest",
        },
    ),
    ours=in_their_unit,
)
claim.found(no_bias, more_variance, holds="no bias, a larger error", fails="a bias, or no larger error")
claim.found(two_samples_halve_it, holds="two samples halve it", fails="two samples do not halve it")
claim.found(
    better_than_two_phases,
    holds="trains better than radix 4 in two phases",
    fails="trains no better than radix 4 in two phases",
)

LUQ_2022 = claim.build()
