"""Sun et al. 2019: 8-bit weights on the wire save 30 to 60 % of a training's time; the question is, of which."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.drawing import RANGE
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words
from lplab.compression import ScaleCom
from lplab.compression.sharded_weights import ShardedUpdateFormats
from lplab.hardware import Cluster, precisions, simulate, workloads
from lplab.hardware.accelerators import Accelerator
from lplab.hardware.network import links

LEARNERS, BATCH = 16, 32
WORKER = Accelerator("worker", "a worker that sustains 80 TFLOPS", {"fp16": 80e12})
LINKS = ("ethernet_1g", "ethernet_10g", "ethernet_25g", "ethernet_100g", "infiniband_ndr")
FLOAT, HALF, HYBRID, WEIGHTS = "32 + 32 bits", "16 + 16 bits", "16 + 8 bits", "32 + 8 bits"
SPARSE, SPARSE_HALF, SPARSE_8 = "1 of 112 + 32 bits", "1 of 112 + 16 bits", "1 of 112 + 8 bits"
EXCHANGES = {  # bits of a gradient, or None for one of 112; bits of a weight
    FLOAT: (32, 32),
    HALF: (16, 16),
    WEIGHTS: (32, 8),
    HYBRID: (16, 8),
    SPARSE: (None, 32),
    SPARSE_HALF: (None, 16),
    SPARSE_8: (None, 8),
}
LOW, HIGH = 0.3, 0.6

POINTS: tuple[Point, ...] = tuple({"exchange": exchange, "link": link} for exchange in EXCHANGES for link in LINKS)

claim = ClaimBuilder(
    id="hfp8_2019_broadcast",
    title="8-bit weights on the wire save 30 to 60 %: against 32 bits, not against 16",
    paper=cite("hfp8_2019"),
    where="distributed training",
    statement="Sending weights in 8 bits, and keeping what rounding left over at their owner, shortens training by 30 "
    "to 60 % where communication is the bottleneck.",
    published="30–60 % (recalled; which networks, links and which exchange it is compared with could not be found out)",
    experiment=f"The simulator, the same at every run: ResNet-50 on {LEARNERS} learners of 80 TFLOPS, {BATCH} images "
    "each, reduce-scatter of gradients, all-gather of weights, nothing hidden, over five links from 1 to 400 Gb/s; "
    "only the bits on the wire differ.",
    points=POINTS,
    seeds=(0,),
    budget_seconds=10,
    modelled=True,
    limits="The published range is recalled and decides nothing by itself: what can be checked is which comparison "
    "gives it. Nothing is timed. That training stays the same, bit by bit, is hfp8_2019_distributed.",
)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Milliseconds of a step, the share of sending, and bytes a weight that a learner sends."""
    gradient, weight = EXCHANGES[point["exchange"]]
    bits = replace(precisions.get("fp16_mixed"), gradient_wire_bits=gradient or 32, weight_wire_bits=weight)
    compressor = None if gradient else ScaleCom(chunk=112, small="compressed")
    cluster = Cluster(WORKER, LEARNERS, point["link"], algorithm="ring")
    run = simulate(
        "resnet50", cluster, precision=bits, compressor=compressor, batch=BATCH, overlap=0.0, sharded=True,
        bucket_bytes=float("inf"),
    )  # fmt: skip
    return {
        "milliseconds": round(1e3 * run.step_seconds, 6),
        "share": round(run.exposed_seconds / run.step_seconds, 6),
        "bytes": round(run.sent_bytes / workloads.get("resnet50").parameters, 6),
    }


def _number(results: Results, name: str, exchange: str, link: str) -> float:
    return float(results.values(name, exchange=exchange, link=link)[0])


def _saved(results: Results, new: str, old: str) -> np.ndarray:
    """Share of the time that is saved, by link."""
    times = [[_number(results, "milliseconds", exchange, link) for link in LINKS] for exchange in (new, old)]
    return 1 - np.array(times[0]) / np.array(times[1])


def _shares(results: Results, exchange: str) -> np.ndarray:
    return np.array([_number(results, "share", exchange, link) for link in LINKS])


def _text(values: np.ndarray) -> str:
    return join_words([f"{100 * value:.0f}" for value in values]) + " %"


def _gigabits() -> str:
    return join_words([f"{8e-9 * links.get(link).bytes_per_second:g}" for link in LINKS]) + " Gb/s"


