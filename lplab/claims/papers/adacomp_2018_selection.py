"""Chen et al. 2018: what the soft threshold is for. Residuals (the paper writes “residues”) with and without it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import clearly_above, join_words, median_and_range, within_noise
from lplab.compression import AdaComp, Compressor, Context, Dense, LayerInfo, LayerState
from lplab.compression.compressor import Steps
from lplab.compression.wrappers import WrappedCompressor

SOFT, LOCAL, NO_FEEDBACK = "soft threshold", "local selection", "no memory"
HARD = "hard threshold"  # what readers know local selection as
BINS = (50, 500, 2000)
LEARNERS, STEPS = 4, 300
SAMPLE_STEPS = (10, 30, 100, 200, 300)  # steps after which residuals are sampled
LAYER = "layers.1.weight"  # the largest: 128 × 128
PERCENTILE = 95  # as in the paper's figures
MOMENTUM, LEARNING_RATE = 0.9, 0.05  # of the runs with momentum


def _point(method: str, bin: int, momentum: float = 0.0) -> Point:
    return {"method": method, "bin": bin, "momentum": momentum}


POINTS: tuple[Point, ...] = (
    *({"method": "dense", "momentum": momentum} for momentum in (0.0, MOMENTUM)),
    *(_point(method, bin) for method in (SOFT, LOCAL) for bin in BINS),
    _point(NO_FEEDBACK, 500),
    *(_point(method, bin, MOMENTUM) for method, bin in ((SOFT, 500), (LOCAL, 50), (LOCAL, 500))),
)

claim = ClaimBuilder(
    id="adacomp_2018_selection",
    title="AdaComp's soft threshold keeps residuals from growing",
    paper=cite("adacomp_2018"),
    where="the analysis of residuals",
    statement="If only the largest element of each bin is sent, residuals (“residues”) grow and at high compression "
    "ratios training is lost; the soft threshold sends more when more waits, and keeps residuals small.",
    published="growth about exponential, divergence at high compression ratios for the hard threshold, bounded "
    "residuals for AdaComp (recalled; not part of what decides here)",
    experiment=f"{LEARNERS} learners train three linear layers on the digits for {STEPS} steps by plain SGD, in bins "
    f"of {join_words([str(bin) for bin in BINS])}: with scale factor 2, with scale factor 1 (the maximum of each bin "
    "alone), and without error feedback. Residuals are those of the largest layer.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=70,
    limits="One small network and 300 steps; the hard threshold (local selection) is AdaComp with a scale factor of 1, "
    "whose maxima are sent as plus or minus their mean.",
)


@dataclass(frozen=True)
class WithoutErrorFeedback(WrappedCompressor):
    """A compressor without error feedback: every step starts with a new state, and what is not sent is lost.

    >>> from lplab.compression import TopK, exchange
    >>> wrapped = WithoutErrorFeedback(TopK(0.5))
    >>> state = wrapped.init((2,))
    >>> for _ in range(3):
    ...     result = exchange(wrapped, [np.array([2, 1], np.float32)], [state])
    ...     state.commit()
    >>> result.tolist()
    [2.0, 0.0]
    """

    def for_layer(self, layer: LayerInfo) -> Compressor:
        """The compressor with the settings of a layer."""
        return WithoutErrorFeedback(self.compressor.for_layer(layer))

    def steps(self, gradient: np.ndarray, state: LayerState, context: Context) -> Steps:
        """The steps of the compressor from a new state."""
        return (yield from self.compressor.steps(gradient, self.compressor.init(gradient.shape), context))


def compressor_of(point: Point) -> Compressor:
    """The compressor of a point."""
    if point["method"] == "dense":
        return Dense()
    adacomp = AdaComp(bin=point["bin"], scale_factor=1.0 if point["method"] == LOCAL else 2.0)
    return WithoutErrorFeedback(adacomp) if point["method"] == NO_FEEDBACK else adacomp


@claim.measurement
def measure(point: Point, seed: int, steps: int = STEPS) -> Numbers:
    """Train once; losses, elements sent, and the 95th percentile of |residual| against that of the first sample.

    >>> result = measure({"method": LOCAL, "bin": 500, "momentum": 0.0}, seed=0, steps=10)
    >>> result["residue_10"] > 0
    True
    """
    from lplab.claims.framework.learner_models import fully_connected
    from lplab.claims.framework.learner_trainings import train

    task = fully_connected()
    if point["momentum"]:
        task = replace(task, lr=LEARNING_RATE, options=(("momentum", point["momentum"]),))
    samples: dict[str, float] = {}

    def sample_percentiles(learners: Any) -> None:
        if learners.step in SAMPLE_STEPS:
            residual, gradient = np.abs(learners.residuals(LAYER)), np.abs(_own_gradient(learners))
            samples[f"residue_{learners.step}"] = round(float(np.percentile(residual, PERCENTILE)), 9)
            samples[f"gradient_{learners.step}"] = round(float(np.percentile(gradient, PERCENTILE)), 9)

    finished = train(task, compressor_of(point), LEARNERS, steps, seed, engine="stacked", watch=sample_percentiles)
    assert finished.run.ledger is not None  # it is kept
    payload = finished.run.ledger.total(layer=LAYER) / steps / LEARNERS
    return {**finished.numbers(), **samples, "payload": round(payload, 4)}


def _own_gradient(learners: Any) -> np.ndarray:
    """The gradient of rank 0 at the next step."""
    from lplab.parallel.learner_gradients import sequential_gradients

    values = sequential_gradients(learners.model, learners.loss, [learners.batches(learners.step, 0)], [0])
    gradient: np.ndarray = values.gradients[LAYER].numpy()
    return gradient


def _of(results: Results, number: str, method: str, bin: int, momentum: float = 0.0) -> np.ndarray:
    return results.values(number, **_point(method, bin, momentum))


def _dense(results: Results, momentum: float = 0.0) -> np.ndarray:
    return results.values("loss", method="dense", momentum=momentum)


@claim.criterion("Residuals are larger without the soft threshold")
def residuals_grow_without_it(results: Results) -> CheckResult:
    """The residual of local selection is larger in every bin, and goes on growing where that of AdaComp has stopped."""
    last, text, good = f"residue_{SAMPLE_STEPS[-1]}", [], []
    for bin in BINS:
        soft, local = (_of(results, last, method, bin) for method in (SOFT, LOCAL))
        good.append((local > soft).all())
        text.append(f"{np.median(local / soft):.1f} times as large in bins of {bin}")
    return CheckResult(
        all(good),
        f"After {SAMPLE_STEPS[-1]} steps the {PERCENTILE}th percentile of |residual| with the hard threshold is "
        f"{join_words(text)}.",
    )


@claim.criterion("With it they stop growing sooner")
def it_stops_growing_with_it(results: Results) -> CheckResult:
    """From step 200 to 300, at a high compression ratio: local selection goes on growing, AdaComp does not."""
    soft, local = (
        _of(results, f"residue_{SAMPLE_STEPS[-1]}", m, BINS[-1])
        / _of(results, f"residue_{SAMPLE_STEPS[-2]}", m, BINS[-1])
        for m in (SOFT, LOCAL)
    )
    return CheckResult(
        bool((soft < local).all() and (local > 1).all()),
        f"In bins of {BINS[-1]}, from step {SAMPLE_STEPS[-2]} to {SAMPLE_STEPS[-1]}: × {median_and_range(local)} with "
        f"the hard threshold, × {median_and_range(soft)} with the soft threshold.",
    )


@claim.criterion("It keeps the accuracy at the published compression ratio")
def it_keeps_accuracy_at_the_ratio(results: Results) -> CheckResult:
    """Bins of 500: as good as uncompressed with it, clearly worse without."""
    soft, local = (_of(results, "loss", method, 500) for method in (SOFT, LOCAL))
    base = _dense(results)
    return CheckResult(
        within_noise(soft, base) and clearly_above(local, base),
        f"Bins of 500: test loss {median_and_range(soft)} bits with the soft threshold, {median_and_range(local)} with "
        f"the hard threshold, uncompressed {median_and_range(base)}.",
    )


@claim.explanation("Nothing grows exponentially, nothing diverges")
def nothing_diverges(results: Results) -> CheckResult:
    """What the paper reports and is not seen here: exponential growth of residuals, and divergence."""
    growth = [_of(results, f"residue_{n}", LOCAL, BINS[-1]) for n in SAMPLE_STEPS]
    each = [np.median(after / before) for before, after in pairwise(growth)]
    losses = [_of(results, "loss", LOCAL, bin) for bin in BINS]
    text = join_words(
        [f"{g:.1f} from step {a} to {b}" for g, a, b in zip(each, SAMPLE_STEPS, SAMPLE_STEPS[1:], strict=False)]
    )
    ratios = [np.log(g) / np.log(b / a) for g, a, b in zip(each, SAMPLE_STEPS, SAMPLE_STEPS[1:], strict=False)]
    return CheckResult(
        bool(max(ratios) < 1.5 and max(loss.max() for loss in losses) < np.log2(10)),
        f"Hard threshold, bins of {BINS[-1]}: residuals grow × {text}, about as the steps do, so not exponentially; "
        f"training is slow ({median_and_range(losses[-1])} bits) and does not diverge.",
    )


@claim.explanation("At equal bytes the hard threshold is as good")
def at_equal_bytes(results: Results) -> CheckResult:
    """The soft threshold sends more. Local selection with smaller bins, about as many bytes."""
    soft, local = _of(results, "loss", SOFT, 500), _of(results, "loss", LOCAL, 50)
    sizes = [float(np.median(_of(results, "payload", m, b))) for m, b in ((SOFT, 500), (LOCAL, 50))]
    return CheckResult(
        within_noise(local, soft) and abs(sizes[1] / sizes[0] - 1) < 0.25,
        f"The soft threshold in bins of 500 sends {sizes[0]:.0f} bytes a step, the hard one in bins of 50 "
        f"{sizes[1]:.0f}: {median_and_range(soft)} and {median_and_range(local)} bits. Much of the gain is that it "
        "sends more.",
    )


@claim.explanation("With momentum the soft threshold is better at equal bytes")
def with_momentum_it_is_more(results: Results) -> CheckResult:
    """With momentum and the learning rate of the task the threshold is worth more, at equal bytes too."""
    soft, local = _of(results, "loss", SOFT, 500, MOMENTUM), _of(results, "loss", LOCAL, 50, MOMENTUM)
    base = _dense(results, MOMENTUM)
    return CheckResult(
        clearly_above(local, soft),
        f"With momentum {MOMENTUM}, at about equal bytes: {median_and_range(soft)} bits with the soft threshold, "
        f"{median_and_range(local)} with the hard one, uncompressed {median_and_range(base)}.",
    )


@claim.explanation("Without error feedback it is worse, with more bytes")
def without_feedback(results: Results) -> CheckResult:
    """Without error feedback."""
    values, kept, base = _of(results, "loss", NO_FEEDBACK, 500), _of(results, "loss", SOFT, 500), _dense(results)
    sizes = [float(np.median(_of(results, "payload", m, 500))) for m in (NO_FEEDBACK, SOFT)]
    return CheckResult(
        clearly_above(values, base) and clearly_above(values, kept),
        f"Without error feedback, bins of 500: {median_and_range(values)} bits, though it sends "
        f"{sizes[0] / sizes[1]:.1f} times the bytes (with nothing waiting, H is twice G, and all from half the maximum "
        "on is sent).",
    )


@claim.summary
def measured(results: Results) -> str:
    """Residuals and losses with and without the threshold, bins of 500."""
    parts = []
    for method, name in ((SOFT, SOFT), (LOCAL, HARD)):
        residual, loss = (np.median(_of(results, n, method, 500)) for n in (f"residue_{SAMPLE_STEPS[-1]}", "loss"))
        parts.append(f"{name} {residual:.3f} and {loss:.2f} bits")
    base = np.median(_dense(results))
    measured = f"residual ({PERCENTILE}th percentile) and test loss, medians, bins of 500: {', '.join(parts)}"
    return f"{measured}; uncompressed {base:.2f} bits"


claim.draw(
    f"residual after {SAMPLE_STEPS[-1]} steps, {PERCENTILE}th percentile",
    lambda results: {n: _of(results, f"residue_{SAMPLE_STEPS[-1]}", m, 500) for m, n in ((SOFT, SOFT), (LOCAL, HARD))},
    axis=(0, 0.1),
)
claim.draw(
    "test loss, bits",
    lambda results: {
        "dense": _dense(results),
        SOFT: _of(results, "loss", SOFT, 500),
        HARD: _of(results, "loss", LOCAL, 500),
    },
)

claim.compared(
    theirs_on="not named in our source",
    ours_on="8 × 8 digits, three linear layers, 4 learners",
    rows=(
        {"soft threshold": "soft threshold", "hard threshold": "hard threshold"},
        {"soft threshold": "soft threshold", "hard threshold": "hard threshold"},
    ),
)
claim.found(
    residuals_grow_without_it,
    it_stops_growing_with_it,
    holds="residuals stay smaller",
    fails="residuals do not stay smaller",
)
claim.found(
    it_keeps_accuracy_at_the_ratio,
    holds="accuracy kept, where the hard threshold loses it",
    fails="accuracy not kept, or by the hard threshold, too",
)
claim.found(
    at_equal_bytes, holds="at equal bytes both keep it", fails="at equal bytes the hard one is worse", limits=True
)

ADACOMP_2018_SELECTION = claim.build()
