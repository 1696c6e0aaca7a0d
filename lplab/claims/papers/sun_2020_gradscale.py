"""Sun et al. 2020: layers want gradient scales octaves apart; a scale for each recovers most of what one loses.

Two networks: the Transformer of the other branches, and one that was looked for because its layers' gradients lie far
apart, eleven linear layers without normalization. Recipes branch from a float32 checkpoint and are compared in pairs;
the criteria of this version were written before the branches were run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.branches import BranchPlan, branch, paired_result, paired_text, worse
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.drawing import MEAN
from lplab.claims.framework.models import branch_transformer
from lplab.claims.framework.operands import operands
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words, low_to_high, median_and_range, power_of_two, seed_range
from lplab.claims.papers.sun_2020_radix4 import FLOAT, GRADIENTS, ONE_SCALE, PER_LAYER, recipe_of

if TYPE_CHECKING:
    from lplab.training import Recorder
    from lplab.training.loop.tasks import Task

TEXT, DEEP = "Transformer", "eleven linear layers"
PLANS = {TEXT: BranchPlan(before=500, steps=60), DEEP: BranchPlan(before=600, steps=100)}
SCALES = {TEXT: (10, 14, 18), DEEP: (4, 8, 12, 16)}  # log2 of the one scale of all layers
MIN_OCTAVES_APART = 5  # octaves: what the paper finds, 5 to 6
MIN_RECOVERED = 0.5  # a share of what is lost
OCTAVES = 12  # of seven powers of four, from the smallest to the largest
MAX_ZEROED = 0.5  # a share of a layer's gradients
ENDS = {TEXT: ("head",), DEEP: ("layers.0", "layers.10")}  # layers whose gradients are 1-6-9

WAYS: dict[str, list[Point]] = {
    network: [{"gradients": FLOAT}, {"gradients": PER_LAYER}, *({"gradients": ONE_SCALE, "scale": s} for s in scales)]
    for network, scales in SCALES.items()
}
POINTS: tuple[Point, ...] = tuple({"network": network, **way} for network, ways in WAYS.items() for way in ways)

claim = ClaimBuilder(
    id="sun_2020_gradscale",
    title="A gradient scale for each layer recovers most of what one for all loses",
    paper=cite("sun_2020"),
    where="section 3.2, figure 3",
    statement="The scales that the layers' gradients want lie several octaves apart; a scale for each layer, which "
    "follows its gradient by factors of two (GradScale), recovers most of what one loss scale for all loses.",
    published="one scale loses more than 1.5 %, GradScale about 0.5 %; scales 5 to 6 octaves apart (read)",
    experiment=f"A character Transformer of two blocks after {PLANS[TEXT].before} steps in float32, and eleven linear "
    f"layers on the digits after {PLANS[DEEP].before}. From there each recipe goes on with the same batches, for "
    f"{PLANS[TEXT].steps} and {PLANS[DEEP].steps} steps, its learning rate falling to zero: output gradients in "
    "radix-4 FP4, one phase, all else float32, with GradScale and with one scale for all layers at several places. "
    "Compared seed by seed.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=50,
    limits="Networks of 114 and 42 thousand parameters, with many steps of float32 before. The paper compares with a "
    "dynamic loss scale; a format that saturates never shows it an infinity, so constant scales stand in here.",
    version=2,
)


def deep_net() -> Task:
    """Eleven linear layers of width 64 on the digits, without normalization.

    >>> len(deep_net().model(0).layers)
    11
    """
    from lplab import models
    from lplab.training import tasks

    return replace(
        tasks.get("mlp"),
        about="eleven linear layers without normalization; digits, 8 × 8",
        model=lambda seed: models.mlp((64,) * 11 + (10,), seed),
        optimizer="adam",
        lr=2e-3,
        options=(),
    )


NETWORKS: dict[str, Callable[[], Task]] = {TEXT: branch_transformer, DEEP: deep_net}


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """One branch: losses (bits), and what becomes of the layers' gradients.

    Returns:
        Besides the losses, of float32: ``spread`` and ``first_spread``, the octaves between the largest gradients of
        the layers at the checkpoint and before the first step, and ``layer_0``, ``layer_1`` …, the log2 of each at the
        checkpoint. Else ``octaves`` between the largest and the smallest scale of a layer at the end, and ``zeros`` and
        ``saturated``: of the layer that is worst off, the share of its gradients, mean over the recorded steps.
    """
    from lplab.training import Recorder

    network = point["network"]
    task, plan = NETWORKS[network](), PLANS[network]
    recorder = Recorder(every=20, roles=(GRADIENTS,))
    done = branch(task, recipe_of({"radix": 4, **point}), seed, plan, recorder=recorder)
    if point["gradients"] == FLOAT:
        return {**done.numbers(), **_spread(task, seed, plan.before, ENDS[network])}
    return {**done.numbers(), **_layers(recorder, point)}


def _spread(task: Task, seed: int, before: int, ends: tuple[str, ...]) -> dict[str, float]:
    last, first = (_largest(task, seed, steps, ends) for steps in (before, 0))
    each = {f"layer_{number}": value for number, value in enumerate(last)}
    return {"spread": round(float(np.ptp(last)), 4), "first_spread": round(float(np.ptp(first)), 4), **each}


def _largest(task: Task, seed: int, before: int, ends: tuple[str, ...]) -> list[float]:
    """The log2 of the largest gradient of each linear layer between the ends, in the order of the layers."""
    by_layer = operands(task, seed, before, skip=ends)
    return [round(float(np.log2(np.abs(parts.gradient).max())), 4) for parts in by_layer.values()]


def _layers(recorder: Recorder, point: Point) -> dict[str, float]:
    names = [layer for layer, _ in recorder.names()]
    inner = [name for name in names if name.startswith(("blocks.", "layers.")) and name not in ENDS[point["network"]]]
    series = [recorder.series(layer, GRADIENTS) for layer in inner]
    scales = [float(np.log2(one["scale"][-1])) for one in series]
    return {
        "octaves": max(scales) - min(scales) if point["gradients"] == PER_LAYER else 0.0,
        "zeros": round(max(float(one["underflowed"].mean()) for one in series), 6),
        "saturated": round(max(float(one["saturated"].mean()) for one in series), 6),
    }


def _numbers(results: Results, network: str, scale: int | str, number: str = "loss") -> np.ndarray:
    if isinstance(scale, str):
        return results.values(number, network=network, gradients=scale)
    return results.values(number, network=network, gradients=ONE_SCALE, scale=scale)


def _best(results: Results, network: str) -> int:
    """The single scale with the least training loss."""
    return min(SCALES[network], key=lambda scale: float(_numbers(results, network, scale, "train_loss").mean()))


def _gaps(results: Results, network: str, scale: int | str, other: str = FLOAT) -> tuple[np.ndarray, np.ndarray]:
    """Differences of the training losses and of the test losses, seed by seed."""
    train, test = (
        _numbers(results, network, scale, n) - _numbers(results, network, other, n) for n in ("train_loss", "loss")
    )
    return train, test


@claim.criterion(f"In both networks the scales of the layers lie at least {MIN_OCTAVES_APART} octaves apart")
def scales_lie_apart(results: Results) -> CheckResult:
    """The scales of the layers span five octaves or more, on every seed of both networks."""
    octaves = {network: _numbers(results, network, PER_LAYER, "octaves") for network in NETWORKS}
    text = join_words([f"{low_to_high(o.tolist(), 0)} ({network})" for network, o in octaves.items()])
    return CheckResult(
        all(bool(o.min() >= MIN_OCTAVES_APART) for o in octaves.values()),
        f"At the end the scales of the layers, and of the products of attention, span {text} octaves.",
    )


@claim.criterion("A scale for each layer is better than the best single one")
def per_layer_is_better(results: Results) -> CheckResult:
    """The best single scale is worse than a scale for each layer, in pairs, on both networks."""
    gaps = {network: _gaps(results, network, _best(results, network), PER_LAYER) for network in NETWORKS}
    text = "; ".join(
        f"{network}, {power_of_two(_best(results, network))}: {paired_text(train)} bits in training, "
        f"{paired_text(test)} in the test"
        for network, (train, test) in gaps.items()
    )
    conditions = [condition for gap in gaps.values() for condition in worse(*gap)]
    return paired_result(f"The best single scale above a scale for each layer: {text}.", *conditions)


def _recovered(results: Results, network: str) -> tuple[float, float]:
    """What the best single scale loses in training, bits, and the share that a scale for each layer takes back."""
    single, own = (float(_gaps(results, network, which)[0].mean()) for which in (_best(results, network), PER_LAYER))
    return single, (single - own) / single if single > 0 else 0.0


@claim.criterion("It recovers most of what a single scale loses")
def most_is_recovered(results: Results) -> CheckResult:
    """A scale for each layer takes back more than half of what the best single scale loses, on both networks."""
    values = {network: _recovered(results, network) for network in NETWORKS}
    text = "; ".join(
        f"{network}: the best single scale ends {lost:+.4f} bits above float32 in training, a scale for each layer "
        f"takes back {100 * share:.0f} % of it"
        for network, (lost, share) in values.items()
    )
    fine = all(share > MIN_RECOVERED for _, share in values.values())
    return CheckResult(fine, f"{text}.".replace("-", "−"))


@claim.explanation("Radix 4 covers more octaves than the layers lie apart")
def the_grid_covers_them(results: Results) -> CheckResult:
    """Why a single scale is enough: the layers' largest gradients lie closer than the twelve octaves of the grid."""
    spreads = {network: _numbers(results, network, FLOAT, "spread") for network in NETWORKS}
    text = join_words([f"{median_and_range(spread, 1)} octaves ({network})" for network, spread in spreads.items()])
    most = max(float(spread.max()) for spread in spreads.values())
    return CheckResult(
        most < OCTAVES,
        f"At the checkpoint the largest gradients of the linear layers lie {text} apart. From the smallest to the "
        f"largest number of radix-4 FP4 there are {OCTAVES} octaves: at the best single scale the layer that is worst "
        f"off still has {OCTAVES - most:.0f} of them.",
    )


