"""Loss scaling: the state machine against torch.amp's, and unscaling."""

import numpy as np
import pytest

from lplab.quantizers import ConstantLossScale, DynamicLossScale, all_finite

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("seed", range(5))
def test_torch_amp_moves_the_same_way(seed):
    """Forty random steps through the update rule of torch.amp.GradScaler."""
    random = np.random.default_rng(seed)
    growth, backoff, interval = random.choice([1.5, 2.0, 3.0]), random.choice([0.25, 0.5]), int(random.integers(1, 6))
    ours = DynamicLossScale(
        1024.0, growth=growth, backoff=backoff, interval=interval, min_scale=2.0**-100, max_scale=2.0**100
    )
    scale, tracker = torch.tensor(1024.0), torch.tensor(0, dtype=torch.int32)
    for finite in random.random(40) < 0.8:
        assert ours.update(finite) == finite
        torch._amp_update_scale_(scale, tracker, torch.tensor(float(not finite)), growth, backoff, interval)
        assert ours.scale == pytest.approx(scale.item(), rel=1e-5)  # torch keeps its scale in float32
        assert ours.good_steps == tracker.item()


def test_grow_back_off_skip():
    scaler = DynamicLossScale(8.0, interval=3)
    history = [(scaler.update(finite), scaler.scale) for finite in (True, True, True, True, False, True, True, True)]
    assert history == [(True, 8), (True, 8), (True, 16), (True, 16), (False, 8), (True, 8), (True, 8), (True, 16)]


def test_bounds_hold():
    scaler = DynamicLossScale(4.0, interval=1, min_scale=2.0, max_scale=8.0)
    assert [(scaler.update(True), scaler.scale)[1] for _ in range(3)] == [8, 8, 8]
    assert [(scaler.update(False), scaler.scale)[1] for _ in range(4)] == [4, 2, 2, 2]


def test_constant_never_moves_but_says_when_to_skip():
    scaler = ConstantLossScale()
    assert scaler.scale == 1000.0  # Wang et al. 2018
    assert [scaler.update(finite) for finite in (True, False, True)] == [True, False, True]
    assert scaler.scale == 1000.0


@pytest.mark.parametrize("scaler", [ConstantLossScale(1000.0), DynamicLossScale(3.0)], ids=repr)
def test_unscaling_divides_once(scaler):
    g = np.random.default_rng(0).normal(size=100).astype(np.float32)
    np.testing.assert_array_equal(scaler.unscale(g), g / np.float32(scaler.scale))
    assert torch.equal(scaler.unscale(torch.from_numpy(g)), torch.from_numpy(g / np.float32(scaler.scale)))
    half = scaler.unscale(torch.from_numpy(g).half())
    assert half.dtype == torch.float16
    assert scaler.unscale(6.0) == 6.0 / scaler.scale and scaler.unscale(np.zeros((0, 2))).shape == (0, 2)
    assert np.isnan(scaler.unscale(np.array(np.nan))) and scaler.unscale(float("inf")) == np.inf


def test_all_finite():
    assert all_finite([np.ones(2), torch.ones(2), None, np.zeros(0)]) and all_finite([])
    for wrong in (np.nan, np.inf, -np.inf):
        assert not all_finite([np.ones(2), np.array([1.0, wrong])])
        assert not all_finite([torch.tensor([wrong, 1.0], dtype=torch.bfloat16)])


def test_a_small_gradient_survives_only_when_scaled():
    """The purpose: 2^−20 is zero in E5M2, and 2^−20 · 1024 is not."""
    from lplab import formats as F

    scaler, g = DynamicLossScale(1024.0), 2.0**-20
    assert F.get("e5m2").quantize(g) == 0
    assert scaler.unscale(F.get("e5m2").quantize(g * scaler.scale)) == g


def test_a_checkpoint_continues():
    scaler, copy = DynamicLossScale(8.0, interval=3), DynamicLossScale(16.0, interval=3)
    scaler.update(True), scaler.update(True)
    copy.load_state_dict(scaler.state_dict())
    assert (copy.update(True), copy.scale) == (True, 16.0) == (scaler.update(True), scaler.scale)


@pytest.mark.parametrize(("call", "message"), [
    (lambda: ConstantLossScale(-1), "scale must be a positive finite number, got -1"),
    (lambda: DynamicLossScale(growth=1), "growth must be above 1 and backoff below 1"),
    (lambda: DynamicLossScale(backoff=1.0), "growth must be above 1 and backoff below 1"),
    (lambda: DynamicLossScale(interval=0), "interval must be an integer from 1 to 1000000000, got 0"),
    (lambda: DynamicLossScale(0.5), r"scale must be from 1.0 \(min_scale\) to 4294967296.0 \(max_scale\), got 0.5"),
])  # fmt: skip
def test_errors_say_what_is_allowed(call, message):
    with pytest.raises(ValueError, match=message):
        call()
