"""The hook in one process: loss scaling, gradients that are not finite, and what it refuses."""

import copy
import gc
import threading
import weakref
from contextlib import nullcontext
from datetime import timedelta
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from lplab.compression import DGC, AdaComp, Dense, NotFiniteError, PowerSGD, ScaleCom, compressor_catalogue  # noqa: E402
from lplab.compression.compressor import AllReduce  # noqa: E402
from lplab.compression.ratios import total_wire_bytes  # noqa: E402
from lplab.parallel import HookState, Learners, ddp_hook, merge_ranks, process_group  # noqa: E402
from lplab.parallel.bucket_queue import BucketQueue  # noqa: E402

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
    """A run of several steps, or its remainder: the hook, the weights, which steps were made, the model."""
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(40, 32))
    state = ddp_hook(model, compressor, scaler=scaler, ordered=True)
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
    return state, model.module.weight.detach().clone(), made, model


@pytest.mark.parametrize("compressor", [AdaComp(bin=50), ScaleCom(chunk=20, beta=0.3)], ids=repr)
def test_residues_are_in_true_units_whatever_the_scale(compressor):
    """A scale that doubles after each step changes no bit: powers of two are exact, and come off before compressing."""
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=1)
    plain, weight, *_ = trained(compressor)
    scaled, other, made, _ = trained(compressor, scaler=scaler)
    assert scaler.get_scale() == 2.0**16 and all(made)
    residuals = [state.states.states["weight"]["residual"] for state in (plain, scaled)]
    assert (residuals[0] == residuals[1]).all() and (residuals[0] != 0).any()
    assert (weight == other).all()


@pytest.mark.parametrize("scale", [None, 2.0**10])
def test_an_infinite_gradient_is_left_out_and_lowers_the_scale(scale):
    scaler = None if scale is None else torch.amp.GradScaler("cpu", init_scale=scale)
    before, weight, *_ = trained(AdaComp(bin=50), steps=3, scaler=scaler)
    assert scaler is None or scaler.get_scale() == scale
    after, other, made, _ = trained(AdaComp(bin=50), steps=4, scaler=scaler, bad=(3,))
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
@pytest.mark.parametrize("text", [name for name in compressor_catalogue.names() if name not in ("powersgd", "demo")])
def test_a_gpu_has_the_bits_of_the_cpu(text):
    """From the same gradients: the hook's averages and residuals, over gloo."""
    averages, states = [], []
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        model = DistributedDataParallel(nn.Linear(40, 32).to(device))
        hook = ddp_hook(model, text, ordered=True)
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
    model = DistributedDataParallel(nn.Linear(40, 32))
    hook = ddp_hook(model, ScaleCom(chunk=20))
    dcp.save({"model": model.module.state_dict()}, checkpoint_id=tmp_path / "model")
    with pytest.raises(ValueError, match="holds no state of lplab's hook: save hook.checkpoint"):
        hook.checkpoint(tmp_path / "model")


@pytest.mark.parametrize("text", [*compressor_catalogue.names(), "dense:wire=fp16", "dense:wire=bf16"])
def test_every_compressor_runs_over_gloo_on_a_cpu(text):
    """Elsewhere some need a GPU, bfloat16 is refused on CPUs, and 8-bit hooks fail inside the future."""
    compressor = compressor_catalogue.get(text)
    _, weight, made, _ = trained(compressor, steps=3)
    torch.manual_seed(0)
    mse = nn.functional.mse_loss
    simulated = Learners(nn.Linear(40, 32), mse, lambda step, rank: batch(step), compressor, 1)
    list(simulated.steps(3))
    assert made == [True] * 3 and torch.equal(simulated.model.weight, weight)


def test_sums_of_several_layers_and_formats_are_two_all_reduces(monkeypatch):
    """One for each format; each layer receives its part."""
    sums = []
    monkeypatch.setattr(process_group.dist, "all_reduce", lambda values, group=None: sums.append(values.mul_(4)))
    sizes, wires = (2, 3, 1), ("fp32", "fp16", "fp32")
    requests = [AllReduce(np.full(n, n, np.float32), wire) for n, wire in zip(sizes, wires, strict=True)]
    totals = process_group.ProcessGroupTransport().perform(requests)
    assert [total.tolist() for total in totals] == [[8.0] * 2, [12.0] * 3, [4.0]] and len(sums) == 2
    assert all((request.values == len(request.values)).all() for request in requests), "as they were"


