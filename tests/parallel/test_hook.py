"""The hook in one process: loss scaling, gradients that are not finite, and what it refuses."""

import threading
from datetime import timedelta

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from lplab.compression import DGC, AdaComp, PowerSGD, ScaleCom, catalogue  # noqa: E402
from lplab.compression.compressor import AllReduce  # noqa: E402
from lplab.parallel import HookState, Learners, collectives, ddp_hook, merge_ranks  # noqa: E402

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


def trained(compressor, steps=6, scaler=None, bad=(), saved=None):
    """A run of several steps, or its remainder; the state of the hook, the weights, and which steps were made."""
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(40, 32))
    state = ddp_hook(model, compressor, scaler=scaler)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if saved is not None:
        model.module.load_state_dict({name: saved[name] for name in ("weight", "bias")})
        state.load_state_dict(saved["hook"])
    made = []
    for step in range(state.step, steps):
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
    residuals = [state.states.states["weight"]["residual"] for state in (plain, scaled)]
    assert (residuals[0] == residuals[1]).all() and (residuals[0] != 0).any()
    assert (weight == other).all()


@pytest.mark.parametrize("scale", [None, 2.0**10])
def test_an_infinite_gradient_is_left_out_and_lowers_the_scale(scale):
    scaler = None if scale is None else torch.amp.GradScaler("cpu", init_scale=scale)
    before, weight, _ = trained(AdaComp(bin=50), steps=3, scaler=scaler)
    assert scaler is None or scaler.get_scale() == scale
    after, other, made = trained(AdaComp(bin=50), steps=4, scaler=scaler, bad=(3,))
    assert made == [True, True, True, False] and after.skipped
    assert (weight == other).all(), "nothing was applied"
    residuals = [state.states.states["weight"]["residual"] for state in (before, after)]
    assert (residuals[0] == residuals[1]).all()
    assert scaler is None or scaler.get_scale() == scale / 2


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
@pytest.mark.parametrize("as_view", [False, True], ids=["copied", "bucket views"])
def test_a_plain_step_of_the_optimizer_after_a_skipped_one_changes_nothing(kind, as_view):
    """Zero gradients would not do: momentum, weight decay and Adam's step count would go on."""
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(200, 200), nn.Linear(200, 200))
    model = DistributedDataParallel(layers, bucket_cap_mb=0.1, gradient_as_bucket_view=as_view)
    hook = ddp_hook(model, "scalecom:chunk=20")
    options = {"momentum": 0.9} if kind is torch.optim.SGD else {}
    optimizer = kind(model.parameters(), lr=0.1, weight_decay=0.1, **options)
    layers[0].weight.register_hook(lambda g: g * float("nan") if hook.step == 2 else g)
    seen = []
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.ones(4, 200)).pow(2).mean().backward()
        gradients = [p.grad for p in model.parameters()]
        assert all(g is None for g in gradients) if hook.skipped else all(g.any() for g in gradients)
        optimizer.step()
        moments = [value for state in optimizer.state.values() for value in state.values()]
        seen.append([torch.as_tensor(t).detach().clone() for t in (*model.parameters(), *moments)])
    assert all(torch.equal(a, b) for a, b in zip(seen[1], seen[2], strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(seen[2], seen[3], strict=True))


def test_a_compressor_by_its_name():
    model = DistributedDataParallel(nn.Linear(40, 32))
    assert ddp_hook(model, "scalecom:chunk=112").states.compressor == ScaleCom(chunk=112)
    with pytest.raises(ValueError, match="did you mean scalecom"):
        ddp_hook(DistributedDataParallel(nn.Linear(4, 4)), "scalcom")


@pytest.mark.cuda
@pytest.mark.parametrize("text", [name for name in catalogue.names() if name != "powersgd"])
def test_a_gpu_has_the_bits_of_the_cpu(text):
    """From the same gradients: the hook's averages and residuals, over gloo."""
    averages, states = [], []
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        model = DistributedDataParallel(nn.Linear(40, 32).to(device))
        hook = ddp_hook(model, text)
        weight = torch.randn(32, 40).to(device)
        for _ in range(3):
            model.zero_grad()
            model(torch.eye(40, device=device)).backward(weight.T)  # the gradient of the weight is this matrix itself
        averages.append(model.module.weight.grad.cpu())
        states.append(hook.states.states["weight"].arrays())
        assert (not hook.devices) == (device == "cpu")
    assert torch.equal(*averages) and states[0].keys() == states[1].keys()
    assert all((array == states[1][name]).all() for name, array in states[0].items())


def test_a_checkpoint_without_the_hook_is_named(tmp_path):
    dcp = pytest.importorskip("torch.distributed.checkpoint")
    hook = ddp_hook(DistributedDataParallel(nn.Linear(40, 32)), ScaleCom(chunk=20))
    dcp.save({"model": hook.model.module.state_dict()}, checkpoint_id=tmp_path / "model")
    with pytest.raises(ValueError, match="holds no state of lplab's hook: save hook.checkpoint"):
        hook.checkpoint(tmp_path / "model")


@pytest.mark.parametrize("text", [*catalogue.names(), "dense:wire=fp16", "dense:wire=bf16"])
def test_every_compressor_runs_over_gloo_on_a_cpu(text):
    """Elsewhere some need a GPU, bfloat16 is refused on CPUs, and 8-bit hooks fail inside the future."""
    compressor = catalogue.get(text)
    _, weight, made = trained(compressor, steps=3)
    torch.manual_seed(0)
    mse = nn.functional.mse_loss
    simulated = Learners(nn.Linear(40, 32), mse, lambda step, rank: batch(step), compressor, 1)
    list(simulated.steps(3))
    assert made == [True] * 3 and torch.equal(simulated.model.weight, weight)


@pytest.mark.parametrize(("wire", "most"), [("fp16", 65_504.0), ("fp32", 160_000.0)])
def test_a_sum_that_half_precision_cannot_hold_becomes_its_largest_number(wire, most, monkeypatch):
    """A backend adds half precision in half precision: four ranks with 40,000 each were infinite."""
    monkeypatch.setattr(collectives.dist, "all_reduce", lambda values, group=None: values.mul_(4))
    request = AllReduce(np.array([4e4, -4e4, 1.0], np.float32), wire)
    (total,) = collectives.ProcessGroupTransport(ordered=False).perform([request])
    assert total.tolist() == [most, -most, 4.0]


@pytest.mark.parametrize("overlap", [True, False], ids=["behind", "waiting"])
def test_the_backward_pass_goes_on_while_a_bucket_is_exchanged(overlap, monkeypatch):
    """The last layer's bucket is not exchanged until the first layer has its gradient: which holds only behind."""
    layers = nn.Sequential(nn.Linear(200, 200), nn.Linear(200, 200))
    model = DistributedDataParallel(layers, bucket_cap_mb=0.1)
    hook = ddp_hook(model, ScaleCom(chunk=20), overlap=overlap)
    reached, seen, perform = threading.Event(), [], hook.transport.perform

    def wait_and_perform(requests):
        seen.append(reached.wait(30 if overlap else 0.2))
        return perform(requests)

    model(torch.ones(4, 200)).sum().backward()  # buckets are made anew after the first step
    monkeypatch.setattr(hook.transport, "perform", wait_and_perform)
    layers[0].weight.register_hook(lambda gradient: reached.set())
    model(torch.ones(4, 200)).sum().backward()
    assert seen[0] == overlap and seen[-1]


def test_an_error_behind_the_backward_pass_is_raised_by_it_and_by_all_that_follow(monkeypatch):
    """The other ranks may be elsewhere by then; and DistributedDataParallel is not left in an odd state."""
    model = DistributedDataParallel(nn.Linear(40, 32))
    hook = ddp_hook(model, ScaleCom(chunk=20))
    with monkeypatch.context() as broken:
        broken.setattr(hook, "average", lambda names, gradients: [][0])
        with pytest.raises(IndexError, match="list index out of range"):
            model(torch.ones(2, 40)).sum().backward()
    with pytest.raises(IndexError, match="list index out of range"):
        model(torch.ones(2, 40)).sum().backward()
    assert hook.step == 0


def test_a_hook_leaves_the_groups_of_others_alone_and_keeps_their_timeout():
    dist.destroy_process_group()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1, timeout=timedelta(seconds=77))
    for group in (None, dist.group.WORLD, dist.new_group([0], timeout=timedelta(seconds=77))):
        own = collectives.own_group(group)
        assert own is not (group or dist.group.WORLD) and dist.get_process_group_ranks(own) == [0]
        assert own._get_backend(torch.device("cpu")).options._timeout == timedelta(seconds=77)


