"""LSQ: against torch's learnable fake quantization, the formula by hand, the module tied to numpy bit for bit."""

import math

import numpy as np
import pytest

from lplab.quantizers import LSQ, SAWB_ROWS, WeightGrid, lsq_backward, lsq_format, lsq_forward, lsq_step

torch = pytest.importorskip("torch")

X = np.random.default_rng(0).normal(0, 3, 1000).astype(np.float32)


@pytest.mark.parametrize(("bits", "signed"), [(2, True), (4, True), (8, True), (2, False), (4, False)])
def test_torchs_learnable_fake_quantization(bits, signed):
    """With a step that is a power of two, as torch multiplies by its reciprocal.

    torch calls an element inside where its rounded code is: what lies within half a step beyond the ends is left out.
    """
    low, high = lsq_format(bits, signed).range
    step = 0.5
    q = X / step
    x = X[~((q > high) & (q < high + 0.5) | (q < low) & (q > low - 0.5) | (q == low) | (q == high))]
    g = np.random.default_rng(1).normal(size=x.shape).astype(np.float32)
    tensor = torch.from_numpy(x).requires_grad_()
    scale = torch.tensor([step], requires_grad=True)
    factor = 1 / math.sqrt(x.size * high)
    y = torch._fake_quantize_learnable_per_tensor_affine(
        tensor, scale, torch.zeros(1, requires_grad=True), low, high, factor
    )
    y.backward(torch.from_numpy(g))
    for_x, for_step = lsq_backward(x, step, g, bits, signed=signed)
    np.testing.assert_array_equal(lsq_forward(x, step, bits, signed=signed), y.detach().numpy())
    np.testing.assert_array_equal(for_x, tensor.grad.numpy())
    assert for_step == pytest.approx(scale.grad.item(), rel=1e-4)  # torch sums in float32


def test_the_gradient_of_the_step_by_hand():
    """Below −2: −2; 0.3 → 0 − 0.3; 0.8 → 1 − 0.8; at 1 and above: 1. Over √(4 · 1)."""
    for_x, for_step = lsq_backward(np.array([-9.0, 0.3, 0.8, 1.0]), 1.0, np.array([1.0, 10.0, 100.0, 1000.0]), bits=2)
    assert for_x.tolist() == [0, 10, 100, 0]
    assert for_step == pytest.approx((-2 - 3 + 20 + 1000) / 2)


@pytest.mark.parametrize(("bits", "signed"), [(2, True), (4, True), (4, False)])
def test_the_module_is_numpy_bit_for_bit(bits, signed):
    g = np.random.default_rng(2).normal(size=X.shape).astype(np.float32)
    lsq = LSQ(bits, signed=signed, step=0.37)
    tensor = torch.from_numpy(X).requires_grad_()
    y = lsq(tensor)
    y.backward(torch.from_numpy(g))
    step = float(np.float32(0.37))
    for_x, for_step = lsq_backward(X, step, g, bits, signed=signed)
    np.testing.assert_array_equal(y.detach().numpy(), lsq_forward(X, step, bits, signed=signed))
    np.testing.assert_array_equal(tensor.grad.numpy(), for_x)
    assert lsq.step.grad.item() == np.float32(for_step)
    np.testing.assert_array_equal(lsq(X), lsq_forward(X, step, bits, signed=signed))


def test_the_first_tensor_sets_the_step():
    lsq = LSQ(4)
    lsq(torch.from_numpy(X))
    want = 2 * np.abs(X.astype(np.float64)).mean() / math.sqrt(7)
    assert lsq.step.item() == pytest.approx(want, rel=1e-6) and lsq_step(X, 4) == pytest.approx(want, rel=1e-6)
    lsq(torch.from_numpy(100 * X))
    assert lsq.step.item() == pytest.approx(want, rel=1e-6)
    other = LSQ(4)
    other.load_state_dict(lsq.state_dict())
    assert torch.equal(other(torch.from_numpy(X)), lsq(torch.from_numpy(X)))


def test_training_finds_a_step():
    """From ten times too coarse and ten times too fine to less than the double of the least error."""
    x = torch.from_numpy(X)
    grid = np.linspace(0.1, 5, 200)
    least = min(((lsq_forward(X, s, 3) - X) ** 2).mean() for s in grid)
    for start in (0.1, 8.0):
        lsq = LSQ(3, step=start)
        optimizer = torch.optim.Adam(lsq.parameters(), lr=0.05)
        for _ in range(300):
            optimizer.zero_grad()
            ((lsq(x) - x) ** 2).sum().backward()
            optimizer.step()
        assert ((lsq(x) - x) ** 2).mean().item() < 2 * least