@pytest.mark.parametrize("scaled", [False, True])
def test_a_sum_that_half_precision_cannot_hold_skips_the_step_and_says_so(scaled, monkeypatch):
    """A backend adds half precision in half precision: four ranks with 40,000 each are infinite, not 65,504."""
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0) if scaled else None
    model = DistributedDataParallel(nn.Linear(40, 32))
    hook, optimizer = ddp_hook(model, "dense:wire=fp16", scaler=scaler), torch.optim.SGD(model.parameters(), lr=0.1)
    before, all_reduce = model.module.weight.detach().clone(), process_group.dist.all_reduce

    def four_ranks(values, *arguments, **options):
        all_reduce(values, *arguments, **options)
        if values.dtype == torch.float16:
            values.mul_(4)

    monkeypatch.setattr(process_group.dist, "all_reduce", four_ranks)
    for size in (1.0, 4e4):
        optimizer.zero_grad()
        loss = (model(torch.ones(1, 40)) * size).sum()
        (loss if scaler is None else scaler.scale(loss)).backward()
        if size == 1.0:
            assert not hook.skipped and hook.not_finite is None and model.module.weight.grad.any()
    assert hook.skipped and hook.step == 2
    assert hook.not_finite == "a sum over 1 ranks is too large for fp16, in the bucket bias, weight in step 1"
    hook.apply(optimizer)
    assert torch.equal(model.module.weight, before)


def test_float32_holds_the_sum_that_half_precision_cannot(monkeypatch):
    monkeypatch.setattr(process_group.dist, "all_reduce", lambda values, group=None: values.mul_(4))
    request = AllReduce(np.array([4e4, -4e4, 1.0], np.float32))
    (total,) = process_group.ProcessGroupTransport().perform([request])
    assert total.tolist() == [160_000.0, -160_000.0, 4.0]


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
    model.zero_grad()
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
        own = process_group.own_group(group)
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
    through, weight, *_ = trained(compressor, steps=6)
    first, _, _, model = trained(compressor, steps=3)
    torch.save({"hook": first.state_dict(), "weight": model.module.weight}, tmp_path / "rank0.pt")
    saved = torch.load(tmp_path / "rank0.pt", weights_only=True)
    second, other, *_ = trained(compressor, steps=6, saved=model.module.state_dict() | {"hook": saved["hook"]})
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
    for state in (first, other):
        state["layers"]["weight"]["residual"].fill_(3e38)
    merged = merge_ranks([first, other])["layers"]["weight"]["residual"]
    assert (merged == np.float32(3e38)).all(), "whose sum overflows"


def test_the_mean_of_residuals_whose_sum_overflows(monkeypatch):
    hook, all_reduce = small()[1], dist.all_reduce
    hook.states.states["weight"].load({"residual": np.full(32 * 40, 3e38, np.float32)})
    hook.transport.world = 4

    def four_ranks(values, *arguments, **options):
        all_reduce(values, *arguments, **options)
        values.mul_(4)

    monkeypatch.setattr(dist, "all_reduce", four_ranks)
    assert (hook.portable_state_dict()["layers"]["weight"]["residual"] == np.float32(3e38)).all()


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


# -- parameters that do not lie in memory as their indices go ----------------------------------------------------------

LAYOUTS = {
    "transposed": lambda: torch.zeros(50, 40).T,
    "channels last": lambda: torch.zeros(8, 6, 3, 3).to(memory_format=torch.channels_last),
    "permuted": lambda: torch.zeros(4, 15, 20).permute(2, 0, 1),
    "with gaps": lambda: torch.zeros(40, 100)[:, ::2],
    "transposed, with gaps": lambda: torch.zeros(40, 100)[:, ::2].T,
    "one row": lambda: torch.zeros(60, 1).T,
    "half precision": lambda: torch.zeros(50, 40, dtype=torch.bfloat16).T,
    "a number": lambda: torch.zeros(()),
    "empty": lambda: torch.zeros(0, 3),
}
STRIDED = ["powersgd:rank=1", "onebit", "dgc:density=0.1", "adacomp:bin=10,small=compressed", "signsgd:momentum=0.9"]


