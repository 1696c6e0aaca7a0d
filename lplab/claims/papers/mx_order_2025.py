"""NVIDIA 2025, Mishra et al. 2025: MXFP8 costs less than NVFP4, NVFP4 less than MXFP4; most of it is the forward pass.

The criteria were written from the papers' sentences before the branches were run. All formats are compared without the
helpers of the published recipes, so that the format is all that differs: every operand is rounded to the nearest value,
in blocks along the axis of its product's sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lplab import formats
from lplab.claims.bibliography import cite
from lplab.claims.framework.branches import (
    BranchPlan,
    above,
    branch,
    loss_gaps,
    loss_gaps_text,
    paired_result,
    paired_text,
    within,
    worse,
)
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.drawing import MEAN
from lplab.claims.framework.models import branch_transformer
from lplab.claims.framework.operands import operands
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words

if TYPE_CHECKING:
    from lplab.training import Recipe

PLAN = BranchPlan(before=500, steps=60)
BOUND = 0.01  # of float32's loss: below it FP8 counts as no loss, as in hfp8_2019
FLOAT, MXFP8, NVFP4, MXFP4 = "float32", "MXFP8", "NVFP4", "MXFP4"
NVFP4_BACK, MXFP4_BACK = "NVFP4, forward in BF16", "MXFP4, forward in BF16"
FORMATS = {MXFP8: "mxfp8_e4m3", NVFP4: "nvfp4", MXFP4: "mxfp4"}
PUBLISHED = {NVFP4: 1.5, MXFP4: 2.5}  # per cent of the loss
HEAD = "head"  # the last layer, which every recipe keeps in BF16

PLAIN_NVFP4: dict[str, Any] = {"hadamard": 0, "rounding": "nearest_even", "weight_tile": None, "late": 0.0}
PLAIN_MXFP4: dict[str, Any] = {"hadamard": 0, "rounding": "nearest_even", "pre_scale": 1.0}
RECIPES: dict[str, tuple[str, dict[str, Any]]] = {
    MXFP8: ("mxfp8_2025", {}),
    NVFP4: ("nvfp4_2025", PLAIN_NVFP4),
    MXFP4: ("mxfp4_2025", {**PLAIN_MXFP4, "forward": "mxfp4"}),
    NVFP4_BACK: ("nvfp4_2025", {**PLAIN_NVFP4, "forward": "bf16"}),
    MXFP4_BACK: ("mxfp4_2025", {**PLAIN_MXFP4, "forward": "bf16"}),
}
"""The recipe and the switches behind each point; float32 has none."""

POINTS: tuple[Point, ...] = ({"recipe": FLOAT}, *({"recipe": name} for name in RECIPES))

claim = ClaimBuilder(
    id="mx_order_2025",
    title="MXFP8 costs less than NVFP4, NVFP4 less than MXFP4, and most of it in the forward pass",
    paper=cite("nvidia_2025", "mishra_2025"),
    where="abstracts; comparison with MXFP4; BF16 in the forward pass at the end",
    statement="MXFP8 trains as BF16 does. NVFP4 stays within 1 to 1.5 % of an FP8 baseline, MXFP4 within 2.5 %. Most "
    "of NVFP4's gap is the forward pass.",
    published="MXFP8 matches BF16 (read); NVFP4 under 1 %, 1.5 % in the decay; MXFP4 2.5 %, 36 % more tokens; BF16 in "
    "the forward pass alone for the last 18 % takes 1.5 to 0.5 % (read)",
    experiment=f"A character Transformer of two blocks, trained for {PLAN.before} steps in float32. From there each "
    f"format goes on for {PLAN.steps} steps with the same batches, its learning rate falling to zero: all operands "
    "of all linear layers but the last, rounded to nearest. Both 4-bit formats again with BF16 in the forward pass. "
    "Compared seed by seed: the mean training loss of the last half, and the loss of 32,768 test characters.",
    points=POINTS,
    # Three seeds left NVFP4 against MXFP4 undecided. So three more were fixed and measured, once.
    seeds=(0, 1, 2, 3, 4, 5),
    budget_seconds=105,
    limits="A Transformer of 114 thousand parameters, and few bits for a tenth of a short training. None of the "
    "helpers of the published recipes. MXFP4 has the scales of OCP, rounded down, MXFP8 those of its recipe, rounded "
    "up. Another paper (arXiv 2605.09825, its abstract read) finds that the weight gradients harm an 8B model most, "
    "not the forward pass.",
)


def recipe_of(name: str) -> Recipe:
    """The recipe behind a name.

    >>> recipe_of("float32").name, recipe_of("NVFP4").weight.format.label
    ('fp32', 'nvfp4')
    """
    from lplab.training import recipes

    if name == FLOAT:
        return recipes.get("fp32")
    published, switches = RECIPES[name]
    return recipes.get(published, **switches)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """One branch: losses (bits). Of float32 also the error of each format on the operands at the checkpoint (dB)."""
    task, name = branch_transformer(), point["recipe"]
    values = branch(task, recipe_of(name), seed, PLAN).numbers()
    if name != FLOAT:
        return values
    by_layer = operands(task, seed, PLAN.before, skip=(HEAD,))
    pairs = [pair for parts in by_layer.values() for pair in parts.products().values()]
    return {**values, **{f"noise_{label}": _noise(pairs, label) for label in FORMATS.values()}}


def _noise(pairs: list[tuple[np.ndarray, np.ndarray]], label: str) -> float:
    """The error of rounding the operands of products, in dB of their power: the median over the operands."""
    format = formats.get(label)
    both = [x for pair in pairs for x in pair]
    errors = [np.sum((format.quantize(x) - x) ** 2) / np.sum(x**2) for x in both]
    return round(float(np.median(10 * np.log10(errors))), 4)


def _losses(results: Results, name: str, number: str = "loss") -> np.ndarray:
    return results.values(number, recipe=name)


def _gaps(results: Results, name: str, other: str = FLOAT) -> tuple[np.ndarray, np.ndarray]:
    """Differences of the training losses and of the test losses, seed by seed."""
    return loss_gaps(results, {"recipe": name}, {"recipe": other})


def _percent(results: Results, name: str) -> float:
    """The gap to float32 in per cent of its training loss, mean over the seeds."""
    return 100 * float((_gaps(results, name)[0] / _losses(results, FLOAT, "train_loss")).mean())


@claim.criterion("MXFP8 is within 1 % of float32")
def eight_bits_lose_nothing(results: Results) -> CheckResult:
    """Training and test loss of MXFP8 are surely within 1 % of float32's."""
    gaps = _gaps(results, MXFP8)
    bounds = [BOUND * float(_losses(results, FLOAT, number).mean()) for number in ("train_loss", "loss")]
    text = f"MXFP8 against float32: {loss_gaps_text(gaps)}; 1 % is {bounds[1]:.3f} bits."
    return paired_result(text, *map(within, gaps, bounds))


