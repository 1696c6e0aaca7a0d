"""The table over domains at a larger size: Fashion-MNIST, deeper networks, most of the training under each method.

Methods, limits and the form of the criteria are those of :mod:`~lplab.claims.papers.domains`; the networks, the lengths
and the depthwise network as a domain of its own are new. All of it was written before the first stored run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lplab.claims.framework import larger_models
from lplab.claims.framework.branches import BranchPlan, above, paired_result, paired_text
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.drawing import MEAN
from lplab.claims.framework.parity import ParityRow
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words
from lplab.claims.papers import domains
from lplab.claims.papers.domains import (
    ADACOMP,
    BOUNDS,
    CHARACTERS,
    COMPRESSORS,
    DETECTION,
    FLOAT,
    FOUR,
    FP8,
    HYBRID,
    LEARNERS,
    METHODS,
    PICTURES,
    RECIPES,
    SCALECOM,
    SPEECH,
    gaps_to_float,
    training_gaps,
    within_bound,
)

if TYPE_CHECKING:
    from lplab.training.loop.tasks import Task

DEPTHWISE = "depthwise pictures"
LARGER_DOMAINS = (PICTURES, DEPTHWISE, CHARACTERS, SPEECH, DETECTION)
LARGER_PLANS = {
    PICTURES: BranchPlan(before=400, steps=800),
    DEPTHWISE: BranchPlan(before=400, steps=600),
    CHARACTERS: BranchPlan(before=600, steps=600),
    SPEECH: BranchPlan(before=600, steps=600),
    DETECTION: BranchPlan(before=400, steps=400),
}
BATCHES = {PICTURES: 64, DEPTHWISE: 64, CHARACTERS: 16, SPEECH: 64, DETECTION: 32}
TEST_PICTURES = 5000
LAYERS = {"small": 14, "large": 20}  # convolutions and linear layers of the networks for pictures
FEW = (FLOAT, FP8, HYBRID, FOUR)
"""What the depthwise network trains with: the methods that a paper tested with such a network, and float32."""

TESTED: dict[str, tuple[str, ...]] = {
    method: tuple(
        domain for domain in LARGER_DOMAINS if domain in tested or (domain == DEPTHWISE and method in (HYBRID, FOUR))
    )
    for method, (tested, _) in BOUNDS.items()
}
"""Of each method the domains that its paper tested, as in the small experiment; depthwise networks are judged where the
paper has one: not FP8 of 2018."""

POINTS: tuple[Point, ...] = tuple(
    {"domain": domain, "method": method}
    for domain in LARGER_DOMAINS
    for method in (FEW if domain == DEPTHWISE else (*RECIPES, *COMPRESSORS))
)

_SMALL, _LARGE = domains.PLANS.values(), LARGER_PLANS.values()


def _under_the_method(plan: BranchPlan) -> float:
    return plan.steps / (plan.before + plan.steps)


PARITY = (
    ParityRow(
        "share of the training's steps under the method",
        1,
        "the papers train so from the start, read",
        small=(min(map(_under_the_method, _SMALL)), max(map(_under_the_method, _SMALL))),
        large=(min(map(_under_the_method, _LARGE)), max(map(_under_the_method, _LARGE))),
    ),
    ParityRow(
        "layers of the residual network for pictures",
        (18, 50),
        "tables of results, read",
        LAYERS["small"],
        LAYERS["large"],
    ),
    ParityRow(
        "pictures of a learner in a step, with compressed gradients",
        32,
        "ScaleCom's table 2, second-hand",
        small=16 / LEARNERS,
        large=BATCHES[PICTURES] / LEARNERS,
    ),
    ParityRow(
        "times that the training sees each picture",
        90,
        "ImageNet, recalled",
        small=(domains.PLANS[PICTURES].before + domains.PLANS[PICTURES].steps) * 16 / 4000,
        large=(LARGER_PLANS[PICTURES].before + LARGER_PLANS[PICTURES].steps) * BATCHES[PICTURES] / 60_000,
        why="Ninety times are 84,000 steps of each arm, more than an hour of a core each; float32 gets most pictures "
        "right after one.",
    ),
    ParityRow(
        "steps under the method",
        450_000,
        "ImageNet, batches of 256, recalled",
        small=domains.PLANS[PICTURES].steps,
        large=(min(p.steps for p in _LARGE), max(p.steps for p in _LARGE)),
        why="More steps of 36 arms with five seeds each would take more than 90 minutes of two cores.",
    ),
    ParityRow(
        "steps that an element waits with ScaleCom, over the steps",
        96 / 450_000,
        "table 2, second-hand, and steps, recalled",
        small=25 / domains.PLANS[PICTURES].steps,
        large=25 / LARGER_PLANS[PICTURES].steps,
        why="Steps are too few; the mildest of the paper's rates, one of 25, is taken for that reason.",
    ),
)

TRIED = (
    "Each of the 36 arms took 2 steps, and the seconds were measured.",
    "The Transformer was tried in float32 alone: with width 96, 8 windows a step and a learning rate of 0.001 or 0.003 "
    "it needed 3.25 or 3.31 bits a character after 600 steps; it has the width, the rate and the 16 windows of the "
    "smaller Transformers.",
    "The residual net of eight layers was tried in float32 alone: 12.2 % wrong after 900 steps with the rate 0.1.",
)

claim = ClaimBuilder.larger(
    domains.DOMAINS_CLAIM,
    experiment="Five networks: a residual net of 20 layers with batch norm and a MobileNetV2 of six blocks, both on "
    f"Fashion-MNIST with {TEST_PICTURES:,} other pictures to test with; a Transformer of four blocks and width 64 on "
    "the characters of a novel, tested on its whole last tenth; convolutions and an LSTM twice as wide as in the small "
    "experiment on ten spoken words; a detector of one stage on scenes of digits. Each trains for "
    f"{min(p.before for p in _LARGE)} to {max(p.before for p in _LARGE)} steps in float32. From there each recipe goes "
    f"on for {min(p.steps for p in _LARGE)} to {max(p.steps for p in _LARGE)} steps with the same batches, its "
    f"learning rate falling to zero, and so do {LEARNERS} learners in float32, with AdaComp and with ScaleCom. The "
    "depthwise network trains with the recipes of 2018 to 2020 alone. Differences and units are those of the small "
    "experiment.",
    points=POINTS,
    seeds=(0, 1, 2, 3, 4),
    budget_seconds=9000,
    limits="Networks of 40 to 270 thousand parameters, trained for about one pass through the pictures, so that "
    "float32 ends some points below what such networks reach in the end. Words are a synthesiser's, ten of them. "
    f"{LEARNERS} learners, and ScaleCom sends one element of 25 in every layer of 1,024 weights or more, the mildest "
    "of the paper's rates. A third of each training, or half, is in float32. Where a paper gives no number, or one "
    "that is recalled, the limit of 1 is our choice.",
    parity=PARITY,
    tried=TRIED,
)


def task_of(domain: str) -> Task:
    """The task of a domain.

    >>> task_of("speech").batch
    64
    """
    from lplab.training import tasks

    made = {
        PICTURES: larger_models.fashion_resnet20,
        DEPTHWISE: larger_models.fashion_depthwise,
        CHARACTERS: larger_models.novel_transformer,
        SPEECH: larger_models.larger_speech,
        DETECTION: lambda: tasks.get("detector"),
    }
    task = replace(made[domain](), batch=BATCHES[domain])
    if domain not in (PICTURES, DEPTHWISE):
        return task
    test = task.test
    return replace(task, test=lambda: tuple(part[:TEST_PICTURES] for part in test()))


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """One branch, as in the small experiment."""
    return domains.measure_branch(task_of(point["domain"]), point["method"], seed, LARGER_PLANS[point["domain"]])


for _method, (_, _bound) in BOUNDS.items():
    claim.criterion(f"{_method} is within {_bound:g} % of float32: {join_words(list(TESTED[_method]))}")(
        within_bound(_method, TESTED[_method], _bound)
    )


claim.explanation("FP8 of 2018 is worse than the hybrid with the depthwise net and the Transformer")(
    domains.worse_than_hybrid((DEPTHWISE, CHARACTERS))
)


claim.explanation("Four bits cost more than eight in the training loss of every domain")(
    domains.costs_more_than_eight_bits(LARGER_DOMAINS)
)


@claim.explanation("The depthwise network loses more than the residual one with four bits")
def depthwise_loses_more(results: Results) -> CheckResult:
    """The paper's table: MobileNetV2 loses 3.0 points on ImageNet, ResNet-18 1.1."""
    of_each = {domain: training_gaps(results, domain, FOUR, FLOAT)[0] for domain in (DEPTHWISE, PICTURES)}
    each = join_words([f"{paired_text(gap)} ({domain})" for domain, gap in of_each.items()])
    return paired_result(
        f"INT4/FP4 above float32, bits in training: {each}.", above(of_each[DEPTHWISE] - of_each[PICTURES])
    )


