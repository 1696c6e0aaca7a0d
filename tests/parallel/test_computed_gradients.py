"""Stacked learners whose large gradients are computed block by block, against those who have all of them in memory."""

import signal

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from lplab.compression import AdaComp, Dense, ScaleCom, computed_gradients  # noqa: E402
from lplab.parallel import Learners  # noqa: E402
from lplab.parallel.learner_gradients import GradientProducts, batched_gradients  # noqa: E402
from lplab.parallel.uninterrupted import uninterrupted  # noqa: E402
from lplab.training.loop.trainer import default_loss  # noqa: E402


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(computed_gradients, "BLOCK_BYTES", 20_000)


def net():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 32, 5), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 16, 27), nn.ReLU(), nn.Linear(27, 5)
    )


def batch(step, rank):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(3, 1, 8, 8, generator=generator), torch.randint(0, 5, (3,), generator=generator)


class AllInMemory(Learners):
    """The reference: every gradient of every learner at once."""

    def _computes_when_read(self, name, nbytes):
        return False


def run_of(kind, compressor, batches=batch, **options):
    return kind(net(), default_loss, batches, compressor, 7, engine="stacked", **options)


def assert_same(one, other):
    assert one.ledger.entries == other.ledger.entries
    for name, parameter in one.model.named_parameters():
        assert torch.equal(parameter, other.model.get_parameter(name)), name
        assert one.residuals(name).tobytes() == other.residuals(name).tobytes(), name


COMPRESSORS = [
    Dense(),
    AdaComp(bin=50),
    ScaleCom(chunk=20),
    ScaleCom(chunk=20, beta=0.3),
    ScaleCom(chunk=20, m=2, wire="bf16"),
]


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=repr)
def test_the_bits_are_those_of_learners_with_all_gradients_in_memory(compressor):
    one, other = (run_of(kind, compressor) for kind in (Learners, AllInMemory))
    for _ in range(9):
        assert one.one_step() == other.one_step()
    assert_same(one, other)


def test_large_gradients_are_left_and_their_residuals_stay_where_they_are():
    run = run_of(Learners, ScaleCom(chunk=20))
    passes, large = [], "3.weight"  # that of the convolution is sent dense
    original = run._exchange
    run._exchange = lambda results, ledger: (passes.append(results), original(results, ledger))
    before = [state.states[large]["residual"] for state in run.states]
    run.one_step()
    assert list(passes[0].products) == ["0.weight", large] and large not in passes[0].gradients
    assert all(
        state.states[large]["residual"] is old and old.any() for state, old in zip(run.states, before, strict=True)
    )


@pytest.mark.parametrize("scale", [float("nan"), float("inf"), 1e38])
def test_a_gradient_that_is_not_finite_or_might_not_be(scale):
    """With 1e38 the factors are too large to be sure, but their products are finite."""

    def batches(step, rank):
        x, y = batch(step, rank)
        return (x * scale if (step, rank) == (2, 5) else x), y

    one, other = (run_of(kind, ScaleCom(chunk=20), batches) for kind in (Learners, AllInMemory))
    for number in range(4):
        steps = one.one_step(), other.one_step()
        assert steps[0].skipped == steps[1].skipped and steps[0].payload_bytes == steps[1].payload_bytes
        assert number > 2 or steps[0].skipped is (number == 2 and scale != 1e38)
        assert_same(one, other)


@pytest.mark.parametrize("beta", [1.0, 0.3])
def test_residuals_that_overflow_are_not_changed_in_place(beta):
    """Steps 1 to 5 are large, and finite by themselves; the others would be made in place."""

    def batches(step, rank):
        x, y = batch(step, rank)
        return (x * 3e38 if step in range(1, 6) and rank == 5 else x), y

    one, other = (run_of(kind, ScaleCom(chunk=20, beta=beta), batches) for kind in (Learners, AllInMemory))
    skipped = []
    for _ in range(8):
        steps = one.one_step(), other.one_step()
        assert steps[0].skipped == steps[1].skipped
        assert_same(one, other)
        assert all(np.isfinite(one.residuals(name)).all() for name, _ in one.model.named_parameters())
        skipped.append(steps[0].skipped)
    assert any(skipped[1:6]) and not skipped[0] and not any(skipped[6:])


@pytest.mark.parametrize("positions", [1, 8, 33])
@pytest.mark.parametrize("shape", [(27, 200), (33, 7, 3, 3)])
def test_blocks_have_the_bits_of_all(shape, positions):
    torch.manual_seed(0)
    shape = torch.Size(shape)
    factors = torch.randn(10, positions, shape[0]), torch.randn(10, positions, shape[1:].numel())
    products, buffers = GradientProducts(*factors, shape), {}
    everything = products.all()
    assert everything.shape == (10, *shape) and products.nbytes == 4 * everything.numel()
    for _ in range(2):
        gradients = products.when_read(buffers)
        found = np.stack([gradient.copy() for gradient in gradients])
        assert found.tobytes() == everything.numpy().tobytes()
    assert len(buffers) == 1


@pytest.mark.parametrize(("row", "column", "finite"), [
    (1.0, 1.0, True), (1e18, 1e18, True), (-1e20, 1e19, False), (float("nan"), 1.0, False),
    (1.0, float("-inf"), False), (0.0, float("inf"), False),
])  # fmt: skip
def test_the_factors_tell_whether_the_products_are_finite(row, column, finite):
    rows, columns = torch.full((2, 3, 4), 0.5), torch.full((2, 3, 5), 0.5)
    rows[1, 2, 3], columns[1, 2, 4] = row, column
    products = GradientProducts(rows, columns, torch.Size((4, 5)))
    assert (products.bound() < 2.0**127) is finite
    assert products.all().abs().max() <= products.bound() or not finite
    assert GradientProducts(rows[:, :0], columns[:, :0], torch.Size((4, 5))).bound() == 0


def test_gradients_are_left_only_where_that_is_asked_for():
    batches = [batch(0, rank) for rank in range(4)]
    full = batched_gradients(net(), default_loss, batches, range(4))
    part = batched_gradients(net(), default_loss, batches, range(4), leave=lambda name, nbytes: nbytes > 20_000)
    assert not full.products and full.bound() <= part.bound() < 1e6
    assert part.products.keys() == full.gradients.keys() - part.gradients.keys() == {"3.weight"}
    assert torch.equal(part.products["3.weight"].all(), full.gradients["3.weight"])


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_ctrl_c_splits_no_step(engine, monkeypatch):
    one, other = (Learners(net(), default_loss, batch, ScaleCom(chunk=20), 7, engine=engine) for _ in range(2))
    step = one.optimizer.step
    monkeypatch.setattr(one.optimizer, "step", lambda: (signal.raise_signal(signal.SIGINT), step()))
    with pytest.raises(KeyboardInterrupt):
        one.one_step()
    monkeypatch.undo()
    monkeypatch.setattr(computed_gradients, "BLOCK_BYTES", 20_000)
    other.one_step()
    assert one.step == other.step == 1
    one.one_step(), other.one_step()
    assert_same(one, other)


def test_the_second_ctrl_c_does_not_wait():
    reached = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        for number in range(3):
            reached.append(number)
            signal.raise_signal(signal.SIGINT)
    assert reached == [0, 1] and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_ignored_ctrl_c_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