@claim.criterion("NVFP4 costs more than MXFP8, MXFP4 more than NVFP4")
def formats_are_in_order(results: Results) -> CheckResult:
    """Each format is worse than the one before it: surely in training, and on every seed in the test."""
    steps = {f"{worse} against {better}": _gaps(results, worse, better) for better, worse in _neighbours()}
    text = "; ".join(f"{names}: {loss_gaps_text(gaps)}" for names, gaps in steps.items())
    return paired_result(f"{text}.", *(condition for gaps in steps.values() for condition in worse(*gaps)))


def _neighbours() -> tuple[tuple[str, str], ...]:
    return (MXFP8, NVFP4), (NVFP4, MXFP4)


@claim.criterion("Most of NVFP4's gap is the forward pass")
def forward_is_most(results: Results) -> CheckResult:
    """BF16 in the forward pass takes away surely more than half of NVFP4's gap in training."""
    whole, back = (_gaps(results, name)[0] for name in (NVFP4, NVFP4_BACK))
    return paired_result(_forward_text(results, NVFP4, NVFP4_BACK), above(whole - 2 * back))


def _forward_text(results: Results, name: str, back: str) -> str:
    whole, left = (float(_gaps(results, which)[0].mean()) for which in (name, back))
    return (
        f"{name} is {paired_text(_gaps(results, name)[0])} bits above float32 in training, with BF16 in the forward "
        f"pass {paired_text(_gaps(results, back)[0])}: {100 * left / whole:.0f} % of the gap is left."
    ).replace("-", "−")


