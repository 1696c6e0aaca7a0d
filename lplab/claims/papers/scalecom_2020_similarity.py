"""Chen et al. 2020: learners' residuals are alike, a large learning rate makes them less so, a low-pass filter more."""

from __future__ import annotations

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.parity import ParityRow
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import clearly_above, join_words, median_and_range
from lplab.compression import ScaleCom

LEARNERS, STEPS, EVERY, CHUNK = 8, 200, 20, 50
EXAMPLES, LAYERS = 8, 3  # of each learner, of the network: as the task has them
LEARNING_RATE, LARGE_LEARNING_RATE = 0.1, 1.0
BETAS = (1.0, 0.3, 0.1)

POINTS: tuple[Point, ...] = tuple(
    {"lr": lr, "beta": beta} for lr in (LEARNING_RATE, LARGE_LEARNING_RATE) for beta in BETAS
)

claim = ClaimBuilder(
    id="scalecom_2020_similarity",
    title="Residuals of learners are alike, and a low-pass filter keeps them so at large learning rates",
    paper=cite("scalecom_2020"),
    where="section 3, the figures on similarity",
    statement="The residuals (“memories”) of workers are similar, so that one can choose for all; a ten times larger "
    "learning rate spoils this, and the filter (β = 0.1) restores it.",
    published="cosine distance falling to about 0.1 within the first part of a training with 8 workers; Hamming "
    "distance of the leader's choice to the true one 0.6 to 0.8 at 400 times (recalled)",
    experiment=f"{LEARNERS} learners with {EXAMPLES} digits each train three linear layers for {STEPS} steps by plain "
    f"SGD, one element of {CHUNK} sent; residuals and choices are compared every {EVERY} steps.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=20,
    limits="Batches of 8 for each learner, where the paper has 32; one network of three layers. The paper's numbers "
    "are recalled, so only the direction of an effect is judged; about 0.1 is reached here with β = 0.1 alone.",
    parity=(
        ParityRow("learners", 8, "the figures of section 3, recalled", small=LEARNERS),
        ParityRow(
            "examples of a learner in a step",
            32,
            "128 for 4 learners in table 2, second-hand",
            small=EXAMPLES,
            why="With fewer examples the gradient of a learner is noisier, and its residual less like the others'.",
        ),
        ParityRow(
            "layers with weights", 18, "ResNet-18, recalled", small=LAYERS, why="Three layers train in a second."
        ),
        ParityRow(
            "share of the elements that is sent",
            1 / 400,
            "the figure of the Hamming distance, recalled",
            small=1 / CHUNK,
            why=f"One element of 400 would wait for longer than the {STEPS} steps.",
        ),
        ParityRow(
            "how long an element waits before it is sent, as a share of the steps",
            None,
            "the number of steps behind the figures is not in our notes",
            small=CHUNK / STEPS,
        ),
        ParityRow(
            "the large learning rate over the small one", 10, "recalled", small=LARGE_LEARNING_RATE / LEARNING_RATE
        ),
        ParityRow("β of the filter at the large rate", 0.1, "second-hand", small=min(BETAS)),
    ),
    no_larger_run="ResNet-18 on eight times 32 pictures of 32 × 32 takes some 850 billion operations a step, by "
    "arithmetic, which are 17 seconds of a core that does 50 billion a second. What speaks against the statement here "
    "happens late in a training, and a thousand steps of one seed alone would take five hours. A smaller residual net "
    "could fit into 90 minutes; it was not run.",
)


@claim.measurement
def measure(point: Point, seed: int, steps: int = STEPS) -> Numbers:
    """Train once; every 20 steps, what is between the learners.

    >>> result = measure({"lr": LEARNING_RATE, "beta": 1.0}, seed=0, steps=EVERY)
    >>> 0 < result["cosine_20"] < 1, 0 < result["missed_20"] < 1
    (True, True)
    """
    from lplab.claims.framework.learner_models import fully_connected
    from lplab.claims.framework.learner_trainings import make
    from lplab.parallel.agreement import InstrumentedLearners

    run = make(
        fully_connected(),
        ScaleCom(chunk=CHUNK, beta=point["beta"]),
        LEARNERS,
        seed,
        lr=point["lr"],
        engine="stacked",
        kind=InstrumentedLearners,
        every=EVERY,
    )
    losses = [values.loss for values in run.steps(steps)]
    assert isinstance(run, InstrumentedLearners)  # as asked for
    numbers: dict[str, float] = {"train_loss": float(np.mean(losses[-EVERY:]) / np.log(2))}
    for number, values in enumerate(run.agreements, 1):
        numbers |= {f"cosine_{EVERY * number}": values.cosine, f"missed_{EVERY * number}": values.hamming_distance}
    return {name: round(value, 6) for name, value in numbers.items()}


def series(results: Results, number: str, lr: float, beta: float) -> np.ndarray:
    """Medians over the seeds of "cosine" or "missed" after every 20 steps.

    >>> row = {"lr": 0.1, "beta": 1.0}, 0, {f"cosine_{n}": n for n in range(20, 201, 20)}
    >>> series(Results([row]), "cosine", 0.1, 1.0)
    array([ 20.,  40.,  60.,  80., 100., 120., 140., 160., 180., 200.])
    """
    return np.array([results.median(f"{number}_{n}", lr=lr, beta=beta) for n in range(EVERY, STEPS + 1, EVERY)])


