"""Lin et al. 2024: weights of large inputs scaled up before rounding are as good as GPTQ, or better.

The abstract says that protecting 1 % of salient weights, found by the activations, greatly reduces the error; the
tables have AWQ below GPTQ at 3 and 4 bits. From this the criteria were written, before the first measurement.
"""

from __future__ import annotations

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.branches import above, paired_result, paired_text
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.drawing import MEAN
from lplab.claims.framework.few_bits_models import (
    OUTLIER,
    SEEDS,
    calibration,
    held_out_loss,
    rounded_loss,
    trained,
    with_outliers,
)
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import median_and_range
from lplab.claims.framework.trainings import one_thread

WAYS = {"nearest": "w{}a16:group=32,kind=asymmetric_awq", "awq": "w{}a16_awq:group=32", "gptq": "w{}a16_gptq:group=32"}
"""The rule of each way, but for the bits."""
BITS = (4, 3)
POINTS: tuple[Point, ...] = tuple({"bits": bits, "outliers": outliers} for outliers in (False, True) for bits in BITS)
MORE = 0.1  # of what rounding to nearest costs: the most that AWQ may cost above GPTQ to be as good
SALIENT = 10  # how far the mean input of a salient channel is above the median channel's

claim = ClaimBuilder(
    id="awq_2024",
    title="Weights scaled by their activations before rounding lose as little as with GPTQ",
    paper=cite("awq_2024"),
    where="abstract; section 3; tables of perplexity",
    statement="Protecting the 1 % of weights whose activations are largest greatly reduces the error of 3 and 4 bits; "
    "so scaled, weights lose less than with rounding to nearest, and no more than with GPTQ.",
    published="at 3 bits perplexity (2 to the power of the bits a token) 43.2 rounded to nearest and 13.0 with 1 % of "
    "the weights in 16 bits (second-hand)",
    experiment="The Llama of gptq_2023, its weights of 4 and 3 bits in groups of 32, rounded to nearest, by AWQ and by "
    "GPTQ with the same 8,192 training characters. Compared seed by seed: the loss of 32,768 test characters above "
    f"that of float32. And again with a channel of {OUTLIER} times planted behind each norm. A channel is called "
    f"salient here if its inputs are {SALIENT} times as large as those of the others.",
    points=POINTS,
    seeds=SEEDS,
    budget_seconds=80,
    limits="Each way has its published grid, AWQ's does not force zero into the range. The error that AWQ minimizes is "
    "that of the layers which share an input, not of a whole block. The last explanation was added after the "
    "measurement.",
)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Losses (bits) in float32 and of each way; how far the largest channel's mean input is above the median's."""
    from lplab.training.calibration import caught_inputs

    model = with_outliers(trained(seed)) if point["outliers"] else trained(seed)
    losses = {way: rounded_loss(model, rule.format(point["bits"]), seed) for way, rule in WAYS.items()}
    names = [f"blocks.{block}.{layer}" for block in (0, 1) for layer in ("attention.q", "mlp.up")]
    with one_thread():
        inputs = caught_inputs(model, [calibration(seed)], names)
    means = [x.abs().mean(0) for x in inputs.values()]
    largest = float(np.median([float(mean.max() / mean.median()) for mean in means]))
    return {"float": held_out_loss(model), **losses, "largest": round(largest, 4)}


def _rise(results: Results, way: str, bits: int, outliers: bool = False) -> np.ndarray:
    """What a way costs, bits above float32, seed by seed."""
    rounded, floating = (results.values(number, bits=bits, outliers=outliers) for number in (way, "float"))
    return rounded - floating


def _saved(results: Results, outliers: bool) -> CheckResult:
    """Whether AWQ costs surely less than rounding to nearest, at 4 and at 3 bits."""
    gaps = {bits: _rise(results, "nearest", bits, outliers) - _rise(results, "awq", bits, outliers) for bits in BITS}
    text = "; ".join(f"{bits} bits: {paired_text(gap)}" for bits, gap in gaps.items())
    return paired_result(f"Bits that AWQ saves against rounding to nearest, {text}.", *map(above, gaps.values()))


@claim.criterion("AWQ costs less than rounding to nearest")
def awq_costs_less(results: Results) -> CheckResult:
    """In the network as it was trained AWQ's rise of the loss is surely below that of rounding to nearest."""
    return _saved(results, outliers=False)


