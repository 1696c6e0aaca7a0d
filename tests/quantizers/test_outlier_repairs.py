"""AWQ, SmoothQuant, LLM.int8()'s split and rotations: what must stay exactly, and what must get better."""

import numpy as np
import pytest
import torch
from torch import nn

from lplab.quantizers import (
    Hadamard,
    LayerInput,
    WeightGrid,
    array_inputs,
    awq_clipped,
    awq_scales,
    llm_int8,
    random_rotation,
    rotate_reader,
    rotate_writer,
    smoothing_factors,
    without_mean,
)

RNG = np.random.default_rng(0)
W = RNG.standard_normal((24, 32))
X = RNG.standard_normal((200, 32))
X[:, 5] *= 60  # the channel that ruins it


def error(x, w):
    """Of the product of rounded operands."""
    return np.square(x @ w.T - X @ W.T).mean()


# ---- AWQ -------------------------------------------------------------------------------------------------------------


def test_awq_takes_the_exponent_with_the_least_output_error():
    grid = WeightGrid(3, 16, "asymmetric_awq")
    candidates = []
    for r in np.arange(20) / 20:
        s = np.maximum(np.abs(X).mean(0) ** r, 1e-4)
        s /= np.sqrt(s.max() * s.min())
        candidates.append((error(X, grid.quantize(W * s) / s), s))
    least, want = min(candidates, key=lambda pair: pair[0])
    found = awq_scales(W, X, grid)
    np.testing.assert_allclose(found, want, rtol=1e-12)
    assert least < candidates[0][0] / 2 and found[5] == found.max()


def test_awq_clips_where_the_output_gains_and_never_loses():
    grid, w = WeightGrid(2, 16), W.copy()
    w[:, 7] *= 8
    x = X.copy()
    x[:, 7] /= 100  # a large weight without influence
    clipped = awq_clipped(w, x, grid)
    before, after = (np.square(x @ (grid.quantize(each) - w).T).mean() for each in (w, clipped))
    assert after < 0.75 * before
    assert np.abs(clipped).max() < np.abs(w).max() and (np.sign(clipped) == np.sign(w)).all()
    by_group = [
        np.square(x[:, g : g + 16] @ (grid.quantize(each)[:, g : g + 16] - w[:, g : g + 16]).T).mean(0)
        for each in (w, clipped)
        for g in (0, 16)
    ]
    assert (by_group[2] <= by_group[0] + 1e-12).all() and (by_group[3] <= by_group[1] + 1e-12).all()


# ---- SmoothQuant -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.85, 1.0])
def test_smoothing_leaves_the_product_and_shares_the_outliers(alpha):
    x_max, w_max = np.abs(X).max(0), np.abs(W).max(0)
    s = smoothing_factors(x_max, w_max, alpha)
    np.testing.assert_allclose((X / s) @ (W * s).T, X @ W.T, rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(x_max / s, (x_max * w_max) ** (1 - alpha), rtol=1e-12)
    np.testing.assert_allclose(w_max * s, (x_max * w_max) ** alpha, rtol=1e-12)


def test_a_dead_input_has_a_factor_too():
    assert smoothing_factors([0.0, 1.0], [1.0, 0.0], 0.5).tolist() == pytest.approx([1e-5**0.5, 1e5**0.5])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([1.0], [1.0], 1.5), "alpha must be from 0 to 1"),
        (([1.0, 2.0], [1.0]), "must have one shape"),
        (([-1.0], [1.0]), "finite and at least 0"),
    ],
)
def test_factors_that_cannot_be_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        smoothing_factors(*arguments)


# ---- inputs in few bits ----------------------------------------------------------------------------------------------


def rows_to_integers(x, bits):
    step = np.abs(x).max(-1, keepdims=True) / (2 ** (bits - 1) - 1)
    return np.rint(x / step) * step


def test_scales_for_each_token_and_for_the_tensor():
    np.testing.assert_allclose(LayerInput(4).quantize(X), rows_to_integers(X, 4), atol=1e-12)
    flat = LayerInput(4, "tensor").quantize(X)
    np.testing.assert_allclose(flat.ravel(), rows_to_integers(X.reshape(1, -1), 4)[0], atol=1e-12)
    half = LayerInput(8, clip=0.5).quantize(X)
    np.testing.assert_allclose(np.abs(half).max(-1), np.abs(X).max(-1) / 2, rtol=1e-12)


def test_the_split_multiplies_outliers_as_they_are():
    found = llm_int8(X, W)
    wide = np.abs(X).max(0) > 6
    assert wide.sum() == 1
    rest = rows_to_integers(X[:, ~wide], 8) @ rows_to_integers(W[:, ~wide], 8).T
    np.testing.assert_allclose(found, X[:, wide] @ W[:, wide].T + rest, atol=1e-10)
    split = LayerInput(8, "tensor", outlier=6.0).quantize(X)
    np.testing.assert_array_equal(split[:, wide], X[:, wide])


