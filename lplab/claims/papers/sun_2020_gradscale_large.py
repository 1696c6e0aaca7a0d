"""Sun et al. 2020, larger: a gradient scale for each layer against single ones, in a residual net and a Transformer.

The residual net is of the paper's kind: batch norms, as many layers, real pictures. Whether the gradients of its layers
lie as far apart as the paper's is a result. And it is measured how far below its own scale a layer can go, which says
from how many octaves on a scale for each layer must pay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from lplab.claims.framework.branches import (
    BranchPlan,
    above,
    branch,
    checkpoint,
    loss_gaps,
    loss_gaps_text,
    paired_result,
    paired_text,
    worse,
)
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.drawing import MEAN
from lplab.claims.framework.float32_end import Float32End
from lplab.claims.framework.larger_models import fashion_resnet20, novel_transformer
from lplab.claims.framework.parity import ParityRow
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words, low_to_high, median_and_range, power_of_two
from lplab.claims.framework.trainings import one_thread
from lplab.claims.papers import sun_2020_gradscale as small
from lplab.claims.papers.sun_2020_ablation_large import PLANS as ABLATION_PLANS
from lplab.claims.papers.sun_2020_ablation_large import TEXT as ABLATION_TEXT
from lplab.claims.papers.sun_2020_gradscale import MIN_OCTAVES_APART, MIN_RECOVERED
from lplab.claims.papers.sun_2020_radix4 import FLOAT, GRADIENTS, ONE_SCALE, PER_LAYER, recipe_of

if TYPE_CHECKING:
    from lplab.training import Recorder
    from lplab.training.loop.tasks import Task

TEXT, PICTURES = "Transformer", "residual net"
WIDTH = 8  # channels of the first third of the residual net
# The Transformer's checkpoint is that of the larger ablation, so that it is trained once.
PLANS = {
    TEXT: BranchPlan(before=ABLATION_PLANS[ABLATION_TEXT].before, steps=200),
    PICTURES: BranchPlan(before=400, steps=200),
}
SCALES = (11, 13, 15, 17)  # log2 of the one scale of all layers
LARGER_SCALES = (19, 21)  # tried with the Transformer alone, as 17 was the best of the four there
DEPTH = 20  # of the residual net
PUBLISHED_OCTAVES = 5, 6  # between the scales of the layers
SMALL_OCTAVES = 4, 8  # those of the small experiment, of both networks and all seeds
OCTAVES = {TEXT: (6, 7), PICTURES: (2, 3)}  # those of this run, of all seeds; a criterion computes them
TRIED_OCTAVES = 2, 7  # what was found before the run (``tried``)
WINDOW = range(13)  # octaves below its own scale at which a layer's gradient is rounded
MUCH = 1.5  # times the error at its own scale: much worse

WAYS: tuple[Point, ...] = (
    {"gradients": FLOAT},
    {"gradients": PER_LAYER},
    *({"gradients": ONE_SCALE, "scale": scale} for scale in SCALES),
)
POINTS: tuple[Point, ...] = (
    *({"network": network, **way} for network in PLANS for way in WAYS),
    *({"network": TEXT, "gradients": ONE_SCALE, "scale": scale} for scale in LARGER_SCALES),
)

claim = ClaimBuilder.larger(
    small.SUN_2020_GRADSCALE,
    experiment=f"A residual net of {DEPTH} layers with batch norms on Fashion-MNIST after {PLANS[PICTURES].before} "
    f"steps in float32, and a character Transformer of four blocks after {PLANS[TEXT].before:,}. From there each "
    f"recipe goes on for {PLANS[TEXT].steps} steps with the same batches, its learning rate falling to zero: output "
    "gradients in radix-4 FP4 for dx and in FP8 for dW, one phase, all else float32, with GradScale and with one scale "
    "for all layers at four places. Compared seed by seed; the mean training loss of the last half, and the test loss.",
    points=POINTS,
    seeds=(0, 1, 2, 3, 4),
    budget_seconds=1500,
    float32_ends=(
        Float32End(
            "novel_transformer",
            {"network": TEXT, "gradients": FLOAT},
            "the same",
            PLANS[TEXT].before + PLANS[TEXT].steps,
        ),
        Float32End(
            "fashion_resnet20",
            {"network": PICTURES, "gradients": FLOAT},
            "half as wide",
            PLANS[PICTURES].before + PLANS[PICTURES].steps,
        ),
    ),
    limits="The paper compares with an automatic loss scale, which ends where float16 overflows. Here the best of four "
    "constant scales stands in for it, which is harder to beat. In the Transformer the largest of the four was the "
    "best. So two larger ones were measured after the run; they decide nothing. Weights and activations are float32, "
    "so that the gradients' grid is all that differs; the paper's are INT4.",
    parity=(
        ParityRow("layers of the residual net", 18, "ResNet-18, read", large=DEPTH),
        ParityRow(
            "octaves of the grid, from its smallest to its largest number",
            12,
            "section 3.1, read",
            small=small.OCTAVES,
            large=small.OCTAVES,
        ),
        ParityRow(
            "octaves between the smallest and the largest scale of a layer",
            PUBLISHED_OCTAVES,
            "figure 3, read",
            small=SMALL_OCTAVES,
            large=OCTAVES[TEXT],
        ),
        ParityRow(
            "the same of the residual net alone, which is the paper's kind of network",
            PUBLISHED_OCTAVES,
            "figure 3, read",
            large=OCTAVES[PICTURES],
        ),
        ParityRow(
            "learning rate over 1 − momentum of the residual net, at the start of a branch",
            1.0,
            "the networks' defaults, read; 0.1 and 0.9, recalled",
            large=0.1 / (1 - 0.9),
        ),
        ParityRow(
            "steps with four-bit gradients",
            100 * 1_281_167 / 256,
            "100 epochs of ImageNet, read",
            small=(small.PLANS[small.TEXT].steps, small.PLANS[small.DEEP].steps),
            large=PLANS[PICTURES].steps,
            why="500,000 steps of this net take some eight hours for each of six arms of each seed.",
        ),
    ),
    tried=(
        "Largest gradients of the layers between the ends were measured at 0 and after 200 or 300 steps, seed 100, in "
        "octaves between the smallest and the largest: residual net of twenty layers 4.0 and 3.0, of 32 layers 5.4 and "
        "3.4, ResNet-18's four stages 3.8 and 2.9, bottleneck blocks 4.8 and 2.4, a depthwise net 4.9 and 4.5, nine "
        "convolutions without norms 2.6 and 0.8, thirteen 2.2 and 1.8. No net of convolutions was found whose layers "
        "lie further apart than the paper's after it has learned; the paper's kind was taken.",
        f"Seed 0 after three steps in float32 and four with GradScale, to see that the measurement runs: scales span "
        f"{TRIED_OCTAVES[0]} octaves (residual net) and {TRIED_OCTAVES[1]} (a Transformer of width 96).",
    ),
)

NETWORKS: dict[str, Callable[[], Task]] = {TEXT: novel_transformer, PICTURES: lambda: fashion_resnet20(WIDTH)}


def is_inner(name: str) -> bool:
    """Whether a layer's gradients are FP4: those of the blocks but for the shortcuts, which are 1-6-9.

    >>> [is_inner(name) for name in ("stem", "blocks.3.conv1", "blocks.3.shortcut.0", "head")]
    [False, True, False, False]
    """
    return name.startswith("blocks.") and "shortcut" not in name


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """One branch: losses (bits), and what becomes of the layers' gradients.

    Returns:
        Besides the losses, of float32 at the checkpoint: ``spread``, the octaves between the largest gradients of the
        layers with weights, and ``bears``, of the one that bears least, how many octaves below its own scale the error
        of its rounded gradient is still less than 1.5 times as large. Else ``octaves`` between the largest and the
        smallest scale of a layer, or of a product of attention, at the end, ``zeros`` and ``saturated``: of the one
        that is worst off, the share of its gradients, mean over the recorded steps.
    """
    from lplab.training import Recorder

    network = point["network"]
    task, plan = NETWORKS[network](), PLANS[network]
    recorder = Recorder(every=max(1, plan.steps // 4), roles=(GRADIENTS,))
    done = branch(task, recipe_of({"radix": 4, **point}), seed, plan, recorder=recorder)
    if point["gradients"] == FLOAT:
        gradients = output_gradients(task, seed, plan.before)
        largest = [float(np.log2(np.abs(dy).max())) for dy in gradients.values()]
        bears = min(octaves_borne(dy) for dy in gradients.values())
        return {**done.numbers(), "spread": round(float(np.ptp(largest)), 4), "bears": float(bears)}
    return {**done.numbers(), **_layers(recorder, point)}


def output_gradients(task: Task, seed: int, before: int) -> dict[str, np.ndarray]:
    """The gradient of the output of each layer of the blocks, at the checkpoint, for the next batch: float32 [n]."""
    from torch import nn

    model = task.model(seed)
    model.load_state_dict(checkpoint(task, seed, before)["model"])
    gradients: dict[str, np.ndarray] = {}

    def keep(name: str) -> Any:
        def hook(module: Any, given: Any, output: Any) -> None:
            output.register_hook(lambda dy: gradients.update({name: dy.flatten().numpy().copy()}))

        return hook

    for name, module in model.named_modules():
        if isinstance(module, nn.Linear | nn.Conv2d) and is_inner(name):
            module.register_forward_hook(keep(name))
    inputs, targets = task.data(task.batch, seed)(before)
    with one_thread():
        task.loss(model.train()(inputs), targets).backward()
    return gradients


def octaves_borne(dy: np.ndarray) -> int:
    """How many octaves below its own scale the error of a rounded gradient is still less than 1.5 times as large.

    Its own scale brings the largest number to the upper half of the grid's last octave, as GradScale does.

    >>> octaves_borne(np.array([1.0, 0.9, 1.1])), octaves_borne(np.array([1.1, *[0.02] * 10_000]))
    (11, 6)
    """
    from lplab.quantizers import Radix4

    own = 2.0 ** np.floor(np.log2(64 / np.abs(dy).max()))
    errors = []
    for octaves in WINDOW:
        scaled = dy.astype(np.float64) * own / 2.0**octaves
        errors.append(float(np.linalg.norm(Radix4().quantize(scaled) - scaled)) * 2.0**octaves)
    return max(octaves for octaves, error in zip(WINDOW, errors, strict=True) if error <= MUCH * errors[0])


def _layers(recorder: Recorder, point: Point) -> dict[str, float]:
    series = [recorder.series(name, GRADIENTS) for name, _ in recorder.names() if is_inner(name)]
    scales = [float(np.log2(one["scale"][-1])) for one in series]
    return {
        "octaves": max(scales) - min(scales) if point["gradients"] == PER_LAYER else 0.0,
        "zeros": round(max(float(one["underflowed"].mean()) for one in series), 6),
        "saturated": round(max(float(one["saturated"].mean()) for one in series), 6),
    }


def _arm(network: str, scale: int | str) -> Point:
    way = {"gradients": scale} if isinstance(scale, str) else {"gradients": ONE_SCALE, "scale": scale}
    return {"network": network, **way}


def _gaps(results: Results, network: str, scale: int | str, other: int | str = FLOAT) -> tuple[np.ndarray, np.ndarray]:
    """Differences of the training losses and of the test losses, seed by seed."""
    return loss_gaps(results, _arm(network, scale), _arm(network, other))


def _best(results: Results, network: str) -> int:
    """The single scale with the least training loss."""
    return min(SCALES, key=lambda scale: float(_gaps(results, network, scale)[0].mean()))


@claim.criterion(f"In both networks the scales of the layers lie at least {MIN_OCTAVES_APART} octaves apart")
def scales_lie_apart(results: Results) -> CheckResult:
    """The scales of the layers span five octaves or more, on every seed of both networks."""
    octaves = {network: results.values("octaves", **_arm(network, PER_LAYER)) for network in NETWORKS}
    text = join_words([f"{low_to_high(each.tolist(), 0)} ({network})" for network, each in octaves.items()])
    return CheckResult(
        all(bool(each.min() >= MIN_OCTAVES_APART) for each in octaves.values()),
        f"At the end the scales of the layers, and of the products of attention, span {text} octaves.",
    )


@claim.criterion("A scale for each layer is better than the best single one")
def per_layer_is_better(results: Results) -> CheckResult:
    """The best single scale is worse than a scale for each layer, in pairs, on both networks."""
    gaps = {network: _gaps(results, network, _best(results, network), PER_LAYER) for network in NETWORKS}
    text = "; ".join(
        f"{network}, {power_of_two(_best(results, network))}: {loss_gaps_text(each)}" for network, each in gaps.items()
    )
    conditions = [condition for each in gaps.values() for condition in worse(*each)]
    return paired_result(f"The best single scale above a scale for each layer: {text}.", *conditions)


@claim.criterion("It recovers most of what a single scale loses")
def most_is_recovered(results: Results) -> CheckResult:
    """The best single scale loses against float32, and a scale for each layer takes more than half of that back."""
    texts, fine = [], True
    for network in NETWORKS:
        lost, own = (float(_gaps(results, network, s)[0].mean()) for s in (_best(results, network), PER_LAYER))
        share = (lost - own) / lost if lost > 0 else 0.0
        fine &= share > MIN_RECOVERED
        back = f", a scale for each layer takes back {100 * share:.0f} % of it" if lost > 0 else ": nothing is lost"
        texts.append(f"{network}: the best single scale ends {lost:+.4f} bits above float32 in training{back}")
    return CheckResult(fine, f"{'; '.join(texts)}.".replace("-", "−"))


@claim.explanation("Layers bear more octaves than they lie apart")
def layers_bear_more(results: Results) -> CheckResult:
    """Why one scale is enough: no layer with weights is further from the others than it can be from its own scale."""
    texts, fine = [], True
    for network in NETWORKS:
        spread, bears = (results.values(number, **_arm(network, FLOAT)) for number in ("spread", "bears"))
        fine &= bool((bears > spread).all())
        texts.append(f"{network}: {median_and_range(spread, 1)} octaves apart, {low_to_high(bears.tolist(), 0)} borne")
    return CheckResult(
        fine,
        f"How far the largest gradients of the layers with weights lie apart. And how many octaves the scale of a "
        f"layer can be lowered before its error is {MUCH} times as large; the layer that bears least counts. "
        f"{'; '.join(texts)}.",
    )


@claim.explanation("The choice of the single scale matters more than a scale for each layer")
def the_place_matters(results: Results) -> CheckResult:
    """The worst of the four single scales loses more against the best than the best against a scale for each layer."""
    texts, conditions = [], []
    for network in NETWORKS:
        losses = {scale: _gaps(results, network, scale)[0] for scale in SCALES}
        best = losses[_best(results, network)]
        worst = max(losses.values(), key=lambda each: float(each.mean()))
        conditions.append(above((worst - best) - (best - _gaps(results, network, PER_LAYER)[0])))
        each = join_words([f"{loss.mean():+.4f} at {power_of_two(scale)}" for scale, loss in losses.items()])
        texts.append(f"{network}: {each}")
    return paired_result(f"Training loss above float32, bits. {'; '.join(texts)}.".replace("-", "−"), *conditions)


@claim.explanation("In the Transformer no larger single scale than the four is better")
def no_larger_scale_is_better(results: Results) -> CheckResult:
    """Whether the best of the four was the best because no larger one was tried."""
    best, own = _best(results, TEXT), _gaps(results, TEXT, PER_LAYER)[0]
    gaps = {scale: _gaps(results, TEXT, scale, best)[0] for scale in LARGER_SCALES}
    each = join_words([f"{power_of_two(scale)} {paired_text(gap)}" for scale, gap in gaps.items()])
    left = float(min(_gaps(results, TEXT, scale)[0].mean() for scale in (*SCALES, *LARGER_SCALES)) - own.mean())
    return paired_result(
        f"Training loss above that of {power_of_two(best)}, bits: {each}. The best of all single scales ends "
        f"{left:+.4f} bits above a scale for each layer, on average.".replace("-", "−"),
        *(above(gap) for gap in gaps.values()),
    )


@claim.explanation("A single scale costs some layer more of its gradients")
def single_scales_hurt_some_layer(results: Results) -> CheckResult:
    """In the layer that is worst off more becomes zero or saturates at the best single scale than at its own."""
    texts, fine = [], True
    for network in NETWORKS:
        lost = []
        for scale in (_best(results, network), PER_LAYER):
            arm = _arm(network, scale)
            lost.append(100 * (results.values("zeros", **arm) + results.values("saturated", **arm)))
        fine &= bool((lost[0] > lost[1]).all())
        texts.append(f"{network}: {median_and_range(lost[0], 0)} %, with its own {median_and_range(lost[1], 0)} %")
    return CheckResult(fine, f"Of the layer that is worst off become zero or saturate: {'; '.join(texts)}.")


@claim.summary
def measured(results: Results) -> str:
    """What is lost against float32, and how far the scales lie apart."""
    parts = []
    for network in NETWORKS:
        octaves = float(np.median(results.values("octaves", **_arm(network, PER_LAYER))))
        own, single = (paired_text(_gaps(results, network, s)[0]) for s in (PER_LAYER, _best(results, network)))
        parts.append(
            f"{network}: scale per layer {own}, best single scale {single} bits above float32 in training, "
            f"scales of the layers{' and of attention' * (network == TEXT)} span {octaves:.0f} octaves"
        )
    return "; ".join(parts)


def _drawn(network: str) -> Callable[[Results], dict[str, Any]]:
    def rows(results: Results) -> dict[str, Any]:
        ways: dict[str, int | str] = {"scale for each layer": PER_LAYER}
        ways |= {f"one scale, {power_of_two(scale)}": scale for scale in SCALES}
        return {label: _gaps(results, network, way)[0] for label, way in ways.items()}

    return rows


for drawn in NETWORKS:
    claim.draw(f"{drawn}: training loss above float32, bits", _drawn(drawn), statistic=MEAN, differences=True)


def in_their_unit(results: Results) -> str:
    """Points of accuracy lost against float32 by the best single scale and by a scale for each layer, means."""
    parts = []
    for network in NETWORKS:
        base = results.values("error", **_arm(network, FLOAT))
        one, each = (
            float((results.values("error", **_arm(network, scale)) - base).mean()) + 0.0
            for scale in (_best(results, network), PER_LAYER)
        )
        parts.append(f"{network}: one scale loses {one:.1f} points, GradScale {each:.1f}".replace("-", "−"))
    return "; ".join(parts)


claim.compared(
    theirs_on="ImageNet, ResNet-18",
    ours_on="characters, a Transformer; Fashion-MNIST, a residual net of depth 20",
    rows=(
        {
            "scale for each layer": "Transformer, a scale for each layer",
            "one scale, 2¹⁷": "Transformer, best single scale",
        },
        {
            "scale for each layer": "residual net, a scale for each layer",
            "one scale, 2¹³": "residual net, best single scale",
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
claim.found(
    most_is_recovered,
    holds="it recovers most of the loss",
    fails="most of the loss is not recovered",
)

SUN_2020_GRADSCALE_LARGE = claim.build()
