"""The larger experiments on low precision: their checks hold and fail as they should; a cheap measurement of each."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lplab import claims, datasets
from lplab.claims.framework import larger_models
from lplab.claims.framework.branches import BranchPlan
from lplab.claims.framework.seed_comparisons import power_of_two
from lplab.claims.papers import (
    sun_2020_ablation,
    sun_2020_ablation_large,
    sun_2020_gradscale,
    sun_2020_gradscale_large,
    sun_2020_two_phase_large,
    wang_2018_training_large,
)
from lplab.claims.papers.sun_2020_ablation import (
    ALL,
    EIGHT,
    FLOAT,
    FORWARD,
    ORDER,
    PICTURES,
    SINGLE,
    SOME,
    TEXT,
    TWO,
)
from lplab.claims.papers.sun_2020_ablation_large import SUN_2020_ABLATION_LARGE as ABLATION
from lplab.claims.papers.sun_2020_gradscale_large import SCALES, output_gradients
from lplab.claims.papers.sun_2020_gradscale_large import SUN_2020_GRADSCALE_LARGE as GRADSCALE
from lplab.claims.papers.sun_2020_radix4 import ONE_SCALE, PER_LAYER
from lplab.claims.papers.sun_2020_two_phase_large import SUN_2020_TWO_PHASE_LARGE as TWO_PHASE
from lplab.claims.papers.wang_2018_training_large import CHUNKED, EXACT, NONE, SHORT_CHUNKED, SHORT_NONE
from lplab.claims.papers.wang_2018_training_large import WANG_2018_TRAINING_LARGE as CHUNKS
from lplab.training import tasks
from tests.claims.changed_numbers import but, holds


@pytest.fixture
def pictures(monkeypatch, tmp_path):
    """Forty pictures of noise instead of Fashion-MNIST, and checkpoints in a folder of their own."""
    rng = np.random.default_rng(0)
    images, labels = rng.random((40, 1, 28, 28), np.float32), rng.integers(0, 10, 40)
    split = datasets.Split(images[:32], labels[:32], images[32:], labels[32:])
    monkeypatch.setattr(datasets, "fashion_mnist", lambda: split)
    monkeypatch.setenv("LPLAB_CHECKPOINTS", str(tmp_path))
    larger_models.fashion_pictures.cache_clear()
    yield split
    larger_models.fashion_pictures.cache_clear()


@pytest.fixture
def small_nets(pictures, monkeypatch):
    """The residual nets of the larger experiments in eight layers, eight pictures a batch."""
    task = replace(larger_models.fashion_resnet8(4), batch=8)
    monkeypatch.setattr(sun_2020_two_phase_large, "task", lambda: task)
    monkeypatch.setitem(sun_2020_gradscale_large.NETWORKS, sun_2020_gradscale_large.PICTURES, lambda: task)
    monkeypatch.setattr(wang_2018_training_large, "task", lambda: task)
    return task


# ---- numbers of both experiments that their parity tells -------------------------------------------------------------


def test_what_parity_says_of_the_networks_is_so():
    small, two, ablation = tasks.get("resnet"), sun_2020_two_phase_large.task(), sun_2020_ablation_large
    assert (small.batch, small.lr) == (sun_2020_two_phase_large.SMALL_BATCH, sun_2020_two_phase_large.SMALL_RATE)
    assert small.test()[0].shape[-1] == sun_2020_two_phase_large.SMALL_SIDE
    assert (two.batch, two.lr) == (sun_2020_two_phase_large.BATCH, sun_2020_two_phase_large.RATE)
    assert dict(two.options)["momentum"] == dict(small.options)["momentum"] == sun_2020_two_phase_large.MOMENTUM
    nets = sun_2020_ablation.bottleneck_net(), ablation.bottleneck_net()
    for net, depth, batch in zip(
        nets, (ablation.SMALL_DEPTH, ablation.DEPTH), (ablation.SMALL_BATCH, ablation.BATCH), strict=True
    ):
        assert net.batch == batch and 3 * len(net.model(0).blocks) + 2 == depth
    texts = sun_2020_ablation.branch_transformer(), larger_models.novel_transformer()
    assert [len(text.model(0).blocks) for text in texts] == [ablation.SMALL_BLOCKS, ablation.BLOCKS]
    small_scales = claims.get("sun_2020_gradscale")
    octaves = [n["octaves"] for p, _, n in claims.stored(small_scales).results(small_scales).rows if n.get("octaves")]
    assert (min(octaves), max(octaves)) == sun_2020_gradscale_large.SMALL_OCTAVES
    results = claims.stored(GRADSCALE).results(GRADSCALE)
    for network, ends in sun_2020_gradscale_large.OCTAVES.items():
        octaves = results.values("octaves", network=network, gradients=PER_LAYER)
        assert (octaves.min(), octaves.max()) == ends


# ---- trainings whose sums are rounded --------------------------------------------------------------------------------


def sums(point, seed):
    """Chunks of 64 lose a tenth of a point, no chunks four points."""
    name = point["sums"]
    lost = {EXACT: 0.05, CHUNKED: 0.1, NONE: 4.0 + 0.1 * seed, SHORT_NONE: 9.0, SHORT_CHUNKED: 2.0}.get(name, 0.0)
    error = 14.0 + 0.2 * seed + lost
    off = {CHUNKED: 0.02, NONE: 0.6, SHORT_CHUNKED: 0.2, SHORT_NONE: 0.9}.get(name)
    losses = {"loss": 0.5 + lost / 20, "train_loss": 0.5 + lost / 20, "error": error, "diverged": 0.0}
    if off is None:
        return losses
    return losses | {"first_moved": off, "moved": off, "first_slope": 1 + off, "slope": 1 + off}


@pytest.mark.parametrize(("change", "ring", "which"), [
    ({"name": "error", "value": 18.0, "sums": CHUNKED}, 0, 0),
    ({"name": "loss", "value": 0.5, "sums": NONE, "seed": 1}, 0, 1),
    ({"name": "train_loss", "value": 0.5, "sums": NONE, "seed": 1}, 0, 1),
    ({"name": "error", "value": 15.0, "sums": NONE}, 0, 2),
    ({"name": "error", "value": 17.0, "sums": EXACT}, 1, 0),
    ({"name": "loss", "value": 0.4, "sums": SHORT_NONE, "seed": 3}, 1, 1),
    ({"name": "error", "value": 23.0, "sums": SHORT_CHUNKED, "seed": 3}, 1, 1),
    ({"name": "first_moved", "value": 0.2, "sums": CHUNKED}, 1, 2),
    ({"name": "slope", "value": 1.01, "sums": NONE}, 1, 3),
], ids=[
    "chunks lose", "test no worse", "training no worse", "a point", "FP8 loses", "short, loss", "short, error",
    "alike", "no bias",
])  # fmt: skip
def test_trainings_with_rounded_sums_hold_and_can_fail(change, ring, which):
    assert holds(CHUNKS, sums) == ([True] * 3, [True] * 4)
    assert not holds(CHUNKS, but(sums, **change))[ring][which]


def test_a_training_whose_sums_have_no_chunks_in_short(small_nets, monkeypatch):
    monkeypatch.setattr(wang_2018_training_large, "STEPS", 2)
    monkeypatch.setattr(wang_2018_training_large, "BATCH", 8)
    plain, none = (claims.measure(CHUNKS, {"sums": name}, 0) for name in ("float32", NONE))
    assert none["steps"] == plain["steps"] == 2 and none["loss"] != plain["loss"]
    assert {*none} - {*plain} == {"first_moved", "moved", "first_slope", "slope"} and 0 < none["first_moved"] < 1


# ---- two phases ------------------------------------------------------------------------------------------------------


def phases(point, seed):
    name = point["recipe"]
    loss = {SINGLE: 0.9, TWO: 0.5}.get(name, 0.4) + 0.01 * seed
    drift = name == SINGLE
    return {
        "loss": loss, "train_loss": loss, "error": 10 * loss, "retuned": 0.52 if drift else loss,
        "mean": 40.0 if drift else 4.0, "mean_half": 10.0 if drift else 4.0, "mean_quarter": 6.0 if drift else 4.0,
        "shrink_dx": 0.0 if name == FLOAT else 0.13, "shrink_dw": 0.14 if name == TWO else 0.0,
    }  # fmt: skip


@pytest.mark.parametrize(("change", "ring", "which"), [
    ({"name": "mean", "value": 4.0, "recipe": SINGLE, "seed": 3}, 0, 0),
    ({"name": "mean", "value": 9.0, "recipe": TWO, "seed": 4}, 0, 1),
    ({"name": "loss", "value": 0.5, "recipe": SINGLE, "seed": 1}, 0, 2),
    ({"name": "retuned", "value": 0.9, "recipe": SINGLE}, 0, 3),
    ({"name": "mean_quarter", "value": 41.0, "recipe": SINGLE, "seed": 2}, 1, 1),
    ({"name": "mean_quarter", "value": 0.4, "recipe": TWO, "seed": 2}, 1, 1),
    ({"name": "train_loss", "value": 0.5, "recipe": SINGLE, "seed": 2}, 1, 2),
    ({"name": "shrink_dw", "value": 0.0, "recipe": TWO}, 1, 3),
], ids=["no drift", "two drift", "no worse", "not recovered", "drift over", "both", "train", "shrink"])  # fmt: skip
def test_two_phases_hold_and_can_fail(change, ring, which):
    assert holds(TWO_PHASE, phases) == ([True] * 4, [False, True, True, True, False])
    assert not holds(TWO_PHASE, but(phases, **change))[ring][which]


def test_where_four_bits_cost_more_than_one_phase_it_is_said():
    assert holds(TWO_PHASE, but(phases, "loss", 0.55, recipe=SINGLE))[1][4]


def test_where_one_phase_stays_near_float32_as_well_it_is_said():
    assert holds(TWO_PHASE, but(phases, "mean", 4.0, recipe=SINGLE))[1][0]
    assert "they stay near float32's with either" in claims.judge(TWO_PHASE).badge


def test_one_training_in_two_phases_in_short(small_nets, monkeypatch):
    monkeypatch.setattr(sun_2020_two_phase_large, "STEPS", 4)
    monkeypatch.setattr(sun_2020_two_phase_large, "TUNING", 2)
    result = claims.measure(TWO_PHASE, {"recipe": TWO}, 0)
    assert result["steps"] == 4 and result["shrink_dx"] > 0 and result["shrink_dw"] > 0
    assert len({result["mean_quarter"], result["mean_half"], result["mean"]}) == 3


# ---- steps away from four bits ---------------------------------------------------------------------------------------

LOST = {FORWARD: 0.04, ALL: 0.05, SOME: 0.06, EIGHT: 0.055, TWO: 0.07, SINGLE: 0.09}


def steps(point, seed):
    """The paper's order, with a little chance."""
    loss = 0.5 + 0.1 * seed + LOST.get(point["recipe"], 0.0) * (1 + 0.01 * seed)
    return {"loss": loss, "train_loss": loss, "error": 14.0}


