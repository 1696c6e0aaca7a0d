"""Sun et al. 2020, larger: what each step away from four bits brings, on real pictures and in a deeper Transformer.

Recipes branch from float32 checkpoints, as in the small experiment. Branches are longer and see larger batches, so that
the mean training loss of their last half is the mean over two and a half times as many pictures.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from lplab.claims.framework.branches import BranchPlan, branch, loss_gaps, loss_gaps_text, paired_result, worse
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.drawing import MEAN
from lplab.claims.framework.float32_end import Float32End
from lplab.claims.framework.larger_models import fashion_resnet8, novel_transformer
from lplab.claims.framework.parity import NOTHING_TRIED, ParityRow
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.papers import sun_2020_ablation as small
from lplab.claims.papers.sun_2020_ablation import (
    ALL,
    EIGHT,
    FLOAT,
    FORWARD,
    ORDER,
    PICTURES,
    POINTS,
    SINGLE,
    SOME,
    TEXT,
    TWO,
    recipe_of,
)

if TYPE_CHECKING:
    from lplab.training.loop.tasks import Task

DEPTH, WIDTH = 20, 32  # of the bottleneck net: layers; channels of its first third, a quarter of them inside a block
BLOCKS = 4  # of the Transformer
PLANS = {TEXT: BranchPlan(before=1000, steps=200), PICTURES: BranchPlan(before=400, steps=200)}
NAMES = {TEXT: "Transformer", PICTURES: PICTURES}  # in the sentences
BATCH = 64  # pictures, that of the task
SMALL_DEPTH, SMALL_BATCH, SMALL_BLOCKS = 11, 50, 2  # of the small experiment's networks
PARTS = (EIGHT, ALL, SOME)

claim = ClaimBuilder.larger(
    small.SUN_2020_ABLATION,
    experiment=f"From a float32 checkpoint each recipe goes on for {PLANS[TEXT].steps} steps with the same batches, "
    f"its learning rate falling to zero: a character Transformer of four blocks after "
    f"{PLANS[TEXT].before:,} steps, and a residual net of {DEPTH} layers in bottleneck blocks on Fashion-MNIST after "
    f"{PLANS[PICTURES].before}. Compared seed by seed: the mean training loss of the last half, and the test loss.",
    points=POINTS,
    seeds=(0, 1, 2, 3, 4),
    budget_seconds=1800,
    float32_ends=(
        Float32End(
            "novel_transformer",
            {"network": TEXT, "recipe": FLOAT},
            "the same",
            PLANS[TEXT].before + PLANS[TEXT].steps,
        ),
    ),
    limits="Four bits last for a part of a training: whole trainings of the paper lose more. Which 1 × 1 convolutions "
    "the paper calls “bottom” is our reading (sun_2020_hardware has a reason). Sums are float32's; the paper's are "
    "1-6-9.",
    parity=(
        ParityRow("layers of the bottleneck net", 50, "ResNet-50, read", small=SMALL_DEPTH, large=DEPTH),
        ParityRow(
            "blocks of the Transformer",
            12,
            "Transformer-base, six and six, recalled",
            small=SMALL_BLOCKS,
            large=BLOCKS,
        ),
        ParityRow(
            "pictures a batch",
            256,
            "ImageNet, read",
            small=SMALL_BATCH,
            large=BATCH,
            why="A step of 256 pictures takes four times as long, and steps are what is rare here.",
        ),
        ParityRow(
            "steps in four bits",
            100 * 1_281_167 / 256,
            "100 epochs of ImageNet, read",
            small=small.PLANS[PICTURES].steps,
            large=PLANS[PICTURES].steps,
            why="500,000 steps take half a day for each of six recipes on each seed; a branch shows the difference "
            "that has grown after its own steps.",
        ),
        ParityRow(
            "learning rate over 1 − momentum, at the start of a branch",
            1.0,
            "the networks' defaults, read; 0.1 and 0.9, recalled",
            small=0.05 / (1 - 0.9),
            large=0.1 / (1 - 0.9),
        ),
        ParityRow("share of the bottleneck net's convolutions that are 1 × 1", 2 / 3, "read", small=2 / 3, large=2 / 3),
    ),
    tried=(NOTHING_TRIED,),
)


def bottleneck_net() -> Task:
    """Six bottleneck blocks with batch norms on Fashion-MNIST.

    >>> net = bottleneck_net().model(0)
    >>> len(net.blocks), net.blocks[0].reduce.weight.shape[:2], sum(p.numel() for p in net.parameters())
    (6, torch.Size([8, 32]), 57610)
    """
    from lplab import models

    return replace(
        fashion_resnet8(),
        name="fashion_bottleneck",
        about=f"residual net of {DEPTH} layers in bottleneck blocks; Fashion-MNIST, 4 × 14 × 14",
        model=lambda seed: models.resnet(DEPTH, WIDTH, channels=4, seed=seed, bottleneck=True),
    )


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """One branch: its losses (bits)."""
    network = point["network"]
    task = novel_transformer() if network == TEXT else bottleneck_net()
    return branch(task, recipe_of(point["recipe"]), seed, PLANS[network]).numbers()


def _gaps(results: Results, network: str, name: str, other: str = FLOAT) -> tuple[np.ndarray, np.ndarray]:
    """Differences of the training losses and of the test losses, seed by seed."""
    return loss_gaps(results, {"network": network, "recipe": name}, {"network": network, "recipe": other})


claim.criterion("The Transformer is in the paper's order")(small.text_is_in_order)


@claim.criterion("Bottleneck net: INT4 forward alone loses least")
def forward_alone_loses_least(results: Results) -> CheckResult:
    """Bottleneck net: FP8 for dW, for all 1 × 1, for some 1 × 1 and four bits are each worse than INT4 forward."""
    gaps = {name: _gaps(results, PICTURES, name, FORWARD) for name in (*PARTS, TWO)}
    text = "; ".join(f"{name} {loss_gaps_text(each)}" for name, each in gaps.items())
    return paired_result(
        f"Bottleneck net, above INT4 forward alone: {text}.", *(one for each in gaps.values() for one in worse(*each))
    )


@claim.criterion("Bottleneck net: FP8 for some of the gradients brings part back")
def eight_bits_bring_part_back(results: Results) -> CheckResult:
    """Bottleneck net: four bits everywhere are worse than FP8 for dW, for all and for some 1 × 1 convolutions."""
    gaps = {name: _gaps(results, PICTURES, TWO, name) for name in PARTS}
    text = "; ".join(f"{name} {loss_gaps_text(each)}" for name, each in gaps.items())
    return paired_result(
        f"Bottleneck net, four bits everywhere above each: {text}.", *(one for g in gaps.values() for one in worse(*g))
    )


claim.criterion("The bottleneck net is in the paper's order throughout")(small.images_are_in_order)


@claim.explanation("Four bits everywhere lose most")
def four_bits_lose_most(results: Results) -> CheckResult:
    """Whether four-bit gradients cost anything beyond INT4 forward, in either network."""
    gaps = {network: _gaps(results, network, TWO, FORWARD) for network in (TEXT, PICTURES)}
    text = "; ".join(f"{NAMES[network]} {loss_gaps_text(each)}" for network, each in gaps.items())
    return paired_result(
        f"Four bits everywhere above INT4 forward alone: {text}.", *(one for g in gaps.values() for one in worse(*g))
    )


claim.explanation("Transformer: one phase is worse than two on every seed")(small.one_phase_is_worse)
claim.explanation("Transformer: the forward pass costs most")(small.forward_costs_most)


@claim.explanation("Bottleneck net: every step of the order has its sign on every seed")
def steps_agree_over_seeds(results: Results) -> CheckResult:
    """Where the order is not sure, whether it is for chance: how wide each step is over the seeds, beside its mean."""
    steps = {name: _gaps(results, PICTURES, name, better)[0] for better, name in pairwise(ORDER[PICTURES])}
    text = "; ".join(f"{name} {gap.mean():+.4f}, over the seeds {np.ptp(gap):.4f} wide" for name, gap in steps.items())
    sentence = f"Bottleneck net, training, each against the one before: {text}."
    return CheckResult(all(bool(gap.min() > 0) for gap in steps.values()), sentence.replace("-", "−"))


@claim.summary
def measured(results: Results) -> str:
    """What each recipe loses against float32, in training."""
    parts = []
    for network, names in ((TEXT, (*ORDER[TEXT][1:], SINGLE)), (PICTURES, (*ORDER[PICTURES][1:], EIGHT))):
        each = ", ".join(f"{name} {float(_gaps(results, network, name)[0].mean()):+.3f}" for name in names)
        parts.append(f"{NAMES[network]}: {each}".replace("-", "−"))
    return f"training loss above float32, bits, means: {'; '.join(parts)}"


claim.draw(
    "training loss of the Transformer above float32, bits a character",
    lambda results: {name: _gaps(results, TEXT, name)[0] for name in (*ORDER[TEXT][1:], SINGLE)},
    statistic=MEAN,
    differences=True,
)
claim.draw(
    "training loss of the bottleneck net above float32, bits a picture",
    lambda results: {name: _gaps(results, PICTURES, name)[0] for name in (FORWARD, *PARTS, TWO)},
    statistic=MEAN,
    differences=True,
)


def in_their_unit(results: Results) -> str:
    """Right answers of the bottleneck net in percent, medians."""
    names = (FLOAT, FORWARD, ALL, SOME, EIGHT, TWO)
    right = {n: 100 - float(np.median(results.values("error", network=PICTURES, recipe=n))) for n in names}
    return "bottleneck net, % right: " + ", ".join(f"{name} {percent:.1f}" for name, percent in right.items())


claim.compared(
    theirs_on="ImageNet, ResNet-50; translation, a Transformer",
    ours_on="characters, a Transformer; Fashion-MNIST, a bottleneck net",
    rows=(
        {"dx FP4, dW FP8": "Transformer, FP8 for dW", "two phases": "Transformer, four bits everywhere"},
        {"dx FP4, dW FP8": "bottleneck net, FP8 for dW", "two phases": "bottleneck net, four bits everywhere"},
    ),
    ours=in_their_unit,
)
claim.found(
    small.text_is_in_order,
    holds="the Transformer is in the paper's order",
    fails="the Transformer is not in the paper's order",
)
claim.found(
    forward_alone_loses_least,
    holds="bottleneck net: INT4 forward alone loses least",
    fails="in the bottleneck net INT4 forward alone does not lose least",
)
claim.found(
    eight_bits_bring_part_back,
    holds="FP8 for some gradients brings part back",
    fails="in the bottleneck net FP8 for some gradients brings nothing back",
)
claim.found(
    small.images_are_in_order,
    holds="bottleneck net in order throughout",
    fails="the bottleneck net is not in the paper's order throughout",
)

SUN_2020_ABLATION_LARGE = claim.build()
