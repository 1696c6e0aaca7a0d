"""A quantized model under PyTorch's own tools: they work with the same bits, or say in one line what to do."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.overrides import _get_current_function_mode_stack
from torch.utils.checkpoint import checkpoint

from lplab.arithmetic import Accumulator
from lplab.formats import FloatFormat, Rounding
from lplab.formats.paths import kernel_selection
from lplab.training import dequantize_model, float32, quantize_model
from lplab.training.emulation import interception
from lplab.training.emulation.conversion import emulation_of
from lplab.training.recipe import recipes
from lplab.training.recipe.quant_spec import QuantSpec
from lplab.training.recipe.recipe import LayerRules, Recipe

STOCHASTIC = QuantSpec("e4m3", rounding=Rounding("stochastic"))
ALL_RANDOM = Recipe(
    weight=STOCHASTIC, activation=STOCHASTIC, output=STOCHASTIC, weight_gradient=STOCHASTIC, input_gradient=STOCHASTIC,
    output_gradient_dx=STOCHASTIC, output_gradient_dw=STOCHASTIC,
)  # fmt: skip
RECIPES = {"all random": ALL_RANDOM, "luq_2022": "luq_2022", "int4_fp4_2020": "int4_fp4_2020", "pact": "pact_sawb_2019"}


# ---- activation checkpointing ----------------------------------------------------------------------------------------


class Heads(nn.Module):
    """Two layers that take the same input, and products without a module of their own."""

    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Linear(6, 6), nn.Linear(6, 6)
        self.mix = nn.Parameter(torch.randn(6, 6) / 3)

    def forward(self, x):
        return functional.gelu(self.query(x) @ self.key(x).mT) @ functional.linear(x, self.mix)


class Net(nn.Module):
    """Every part may be computed again in the backward pass: modules, functions, parts inside parts.

    No weight is used in two parts: PyTorch's reentrant checkpoints would add its gradients in another order.
    """

    def __init__(self, how=None):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.heads, self.last = nn.Linear(5, 6), Heads(), nn.Linear(6, 3)
        self.query, self.key, self.inner, self.middle = (nn.Linear(6, 6) for _ in range(4))
        self.table, self.other = (nn.Parameter(torch.randn(6, 6) / 3) for _ in range(2))
        self.how = how

    def part(self, function, *args):
        return function(*args) if self.how is None else checkpoint(function, *args, **self.how)

    def raw(self, x, table):
        return torch.tanh(functional.linear(x, table) @ table)

    def outer(self, x):
        return self.part(self.heads, functional.silu(self.inner(x))) + self.part(self.raw, x, self.table)

    def shared(self, x, y):
        return self.key(x) * y

    def forward(self, x):
        x = torch.tanh(self.first(x))
        x = self.part(self.outer, x)
        x = self.part(self.shared, x, self.query(x))
        x = self.part(self.raw, self.part(self.middle, functional.dropout(x, 0.3)), self.other)
        return self.last(x)


HOW: dict[str, dict] = {
    "reentrant": {"use_reentrant": True},
    "not reentrant": {"use_reentrant": False},
    "without early stop": {"use_reentrant": False, "early_stop": False},
}


def trained(how, recipe, whole=False, steps=2):
    """Losses and gradients of a few steps of two parts each, and how many random numbers each op has drawn."""
    model, seen = quantize_model(Net(None if whole else how), recipe), []
    torch.manual_seed(1)
    for _ in range(steps):
        model.zero_grad()
        inputs = [torch.randn(2, 4, 5, requires_grad=True) for _ in range(2)]
        outputs = [checkpoint(model, x, **how) if whole and how else model(x) for x in inputs]
        losses = [y.square().sum() for y in outputs]
        for loss in losses:  # both parts have gone forward before one goes back
            loss.backward()
        seen += losses + [p.grad for p in (*inputs, *model.parameters()) if p.grad is not None]
    return seen, [dict(op.calls) for _, op in sorted(emulation_of(model).ops.items())]


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")  # of a part inside a part
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recomputation_gives_the_bits_of_the_forward_pass(recipe):
    (expected, calls), wrong = trained(None, RECIPES[recipe]), []
    for name, how in HOW.items():
        for whole in (False, True):
            found, found_calls = trained(how, RECIPES[recipe], whole)
            assert len(found) == len(expected)
            if calls != found_calls or not all(map(torch.equal, expected, found)):
                wrong.append((name, "whole model" if whole else "parts"))
    assert not wrong


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
def test_a_part_that_ran_in_float32_is_recomputed_in_float32():
    gradients = []
    for how in (None, *HOW.values()):
        model = quantize_model(Net(how), "int4_fp4_2020")
        with float32(model):
            loss = model(torch.ones(2, 4, 5)).sum()
        loss.backward()
        gradients.append(model.heads.query.weight.grad)
    assert all(torch.allclose(gradients[0], each, rtol=1e-5) for each in gradients)


def test_an_ordinary_step_does_not_look_for_checkpoints(monkeypatch):
    monkeypatch.setattr(interception, "module_call", None)  # would be called to look
    model = quantize_model(Net(), ALL_RANDOM)
    model(torch.ones(2, 4, 5)).sum().backward()
    with pytest.raises(TypeError), torch.no_grad():
        model(torch.ones(2, 4, 5))


def test_a_recomputation_on_another_path_is_refused():
    model, runs = quantize_model(nn.Linear(4, 4), ALL_RANDOM, first=None, last=None), []

    def twice_when_recomputed(x):
        runs.append(1)
        return model(model(x)) if len(runs) > 1 else torch.relu(model(x))

    y = checkpoint(twice_when_recomputed, torch.ones(2, 4, requires_grad=True), use_reentrant=True)
    with pytest.raises(RuntimeError, match="takes another path than the forward pass did"):
        y.sum().backward()
    assert model(torch.ones(2, 4)).isfinite().all() and not emulation_of(model).thread.again


# ---- derivatives of other kinds --------------------------------------------------------------------------------------


X = torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(2))
ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}


@pytest.mark.parametrize("recipe", ["hfp8_2019", "pact_sawb_2019", ALL_RANDOM], ids=str)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_gradient_penalty_says_what_to_do_and_that_works(activation, recipe):
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(6, 5), ACTIVATIONS[activation](), nn.LayerNorm(5), nn.Linear(5, 1))
    model = quantize_model(plain, recipe, first=None, last=None)
    x = X.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="call the model within `with lplab.training.float32") as error:
        gradient.norm().backward()
    assert "\n" not in str(error.value)

    def penalty(net):
        (slope,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
        return torch.autograd.grad(slope.norm(), net[0].weight)[0]

    with float32(model):
        assert torch.equal(penalty(model), penalty(plain))
    (first,) = torch.autograd.grad(model(x).sum(), model[0].weight, create_graph=True)
    assert first.isfinite().all()  # the first derivative alone needs no second one


@pytest.mark.parametrize(
    "transform",
    [
        lambda model: torch.vmap(model)(X),
        lambda model: torch.func.grad(lambda x: model(x).sum())(X),
        lambda model: torch.func.jacrev(model)(X[:1]),
        lambda model: torch.func.jvp(model, (X,), (X,)),
        lambda model: torch.vmap(torch.func.grad(lambda x: model(x[None]).sum()))(X),
    ],
    ids=["vmap", "grad", "jacrev", "jvp", "gradients of each example"],
)
def test_transforms_say_what_to_do_and_that_works(transform):
    plain = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2))
    model = quantize_model(plain, "hfp8_2019")
    with pytest.raises(NotImplementedError, match=r"call the model within `with lplab.training.float32\(model\)") as e:
        transform(model)
    assert "\n" not in str(e.value)
    with float32(model):
        found, expected = (torch.utils._pytree.tree_leaves(transform(each)) for each in (model, plain))
    assert all(map(torch.equal, found, expected))
    assert all(map(torch.equal, torch.utils._pytree.tree_leaves(transform(quantize_model(plain, "fp32"))), expected))
    assert model(X).isfinite().all()  # nothing was left behind


def test_forward_mode_and_batched_gradients_say_what_to_do():
    model = quantize_model(nn.Linear(6, 2), "hfp8_2019")
    with torch.autograd.forward_ad.dual_level(), pytest.raises(NotImplementedError, match="forward-mode derivatives"):
        model(torch.autograd.forward_ad.make_dual(X, X))
    x = X.clone().requires_grad_()
    with pytest.raises(NotImplementedError, match="takes one gradient at a time"):
        torch.autograd.grad(model(x), x, torch.ones(2, 3, 4, 2), is_grads_batched=True)


def test_functional_call_takes_other_weights():
    one, other = (quantize_model(nn.Linear(6, 2), "hfp8_2019", first=None, last=None) for _ in range(2))
    expected = other(X)
    assert not torch.equal(one(X), expected)
    assert torch.equal(torch.func.functional_call(one, dict(other.named_parameters()), X), expected)


# ---- nothing in a tensor ---------------------------------------------------------------------------------------------


class Products(nn.Module):
    """Products without a module of their own."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 4))

    def forward(self, x):
        y = x @ self.weight + torch.addmm(x, x, self.weight) + functional.scaled_dot_product_attention(x, x, x)
        return y + x[:, :0] @ self.weight[:0] + (x @ (x.mT @ x))


