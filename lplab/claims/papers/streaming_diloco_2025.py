"""Douillard et al. 2025 (Streaming DiLoCo): outer gradients in four bits.

The abstract says that outer gradients can be quantized to four bits, among other things, and training stays as good as
before. From this the criterion was written, before the first measurement with these seeds.
"""

from __future__ import annotations

from lplab.claims.bibliography import cite
from lplab.claims.framework.branches import paired_result, paired_text, within
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.claim import LONG
from lplab.claims.framework.drawing import MEAN
from lplab.claims.framework.local_trainings import SEEDS, final_loss, trained
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results

LABELS = {
    "e3m0": "4 bits",
    "nesterov": "32 bits",
    "synchronous": "synchronous",
    "alone": "one learner alone",
}  # by the names of the arms
BOUND = 0.0135  # bits: half of what the course allows a training that is as good

claim = ClaimBuilder(
    id="streaming_diloco_2025",
    title="Outer gradients in four bits cost little",
    paper=cite("streaming_diloco_2025"),
    where="abstract",
    statement="Learners that meet seldom can send their outer gradients in four bits without loss of quality.",
    published="the same quality as data parallel training with two orders of magnitude less bandwidth",
    experiment="The trainings of DiLoCo's claim: 4 learners, 240 steps, a meeting every 12, Nesterov outside. Messages "
    "have a sign and three exponent bits, and one scale for each layer; sums are made in float32.",
    points=tuple({"arm": name} for name in LABELS),
    seeds=SEEDS,
    budget_seconds=500,
    budget=LONG,
    limits="The whole model meets at once: fragments that meet in turn and messages that arrive late are not measured.",
)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Test losses (bits) on the way and at the end, bytes that one learner sent."""
    return trained(point["arm"], seed)


@claim.criterion("Four bits cost little")
def four_bits_cost_little(results: Results) -> CheckResult:
    """With messages of four bits DiLoCo ends surely within 0.0135 bits of itself with messages in float32."""
    gap = final_loss(results, "e3m0") - final_loss(results, "nesterov")
    return paired_result(
        f"Bits that four bits cost: {paired_text(gap)}; at most {BOUND} is little.", within(gap, BOUND)
    )


@claim.summary
def measured(results: Results) -> str:
    """The losses, and the bytes."""
    losses = ", ".join(f"{label} {final_loss(results, arm).mean():.3f}" for arm, label in LABELS.items())
    short, full = (results.values("bytes", arm=arm)[0] for arm in ("e3m0", "nesterov"))
    return f"bits a character: {losses}; messages are {full / short:.1f} times shorter than in float32"


claim.draw(
    "test loss, bits a character",
    lambda results: {label: final_loss(results, arm) for arm, label in LABELS.items()},
    statistic=MEAN,
)

claim.compared(
    theirs_on="C4, up to 4 billion parameters",
    ours_on="characters, 0.1 million parameters, 4 learners",
    rows=({label: label for label in ("32 bits", "4 bits")},),
)
claim.found(
    four_bits_cost_little,
    holds="four bits cost at most 0.0135 bits a character",
    fails="four bits cost more than 0.0135 bits a character",
)

STREAMING_DILOCO_2025 = claim.build()