@claim.explanation("In float32 all five networks have learned")
def all_have_learned(results: Results) -> CheckResult:
    """Pictures: wrong on fewer than 13 of 100, as simple networks are; others: fewer than 40; characters: 2.7 bits."""
    limits = {PICTURES: 13.0, DEPTHWISE: 13.0, SPEECH: 40.0, DETECTION: 40.0}
    wrong = {domain: results.values("error", domain=domain, method=FLOAT) for domain in limits}
    bits = results.values("loss", domain=CHARACTERS, method=FLOAT)
    each = join_words([f"{np.mean(values):.1f} % ({domain})" for domain, values in wrong.items()])
    learned = all(values.max() < limits[domain] for domain, values in wrong.items()) and bits.max() < 2.7
    return CheckResult(learned, f"Wrong in float32: {each}; characters take {np.mean(bits):.2f} bits, guessing 6.23.")


claim.explanation("No judged cell is surely beyond its bound")(domains.none_beyond_bound(TESTED))


@claim.explanation("The residual network's messages are more than five times smaller")
def messages_are_smaller(results: Results) -> CheckResult:
    """The small experiment's network for pictures has little but small layers, which are sent whole."""
    with_messages = [domain for domain in LARGER_DOMAINS if domain != DEPTHWISE]
    smaller = {
        domain: [float(results.values("smaller", domain=domain, method=m).mean()) for m in (ADACOMP, SCALECOM)]
        for domain in with_messages
    }
    each = join_words([f"{domain} {ours:.1f} and {theirs:.1f}" for domain, (ours, theirs) in smaller.items()])
    return CheckResult(
        min(smaller[PICTURES]) > 5, f"Messages are so many times smaller with AdaComp and with ScaleCom: {each}."
    )


