"""Layers of which many learners' passes can be one: as PyTorch's own, and each learner as if it were alone."""

import pytest
import torch
from torch import nn

from lplab.models.initialization import build
from lplab.parallel.learner_gradients import batched_gradients, sequential_gradients
from lplab.parallel.stackable_layers import GroupBatchNorm2d, RecurrentLayer
from lplab.training.loop.trainer import default_loss


def as_pytorch_orders(values):
    """Cell, input, forget, output as PyTorch has them: input, forget, cell, output."""
    cell, enters, stays, leaves = values.chunk(4)
    return torch.cat((enters, stays, cell, leaves))


def test_the_recurrent_layer_is_pytorchs_lstm_with_its_gradients():
    ours, theirs = build(RecurrentLayer, 0, 3, 5), nn.LSTM(3, 5, batch_first=True)
    pairs = (
        (ours.weight_in, theirs.weight_ih_l0),
        (ours.weight_state, theirs.weight_hh_l0),
        (ours.bias, theirs.bias_ih_l0),
    )
    with torch.no_grad():
        theirs.bias_hh_l0.zero_()
        for mine, other in pairs:
            other.copy_(as_pytorch_orders(mine))
    draw = torch.Generator().manual_seed(1)
    x, weight = torch.randn(2, 7, 3, generator=draw, requires_grad=True), torch.randn(2, 7, 5, generator=draw)
    same = x.detach().clone().requires_grad_()
    y, expected = ours(x), theirs(same)[0]
    torch.testing.assert_close(y, expected)
    y.backward(weight)
    expected.backward(weight)
    torch.testing.assert_close(x.grad, same.grad)
    for mine, other in pairs:
        torch.testing.assert_close(as_pytorch_orders(mine.grad), other.grad, rtol=1e-4, atol=1e-5)


def test_group_batch_norm_is_pytorchs_on_each_group_and_keeps_the_mean_of_their_statistics():
    ours, theirs = GroupBatchNorm2d(3, 4), [nn.BatchNorm2d(3) for _ in range(3)]
    x = torch.randn(12, 3, 5, 5, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(ours(x), torch.cat([norm(part) for norm, part in zip(theirs, x.chunk(3), strict=True)]))
    for name in ("running_mean", "running_var"):
        expected = torch.stack([getattr(norm, name) for norm in theirs]).mean(0)
        torch.testing.assert_close(getattr(ours, name), expected)
    theirs[0].load_state_dict(ours.state_dict(), strict=False)
    torch.testing.assert_close(ours.eval()(x), theirs[0].eval()(x))
    with pytest.raises(ValueError, match="a batch of 10 has no whole groups of 4 examples"):
        ours.train()(x[:10])


def pictures():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1, bias=False), GroupBatchNorm2d(4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5)
    )


def text():
    return nn.Sequential(nn.Embedding(7, 6), RecurrentLayer(6, 5), RecurrentLayer(5, 5), nn.Linear(5, 7))


def batches_of(make, learners=4, examples=3):
    draw = torch.Generator().manual_seed(3)
    if make is pictures:
        return [(torch.randn(examples, 1, 4, 4, generator=draw), torch.randint(0, 5, (examples,), generator=draw))
                for _ in range(learners)]  # fmt: skip
    ids = torch.randint(0, 7, (learners, examples, 9), generator=draw)
    return [(each[:, :-1], each[:, 1:]) for each in ids]


@pytest.mark.parametrize("make", [pictures, text])
def test_one_pass_of_all_learners_gives_each_the_gradient_that_it_has_alone(make):
    model, batches = build(make, 0), batches_of(make)
    alone = sequential_gradients(model, default_loss, batches, range(4))
    together = batched_gradients(model, default_loss, batches, range(4))
    assert together.losses == pytest.approx(alone.losses, rel=1e-5)
    assert [*together.gradients] == [*alone.gradients]
    for name, gradient in alone.gradients.items():
        assert float(gradient.std(0).abs().max()) > 0, name  # the learners differ, or mixing them would pass
        torch.testing.assert_close(together.gradients[name], gradient, rtol=1e-3, atol=1e-5)


def test_groups_that_would_mix_learners_are_refused():
    with pytest.raises(ValueError, match="groups of 3 examples would mix learners with 2 examples each"):
        batched_gradients(build(pictures, 0), default_loss, batches_of(pictures, 6, 2), range(6))
