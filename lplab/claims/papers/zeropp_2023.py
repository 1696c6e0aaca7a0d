"""Wang et al. 2023 (ZeRO++): gradients of four bits that are rounded twice, not at each hop of a ring.

The abstract says that an average of quantized gradients by all-to-alls, in the place of the reduce-scatter, "preserves
accuracy despite communicating low precision data"; the documentation has it in two stages, inside the nodes and between
them. A ring that rounds at each hop is what it is compared with. From this the criteria were written, before the first
measurement.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.branches import above, checkpoint, paired_result, paired_text
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.drawing import MEAN
from lplab.claims.framework.local_trainings import BATCH, BEFORE, SEEDS
from lplab.claims.framework.models import branch_transformer
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words, median_and_range
from lplab.claims.framework.trainings import one_thread
from lplab.compression import BlockCode, ring_reduce_scatter, two_all_to_alls
from lplab.compression.sharded_weights import shard_sizes

LEARNERS, PER_NODE = (8, 16, 32, 64), 4
GROWTH = 0.1  # of the error from 8 to 64 learners: the most that counts as none

claim = ClaimBuilder(
    id="zeropp_2023",
    title="Gradients of four bits lose less when they are rounded twice than at each hop of a ring",
    paper=cite("zeropp_2023"),
    where="abstract; documentation and code of DeepSpeed",
    statement="Gradients in 4 bits should not be added around a ring, where each learner rounds what it passes on. "
    "With two all-to-alls, one inside each node and one between the nodes, a value is rounded twice, however many "
    "learners there are.",
    published="all its parts together send 4 times less; no number for the error (abstract and documentation read)",
    experiment=f"A character Transformer after {BEFORE} steps in float32, and the gradients of 8 to 64 learners with "
    f"{BATCH} sequences each. Their sum in integers of 4 bits with a scale for each 256: around a ring that rounds at "
    f"each hop, and by two all-to-alls with nodes of {PER_NODE}. The error is the length of the difference from the "
    "exact sum, divided by the length of the sum.",
    points=tuple({"learners": learners} for learners in LEARNERS),
    seeds=SEEDS,
    budget_seconds=30,
    limits="Errors of one sum at one moment of a small network: no training is run. Bytes are counted, no time is "
    "measured.",
)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Errors of the sum by each way, bytes that leave a node, and the error that partial sums let expect of the ring.

    ``ring``, ``twice``, ``once`` (a single all-to-all) and ``ring_16`` (a ring in 16 bits) are errors. ``expected`` is
    the error of the ring divided by that of two all-to-alls, if each rounding adds one in proportion to what it rounds.
    """
    return numbers_of(learner_gradients(point["learners"], seed))


def learner_gradients(learners: int, seed: int) -> list[np.ndarray]:
    """The gradients of learners at the checkpoint, all weights in one vector: float32 [n] each."""
    import torch

    task = branch_transformer()
    model = task.model(seed)
    model.load_state_dict(checkpoint(task, seed, BEFORE)["model"])
    inputs, targets = task.data(BATCH * learners, seed)(BEFORE)
    gradients = []
    with one_thread():
        for part, wanted in zip(inputs.split(BATCH), targets.split(BATCH), strict=True):
            model.zero_grad()
            task.loss(model(part), wanted).backward()
            gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]).numpy())
    return gradients


def numbers_of(gradients: list[np.ndarray]) -> Numbers:
    """The numbers of a measurement, of these gradients."""
    four, sixteen, learners = BlockCode("int4", 256), BlockCode("fp16", None), len(gradients)
    partial = np.cumsum(gradients, axis=0, dtype=np.float64)
    exact = partial[-1]

    def error(total: np.ndarray) -> float:
        return float(np.linalg.norm(total - exact) / np.linalg.norm(exact))

    twice, once = two_all_to_alls(gradients, four, PER_NODE), two_all_to_alls(gradients, four, 1)
    ring, ring_16 = ring_reduce_scatter(gradients, four), ring_reduce_scatter(gradients, sixteen)
    of_nodes = [np.sum(gradients[i : i + PER_NODE], axis=0) for i in range(0, learners, PER_NODE)]
    expected = _squares(partial[:-1]) / (_squares(gradients) + _squares(of_nodes))
    numbers = {
        "ring": error(ring.sum),
        "twice": error(twice.sum),
        "once": error(once.sum),
        "ring_16": error(ring_16.sum),
        "expected": float(np.sqrt(expected)),
    }
    return {
        **{name: round(value, 6) for name, value in numbers.items()},
        "bytes_twice": sum(twice.between_bytes[:PER_NODE]),
        "bytes_once": PER_NODE * sum(map(four.nbytes, shard_sizes(len(exact), learners)[PER_NODE:])),
        "bytes_16": ring_16.inside_bytes[PER_NODE - 1],
    }


def _squares(vectors: object) -> float:
    return float(np.sum(np.square(np.asarray(vectors, np.float64))))


def _errors(results: Results, way: str, learners: int) -> np.ndarray:
    return results.values(way, learners=learners)


def _percent(results: Results, way: str) -> str:
    """The errors of a way in per cent, in the mean over the seeds, by the number of learners."""
    return join_words([f"{100 * _errors(results, way, learners).mean():.0f}" for learners in LEARNERS]) + " %"


COUNTS = join_words([str(learners) for learners in LEARNERS]) + " learners"


