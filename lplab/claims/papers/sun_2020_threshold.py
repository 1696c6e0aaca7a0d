"""Sun et al. 2020: the threshold of radix-4 rounding with the least error is the midpoint, 4^n / 1.6."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words
from lplab.quantizers.radix4 import reference_radix4

COUNT = 2**15
LARGEST = 64.0
PUBLISHED = 1.6
MULTIPLIERS = tuple(round(1 + 0.05 * k, 2) for k in range(29))  # 1.00 … 2.40

DRAWN: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "uniform": lambda rng: rng.uniform(-LARGEST, LARGEST, COUNT),
    "gaussian": lambda rng: rng.standard_normal(COUNT) * LARGEST / 4,
    "log-uniform": lambda rng: LARGEST * 2.0 ** -(14 * rng.random(COUNT)) * rng.choice((-1.0, 1.0), COUNT),
}
"""The three distributions of the claim; two further points look at where it does not hold."""
SMALL = "gaussian, scale too small"
GRADIENTS = "gradients of a Transformer"
LAYERS = ("blocks.0.attention.qkv", "blocks.1.mlp.up", "blocks.2.mlp.down")

POINTS: tuple[Point, ...] = tuple({"distribution": name} for name in (*DRAWN, SMALL, GRADIENTS))

claim = ClaimBuilder(
    id="sun_2020_threshold",
    title="Radix-4 rounding has the least error with thresholds at 4^n / 1.6",
    paper=cite("sun_2020"),
    where="section 3.1, equation 1 and figure 2b",
    statement="Between two neighbouring powers of four the threshold 4^n / 1.6, their arithmetic middle, minimises the "
    "mean squared error of a tensor.",
    published="least mean squared error at 1.6 (figure 2b, read)",
    experiment=f"The procedure of figure 2c with multipliers from 1.0 to 2.4 on {COUNT:,} numbers of three "
    "distributions, scaled so that the largest lies near 64.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=5,
    limits="Errors of single tensors: what they do to a training is asked by sun_2020_two_phase and sun_2020_ablation.",
)


def samples(name: str, seed: int) -> np.ndarray:
    """Numbers of a distribution, float64: ``COUNT`` random ones, or a real output gradient scaled to the grid.

    Args:
        name: of ``DRAWN``; ``SMALL``, the Gaussian one with its largest number near 1/64 (a scale for the whole network
            leaves many layers there); or ``GRADIENTS``, three layers of a Transformer after 1,000 steps.
        seed: of the draw; of the gradients, which of three layers.

    >>> bool(abs(samples("uniform", 0)).max() <= 64), len(samples("gaussian", 1))
    (True, 32768)
    """
    if name == GRADIENTS:
        return _gradients(seed)
    rng = np.random.default_rng(seed)
    return DRAWN["gaussian"](rng) / 4096 if name == SMALL else DRAWN[name](rng)


def _gradients(seed: int) -> np.ndarray:
    from lplab.datasets import captured

    dy = captured()[f"transformer/step1000/{LAYERS[seed]}/gradient"].astype(np.float64).ravel()
    return dy * 2.0 ** np.floor(np.log2(LARGEST / np.abs(dy).max()))


def error(x: np.ndarray, multiplier: float) -> tuple[float, float]:
    """Mean squared error over mean square, and the mean of the error along the sign of x over the mean magnitude.

    >>> error(np.array([2.0, 3.0]), 1.6)
    (0.1538..., 0.0)
    """
    wrong = reference_radix4(x, multiplier) - x
    return float(np.mean(wrong**2) / np.mean(x**2)), float(np.mean(wrong * np.sign(x)) / np.mean(np.abs(x)))


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """The error at every multiplier, where it is least (to 0.01), and where rounding keeps the mean magnitude."""
    x = samples(point["distribution"], seed)
    values = {f"error_{m:.2f}": round(error(x, m)[0], 8) for m in MULTIPLIERS}
    coarse = min(MULTIPLIERS, key=lambda m: values[f"error_{m:.2f}"])
    fine = [round(coarse - 0.05 + 0.01 * k, 2) for k in range(11)]
    best = min(fine, key=lambda m: error(x, m)[0])
    biases = {m: error(x, m)[1] for m in (*MULTIPLIERS, 2.6, 2.8, 3.2, 4.0)}
    unbiased = min(biases, key=lambda m: abs(biases[m]))
    return {**values, "best": best, "bias": round(biases[PUBLISHED], 8), "unbiased": unbiased}


def _numbers(results: Results, number: str, name: str) -> np.ndarray:
    return results.values(number, distribution=name)


@claim.criterion("The error is least at 1.6 for three distributions")
def least_at_the_midpoint(results: Results) -> CheckResult:
    """For each of the three distributions, on every seed, the error is least within 0.03 of 1.6."""
    best = {name: _numbers(results, "best", name) for name in DRAWN}
    text = join_words([f"{_range(values)} ({name})" for name, values in best.items()])
    off = max(float(np.abs(values - PUBLISHED).max()) for values in best.values())
    return CheckResult(off < 0.031, f"The error is least at a multiplier of {text}.")


@claim.criterion("It grows on both sides")
def further_away_is_worse(results: Results) -> CheckResult:
    """The error rises on both sides of 1.6: at 1.0 and at 2.2 it is clearly larger."""
    worse = []
    for name in DRAWN:
        middle = _numbers(results, "error_1.60", name)
        worse.append([float(np.median(_numbers(results, f"error_{m}", name) / middle)) for m in ("1.00", "2.20")])
    low, high = zip(*worse, strict=True)
    return CheckResult(
        min(min(low), min(high)) > 1.02,
        f"Against 1.6 the mean squared error is {min(low):.2f} to {max(low):.2f} times as large at 1.0, and "
        f"{min(high):.2f} to {max(high):.2f} times at 2.2.",
    )


@claim.explanation("At a scale that is too small another multiplier is best")
def zero_is_no_midpoint(results: Results) -> CheckResult:
    """The one threshold that is not halfway, the one to zero, counts where the scale is too small: another best."""
    best = _numbers(results, "best", SMALL)
    return CheckResult(
        bool(best.min() > 1.9),
        f"Where most numbers lie near the smallest value, the least error is at {_range(best)}: below 1/64 the rule's "
        "threshold is 0.625 of the value, not the half.",
    )


@claim.explanation("The least error is not freedom from bias: magnitudes shrink")
def least_error_is_not_no_bias(results: Results) -> CheckResult:
    """At 1.6 the magnitudes of all but the uniform distribution shrink."""
    bias = {name: float(np.median(_numbers(results, "bias", name))) for name in DRAWN}
    shrunk = {name: b for name, b in bias.items() if b < -0.05}
    free = {name: _numbers(results, "unbiased", name) for name in shrunk}
    text = join_words([f"{100 * -b:.0f} % ({name}; no bias at {_range(free[name])})" for name, b in shrunk.items()])
    return CheckResult(
        len(shrunk) == 2 and abs(bias["uniform"]) < 0.02,
        f"The rule shrinks the mean magnitude by {text or 'nothing'}; of uniform numbers by "
        f"{100 * abs(bias['uniform']):.1f} %.",
    )


@claim.explanation("Real gradients at a scale of their own behave alike")
def real_gradients_too(results: Results) -> CheckResult:
    """Real output gradients, at a scale of their own layer, lie within 0.1 of the published multiplier."""
    best = _numbers(results, "best", GRADIENTS)
    shrunk = _numbers(results, "bias", GRADIENTS)
    return CheckResult(
        bool(np.abs(best - PUBLISHED).max() <= 0.1),
        f"Output gradients of three layers of a Transformer: least error at {_range(best)}; at 1.6 their mean "
        f"magnitude shrinks by {-100 * shrunk.max():.1f} to {-100 * shrunk.min():.1f} %.",
    )


def _range(values: np.ndarray) -> str:
    low, high = values.min(), values.max()
    return f"{low:.2f}" if low == high else f"{low:.2f}–{high:.2f}"


@claim.summary
def measured(results: Results) -> str:
    """The best multiplier of each distribution."""
    return "; ".join(f"{name} {_range(_numbers(results, 'best', name))}" for name in DRAWN)


claim.draw(
    "multiplier with the least error",
    lambda results: {name: _numbers(results, "best", name) for name in DRAWN},
    dict.fromkeys(DRAWN, PUBLISHED),
    axis=(MULTIPLIERS[0], MULTIPLIERS[-1]),
)

claim.compared(theirs_on="random numbers", ours_on="random numbers of three distributions")
claim.found(least_at_the_midpoint, holds="least error at 1.6", fails="least error not at 1.6")
claim.found(further_away_is_worse, holds="more on both sides", fails="not more on both sides")

SUN_2020_THRESHOLD = claim.build()
