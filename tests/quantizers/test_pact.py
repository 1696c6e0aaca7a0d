"""PACT: the printed vectors (paper notes 5.1), exact arithmetic, gradients, the module tied to numpy bit for bit."""

import copy
import io
import math
from fractions import Fraction

import numpy as np
import pytest

from lplab.quantizers import PACT, pact_alpha, pact_backward, pact_forward, pact_penalty, parameter_groups

torch = pytest.importorskip("torch")

SAMPLE = np.random.default_rng(0).normal(2, 4, 2000).astype(np.float32)


# ---- forward ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("bits", "vectors"), [
    (2, {-1: 0, 1.6: 0, 1.7: 3.3333, 4.9: 3.3333, 5.1: 6.6667, 9: 10, 12: 10}),
    (4, {0.3: 0, 0.34: 0.6667, 5: 5.3333, 9.6: 9.3333, 9.7: 10}),  # 5 is 7.5 steps: to the even 8
])  # fmt: skip
def test_printed_vectors(bits, vectors, dtype):
    got = pact_forward(np.array(list(vectors), dtype), 10.0, bits)
    np.testing.assert_array_equal(got.round(4), np.array(list(vectors.values()), dtype))


@pytest.mark.parametrize("bits", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("alpha", [0.37, 2.5, 10.0])
def test_against_the_published_formula_in_exact_arithmetic(bits, alpha):
    """y = ½(|x| − |x − α| + α), then round(y·(2^k − 1)/α)·α/(2^k − 1); two roundings of float32 lie in between."""
    n, exact_alpha = 2**bits - 1, Fraction(float(np.float32(alpha)))
    got = pact_forward(SAMPLE[:300], alpha, bits)
    for x, y in zip(SAMPLE[:300], got, strict=True):
        clipped = (abs(Fraction(float(x))) - abs(Fraction(float(x)) - exact_alpha) + exact_alpha) / 2
        want = round(clipped * n / exact_alpha) * exact_alpha / n
        assert abs(Fraction(float(y)) - want) <= exact_alpha * Fraction(1, 2**23)


def test_clipping_alone():
    x = np.float32([-3, -0.0, 0.2, 4, 9])
    np.testing.assert_array_equal(pact_forward(x, 4.0, None), [0, 0, np.float32(0.2), 4, 4])
    y = (np.abs(SAMPLE) - np.abs(SAMPLE - 4) + 4) / 2
    np.testing.assert_allclose(pact_forward(SAMPLE, 4.0, None), y, atol=2e-6)


def test_kinds_and_awkward_input():
    special = np.float32([np.nan, np.inf, -np.inf, -0.0])
    got = pact_forward(special, 3.0, 2)
    assert np.isnan(got[0]) and got[1:].tolist() == [3, 0, 0]
    assert pact_forward(1.4, 3.0, 2) == 1.0 and pact_forward(np.zeros((0, 2)), 3.0).shape == (0, 2)
    assert pact_forward(np.float16([1.4]), 3.0, 2).dtype == np.float16
    np.testing.assert_array_equal(pact_forward(np.zeros(3), 3.0), 0)
    for_x, for_alpha = pact_backward(special, 3.0, np.ones(4, np.float32))
    assert for_x.tolist() == [0, 0, 0, 1] and for_alpha == 1.0
    assert pact_backward(np.zeros(0), 3.0, np.zeros(0))[1] == 0.0


def test_alpha_from_data():
    assert pact_alpha(np.arange(-50.0, 1001.0)) == 999 and pact_alpha(np.arange(1.0, 11.0), 50) == 5
    for nothing in (np.zeros(3), -np.ones(3), np.array([np.nan, np.inf]), np.zeros(0)):
        assert pact_alpha(nothing) == 10.0
    assert pact_alpha(torch.arange(1.0, 11.0)) == 10


# ---- gradients -------------------------------------------------------------------------------------------------------


def test_gradients_by_hand():
    """Inside from 0 (included) to α (excluded); α itself and all above count for α."""
    x = np.array([-1.0, -1e-9, 0.0, 2.0, np.nextafter(4.0, 0), 4.0, 5.0])
    for_x, for_alpha = pact_backward(x, 4.0, np.arange(1.0, 8.0))
    assert for_x.tolist() == [0, 0, 3, 4, 5, 0, 0] and for_alpha == 13.0


def test_the_gradient_of_the_clip_is_that_of_the_unrounded_function():
    """Central differences of Σ g·½(|x| − |x − α| + α)."""
    random = np.random.default_rng(1)
    x, g, h = random.normal(0, 3, 500), random.normal(size=500), 1e-6
    for_x, for_alpha = pact_backward(x, 1.7, g)
    loss = lambda x, a: (g * pact_forward(x, a, None)).sum()  # noqa: E731
    assert (loss(x, 1.7 + h) - loss(x, 1.7 - h)) / (2 * h) == pytest.approx(for_alpha, abs=1e-6)
    np.testing.assert_allclose(for_x, g * ((x > 0) & (x < 1.7)))


def test_the_sum_does_not_round_on_its_way():
    big = np.float32([1e8, 1.0, -1e8, 1.0])
    assert pact_backward(np.full(4, 9, np.float32), 3.0, big)[1] == 2.0


def test_blocks_make_no_difference():
    """More elements than a block, in another memory order: the gradients of the parts, and the exact sum."""
    random = np.random.default_rng(5)
    x, g = (random.normal(size=(400, 500)).astype(np.float32).T for _ in range(2))
    for_x, for_alpha = pact_backward(x, 0.5, g)
    np.testing.assert_array_equal(for_x, g * ((x >= 0) & (x < 0.5)))
    assert for_alpha == np.float32(math.fsum(g[x >= 0.5].tolist()))


@pytest.mark.parametrize("bits", [2, 4, 8, None])
@pytest.mark.parametrize("shape", [(2000,), (8, 250), (2, 10, 100), (0,)])
def test_the_module_is_numpy_bit_for_bit(bits, shape):
    x = SAMPLE[: int(np.prod(shape))].reshape(shape)
    g = np.random.default_rng(2).normal(size=shape).astype(np.float32)
    pact = PACT(bits, alpha=3.3)
    tensor = torch.from_numpy(x).requires_grad_()
    y = pact(tensor)
    y.backward(torch.from_numpy(g))
    alpha = float(np.float32(3.3))
    for_x, for_alpha = pact_backward(x, alpha, g)
    np.testing.assert_array_equal(y.detach().numpy(), pact_forward(x, alpha, bits))
    np.testing.assert_array_equal(tensor.grad.numpy(), for_x)
    assert pact.alpha.grad.item() == for_alpha
    np.testing.assert_array_equal(pact(x), pact_forward(x, alpha, bits))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_the_module_takes_other_dtypes(dtype):
    x = torch.from_numpy(SAMPLE).to(getattr(torch, dtype)).requires_grad_()
    pact = PACT(3, alpha=4.0)
    y = pact(x.reshape(40, 50).T)
    y.sum().backward()
    assert y.dtype == x.dtype == x.grad.dtype and y.shape == (50, 40)
    assert pact.alpha.grad.item() == (x >= 4).sum().item()


def test_gradients_accumulate_over_two_uses():
    pact, x = PACT(2, alpha=1.0), torch.tensor([0.5, 3.0], requires_grad=True)
    (pact(x).sum() + pact(2 * x).sum()).backward()
    assert x.grad.tolist() == [1, 0] and pact.alpha.grad.item() == 3


def test_training_pulls_alpha_down():
    """The shape of the paper's figure: from 10, with weight decay, α moves to where the data are."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(512, generator=generator)
    pact = PACT(2, alpha=10.0)
    optimizer = torch.optim.SGD(parameter_groups(torch.nn.Sequential(pact), 1e-4, 0.05), lr=0.5)
    for _ in range(300):
        optimizer.zero_grad()
        ((pact(x) - x) ** 2).mean().backward()
        optimizer.step()
    assert 0.5 < pact.alpha.item() < 1.2


def test_regularization():
    pact = PACT(alpha=3.0)
    pact.penalty(0.1).backward()
    assert pact.alpha.grad.item() == pytest.approx(0.3) and pact_penalty(3.0, 0.1) == pytest.approx(0.45)
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), PACT(), torch.nn.Linear(3, 2), PACT())
    groups = parameter_groups(model, 1e-4)
    assert [len(g["params"]) for g in groups] == [4, 2] and [g["weight_decay"] for g in groups] == [1e-4, 1e-4]
    assert len(parameter_groups(torch.nn.Linear(2, 2), 0.1)) == 1


def test_an_alpha_below_the_minimum_counts_as_the_minimum():
    pact = PACT(2, alpha=1.0)
    with torch.no_grad():
        pact.alpha.fill_(-5.0)
    y = pact(torch.tensor([1.0, -1.0], requires_grad=True))
    assert y.tolist() == [pytest.approx(1e-3), 0]
    y.sum().backward()
    assert pact.alpha.grad.item() == 1  # so it can come back
    with torch.no_grad():
        pact.alpha.fill_(float("nan"))
    with pytest.raises(ValueError, match="a trained clip or step has become nan: training has diverged"):
        pact(torch.ones(1))


def test_it_is_a_module_like_any_other():
    pact = PACT(4, alpha=2.0)
    twin = copy.deepcopy(pact)
    other = PACT(4)
    other.load_state_dict(pact.state_dict())
    buffer = io.BytesIO()
    torch.save(pact.state_dict(), buffer)
    buffer.seek(0)
    assert torch.load(buffer, weights_only=True)["alpha"] == 2.0
    x = torch.randn(50)
    assert torch.equal(twin(x), pact(x)) and torch.equal(other(x), pact(x))
    assert repr(pact) == "PACT(bits=4, alpha=2)"
    with torch.no_grad():
        assert not pact(x).requires_grad


def test_second_derivatives_are_refused():
    x = torch.ones(2, requires_grad=True)
    (g,) = torch.autograd.grad((PACT(2)(x) ** 2).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()


@pytest.mark.parametrize(("call", "message"), [
    (lambda: pact_forward([1.0], 0.0), "alpha must be a positive finite number, got 0.0"),
    (lambda: pact_forward([1.0], 1.0, 0), "bits must be an integer from 1 to 16, got 0"),
    (lambda: pact_backward(np.ones(3), 1.0, np.ones(1)), r"gradient must have the shape of x, \(3,\), got \(1,\)"),
    (lambda: PACT(17), "bits must be an integer from 1 to 16, got 17"),
    (lambda: PACT(alpha=-1), "alpha must be a positive finite number, got -1"),
])  # fmt: skip
def test_errors_say_what_is_allowed(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_name_that_is_not_there():
    import lplab.quantizers

    with pytest.raises(AttributeError, match="^lplab.quantizers has no `Pakt`: did you mean PACT"):
        lplab.quantizers.Pakt  # noqa: B018
    assert "PACT" in dir(lplab.quantizers)
