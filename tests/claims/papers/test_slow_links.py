"""Claims about training across slow links: their trainings by another path, and checks that hold and can fail."""

import dataclasses
import json
import math
import re

import numpy as np
import pytest
import torch

from lplab import datasets
from lplab.claims.framework import local_trainings
from lplab.claims.framework.branches import checkpoint
from lplab.claims.framework.local_trainings import ARMS, BATCH, LEARNERS, text_parts, trained
from lplab.claims.papers import zeropp_2023
from lplab.claims.papers.diloco_2023 import DILOCO_2023
from lplab.claims.papers.diloco_2023_meetings import DILOCO_2023_MEETINGS
from lplab.claims.papers.sparseloco_2025 import SPARSELOCO_2025
from lplab.claims.papers.streaming_diloco_2025 import STREAMING_DILOCO_2025
from lplab.claims.papers.zeropp_2023 import ZEROPP_2023
from tests.claims.changed_numbers import but, holds

STEPS, EVERY = 4, 2  # in the place of 240 steps and a meeting every 12


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """Trainings of four steps from a checkpoint of two; 8 windows are tested with."""
    task = local_trainings.branch_transformer()
    inputs, targets = task.test()
    smaller = dataclasses.replace(task, test=lambda: (inputs[:8], targets[:8]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LPLAB_CHECKPOINTS", str(tmp_path_factory.mktemp("checkpoints")))
        for name, value in {"BEFORE": 2, "STEPS": STEPS, "LOOKS": EVERY, "branch_transformer": lambda: smaller}.items():
            patch.setattr(local_trainings, name, value)
        patch.setattr(zeropp_2023, "BEFORE", 2)
        arms = {name: dataclasses.replace(arm, every=EVERY) for name, arm in ARMS.items()}
        patch.setattr(local_trainings, "ARMS", arms)
        yield smaller


# ---- trainings -------------------------------------------------------------------------------------------------------


def loop(task, seed, batch):
    """The loss (bits) after a plain training with AdamW, written anew."""
    model = task.model(seed)
    model.load_state_dict(checkpoint(task, seed, 2)["model"])
    data, optimizer = task.data(BATCH * LEARNERS, seed), torch.optim.AdamW(model.parameters(), lr=0)
    for step in range(STEPS):
        share = 0.1 + 0.9 * (1 + math.cos(math.pi * step / STEPS)) / 2
        optimizer.param_groups[0]["lr"] = 2e-3 * share
        inputs, targets = data(2 + step)
        optimizer.zero_grad()
        task.loss(model(inputs[:batch]), targets[:batch]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    inputs, targets = task.test()
    with torch.no_grad():
        return float(task.loss(model(inputs), targets)) / math.log(2)


@pytest.mark.parametrize(("arm", "batch"), [("alone", BATCH), ("synchronous", BATCH * LEARNERS)])
def test_baselines_are_plain_trainings(short, arm, batch):
    found = trained(arm, 0)
    assert found["loss"] == found[f"loss_{STEPS}"] == pytest.approx(loop(short, 0, batch), abs=2e-5)
    assert found["loss"] < found["loss_0"]


def bytes_of_a_meeting(model, arm):
    """What one learner sends, by the rules of the papers."""
    shapes = [tuple(parameter.shape) for parameter in model.parameters()]
    if arm == "e3m0":
        return sum(4 + math.ceil(math.prod(shape) / 2) for shape in shapes)
    if not arm.startswith("sparse"):
        return sum(4 * math.prod(shape) for shape in shapes)
    total = 0
    for shape in shapes:  # chunks of 64 × 64, or 64, or the largest smaller divisor
        chunk = math.prod(max(d for d in range(1, 65) if side % d == 0) for side in shape)
        sent = math.prod(shape) // chunk * min(64, chunk)
        total += 16 + math.ceil(sent * math.ceil(math.log2(chunk)) / 8) + math.ceil(sent * 2 / 8)
    return total


@pytest.mark.parametrize("arm", ["mean", "nesterov", "e3m0", "sparse", "sparse, nesterov"])
def test_bytes_are_those_of_the_meetings(short, arm):
    found = trained(arm, 0)
    assert found["bytes"] == STEPS // EVERY * bytes_of_a_meeting(short.model(0), arm)
    assert found["loss_0"] == trained("alone", 0)["loss_0"], "all begin from one checkpoint"


def test_one_gradient_a_step_and_none(short):
    count = sum(parameter.numel() for parameter in short.model(0).parameters())
    assert trained("synchronous", 0)["bytes"] == 4 * count * STEPS and trained("alone", 0)["bytes"] == 0


def test_arms_differ_where_they_should(short):
    losses = [trained(arm, 0)["loss"] for arm in ("alone", "mean", "nesterov", "sparse", "sparse, mean over all")]
    assert len(set(losses)) == len(losses)


def test_parts_of_the_text_share_it_and_go_from_narration_to_dialogue():
    """The share of each between quotation marks, counted along the whole text; a paragraph ends a speech."""
    text = datasets.characters()[: 463277 * 9 // 10]
    inside = np.zeros(len(text), bool)
    for speech in re.finditer(r'"[^"\n]*', re.sub('"([^"\n]*)"', r'"\1_', text)):
        inside[slice(*speech.span())] = True
    parts = text_parts()
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(text) - 64))
    shares = [inside[part].mean() for part in parts]
    assert shares == sorted(shares) and shares[1] < 0.05 and shares[3] > 0.9


def test_learners_draw_from_their_own_parts_and_alone_from_the_same_windows(short, monkeypatch):
    """With one place a part the windows are known."""
    starts = (10, 2000, 300_000, 7)
    monkeypatch.setattr(local_trainings, "text_parts", lambda: tuple(np.array([start]) for start in starts))
    ids = datasets.character_ids()[0]
    four = local_trainings.learners_of(local_trainings.ARMS["nesterov, own parts"], 0, 2, STEPS)
    for part, start in enumerate(starts):
        inputs, targets = four.batches(3, part)
        assert inputs.tolist() == [ids[start : start + 64].tolist()] * BATCH
        assert targets.tolist() == [ids[start + 1 : start + 65].tolist()] * BATCH
    monkeypatch.undo()


def test_a_learner_alone_with_a_part_sees_what_it_sees_among_others(short):
    four, one = (
        local_trainings.learners_of(ARMS[arm], 0, 2, STEPS) for arm in ("nesterov, own parts", "alone, part 2")
    )
    assert torch.equal(four.batches(1, 2)[0], one.batches(1, 0)[0])
    assert not torch.equal(four.batches(1, 1)[0], four.batches(1, 2)[0])
    found = trained("nesterov, own parts", 0)
    assert found["unlike"] == pytest.approx(0.083, abs=0.001) and "unlike" not in trained("nesterov", 0)
    assert found["loss_0"] == trained("nesterov", 0)["loss_0"] and found["loss"] != trained("nesterov", 0)["loss"]


def test_an_arm_is_trained_once_and_measured_by_each_claim(short, monkeypatch):
    before = trained("nesterov", 0)
    monkeypatch.setattr(local_trainings, "train", lambda arm, seed: pytest.fail("trained again"))
    for claim in (DILOCO_2023, STREAMING_DILOCO_2025, SPARSELOCO_2025):
        assert claim.measure({"arm": "nesterov"}, 0) == before
    monkeypatch.setattr(local_trainings, "RATE", 1e-3)
    monkeypatch.setattr(local_trainings, "train", lambda arm, seed: {"loss": 1.0})
    assert trained("nesterov", 0) == {"loss": 1.0}, "another learning rate is another training"
    assert json.dumps(before)


# ---- verdicts --------------------------------------------------------------------------------------------------------

LOSSES = {
    "alone": 2.45,
    "synchronous": 2.32,
    "mean": 2.38,
    "nesterov": 2.335,
    "nesterov, 2 learners": 2.38,
    "nesterov, 8 learners": 2.31,
    "nesterov, every 60": 2.355,
    "mean, every 60": 2.39,
    "e3m0": 2.34,
    "sparse": 2.33,
    "sparse, no memory": 2.44,
    "sparse, mean over all": 2.43,
    "sparse, nesterov": 2.35,
    "scalecom": 2.37,
    "adacomp": 2.38,
    "nesterov, own parts": 2.345,
    "nesterov, every 60, own parts": 2.38,
    **{f"alone, part {part}": 2.48 + 0.02 * part for part in range(4)},
}


def as_published(point, seed):
    """Everything as the papers say; seeds differ in their level alone."""
    return {"loss_0": 2.6, "loss": LOSSES[point["arm"]] + 0.01 * seed, "bytes": 1e6, "unlike": 0.08}


def spoilt(point, seed):
    """As published, and what was found beside it: with momentum on top the loss rises."""
    return as_published(point, seed) | ({"loss": 3.3 + 0.01 * seed} if point["arm"] == "sparse, nesterov" else {})


@pytest.mark.parametrize(("change", "which"), [
    ({"arm": "nesterov", "value": 2.5, "seed": 3}, 0),
    ({"arm": "mean", "value": 2.6}, 1),
    ({"arm": "alone", "value": 2.3}, 1),
    ({"arm": "synchronous", "value": 2.3}, 2),
])  # fmt: skip
def test_diloco_holds_and_can_fail(change, which):
    assert holds(DILOCO_2023, as_published) == ([True] * 3, [])
    assert not holds(DILOCO_2023, but(as_published, "loss", **change))[0][which]


@pytest.mark.parametrize(("change", "which"), [
    ({"arm": "nesterov, every 60", "value": 2.6}, 0),
    ({"arm": "nesterov, 2 learners", "value": 2.6}, 1),
    ({"arm": "nesterov, 8 learners", "value": 2.4, "seed": 4}, 1),
    ({"arm": "nesterov, 8 learners", "value": 2.0}, 2),
    ({"arm": "nesterov, own parts", "value": 2.45, "seed": 6}, 3),
    ({"arm": "nesterov", "value": 2.3}, 3),
    ({"arm": "alone, part 3", "value": 2.35}, 3),
])  # fmt: skip
def test_few_meetings_hold_and_can_fail(change, which):
    assert holds(DILOCO_2023_MEETINGS, as_published) == ([True] * 4, [True] * 2)
    assert not holds(DILOCO_2023_MEETINGS, but(as_published, "loss", **change))[0][which]
    assert not holds(DILOCO_2023_MEETINGS, but(as_published, "loss", arm="mean, every 60", value=2.5))[1][0]
    same = but(as_published, "loss", arm="nesterov, every 60, own parts", value=2.36)
    assert not holds(DILOCO_2023_MEETINGS, same)[1][1]


@pytest.mark.parametrize(("change", "which"), [
    ({"name": "loss", "arm": "e3m0", "value": 2.41, "seed": 5}, 0),
    ({"name": "loss", "arm": "nesterov", "value": 2.3}, 0),
])  # fmt: skip
def test_four_bits_hold_and_can_fail(change, which):
    assert holds(STREAMING_DILOCO_2025, as_published) == ([True], [])
    assert not holds(STREAMING_DILOCO_2025, but(as_published, **change))[0][which]


@pytest.mark.parametrize(("change", "ring", "which"), [
    ({"arm": "sparse, no memory", "value": 2.37, "seed": 4}, 0, 0),
    ({"arm": "nesterov", "value": 2.3}, 0, 2),
    ({"arm": "sparse, nesterov", "value": 2.3}, 0, 3),
    ({"arm": "mean", "value": 2.3}, 1, 0),
    ({"arm": "sparse, mean over all", "value": 2.3, "seed": 7}, 1, 1),
    ({"arm": "sparse, nesterov", "value": 2.4}, 1, 2),
    ({"arm": "scalecom", "value": 2.34, "seed": 5}, 1, 3),
    ({"arm": "adacomp", "value": 2.34}, 1, 3),
])  # fmt: skip
def test_sparse_messages_hold_and_can_fail(change, ring, which):
    assert holds(SPARSELOCO_2025, spoilt) == ([True] * 4, [True] * 4)
    assert not holds(SPARSELOCO_2025, but(spoilt, "loss", **change))[ring][which]


# ---- ZeRO++ ----------------------------------------------------------------------------------------------------------


def of_rounding(point, seed):
    """Errors of independent gradients: a ring's grow with the root of the learners."""
    n, noise = point["learners"], 1 + 0.01 * seed
    errors = {"ring": 0.09 * math.sqrt(n / 2), "twice": 0.09 * math.sqrt(2), "once": 0.09}
    return {
        **{name: value * noise for name, value in errors.items()},
        "ring_16": 4e-4,
        "expected": math.sqrt(n) / 2,
        "bytes_twice": 100 * (1 - 4 / n),
        "bytes_once": 400 * (1 - 4 / n),
        "bytes_16": 390 * (1 - 1 / n),
    }


@pytest.mark.parametrize(("change", "ring", "which"), [
    ({"name": "ring", "value": 0.1, "learners": 8, "seed": 3}, 0, 0),
    ({"name": "ring", "value": 0.2, "learners": 64}, 0, 1),
    ({"name": "twice", "value": 0.16, "learners": 64}, 0, 2),
    ({"name": "expected", "value": 1.5, "learners": 16, "seed": 4}, 1, 0),
    ({"name": "once", "value": 0.2, "learners": 16}, 1, 1),
    ({"name": "bytes_once", "value": 100.0, "learners": 8}, 1, 1),
    ({"name": "bytes_twice", "value": 150.0, "learners": 64}, 1, 2),
])  # fmt: skip
def test_two_roundings_hold_and_can_fail(change, ring, which):
    assert holds(ZEROPP_2023, of_rounding) == ([True] * 3, [True] * 3)
    assert not holds(ZEROPP_2023, but(of_rounding, **change))[ring][which]


def test_gradients_of_learners_are_those_of_their_sequences(short):
    """Their mean is the gradient of all sequences together."""
    found = np.mean(zeropp_2023.learner_gradients(4, 0), axis=0)
    model = short.model(0)
    model.load_state_dict(checkpoint(short, 0, 2)["model"])
    inputs, targets = short.data(4 * BATCH, 0)(2)
    short.loss(model(inputs), targets).backward()
    whole = np.concatenate([parameter.grad.numpy().ravel() for parameter in model.parameters()])
    np.testing.assert_allclose(found, whole, atol=1e-6 * abs(whole).max())


def test_a_sum_is_measured():
    """Of gradients that are all alike, whose partial sums are known; bytes of 8 learners by hand."""
    rng = np.random.default_rng(0)
    found = zeropp_2023.numbers_of([rng.standard_normal(4096).astype(np.float32)] * 8)
    # The ring rounds sums of 1 to 7; two all-to-alls round 8 single ones and the sums of 2 nodes of 4.
    assert found["expected"] == pytest.approx(math.sqrt(sum(k * k for k in range(1, 8)) / (8 + 2 * 4**2)), abs=1e-6)
    # The sum of four equal messages lies on the grid of its own scale: the second rounding changes nothing.
    assert found["ring_16"] < 0.001 < found["once"] == found["twice"]
    part = 4096 // 8
    message = part // 2 + 4 * part // 256
    assert found["bytes_twice"] == 4 * message and found["bytes_once"] == 4 * 4 * message
    assert found["bytes_16"] == 7 * 2 * part
