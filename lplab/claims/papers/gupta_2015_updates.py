"""Gupta et al. 2015, the argument of section 3.1: fewer fraction bits lose more updates, and nearest loses them all."""

from __future__ import annotations

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words
from lplab.training import FixedPointConfig
from lplab.training.fixed_point.training import train_epochs

EPOCHS = 40
BITS = (4, 5, 6, 8, 10, 12)
RULES = ("nearest_down", "stochastic")
MIN_BITS = BITS[0]

POINTS: tuple[Point, ...] = tuple({"rounding": rule, "fraction_bits": bits} for rule in RULES for bits in BITS)

claim = ClaimBuilder(
    id="gupta_2015_updates",
    title="With few fraction bits round to nearest loses every update, and the loss freezes",
    paper=cite("gupta_2015"),
    where="section 4.1",
    statement="Round to nearest sets every update below half a step to zero, so that parameters stop moving; "
    "stochastic rounding keeps them moving, because each update has a chance.",
    published="an argument in the text, without numbers; at 8 fraction bits nearest stalls at about 3 % on MNIST (read "
    "off the figure)",
    experiment=f"The network and data of gupta_2015, {EPOCHS} epochs, layer outputs ⟨6, 10⟩: every update is counted "
    "before and after Convert.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=30,
    limits="At which fraction bits nearest freezes depends on the learning rate and the size of the gradients; here it "
    "does so at 4, in the paper's networks earlier.",
)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Train once; which updates are left after Convert, and what the loss does while none is.

    ``still`` counts epochs without a single update, ``drift`` is how far the losses of those lie apart.
    """
    run = FixedPointConfig(
        fraction_bits=point["fraction_bits"], rounding=point["rounding"], outputs="q6.10", epochs=EPOCHS, seed=seed
    )
    epochs = list(train_epochs(run))
    made = [epoch.counts.updates_made for epoch in epochs]
    still = [epoch.loss for epoch, count in zip(epochs, made, strict=True) if count == 0]
    shares = [epoch.counts.shares()["updates_made"] for epoch in epochs]
    numbers = {
        "made_first": shares[0],
        "made_last": shares[-1],
        "made": float(np.mean(shares)),
        "loss_first": epochs[0].loss,
        "loss_last": epochs[-1].loss,
        "error": epochs[-1].test_error,
        "still": float(len(still)),
        "drift": float(np.ptp(still)) if still else 0.0,
    }
    return {name: round(value, 9) for name, value in numbers.items()}


def _of(results: Results, rule: str, bits: int, number: str) -> np.ndarray:
    return results.values(number, rounding=rule, fraction_bits=bits)


@claim.criterion("The share of updates that are left falls with the fraction bits")
def share_falls(results: Results) -> CheckResult:
    """The share of updates that are left never rises as fraction bits go, and ends far lower: both rules, all seeds."""
    shares = {r: np.array([_of(results, r, b, "made") for b in BITS]) for r in RULES}
    falls = all(
        (np.diff(values, axis=0) >= 0).all() and (values[0] < values[-1] / 10).all() for values in shares.values()
    )
    each = [
        f"{name} "
        + join_words([f"{_percent(np.median(shares[rule][BITS.index(b)]))} at {b}" for b in (12, 8, MIN_BITS)])
        for rule, name in zip(RULES, ("nearest", "stochastic"), strict=True)
    ]
    return CheckResult(bool(falls), f"Updates that are not zero after Convert: {'; '.join(each)} fraction bits.")


@claim.criterion("Nearest: no update, and a loss that freezes")
def loss_freezes(results: Results) -> CheckResult:
    """Nearest: where no update of an epoch reaches half a step, the loss stays what it is; stochastic goes on."""
    still, drift = (_of(results, "nearest_down", MIN_BITS, name) for name in ("still", "drift"))
    last = _of(results, "nearest_down", MIN_BITS, "loss_last")
    stochastic = _of(results, "stochastic", MIN_BITS, "loss_last")
    frozen = still.min() >= EPOCHS // 2 and drift.max() < 1e-6
    return CheckResult(
        bool(frozen and stochastic.max() < 0.25 * last.min()),
        f"At {MIN_BITS} fraction bits, nearest: {still.min():.0f} to {still.max():.0f} of {EPOCHS} epochs without any "
        f"update, the loss there moves by less than {max(drift.max(), 1e-9):.0e} and ends at {np.median(last):.2f}; "
        f"stochastic ends at {np.median(stochastic):.2f}.",
    )


@claim.explanation("Losing most updates is no harm if each has a chance")
def losing_most_is_harmless(results: Results) -> CheckResult:
    """Stochastic rounding also loses nearly all updates and still learns: it loses other ones each time."""
    left = _of(results, "stochastic", MIN_BITS, "made")
    few, many = (_of(results, "stochastic", bits, "error") for bits in (MIN_BITS, BITS[-1]))
    return CheckResult(
        bool(left.max() < 0.02 and np.median(few) - np.median(many) < 2),
        f"Stochastic rounding loses {_percent(1 - np.median(left))} of the updates at {MIN_BITS} fraction bits and "
        f"ends with {np.median(few):.1f} % wrong answers, {np.median(many):.1f} % at {BITS[-1]}.",
    )


@claim.explanation("Nearest loses more than stochastic rounding, the fewer bits the more")
def nearest_loses_more(results: Results) -> CheckResult:
    """Nearest makes fewer updates than stochastic rounding; the gap grows with fewer bits, while nearest makes any."""
    bits = BITS[2:]
    stochastic, nearest = (np.array([np.median(_of(results, r, b, "made")) for b in bits]) for r in reversed(RULES))
    ratios = stochastic / np.maximum(nearest, 1e-9)
    text = join_words([f"{ratio:.3g} times as many at {b}" for ratio, b in zip(ratios[::-1], bits[::-1], strict=True)])
    return CheckResult(
        bool(ratios[-1] > 1 and (np.diff(ratios) < 0).all()),
        f"Stochastic rounding makes {text} fraction bits: half a step is a wall for nearest alone.",
    )


def _percent(share: float | np.floating) -> str:
    return f"{100 * share:.3g} %"


@claim.summary
def measured(results: Results) -> str:
    """Shares of updates that are left, medians."""
    each = []
    for rule, name in zip(RULES, ("nearest", "stochastic"), strict=True):
        shares = (f"{_percent(np.median(_of(results, rule, b, 'made')))} at {b}" for b in (12, 8, 6, MIN_BITS))
        each.append(f"{name} {', '.join(shares)}")
    return f"updates left: {'; '.join(each)} fraction bits"


claim.draw(
    "updates that are left, %",
    lambda results: {
        f"{name}, {bits} fraction bits": 100 * _of(results, rule, bits, "made")
        for rule, name in zip(RULES, ("nearest", "stochastic"), strict=True)
        for bits in (12, 8, 6, MIN_BITS)
    },
)

claim.compared(
    theirs_on="an argument, without a network",
    ours_on="8 × 8 digits, two hidden layers of 128",
    rows=(
        {
            "nearest, 8 fraction bits": "nearest, 8 fraction bits",
            "stochastic, 8 fraction bits": "stochastic, 8 fraction bits",
            "nearest, 4 fraction bits": "nearest, 4 fraction bits",
            "stochastic, 4 fraction bits": "stochastic, 4 fraction bits",
        },
    ),
)
claim.found(share_falls, holds="fewer bits leave fewer updates", fails="fewer bits do not leave fewer updates")
claim.found(
    loss_freezes,
    holds="with the fewest, nearest loses all and the loss freezes",
    fails="nearest does not freeze the loss",
)

GUPTA_2015_UPDATES = claim.build()
