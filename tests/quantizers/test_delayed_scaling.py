"""Delayed scaling: the estimate of the history, and the effect of a spike."""

import numpy as np
import pytest

from lplab import formats as F
from lplab.quantizers import Amax, AmaxHistory, DelayedScaling, Quantizer

torch = pytest.importorskip("torch")

QUIET = np.float32([1.0, 0.01, -0.5])
SPIKE = np.float32([100.0, 0.01, -0.5])


def test_history_of_a_certain_length():
    history = AmaxHistory(3)
    assert history.amax is None
    seen = [(history.observe(np.array([m, -m / 2])), history.amax)[1] for m in (1, 5, 2.0, 3, 1, 1)]
    assert seen == [1, 5, 5, 5, 3, 3]
    latest = AmaxHistory(3, "latest")
    assert [(latest.observe([m]), latest.amax)[1] for m in (1.0, 5.0, 2.0)] == [1, 5, 2]


def test_special_tensors_in_a_history():
    history = AmaxHistory(2)
    assert history.observe(np.array([np.nan, np.inf, -3.0])) == 3
    assert [history.observe(x) for x in (np.zeros(0), np.zeros(2), np.array([np.nan]))] == [0, 0, 0]
    assert history.amax == 0


@pytest.mark.parametrize("name", ["e4m3fn", "int8", "e5m2"])
def test_each_step_uses_the_magnitudes_of_earlier_steps(name):
    delayed, quantizer = DelayedScaling(name, AmaxHistory(2)), Quantizer(name, Amax())
    x = np.random.default_rng(0).normal(size=(6, 50)).astype(np.float32)
    for step in range(6):
        before = x[max(step - 2, 0) : step] if step else x[:1]
        want = quantizer.quantize(x[step], scale=quantizer.scale(before))
        np.testing.assert_array_equal(delayed.quantize(x[step]), want)


def test_a_spike_is_clipped_when_it_comes():
    """Immediate scaling keeps the spike and loses the small ones; delayed scaling does the reverse."""
    delayed = DelayedScaling("int8", AmaxHistory(2))
    delayed.quantize(QUIET)
    values = delayed.quantize(SPIKE)
    assert values[0] == 1.0 and abs(values[1] - 0.01) < 0.004
    immediate = Quantizer("int8", Amax()).quantize(SPIKE)
    assert immediate[0] == 100.0 and immediate[1] == 0


@pytest.mark.parametrize(("history", "coarse_steps"), [(AmaxHistory(3), 3), (AmaxHistory(16), 16),
                                                       (AmaxHistory(16, "latest"), 1)])  # fmt: skip
def test_a_spike_is_remembered_for_as_long_as_the_history(history, coarse_steps):
    delayed = DelayedScaling("int8", history)
    delayed.quantize(QUIET), delayed.quantize(SPIKE)
    lost = [delayed.quantize(QUIET)[1] == 0 for _ in range(20)]
    assert lost == [True] * coarse_steps + [False] * (20 - coarse_steps)


def test_a_spike_of_infinity_is_not_remembered():
    delayed = DelayedScaling("e4m3fn", AmaxHistory(4))
    delayed.quantize(QUIET)
    scale = delayed.scale
    values = delayed.quantize(np.float32([np.inf, np.nan, 0.5]))
    assert values[0] == np.float32(448) * np.float32(scale) and np.isnan(values[1])
    assert delayed.scale == scale


def test_zeros_leave_the_scale_alone():
    delayed = DelayedScaling("int8", AmaxHistory(2))
    assert delayed.quantize(np.zeros(3)).tolist() == [0, 0, 0] and delayed.scale == 1
    delayed.quantize(QUIET)
    scale = delayed.scale
    for _ in range(5):
        delayed.quantize(np.zeros(3))
    assert delayed.scale == scale


def test_options():
    assert DelayedScaling("int8", scale=1.0).quantize([0.3, 127.4]).tolist() == [0, 127]  # as Transformer Engine starts
    delayed = DelayedScaling("int8", margin=2, power_of_two=True)
    delayed.quantize([1.0])
    assert delayed.scale == 2.0**-4  # 4 / 127, rounded up to a power of two
    stochastic = DelayedScaling("int4", rounding="stochastic", scale=1.0)
    assert set(stochastic.quantize(np.full(100, 0.5), seed=1, observe=False)) == {0, 1}
    np.testing.assert_array_equal(stochastic.quantize(np.full(9, 0.5), 3, False), F.get("int4").quantize(
        np.full(9, 0.5), "stochastic", 3))  # fmt: skip


def test_evaluation_changes_nothing():
    delayed = DelayedScaling("e4m3fn")
    delayed.quantize(QUIET)
    before = delayed.state_dict()
    delayed.quantize(SPIKE, observe=False)
    assert delayed.state_dict() == before


def test_a_checkpoint_continues():
    x = np.random.default_rng(1).normal(size=(8, 20)) * np.arange(1, 9)[:, None]
    delayed, copy = (DelayedScaling("e4m3fn") for _ in range(2))
    for row in x[:4]:
        delayed.quantize(row)
    copy.load_state_dict(delayed.state_dict())
    for row in x[4:]:
        np.testing.assert_array_equal(delayed.quantize(row), copy.quantize(row))


def test_torch_is_numpy_and_gradients_pass():
    x = np.random.default_rng(2).normal(size=(3, 20)).astype(np.float32)
    ours, theirs = DelayedScaling("e4m3fn"), DelayedScaling("e4m3fn")
    for row in x:
        tensor = torch.from_numpy(row).requires_grad_()
        got = ours.quantize(tensor)
        np.testing.assert_array_equal(got.detach().numpy(), theirs.quantize(row))
        got.sum().backward()
        assert torch.equal(tensor.grad, torch.ones(20))


@pytest.mark.parametrize(("call", "message"), [
    (lambda: AmaxHistory(0), "length must be an integer from 1 to 1048576, got 0"),
    (lambda: AmaxHistory(reduce="mean"), "reduce must be 'max' or 'latest', got 'mean'"),
    (lambda: DelayedScaling("int8", margin=99), "margin must be an integer from -32 to 32, got 99"),
    (lambda: DelayedScaling("mxfp4"), "mxfp4 brings scales of its own"),
    (lambda: DelayedScaling("int8", scale=-1).quantize([1.0]), "a scale must be positive and finite, got -1"),
])  # fmt: skip
def test_errors_say_what_is_allowed(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_number_for_the_history_is_answered_with_the_class():
    with pytest.raises(TypeError, match=r"^history must be an AmaxHistory, such as AmaxHistory\(length=16\), got 16$"):
        DelayedScaling("int8", history=16)