class Products(nn.Module):
    """The sum of a parameter, used twice, times the input; a vector, so that there is always something to train."""

    def __init__(self, values):
        super().__init__()
        self.weight, self.vector = nn.Parameter(values), nn.Parameter(torch.zeros(3))
        self.tied, self.counts = self.weight, nn.Parameter(torch.arange(4), requires_grad=False)

    def forward(self, factor):
        return (self.weight * factor).float().sum() + (self.tied * factor).float().sum() + self.vector.sum()


def products(values, compressor, as_view=False, saved=None, change=None, steps=3):
    """Averages and states after some steps; ``change`` is called with the step and the model before each."""
    ddp = DistributedDataParallel(Products(values), gradient_as_bucket_view=as_view)
    hook, averages = ddp_hook(ddp, compressor, ordered=True), []
    if saved is not None:
        hook.load_state_dict(saved)
    for step in range(hook.step, hook.step + steps):
        if change is not None:
            change(step, ddp)
        ddp.zero_grad()
        factor = torch.randn(values.shape, generator=torch.Generator().manual_seed(step))
        ddp(factor.to(values.dtype)).backward()
        averages.append(ddp.module.weight.grad.clone())
    return averages, hook.state_dict()


def assert_same(one, other):
    assert one[1]["step"] == other[1]["step"]
    assert all(torch.equal(average, same) for average, same in zip(one[0], other[0], strict=True))
    assert all(torch.equal(a, other[1]["layers"][n][k]) for n, of in one[1]["layers"].items() for k, a in of.items())


