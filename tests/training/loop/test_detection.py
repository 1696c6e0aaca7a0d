"""Detection: targets and boxes come back, the loss prefers the truth, and the score is that of COCO."""

import sys

import numpy as np
import pytest
import torch
from torch.nn import functional

from lplab import cli, datasets
from lplab.training import tasks
from lplab.training.loop import detection


@pytest.fixture(scope="module")
def scenes():
    """Targets of 40 scenes, with their boxes and labels."""
    _, boxes, labels = datasets.digit_scenes(40, seed=5)
    return torch.from_numpy(detection.encode(boxes, labels, 32, 10)), boxes, labels


def certain(target, classes=10):
    """The output of a network that is sure of the targets."""
    kind = functional.one_hot(target[..., 0].long(), classes + 1) * 40.0
    return torch.cat([kind, target[..., 1:]], dim=-1)


def test_boxes_and_labels_come_back(scenes):
    target, boxes, labels = scenes
    for (seen, kinds, sure), its_boxes, its_labels in zip(
        detection.decode(certain(target)), boxes, labels, strict=True
    ):
        there = its_boxes[its_labels >= 0]
        order = [int(np.abs(seen - box).sum(axis=1).argmin()) for box in there]
        assert len(seen) == len(there) and sorted(order) == list(range(len(there)))
        assert (
            np.allclose(seen[order], there, atol=1e-4) and kinds[order].tolist() == its_labels[its_labels >= 0].tolist()
        )
        assert (sure > 0.99).all()


def test_the_loss_is_least_for_the_truth(scenes):
    target = scenes[0]
    right = certain(target)
    moved = right.clone()
    moved[..., 11] += 0.5
    wrong = certain(torch.where(target == 3, torch.tensor(4.0), target))
    least = detection.loss(right, target)
    assert (
        least < 1e-6
        and detection.loss(moved, target).item() == pytest.approx(0.125)
        and detection.loss(wrong, target) > 1
    )


def test_pictures_without_an_object_have_a_loss_and_a_gradient():
    target = torch.from_numpy(detection.encode(np.zeros((2, 1, 4)), np.full((2, 1), -1), 16, 10))
    output = torch.zeros(2, 16, 15, requires_grad=True)
    detection.loss(output, target).backward()
    assert torch.isfinite(output.grad).all() and output.grad[..., :11].abs().sum() > 0


def test_of_two_boxes_upon_each_other_the_surer_one_stays():
    output = torch.zeros(1, 16, 15)
    output[0, :, 10] = 20
    output[0, 5, 3], output[0, 6, 3], output[0, 6, 11] = 30.0, 24.0, -1.0
    output[0, 9, 7] = 25.0
    boxes, labels, sure = detection.decode(output)[0]
    assert labels.tolist() == [3, 7] and sure[0] > sure[1] and boxes[0].tolist() == [0.0, 0.0, 8.0, 8.0]


def test_the_score_is_one_for_the_truth_and_falls_with_what_is_missed(scenes):
    pytest.importorskip("faster_coco_eval")
    target, _, labels = scenes
    right = certain(target)
    assert detection.mean_average_precision(right, target) == pytest.approx(1)
    none = torch.zeros_like(right)
    none[..., 10] = 40.0
    assert detection.mean_average_precision(none, target) == 0 and detection.error(none, target) == 1
    blind = right.clone()
    threes = blind[..., 3] > 20
    blind[threes] = none[threes]
    present = len(np.unique(labels[labels >= 0]))
    assert detection.mean_average_precision(blind, target) == pytest.approx(1 - 1 / present)
    far = right.clone()
    far[..., 13:] += 2  # four times as wide and high
    assert detection.mean_average_precision(far, target) < 0.1


def test_wrong_input_is_refused():
    with pytest.raises(ValueError, match="size must be a multiple of 4 pixels, got 30"):
        detection.encode(np.zeros((1, 1, 4)), np.zeros((1, 1), int), 30, 10)
    with pytest.raises(ValueError, match="four numbers for each"):
        detection.encode(np.zeros((1, 2, 4)), np.zeros((1, 1), int), 32, 10)


def test_without_the_library_nothing_is_trained(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "faster_coco_eval", None)
    monkeypatch.setattr(detection, "find_spec", lambda name: None)
    tasks._scenes.cache_clear()
    with pytest.raises(ImportError, match=r"pip install 'lplab\[detection\]'"):
        tasks.get("detector").trainer("fp32")
    for words in (["--recipe", "fp32"], ["--learners", "2"]):
        with pytest.raises(SystemExit) as stopped:
            cli.main(["train", "--model", "detector", "--steps", "3", *words])
        assert stopped.value.code == 2 and "pip install 'lplab[detection]'" in capsys.readouterr().err


def test_the_detector_learns_where_the_digits_are():
    pytest.importorskip("faster_coco_eval")
    task = tasks.get("detector", batch=16)
    run = task.trainer("fp32")
    losses = [step.loss for step in run.steps(40)]
    assert np.mean(losses[-5:]) < 0.5 * losses[0]


def test_several_learners_train_it_too():
    pytest.importorskip("faster_coco_eval")
    from lplab.parallel import RunSettings
    from lplab.parallel.simulated import SimulatedRun

    *steps, end = SimulatedRun(RunSettings("detector", "scalecom:chunk=25", 2, 2, 2))
    assert len(steps) == 2 and end["test_loss"] > 0 and 0 <= end["test_error"] <= 1
