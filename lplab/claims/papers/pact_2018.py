"""Choi et al. 2018 (PACT): a trained clip keeps activations of few bits alive where a badly chosen one does not.

Weights stay float32 here, so that the clip of the activations is all that differs between the runs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.branches import surely_above
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.parity import ParityRow
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words, median_and_range, within_noise
from lplab.claims.framework.trainings import cosine, train

if TYPE_CHECKING:
    from lplab.training import Recipe, Trainer

STEPS = 300
START = 10.0  # the paper's first α
DECAY = 0.02  # of α; with 300 steps a hundred times the paper's, which has tens of thousands
FIXED = {1.0: (2, 3), 3.0: (2, 3), START: (2, 3, 5)}  # clip → bits: DoReFa's 1, one chosen by hand, PACT's own start
BITS = (2, 3, 5)
# Percent of wrong answers.
PUBLISHED = {
    "float32": 8.4,
    "trained clip, 2 bits": 10.3,
    "trained clip, 3 bits": 8.9,
    "trained clip, 5 bits": 8.3,
}
LAYERS, BATCH, RATE, MOMENTUM = 8, 50, 0.05, 0.9  # as the task has them; the rate falls along a cosine
PAPER_EPOCH, PAPER_BATCH, PAPER_DECAY = 50_000, 128, 2e-4  # CIFAR-10
PAPER_STEPS = 200 * PAPER_EPOCH / PAPER_BATCH
PAPER_RATES = (60 * 0.1 + 60 * 0.01 + 80 * 0.001) * PAPER_EPOCH / PAPER_BATCH  # the sum over all steps
LESS = 0.005  # a smaller decay: the paper says that more bits want one

POINTS: tuple[Point, ...] = (
    {"clip": "none"},
    *({"clip": "trained", "bits": bits} for bits in BITS),
    *({"clip": clip, "bits": bits} for clip, some in FIXED.items() for bits in some),
    {"clip": "trained", "bits": BITS[-1], "decay": LESS},
)

claim = ClaimBuilder(
    id="pact_2018",
    title="A trained clip keeps activations of 2 bits useful where a badly chosen fixed clip does not",
    paper=cite("pact_2018"),
    where="table 1, figures of α in section 3",
    statement="With a clipping bound α that is trained for each layer, networks with activations and weights of 2 to 5 "
    "bits lose less accuracy than with DoReFa's fixed clip; α begins large and is pulled down by its weight decay.",
    published="wrong at 2, 3, 4, 5 bits: PACT 10.3, 8.9, 8.7, 8.3 %; DoReFa 11.8, 10.1, 9.5, 9.6 %; float32 8.4 %",
    experiment=f"A residual net of depth 8 on cluttered digits, {STEPS} steps; activations of 2, 3 and 5 bits, weights "
    "float32; the clip trained from 10, or fixed at 1 (DoReFa's), at 3 or at 10.",
    points=POINTS,
    seeds=(0, 1, 2, 3, 4),
    budget_seconds=530,
    limits=f"Weights are float32 here; the paper's have as few bits as the activations. The decay of α, {DECAY}, is "
    "larger than the paper's because a training of 300 steps would else hardly move it: how much is right depends on "
    "how long is trained.",
    parity=(
        ParityRow("layers with weights", 20, "table 1, read", small=LAYERS),
        ParityRow("pictures in a batch", PAPER_BATCH, "read", small=BATCH),
        ParityRow(
            "steps", PAPER_STEPS, "200 passes of CIFAR-10, read", small=STEPS, why="A training takes ten seconds."
        ),
        ParityRow(
            "decay of α × the sum of the learning rates / (1 − momentum)",
            PAPER_DECAY * PAPER_RATES / (1 - MOMENTUM),
            "from the schedule for CIFAR-10, read",
            small=DECAY * RATE * STEPS / 2 / (1 - MOMENTUM),
            why=f"The decay is {DECAY / PAPER_DECAY:.0f} times the paper's, but the steps are "
            f"{PAPER_STEPS / STEPS:.0f} times fewer.",
        ),
        ParityRow(
            "share of the weights of few bits in the layers that are rounded",
            1,
            "read",
            small=0,
            why="Weights are float32, so that the clip alone differs between the arms.",
        ),
        ParityRow("bits of the activations", (2, 5), "table 1, read", small=(min(BITS), max(BITS))),
    ),
    no_larger_run="ResNet-20 on CIFAR-10 takes some 31 billion operations a step of 128 pictures, by arithmetic, which "
    "are 0.6 seconds of a core that does 50 billion a second. A third of the paper's steps would take more than four "
    "hours for one arm of one seed, and there are "
    f"{len(POINTS)} arms: no run of 90 minutes can have them.",
)


def recipe(bits: int, start: float) -> Recipe:
    """Activations of a few bits under clips that begin at ``start``; first, last and shortcut layers float32."""
    from lplab.training import LayerRules, LearnedClip, QuantSpec, Recipe

    wide = dict.fromkeys(("first", "last", "shortcut"), LayerRules())
    return Recipe(name="pact_2018", activation=QuantSpec(scaling=LearnedClip(bits, initial=start)), exceptions=wide)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Train the residual net on cluttered digits: error, and α of the layers, median, after a third and at the end."""
    from lplab.training import tasks

    task = tasks.get("resnet")
    if point["clip"] == "none":
        return train(task, "fp32", STEPS, seed, schedule=cosine(STEPS)).numbers()
    trained = point["clip"] == "trained"
    task = replace(task, options=(*task.options, ("clip_decay", point.get("decay", DECAY))))
    alphas: dict[int, list[float]] = {}

    def watch(trainer: Trainer) -> None:
        clips = [p for name, p in trainer.model.named_parameters() if name.endswith("pact_alpha")]
        for clip in clips:
            clip.requires_grad_(trained)
        alphas[trainer.step] = [float(clip.detach()) for clip in clips]

    chosen = recipe(point["bits"], START if trained else point["clip"])
    done = train(task, chosen, STEPS, seed, schedule=cosine(STEPS), watch=watch)
    last = alphas[max(alphas)]
    middle = alphas.get(STEPS // 3, last)
    extremes = {"alpha_least": min(last), "alpha_most": max(last), "alpha_third": float(np.median(middle))}
    return {**done.numbers(), **{name: round(value, 6) for name, value in extremes.items()}}


def _errors(results: Results, clip: Any, bits: int, number: str = "error") -> np.ndarray:
    return results.values(number, clip=clip, bits=bits)


def _float32(results: Results) -> np.ndarray:
    return results.values("error", clip="none")


def _lost(results: Results) -> float:
    """What a trained clip of 2 bits loses against float32, in points of wrong answers."""
    return float(np.median(_errors(results, "trained", 2)) - np.median(_float32(results)))


@claim.criterion("A trained clip is better at 2 and 3 bits than one fixed at 1 or at 10")
def beats_fixed_clips(results: Results) -> CheckResult:
    """At 2 and 3 bits every seed is better than with the clip fixed at 1, as DoReFa has it, or at PACT's start.

    Runs of one seed are compared with each other: they have the same first weights and the same batches.
    """
    gaps = [
        surely_above(_errors(results, clip, bits) - _errors(results, "trained", bits))
        for clip in (1.0, START)
        for bits in (2, 3)
    ]
    text = [
        f"{bits} bits: {median_and_range(_errors(results, 'trained', bits), 1)} % against "
        f"{median_and_range(_errors(results, 1.0, bits), 1)} % with the clip at 1 and "
        f"{median_and_range(_errors(results, START, bits), 1)} % at {START:.0f}"
        for bits in (2, 3)
    ]
    return CheckResult(all(gaps), f"Wrong answers at {'; at '.join(text)}.")


@claim.criterion("With 5 bits the way of clipping makes no difference")
def gap_closes(results: Results) -> CheckResult:
    """The median error falls from 2 to 3 to 5 bits; with 5 it is that of a clip fixed at PACT's start, or near it."""
    medians = [float(np.median(_errors(results, "trained", bits))) for bits in BITS]
    trained, fixed = _errors(results, "trained", BITS[-1]), _errors(results, START, BITS[-1])
    falls, equal = medians[0] > medians[1] > medians[2], within_noise(trained, fixed) and within_noise(fixed, trained)
    text = join_words([f"{error:.1f} % at {bits}" for error, bits in zip(medians, BITS, strict=True)])
    return CheckResult(
        falls and equal,
        f"With a trained clip the error {'falls' if falls else 'does not fall'} with more bits: {text} bits. With "
        f"{BITS[-1]} bits it and a clip fixed at {START:.0f}, {median_and_range(fixed, 1)} %, differ by "
        f"{'no ' * equal}more than the seeds of the better one.",
    )


@claim.criterion("α shrinks from its start")
def alpha_shrinks(results: Results) -> CheckResult:
    """α falls from its start to less than half in a third of the steps, in every layer, seed and number of bits."""
    third = np.concatenate([_errors(results, "trained", bits, "alpha_third") for bits in BITS])
    most = np.concatenate([_errors(results, "trained", bits, "alpha_most") for bits in BITS])
    return CheckResult(
        bool(third.max() < START / 2 and most.max() < START / 2),
        f"From {START:.0f}, α is at most {third.max():.1f} after a third of the steps (median of the layers), and at "
        f"most {most.max():.1f} in any layer at the end.",
    )


@claim.explanation("A fixed clip that was chosen well comes close")
def a_good_fixed_clip_is_close(results: Results) -> CheckResult:
    """Where training the clip pays: against a fixed clip that was chosen well, much less is left of the gain."""
    gains = {
        clip: float(np.median(_errors(results, clip, 2)) - np.median(_errors(results, "trained", 2)))
        for clip in (1.0, 3.0, START)
    }
    against = f"{gains[3.0]:+.1f}".replace("-", "−")
    return CheckResult(
        gains[3.0] < 0.5 * min(gains[1.0], gains[START]),
        f"At 2 bits a trained clip gains {gains[1.0]:.1f} points over 1 and {gains[START]:.1f} over {START:.0f}, but "
        f"{against} over a clip of 3 that was found by trying: training saves some of the search for a clip, and asks "
        "for a decay instead.",
    )


@claim.explanation("At 2 bits it is further from float32 than in the paper")
def further_than_the_paper(results: Results) -> CheckResult:
    """What a trained clip of 2 bits loses against float32, here and in the paper, in points."""
    ours = _lost(results)
    theirs = PUBLISHED["trained clip, 2 bits"] - PUBLISHED["float32"]
    return CheckResult(
        ours > 2 * theirs,
        f"At 2 bits a trained clip loses {ours:.0f} points against float32, in the paper {theirs:.0f}.",
    )


@claim.explanation("With 5 bits what is left to float32 is the decay of α")
def decay_costs_at_five_bits(results: Results) -> CheckResult:
    """Why 5 bits fall short of float32 here: the decay pulls α further than 5 bits need."""
    base, few, less = (
        _float32(results),
        _errors(results, "trained", BITS[-1]),
        results.values("error", clip="trained", bits=BITS[-1], decay=LESS),
    )
    alpha = float(np.median(results.values("alpha_most", clip="trained", bits=BITS[-1], decay=LESS)))
    return CheckResult(
        bool(np.median(less) < np.median(few)) and within_noise(less, base),
        f"At 5 bits a trained clip ends at {median_and_range(few, 1)} %, float32 at {median_and_range(base, 1)} %; "
        f"with a decay of {LESS} (α up to {alpha:.1f}) at {median_and_range(less, 1)} %.",
    )


@claim.summary
def measured(results: Results) -> str:
    """Errors, median and spread."""
    each = [f"{bits} bits {median_and_range(_errors(results, 'trained', bits), 1, ' %')}" for bits in BITS]
    fixed = [
        f"clip at {clip:g}, 2 bits {median_and_range(_errors(results, clip, 2), 1, ' %')}" for clip in (1.0, START)
    ]
    return "; ".join([f"float32 {median_and_range(_float32(results), 1, ' %')}", *each, *fixed])


claim.draw(
    "wrong, %",
    lambda results: {
        "float32": _float32(results),
        **{f"trained clip, {bits} bits": _errors(results, "trained", bits) for bits in BITS},
        **{f"clip at {clip:g}, 2 bits": _errors(results, clip, 2) for clip in (1.0, START)},
    },
    PUBLISHED | {"clip at 1, 2 bits": 11.8},
)

claim.compared(
    theirs_on="CIFAR-10, ResNet-20",
    ours_on="cluttered digits, a residual net of depth 8",
    rows=(
        {
            "float32": "float32",
            "trained clip, 2 bits": "trained clip, 2 bits",
            "clip at 1, 2 bits": "clip fixed at 1, 2 bits",
            "clip at 10, 2 bits": "clip fixed at 10, 2 bits",
        },
    ),
)
claim.found(beats_fixed_clips, holds="beats clips of 1 and 10", fails="does not beat clips of 1 and 10")
claim.found(
    further_than_the_paper,
    holds=lambda results: f"{_lost(results):.0f} points from float32, not the paper's 2",
    fails="as near to float32 as in the paper",
    limits=True,
)
claim.found(gap_closes, holds="with 5 bits clips are alike", fails="with 5 bits clips are not alike")
claim.found(alpha_shrinks, holds="the clip shrinks", fails="the clip does not shrink")

PACT_2018 = claim.build()
