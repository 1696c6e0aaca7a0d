"""Gupta et al. 2015: sixteen bits of fixed point train with stochastic rounding, and stall with round to nearest."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import counting_noise, join_words, median_and_range
from lplab.training import FixedPointConfig, train_fixed_point
from lplab.training.fixed_point.training import TEST_IMAGES

RULES = ("stochastic", "nearest_down", "nearest_even", "nearest_up")
FLOATING = "floating point"
# fraction bits that are measured with words of 16 and of 20 bits
FRACTION_BITS_16, FRACTION_BITS_20 = tuple(range(4, 15)), tuple(range(4, 19))
# percent of wrong answers: below, a run has learned; above, it has not (guessing: 90)
MAX_ERROR_LEARNED, MIN_ERROR_STALLED = 10.0, 50.0


@dataclass(frozen=True)
class ExperimentSetting:
    """One way to set the experiment up: everything but rounding rule, fraction bits and seed."""

    label: str
    run: dict[str, Any]
    fraction_bits: tuple[int, ...]
    rules: tuple[str, ...] = RULES


SETTINGS = {
    "one format": ExperimentSetting("16 bits, one format", {}, FRACTION_BITS_16),
    "20 bits": ExperimentSetting("20 bits, one format", {"word_length": 20}, FRACTION_BITS_20),
    "wide outputs": ExperimentSetting("16 bits, outputs ⟨6, 10⟩", {"outputs": "q6.10"}, FRACTION_BITS_16),
    "gradient first": ExperimentSetting(
        "gradient rounded first, outputs ⟨6, 10⟩",
        {"outputs": "q6.10", "convert_gradient": True},
        FRACTION_BITS_16,
    ),
}

POINTS: tuple[Point, ...] = (
    {"setting": FLOATING},
    *(
        {"setting": name, "rounding": rule, "fraction_bits": bits}
        for name, setting in SETTINGS.items()
        for rule in setting.rules
        for bits in setting.fraction_bits
    ),
)

claim = ClaimBuilder(
    id="gupta_2015",
    title="Sixteen bits of fixed point train with stochastic rounding where round to nearest stalls",
    paper=cite("gupta_2015"),
    where="section 4.1, figure 1",
    statement="With 16-bit fixed point and stochastic rounding a network trains with little or no loss against "
    "floating point; with round to nearest it gets worse as fraction bits are taken away, and stalls.",
    published="float 1.4 %; stochastic 1.4–1.5 % at FL 14, 10 and 8; nearest about "
    "1.45, 1.7 and 3 % (read off the figure)",
    experiment="The same scheme on 8 × 8 digits, two hidden layers of 128, 60 epochs, 1,400 images to train and "
    f"{TEST_IMAGES} to test; weights and updates ⟨16 − FL, FL⟩.",
    points=POINTS,
    seeds=(0, 1, 2, 3, 4),
    budget_seconds=760,
    limits="A small network on small images: a point where it stalls lies at other fraction bits than the paper's. "
    "Learning rate and first weights are ours, the paper gives none for this network. Convolutional nets and CIFAR-10, "
    "where the paper saw nearest fail at 12 and 14 fraction bits, are not run here.",
)


def run_of(point: Point, seed: int) -> FixedPointConfig:
    """The training behind a point of the claim.

    >>> run_of({"setting": "wide outputs", "rounding": "stochastic", "fraction_bits": 8}, seed=3).output_format.name
    'q6.10'
    """
    if point["setting"] == FLOATING:
        return FixedPointConfig(fraction_bits=None, seed=seed)
    own = SETTINGS[point["setting"]].run
    return FixedPointConfig(fraction_bits=point["fraction_bits"], rounding=point["rounding"], seed=seed, **own)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Train once: test error (%) and the shares of what Convert did."""
    return {name: round(value, 6) for name, value in train_fixed_point(run_of(point, seed)).numbers().items()}