def _as_good(results: Results, outliers: bool) -> CheckResult:
    """Whether AWQ costs surely no more than GPTQ and a tenth of rounding to nearest, at 4 and at 3 bits."""
    rises = {bits: tuple(_rise(results, way, bits, outliers) for way in WAYS) for bits in BITS}
    text = "; ".join(f"{bits} bits: {paired_text(awq - gptq)}" for bits, (_, awq, gptq) in rises.items())
    room = (gptq + MORE * nearest - awq for nearest, awq, gptq in rises.values())
    return paired_result(
        f"AWQ's loss above GPTQ's, {text}. It may be above by a tenth of what rounding to nearest costs.",
        *map(above, room),
    )


@claim.criterion("AWQ costs no more than GPTQ")
def as_good_as_gptq(results: Results) -> CheckResult:
    """AWQ's rise is surely above GPTQ's by less than a tenth of what rounding to nearest costs, at 4 and at 3 bits."""
    return _as_good(results, outliers=False)


@claim.explanation("This network has no salient channels")
def no_salient_channels(results: Results) -> CheckResult:
    """Behind norms no channel's mean input is 10 times the median channel's, and with planted ones some is."""
    plain, planted = (results.values("largest", bits=3, outliers=outliers) for outliers in (False, True))
    return CheckResult(
        bool(plain.max() < SALIENT <= planted.min()),
        f"The largest channel behind a norm is {median_and_range(plain, 1)} times the median one, with planted ones "
        f"{median_and_range(planted, 1)} times.",
    )


@claim.explanation("With planted channels AWQ costs less than rounding to nearest")
def awq_costs_less_with_outliers(results: Results) -> CheckResult:
    """With planted channels AWQ's rise of the loss is surely below that of rounding to nearest."""
    return _saved(results, outliers=True)


@claim.explanation("With planted channels AWQ costs no more than GPTQ")
def as_good_as_gptq_with_outliers(results: Results) -> CheckResult:
    """With planted channels AWQ's rise is surely above GPTQ's by less than a tenth of rounding to nearest's."""
    return _as_good(results, outliers=True)


@claim.summary
def measured(results: Results) -> str:
    """The rises of the three ways, mean and range over the seeds."""
    return "; ".join(
        f"{bits} bits: nearest {paired_text(_rise(results, 'nearest', bits))}, AWQ "
        f"{paired_text(_rise(results, 'awq', bits))}, GPTQ {paired_text(_rise(results, 'gptq', bits))} bits a "
        "character above float32"
        for bits in BITS
    )


claim.draw(
    "loss above float32, bits a character",
    lambda results: {
        f"{name}, {bits} bits": _rise(results, way, bits)
        for bits in BITS
        for name, way in (("nearest", "nearest"), ("AWQ", "awq"), ("GPTQ", "gptq"))
    },
    statistic=MEAN,
    differences=True,
)

claim.compared(
    theirs_on="OPT-6.7B",
    ours_on="characters, a Llama of 116 thousand parameters",
    rows=({f"{name}, 3 bits": f"{name}, 3 bits" for name in ("nearest", "AWQ", "GPTQ")},),
)
claim.found(
    awq_costs_less,
    holds="AWQ costs less than rounding to nearest",
    fails="AWQ does not surely cost less than rounding to nearest",
)
claim.found(as_good_as_gptq, holds="no more than GPTQ", fails="it costs more than GPTQ")
claim.found(
    no_salient_channels,
    holds="this network has no salient channels",
    fails="this network may have salient channels",
)
claim.found(
    as_good_as_gptq_with_outliers,
    holds="with planted ones AWQ costs no more than GPTQ",
    fails="with planted ones AWQ costs more than GPTQ, too",
)

AWQ_2024 = claim.build()