def test_join_is_refused():
    model = DistributedDataParallel(nn.Linear(4, 4))
    ddp_hook(model, ScaleCom(chunk=4))
    with pytest.raises(RuntimeError, match="equally many batches"), model.join():
        model(torch.ones(2, 4)).sum().backward()


def test_a_gradient_that_is_bad_in_one_bucket_alone_takes_the_others_with_it():
    """The last layer's bucket comes first and is averaged; then the first layer's turns out to be NaN."""
    model = DistributedDataParallel(nn.Sequential(nn.Linear(200, 200), nn.Linear(200, 200)), bucket_cap_mb=0.1)
    state, optimizer = ddp_hook(model, ScaleCom(chunk=20)), torch.optim.SGD(model.parameters(), lr=0.1)
    model.module[0].weight.register_hook(lambda g: g * float("nan") if state.step == 2 else g)
    made, seen = [], []
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.ones(4, 200)).pow(2).mean().backward()
        made.append(state.apply(optimizer))
        residuals = [s["residual"].copy() for s in state.states.states.values() if "residual" in s]
        seen.append((model.module[1].weight.detach().clone(), residuals))
    assert made == [True, True, False, True] and state.ledger.total(step=2, layer="1.weight") > 0
    for before, after, same in ((seen[1], seen[2], True), (seen[2], seen[3], False)):
        assert torch.equal(before[0], after[0]) == same
        assert all((a == b).all() for a, b in zip(before[1], after[1], strict=True)) == same