EMPTY = {
    "no example": (lambda: nn.Linear(6, 4), (0, 6)),
    "no sequence": (lambda: nn.Linear(6, 4), (2, 0, 6)),
    "no inputs": (lambda: nn.Linear(0, 4), (3, 0)),
    "no outputs": (lambda: nn.Linear(4, 0), (3, 4)),
    "conv1d": (lambda: nn.Conv1d(4, 4, 3, groups=2), (0, 4, 8)),
    "conv2d": (lambda: nn.Conv2d(3, 4, 3, padding=1), (0, 3, 8, 8)),
    "lstm": (lambda: nn.LSTM(4, 4, batch_first=True), (0, 5, 4)),
    "gru": (lambda: nn.GRU(4, 3, 2, bidirectional=True), (5, 0, 4)),
    "gru cell": (lambda: nn.GRUCell(4, 3), (0, 4)),
    "layer norm": (lambda: nn.LayerNorm(4), (0, 4)),
    "products": (Products, (0, 4)),
}
EMPTY_RECIPES = {
    "hfp8_2019": "hfp8_2019",
    "int4_fp4_2020": "int4_fp4_2020",
    "luq_2022": "luq_2022",
    "blocks": Recipe(
        **dict.fromkeys(("weight", "activation", "output", "output_gradient_dw"), QuantSpec("mxfp8_e4m3"))
    ),
    "accumulator": Recipe(accumulator=Accumulator(FloatFormat(8, 22))),
    "nvfp4_2025": recipes.get("nvfp4_2025").replace(exceptions={"product": LayerRules()}, late_share=0.0),
    "mxfp4_2025": recipes.get("mxfp4_2025").replace(exceptions={}),
}