NET = {"network": PICTURES, "seed": 1}


@pytest.mark.parametrize(("change", "ring", "which"), [
    ({"name": "loss", "value": 0.9, "network": TEXT, "recipe": FORWARD, "seed": 1}, 0, 0),
    ({"name": "loss", "value": 0.61, "recipe": EIGHT, **NET}, 0, 1),
    ({"name": "train_loss", "value": 0.68, "recipe": SOME, **NET}, 0, 2),
    ({"name": "loss", "value": 0.69, "recipe": ALL, **NET}, 0, 3),
    ({"name": "train_loss", "value": 0.61, "network": TEXT, "recipe": TWO, "seed": 1}, 1, 0),
    ({"name": "train_loss", "value": 0.65, "network": TEXT, "recipe": SINGLE, "seed": 1}, 1, 1),
    ({"name": "train_loss", "value": 0.3, "network": TEXT, "recipe": TWO}, 1, 2),
    ({"name": "train_loss", "value": 0.7, "recipe": ALL, **NET}, 1, 3),
], ids=["Transformer", "less than forward", "nothing back", "order", "cost", "phase", "forward", "sign"])  # fmt: skip
def test_steps_away_from_four_bits_hold_and_can_fail(change, ring, which):
    assert holds(ABLATION, steps) == ([True] * 4, [True] * 4)
    assert not holds(ABLATION, but(steps, **change))[ring][which]