def _errors(results: Results, setting: str, rule: str, bits: int, number: str = "test_error") -> np.ndarray:
    return results.values(number, setting=setting, rounding=rule, fraction_bits=bits)


def _median(results: Results, setting: str, rule: str, bits: int, number: str = "test_error") -> float:
    return float(np.median(_errors(results, setting, rule, bits, number)))


@claim.criterion("Stochastic rounding stays within noise of floating point")
def stochastic_matches_floating_point(results: Results) -> CheckResult:
    """Stochastic rounding, 14, 10 and 8 fraction bits: within the noise of the test set of floating point."""
    floating = results.median("test_error", setting=FLOATING)
    medians = {bits: _median(results, "wide outputs", "stochastic", bits) for bits in (14, 10, 8)}
    limit = floating + counting_noise(floating, TEST_IMAGES)
    text = ", ".join(f"{error:.1f} % at {bits}" for bits, error in medians.items())
    sentence = (
        f"With layer outputs ⟨6, 10⟩: stochastic {text} fraction bits; floating point {floating:.1f} %, with noise up "
        f"to {limit:.1f} %."
    )
    return CheckResult(max(medians.values()) <= limit, sentence)


@claim.criterion("Round to nearest gets worse as fraction bits are taken away")
def nearest_gets_worse(results: Results) -> CheckResult:
    """Round to nearest: the median error rises from 14 to 10 to 8 to 6 fraction bits, or stays, and ends higher."""
    medians = [_median(results, "wide outputs", "nearest_down", bits) for bits in (14, 10, 8, 6)]
    rises = all(a <= b for a, b in pairwise(medians)) and medians[0] < medians[2]
    text = ", ".join(f"{error:.1f} %" for error in medians)
    return CheckResult(rises, f"With layer outputs ⟨6, 10⟩: nearest {text} at 14, 10, 8, 6 fraction bits.")


@claim.criterion("With few fraction bits nearest stalls and stochastic trains")
def nearest_stalls_where_stochastic_trains(results: Results) -> CheckResult:
    """There are fraction bits at which no seed learns with nearest and every seed learns with stochastic rounding."""
    values = [
        bits
        for bits in results.along("fraction_bits", setting="wide outputs", rounding="stochastic")
        if _errors(results, "wide outputs", "nearest_down", bits).min() > MIN_ERROR_STALLED
        and _errors(results, "wide outputs", "stochastic", bits).max() < MAX_ERROR_LEARNED
    ]
    if not values:
        return CheckResult(
            False, "There are no fraction bits at which nearest stalls and stochastic trains, on all seeds."
        )
    nearest, stochastic = (
        np.concatenate([_errors(results, "wide outputs", rule, bits) for bits in values])
        for rule in ("nearest_down", "stochastic")
    )
    return CheckResult(
        True,
        f"At {join_words([str(bits) for bits in values])} fraction bits every seed stalls with nearest (at best "
        f"{nearest.min():.0f} % wrong) and learns with stochastic (at worst {stochastic.max():.1f} %).",
    )


@claim.explanation("Nearest stalls because updates are lost")
def updates_are_lost(results: Results) -> CheckResult:
    """Why nearest stalls: nearly every update is smaller than half a step, and none of those comes through."""
    bits = 6
    made = {r: _median(results, "wide outputs", r, bits, "updates_made") for r in ("nearest_down", "stochastic")}
    lost = _median(results, "wide outputs", "stochastic", bits, "updates_lost")
    return CheckResult(
        made["nearest_down"] < 0.001 < 0.005 < made["stochastic"],
        f"At {bits} fraction bits {_share(made['nearest_down'], 3)} of all weights move in a step with nearest, "
        f"{_share(made['stochastic'])} with stochastic. Of the updates that were not zero, stochastic also loses "
        f"{_share(lost)}, but other ones each time.",
    )