def test_each_repair_helps_and_the_inputs_are_those_of_changed_weights():
    weights = rows_to_integers(W, 8)
    naive = error(LayerInput(8, "tensor").quantize(X), weights)
    split = error(LayerInput(8, "tensor", outlier=6.0).quantize(X), weights)
    s = smoothing_factors(np.abs(X).max(0), np.abs(W).max(0))
    smooth = error(LayerInput(8, "tensor", factors=s).quantize(X), rows_to_integers(W * s, 8))
    h = Hadamard(32)
    rotated = error(LayerInput(8, "tensor", hadamard=h).quantize(X), rows_to_integers(h.apply(W), 8))
    assert max(split, smooth, rotated) < naive / 4


@pytest.mark.parametrize("rule", [LayerInput(4), LayerInput(8, "tensor", outlier=6.0, factors=np.full(32, 2.0))])
def test_inputs_of_any_device_shape_and_type_are_rounded_alike(rule, monkeypatch):
    x = X.astype(np.float32).reshape(4, 50, 32)
    want = rule.quantize(x)
    assert torch.equal(rule.quantize(torch.from_numpy(x)), torch.from_numpy(want))
    assert rule.quantize(torch.from_numpy(x).bfloat16()).dtype == torch.bfloat16
    assert rule.quantize(x[:0]).shape == (0, 50, 32) and (rule.quantize(np.zeros((2, 32))) == 0).all()
    monkeypatch.setattr(array_inputs, "shares_memory", lambda tensor: False)
    if rule.factors is not None:
        rule = LayerInput(8, "tensor", outlier=6.0, factors=torch.full((32,), 2.0))
    np.testing.assert_allclose(rule.quantize(torch.from_numpy(x)).numpy(), want, rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: LayerInput(1), "bits must be an integer from 2 to 16"),
        (lambda: LayerInput(8, "channel"), "per must be 'token' or 'tensor'"),
        (lambda: LayerInput(8, clip=0), "clip must be above 0 and at most 1"),
        (lambda: LayerInput(8, factors=np.ones(3)).quantize(X), "factors for 3 channels, x has 32"),
        (lambda: awq_scales(W, X[:, :3], WeightGrid(4, 16)), "needs inputs"),
    ],
)
def test_what_does_not_fit_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


# ---- rotations -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 9, 12, 64, 576])
def test_a_rotation_is_orthogonal_and_spreads_one_channel_over_all(size):
    q = random_rotation(size, seed=3)
    assert q.dtype == np.float64
    np.testing.assert_allclose(q @ q.T, np.eye(size), atol=1e-12)
    if size & -size > 1:
        assert np.abs(q).max() < 1
    assert size < 9 or not np.array_equal(q, random_rotation(size, seed=4))


class TwoLayers(nn.Module):
    """An embedding, a norm, a layer that reads and one that writes, a norm, a head."""

    def __init__(self, norm):
        super().__init__()
        self.embedding, self.up, self.down = nn.Embedding(10, 12), nn.Linear(12, 20), nn.Linear(20, 12, bias=False)
        self.norms, self.head = nn.ModuleList([norm, norm]), nn.Linear(12, 10)
        self.double()

    def forward(self, ids):
        x = self.embedding(ids)
        x = x + self.down(nn.functional.gelu(self.up(self.norms[0](x))))
        return self.head(self.norms[1](x))


@torch.no_grad()
def rotate_stream(net, q):
    net.embedding.weight.copy_(rotate_reader(net.embedding.weight, q))
    net.up.weight.copy_(rotate_reader(net.up.weight, q))
    net.down.weight.copy_(rotate_writer(net.down.weight, q))
    net.head.weight.copy_(rotate_reader(net.head.weight, q))


def test_a_root_mean_square_norm_does_not_see_a_rotation_and_a_layer_norm_does_until_its_mean_is_gone():
    torch.manual_seed(0)
    q, ids = random_rotation(12, 1), torch.arange(10)[None]
    for norm, same in ((nn.RMSNorm(12, 1e-5), True), (nn.LayerNorm(12), False)):
        net = TwoLayers(norm)
        before = net(ids)
        rotate_stream(net, q)
        assert torch.allclose(net(ids), before, atol=1e-10) == same
    net = TwoLayers(nn.LayerNorm(12))
    before = net(ids)
    with torch.no_grad():
        net.embedding.weight.copy_(without_mean(net.embedding.weight.T).T)
        net.down.weight.copy_(without_mean(net.down.weight))
    net.norms = nn.ModuleList([nn.RMSNorm(12, 1e-5).double()] * 2)
    rotate_stream(net, q)
    assert torch.allclose(net(ids), before, atol=1e-10)
