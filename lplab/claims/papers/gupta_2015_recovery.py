"""Gupta et al. 2015, figure 3: a few bits more, late in the training, make up for what short words lost."""

from __future__ import annotations

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import median_and_range, within_noise
from lplab.training import FixedPointConfig
from lplab.training.fixed_point.training import train_epochs

EPOCHS, SWITCH, WINDOW = 60, 40, 5
SHORT, MORE = 3, 4  # fraction bits before the switch, and how many are added
VARIANTS = ("float", "short", "switch", "long")

POINTS: tuple[Point, ...] = tuple({"way": way} for way in VARIANTS)

claim = ClaimBuilder(
    id="gupta_2015_recovery",
    title="Longer words late in the training make up for short ones before",
    paper=cite("gupta_2015"),
    where="section 4.2, figure 3",
    statement="A network trained with 16-bit words and stochastic rounding ends somewhat worse than in floating point; "
    "switching to 20 bits late in the training closes most of the gap in a few epochs.",
    published="float 24.6 %, 16 bits with 14 fraction bits 25.4 %, with 12 it stalls at 28.8 %; with ⟨4, 16⟩ "
    "after epoch 100 near float within 15 to 20 epochs",
    experiment=f"The network and data of gupta_2015 with so few fraction bits ({SHORT}) that stochastic rounding "
    f"leaves a gap; {MORE} bits more after epoch {SWITCH} of {EPOCHS}.",
    points=POINTS,
    seeds=(0, 1, 2, 3, 4),
    budget_seconds=25,
    limits=f"On digits with 8 × 8 pixels 12 fraction bits leave no gap; {SHORT} do. The learning rate stays what it "
    "is, in the paper it had been lowered before the switch.",
)


def run_of(way: str, seed: int) -> FixedPointConfig:
    """The training of a way.

    >>> run_of("switch", 0).label
    '⟨13, 3⟩, stochastic, 4 bits more after epoch 40'
    """
    bits = {"float": None, "long": SHORT + MORE}.get(way, SHORT)
    later = SWITCH if way == "switch" else None
    return FixedPointConfig(fraction_bits=bits, outputs="q6.10", epochs=EPOCHS, seed=seed, widen_after=later)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Test errors, each the mean of five epochs: before the switch, just after it, at the end; and the last loss."""
    epochs = list(train_epochs(run_of(point["way"], seed)))
    errors = [epoch.test_error for epoch in epochs]
    means = {
        "before": errors[SWITCH - WINDOW : SWITCH],
        "after": errors[SWITCH : SWITCH + WINDOW],
        "error": errors[-WINDOW:],
        "loss": [epoch.loss for epoch in epochs[-WINDOW:]],
    }
    return {name: round(float(np.mean(values)), 6) for name, values in means.items()}


def _of(results: Results, way: str, number: str = "error") -> np.ndarray:
    return results.values(number, way=way)


@claim.criterion("Short words to the end leave a gap")
def short_words_leave_a_gap(results: Results) -> CheckResult:
    """With short words to the end, every seed is worse than floating point."""
    short, floating = _of(results, "short"), _of(results, "float")
    return CheckResult(
        bool((short > floating).all() and np.median(short) > 1.5 * np.median(floating)),
        f"⟨{16 - SHORT}, {SHORT}⟩ to the end: {median_and_range(short, 1)} % wrong, floating point "
        f"{median_and_range(floating, 1)} %.",
    )


@claim.criterion("Longer words late in the training close it")
def longer_words_close_it(results: Results) -> CheckResult:
    """After the switch every seed gets better, and the median ends within the noise of floating point."""
    switch, floating, before = _of(results, "switch"), _of(results, "float"), _of(results, "switch", "before")
    return CheckResult(
        bool((switch < before).all()) and within_noise(switch, floating),
        f"{MORE} bits more after epoch {SWITCH} of {EPOCHS}: from {median_and_range(before, 1)} to "
        f"{median_and_range(switch, 1)} %; floating point {median_and_range(floating, 1)} %.",
    )


@claim.criterion("Most of the gap is gone within five epochs")
def soon(results: Results) -> CheckResult:
    """Most of the gap is gone within five epochs."""
    before, after, floating = (
        float(np.median(values))
        for values in (_of(results, "switch", "before"), _of(results, "switch", "after"), _of(results, "float"))
    )
    share = (before - after) / max(before - floating, 1e-9)
    return CheckResult(share > 0.5, f"Within {WINDOW} epochs {100 * share:.0f} % of the gap to floating point is gone.")


@claim.explanation("Short words in the first two thirds cost nothing then")
def short_words_cost_nothing_then(results: Results) -> CheckResult:
    """Long words from the start end no better than long words for the last third."""
    switch, long = _of(results, "switch"), _of(results, "long")
    return CheckResult(
        within_noise(switch, long),
        f"⟨{16 - SHORT}, {SHORT + MORE}⟩ from the start: {median_and_range(long, 1)} %; for the last third alone: "
        f"{median_and_range(switch, 1)} %.",
    )


@claim.summary
def measured(results: Results) -> str:
    """Test errors, median and spread."""
    names = {"float": "float", "short": f"{SHORT} fraction bits", "switch": f"{MORE} more from epoch {SWITCH + 1}"}
    return "; ".join(f"{name} {median_and_range(_of(results, way), 1, ' %')}" for way, name in names.items())


claim.draw(
    "test error, %",
    lambda results: {
        "floating point": _of(results, "float"),
        f"{SHORT} fraction bits": _of(results, "short"),
        f"{MORE} more from epoch {SWITCH + 1}": _of(results, "switch"),
    },
)

claim.compared(theirs_on="CIFAR-10, a convolutional network", ours_on="8 × 8 digits, two hidden layers of 128")
claim.found(short_words_leave_a_gap, holds="short words leave a gap", fails="short words leave no gap")
claim.found(
    longer_words_close_it,
    soon,
    holds="longer ones late close it in a few epochs",
    fails="longer ones late do not close it in a few epochs",
)

GUPTA_2015_RECOVERY = claim.build()