@claim.explanation("Many fraction bits fail because outputs saturate")
def outputs_saturate(results: Results) -> CheckResult:
    """Why one format for everything fails with many fraction bits: the integer bits do not reach the outputs."""
    shares = [_median(results, "one format", "stochastic", bits, "outputs_saturated") for bits in (8, 14)]
    narrow, long = (_median(results, setting, "stochastic", 14) for setting in ("one format", "20 bits"))
    return CheckResult(
        shares[0] < 0.001 < shares[1] and narrow > MIN_ERROR_STALLED and long < MAX_ERROR_LEARNED,
        f"With one format of 16 bits and 14 fraction bits, ⟨2, 14⟩, {_share(shares[1], 0)} of the outputs saturate and "
        f"{narrow:.0f} % of the answers are wrong; with 20 bits, ⟨6, 14⟩, {long:.1f} %.",
    )


@claim.explanation("The rule for ties matters where ties are frequent")
def ties_matter_when_there_are_ties(results: Results) -> CheckResult:
    """floor(x + ½) is as good as nearest where ties are rare, and drifts away where they are not."""
    bits = 8
    rare, often = (_median(results, s, "nearest_up", bits, "ties") for s in ("wide outputs", "gradient first"))
    one = [_median(results, "wide outputs", rule, bits) for rule in ("nearest_even", "nearest_up")]
    two = [_median(results, "gradient first", rule, bits) for rule in ("nearest_even", "nearest_up")]
    return CheckResult(
        abs(one[0] - one[1]) <= counting_noise(max(one), TEST_IMAGES)
        and two[0] < MAX_ERROR_LEARNED < MIN_ERROR_STALLED < two[1],
        f"At {bits} fraction bits, one Convert for each update: {_share(rare, 3)} ties, to even {one[0]:.1f} % and "
        f"floor(x + ½) {one[1]:.1f} % wrong. The gradient rounded first: {_share(often)} ties, to even {two[0]:.1f} % "
        f"and floor(x + ½) {two[1]:.0f} % wrong.",
    )


@claim.summary
def measured(results: Results) -> str:
    """Medians over the seeds, and the spread, in the words of the paper."""
    parts = [f"float {median_and_range(results.values('test_error', setting=FLOATING), 1, ' %')}"]
    for rule, name in (("stochastic", "stochastic"), ("nearest_down", "nearest")):
        each = (
            f"FL {b}: {median_and_range(_errors(results, 'wide outputs', rule, b), 1, ' %')}" for b in (14, 10, 8, 6)
        )
        parts.append(f"{name} {', '.join(each)}")
    return "; ".join(parts)


def _share(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


claim.draw(
    "test error, %",
    lambda results: {
        FLOATING: results.values("test_error", setting=FLOATING),
        **{
            f"{name}, {bits} fraction bits": _errors(results, "wide outputs", rule, bits)
            for name, rule in (("stochastic", "stochastic"), ("nearest", "nearest_down"))
            for bits in (14, 10, 8, 6)
        },
    },
    {
        FLOATING: 1.4,
        **{f"stochastic, {bits} fraction bits": (1.4, 1.5) for bits in (14, 10, 8)},
        **{f"nearest, {bits} fraction bits": error for bits, error in ((14, 1.45), (10, 1.7), (8, 3.0))},
    },
    log=True,
)

claim.compared(
    theirs_on="MNIST, two hidden layers of 1,000",
    ours_on="8 × 8 digits, two hidden layers of 128",
    rows=(
        {
            "floating point": "floating point",
            "stochastic, 8 fraction bits": "stochastic, 8 fraction bits",
            "nearest, 8 fraction bits": "nearest, 8 fraction bits",
            "nearest, 6 fraction bits": "nearest, 6 fraction bits",
        },
    ),
)
claim.found(
    stochastic_matches_floating_point,
    holds="stochastic rounding as good as floating point",
    fails="stochastic rounding worse than floating point",
)
claim.found(
    nearest_gets_worse,
    nearest_stalls_where_stochastic_trains,
    holds="nearest gets worse with few bits, and stalls",
    fails="nearest does not get worse and stall with few bits",
)

GUPTA_2015 = claim.build()