def test_one_branch_of_the_bottleneck_net_in_short(pictures, monkeypatch):
    monkeypatch.setattr(sun_2020_ablation_large, "DEPTH", 11)
    monkeypatch.setattr(sun_2020_ablation_large, "WIDTH", 8)
    task = replace(sun_2020_ablation_large.bottleneck_net(), batch=8, lr=0.001)
    monkeypatch.setattr(sun_2020_ablation_large, "bottleneck_net", lambda: task)
    monkeypatch.setitem(sun_2020_ablation_large.PLANS, PICTURES, BranchPlan(before=2, steps=2))
    losses = [claims.measure(ABLATION, {"network": PICTURES, "recipe": r}, 0)["train_loss"] for r in (FLOAT, ALL, TWO)]
    assert len({*losses}) == 3
    assert all(name in {p["recipe"] for p in ABLATION.points} for order in ORDER.values() for name in order)


# ---- a scale for each layer ------------------------------------------------------------------------------------------


def scales(point, seed):
    """A scale for each layer loses a third of what the best single one does; layers lie 6 octaves apart and bear 9."""
    if point["gradients"] == FLOAT:
        return {"loss": 2.0, "train_loss": 2.0, "error": 10.0, "spread": 6.0, "bears": 9.0}
    own = point["gradients"] == PER_LAYER
    lost = (0.01 if own else 0.03 + 0.02 * abs(point["scale"] - 13)) * (1 + 0.01 * seed)
    numbers = {"octaves": 6.0 if own else 0.0, "zeros": 0.1 if own else 0.4, "saturated": 0.0}
    return {"loss": 2.0 + lost, "train_loss": 2.0 + lost, "error": 10.0, **numbers}


