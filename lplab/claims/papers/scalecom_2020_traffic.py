"""Chen et al. 2020: what a learner sends and gets stays the same with ScaleCom and grows with local selection."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words
from lplab.compression import AdaComp, Compressor, Dense, ScaleCom, TopK
from lplab.compression.ratios import build_up, wire_bytes

COMPRESSION_RATIO = 112
METHODS: dict[str, Compressor] = {
    "dense": Dense(),
    "ScaleCom": ScaleCom(chunk=COMPRESSION_RATIO),
    "local top-k": TopK(1 / COMPRESSION_RATIO),
    "AdaComp": AdaComp(),
}
WORLDS = (2, 4, 8, 16, 32, 64)
STEPS, EXAMPLES_PER_LEARNER = 8, 8  # steps; examples a learner and step
LARGE = 1024  # elements: smaller tensors go dense in all methods and are left out

POINTS: tuple[Point, ...] = tuple({"method": m, "learners": n} for m in METHODS for n in WORLDS)

claim = ClaimBuilder(
    id="scalecom_2020_traffic",
    title="ScaleCom's traffic does not grow with the learners, that of local selection does",
    paper=cite("scalecom_2020"),
    where="sections 1 and 3",
    statement="If each worker sends its own largest elements, the messages build up in proportion to the workers; with "
    "one choice for all they stay as they are.",
    published="growth with n for local top-k, constant for ScaleCom (second-hand)",
    experiment=f"{WORLDS[0]} to {WORLDS[-1]} learners with {EXAMPLES_PER_LEARNER} digits each train three linear "
    f"layers for {STEPS} steps; every payload is counted, one element of {COMPRESSION_RATIO} is sent (AdaComp: its own "
    "choice), bytes on the wire by the formula of the collective: a ring for sums, to each of the others for gathers "
    "(padded to the longest).",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=10,
    limits="The first steps of a training, payload without headers and latency; a parameter server would send the "
    "filled average once instead of a gather. Tensors below 1,024 elements are left out.",
)


@claim.measurement
def measure(point: Point, seed: int, steps: int = STEPS) -> Numbers:
    """Train a few steps; bytes that a learner packs and sends a step, and the share of the average that is not zero.

    >>> measure({"method": "ScaleCom", "learners": 4}, seed=0, steps=2)["filled"] < 0.01
    True
    """
    from lplab.claims.framework.learner_models import fully_connected
    from lplab.claims.framework.learner_trainings import make

    learners = point["learners"]
    task = replace(fully_connected(), batch=EXAMPLES_PER_LEARNER * learners)
    run = make(task, METHODS[point["method"]], learners, seed, engine="stacked")
    large = {name: p for name, p in run.model.named_parameters() if p.numel() >= LARGE}
    numel = sum(p.numel() for p in large.values())
    filled = 0.0
    for _ in run.steps(steps):
        filled += sum(int((p.grad != 0).sum()) for p in large.values() if p.grad is not None) / numel / steps
    assert run.ledger is not None  # it is kept
    sent: dict[tuple[int, str, str], list[int]] = {}
    for entry in run.ledger.entries:
        if entry.layer in large:
            sent.setdefault((entry.step, entry.layer, entry.kind), []).append(entry.payload_bytes)
    packed = sum(map(sum, sent.values())) / learners
    wire = sum(wire_bytes(kind, max(sizes), learners) for (_, _, kind), sizes in sent.items())
    values = {"packed": packed / steps, "wire": wire / steps, "filled": filled, "numel": float(numel)}
    return {name: round(value, 6) for name, value in values.items()}


def _of(results: Results, method: str, number: str, worlds: tuple[int, ...] = WORLDS) -> np.ndarray:
    """Medians over the seeds: [learners]."""
    return np.array([results.median(number, method=method, learners=n) for n in worlds])


def _kilobytes(values: Any) -> str:
    return join_words([f"{value / 1e3:.1f}" for value in values])


@claim.criterion("ScaleCom stays as it is")
def scalecom_is_constant(results: Results) -> CheckResult:
    """Bytes on the wire a learner: bounded by twice the values and once the indices, whatever the number."""
    wire, filled = _of(results, "ScaleCom", "wire"), _of(results, "ScaleCom", "filled")
    limit = wire[-1] * WORLDS[-1] / (WORLDS[-1] - 1)  # of ever more learners: what is sent goes as (n − 1)/n
    return CheckResult(
        bool(wire[-1] / wire[1] < 1.4 and (wire <= 1.001 * limit).all() and np.ptp(filled) < 1e-3),
        f"ScaleCom: a learner sends {_kilobytes(wire)} thousand bytes a step with "
        f"{join_words([str(n) for n in WORLDS])} learners; {100 * filled[-1]:.1f} % of the average are not zero, for "
        "any number.",
    )


@claim.criterion("Local selection grows with the learners")
def local_selection_grows(results: Results) -> CheckResult:
    """Gathers of own choices: in proportion to the number of learners."""
    growth, text = [], []
    for method in ("local top-k", "AdaComp"):
        wire = _of(results, method, "wire")
        growth.append(wire[-1] / wire[1])
        text.append(f"{method} {_kilobytes(wire[[1, -1]])}")
    return CheckResult(
        min(growth) > 10,
        f"With {WORLDS[1]} and {WORLDS[-1]} learners, thousand bytes a learner and step: {'; '.join(text)}.",
    )


@claim.criterion("The average fills up with local top-k")
def the_mask_fills_up(results: Results) -> CheckResult:
    """Share of the average that is not zero with local top-k, beside the formula for independent masks."""
    filled = _of(results, "local top-k", "filled")
    formula = np.array([build_up(1 / COMPRESSION_RATIO, n) for n in WORLDS])
    text = [f"{100 * f:.1f} ({100 * g:.1f})" for f, g in zip(filled, formula, strict=True)]
    return CheckResult(
        bool((np.diff(filled) > 0).all() and filled[-1] > 5 * filled[0]),
        f"Local top-k fills {join_words(text)} % of the average with {join_words([str(n) for n in WORLDS])} learners "
        f"(in brackets 1 − (1 − 1/{COMPRESSION_RATIO})ⁿ).",
    )


@claim.explanation("Real masks overlap")
def masks_overlap(results: Results) -> CheckResult:
    """Real masks are not independent: they fill less than the formula says."""
    filled = _of(results, "local top-k", "filled")
    formula = np.array([build_up(1 / COMPRESSION_RATIO, n) for n in WORLDS])
    return CheckResult(
        bool((filled < formula).all()),
        f"With {WORLDS[-1]} learners {100 * filled[-1]:.0f} % are filled, independent masks would fill "
        f"{100 * formula[-1]:.0f} %: learners agree on part of what is large.",
    )


@claim.explanation("With many learners local top-k gains little over dense")
def dense_wins_at_last(results: Results) -> CheckResult:
    """A gather of compressed messages against a ring of dense ones: where the gain is gone."""
    ratio = _of(results, "dense", "wire") / _of(results, "local top-k", "wire")
    scale = _of(results, "dense", "wire") / _of(results, "ScaleCom", "wire")
    return CheckResult(
        bool(ratio[-1] < 2 < scale[-1]),
        f"Against a dense ring all-reduce local top-k sends {ratio[0]:.0f} times less with {WORLDS[0]} learners and "
        f"{ratio[-1]:.1f} times less with {WORLDS[-1]}; ScaleCom {scale[0]:.0f} and {scale[-1]:.0f} times less.",
    )


@claim.summary
def measured(results: Results) -> str:
    """Bytes with few and many learners."""
    parts = [f"{m} {_kilobytes(_of(results, m, 'wire')[[1, -1]])}" for m in METHODS]
    return f"thousand bytes a learner sends in a step with {WORLDS[1]} and {WORLDS[-1]} learners: {'; '.join(parts)}"


claim.draw(
    "thousand bytes that a learner sends in a step",
    lambda results: {
        f"{method}, {n} learners": results.values("wire", method=method, learners=n) / 1e3
        for method in METHODS
        for n in (WORLDS[1], WORLDS[-1])
    },
    log=True,
)

claim.compared(
    theirs_on="an argument, without a network",
    ours_on="8 × 8 digits, three linear layers",
    rows=(
        {
            "ScaleCom, 4 learners": "ScaleCom, 4 learners",
            "ScaleCom, 64 learners": "ScaleCom, 64 learners",
            "local top-k, 4 learners": "own choices, 4 learners",
            "local top-k, 64 learners": "own choices, 64 learners",
        },
    ),
)
claim.found(scalecom_is_constant, holds="ScaleCom's messages stay as they are", fails="ScaleCom's messages grow")
claim.found(
    local_selection_grows,
    the_mask_fills_up,
    holds="own choices grow with the learners",
    fails="own choices do not grow with the learners",
)

SCALECOM_2020_TRAFFIC = claim.build()