@pytest.mark.parametrize("as_view", [False, True], ids=["copied", "bucket views"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_parameter_is_compressed_by_its_indices_however_it_lies_in_memory(layout, as_view):
    """Also after a checkpoint of the other layout, with its momentum, residual and Q."""
    values = LAYOUTS[layout]()
    for compressor in STRIDED:
        plain = products(values.contiguous(), compressor)
        strided = products(values, compressor, as_view)
        assert_same(plain, strided)
        on = [products(v, compressor, as_view, s[1]) for v, s in ((values.contiguous(), strided), (values, plain))]
        assert_same(*on)
        assert values.numel() < 2 or not torch.equal(on[0][0][0], plain[0][0])


@pytest.mark.parametrize("as_view", [False, True], ids=["copied", "bucket views"])
@pytest.mark.parametrize("first", [0, 1, 2])
def test_a_layout_may_change_between_steps(first, as_view):
    """DistributedDataParallel lays out its buckets when it is made and after its first step, not in others."""

    def change(step, ddp):
        if step == first:
            ddp.to(memory_format=torch.channels_last)

    values = torch.zeros(8, 6, 3, 3)
    assert_same(products(values, "onebit", steps=4), products(values, "onebit", as_view, change=change, steps=4))


def test_a_gradient_in_another_layout_than_its_parameter():
    def change(step, ddp):
        if step == 0:
            ddp.module.weight.register_hook(lambda gradient: gradient.T.contiguous().T)

    assert_same(products(torch.zeros(40, 50), "onebit"), products(torch.zeros(40, 50), "onebit", change=change))


def test_a_checkpoint_of_a_strided_parameter_serves_the_simulator():
    """Which has the other layout, and goes on with the same bits."""
    saved = products(LAYOUTS["transposed"](), "topk:density=0.1")[1]
    (on,), _ = products(LAYOUTS["transposed"](), "topk:density=0.1", saved=saved, steps=1)

    def batches(step, rank):
        return torch.randn(40, 50, generator=torch.Generator().manual_seed(step)), None

    model = Products(torch.zeros(40, 50))
    simulated = Learners(model, lambda output, _: output, batches, compressor_catalogue.get("topk:density=0.1"), 1)
    simulated.load_state_dict(simulated.state_dict() | {"memories": [saved], "step": saved["step"]})
    simulated.one_step()
    assert torch.equal(model.weight.grad, on)


# -- what overflows on the way -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlap", [True, False], ids=["behind", "waiting"])
@pytest.mark.parametrize(("compressor", "dtype", "scale", "sizes", "problem"), [
    ("topk:density=0.001", torch.float32, None, (2e38, 2e38),
     "what TopK(density=0.001, error_feedback=True, wire='fp32') makes of the gradient of weight on rank 0 in step 1"),
    ("qsgd", torch.float32, None, (1.0, 3e38),
     "what QSGD(levels=7, bucket=512) makes of the gradient of weight on rank 0 in step 1"),
    ("topk:density=0.001", torch.float16, None, (3e4, 4e4),
     "an average is too large for float16, in the bucket vector, weight in step 1"),
    ("onebit", torch.float16, 4.0, (1.0, 6e4), "the gradient of weight on rank 0 in step 1"),
    ("topk:density=0.001", torch.float16, 4.0, (1e4, 1e4),
     "an average is too large for float16, in the bucket vector, weight in step 1"),
    ("dense", torch.float64, None, (1.0, 1e200), "the gradient of weight on rank 0 in step 1"),
])  # fmt: skip
def test_what_overflows_skips_the_step_and_the_next_one_is_made(compressor, dtype, scale, sizes, problem, overlap):
    """Sum with a residual, number in a message, average in its dtype, the same with a scale, gradient in float32."""
    scaler = None if scale is None else torch.amp.GradScaler("cpu", init_scale=scale)
    model = nn.Module()
    model.weight, model.vector = nn.Parameter(torch.zeros(40, 50, dtype=dtype)), nn.Parameter(torch.zeros(3).to(dtype))
    model.forward = lambda factor: (model.weight.double() * factor).sum() + model.vector.double().sum()
    ddp = DistributedDataParallel(model)
    hook = ddp_hook(ddp, compressor, scaler=scaler, overlap=overlap)
    for step, size in enumerate((*sizes, 1.0)):
        ddp.zero_grad()
        before = hook.state_dict()["layers"]
        loss = ddp(torch.full((40, 50), size, dtype=torch.float64))
        (loss if scaler is None else scaler.scale(loss)).backward()
        gradients, after = [p.grad for p in model.parameters()], hook.state_dict()["layers"]
        assert hook.skipped == (step == 1)
        if hook.skipped:
            assert all(g is None if scaler is None else g.isinf().all() for g in gradients)
            assert all(torch.equal(array, after[n][key]) for n, of in before.items() for key, array in of.items())
        else:
            assert all(g.isfinite().all() for g in gradients)
    assert hook.not_finite == problem


def test_a_compressor_that_gives_up_after_its_first_message_ends_in_an_error():
    """The other ranks may not have noticed anything."""

    class GivesUp(Dense):
        def steps(self, gradient, state, context):
            yield from super().steps(gradient, state, context)
            raise NotFiniteError("the residual holds NaN or infinity")

    model = DistributedDataParallel(nn.Linear(40, 32))
    ddp_hook(model, GivesUp())
    with pytest.raises(
        RuntimeError, match=r"the residual holds NaN or infinity \(raised after the first request, when"
    ):
        backward(model)


# -- what a reviewer found ---------------------------------------------------------------------------------------------


def small(**options):
    """A model with a hook, and its optimizer."""
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(40, 32))
    return model, ddp_hook(model, "scalecom:chunk=20", **options), torch.optim.SGD(model.parameters(), lr=0.1)


def backward(model, factor=1.0):
    (model(torch.ones(2, 40)).pow(2).mean() * factor).backward()


def test_sums_are_all_reduced_unless_the_simulators_bits_are_asked_for():
    assert not small()[1].transport.ordered and small(ordered=True)[1].transport.ordered


def test_messages_over_nccl_are_on_the_device_of_the_model_not_the_current_one(monkeypatch):
    """The current device is 0 in a script that forgets to set it: all ranks of a machine would share one GPU."""
    monkeypatch.setattr(process_group.dist, "get_backend_config", lambda group=None: "cpu:gloo,cuda:nccl")
    monkeypatch.setattr(process_group.dist, "get_backend", lambda group=None: "nccl")
    second, cpu = torch.device("cuda", 1), torch.device("cpu")
    assert process_group.ProcessGroupTransport(device=second).device == second
    assert process_group.ProcessGroupTransport(device=cpu).device == cpu
    assert small(overlap=False)[1].transport.device == cpu, "where the model is"
    monkeypatch.setattr(process_group.dist, "get_backend_config", lambda group=None: "cuda:gloo")
    assert process_group.ProcessGroupTransport(device=second).device == cpu


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("between", ["nothing", "clipped", "accumulated"])
def test_an_average_is_not_compressed_again(between, overlap):
    """PyTorch adds the second pass's gradients to the first one's average: errors would add up."""
    model, hook, optimizer = small(overlap=overlap)
    backward(model)
    if between == "clipped":
        nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    if between == "accumulated":
        with model.no_sync():
            backward(model)
    with pytest.raises(RuntimeError, match=r"use no_sync\(\) for all but the last backward pass of a step"):
        backward(model)
    assert hook.step == 1
    optimizer.zero_grad()
    backward(model)
    assert hook.step == 2 and not hook.skipped, "the mended loop goes on"


@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("as_view", [False, True], ids=["copied", "bucket views"])
def test_gradients_that_were_cleared_are_compressed(set_to_none, as_view):
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(40, 32), gradient_as_bucket_view=as_view)
    hook, optimizer = ddp_hook(model, "scalecom:chunk=20"), torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = model(torch.ones(2, 40)).pow(2).mean()
        optimizer.zero_grad(set_to_none=set_to_none)  # behind the forward pass, as many write it
        with model.no_sync():
            backward(model)
        loss.backward()
        torch.autograd.grad(model.module(torch.ones(2, 40)).sum(), list(model.parameters()))  # adds to no gradient
        nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        optimizer.step()
    assert hook.step == 3