@claim.criterion("30 to 60 % against an exchange in 32 bits")
def against_32_bits(results: Results) -> CheckResult:
    """Where sending is most of a step, 16 + 8 bits save 30 to 60 % and more of an exchange in 32 bits."""
    saved, shares = _saved(results, HYBRID, FLOAT), _shares(results, FLOAT)
    bound = saved[shares > 0.5]
    return CheckResult(
        bool(len(bound) and bound.min() > LOW and (bound < HIGH).any()),
        f"Against 32 bits for gradients and weights, sending {_text(shares)} of the step: 16 + 8 bits save "
        f"{_text(saved)}.",
    )


@claim.explanation("Never more than a quarter against 16 bits")
def against_16_bits(results: Results) -> CheckResult:
    """Against 16 bits it is a quarter at most, even if a step were nothing but sending."""
    saved = _saved(results, HYBRID, HALF)
    return CheckResult(
        bool(saved.max() <= 0.25),
        f"Against 16 bits for both, 8-bit weights save {_text(saved)} of a step's time on links of {_gigabits()}: of "
        "four bytes one is saved, so never more than a quarter.",
    )


@claim.explanation("Weights alone: never more than three eighths")
def weights_alone(results: Results) -> CheckResult:
    """From 32 to 8 bits for weights alone it is 3/8 at most."""
    saved = _saved(results, WEIGHTS, FLOAT)
    return CheckResult(
        bool(LOW < saved.max() <= 0.375),
        f"If gradients stay in 32 bits and weights go from 32 to 8: {_text(saved)}, never more than three eighths.",
    )


@claim.explanation("With compressed gradients it is weights that count")
def with_compressed_gradients(results: Results) -> CheckResult:
    """Once gradients are compressed, weights are nearly all that is sent: there 8 bits save most."""
    halves, floats = (_saved(results, SPARSE_8, old) for old in (SPARSE_HALF, SPARSE))
    return CheckResult(
        bool(halves.max() > LOW),
        f"With one gradient of 112 sent, weights are nearly all that travels: 8 bits save {_text(halves)} against "
        f"weights in 16 bits and {_text(floats)} against 32.",
    )


@claim.explanation("The bytes are those of the real exchange")
def bytes_are_those_of_the_real_exchange(results: Results) -> CheckResult:
    """The model counts the bytes that the real protocol sends."""
    values = {name: _number(results, "bytes", name, LINKS[0]) for name in (FLOAT, HYBRID)}
    schemes = {FLOAT: ShardedUpdateFormats("fp32", "fp32", "fp32", "fp32"), HYBRID: ShardedUpdateFormats()}
    count = workloads.get("resnet50").parameters
    real = {name: sum(scheme.sent_bytes(count, LEARNERS, LEARNERS - 1)) / count for name, scheme in schemes.items()}
    return CheckResult(
        all(abs(values[name] - real[name]) < 1e-4 for name in values),
        f"A learner sends {values[HYBRID]:.2f} bytes a weight instead of {values[FLOAT]:.2f}, as in the exchange "
        "between processes that `lplab.parallel.ShardedWeightUpdate` runs.",
    )


@claim.summary
def measured(results: Results) -> str:
    """Savings against both yardsticks."""
    floats, halves = (_saved(results, HYBRID, old) for old in (FLOAT, HALF))
    bound = floats[_shares(results, FLOAT) > 0.5]
    return (
        f"against 32 bits {100 * bound.min():.0f}–{100 * bound.max():.0f} % where sending takes most of a step, "
        f"{100 * floats.min():.0f} % where it takes least; against 16 bits "
        f"{100 * halves.min():.0f}–{100 * halves.max():.0f} % (model)"
    )


claim.draw(
    "time of a step that is saved, %, over five links",
    lambda results: {
        "against 32 bits": 100 * _saved(results, HYBRID, FLOAT),
        "against 16 bits": 100 * _saved(results, HYBRID, HALF),
    },
    {"against 32 bits": (100 * LOW, 100 * HIGH)},
    statistic=RANGE,
    over="links",
    differences=True,
)

claim.compared(theirs_on="not named in our source", ours_on="a model of ResNet-50 on 16 learners")
claim.found(against_32_bits, holds="30 to 60 % against 32 bits", fails="not 30 to 60 % against 32 bits")
claim.found(
    against_16_bits, holds="at most a quarter against 16 bits", fails="more than a quarter against 16 bits", limits=True
)

HFP8_2019_BROADCAST = claim.build()
