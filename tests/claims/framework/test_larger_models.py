"""The tasks of the larger experiments: no pixel is lost, every task trains, and none needs the files to be made."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from lplab import datasets
from lplab.claims.framework import larger_models
from lplab.training import tasks

ON_FASHION = ("fashion_resnet8", "fashion_resnet20", "fashion_depthwise")
ON_OTHERS = ("novel_transformer", "novel_lstm", "larger_speech")


@pytest.fixture
def pictures(monkeypatch):
    """Eighty pictures of two kinds instead of Fashion-MNIST: the upper or the lower half is bright."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 80)
    images = rng.random((80, 1, 28, 28), np.float32) / 4
    images[labels == 0, :, :14] += 0.5
    images[labels == 1, :, 14:] += 0.5
    split = datasets.Split(images[:70], labels[:70], images[70:], labels[70:])
    monkeypatch.setattr(datasets, "fashion_mnist", lambda: split)
    larger_models.fashion_pictures.cache_clear()
    yield split
    larger_models.fashion_pictures.cache_clear()


def test_four_channels_lose_no_pixel(pictures):
    images = pictures.train_inputs
    channels = larger_models.four_channels(images)
    assert channels.shape == (70, 4, 14, 14) and channels.dtype == np.float32
    back = torch.nn.functional.pixel_shuffle(torch.from_numpy(channels), 2).numpy()
    assert np.array_equal(back, images)
    assert np.array_equal(larger_models.fashion_pictures().test_targets, pictures.test_targets)


@pytest.mark.parametrize("name", ON_FASHION)
def test_each_net_learns_from_the_pictures(name, pictures):
    task = replace(getattr(larger_models, name)(), batch=16, lr=0.02)
    assert task.name == name
    losses = [step.loss for step in task.trainer("fp32", seed=1).steps(6)]
    assert losses[-1] < 0.7 * losses[0]
    first, again = task.data(16, 5)(2), task.data(16, 5)(2)
    assert torch.equal(first[0], again[0]) and first[0].shape == (16, 4, 14, 14)
    assert not torch.equal(first[0], task.data(16, 6)(2)[0])
    assert task.test()[0].shape == (10, 4, 14, 14)


@pytest.mark.parametrize("name", ON_OTHERS)
@pytest.mark.parametrize("recipe", ["fp32", "int4_fp4_2020"])
def test_the_other_tasks_take_steps_under_recipes(name, recipe):
    task = replace(getattr(larger_models, name)(), batch=2)
    losses = [step.loss for step in task.trainer(recipe, seed=0).steps(2)]
    assert np.isfinite(losses).all()


def test_the_test_is_the_whole_last_tenth_of_the_novel_one_window_after_the_other():
    ids, _ = datasets.character_ids()
    inputs, targets = larger_models.novel_lstm().test()
    held_out = ids[len(ids) * 9 // 10 :]
    assert np.array_equal(inputs.flatten(), held_out[: inputs.numel()])
    assert np.array_equal(targets.flatten(), held_out[1 : inputs.numel() + 1])
    assert len(held_out) - inputs.numel() <= larger_models.UNROLLED


def test_without_the_files_a_task_is_made_and_its_data_say_what_to_do(monkeypatch):
    def missing():
        raise FileNotFoundError("Fashion-MNIST is not here")

    monkeypatch.setattr(datasets, "fashion_mnist", missing)
    larger_models.fashion_pictures.cache_clear()
    task = larger_models.fashion_resnet8()
    assert isinstance(task, tasks.Task)
    with pytest.raises(FileNotFoundError, match="Fashion-MNIST is not here"):
        task.data(64, 0)
