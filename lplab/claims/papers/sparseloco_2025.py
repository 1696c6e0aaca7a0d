"""Sarfi et al. 2025 (SparseLoCo): 1.6 % of the pseudo-gradient in two bits, and a residual in place of the momentum.

The abstract says that top-k of 1 to 3 % with two bits a value outperforms DiLoCo in full precision, that error feedback
can take the place of the outer momentum, and that messages shrink more than 146 times. From this the criteria were
written, before the first measurement with these seeds.
"""

from __future__ import annotations

from lplab.claims.bibliography import cite
from lplab.claims.framework.branches import above, paired_result, paired_text, within
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.claim import LONG
from lplab.claims.framework.drawing import MEAN
from lplab.claims.framework.local_trainings import BOUND, SEEDS, final_loss, trained
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.compression import SparseLoCo

LABELS = {
    "sparse": "SparseLoCo",
    "sparse, no memory": "without memory",
    "sparse, mean over all": "mean over all learners",
    "sparse, nesterov": "with Nesterov's momentum",
    "scalecom": "ScaleCom",
    "adacomp": "AdaComp",
    "alone": "one learner alone",
    "synchronous": "synchronous",
    "mean": "dense mean",
    "nesterov": "DiLoCo",
}  # by the names of the arms
SIDE = 4096  # of a square matrix whose message is counted

claim = ClaimBuilder(
    id="sparseloco_2025",
    title="1.6 % of a pseudo-gradient in two bits is enough, as long as what is not sent is remembered",
    paper=cite("sparseloco_2025"),
    where="abstract; the code of the training with 70 billion parameters",
    statement="1 to 3 % of the elements and 2 bits a value outperform DiLoCo in full precision. Error feedback takes "
    "the place of the outer momentum.",
    published="messages more than 146 times shorter; a lower loss than DiLoCo at 512 million parameters",
    experiment="The trainings of DiLoCo's claim: 4 learners, 240 steps, a meeting every 12. SparseLoCo sends 64 "
    "elements of each chunk of 4,096 in two bits, outside is the plain mean. Beside it: without memory of what is "
    "not sent, the mean over all learners, and Nesterov's momentum on top; and ScaleCom and AdaComp in its place, with "
    "settings that send about as many bytes.",
    points=tuple({"arm": name} for name in LABELS),
    seeds=SEEDS,
    budget_seconds=900,
    budget=LONG,
    limits="A hundred thousand parameters and 20 meetings. Where a matrix of this net is smaller than 4,096, so is its "
    "chunk, and vectors go whole: messages are 79 times shorter than in float32. Nesterov's rate and momentum are "
    "DiLoCo's, not tuned for sparse messages. ScaleCom and AdaComp are made for a message in each step, not for 20 in "
    "all.",
)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Test losses (bits) on the way and at the end, bytes that one learner sent."""
    return trained(point["arm"], seed)


@claim.criterion("What is not sent must be remembered")
def memory_is_needed(results: Results) -> CheckResult:
    """Without error feedback the same messages end surely higher."""
    gap = final_loss(results, "sparse, no memory") - final_loss(results, "sparse")
    return paired_result(f"Bits that forgetting costs: {paired_text(gap)}.", above(gap))


@claim.criterion("Messages are 146 times shorter")
def messages_are_short(results: Results) -> CheckResult:
    """The message of a large matrix is 146 times shorter than in float32, and 73 times than in 16 bits."""
    (sent,) = SparseLoCo().plan((SIDE, SIDE))
    ratio = 4 * SIDE**2 / sent.payload_bytes
    return CheckResult(
        146 < ratio < 147,
        f"A matrix of {SIDE:,} × {SIDE:,} goes in {sent.payload_bytes:,} bytes: {ratio:.1f} times shorter than in 32 "
        f"bits, {ratio / 2:.1f} times than in 16.",
    )


@claim.criterion("Better than DiLoCo")
def better_than_diloco(results: Results) -> CheckResult:
    """SparseLoCo ends surely below DiLoCo, which sends everything in float32."""
    gap = final_loss(results, "nesterov") - final_loss(results, "sparse")
    return paired_result(f"DiLoCo minus SparseLoCo: {paired_text(gap)} bits.", above(gap))


@claim.criterion("With memory, an outer momentum saves nothing")
def memory_replaces_momentum(results: Results) -> CheckResult:
    """With memory, an outer momentum on top saves nothing: the plain mean is surely at most 0.027 bits behind it."""
    gap = final_loss(results, "sparse") - final_loss(results, "sparse, nesterov")
    return paired_result(
        f"SparseLoCo with the plain mean minus the same with Nesterov: {paired_text(gap)} bits.", within(gap, BOUND)
    )


@claim.explanation("As good as the dense mean")
def as_good_as_the_dense_mean(results: Results) -> CheckResult:
    """SparseLoCo ends surely within 0.027 bits of the mean of all values in float32."""
    gap = final_loss(results, "sparse") - final_loss(results, "mean")
    return paired_result(f"SparseLoCo minus the dense mean: {paired_text(gap)} bits.", within(gap, BOUND))


@claim.explanation("The mean over all learners ruins it")
def mean_over_all_ruins(results: Results) -> CheckResult:
    """Divided by all learners instead of those who sent an element, it ends surely higher."""
    gap = final_loss(results, "sparse, mean over all") - final_loss(results, "sparse")
    return paired_result(f"Bits that the mean over all learners costs: {paired_text(gap)}.", above(gap))


@claim.explanation("Momentum on top of the memory spoils the training")
def momentum_on_top_spoils(results: Results) -> CheckResult:
    """With memory and Nesterov's momentum it ends surely above one learner alone."""
    gap = final_loss(results, "sparse, nesterov") - final_loss(results, "alone")
    start, end = (results.values(name, arm="sparse, nesterov").mean() for name in ("loss_0", "loss"))
    return paired_result(
        f"With memory and Nesterov's step the loss begins at {start:.2f} bits and ends at {end:.2f}; above one learner "
        f"alone: {paired_text(gap)}.",
        above(gap),
    )


