"""Trainings behind claims: the numbers are finite whatever happens, and the same for the same seed."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from lplab.claims.framework import seed_comparisons
from lplab.claims.framework.trainings import TrainingResult, cosine, guessing_loss, one_thread, train
from lplab.training import Recorder, recipes, tasks


def test_a_training_gives_five_finite_numbers_and_the_same_ones_again():
    first, again = (train("mlp", "fp8_2018", steps=12, seed=3).numbers() for _ in range(2))
    assert first == again and set(first) == {"loss", "error", "train_loss", "diverged", "steps"}
    assert all(map(math.isfinite, first.values())) and first["steps"] == 12 and first["diverged"] == 0


def test_the_numbers_are_those_of_the_trainer_itself():
    done = train("mlp", "fp32", steps=20, seed=1)
    trainer = tasks.get("mlp").trainer("fp32", 1)
    losses = [step.loss for step in trainer.steps(20)]
    result = trainer.evaluate(*done.task.test())
    assert done.losses == tuple(losses)
    assert done.numbers()["train_loss"] == round(np.mean(losses[-2:]) / math.log(2), 6)
    assert done.numbers()["loss"] == round(result["loss"] / math.log(2), 6)
    assert done.numbers()["error"] == round(100 * result["error"], 4)


def test_a_training_that_diverges_counts_as_guessing():
    done = train("mlp", recipes.get("fp16_mixed", loss_scale=2.0**24), steps=30)
    assert "gradients are not finite" in done.diverged
    numbers = done.numbers()
    assert numbers["diverged"] == 1 and numbers["steps"] < 30
    assert numbers["loss"] == numbers["train_loss"] == round(math.log2(10), 6) and numbers["error"] == 90


def test_a_training_that_ends_worse_than_guessing_counts_as_guessing():
    done = train("mlp", "fp32", steps=5)
    with torch.no_grad():
        done.trainer.model.layers[-1].weight.mul_(1e4)
    assert done.numbers()["loss"] == round(math.log2(10), 6)
    assert replace(done, losses=(30.0,)).numbers()["train_loss"] == round(math.log2(10), 6)
    assert isinstance(done, TrainingResult)


def test_the_guess_of_a_task_with_a_loss_of_its_own_is_its_loss_of_zeros():
    task = replace(
        tasks.get("mlp"),
        data=lambda batch, seed: lambda step: (torch.ones(batch, 64), torch.full((batch, 10), 3.0)),
        test=lambda: (torch.ones(4, 64), torch.full((4, 10), 3.0)),
        loss=lambda output, target: (output - target).square().mean(),
        error=lambda output, target: 0.25,
    )
    done = train(task, "fp32", steps=2)
    assert done.numbers()["error"] == 25
    assert guessing_loss(task, done.trainer.model, *task.test()) == pytest.approx(9 / math.log(2))
    assert replace(done, losses=(30.0,)).numbers()["train_loss"] == round(9 / math.log(2), 6)


def test_whoever_watches_sees_the_trainer_before_and_after_every_step():
    seen = []
    recorder = Recorder(every=2, roles=("weight",))
    train("mlp", "fp8_2018", 4, schedule=cosine(4), recorder=recorder, watch=lambda t: seen.append(t.step))
    assert seen == [0, 1, 2, 3, 4] and {record.step for record in recorder.records} == {0, 2}


def test_batch_rate_and_schedule_reach_the_trainer():
    done = train("mlp", "fp32", 2, batch=7, lr=0.5, schedule=lambda step: 0.1)
    assert len(done.trainer._batch(0)[0]) == 7
    assert done.trainer.optimizer.param_groups[0]["lr"] == pytest.approx(0.05)


def test_numbers_leave_the_model_as_it_is():
    done = train("resnet", "fp32", 2)
    before = {name: value.clone() for name, value in done.trainer.model.state_dict().items()}
    done.numbers()
    assert done.trainer.model.training
    assert all(torch.equal(value, before[name]) for name, value in done.trainer.model.state_dict().items())


def test_torch_gets_its_threads_back_even_after_an_error():
    before = torch.get_num_threads()
    with pytest.raises(ValueError, match="there is no model"):
        train("mlpp")
    with pytest.raises(RuntimeError, match="no"), one_thread():
        raise RuntimeError("no")
    assert torch.get_num_threads() == before


def test_as_good_and_clearly_above_exclude_each_other_but_leave_a_middle():
    base = np.array([3.0, 3.1, 3.2])
    for shift, good, above in ((-1.0, True, False), (0.1, True, False), (0.21, False, True), (1.0, False, True)):
        assert (
            seed_comparisons.within_noise(base + shift, base),
            seed_comparisons.clearly_above(base + shift, base),
        ) == (good, above)
    middle = np.array([3.15, 3.4, 3.5])  # worse, but one seed is not
    assert not seed_comparisons.within_noise(middle, base) and not seed_comparisons.clearly_above(middle, base)


def test_a_test_in_parts_is_the_mean_over_all_examples():
    done = train("mlp", "fp32", steps=5, seed=0)
    inputs, _ = done.task.test()
    assert len(inputs) % 100, "the last part is smaller, so that a mean of the parts' means would be another number"
    in_parts = TrainingResult(replace(done.task, test_batch=100), done.trainer, done.losses)
    assert in_parts.numbers() == pytest.approx(done.numbers(), abs=2e-6)
