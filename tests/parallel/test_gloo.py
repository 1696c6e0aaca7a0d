"""Real processes over gloo against the simulator: parameters, residuals and ledgers, bit for bit."""

from functools import partial

import pytest

torch = pytest.importorskip("torch")

from lplab.parallel import Learners  # noqa: E402
from lplab.training.loop.trainer import default_loss  # noqa: E402
from tests.parallel import gloo_run  # noqa: E402

WORLDS = [3, pytest.param(2, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow)]


@pytest.fixture
def runs(ranks):
    """What the ranks of a real run ended with, by the number of ranks."""
    return partial(ranks, gloo_run)


def simulated(name, world):
    learners = Learners(gloo_run.model(), default_loss, gloo_run.batches(world), gloo_run.COMPRESSORS[name], world,
                        optimizer=gloo_run.optimizer)  # fmt: skip
    list(learners.steps(gloo_run.STEPS))
    return learners


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", gloo_run.COMPRESSORS)
def test_a_real_run_and_the_simulator_have_the_same_bits(name, world, runs):
    learners = simulated(name, world)
    parameters = dict(learners.model.named_parameters())
    for cap in (0.2, 25):
        for rank, results in enumerate(runs(world)):
            real = results[name, cap]
            assert all(torch.equal(p, real["parameters"][n]) for n, p in parameters.items())
            for layer, residual in real["residuals"].items():
                assert residual.numpy().tobytes() == learners.residuals(layer)[rank].tobytes()
            ours = [
                (e.step, e.layer, e.kind, e.rank, e.payload_bytes) for e in learners.ledger.entries if e.rank == rank
            ]
            assert real["ledger"] == sorted(ours) and ours


@pytest.mark.parametrize("world", WORLDS)
def test_a_backends_own_order_of_additions_changes_the_last_bits_alone(world, runs):
    real = runs(world)[0]["reduced"]["parameters"]
    for name, parameter in simulated("scalecom", world).model.named_parameters():
        torch.testing.assert_close(parameter.detach(), real[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("world", WORLDS)
def test_one_nan_and_all_ranks_leave_the_step_out_together(world, runs):
    for results in runs(world):
        poisoned = results["poisoned"]
        assert poisoned["made"] == [True, True, False, True, True]
        assert all(torch.isfinite(r).all() for r in poisoned["residuals"].values())
        assert all(torch.isfinite(p).all() for p in poisoned["parameters"].values())
        first = runs(world)[0]["poisoned"]["parameters"]
        assert all(torch.equal(p, first[n]) for n, p in poisoned["parameters"].items())