@pytest.mark.parametrize("bad", ["0.weight", "1.weight"])
def test_two_optimizers_under_a_scaler_skip_the_same_steps(bad):
    """The scaler looks at one optimizer's gradients at a time: the one without the bad bucket made its step."""
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(200, 200), nn.Linear(200, 200))
    model = DistributedDataParallel(layers, bucket_cap_mb=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    hook = ddp_hook(model, "scalecom:chunk=20", scaler=scaler)
    optimizers = [torch.optim.SGD(layer.parameters(), lr=0.1) for layer in layers]
    layers.get_parameter(bad).register_hook(lambda g: g * float("nan") if hook.step == 2 else g)
    changed = []
    for _ in range(4):
        before = [p.detach().clone() for p in model.parameters()]
        model.zero_grad()
        scaler.scale(model(torch.ones(4, 200)).pow(2).mean()).backward()
        for optimizer in optimizers:
            hook.apply(optimizer)
        scaler.update()
        changed.append([not torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True)])
    assert changed == [[True] * 4, [True] * 4, [False] * 4, [True] * 4] and scaler.get_scale() == 2.0


@pytest.mark.parametrize("overlap", [True, False])
def test_a_model_that_is_not_used_any_more_is_freed_with_its_hook(overlap):
    """PyTorch's reducer keeps the hook's state, where Python's garbage collector does not look."""
    model, hook, _ = small(overlap=overlap)
    backward(model)
    dead = weakref.ref(model), weakref.ref(model.module.weight)
    del model, _
    gc.collect()
    assert [reference() for reference in dead] == [None, None]
    with pytest.raises(ReferenceError, match="the model of this hook has been deleted"):
        print(hook.model)
    dead = weakref.ref(hook)
    del hook
    gc.collect()
    assert dead() is None


def test_a_closed_hook_has_no_thread_and_no_group():
    world = dist.distributed_c10d._world
    before, groups = set(threading.enumerate()), len(world.pg_map)  # threads of other tests may end meanwhile
    model, hook, _ = small()
    backward(model)
    (own,) = set(threading.enumerate()) - before
    assert len(world.pg_map) == groups + 1
    hook.close()
    assert not own.is_alive() and set(threading.enumerate()) <= before and len(world.pg_map) == groups


def test_the_traffic_log_keeps_recent_entries_and_the_sum_of_all(monkeypatch):
    monkeypatch.setattr("lplab.parallel.process_group.KEPT_ENTRIES", 6)  # two steps: indices, values, and a bias
    model, hook, optimizer = small()
    for _ in range(10):
        optimizer.zero_grad()
        backward(model)
    each = hook.ledger.total(step=9)
    assert 6 <= len(hook.ledger.entries) < 12 and hook.ledger.total() == 10 * each > 0
    assert total_wire_bytes(hook.ledger.with_older(), 4) == pytest.approx(
        10 * total_wire_bytes([e for e in hook.ledger.entries if e.step == 9], 4)
    )
    with pytest.raises(ValueError, match=r"entries up to step \d are kept as sums .* asked for step 0: read it sooner"):
        hook.ledger.total(step=0)


