"""What the networks of the larger experiments reach in float32, beside what such networks reach elsewhere."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from lplab.datasets import data_folder

PICTURES, BITS = "percent right", "bits a character"
FASHION_README = "Fashion-MNIST's own list of results, sent in by users (read)"
NANOGPT = "nanoGPT's README (read)"


@dataclass(frozen=True)
class Elsewhere:
    """A result of others.

    Attributes:
        network: in the words of the source.
        value: what it reaches, in the unit of the baseline that it stands beside.
        source: where it is published, and how we know it.
    """

    network: str
    value: float
    source: str


@dataclass(frozen=True)
class BaselinePlan:
    """A training in float32 that is recorded with each of some seeds.

    Attributes:
        task: of :mod:`lplab.claims.framework.larger_models`, by its name there.
        network: in a few words.
        steps: all of them; the learning rate falls to zero along a cosine.
        unit: :data:`PICTURES`, or :data:`BITS` of text.
        elsewhere: results of comparable networks.
    """

    task: str
    network: str
    steps: int
    unit: str
    elsewhere: tuple[Elsewhere, ...]


_SMALL_NETS = (
    Elsewhere("two convolutions, below 100 thousand parameters", 92.5, FASHION_README),
    Elsewhere("three convolutions with batch norm and pooling", 92.1, FASHION_README),
)
PLANS = (
    BaselinePlan("fashion_resnet8", "residual net of 8 layers, 78 thousand parameters", 4700, PICTURES, _SMALL_NETS),
    BaselinePlan(
        "fashion_resnet20",
        "residual net of 20 layers, 273 thousand parameters",
        2400,
        PICTURES,
        (
            Elsewhere("five convolutions with batch norm and pooling", 93.1, FASHION_README),
            Elsewhere("GoogLeNet", 93.7, FASHION_README),
            Elsewhere("ResNet-18, with turned, shifted and mirrored pictures", 94.9, FASHION_README),
        ),
    ),
    BaselinePlan(
        "fashion_depthwise",
        "MobileNetV2 of six blocks, 54 thousand parameters",
        1900,
        PICTURES,
        (*_SMALL_NETS, Elsewhere("MobileNet, with mirrored pictures", 95.0, FASHION_README)),
    ),
    BaselinePlan(
        "novel_transformer",
        "Transformer of four blocks, width 64, 214 thousand parameters",
        1500,
        BITS,
        (
            Elsewhere(
                "Transformer of four blocks, width 128, Shakespeare, 2,000 steps of 12 × 64", 1.88 / np.log(2), NANOGPT
            ),
        ),
    ),
    BaselinePlan(
        "novel_lstm",
        "LSTM of two layers, width 128, 283 thousand parameters",
        2000,
        BITS,
        (
            Elsewhere(
                "Transformer of four blocks, width 128, Shakespeare, 2,000 steps of 12 × 64", 1.88 / np.log(2), NANOGPT
            ),
        ),
    ),
)
"""What is recorded; ``data/record_baselines.py`` trains it."""
SEEDS = (0, 1, 2)
BATCHES = {PICTURES: 64, BITS: 16}
"""Examples in a step of the tasks: pictures, or windows of text."""


@dataclass(frozen=True, eq=False)
class Baseline:
    """The recorded trainings of one plan.

    Attributes:
        plan: what was trained.
        values: of each seed that is recorded, in the plan's unit, float64 [seeds].
        minutes: of a core, of the longest training.
    """

    plan: BaselinePlan
    values: np.ndarray
    minutes: float


def float32_baselines() -> dict[str, Baseline]:
    """The baselines by the name of their task; those that are not recorded are not there.

    >>> "novel_lstm" in float32_baselines()
    True
    """
    stored = read()
    found = {}
    for plan in PLANS:
        runs = [stored[f"{plan.task}, seed {seed}"] for seed in SEEDS if f"{plan.task}, seed {seed}" in stored]
        if runs:
            values = [100 - run["error"] if plan.unit == PICTURES else run["loss"] for run in runs]
            longest = max(run["core_seconds"] for run in runs)
            found[plan.task] = Baseline(plan, np.array(values), longest / 60)
    return found


def read() -> dict[str, Any]:
    """The file: of each run the numbers and steps; ``provenance`` has date, command and versions."""
    return dict(json.loads((data_folder() / "baselines" / "float32.json").read_text("utf-8")))


def baselines_table() -> str:
    """Ours beside those of others as Markdown, for ``docs/baselines.md``.

    >>> baselines_table().splitlines()[0]
    '| network here | steps | minutes of a core | ours | elsewhere |'
    """
    lines = ["| network here | steps | minutes of a core | ours | elsewhere |", "|---|---|---|---|---|"]
    for each in float32_baselines().values():
        plan, values = each.plan, each.values
        digits, unit = (1, "%") if plan.unit == PICTURES else (2, "bits")
        mean, low, high = (f"{value:.{digits}f}" for value in (np.mean(values), min(values), max(values)))
        ours = f"{mean} {unit} ({low} to {high}), {len(values)} seeds" if len(values) > 1 else f"{mean} {unit}, 1 seed"
        others = "; ".join(f"{one.network}: {one.value:.{digits}f} {unit}, {one.source}" for one in plan.elsewhere)
        cells = (plan.network, f"{plan.steps:,}", f"{each.minutes:.1f}", ours, others)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def gaps_to_others() -> str:
    """How far float32 here is from each result beside it, a line a network, for ``docs/baselines.md``.

    >>> gaps_to_others().splitlines()[0].partition(":")[0]
    '- residual net of 8 layers'
    """
    lines = []
    for each in float32_baselines().values():
        mean = float(np.mean(each.values))
        gaps = [one.value - mean for one in each.plan.elsewhere]
        digits, unit = (1, "points") if each.plan.unit == PICTURES else (2, "bits")
        low, high = (f"{gap:+.{digits}f}".replace("-", "−") for gap in (min(gaps), max(gaps)))
        between = low if low == high else f"{low} to {high}"
        lines.append(f"- {each.plan.network.partition(',')[0]}: others minus ours {between} {unit}")
    return "\n".join(lines)
