"""The hook in one process: loss scaling, gradients that are not finite, and what it refuses."""

import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from lplab.compression import AdaComp, ScaleCom  # noqa: E402
from lplab.parallel import HookState, ddp_hook  # noqa: E402

if not dist.is_gloo_available():
    pytest.skip("gloo is not in this build", allow_module_level=True)


@pytest.fixture(autouse=True)
def group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def batch(step):
    generator = torch.Generator().manual_seed(step)
    return torch.randn(8, 40, generator=generator), torch.randn(8, 32, generator=generator)


def trained(compressor, steps=6, scaler=None, bad=()):
    """A run of several steps; the state of the hook, the weights, and which steps were made."""
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(40, 32))
    state = ddp_hook(model, compressor, scaler=scaler)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    made = []
    for step in range(steps):
        inputs, targets = batch(step)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets) * (float("inf") if step in bad else 1)
        (loss if scaler is None else scaler.scale(loss)).backward()
        made.append(state.apply(optimizer))
        if scaler is not None:
            scaler.update()
    return state, model.module.weight.detach().clone(), made


@pytest.mark.parametrize("compressor", [AdaComp(bin=50), ScaleCom(chunk=20, beta=0.3)], ids=repr)
def test_residues_are_in_true_units_whatever_the_scale(compressor):
    """A scale that doubles after each step changes no bit: powers of two are exact, and come off before compressing."""
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=1)
    plain, weight, _ = trained(compressor)
    scaled, other, made = trained(compressor, scaler=scaler)
    assert scaler.get_scale() == 2.0**16 and all(made)
    residues = [state.memory.states["weight"]["residue"] for state in (plain, scaled)]
    assert (residues[0] == residues[1]).all() and (residues[0] != 0).any()
    assert (weight == other).all()


@pytest.mark.parametrize("scale", [None, 2.0**10])
def test_an_infinite_gradient_is_left_out_and_lowers_the_scale(scale):
    scaler = None if scale is None else torch.amp.GradScaler("cpu", init_scale=scale)
    before, weight, _ = trained(AdaComp(bin=50), steps=3, scaler=scaler)
    assert scaler is None or scaler.get_scale() == scale
    after, other, made = trained(AdaComp(bin=50), steps=4, scaler=scaler, bad=(3,))
    assert made == [True, True, True, False] and after.skipped
    assert (weight == other).all(), "nothing was applied"
    residues = [state.memory.states["weight"]["residue"] for state in (before, after)]
    assert (residues[0] == residues[1]).all()
    assert scaler is None or scaler.get_scale() == scale / 2


def test_join_is_refused():
    model = DistributedDataParallel(nn.Linear(4, 4))
    ddp_hook(model, ScaleCom(chunk=4))
    with pytest.raises(RuntimeError, match="equally many batches"), model.join():
        model(torch.ones(2, 4)).sum().backward()


def test_other_wrappers_are_refused():
    with pytest.raises(TypeError, match="for DistributedDataParallel, got Linear; FSDP and torch.compile"):
        HookState(nn.Linear(4, 4), ScaleCom(chunk=4))
    compiled = torch.compile(nn.Linear(4, 4))
    with pytest.raises(TypeError, match="got OptimizedModule"):
        HookState(compiled, ScaleCom(chunk=4))
    with pytest.raises(TypeError, match="under torch.compile is not supported"):
        HookState(DistributedDataParallel(compiled), ScaleCom(chunk=4))