class Bucket:
    """As much of a tensor on a GPU as the queue looks at."""

    is_cuda = True

    def __init__(self, device):
        self.device = device


@pytest.fixture
def no_gpu(monkeypatch):
    """Streams and Futures of GPUs where there is none; the streams that were made."""
    made, future = [], torch.futures.Future
    event = SimpleNamespace(wait=lambda: None)
    monkeypatch.setattr(torch.futures, "Future", lambda devices=None: future())
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: made.append(device) or SimpleNamespace(device=device))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(record_event=lambda: event))
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    return SimpleNamespace(streams=made, event=event)


def test_each_device_has_a_stream_of_its_own(no_gpu):
    queue, done = BucketQueue(), []
    for number in (0, 1, 0):
        bucket = Bucket(torch.device("cuda", number))
        assert queue.submit(lambda: done.append(1), bucket).wait() is bucket
    assert no_gpu.streams == [torch.device("cuda", 0), torch.device("cuda", 1)] and len(done) == 3


def test_a_device_that_fails_before_the_exchange_completes_the_future(no_gpu):
    """The backward pass waited for ever."""
    queue, bucket = BucketQueue(), Bucket(torch.device("cuda", 0))
    no_gpu.event.wait = lambda: [][0]
    future = queue.submit(lambda: None, bucket)
    queue.wait()
    assert future.done() and future.value() is bucket and isinstance(queue.error, IndexError)


def test_a_future_that_takes_no_result_gets_the_exception():
    queue, future = BucketQueue(), torch.futures.Future()
    broken = SimpleNamespace(done=future.done, set_exception=future.set_exception, set_result=lambda value: [][0])
    queue._run(lambda: None, torch.ones(2), broken)
    with pytest.raises(IndexError, match="list index out of range"):
        future.wait()


@pytest.mark.parametrize("overlap", [True, False])
def test_an_error_of_memory_is_no_lost_rank(overlap, monkeypatch):
    model, hook, _ = small(overlap=overlap)

    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr(hook, "average", full)
    with pytest.raises(torch.OutOfMemoryError, match="^CUDA out of memory. Tried to allocate 2 GiB$"):
        backward(model)


def test_a_loaded_state_ends_an_error_and_forgets_the_step_in_which_it_was(monkeypatch):
    model, hook, optimizer = small()
    backward(model)
    saved, weights = hook.state_dict(), copy.deepcopy(model.module.state_dict())
    residual = saved["layers"]["weight"]["residual"].numpy().copy()
    with monkeypatch.context() as broken:
        broken.setattr(hook, "average", lambda names, gradients: [][0])
        for _ in range(2):
            optimizer.zero_grad()
            with pytest.raises(IndexError):
                backward(model)
    hook.states.states["weight"].propose(residual=np.ones_like(residual))  # what an unfinished step leaves
    hook.finite, hook.skipped = False, True
    hook.load_state_dict(saved)
    model.module.load_state_dict(weights)
    assert (hook.step, hook.skipped, hook.finite, hook.ledger.total()) == (1, False, True, 0)
    hook.states.commit()
    assert (hook.states.states["weight"]["residual"] == residual).all()
    optimizer.zero_grad()
    backward(model)
    assert hook.step == 2 and not hook.skipped
    other, same, _ = small()
    other.module.load_state_dict(weights)
    same.load_state_dict(saved)
    backward(other)
    assert torch.equal(other.module.weight.grad, model.module.weight.grad), "as in a hook that never failed"


def test_a_state_that_does_not_fit_changes_nothing():
    hook = small()[1]
    saved = hook.state_dict()
    saved["layers"] = {
        "weight": {"residual": torch.ones_like(saved["layers"]["weight"]["residual"])},
        "bias": {"residual": torch.ones(3)},
    }
    with pytest.raises(ValueError, match="the checkpoint holds"):
        hook.load_state_dict(saved)
    assert not hook.states.states["weight"]["residual"].any()


def test_the_bad_gradient_is_named():
    model, hook, _ = small()
    backward(model, float("nan"))
    assert hook.skipped and hook.not_finite == "the gradient of weight, bias on rank 0 in step 0"
