"""One table over four domains: pictures, characters, speech and detection, five recipes and two compressors.

The papers' main figures compare domains, each paper its own. Here all methods go the same way through all four. The
criteria were written before the runs, from the sentence of each paper and from the losses in its own tables; a domain
that a paper did not test is measured and drawn, and not judged. Of the explanations, the one on noise and the one on
the size of messages were written after the runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.branches import (
    BranchPlan,
    above,
    branch,
    paired_result,
    paired_text,
    within,
    worse,
)
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.claim import LONG, Claim
from lplab.claims.framework.drawing import MEAN
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words
from lplab.compression import AdaComp, Compressor, Dense, ScaleCom

if TYPE_CHECKING:
    from lplab.training.loop.tasks import Task

PICTURES, CHARACTERS, SPEECH, DETECTION = DOMAINS = ("pictures", "characters", "speech", "detection")
PLANS = {
    PICTURES: BranchPlan(before=300, steps=60),
    CHARACTERS: BranchPlan(before=500, steps=60),
    SPEECH: BranchPlan(before=600, steps=60),
    DETECTION: BranchPlan(before=400, steps=60),
}
LEARNERS = 4
FLOAT, DENSE = "float32", "float32, four learners"
FP8, HYBRID, FOUR, NVFP4, ADACOMP, SCALECOM = METHODS = (
    *("FP8 of 2018", "hybrid FP8", "INT4/FP4", "NVFP4"),
    *("AdaComp", "ScaleCom"),
)
RECIPES = {FLOAT: "fp32", FP8: "fp8_2018", HYBRID: "hfp8_2019", FOUR: "int4_fp4_2020", NVFP4: "nvfp4_2025"}
COMPRESSORS: dict[str, Compressor] = {DENSE: Dense(), ADACOMP: AdaComp(), SCALECOM: ScaleCom(chunk=25)}
BOUNDS: dict[str, tuple[tuple[str, ...], float]] = {
    FP8: ((PICTURES, SPEECH), 1),
    HYBRID: (DOMAINS, 1),
    FOUR: ((PICTURES, CHARACTERS, SPEECH), 3),
    NVFP4: ((CHARACTERS,), 1.5),
    ADACOMP: ((PICTURES, CHARACTERS, SPEECH), 1),
    SCALECOM: ((PICTURES, CHARACTERS, SPEECH), 1),
}
"""Of each method the domains that its paper tested, and what it may lose there, points or percent of the loss.