NETWORK = {"network": sun_2020_gradscale_large.PICTURES}


@pytest.mark.parametrize(("change", "ring", "which"), [
    ({"name": "octaves", "value": 4.0, "gradients": PER_LAYER, "seed": 2, **NETWORK}, 0, 0),
    ({"name": "loss", "value": 2.0, "gradients": ONE_SCALE, "seed": 0, **NETWORK}, 0, 1),
    ({"name": "train_loss", "value": 2.025, "gradients": PER_LAYER, **NETWORK}, 0, 2),
    ({"name": "train_loss", "value": 1.9, "gradients": ONE_SCALE, **NETWORK}, 0, 2),
    ({"name": "bears", "value": 5.0, "gradients": FLOAT, "seed": 4, **NETWORK}, 1, 0),
    ({"name": "train_loss", "value": 2.03, "gradients": ONE_SCALE, **NETWORK}, 1, 1),
    ({"name": "train_loss", "value": 2.0, "gradients": ONE_SCALE, "scale": 19, "seed": 0}, 1, 2),
    ({"name": "zeros", "value": 0.5, "gradients": PER_LAYER, **NETWORK}, 1, 3),
], ids=["close", "no worse", "little back", "nothing lost", "bear", "any place", "larger", "none hurt"])  # fmt: skip
def test_gradscale_holds_and_can_fail(change, ring, which):
    assert holds(GRADSCALE, scales) == ([True] * 3, [True] * 4)
    assert not holds(GRADSCALE, but(scales, **change))[ring][which]


def test_a_scale_for_each_layer_in_short(small_nets, monkeypatch):
    monkeypatch.setitem(sun_2020_gradscale_large.PLANS, sun_2020_gradscale_large.PICTURES, BranchPlan(2, 2))
    plain, own, one = (
        claims.measure(GRADSCALE, {**NETWORK, **way}, 0)
        for way in ({"gradients": FLOAT}, {"gradients": PER_LAYER}, {"gradients": ONE_SCALE, "scale": SCALES[0] - 8})
    )
    gradients = output_gradients(small_nets, 0, 2)
    assert [*gradients] == [f"blocks.{b}.conv{c}" for b in (2, 1, 0) for c in (2, 1)]
    largest = [np.log2(np.abs(dy).max()) for dy in gradients.values()]
    assert plain["spread"] == pytest.approx(max(largest) - min(largest), abs=1e-3) and 0 < plain["bears"] <= 12
    assert one["octaves"] == 0 < own["octaves"] and one["zeros"] > own["zeros"]


def test_lab_05_says_how_long_the_sums_are_for_their_registers_and_what_that_costs():
    cells = json.loads(next((Path(__file__).parents[3] / "labs").glob("05_*.ipynb")).read_text("utf-8"))["cells"]
    (text,) = ("".join(cell["source"]) for cell in cells if cell.get("id") == "chunks-of-a-training")
    ours, theirs = wang_2018_training_large.LONGEST, 256 * 56 * 56
    counts = wang_2018_training_large.REGISTER, wang_2018_training_large.SHORT_REGISTER
    for words in (
        f"It counts to {counts[0]:,}, and the longest sum of this net has {ours:,} terms, {ours // counts[0]} times",
        f"{theirs:,} terms, {theirs / counts[0]:.0f} times as many",
        f"counts to {counts[1]}, and our {ours:,} terms are {ours / counts[1]:.0f} times as many",
    ):
        assert words in text
    assert ours / counts[1] == theirs / counts[0]
    row = next(each for each in CHUNKS.parity if "dW" in each.name)
    assert row.large[1] == row.paper[1] == ours / counts[1]
    results = claims.stored(CHUNKS).results(CHUNKS)
    lost = results.values("error", sums=SHORT_NONE) - results.values("error", sums=SHORT_CHUNKED)
    assert f"the net without chunks ends {lost.mean():.1f} points worse than with chunks" in text


@pytest.mark.parametrize("module", [sun_2020_gradscale, sun_2020_gradscale_large])
def test_the_single_scale_in_front_of_a_card_of_gradscale_is_the_best(module):
    claim = claims.get(module.__name__.rpartition(".")[2])
    results = claims.stored(claim).results(claim)
    for network, drawing in zip(module.NETWORKS, claim.drawings, strict=False):
        assert f"one scale, {power_of_two(module._best(results, network))}" in drawing.front
