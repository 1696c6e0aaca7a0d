"""The tables of PyTorch's tools in the documentation: each row is tried."""

import copy
import io
import multiprocessing
import pickle
import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.utils import parametrizations, prune
from torch.optim.swa_utils import AveragedModel, update_bn
from torch.utils.checkpoint import checkpoint

from lplab import formats
from lplab.quantizers import Amax, Quantizer
from lplab.training import dequantize_model, float32, quantize_model

PAGE = (Path(__file__).parents[3] / "docs" / "outside_models.md").read_text(encoding="utf-8")
X = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
E4M3 = formats.get("e4m3fn")
BLOCKS = formats.get("mxfp8_e4m3")


class Net(nn.Module):
    """A layer and a product that ``forward`` writes itself."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.w = nn.Linear(8, 8), nn.Parameter(torch.randn(8, 8) / 3)

    def forward(self, x):
        return torch.relu(self.layer(x)) @ self.w


class Rounds(nn.Module):
    """A module that calls a format."""

    def forward(self, x):
        return E4M3.quantize(x) * 2


def quantized(model=None, recipe="hfp8_2019", **options):
    return quantize_model(Net() if model is None else model, recipe, first=None, last=None, **options)


def refused(call, message, error=NotImplementedError):
    with pytest.raises(error, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def same(call, model, x=X):
    with torch.no_grad():
        assert torch.equal(call(x), model(x)) and torch.equal(call(2 * x), model(2 * x))


# ---- a model ---------------------------------------------------------------------------------------------------------


def jit_trace(model):
    with torch.no_grad():
        same(torch.jit.trace(model, X), model)
        refused(lambda: torch.jit.trace(quantized(recipe="pact_sawb_2019"), X), "call the model once before")


def make_fx_of_a_model(model):
    with torch.no_grad():
        same(make_fx(model)(X), model)
        same(make_fx(quantized(recipe="deepseek_2024"))(X), quantized(recipe="deepseek_2024"))
        refused(lambda: make_fx(model, tracing_mode="fake")(X), "tracing_mode='real'")
        refused(lambda: make_fx(quantized(recipe="pact_sawb_2019"))(X), "record the model with torch.jit.trace")
    refused(lambda: make_fx(model)(X), "only within `with torch.no_grad")


class FeaturesTracer(torch.fx.Tracer):
    def is_leaf_module(self, module, name):
        return isinstance(module, nn.Linear)


def symbolic_trace(model):
    for call in (torch.fx.symbolic_trace, FeaturesTracer().trace):
        refused(lambda call=call: call(model), "trace the plain model, and quantize the module that it returns")
    refused(lambda: torch.fx.symbolic_trace(nn.Sequential(model)), "trace the plain model")
    refused(lambda: torch.fx.symbolic_trace(nn.Sequential(copy.deepcopy(model))), "trace the plain model")
    traced = quantized(torch.fx.symbolic_trace(Net()))
    same(traced, model)
    same(copy.deepcopy(copy.deepcopy(traced)), model)
    same(copy.deepcopy(dequantize_model(traced)), Net())
    assert type(model).__name__ == model._get_name() and repr(model).startswith("Net(")


def jit_script(model):
    for part in (model, model.layer, nn.Sequential(model)):
        refused(lambda part=part: torch.jit.script(part), "record it with torch.jit.trace", AttributeError)
    with pytest.raises(ValueError, match=r"quantize the plain model; record that with torch.jit.trace"):
        quantize_model(torch.jit.script(Net()))
    same(torch.jit.script(dequantize_model(model)), Net())


def export(model):
    refused(lambda: torch.export.export(model, (X,), strict=False), "export dequantize_model")
    with pytest.raises(torch._dynamo.exc.Unsupported, match="torch.export cannot record how a recipe rounds"):
        torch.export.export(model, (X,), strict=True)


def compiled(model):
    with pytest.warns(UserWarning, match="torch.compile leaves a model"):
        same(torch.compile(copy.deepcopy(model), backend="eager"), model)
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="torch.compile leaves a model"):
        torch.compile(model, backend="eager", fullgraph=True)(X)


def dual(function):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(function(forward_ad.make_dual(X, X))).tangent


def scalar(function):
    return lambda x: function(x).sum()


TRANSFORMS = {
    "vmap": lambda function: torch.vmap(function)(X),
    "grad": lambda function: torch.func.grad(scalar(function))(X),
    "vjp": lambda function: torch.func.vjp(function, X)[1](X)[0],
    "jvp": lambda function: torch.func.jvp(function, (X,), (X,))[1],
    "jacrev": lambda function: torch.func.jacrev(function)(X),
    "jacfwd": lambda function: torch.func.jacfwd(function)(X),
    "forward mode": dual,
}


def transforms_around(model):
    for transform in TRANSFORMS.values():
        refused(lambda transform=transform: transform(model), r"within `with lplab.training.float32\(model\):`")


class Transforms(Net):
    def __init__(self, transform):
        super().__init__()
        self.transform = transform

    def forward(self, x):
        return self.transform(lambda x: x @ self.w) + torch.vmap(torch.relu)(x)


def transforms_inside(model):
    for transform in TRANSFORMS.values():
        model = quantized(Transforms(transform))
        refused(lambda model=model: model(X), "write the product for the whole batch, as with torch.bmm")
        with float32(model):
            assert model(X).isfinite().all()


def other_derivatives(model):
    functional = torch.autograd.functional
    assert torch.equal(functional.vjp(model, X, X)[1], functional.vjp(model, X, X)[1])
    refused(lambda: functional.jvp(model, X, X), "second derivatives are not defined", RuntimeError)
    refused(lambda: functional.hessian(scalar(model), X), "second derivatives are not defined", RuntimeError)
    refused(lambda: functional.jacobian(model, X, vectorize=True), "one gradient at a time")


def functional_call(model):
    model = quantized(recipe="pact_sawb_2019")
    given = {name: p.detach().clone() for name, p in model.named_parameters()}
    given["layer.pact_alpha"].fill_(2.0)
    y = torch.func.functional_call(model, given, X)
    assert given["layer.pact_alpha"] == 2.0 and model.layer.pact_alpha == 10.0  # the call leaves nothing behind
    with torch.no_grad():
        model.layer.pact_alpha.fill_(2.0)
    assert torch.equal(model(X), y)


WEIGHTS = {
    "pruned": lambda layer: prune.l1_unstructured(layer, "weight", 0.5),
    "old weight norm": torch.nn.utils.weight_norm,
    "old spectral norm": torch.nn.utils.spectral_norm,
    "weight norm": parametrizations.weight_norm,
    "spectral norm": parametrizations.spectral_norm,
}


def computed_weights(model):
    for change in WEIGHTS.values():
        for recipe in ("hfp8_2019", "pact_sawb_2019"):
            before, later = Net().eval(), quantized(recipe=recipe).eval()
            later(X)
            for layer in (before.layer, later.layer):
                torch.manual_seed(1)  # spectral norms begin with random vectors
                change(layer).eval()
            before = quantized(before, recipe)
            same(before, later)
            same(dequantize_model(later), dequantize_model(before))
            before(X).sum().backward()
    lstm = nn.Sequential(nn.LSTM(8, 8))
    prune.l1_unstructured(lstm[0], "weight_hh_l0", 0.5)
    assert quantized(lstm)(X[None])[0].isfinite().all()
    holds = Net()
    holds.last = holds(X)
    refused(lambda: quantized(holds), r"detach it or set it to None; quantize_model\(…, inplace=True\)", ValueError)


def checkpointing(model):
    for reentrant in (True, False):
        x = X.clone().requires_grad_()
        assert torch.equal(checkpoint(model, x, use_reentrant=reentrant), model(X))


def copies(model):
    model = quantized(recipe="pact_sawb_2019")
    model(X)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), torch.load(file, weights_only=False)):
        same(other, model)
        other.to_empty(device="cpu")
        assert other.layer.pact_alpha == 10.0 and model.layer.pact_alpha != 10.0
    traced = quantized(torch.fx.symbolic_trace(Net()))
    refused(lambda: pickle.dumps(traced), "save its state_dict")


def averages(model):
    model = quantized(nn.Sequential(Net(), nn.BatchNorm1d(8)), "pact_sawb_2019")
    average, optimizer = AveragedModel(model), torch.optim.SGD(model.parameters(), 0.1)
    clips = []
    for step in range(3):
        model(X + step).square().mean().backward()
        optimizer.step()
        average.update_parameters(model)
        clips.append(model[0].layer.pact_alpha.detach().clone())
    mean = torch.stack(clips).mean()
    update_bn([X, X + 1], average)
    assert average.module[1].num_batches_tracked == 2
    assert torch.allclose(average.module[0].layer.pact_alpha, mean)  # the first calls did not begin it anew


def conversions(model):
    for recipe in ("hfp8_2019", "pact_sawb_2019", "int4_fp4_2020"):
        for dtype in (torch.float16, torch.bfloat16, torch.float64):
            model = quantized(recipe=recipe).to(dtype)
            y = model(X.to(dtype))
            y.sum().backward()
            assert y.dtype == dtype and y.isfinite().all()
        shared = quantized(recipe=recipe).share_memory()
        assert all(p.is_shared() for p in shared.parameters())
        same(shared, quantized(recipe=recipe))


def without_numbers(model):
    for recipe in ("hfp8_2019", "luq_2022", "pact_sawb_2019", "mxfp8_2025"):
        with torch.device("meta"):
            plain = Net()
        model = quantized(plain, recipe)
        y = model(X.to("meta"))
        y.sum().backward()
        assert y.shape == (4, 8) and model.w.grad.shape == (8, 8)
        with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True) as mode:
            assert quantized(recipe=recipe)(mode.from_tensor(X)).shape == (4, 8)
        model.load_state_dict(quantized(recipe=recipe).state_dict(), assign=True)
        same(model, quantized(recipe=recipe))  # also the random bits: shapes alone have drawn none


def run_elsewhere(model, x, queue):
    queue.put(model(x).detach().numpy())


def processes(model):
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=run_elsewhere, args=(model, X, queue))
    process.start()
    assert torch.equal(torch.from_numpy(queue.get(timeout=60)), model(X))
    process.join()


def replicas(model):
    def replica(module):
        copied = module._replicate_for_data_parallel()
        copied._modules = {name: replica(child) for name, child in module._modules.items()}
        copied._former_parameters = {name: p * 1 for name, p in module._parameters.items()}
        for name, x in copied._former_parameters.items():
            setattr(copied, name, x)
        return copied

    for recipe in ("hfp8_2019", "pact_sawb_2019"):
        model = quantized(recipe=recipe)
        if recipe == "pact_sawb_2019":
            refused(lambda model=model: replica(model)(X), "call the model once before nn.DataParallel", RuntimeError)
        model(X)
        same(replica(model), model)
        replica(model)(X).sum().backward()
        assert all(p.grad is not None for p in model.parameters())


MODEL = {
    "`torch.jit.trace`": jit_trace,
    "`make_fx`": make_fx_of_a_model,
    "`torch.fx.symbolic_trace`, a `Tracer`": symbolic_trace,
    "`torch.jit.script`": jit_script,
    "`torch.export`": export,
    "`torch.compile`": compiled,
    "`torch.func` and forward-mode derivatives, around the model": transforms_around,
    "`torch.func` and forward-mode derivatives, inside `forward`": transforms_inside,
    "second derivatives, batched gradients": other_derivatives,
    "`torch.func.functional_call`": functional_call,
    "pruning, parametrizations, weight and spectral norms, old and new": computed_weights,
    "activation checkpointing": checkpointing,
    "`copy.deepcopy`, `pickle`, `torch.save`": copies,
    "`AveragedModel`, `update_bn`": averages,
    "`.half()`, `.double()`, `.to()`, `share_memory()`": conversions,
    "the meta device, fake tensors": without_numbers,
    "other processes (spawn)": processes,
    "replicas of `nn.DataParallel`": replicas,
}


# ---- a format --------------------------------------------------------------------------------------------------------


def jit_trace_of_a_format(format):
    for x in (X, X.clone().requires_grad_()):  # a trace is given other tensors later, also of the other kind
        traced = torch.jit.trace(lambda x: format.quantize(x), x)
        same(traced, format.quantize)
        y = X.clone().requires_grad_()
        (3 * traced(y)).sum().backward()
        assert torch.equal(y.grad, torch.full_like(X, 3))
    refused(lambda: torch.jit.trace(lambda x: format.quantize(x, "stochastic"), X), "repeat the random bits")
    x = (1000 * X).requires_grad_()
    torch.jit.trace(lambda x: formats.straight_through(format, x, clip=True), X.clone().requires_grad_())(
        x
    ).sum().backward()
    assert torch.equal(x.grad, ((x >= format.min) & (x <= format.max)).float())


def make_fx_of_a_format(format):
    def gradient(x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return torch.autograd.grad((format.quantize(x) * x).sum(), x)[0]

    calls = (
        lambda x: format.quantize(x),
        gradient,
        lambda x: torch.vmap(format.quantize)(x),
        torch.func.grad(lambda x: (format.quantize(x) * x).sum()),
    )
    for call in calls:
        for mode in ("real", "fake", "symbolic"):
            same(make_fx(call, tracing_mode=mode)(X), call)


def rounded_elsewhere(x):
    return E4M3.quantize(x)


torch.fx.wrap("rounded_elsewhere")


def symbolic_trace_of_a_format(format):
    refused(lambda: torch.fx.symbolic_trace(lambda x: format.quantize(x)), "to torch.fx.wrap", TypeError)
    same(torch.fx.symbolic_trace(lambda x: rounded_elsewhere(x)), E4M3.quantize)


def export_of_a_format(format):
    same(torch.export.export(Rounds(), (X,), strict=False).module(), Rounds())
    scaled = Quantizer("int4", Amax())
    for tool in (lambda call: torch.jit.trace(call, X), lambda call: make_fx(call)(X)):
        for call in (lambda x: scaled.quantize(x), lambda x: format.encode(x)):
            refused(lambda tool=tool, call=call: tool(call), "Format.quantize works inside")


def compiled_format(format):
    same(torch.compile(lambda x: format.quantize(x) + 1, backend="eager"), lambda x: format.quantize(x) + 1)
    for more in ({}, {"rounding": "stochastic", "seed": 3}):  # in one graph with what is around it
        call = lambda x, more=more: format.quantize(x * 2, **more) + 1  # noqa: E731
        torch._dynamo.reset()
        same(torch.compile(call, backend="aot_eager", fullgraph=True), call)


def transformed_format(format):
    eye = torch.eye(32).reshape(4, 8, 4, 8)
    expected = {
        "vmap": torch.stack([format.quantize(x) for x in X]),
        "grad": torch.ones(4, 8),
        "jacrev": eye,
        "jacfwd": eye,
    }
    for name, transform in TRANSFORMS.items():
        assert torch.equal(transform(format.quantize), expected.get(name, X)), name
    random = torch.vmap(lambda x: format.quantize(x, "stochastic", seed=3))(X)
    assert torch.equal(random, torch.stack([format.quantize(x, "stochastic", seed=3) for x in X]))
    assert torch.equal(torch.vmap(format.quantize, 1, 1)(X), torch.stack([format.quantize(x) for x in X.T], 1))
    assert torch.equal(torch.vmap(format.quantize)(X[0]), torch.stack([format.quantize(x) for x in X[0]]))
    clipped = torch.func.grad(lambda x: formats.straight_through(format, x, clip=True).sum())(1000 * X)
    assert torch.equal(clipped, ((1000 * X).abs() <= format.max).float())
    refused(lambda: torch.vmap(Quantizer("int4", Amax()).quantize)(X), "Format.quantize works inside")
    refused(lambda: torch.vmap(format.encode)(X), "Format.quantize works inside")


def shapes_of_a_format(format):
    assert format.quantize(X.to("meta")).shape == X.shape
    with torch._subclasses.FakeTensorMode() as mode:
        assert format.quantize(mode.from_tensor(X), "stochastic").shape == X.shape


FORMAT = {
    "`torch.jit.trace`": jit_trace_of_a_format,
    "`make_fx`": make_fx_of_a_format,
    "`torch.fx.symbolic_trace`, a `Tracer`": symbolic_trace_of_a_format,
    "`torch.export`": export_of_a_format,
    "`torch.compile`": compiled_format,
    "`torch.func` and forward-mode derivatives": transformed_format,
    "the meta device, fake tensors": shapes_of_a_format,
}


def rows(name):
    table = PAGE.partition(f"<!-- table: {name} -->\n")[2].partition("\n\n")[0]
    return re.findall(r"^\| (.+?) \| .+ \|$", table, flags=re.M)[1:]


def test_each_row_of_the_tables_is_tried():
    assert rows("a model") == list(MODEL) and rows("a format") == list(FORMAT)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.filterwarnings("ignore::lplab.training.emulation.checkpoint_state.MissingQuantizerState")
@pytest.mark.parametrize(
    "row", [pytest.param(row, marks=pytest.mark.slow if row == "other processes (spawn)" else ()) for row in MODEL]
)
def test_a_model_under_a_tool(row):
    MODEL[row](quantized())


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("format", [E4M3, BLOCKS], ids=lambda format: format.label)
@pytest.mark.parametrize("row", FORMAT)
def test_a_format_under_a_tool(row, format):
    FORMAT[row](format)