@claim.summary
def measured(results: Results) -> str:
    """What each method loses in each domain."""
    return "; ".join(
        f"{method}: "
        + ", ".join(f"{domain} {round(gap.mean(), 2) + 0:+.2f}" for domain, gap in _gaps(results, method).items())
        for method in METHODS
    ).replace("-", "−")


def _gaps(results: Results, method: str) -> dict[str, np.ndarray]:
    """The differences to float32 in the domains that a method was run in."""
    ran = [domain for domain in LARGER_DOMAINS if domain != DEPTHWISE or method in FEW]
    return {domain: gaps_to_float(results, domain, method) for domain in ran}


def _rows(domain: str) -> Callable[[Results], dict[str, np.ndarray]]:
    methods = [method for method in METHODS if domain != DEPTHWISE or method in FEW]
    return lambda results: {method: gaps_to_float(results, domain, method) for method in methods}


for _domain in LARGER_DOMAINS:
    claim.draw(
        f"{_domain}, above float32, {'% of the loss' if _domain == CHARACTERS else 'points'}",
        _rows(_domain),
        statistic=MEAN,
        differences=True,
    )

claim.compared(
    theirs_on="ImageNet, translation, speech and others",
    ours_on="Fashion-MNIST, a novel, spoken words, scenes",
    rows=(
        {},
        {
            "hybrid FP8": "characters, hybrid FP8",
            "NVFP4": "characters, NVFP4",
            "AdaComp": "characters, AdaComp",
            "ScaleCom": "characters, ScaleCom",
        },
    ),
)
claim.found(claim.criteria[3].test, holds="NVFP4 within its limit", fails="NVFP4 not surely within its limit")
claim.found(
    *(claim.criteria[number].test for number in range(3)),
    holds="FP8 of 2018, hybrid FP8 and INT4/FP4 within theirs",
    fails="FP8, hybrid FP8 or INT4/FP4 not surely within its limit in some domain",
)
claim.found(
    *(claim.criteria[number].test for number in (4, 5)),
    holds="AdaComp and ScaleCom within theirs",
    fails="AdaComp or ScaleCom not surely within its limit in some domain",
)

DOMAINS_LARGE = claim.build()