@claim.explanation("Learning brings the layers together")
def learning_brings_them_together(results: Results) -> CheckResult:
    """A network whose layers lie far apart at first, and closer when it has learned."""
    first, last = (_numbers(results, DEEP, FLOAT, number) for number in ("first_spread", "spread"))
    return CheckResult(
        bool((last < first - 2).all()),
        f"In the network of eleven layers they lie {median_and_range(first, 1)} octaves apart before the first step "
        f"and {median_and_range(last, 1)} after {PLANS[DEEP].before} steps.",
    )


@claim.explanation("A single scale leaves some layer without most of its gradients")
def single_scales_hurt_some_layer(results: Results) -> CheckResult:
    """At the lowest single scale some layer of each network loses most of its gradients to zero."""
    lowest = {network: scales[0] for network, scales in SCALES.items()}
    zeros = {network: float(np.median(_numbers(results, network, s, "zeros"))) for network, s in lowest.items()}
    own = {network: float(np.median(_numbers(results, network, PER_LAYER, "zeros"))) for network in NETWORKS}
    each = {n: f"{100 * zeros[n]:.0f} % at {power_of_two(lowest[n])}, {100 * own[n]:.0f} % with its own" for n in zeros}
    text = join_words([f"{words} ({network})" for network, words in each.items()])
    return CheckResult(
        all(zeros[n] > MAX_ZEROED > own[n] for n in zeros), f"In the layer that is worst off become zero: {text}."
    )