@claim.explanation("Better than ScaleCom and AdaComp with about as many bytes")
def better_than_its_ancestors(results: Results) -> CheckResult:
    """SparseLoCo ends surely below ScaleCom and AdaComp, whose messages have about as many bytes."""
    gaps = {LABELS[arm]: final_loss(results, arm) - final_loss(results, "sparse") for arm in ("scalecom", "adacomp")}
    sent = {label: results.values("bytes", arm=arm).mean() / 1e6 for arm, label in LABELS.items()}
    text = "; ".join(f"{label} {paired_text(gap)}, with {sent[label]:.2f} MB" for label, gap in gaps.items())
    return paired_result(
        f"Bits above SparseLoCo, which sends {sent[LABELS['sparse']]:.2f} MB: {text}.", *map(above, gaps.values())
    )


@claim.summary
def measured(results: Results) -> str:
    """The losses, and the bytes."""
    losses = ", ".join(f"{label} {final_loss(results, arm).mean():.3f}" for arm, label in LABELS.items())
    sparse, dense, each = (results.values("bytes", arm=arm)[0] for arm in ("sparse", "nesterov", "synchronous"))
    return (
        f"bits a character: {losses}; one learner sends {sparse / 1e6:.2f} MB, DiLoCo {dense / 1e6:.1f} MB, "
        f"synchronous {each / 1e6:.0f} MB"
    )


claim.draw(
    "test loss, bits a character",
    lambda results: {label: final_loss(results, arm) for arm, label in LABELS.items()},
    statistic=MEAN,
)

claim.compared(
    theirs_on="512 million parameters, 8 learners",
    ours_on="characters, 0.1 million parameters, 4 learners",
    rows=({LABELS[arm]: LABELS[arm] for arm in ("nesterov", "sparse", "sparse, no memory", "sparse, mean over all")},),
)
claim.found(
    memory_is_needed,
    holds="what is not sent must be remembered",
    fails="memory does not surely help",
)
claim.found(messages_are_short, holds="messages are 146 times shorter", fails="messages are not 146 times shorter")
claim.found(better_than_diloco, holds="better than DiLoCo", fails="not better than DiLoCo")
claim.found(
    memory_replaces_momentum,
    holds="with memory, an outer momentum saves nothing",
    fails="with memory, an outer momentum still saves something",
)

SPARSELOCO_2025 = claim.build()