def test_special_input():
    special = np.float32([np.nan, np.inf, -np.inf, 0.0])
    got = lsq_forward(special, 1.0, 3)
    assert np.isnan(got[0]) and got[1:].tolist() == [3, -4, 0]
    for_x, for_step = lsq_backward(special, 1.0, np.ones(4, np.float32), 3)
    assert for_x.tolist() == [0, 0, 0, 1] and for_step == pytest.approx(-1 / math.sqrt(12))
    assert lsq_backward(np.zeros(0), 1.0, np.zeros(0))[1] == 0
    for nothing in (np.zeros(3), np.zeros(0), np.array([np.nan])):
        assert lsq_step(nothing) == 1.0
    lsq = LSQ(3, step=1.0)
    with torch.no_grad():
        lsq.step.fill_(-1.0)
    assert lsq(torch.ones(1)).item() == pytest.approx(3e-8)


@pytest.mark.parametrize(("call", "message"), [
    (lambda: lsq_forward([1.0], 0.0), "step must be a positive finite number, got 0.0"),
    (lambda: lsq_forward([1.0], 1.0, 1), "bits must be an integer from 2 to 16, got 1"),
    (lambda: LSQ(0, signed=False), "bits must be an integer from 1 to 16, got 0"),
    (lambda: LSQ(step=-1), "step must be a positive finite number, got -1"),
])  # fmt: skip
def test_errors_say_what_is_allowed(call, message):
    with pytest.raises(ValueError, match=message):
        call()


PARETOQ = [("no_zero", 2, "2bit", 2), ("no_zero", 4, "4bit", 8), ("ternary", 2, "ternary", 1.5)]


@pytest.mark.parametrize(("kind", "bits", "row", "steps"), PARETOQ)
def test_the_levels_of_paretoq_are_those_of_sawb_between_its_clips(kind, bits, row, steps):
    """α is ``steps`` steps, and the outermost level lies half a step below it."""
    x = np.concatenate([X, -X]).astype(np.float64)
    alpha, step = x.max(), lsq_step(x, bits, kind=kind)
    assert step == pytest.approx(alpha / steps)
    found = lsq_forward(x, step, bits, kind=kind)
    np.testing.assert_allclose(np.unique(found), SAWB_ROWS[row].grid * (alpha - step / 2), atol=1e-6)
    np.testing.assert_allclose(found, WeightGrid(bits, None, kind).quantize(x[None])[0], atol=1e-12)


@pytest.mark.parametrize(("kind", "bits", "row", "steps"), PARETOQ)
def test_gradients_of_paretoqs_levels_are_those_of_autograd(kind, bits, row, steps):
    x = torch.from_numpy(X.astype(np.float64)).requires_grad_()
    step = torch.tensor(0.6 * float(X.std()), dtype=torch.float64, requires_grad=True)
    shift = 0.5 if kind == "no_zero" else 0.0
    top = max(SAWB_ROWS[row].levels - 1, 2) / 2  # the outermost level in steps
    q = x / step - shift
    rounded = q + (q.round() - q).detach() + shift
    y = torch.where(x.abs() / step < top + 0.5, rounded, top * torch.sign(x)) * step
    g = torch.from_numpy(np.random.default_rng(3).normal(size=X.shape))
    y.backward(g)
    for_x, for_step = lsq_backward(x.detach().numpy(), step.item(), g.numpy(), bits, kind=kind)
    np.testing.assert_allclose(lsq_forward(x.detach().numpy(), step.item(), bits, kind=kind), y.detach(), atol=1e-12)
    np.testing.assert_allclose(for_x, x.grad, rtol=1e-14)
    assert for_step == pytest.approx(step.grad.item() / math.sqrt(X.size * top), rel=1e-9)


def test_weights_of_a_layer_are_trained_on_levels_without_zero():
    torch.manual_seed(0)
    layer = torch.nn.Linear(16, 1, bias=False)
    torch.nn.utils.parametrize.register_parametrization(layer, "weight", LSQ(2, kind="no_zero"))
    x = torch.randn(256, 16)
    y = x @ torch.sign(torch.randn(16, 1)) * 0.3
    optimizer = torch.optim.Adam(layer.parameters(), 0.01)
    losses = []
    for _ in range(150):
        loss = (layer(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 100 and layer.weight.unique().numel() <= 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"kind": "half"}, "unknown kind 'half'; allowed: full_range, no_zero, ternary"),
        ({"kind": "ternary", "bits": 3}, "three levels need bits=2, got bits=3"),
        ({"kind": "no_zero", "signed": False}, "need signed=True"),
    ],
)
def test_levels_that_do_not_exist_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        LSQ(**arguments)