@claim.explanation("Any single scale is about as good here")
def any_scale_is_about_as_good(results: Results) -> CheckResult:
    """Single scales many octaves apart end closer together than the seeds of float32."""
    parts, fine = [], []
    for network, scales in SCALES.items():
        means = [float(_gaps(results, network, scale)[0].mean()) for scale in scales]
        apart = seed_range(_numbers(results, network, FLOAT, "train_loss"))
        fine.append(max(means) - min(means) < apart)
        each = join_words([f"{mean:+.4f} at {power_of_two(s)}" for mean, s in zip(means, scales, strict=True)])
        parts.append(f"{network}: {each}; seeds of float32 lie {apart:.3f} apart")
    text = "; ".join(parts).replace("-", "−")
    return CheckResult(all(fine), f"Training loss above float32, bits, by the single scale. {text}.")


@claim.summary
def measured(results: Results) -> str:
    """What is lost against float32, and how far the scales lie apart."""
    parts = []
    for network in NETWORKS:
        octaves = float(np.median(_numbers(results, network, PER_LAYER, "octaves")))
        own, single = (paired_text(_gaps(results, network, s)[0]) for s in (PER_LAYER, _best(results, network)))
        parts.append(
            f"{network}: scale per layer {own}, best single scale {single} bits above float32 in training, "
            f"scales of the layers{' and of attention' * (network == TEXT)} span {octaves:.0f} octaves"
        )
    return "; ".join(parts)


