"""Claims of 2022 to 2025 about inference in few bits: their checks hold and can fail; cheap measurements."""

import dataclasses

import pytest
import torch

from lplab import claims
from lplab.claims.framework import few_bits_models
from lplab.claims.framework.branches import BranchPlan
from lplab.claims.papers import awq_2024, gptq_2023, kivi_2024, kumar_2025, paretoq_2025, quarot_2024
from lplab.claims.papers.awq_2024 import AWQ_2024
from lplab.claims.papers.gptq_2023 import GPTQ_2023
from lplab.claims.papers.kivi_2024 import KIVI_2024, OURS
from lplab.claims.papers.kumar_2025 import KUMAR_2025
from lplab.claims.papers.llm_int8_2022 import LLM_INT8_2022, NAIVE, SMOOTH, SPLIT
from lplab.claims.papers.paretoq_2025 import PARETOQ_2025
from lplab.claims.papers.quarot_2024 import QUAROT_2024, ROTATED
from lplab.quantizers import KIVI
from tests.claims.changed_numbers import but, holds

MODULES = (few_bits_models, awq_2024, gptq_2023, kivi_2024, kumar_2025, paretoq_2025)  # that take a trained model


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """A model after four steps takes the place of each trained one; 64 windows are tested with, 32 calibrated with."""
    plan, task = BranchPlan(before=2, steps=2), few_bits_models.branch_llama()
    inputs, targets = task.test()
    smaller = dataclasses.replace(task, test=lambda: (inputs[:64], targets[:64]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LPLAB_CHECKPOINTS", str(tmp_path_factory.mktemp("checkpoints")))
        model, trained = few_bits_models.trained(0, plan), few_bits_models.trained
        patch.setattr(few_bits_models, "branch_llama", lambda: smaller)
        patch.setattr(few_bits_models, "WINDOWS", 32)
        patch.setattr(paretoq_2025, "PLAN", plan)
        for module in MODULES:
            patch.setattr(module, "trained", lambda seed, plan=None: model)
        yield model
    trained.cache_clear()
    kivi_2024.operands.cache_clear()


# ---- what they share -------------------------------------------------------------------------------------------------


def test_planted_outliers_change_no_bit_of_the_output(short):
    planted = few_bits_models.with_outliers(short)
    ids = few_bits_models.calibration(1)[:2]
    with torch.no_grad():
        assert torch.equal(planted(ids), short(ids))
        x = torch.randn(9, 64, generator=torch.Generator().manual_seed(0))
        for block, before in zip(planted.blocks, short.blocks, strict=True):
            larger = (block.norm2(x).abs().amax(0) / before.norm2(x).abs().amax(0)).sort().values
            assert larger[:-1].tolist() == [1.0] * 63 and larger[-1] == few_bits_models.OUTLIER


def test_calibration_has_characters_of_the_training_part_alone():
    from lplab.claims.framework.models import branch_llama
    from lplab.datasets import character_ids

    ids, _ = character_ids()
    text = bytes(ids[: len(ids) * 9 // 10])
    assert all(bytes(row.byte().numpy()) in text for row in few_bits_models.calibration(3)[:8])
    assert len(branch_llama().test()[0]) >= 8, "one window of text has no spread"


def test_each_error_of_attention_belongs_to_its_half(short):
    (first, *_) = kivi_2024.operands(0)
    causal = torch.softmax((first.scores() / 32**0.5).masked_fill(torch.ones(64, 64).triu(1).bool(), -torch.inf), -1)
    torch.testing.assert_close(causal, first.probabilities)
    few, many = (kivi_2024._error(first.scores(), first.scores(KIVI(bits, 32, 0))) for bits in (2, 8))
    assert 0 < 20 * many < few


# ---- GPTQ ------------------------------------------------------------------------------------------------------------


def halved(point, seed):
    """GPTQ costs half of rounding to nearest."""
    nearest = {4: 0.015, 3: 0.07, 2: 0.5}[point["bits"]] * (1 + 0.01 * seed)
    return {"float": 2.5, "nearest": 2.5 + nearest, "gptq": 2.5 + nearest / 2, "same": 1.0}


@pytest.mark.parametrize(("change", "ring", "which"), [
    ({"name": "gptq", "value": 2.52, "bits": 4, "group": 32, "seed": 3}, 0, 0),
    ({"name": "gptq", "value": 2.56, "bits": 3}, 0, 1),
    ({"name": "gptq", "value": 2.51, "bits": 2}, 1, 0),
    ({"name": "same", "value": 0.99, "bits": 2, "seed": 7}, 1, 1),
])  # fmt: skip
def test_gptq_holds_and_can_fail(change, ring, which):
    assert holds(GPTQ_2023, halved) == ([True] * 2, [True] * 2)
    assert not holds(GPTQ_2023, but(halved, **change))[ring][which]


def test_gptq_is_measured(short):
    found = claims.measure(GPTQ_2023, {"bits": 2, "group": 32}, 0)
    assert found["same"] == 1 and found["float"] < found["gptq"] < found["nearest"]


# ---- the cache -------------------------------------------------------------------------------------------------------


def along(point, seed):
    """The published way costs least, as in the paper."""
    way = point["keys"], point["values"]
    rise = (0.3 if way == OURS else 0.9) / (50 if point["bits"] == 4 else 1) * (1 + 0.01 * seed)
    errors = {"score_error": 0.1 if way[0] == "channel" else 0.5, "sum_error": 0.1 if way[1] == "token" else 0.4}
    return {"float": 2.5, "loss": 2.5 + rise, **{name: value + 0.001 * seed for name, value in errors.items()}}


@pytest.mark.parametrize(("change", "ring", "which"), [
    ({"name": "loss", "value": 2.6, "bits": 2, "keys": "channel", "values": "channel", "seed": 4}, 0, 0),
    ({"name": "loss", "value": 2.6, "bits": 2, "keys": "token", "values": "token"}, 0, 0),
    ({"name": "loss", "value": 2.7, "bits": 2, "keys": "token", "values": "token"}, 1, 0),
    ({"name": "loss", "value": 2.7, "bits": 2, "keys": "channel", "values": "channel"}, 1, 1),
    ({"name": "score_error", "value": 0.05, "bits": 2, "keys": "token", "values": "token"}, 1, 2),
    ({"name": "sum_error", "value": 0.05, "bits": 2, "keys": "channel", "values": "channel"}, 1, 3),
    ({"name": "loss", "value": 2.9, "bits": 4, "keys": "token", "values": "token"}, 1, 4),
])  # fmt: skip
def test_the_axes_hold_and_can_fail(change, ring, which):
    assert holds(KIVI_2024, along) == ([True], [True] * 5)
    assert not holds(KIVI_2024, but(along, **change))[ring][which]


def test_a_cache_is_measured(short):
    two, four = (claims.measure(KIVI_2024, {"bits": b, "keys": "token", "values": "token"}, 0) for b in (2, 4))
    assert two["float"] == four["float"] and two["score_error"] > 3 * four["score_error"] > 0


# ---- outliers --------------------------------------------------------------------------------------------------------


def repaired(point, seed):
    """Outliers cost much, and each repair takes most of it."""
    rise = {NAIVE: 0.6, SPLIT: 0.01, SMOOTH: 0.05}[point["way"]] if point["outliers"] else 0.005
    return {"float": 2.5, "loss": 2.5 + rise * (1 + 0.01 * seed)}


@pytest.mark.parametrize(("change", "ring", "which"), [
    ({"name": "loss", "value": 2.51, "way": NAIVE, "outliers": True, "seed": 5}, 0, 0),
    ({"name": "loss", "value": 2.9, "way": SMOOTH, "outliers": True}, 0, 1),
    ({"name": "loss", "value": 2.9, "way": NAIVE, "outliers": False}, 1, 0),
    ({"name": "loss", "value": 2.59, "way": SPLIT, "outliers": True}, 1, 1),
])  # fmt: skip
def test_eight_bits_hold_and_can_fail(change, ring, which):
    assert holds(LLM_INT8_2022, repaired) == ([True] * 2, [True] * 2)
    assert not holds(LLM_INT8_2022, but(repaired, **change))[ring][which]


def rotated(point, seed):
    """Rotating costs less than smoothing, smoothing less than nothing."""
    rise = {quarot_2024.NAIVE: 2.0, quarot_2024.SMOOTH: 1.0, ROTATED: 0.2}[point["way"]]
    return {"float": 2.5, "loss": 2.5 + rise * (1 + 0.01 * seed)}


@pytest.mark.parametrize(("change", "ring", "which"), [
    ({"name": "loss", "value": 3.6, "way": ROTATED, "outliers": True, "seed": 5}, 0, 0),
    ({"name": "loss", "value": 5.0, "way": SMOOTH, "outliers": True}, 0, 1),
    ({"name": "loss", "value": 5.0, "way": ROTATED, "outliers": False}, 1, 0),
    ({"name": "loss", "value": 3.6, "way": ROTATED, "outliers": False, "seed": 6}, 1, 1),
    ({"name": "loss", "value": 3.51, "way": quarot_2024.SMOOTH, "outliers": False, "seed": 6}, 1, 2),
])  # fmt: skip
def test_four_bits_hold_and_can_fail(change, ring, which):
    assert holds(QUAROT_2024, rotated) == ([True] * 2, [True] * 3)
    assert not holds(QUAROT_2024, but(rotated, **change))[ring][which]


def test_ways_with_and_without_outliers_are_measured(short):
    planted, plain = (claims.measure(QUAROT_2024, {"way": quarot_2024.NAIVE, "outliers": o}, 0) for o in (True, False))
    assert planted["float"] == plain["float"] and planted["loss"] > plain["loss"]
    split = claims.measure(LLM_INT8_2022, {"way": SPLIT, "outliers": True}, 0)
    assert abs(split["loss"] - split["float"]) < 0.01


# ---- AWQ -------------------------------------------------------------------------------------------------------------


def salient(point, seed):
    """AWQ costs as little as GPTQ."""
    nearest = {4: 0.015, 3: 0.07}[point["bits"]] * (1 + 0.01 * seed)
    rises = {"nearest": nearest, "awq": nearest / 2, "gptq": nearest / 2}
    return {"float": 2.5, "largest": 16.0 if point["outliers"] else 2.0, **{w: 2.5 + r for w, r in rises.items()}}


@pytest.mark.parametrize(("change", "ring", "which"), [
    ({"name": "awq", "value": 2.53, "bits": 4, "outliers": False, "seed": 3}, 0, 0),
    ({"name": "awq", "value": 2.56, "bits": 3, "outliers": False}, 0, 1),
    ({"name": "largest", "value": 12.0, "bits": 3, "outliers": False, "seed": 6}, 1, 0),
    ({"name": "awq", "value": 2.58, "bits": 3, "outliers": True}, 1, 1),
    ({"name": "awq", "value": 2.56, "bits": 3, "outliers": True}, 1, 2),
])  # fmt: skip
def test_awq_holds_and_can_fail(change, ring, which):
    assert holds(AWQ_2024, salient) == ([True] * 2, [True] * 3)
    assert not holds(AWQ_2024, but(salient, **change))[ring][which]


def test_awq_is_measured(short):
    found = claims.measure(AWQ_2024, {"bits": 3, "outliers": True}, 0)
    assert found["largest"] > 8 and len({*found.values()}) == 5


# ---- longer trainings ------------------------------------------------------------------------------------------------


def longer(point, seed):
    """Costs grow with the training; the model of few bits gets worse in the end."""
    steps, noise = point["steps"] / 125, 1 + 0.01 * seed
    costs = {4: 0.001, 3: 0.004, 2: 0.04}
    rises = {f"{way}_{b}": costs[b] * steps * noise / (1 + (way == "gptq")) for b in costs for way in kumar_2025.WAYS}
    return {"float": 3.0 - 0.02 * steps, **{name: 3.0 - 0.02 * steps + rise for name, rise in rises.items()}}


@pytest.mark.parametrize(("change", "ring", "which"), [
    ({"name": "nearest_3", "value": 2.5, "steps": 500, "seed": 3}, 0, 0),
    ({"name": "gptq_2", "value": 2.0, "steps": 1000}, 0, 1),
    ({"name": "nearest_3", "value": 4.0, "steps": 1000}, 0, 2),
    ({"name": "nearest_2", "value": 2.9, "steps": 1000}, 1, 0),
])  # fmt: skip
def test_longer_trainings_hold_and_can_fail(change, ring, which):
    assert holds(KUMAR_2025, longer) == ([True] * 3, [True])
    assert not holds(KUMAR_2025, but(longer, **change))[ring][which]


def test_a_length_is_measured(short):
    found = claims.measure(KUMAR_2025, {"steps": 125}, 0)
    assert set(found) == {"float", *(f"{way}_{bits}" for way in ("nearest", "gptq") for bits in (4, 3, 2))}
    assert found["nearest_2"] > found["nearest_4"]


# ---- training again --------------------------------------------------------------------------------------------------


def again(point, seed):
    """At 2 bits training recovers four fifths, at 4 there is nothing to recover."""
    gptq, trained = {4: (0.005, 0.006), 2: (0.2, 0.04)}[point["bits"]]
    rises = {"gptq": gptq, "trained": trained, "no_zero": 0.05, "zero": 0.06}
    return {"float": 2.5, **{way: 2.5 + rise * (1 + 0.01 * seed) for way, rise in rises.items()}}


@pytest.mark.parametrize(("change", "ring", "which"), [
    ({"name": "trained", "value": 2.65, "bits": 2, "seed": 3}, 0, 0),
    ({"name": "gptq", "value": 2.6, "bits": 4}, 0, 1),
    ({"name": "trained", "value": 2.6, "bits": 4}, 1, 0),
    ({"name": "no_zero", "value": 2.6, "bits": 2}, 1, 1),
])  # fmt: skip
def test_training_again_holds_and_can_fail(change, ring, which):
    assert holds(PARETOQ_2025, again) == ([True] * 2, [True] * 2)
    assert not holds(PARETOQ_2025, but(again, **change))[ring][which]


def test_training_with_rounded_weights_is_measured(short):
    found = claims.measure(PARETOQ_2025, {"bits": 2}, 0)
    assert len({*found.values()}) == 5 and all(3 < value < 7 for value in found.values())
