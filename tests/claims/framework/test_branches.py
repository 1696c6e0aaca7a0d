"""Branches from one float32 checkpoint: the same bits kept or new, the same batches; pairs see what ranges hide."""

import math
import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from lplab.claims.framework import branches as module
from lplab.claims.framework.branches import (
    STUDENT_5_PERCENT,
    BranchPlan,
    above,
    branch,
    branches,
    checkpoint,
    paired_result,
    paired_text,
    surely_above,
    surely_within,
    within,
    worse,
    worse_in_pairs,
)
from lplab.claims.framework.learner_trainings import branch_learners
from lplab.claims.framework.seed_comparisons import clearly_above
from lplab.claims.framework.trainings import cosine
from lplab.compression import Dense, ScaleCom
from lplab.training import recipes, tasks

PLAN = BranchPlan(before=30, steps=20)


def weights_of(result):
    return torch.cat([p.detach().flatten() for p in result.trainer.model.parameters()])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Checkpoints for the tests of this module."""
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="module")
def made(folder):
    """Two recipes and float32 on three seeds of the smallest task."""
    coarse = recipes.get("hfp8_2019", forward="fp8_152")
    return branches(tasks.get("mlp"), {"hybrid": "hfp8_2019", "1-5-2": coarse}, (0, 1, 2), PLAN, folder=folder)


def test_a_float32_branch_is_the_training_that_was_never_interrupted(folder):
    """Weights, momentum, batches and the learning rate go on: the same bits as one training of both parts."""
    task = tasks.get("mlp")
    whole = task.trainer("fp32", 1)
    list(whole.steps(PLAN.before))
    falling = cosine(PLAN.steps)
    whole.schedule = lambda number: falling(number - PLAN.before)
    losses = [step.loss for step in whole.steps(PLAN.steps)]
    done = branch(task, "fp32", 1, PLAN, folder=folder)
    assert done.losses == tuple(losses)
    assert all(
        torch.equal(p, q) for p, q in zip(whole.model.parameters(), done.trainer.model.parameters(), strict=True)
    )


def test_adam_s_moments_and_dropout_go_on_too(folder):
    """A branch with the other optimizer and a net that draws random numbers in its forward pass."""

    def with_dropout(seed):
        first = tasks.get("mlp").model(seed).layers[0]
        last = nn.Linear(first.out_features, 10)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        return nn.Sequential(nn.Flatten(), first, nn.ReLU(), nn.Dropout(), last)

    task = replace(tasks.get("mlp"), model=with_dropout, optimizer="adam", lr=1e-3, options=())
    whole = task.trainer("fp32", 0)
    list(whole.steps(PLAN.before))
    falling = cosine(PLAN.steps)
    whole.schedule = lambda number: falling(number - PLAN.before)
    losses = [step.loss for step in whole.steps(PLAN.steps)]
    assert branch(task, "fp32", 0, PLAN, folder=folder).losses == tuple(losses)


@pytest.mark.parametrize("recipe", ["fp32", "hfp8_2019", "fp8_2018"])
def test_a_kept_checkpoint_a_new_one_and_a_second_run_give_the_same_bits(recipe, folder, tmp_path):
    task = tasks.get("mlp")
    first = branch(task, recipe, 0, PLAN, folder=tmp_path)
    again = branch(task, recipe, 0, PLAN, folder=tmp_path)
    elsewhere = branch(task, recipe, 0, PLAN, folder=folder)
    assert first.losses == again.losses == elsewhere.losses
    assert torch.equal(weights_of(first), weights_of(again)) and torch.equal(weights_of(first), weights_of(elsewhere))


def test_a_second_branch_trains_no_float32(monkeypatch, folder, tmp_path):
    branch(tasks.get("mlp"), "fp32", 0, PLAN, folder=folder)

    def refuse(*_):
        raise AssertionError("float32 was trained again")

    monkeypatch.setattr(module, "_train_float32", refuse)
    assert len(branch(tasks.get("mlp"), "hfp8_2019", 0, PLAN, folder=folder).losses) == PLAN.steps
    with pytest.raises(AssertionError, match="trained again"):
        branch(tasks.get("mlp"), "hfp8_2019", 0, PLAN, folder=tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"lr": 0.01},
        {"batch": 40},
        {"options": ()},
        {"optimizer": "adam", "options": ()},
        {"model": tasks.get("cnn").model},
    ],
    ids=["rate", "batch", "momentum", "optimizer", "model"],
)
def test_another_training_never_gets_the_checkpoint(change, folder):
    task = tasks.get("mlp")
    path = module._path_of(task, 0, 30, folder)
    assert module._path_of(task, 0, 30, folder) == path
    assert module._path_of(replace(task, **change), 0, 30, folder) != path
    assert module._path_of(task, 0, 29, folder) != path != module._path_of(task, 1, 30, folder)


def test_a_recipe_is_switched_on_at_the_branch_and_not_before(folder):
    """The first loss of every branch is of the same weights and batch; float32's own second loss differs from FP8's."""
    first = {r: branch(tasks.get("mlp"), r, 2, PLAN, folder=folder).losses for r in ("fp32", "bf16", "fp8_2018")}
    assert abs(first["bf16"][0] - first["fp32"][0]) < 0.01 * first["fp32"][0] + 1e-3
    assert len({losses[1] for losses in first.values()}) == 3


def test_pairs_show_what_the_seeds_hide(made):
    """The same numbers, taken in pairs and as two heaps: only the pairs tell a coarser forward pass from float32."""
    train = {name: np.array([n["train_loss"] for n in numbers]) for name, numbers in made.numbers.items()}
    gaps = made.differences("1-5-2", "train_loss")
    assert np.allclose(gaps, train["1-5-2"] - train["float32"])
    assert np.ptp(gaps) < 0.5 * np.ptp(train["float32"]), "pairing removes what weights and batches of a seed do"
    assert surely_above(gaps) and not clearly_above(train["1-5-2"], train["float32"])
    shuffled = train["1-5-2"][[1, 2, 0]] - train["float32"]
    assert not surely_above(shuffled), "the wrong partner brings the seeds back"


@pytest.mark.parametrize(("conditions", "holds", "undecided", "words"), [
    ([above(np.array([0.5, 0.6, 0.7]))], True, False, "It is."),
    ([above(np.array([0.97, 0.46, 0.30]))], False, True, "Every pair says so, but these 3 differ"),
    ([above(np.array([0.5, -0.1, 0.2]))], False, True, "It is."),
    ([above(np.array([-0.5, -0.6, -0.7]))], False, False, "It is."),
    ([above(np.array([0.5, 0.6, 0.7])), above(np.array([-0.5, -0.6, -0.7]))], False, False, "It is."),
    ([above(np.array([0.5, -0.1, 0.2])), above(np.array([-0.5, -0.6, -0.7]))], False, False, "It is."),
    ([within(np.array([0.5, 0.6, 0.7]), 1.0)], True, False, "It is."),
    ([within(np.array([0.5, 0.6, 0.7]), 0.3)], False, False, "It is."),
    ([within(np.array([0.1, 0.2, 0.9]), 1.0)], False, True, "Every pair says so"),
    ([*worse(np.array([0.5, 0.6, 0.7]), np.array([0.1, 0.9, 0.1]))], True, False, "It is."),
    ([*worse(np.array([0.5, 0.6, 0.7]), np.array([0.1, -0.9, 0.1]))], False, True, "It is."),
    ([*worse(np.array([0.5, 0.6, 0.7]), np.array([-0.1, -0.9, -0.1]))], False, False, "It is."),
])  # fmt: skip
def test_pairs_that_say_neither_are_undecided(conditions, holds, undecided, words):
    """What does not hold is not refuted by that: a card that said "not so" beside three seeds that agree was wrong."""
    result = paired_result("It is.", *conditions)
    assert (result.holds, result.undecided) == (holds, undecided)
    assert words in result.sentence and result.sentence.startswith("It is.")
    assert ("Every pair" in result.sentence) == (undecided and all(one.agree for one in conditions))


def test_conditions_are_those_of_the_criteria():
    """Three answers instead of two change no "holds"."""
    rng = np.random.default_rng(0)
    for mean in (-0.5, 0.0, 0.5, 2.0):
        train, test = rng.normal(mean, 1.0, (2, 200, 3))
        for one, other in zip(train, test, strict=True):
            assert paired_result("", above(one, 0.1)).holds == surely_above(one, 0.1)
            assert paired_result("", within(one, 0.1)).holds == surely_within(one, 0.1)
            assert paired_result("", *worse(one, other)).holds == worse_in_pairs(one, other)


def test_the_finer_format_costs_less(made):
    assert (made.differences("1-5-2", "train_loss", baseline="hybrid") > 0).all()


def test_losses_are_those_of_the_branches_in_bits(made, folder):
    done = branch(tasks.get("mlp"), "hfp8_2019", 1, PLAN, folder=folder)
    assert np.array_equal(made.losses["hybrid"][1], np.array(done.losses) / np.log(2))
    expected = np.mean(done.losses[PLAN.steps // 2 :]) / math.log(2)
    assert made.numbers["hybrid"][1]["train_loss"] == round(expected, 6)


def test_a_branch_that_diverges_is_cut_off_and_counts_as_guessing(folder):
    steep = recipes.get("fp16_mixed", loss_scale=2.0**24)
    lost = branches(tasks.get("mlp"), {"too large a scale": steep}, (0,), PLAN, folder=folder)
    assert np.isnan(lost.losses["too large a scale"]).any() and np.isfinite(lost.losses["float32"]).all()
    assert lost.numbers["too large a scale"][0]["loss"] == round(math.log2(10), 6)


def test_bad_arguments_are_told(made, folder, tmp_path):
    task = tasks.get("mlp")
    with pytest.raises(ValueError, match="at least one recipe"):
        branches(task, {}, (0,), PLAN, folder=folder)
    with pytest.raises(ValueError, match="give the recipe another name"):
        branches(task, {"float32": "bf16"}, (0,), PLAN, folder=folder)
    with pytest.raises(ValueError, match="no branch 'hybird'; there are float32, hybrid, 1-5-2"):
        made.differences("hybird")
    with pytest.raises(ValueError, match="two to ten pairs are needed, got 1"):
        surely_above(np.array([0.1]))
    with pytest.raises(ValueError, match="diverges in float32"):
        checkpoint(replace(task, lr=1e6), 0, 5, tmp_path)


def test_a_damaged_file_and_a_folder_that_cannot_be_are_told(tmp_path):
    task = tasks.get("mlp")
    checkpoint(task, 0, 2, tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match="is no checkpoint .* delete it to train anew"):
        checkpoint(task, 0, 2, tmp_path)
    with pytest.raises(ValueError, match="set LPLAB_CHECKPOINTS"):
        checkpoint(task, 0, 2, path / "below a file")


def test_the_folder_is_that_of_the_user_unless_another_is_asked_for(monkeypatch, tmp_path):
    monkeypatch.delenv("LPLAB_CHECKPOINTS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert module.checkpoint_folder() == tmp_path / "lplab" / "checkpoints"
    monkeypatch.setenv("LPLAB_CHECKPOINTS", str(tmp_path / "mine"))
    checkpoint(tasks.get("mlp"), 0, 1)
    assert len(os.listdir(tmp_path / "mine")) == 1, "no part of a file stays"


def test_a_difference_must_be_larger_than_its_own_noise():
    assert surely_above(np.array([0.010, 0.011, 0.012]))
    assert not surely_above(np.array([0.010, 0.011, -0.001])), "one pair says otherwise"
    assert not surely_above(np.array([0.001, 0.001, 0.020])), "all above, but from chance one cannot tell"
    assert not surely_above(np.array([0.010, 0.011, 0.012]), bound=0.010)


def test_worse_needs_both_losses():
    train, test = np.array([0.009, 0.008, 0.009]), np.array([0.010, 0.002, 0.004])
    assert worse_in_pairs(train, test)
    assert not worse_in_pairs(train, test - 0.003), "one seed tests better"
    assert not worse_in_pairs(np.array([0.001, 0.030, 0.001]), test), "the training loss is all noise"


def test_noise_does_not_make_a_recipe_as_good():
    assert surely_within(np.array([0.003, 0.004, 0.003]), 0.028)
    assert not surely_within(np.array([0.003, 0.004, 0.030]), 0.028)
    assert not surely_within(np.array([-0.04, 0.027, 0.02]), 0.028), "all below, but anything may be behind it"


def test_points_of_student_are_those_that_chance_gives():
    """Differences without an effect pass in fewer than 5 of 100 cases, and the mean alone in just about 5."""
    rng = np.random.default_rng(0)
    for count in (3, 5):
        draws = rng.normal(size=(20_000, count))
        t = draws.mean(1) / (draws.std(1, ddof=1) / np.sqrt(count))
        assert np.mean(t > STUDENT_5_PERCENT[count]) == pytest.approx(0.05, abs=0.005)


def test_the_text_of_pairs_has_mean_and_ends():
    assert paired_text(np.array([-0.001, 0.004, 0.003]), 3) == "+0.002 (−0.001 to +0.004)"


def test_a_recipe_that_switches_after_a_share_counts_the_float32_steps(folder):
    recipe = recipes.get("nvfp4_2025", switch=0.8)  # of 50 steps: 40, of which 10 are in the branch
    run = branch(tasks.get("mlp"), recipe, 1, PLAN, folder=folder)
    plain = branch(tasks.get("mlp"), recipes.get("nvfp4_2025"), 1, PLAN, folder=folder)
    assert run.losses[:10] == plain.losses[:10] and run.losses[10:] != plain.losses[10:]


def test_another_draw_changes_the_random_bits_and_nothing_else(folder):
    """nvfp4_2025 rounds gradients stochastically; float32 draws nothing, so that another draw cannot show there."""
    task = tasks.get("mlp")
    one, other, again = (branch(task, "nvfp4_2025", 0, PLAN, draw=draw, folder=folder) for draw in (0, 1, 1))
    assert one.losses[0] == other.losses[0], "the same weights and the same first batch"
    assert one.losses != other.losses and other.losses == again.losses
    plain = [branch(task, "fp32", 0, PLAN, draw=draw, folder=folder).losses for draw in (0, 1)]
    assert plain[0] == plain[1]


# ---- several learners ------------------------------------------------------------------------------------------------


def test_learners_with_dense_gradients_end_where_one_learner_does(folder):
    """Without batch norms the mean of four gradients is that of the whole batch: only the sums are in another order."""
    task = tasks.get("mlp", batch=32)
    one = branch(task, "fp32", 0, PLAN, folder=folder)
    four = branch_learners(task, Dense(), 4, 0, PLAN, folder)
    assert four.run.step == 50 and np.allclose(four.losses, one.losses, atol=1e-5)
    assert torch.allclose(
        torch.cat([p.detach().flatten() for p in four.run.model.parameters()]), weights_of(one), atol=1e-5
    )
    assert set(four.numbers()) == {"loss", "error", "train_loss", "skipped"}
    assert four.numbers()["train_loss"] == pytest.approx(np.mean(four.losses[10:]) / math.log(2), abs=1e-6)


def test_learners_that_compress_get_the_same_batches_and_the_falling_rate(folder):
    task = tasks.get("mlp", batch=32)
    dense, sparse = (branch_learners(task, c, 4, 0, PLAN, folder) for c in (Dense(), ScaleCom(chunk=25)))
    assert dense.losses[0] == sparse.losses[0] and dense.losses[-1] != sparse.losses[-1]
    rate = sparse.run.optimizer.param_groups[0]["lr"]
    assert rate == pytest.approx(task.lr * cosine(PLAN.steps)(PLAN.steps - 1))
    again = branch_learners(task, ScaleCom(chunk=25), 4, 0, PLAN, folder)
    assert again.losses == sparse.losses