def _drawn(network: str) -> Callable[[Results], dict[str, Any]]:
    def rows(results: Results) -> dict[str, Any]:
        ways: dict[str, int | str] = {"scale for each layer": PER_LAYER}
        ways |= {f"one scale, {power_of_two(scale)}": scale for scale in SCALES[network]}
        return {label: _gaps(results, network, way)[0] for label, way in ways.items()}

    return rows


def _octaves_below(results: Results) -> dict[str, Any]:
    """How many octaves the largest gradient of each layer lies below that of all, by layer."""
    rows: dict[str, Any] = {}
    for network in NETWORKS:
        (first, *_) = (row[2] for row in results.rows if row[0] == {"network": network, "gradients": FLOAT})
        numbers = [name for name in first if name.startswith("layer_")]
        values = np.stack([_numbers(results, network, FLOAT, name) for name in numbers])
        below = values.max(axis=0) - values
        short = {TEXT: "Transformer", DEEP: "linear"}[network]
        rows |= {f"{short}, layer {number}": row for number, row in enumerate(below, 1)}
    return rows


for drawn in NETWORKS:
    claim.draw(f"{drawn}: training loss above float32, bits", _drawn(drawn), statistic=MEAN, differences=True)
claim.draw("largest gradients of the layers: octaves below the largest", _octaves_below, differences=True)


def in_their_unit(results: Results) -> str:
    """Points of accuracy lost against float32 by the best single scale and by a scale for each layer, means."""
    parts = []
    for network in SCALES:
        base = _numbers(results, network, FLOAT, "error")
        one, each = (
            float((_numbers(results, network, scale, "error") - base).mean()) + 0.0
            for scale in (_best(results, network), PER_LAYER)
        )
        parts.append(f"{network}: one scale loses {one:.1f} points, GradScale {each:.1f}".replace("-", "−"))
    return "; ".join(parts)


claim.compared(
    theirs_on="ImageNet, ResNet-18",
    ours_on="characters, a Transformer; 8 × 8 digits, eleven linear layers",
    rows=(
        {
            "scale for each layer": "Transformer, a scale for each layer",
            "one scale, 2¹⁴": "Transformer, best single scale",
        },
        {
            "scale for each layer": "linear layers, a scale for each",
            "one scale, 2⁸": "linear layers, best single scale",
        },
    ),
    ours=in_their_unit,
)
claim.found(
    scales_lie_apart, holds="scales at least 5 octaves apart", fails="scales 5 octaves apart in one network at most"
)
claim.found(
    per_layer_is_better,
    holds="a scale for each layer beats the best single one",
    fails="a scale for each layer does not beat the best single one",
)
claim.found(most_is_recovered, holds="it recovers most of the loss", fails="it does not recover most of the loss")

SUN_2020_GRADSCALE = claim.build()