@claim.criterion("Two roundings lose less than a ring")
def two_roundings_lose_less(results: Results) -> CheckResult:
    """With each number of learners the error of two all-to-alls is surely below that of the ring."""
    gaps = [_errors(results, "ring", n) - _errors(results, "twice", n) for n in LEARNERS]
    return paired_result(
        f"Error with {COUNTS}: around the ring {_percent(results, 'ring')}, by two all-to-alls "
        f"{_percent(results, 'twice')}.",
        *map(above, gaps),
    )


@claim.criterion("The ring's error grows with the learners")
def the_ring_gets_worse(results: Results) -> CheckResult:
    """Each doubling of the learners surely raises the error of the ring."""
    errors = [_errors(results, "ring", n) for n in LEARNERS]
    rises = [more - fewer for fewer, more in pairwise(errors)]
    text = ", ".join(paired_text(100 * rise, 0) for rise in rises)
    return paired_result(f"Each doubling of the learners adds to the ring's error, in %: {text}.", *map(above, rises))


@claim.criterion("That of two all-to-alls does not")
def two_roundings_stay(results: Results) -> CheckResult:
    """With 64 learners the error of two all-to-alls is surely at most a tenth larger than with 8."""
    few, many = (_errors(results, "twice", n) for n in (LEARNERS[0], LEARNERS[-1]))
    return paired_result(
        f"Error of two all-to-alls with {LEARNERS[-1]} learners, divided by that with {LEARNERS[0]}: "
        f"{median_and_range(many / few)}.",
        above((1 + GROWTH) * few - many),
    )


@claim.explanation("Up to 16 learners it is the partial sums that grow")
def partial_sums_grow(results: Results) -> CheckResult:
    """Up to 16 learners the ring's error divided by the other is what the lengths of the rounded vectors let expect."""
    ratios = [_errors(results, "ring", n) / _errors(results, "twice", n) for n in LEARNERS]
    expected = [results.values("expected", learners=n) for n in LEARNERS]
    pairs = list(zip(ratios, expected, strict=True))
    text = join_words([f"{ours.mean():.1f} ({theirs.mean():.1f})" for ours, theirs in pairs])
    return CheckResult(
        all(np.abs(ours / theirs - 1).max() < 0.25 for ours, theirs in pairs[:2]),
        f"With {COUNTS} the ring's error is {text} times that of two all-to-alls; in parentheses what the lengths of "
        "all rounded vectors let expect.",
    )


@claim.explanation("A single all-to-all loses still less, and sends four times as much between nodes")
def once_loses_still_less(results: Results) -> CheckResult:
    """A single all-to-all is surely more exact than two, and more than 3.9 times as many bytes leave a node."""
    gaps = [_errors(results, "twice", n) - _errors(results, "once", n) for n in LEARNERS]
    ratios = [_ratio(results, "bytes_once", "bytes_twice", n) for n in LEARNERS]
    return paired_result(
        f"By a single all-to-all the error is {_percent(results, 'once')} with {COUNTS}, and {np.min(ratios):.1f} "
        "times as many bytes leave a node.",
        *map(above, gaps),
        *(above(ratio, 3.9) for ratio in ratios),
    )


@claim.explanation("A quarter of the bytes of 16 bits leaves a node")
def a_quarter_leaves(results: Results) -> CheckResult:
    """Less than 26 % of the bytes of a ring in 16 bits leave a node."""
    shares = np.concatenate([1 / _ratio(results, "bytes_16", "bytes_twice", n) for n in LEARNERS])
    errors = [100 * _errors(results, "ring_16", n).max() for n in LEARNERS]
    return CheckResult(
        bool(shares.max() < 0.26),
        f"Of the bytes that a node sends to the next one in a ring of 16 bits, {100 * shares.min():.0f} to "
        f"{100 * shares.max():.0f} % leave it by two all-to-alls. The ring's own error is at most {max(errors):.2f} %.",
    )


def _ratio(results: Results, more: str, less: str, learners: int) -> np.ndarray:
    return results.values(more, learners=learners) / results.values(less, learners=learners)


@claim.summary
def measured(results: Results) -> str:
    """The errors of both ways."""
    return (
        f"error of the sum with {COUNTS}: around a ring {_percent(results, 'ring')}, by two all-to-alls "
        f"{_percent(results, 'twice')}"
    )


claim.draw(
    "error of the sum, %",
    lambda results: {
        f"{name}, {n} learners": 100 * _errors(results, way, n)
        for n in LEARNERS
        for name, way in (("ring", "ring"), ("two all-to-alls", "twice"))
    },
    statistic=MEAN,
    log=True,
)

claim.compared(
    theirs_on="GPT of 18 billion parameters and others",
    ours_on="gradients of a Transformer on characters, 0.1 million parameters",
    rows=({f"{name}, {n} learners": f"{name}, {n} learners" for n in (8, 64) for name in ("ring", "two all-to-alls")},),
)
claim.found(
    two_roundings_lose_less,
    holds="two roundings lose less than a ring",
    fails="two roundings do not surely lose less than a ring",
)
claim.found(
    the_ring_gets_worse,
    holds="the ring gets worse with each doubling of the learners",
    fails="the ring does not surely get worse with each doubling of the learners",
)
claim.found(
    two_roundings_stay,
    holds="two roundings stay as good",
    fails="two roundings do not stay as good",
)

ZEROPP_2023 = claim.build()