Of INT4/FP4 it is the most that a network in its paper's tables loses, of the others their papers' words, rounded to 1.
"""

TESTED = {method: tested for method, (tested, _) in BOUNDS.items()}
"""Of each method the domains in which it is judged."""

POINTS: tuple[Point, ...] = tuple(
    {"domain": domain, "method": method} for domain in DOMAINS for method in (*RECIPES, *COMPRESSORS)
)

claim = ClaimBuilder(
    id="domains",
    title="Few bits, and few gradients sent, train as float32 does in every domain",
    paper=cite("hfp8_2019", "wang_2018", "sun_2020", "nvidia_2025", "adacomp_2018", "scalecom_2020"),
    where="abstracts and tables of results",
    statement="Networks for pictures, language, speech and detection, trained by each method, are about as accurate "
    "as in float32: with 8 bits within 1 %, with 4 bits and with compressed gradients without a significant loss.",
    published="hybrid FP8 within 1 % of float32 across models (second-hand); FP8 of 2018 loses up to 0.8 points "
    "(recalled); INT4/FP4 up to 3.0 points, MobileNetV2 (read); NVFP4 1.5 % of the loss while the learning rate falls "
    "(second-hand); AdaComp no noticeable loss (read); ScaleCom up to 0.6 points (second-hand)",
    experiment="Four networks: a small MobileNetV2 on cluttered digits, a character Transformer, convolutions and an "
    "LSTM on ten spoken words, a detector of one stage on scenes of digits. Each trains for "
    f"{PLANS[PICTURES].before} to {PLANS[SPEECH].before} steps in float32. From there each recipe goes on for "
    f"{PLANS[SPEECH].steps} steps with the same batches, its learning rate falling to zero. {LEARNERS} learners go on "
    "in the same way with float32 gradients, with AdaComp and with ScaleCom. Each method is compared with float32 seed "
    "by seed, and each compressor with the float32 gradients of four learners. A positive difference is worse. For "
    "pictures and speech it is in percentage points of wrong answers, for detection in percentage points of the mean "
    "average precision that is missing to 100 %, for characters in percent of the test loss.",
    points=POINTS,
    seeds=(0, 1, 2, 3, 4),
    budget_seconds=1500,
    budget=LONG,
    limits="Networks of 10 to 114 thousand parameters, of whose training the few bits are a tenth to a sixth. Words "
    "are a synthesiser's. The pictures' network is depthwise, which FP8 of 2018 was not tested with. ScaleCom sends "
    "one element of 25 in every layer of 1,024 weights or more, the mildest of the paper's rates. A point is 20 "
    "pictures or 6 words of the test, and seeds differ by more than one. Five seeds leave some cells undecided. "
    "Limits of 1 are our choice: no number for them was read in a paper.",
)


def task_of(domain: str) -> Task:
    """The task of a domain.

    >>> task_of("speech").name
    'speech'
    """
    from lplab.claims.framework import models
    from lplab.training import tasks

    made = {PICTURES: models.branch_depthwise, CHARACTERS: models.branch_transformer, DETECTION: models.branch_detector}
    return made[domain]() if domain in made else tasks.get(domain)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """One branch (:func:`measure_branch`)."""
    return measure_branch(task_of(point["domain"]), point["method"], seed, PLANS[point["domain"]])


def measure_branch(task: Task, method: str, seed: int, plan: BranchPlan, rate: float = 1.0) -> Numbers:
    """Losses (bits), error (%), and of learners how many times smaller than float32 their messages are.

    Args:
        task, seed, plan: of the branch.
        method: of ``RECIPES`` or ``COMPRESSORS``.
        rate: of learners, at the start of the branch, in units of the task's own.
    """
    from lplab.claims.framework.learner_trainings import branch_learners

    if method in RECIPES:
        return branch(task, RECIPES[method], seed, plan).numbers()
    done = branch_learners(task, COMPRESSORS[method], LEARNERS, seed, plan, rate=rate)
    whole = 4 * sum(p.numel() for p in done.run.model.parameters()) * LEARNERS * plan.steps
    assert done.run.ledger is not None  # the default of keep_ledger
    return {**done.numbers(), "smaller": round(whole / done.run.ledger.total(), 4)}


def _values(results: Results, domain: str, method: str, number: str) -> np.ndarray:
    return results.values(number, domain=domain, method=method)


def _baseline(method: str) -> str:
    return FLOAT if method in RECIPES else DENSE


def gaps_to_float(results: Results, domain: str, method: str, baseline: str = "") -> np.ndarray:
    """What a method loses against float32, seed by seed: points of percent; of characters, percent of the test loss.

    Args:
        results: of this claim, or of its larger experiment.
        domain, method: which branches.
        baseline: the float32 method; by default that of the method.
    """
    number = "loss" if domain == CHARACTERS else "error"
    ours, theirs = (_values(results, domain, name, number) for name in (method, baseline or _baseline(method)))
    return 100 * (ours - theirs) / theirs if domain == CHARACTERS else ours - theirs


def training_gaps(results: Results, domain: str, method: str, other: str) -> tuple[np.ndarray, np.ndarray]:
    """Differences of the training losses and of the test losses of two methods, in bits, seed by seed."""
    train, test = (
        _values(results, domain, method, n) - _values(results, domain, other, n) for n in ("train_loss", "loss")
    )
    return train, test


def within_bound(method: str, domains: tuple[str, ...], bound: float) -> Callable[[Results], CheckResult]:
    """The check that a method surely loses less than a bound against float32 in each of some domains."""

    def check(results: Results) -> CheckResult:
        gaps = {domain: gaps_to_float(results, domain, method) for domain in domains}
        conditions = {domain: within(gap, bound) for domain, gap in gaps.items()}
        beyond = [domain for domain, condition in conditions.items() if not condition.holds]
        each = join_words([f"{paired_text(gap, 2)} ({domain})" for domain, gap in gaps.items()])
        verdict = f"not surely within {bound:g}: {join_words(beyond)}" if beyond else f"surely within {bound:g}"
        text = f"{method} against float32: {each}; {verdict}."
        return paired_result(text, *conditions.values())

    return check


for _method, (_tested, _bound) in BOUNDS.items():
    claim.criterion(f"{_method} is within {_bound:g} % of float32: {join_words(list(_tested))}")(
        within_bound(_method, _tested, _bound)
    )


def worse_than_hybrid(domains: Sequence[str]) -> Callable[[Results], CheckResult]:
    """The sentence of 2019: one 8-bit format for everything degrades MobileNet and the Transformer."""

    def check(results: Results) -> CheckResult:
        gaps = {domain: training_gaps(results, domain, FP8, HYBRID) for domain in domains}
        each = join_words(
            [
                f"{paired_text(train)} bits in training, {paired_text(test)} in the test ({d})"
                for d, (train, test) in gaps.items()
            ]
        )
        conditions = (condition for pair in gaps.values() for condition in worse(*pair))
        return paired_result(f"FP8 of 2018 against the hybrid: {each}.", *conditions)

    return check


claim.explanation("FP8 of 2018 is worse than the hybrid with the depthwise net and the Transformer")(
    worse_than_hybrid((PICTURES, CHARACTERS))
)


def costs_more_than_eight_bits(domains: Sequence[str]) -> Callable[[Results], CheckResult]:
    """INT4/FP4 against hybrid FP8, where noise is least: the mean training loss of the last half."""

    def check(results: Results) -> CheckResult:
        gaps = {domain: training_gaps(results, domain, FOUR, HYBRID)[0] for domain in domains}
        each = join_words([f"{paired_text(gap)} ({domain})" for domain, gap in gaps.items()])
        return paired_result(f"INT4/FP4 above hybrid FP8, bits: {each}.", *map(above, gaps.values()))

    return check


claim.explanation("Four bits cost more than eight in the training loss of every domain")(
    costs_more_than_eight_bits(DOMAINS)
)


def have_learned(wrong_below: Mapping[str, float], bits_below: float) -> Callable[[Results], CheckResult]:
    """The check that the float32 networks have learned.

    Args:
        wrong_below: by domain, what percentage of wrong answers each seed stays below.
        bits_below: what the loss of a character stays below.
    """

    def check(results: Results) -> CheckResult:
        wrong = {domain: _values(results, domain, FLOAT, "error") for domain in wrong_below}
        bits = _values(results, CHARACTERS, FLOAT, "loss")
        each_of = [f"{x.mean():.1f} ({x.max():.1f}, {wrong_below[domain]:g}) {domain}" for domain, x in wrong.items()]
        learned = [each.max() < wrong_below[domain] for domain, each in wrong.items()]
        text = f"Percent wrong in float32 (worst seed, limit): {join_words(each_of)}; characters take "
        text += f"{np.mean(bits):.2f} bits, guessing {np.log2(75):.2f}."
        return CheckResult(all(learned) and bool(bits.max() < bits_below), text)

    return check


claim.explanation("In float32 all four networks have learned")(
    have_learned({domain: 50 for domain in DOMAINS if domain != CHARACTERS}, np.log2(75) / 2)
)


def none_beyond_bound(tested: Mapping[str, Sequence[str]]) -> Callable[[Results], CheckResult]:
    """What so few seeds can tell apart: a loss that is surely larger than the bound, and one that may be noise.

    Args:
        tested: by method the domains in which it is judged.
    """

    def check(results: Results) -> CheckResult:
        gaps = {
            (method, domain): within(gaps_to_float(results, domain, method), BOUNDS[method][1])
            for method, domains in tested.items()
            for domain in domains
        }
        beyond = [cell for cell, gap in gaps.items() if gap.refuted]
        undecided = [cell for cell, gap in gaps.items() if not (gap.holds or gap.refuted)]

        def cell_names(cells: list[tuple[str, str]]) -> str:
            return join_words([f"{method} in {domain}" for method, domain in cells]) or "none"

        return CheckResult(
            not beyond,
            f"Of {len(gaps)} judged cells, surely beyond the limit: {cell_names(beyond)}; undecided with so few seeds: "
            f"{cell_names(undecided)}.",
        )

    return check


claim.explanation("No judged cell is surely beyond its limit")(none_beyond_bound(TESTED))


@claim.explanation("The depthwise network's messages are hardly smaller")
def small_layers_go_whole(results: Results) -> CheckResult:
    """Tensors below 1,024 elements are sent whole, and the depthwise network has little else."""
    smaller, text = times_smaller(results, DOMAINS)
    return CheckResult(max(smaller[PICTURES]) < 2, text)


def times_smaller(results: Results, domains: Sequence[str]) -> tuple[dict[str, list[float]], str]:
    """By domain, how many times smaller messages are with AdaComp and with ScaleCom, and the sentence that says it."""
    smaller = {
        domain: [float(_values(results, domain, method, "smaller").mean()) for method in (ADACOMP, SCALECOM)]
        for domain in domains
    }
    each = join_words([f"{domain} {ours:.1f} and {theirs:.1f}" for domain, (ours, theirs) in smaller.items()])
    return smaller, f"Messages are so many times smaller with AdaComp and with ScaleCom: {each}."


def drawn_gaps(
    measured: Claim, tested: Mapping[str, Sequence[str]], methods: Sequence[str] = METHODS
) -> dict[str, Any]:
    """Stored gaps, as :func:`lplab.figures.domain_gaps` takes them: ``gaps``, ``bounds``, ``units``, ``baseline``.

    Args:
        measured: this claim, or its larger experiment.
        tested: by method, the domains in which it is judged.
        methods: what to draw; domains that one of them was not run in are left out.

    >>> sorted(drawn_gaps(DOMAINS_CLAIM, TESTED, ("AdaComp",))["gaps"]["speech"])
    ['AdaComp']
    """
    from lplab.claims.framework.store import read_stored

    results = read_stored(measured).results(measured)
    drawn = [domain for domain, ran in methods_by_domain(measured.points).items() if set(methods) <= set(ran)]
    return {
        "gaps": {d: {method: gaps_to_float(results, d, method) for method in methods} for d in drawn},
        "bounds": {d: {method: BOUNDS[method][1] for method in methods if d in tested[method]} for d in drawn},
        "units": {CHARACTERS: "% of loss"},
        "baseline": FLOAT if any(_baseline(method) == FLOAT for method in methods) else "no compression",
    }


def methods_by_domain(points: Sequence[Point]) -> dict[str, list[str]]:
    """By domain, the methods that were run there.

    >>> methods_by_domain(POINTS)["speech"] == list(METHODS)
    True
    """
    domains = dict.fromkeys(point["domain"] for point in points)
    return {d: [m for m in METHODS if {"domain": d, "method": m} in points] for d in domains}


def tell_gaps(to: ClaimBuilder, points: Sequence[Point], ours_on: str) -> None:
    """Give a claim its summary, its drawing and its comparison with the papers: what each method loses in each domain.

    Args:
        to: the claim.
        points: of the claim.
        ours_on: what it is measured on, in a few words.
    """
    ran = methods_by_domain(points)

    def measured(results: Results) -> str:
        """What each method loses in each domain."""
        return "; ".join(
            f"{method}: "
            + ", ".join(
                f"{domain} {round(gaps_to_float(results, domain, method).mean(), 2) + 0:+.2f}"
                for domain, methods in ran.items()
                if method in methods
            )
            for method in METHODS
        ).replace("-", "−")

    def rows(domain: str) -> Callable[[Results], dict[str, np.ndarray]]:
        return lambda results: {method: gaps_to_float(results, domain, method) for method in ran[domain]}

    to.summary(measured)
    for domain in ran:
        label = f"{domain}, above float32, {'% of the loss' if domain == CHARACTERS else 'points'}"
        to.draw(label, rows(domain), statistic=MEAN, differences=True)
    in_characters = {method: f"characters, {method}" for method in (HYBRID, NVFP4, ADACOMP, SCALECOM)}
    rows_in_front = tuple(in_characters if domain == CHARACTERS else {} for domain in ran)
    to.compared(theirs_on="ImageNet, translation, speech and others", ours_on=ours_on, rows=rows_in_front)


tell_gaps(claim, POINTS, "four small networks, one in each domain")
claim.found(claim.criteria[3].test, holds="NVFP4 within its limit", fails="NVFP4 not surely within its limit")
claim.found(
    claim.criteria[0].test,
    claim.criteria[1].test,
    claim.criteria[2].test,
    holds="FP8 of 2018, hybrid FP8 and INT4/FP4 within theirs",
    fails="FP8 or INT4/FP4 beyond theirs",
)
claim.found(
    claim.criteria[4].test,
    claim.criteria[5].test,
    holds="AdaComp and ScaleCom within theirs",
    fails="AdaComp and ScaleCom beyond theirs in some domain",
)

DOMAINS_CLAIM = claim.build()