@pytest.mark.parametrize("recipe", EMPTY_RECIPES)
def test_empty_tensors_give_what_pytorch_gives(recipe):
    for name, (layer, shape) in EMPTY.items():
        results = []
        for model in (layer(), quantize_model(layer(), EMPTY_RECIPES[recipe], first=None, last=None)):
            x = torch.ones(shape, requires_grad=True)
            y = model(x)
            y = y[0] if isinstance(y, tuple) else y
            y.sum().backward()
            tensors = (y, x.grad, *(p.grad for n, p in model.named_parameters() if not n.endswith("pact_alpha")))
            assert all(bool(each.isfinite().all()) for each in tensors), name
            results.append([each.shape for each in tensors])
        assert results[0] == results[1], name


def test_a_sequence_without_a_time_step_is_refused_as_by_pytorch():
    for layer in (nn.LSTM(4, 4), quantize_model(nn.LSTM(4, 4), "hfp8_2019")):
        with pytest.raises(RuntimeError, match="Expected sequence length to be larger than 0 in RNN"):
            layer(torch.zeros(0, 2, 4))


# ---- compiled and exported -------------------------------------------------------------------------------------------


def compiled_step(model, how, backend):
    """Outputs and gradients of two steps, of which PyTorch's compiler may see the model or everything.

    There is no sum outside the model: a compiled one adds in an order of its own, which depends on the processor.
    """

    def step(x):
        y = call(x)
        y.backward(y.detach())
        return y.detach()

    call = torch.compile(model, backend=backend) if how == "the model" else model
    if how == "the module's compile()":
        model.compile(backend=backend)
    if how == "the step":
        step = torch.compile(step, backend=backend)
    outputs = [step(torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(i))) for i in range(2)]
    return outputs + [p.grad for p in model.parameters() if p.grad is not None]