@pytest.mark.parametrize("compressor", [AdaComp(bin=50), ScaleCom(chunk=20, beta=0.3), DGC(0.1), PowerSGD(2)], ids=repr)
def test_a_checkpoint_of_the_hook_goes_on_bit_for_bit(compressor, tmp_path):
    through, weight, _ = trained(compressor, steps=6)
    first, model = trained(compressor, steps=3)[:2]
    torch.save({"hook": first.state_dict(), "weight": model}, tmp_path / "rank0.pt")
    saved = torch.load(tmp_path / "rank0.pt", weights_only=True)
    second, other, _ = trained(compressor, steps=6, saved=first.model.module.state_dict() | {"hook": saved["hook"]})
    assert torch.equal(weight, other) and second.step == 6
    for name, array in through.states.states["weight"].arrays().items():
        assert (array == second.states.states["weight"][name]).all()


def test_a_checkpoint_says_whose_it_is():
    state = trained(AdaComp(bin=50), steps=2)[0]
    saved = state.state_dict()
    with pytest.raises(ValueError, match="rank 1 of 4, here is rank 0 of 1; .* save portable_state_dict"):
        state.load_state_dict(saved | {"rank": 1, "world": 4})
    with pytest.raises(ValueError, match="version 9, this lplab reads version 1"):
        state.load_state_dict(saved | {"version": 9})
    state.load_state_dict(saved | {"rank": None, "world": None})
    assert state.step == 2


def test_the_states_of_all_ranks_make_one_for_any_number_of_ranks():
    states = [trained(AdaComp(bin=50), steps=steps)[0] for steps in (2, 3)]
    first, other = (state.state_dict() | {"world": 2, "rank": rank} for rank, state in enumerate(states))
    mean = (first["layers"]["weight"]["residual"] + other["layers"]["weight"]["residual"]) / 2
    states[0].load_state_dict(merge_ranks([first, other]))
    assert (states[0].states.states["weight"]["residual"] == mean.numpy()).all() and mean.any()
    assert torch.equal(states[0].portable_state_dict()["layers"]["weight"]["residual"], mean), "the mean of one rank"


def test_other_wrappers_are_refused():
    with pytest.raises(TypeError, match="for DistributedDataParallel, got Linear; FSDP and torch.compile"):
        HookState(nn.Linear(4, 4), ScaleCom(chunk=4))
    compiled = torch.compile(nn.Linear(4, 4))
    with pytest.raises(TypeError, match="got OptimizedModule"):
        HookState(compiled, ScaleCom(chunk=4))
    with pytest.raises(TypeError, match="under torch.compile is not supported"):
        HookState(DistributedDataParallel(compiled), ScaleCom(chunk=4))


def test_models_that_are_compiled_in_place_are_refused():
    inner, outer = nn.Linear(4, 4), DistributedDataParallel(nn.Linear(4, 4))
    inner.compile()
    outer.compile()
    for model in (DistributedDataParallel(inner), outer):
        with pytest.raises(TypeError, match="under torch.compile is not supported"):
            HookState(model, ScaleCom(chunk=4))


def test_numbers_that_cannot_travel_are_refused():
    model = nn.Module()
    model.weight = nn.Parameter(torch.ones(3, 3, dtype=torch.complex64))
    with pytest.raises(TypeError, match="complex parameters"):
        HookState(DistributedDataParallel(model), ScaleCom(chunk=4))
    sparse = DistributedDataParallel(nn.Embedding(50, 40, sparse=True))
    ddp_hook(sparse, ScaleCom(chunk=4))
    with pytest.raises(TypeError, match="sparse=False"):
        sparse(torch.tensor([1, 2])).sum().backward()
    with pytest.raises(TypeError, match=r"lplab.compression.get makes one of a name, got 'scalecom'"):
        HookState(DistributedDataParallel(nn.Linear(4, 4)), "scalecom")


@pytest.mark.parametrize(("finite", "skipped"), [((True, True), False), ((False, True), True), ((True, False), True)])
def test_nan_in_any_bucket_undoes_the_whole_step(finite, skipped):
    state = ddp_hook(DistributedDataParallel(nn.Linear(40, 32)), ScaleCom(chunk=20))
    for number, is_finite in enumerate(finite, 1):
        state.bucket_done(is_finite, is_last=number == len(finite))
    assert state.skipped == skipped and state.step == 1
