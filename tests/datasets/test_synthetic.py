"""The harder tasks can be repeated, mean what they say, and can be learned; own data are checked."""

import numpy as np
import pytest
import torch

from lplab import datasets, models
from lplab.training import Batches, SequenceBatches, Trainer, recipes


def test_same_seed_same_pictures():
    a, b, c = (datasets.cluttered_digits(20, seed=seed) for seed in (1, 1, 2))
    assert a[0].tobytes() == b[0].tobytes() and not np.array_equal(a[0], c[0])


def test_without_clutter_and_noise_a_picture_is_a_digit_in_colour():
    images, labels = datasets.cluttered_digits(30, clutter=0, noise=0.0)
    images_of_digits, known = datasets.digits()
    for image, label in zip(images, labels, strict=True):
        gray = image[0] / image[0].max()
        rows, columns = np.nonzero(gray.sum(1))[0], np.nonzero(gray.sum(0))[0]
        piece = gray[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        found = [
            np.allclose(candidate[r[0] : r[-1] + 1, c[0] : c[-1] + 1], piece * candidate.max(), atol=1e-6)
            for candidate in images_of_digits[known == label]
            for r, c in [(np.nonzero(candidate.sum(1))[0], np.nonzero(candidate.sum(0))[0])]
            if (r[-1] - r[0] + 1, c[-1] - c[0] + 1) == piece.shape
        ]
        assert any(found)


def test_boxes_of_a_scene_hold_all_the_ink_and_do_not_touch():
    images, boxes, labels = datasets.digit_scenes(60, clutter=0, noise=0.0, seed=2)
    assert images.shape == (60, 3, 32, 32) and labels.max() == 9
    several = 0
    for image, its_boxes, its_labels in zip(images, boxes.astype(int), labels, strict=True):
        covered = np.zeros((32, 32), int)
        for left, top, right, bottom in its_boxes[its_labels >= 0]:
            inside = image[0, top:bottom, left:right]
            assert min(inside.max(axis=0).min(), inside.max(axis=1).min()) > 0  # ink at every edge
            covered[top:bottom, left:right] += 1
        assert covered.max() == 1 and (image[0][covered == 0] <= 0.25).all()
        several += (its_labels >= 0).sum() > 1
    assert (labels[:, 0] >= 0).all() and several > 20
    assert (boxes[labels < 0] == 0).all()


def test_same_seed_same_scenes():
    a, b, c = (datasets.digit_scenes(10, seed=seed) for seed in (1, 1, 2))
    assert all(x.tobytes() == y.tobytes() for x, y in zip(a, b, strict=True)) and not np.array_equal(a[0], c[0])


@pytest.mark.parametrize(("call", "message"), [
    (lambda: datasets.cluttered_digits(0), "count must be an integer of at least 1, got 0"),
    (lambda: datasets.cluttered_digits(1, size=7), "size must be an integer of at least 8"),
    (lambda: datasets.cluttered_digits(1, noise=-1), "noise must be a number from 0 on"),
    (lambda: datasets.digit_scenes(1, size=15), "size must be an integer of at least 16"),
    (lambda: datasets.digit_scenes(1, most=0), "most must be an integer of at least 1"),
    (lambda: datasets.digit_scenes(1, noise=-1), "noise must be a number from 0 on"),
])  # fmt: skip
def test_bad_input_is_explained(call, message):
    with pytest.raises(ValueError, match=message):
        call()


ZOO = {
    "mlp": (lambda: models.mlp((192, 32, 10)), "images"),
    "cnn": (lambda: models.cnn((8, 16), channels=3), "images"),
    "resnet": (lambda: models.resnet(8, 8), "images"),
    "bottleneck": (lambda: models.resnet(11, 8, bottleneck=True), "images"),
    "depthwise": (lambda: models.depthwise_net((8, 12)), "images"),
    "lstm": (lambda: models.lstm(20, width=16), "text"),
    "transformer": (lambda: models.transformer(20, width=16, context=12, blocks=1, heads=2), "text"),
}


def zoo_data(kind):
    if kind == "text":
        return SequenceBatches(np.arange(400) % 20, length=12, batch=8)
    return Batches(*datasets.cluttered_digits(64, size=8, clutter=0), batch=32)


@pytest.mark.parametrize("name", ZOO)
def test_the_zoo_learns_and_fp32_is_plain_pytorch_bit_for_bit(name):
    make, kind = ZOO[name]
    plain, found = make(), zoo_data(kind)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.05)
    losses = []
    for step in range(4):
        x, y = found(step)
        loss = torch.nn.functional.cross_entropy(plain(x).flatten(0, -2), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    run = Trainer(make(), found, "fp32", lr=0.05)
    assert [step.loss for step in run.steps(4)] == losses
    for a, b in zip(plain.state_dict().values(), run.model.state_dict().values(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize("recipe", [name for name in recipes.names() if name != "fp32"])
def test_the_zoo_takes_a_step_under_every_recipe(name, recipe):
    make, kind = ZOO[name]
    run = Trainer(make(), zoo_data(kind), recipe, lr=0.01)
    assert all(np.isfinite(step.loss) for step in run.steps(2))


def test_depth_is_a_parameter():
    assert [sum(isinstance(m, torch.nn.Conv2d) and m.kernel_size == (3, 3) for m in models.resnet(d).modules())
            for d in (8, 14, 20)] == [7, 13, 19]  # fmt: skip
    with pytest.raises(ValueError, match=r"depth must be 6n \+ 2 with n from 1 on, got 9"):
        models.resnet(9)
    with pytest.raises(ValueError, match=r"depth must be 9n \+ 2"):
        models.resnet(8, bottleneck=True)