def _late(results: Results, number: str, lr: float, beta: float) -> np.ndarray:
    """The mean over the second half of the training, for each seed."""
    steps = range(STEPS // 2 + EVERY, STEPS + 1, EVERY)
    return np.mean([results.values(f"{number}_{n}", lr=lr, beta=beta) for n in steps], axis=0)


@claim.criterion("Residuals become alike")
def residuals_become_alike(results: Results) -> CheckResult:
    """The distance falls at first, and stays below that of vectors with nothing in common."""
    values = series(results, "cosine", LEARNING_RATE, 1.0)
    return CheckResult(
        bool(values.min() < values[0] and values.max() < 1),
        f"At learning rate {LEARNING_RATE} and β = 1 the cosine distance of residuals is {values[0]:.2f} after {EVERY} "
        f"steps, at least {values.min():.2f}, {values[-1]:.2f} after {STEPS}.",
    )


@claim.criterion("A ten times larger learning rate makes them less alike")
def a_large_rate_spoils_it(results: Results) -> CheckResult:
    """Ten times the learning rate, β = 1."""
    small, large = (_late(results, "cosine", lr, 1.0) for lr in (LEARNING_RATE, LARGE_LEARNING_RATE))
    return CheckResult(
        clearly_above(large, small),
        f"The distance in the second half of the training: {median_and_range(small)} at learning rate {LEARNING_RATE}, "
        f"{median_and_range(large)} at {LARGE_LEARNING_RATE}.",
    )


@claim.criterion("The filter brings them together again")
def the_filter_restores_it(results: Results) -> CheckResult:
    """β = 0.1 at the large learning rate."""
    plain, soft = (_late(results, "cosine", LARGE_LEARNING_RATE, beta) for beta in (1.0, 0.1))
    return CheckResult(
        clearly_above(plain, soft),
        f"The same at learning rate {LARGE_LEARNING_RATE}: {median_and_range(plain)} with β = 1, "
        f"{median_and_range(soft)} with β = 0.1.",
    )


@claim.explanation("What the leader misses")
def the_leader_misses(results: Results) -> CheckResult:
    """Hamming distance d/k of the leader's choice and that of the sum; the paper has about 0.6 to 0.8 at 400."""
    numbers = {
        (lr, b): _late(results, "missed", lr, b) for lr in (LEARNING_RATE, LARGE_LEARNING_RATE) for b in (1.0, 0.1)
    }
    text = [f"{median_and_range(values)} (learning rate {lr}, β = {b:g})" for (lr, b), values in numbers.items()]
    return CheckResult(
        all(values.min() > 0 and values.max() < 1 for values in numbers.values()),
        f"Of what the leader chooses the sum of all would not have chosen: {join_words(text)}. Below 1 on every seed, "
        "so the choice contracts.",
    )


@claim.explanation("They drift apart as the loss falls")
def what_falls_is_the_signal(results: Results) -> CheckResult:
    """Residuals are sums of gradients: alike as long as gradients have a common direction."""
    values = {lr: series(results, "cosine", lr, 1.0) for lr in (LEARNING_RATE, LARGE_LEARNING_RATE)}
    losses = {lr: results.median("train_loss", lr=lr, beta=1.0) for lr in values}
    text = [
        f"from {c.min():.2f} to {c[-1]:.2f} at learning rate {lr} (loss {losses[lr]:.2f} bits)"
        for lr, c in values.items()
    ]
    return CheckResult(
        values[LARGE_LEARNING_RATE][-1] > values[LARGE_LEARNING_RATE].min()
        and losses[LARGE_LEARNING_RATE] < losses[LEARNING_RATE],
        f"From its least value to the end the distance goes {join_words(text)}: it rises as the loss falls and the "
        "common part of the gradients shrinks. The larger learning rate is further down, so that this does not tell "
        "the two apart.",
    )


@claim.summary
def measured(results: Results) -> str:
    """Cosine distances of the second half."""
    parts = [
        f"{np.median(_late(results, 'cosine', lr, b)):.2f} (learning rate {lr}, β = {b:g})"
        for lr in (LEARNING_RATE, LARGE_LEARNING_RATE)
        for b in (1.0, 0.1)
    ]
    return f"cosine distance of residuals in the second half: {', '.join(parts)}"


claim.draw(
    "cosine distance of residuals",
    lambda results: {
        f"learning rate {lr}, β = {beta:g}": _late(results, "cosine", lr, beta)
        for lr in (LEARNING_RATE, LARGE_LEARNING_RATE)
        for beta in (1.0, 0.1)
    },
    axis=(0, 1),
)

claim.compared(theirs_on="CIFAR-10, 8 workers", ours_on="8 × 8 digits, three linear layers, 8 learners")
claim.found(residuals_become_alike, holds="residuals become alike", fails="residuals do not become alike")
claim.found(what_falls_is_the_signal, holds="and come apart later", fails="and do not come apart later", limits=True)
claim.found(
    a_large_rate_spoils_it,
    the_filter_restores_it,
    holds="a large learning rate keeps them apart, the filter brings them closer",
    fails="learning rate and filter do not act as the paper says",
)

SCALECOM_2020_SIMILARITY = claim.build()