def same_bits_when_compiled(backend):
    for how in ("the model", "the module's compile()", "the step"):
        for recipe in ("luq_2022", ALL_RANDOM):
            torch._dynamo.reset()
            expected, model = compiled_step(quantize_model(Net(), recipe), None, None), quantize_model(Net(), recipe)
            for net in (model, model.heads):
                net.register_forward_hook(lambda module, x, y: None)  # the user's own hooks do no harm
            with pytest.warns(UserWarning, match="torch.compile leaves a model under a recipe as it is") as warned:
                found = compiled_step(model, how, backend)
            assert {str(each.message).count("\n") for each in warned} == {0}
            ours = {each.category for each in warned if not issubclass(each.category, DeprecationWarning)}
            assert ours == {UserWarning} and len(found) == len(expected)
            assert all(map(torch.equal, found, expected)), (how, recipe)


def test_a_compiled_model_has_the_same_bits_and_one_line_of_warning():
    same_bits_when_compiled("eager")


@pytest.mark.slow
def test_a_model_under_inductor_has_the_same_bits():
    same_bits_when_compiled("inductor")


def test_a_compiled_plain_part_beside_the_model_is_compiled():
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    model = quantize_model(nn.Linear(6, 6), "hfp8_2019")
    after = torch.compile(lambda x: torch.tanh(x) + 1, backend=backend)
    with pytest.warns(UserWarning, match="torch.compile leaves"):
        torch.compile(model, backend=backend)(X)
    assert not graphs and after(model(X)).isfinite().all() and len(graphs) == 1


def test_one_graph_for_a_whole_model_is_refused():
    model = quantize_model(nn.Linear(6, 6), "hfp8_2019")
    with pytest.raises(torch._dynamo.exc.Unsupported, match="torch.compile leaves a model under a recipe as it is"):
        torch.compile(model, backend="eager", fullgraph=True)(X)
    assert model(X).isfinite().all()


def test_an_export_is_refused_in_one_line_and_the_advice_works():
    model = quantize_model(nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2)), "hfp8_2019")
    with pytest.raises(NotImplementedError, match="torch.export cannot record how a recipe rounds") as error:
        torch.export.export(model, (X,))
    assert "\n" not in str(error.value) and not _get_current_function_mode_stack()
    plain = dequantize_model(model)
    assert torch.allclose(torch.export.export(plain, (X,)).module()(2 * X), plain(2 * X))
    with float32(model):
        exported = torch.export.export(model, (X,)).module()
    assert torch.allclose(exported(2 * X), plain(2 * X)) and not torch.allclose(model(2 * X), plain(2 * X))


class Layers(nn.Module):
    """A convolution, a normalization, an attention, a recurrent layer, an embedding and an einsum."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.conv, self.norm = nn.Linear(6, 6), nn.Conv1d(4, 4, 3, padding=1), nn.LayerNorm(6)
        self.attend, self.lstm = nn.MultiheadAttention(6, 2, batch_first=True), nn.LSTM(6, 6, batch_first=True)
        self.table, self.mix, self.last = nn.Embedding(4, 6), nn.Parameter(torch.randn(6, 6)), nn.Linear(6, 2)

    def forward(self, x):
        x = self.norm(self.conv(self.first(x))) + self.table(torch.arange(4))
        x = self.lstm(self.attend(x, x, x, need_weights=False)[0])[0]
        return self.last(torch.einsum("btc,cd->btd", x, self.mix))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("recipe", ["hfp8_2019", "int4_fp4_2020", "pact_sawb_2019", "luq_2022"])
def test_a_traced_model_rounds_what_it_is_given_also_after_warm_up(recipe, monkeypatch):
    for elements in (0, 10**9):  # compiled loops from the first number on, and none
        monkeypatch.setattr(kernel_selection, "MIN_ELEMENTS_BEFORE_LOADING", elements)
        model = quantize_model(Layers(), recipe, first=None, last=None).eval()
        model(X)
        with torch.no_grad():
            traced = torch.jit.trace(model, X)
            for x in (X, 1.7 * X, X.flip(0)):
                assert torch.equal(traced(x), model(x)), elements


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_trace_of_gradients_or_random_bits_or_accumulators_is_refused():
    for recipe, message in ((ALL_RANDOM, "repeat the random bits"), (EMPTY_RECIPES["accumulator"], "an accumulator")):
        with torch.no_grad(), pytest.raises(NotImplementedError, match=message) as error:
            torch.jit.trace(quantize_model(nn.Linear(6, 6), recipe, first=None, last=None), X)
        assert "\n" not in str(error.value)
    with pytest.raises(NotImplementedError, match="only within `with torch.no_grad"):
        torch.jit.trace(quantize_model(nn.Linear(6, 6), "hfp8_2019"), X)