@claim.explanation("The same is true of MXFP4")
def forward_is_most_of_mxfp4(results: Results) -> CheckResult:
    """BF16 in the forward pass takes away surely more than half of MXFP4's gap, too."""
    whole, back = (_gaps(results, name)[0] for name in (MXFP4, MXFP4_BACK))
    return paired_result(_forward_text(results, MXFP4, MXFP4_BACK), above(whole - 2 * back))


@claim.explanation("The gaps are within a factor of three of the published ones")
def gaps_have_their_size(results: Results) -> CheckResult:
    """Whether each gap, in per cent of the loss, is within a factor of three of the published one (1.5 and 2.5 %)."""
    ours = {name: _percent(results, name) for name in (NVFP4, MXFP4)}
    text = join_words([f"{name} {percent:.1f} %" for name, percent in ours.items()])
    return CheckResult(
        all(1 / 3 < ours[name] / theirs < 3 for name, theirs in PUBLISHED.items()),
        f"Above float32's training loss: {text}. Theirs, at 12 and 8 billion parameters, are 1.5 and 2.5 %.",
    )


@claim.explanation("Rounding errors are in the same order")
def errors_are_in_order(results: Results) -> CheckResult:
    """The formats are in this order on the operands of the products at the checkpoint, on every seed."""
    noise = {name: _losses(results, FLOAT, f"noise_{label}") for name, label in FORMATS.items()}
    text = join_words([f"{name} {np.median(values):.1f}".replace("-", "−") for name, values in noise.items()])
    return CheckResult(
        bool((noise[MXFP8] < noise[NVFP4]).all() and (noise[NVFP4] < noise[MXFP4]).all()),
        f"The error of rounding an operand at the checkpoint, in dB of its power: {text}.",
    )


@claim.summary
def measured(results: Results) -> str:
    """The gaps to float32, in per cent of its loss and in bits."""
    gaps = {name: f"{_percent(results, name):.2f}".replace("-", "−") for name in RECIPES}
    each = "; ".join(f"{name} {gap} % ({paired_text(_gaps(results, name)[0])})" for name, gap in gaps.items())
    return f"training loss above float32, bits in brackets: {each}"


claim.draw(
    "training loss above float32, % of it",
    lambda results: {name: 100 * _gaps(results, name)[0] / _losses(results, FLOAT, "train_loss") for name in RECIPES},
    PUBLISHED,
    statistic=MEAN,
    differences=True,
)

claim.compared(
    theirs_on="language models of 8 and 12 billion parameters",
    ours_on="characters, a Transformer of 114 thousand",
    rows=({"MXFP8": "MXFP8", "NVFP4": "NVFP4", "MXFP4": "MXFP4", "NVFP4, forward in BF16": "NVFP4, forward in BF16"},),
)
claim.found(
    eight_bits_lose_nothing, holds="MXFP8 within 1 % of float32", fails="MXFP8 not surely within 1 % of float32"
)
claim.found(formats_are_in_order, holds="NVFP4 costs more, MXFP4 most", fails="NVFP4 and MXFP4 are not in this order")
claim.found(
    forward_is_most,
    holds="most of NVFP4's part is the forward pass",
    fails="most of NVFP4's part is not the forward pass",
)

MX_ORDER_2025 = claim.build()
