"""What a user does with models, done with quantized ones: states, copies, files, hooks, shared weights, errors."""

import copy
import io
import threading

import pytest
import torch
from torch import nn
from torch.nn import functional

from lplab import models
from lplab.training import recipes
from lplab.training.emulation.checkpoint_state import load_quantizer_state, quantizer_state
from lplab.training.emulation.conversion import (
    dequantize_model,
    emulation_of,
    float32,
    quantize_model,
)
from lplab.training.emulation.layer_kinds import kinds_of
from tests.training.emulation.foreign import FOREIGN

DETERMINISTIC = [name for name in recipes.names() if name not in ("fixed16_2015", "luq_2022")]


def net():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.Flatten(), nn.Linear(64, 3)
    )


X, Y = torch.rand(5, 1, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(5) % 3


def step(model, lr=0.1):
    loss = functional.cross_entropy(model(X), Y)
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= lr * p.grad
    return loss.item()


@pytest.mark.parametrize("recipe", recipes.names())
def test_states_go_both_ways_strictly(recipe):
    plain, quantized = net(), quantize_model(net(), recipe)
    step(quantized)
    state = quantized.state_dict()
    plain.load_state_dict(state)
    assert list(state) == list(plain.state_dict())
    quantized.load_state_dict(net().state_dict())
    assert torch.equal(quantized[0].weight, net()[0].weight)


@pytest.mark.parametrize("recipe", recipes.names())
def test_copies_and_files_continue_like_the_original(recipe):
    model = quantize_model(net(), recipe)
    step(model)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    copied, loaded = copy.deepcopy(model), torch.load(file, weights_only=False)
    losses = [step(model) for _ in range(3)]
    assert losses == [step(copied) for _ in range(3)] == [step(loaded) for _ in range(3)]
    assert len({id(emulation_of(m)) for m in (model, copied, loaded)}) == 3


@pytest.mark.parametrize("recipe", recipes.names())
def test_state_and_quantizer_state_together_continue_bit_for_bit(recipe):
    model = quantize_model(net(), recipe)
    step(model), step(model)
    states = copy.deepcopy((model.state_dict(), quantizer_state(model)))
    other = quantize_model(net(), recipe)
    other.load_state_dict(states[0])
    load_quantizer_state(other, states[1])
    assert [step(model) for _ in range(3)] == [step(other) for _ in range(3)]


def test_the_original_is_left_alone_unless_asked():
    model = net()
    quantized = quantize_model(model, "fp8_2018")
    assert quantized is not model and torch.equal(model(X), net()(X)) and not torch.equal(quantized(X), model(X))
    assert quantize_model(model, "fp8_2018", inplace=True) is model


@pytest.mark.parametrize("recipe", ["pact_sawb_2019", "hfp8_2019"])
def test_dequantizing_gives_the_plain_model_back(recipe):
    model = quantize_model(net(), recipe)
    step(model)
    plain = dequantize_model(model)
    reference = net()
    reference.load_state_dict(plain.state_dict())
    assert torch.equal(plain.eval()(X), reference.eval()(X))
    assert [n for n, _ in plain.named_parameters()] == [n for n, _ in reference.named_parameters()]
    quantize_model(plain, recipe)(X)


def test_float32_for_a_while():
    model = quantize_model(net(), "fp8_2018").eval()
    with float32(model):
        assert torch.equal(model(X), net().eval()(X))
    assert not torch.equal(model(X), net().eval()(X))


def test_train_and_eval_reach_the_layers():
    model = quantize_model(net(), "hfp8_2019")
    assert not model.eval()[1].training and model.train()[1].training


def test_hooks_of_users_still_run():
    model, seen = quantize_model(net(), "hfp8_2019"), []
    model[3].register_forward_hook(lambda m, args, out: seen.append("forward"))
    model[3].register_full_backward_hook(lambda m, gin, gout: seen.append("backward"))
    model[3].weight.register_hook(lambda g: seen.append("gradient"))
    step(model)
    assert seen == ["forward", "gradient", "backward"] or sorted(seen) == ["backward", "forward", "gradient"]


def test_shared_weights_get_the_sum_of_their_gradients():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4, bias=False)

        def forward(self, x):
            return self.layer(self.layer(x))

    torch.manual_seed(0)
    model = quantize_model(Twice(), "fp8_2018", first=None, last=None)
    x = torch.randn(3, 4)
    model(x).sum().backward()
    rule, w = formats_of("fp8_152"), model.layer.weight.detach()
    qw, qx = rule(w), rule(x)
    h = qx @ qw.T
    dy = torch.ones(3, 4)
    dlfloat = formats_of("dlfloat16", "nearest_away")
    expected = dlfloat(rule(dy).T @ rule(h)) + dlfloat(rule(rule(dy) @ qw).T @ qx)
    assert torch.allclose(model.layer.weight.grad, expected, rtol=1e-6)


def formats_of(name, rounding="nearest_even"):
    from lplab import formats

    return lambda x: formats.get(name).quantize(x, rounding)


def test_gradients_accumulate():
    model = quantize_model(net().eval(), "fp8_2018")
    gradients = []
    for parts in ((slice(0, 5),), (slice(0, 2), slice(2, 5))):
        model.zero_grad()
        for part in parts:
            functional.cross_entropy(model(X[part]), Y[part], reduction="sum").backward()
        gradients.append(model[0].weight.grad.clone())
    assert torch.allclose(*gradients, rtol=0.02, atol=1e-3)


def test_same_seed_same_bits_other_seed_others():
    runs = [[step(m) for _ in range(3)] for m in (quantize_model(net(), "luq_2022", seed=s) for s in (1, 1, 2))]
    assert runs[0] == runs[1] != runs[2]


def test_an_error_inside_leaves_the_model_usable():
    model = quantize_model(net(), "hfp8_2019")
    expected = model(X)
    with pytest.raises(RuntimeError):
        model(torch.rand(1, 2, 8, 8))
    assert torch.equal(model.eval()(X), model(X)) and expected.shape == (5, 3)
    assert torch.rand(2, 2) @ torch.rand(2, 2) is not None and not emulation_of(model).thread.modes


class Interrupted(nn.Module):
    """A layer, and a user who presses Ctrl-C after its first call."""

    def __init__(self, interrupt):
        super().__init__()
        self.layer, self.interrupt = nn.Linear(4, 3), interrupt

    def forward(self, x):
        y = self.layer(x)
        if self.interrupt is not None:
            raise self.interrupt
        return y


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, ValueError])
def test_an_interrupt_leaves_nothing_rounded_behind(interrupt):
    torch.manual_seed(0)
    model, plain, x = quantize_model(Interrupted(None), "fp8_2018", last=None), nn.Linear(4, 3), torch.randn(2, 4)
    expected, of_plain = model(x), plain(x)
    model.interrupt = interrupt
    for _ in range(2):
        with pytest.raises(interrupt):
            model(x)
        assert torch.equal(plain(x), of_plain) and torch.equal(functional.linear(x, plain.weight, plain.bias), of_plain)
    model.interrupt = None
    assert not torch.equal(expected, float32_of(model, x)) and torch.equal(model(x), expected)
    model.interrupt = interrupt
    with pytest.raises(interrupt):
        model(x)
    assert torch.equal(model.layer(x), expected), "a part of it can be called next"
    assert not emulation_of(model).thread.modes and torch.equal(copy.deepcopy(model).layer(x), expected)


def float32_of(model, x):
    with float32(model):
        return model(x)


def test_threads_compute_side_by_side_in_one_model():
    model, wrong = quantize_model(net().eval(), "hfp8_2019"), []
    expected = model(X).detach()

    def work():
        for _ in range(40):
            with torch.no_grad():
                wrong.extend([1] * (not torch.equal(model(X), expected)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_part_of_a_model_can_be_called_and_quantized_alone():
    model = quantize_model(net(), "fp8_2018")
    assert torch.equal(model[3](X.expand(-1, 4, -1, -1)), copy.deepcopy(model)[3](X.expand(-1, 4, -1, -1)))
    plain = net()
    plain[3] = quantize_model(plain[3], "fp8_2018", first=None, last=None)
    assert not torch.equal(plain(X), net()(X))


def test_inference_mode_and_no_grad_round_as_training_does():
    model = quantize_model(net().eval(), "hfp8_2019")
    with torch.no_grad():
        a = model(X)
    with torch.inference_mode():
        b = model(X)
    assert torch.equal(a, b) and torch.equal(a, model(X).detach())


def test_float64_models_work():
    model = quantize_model(net().double(), "hfp8_2019")
    assert model(X.double()).dtype == torch.float64


@pytest.mark.parametrize("recipe", ["fp8_2018", "pact_sawb_2019"])
def test_nested_attention_layers_of_pytorch(recipe):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    model = quantize_model(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), recipe)
    x = torch.randn(2, 5, 8)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    model(x, mask=mask).pow(2).mean().backward()
    assert all(p.grad is not None for p in model.parameters())
    for flag in (True, False):
        model.train(flag)
        names = set(emulation_of(model).ops)
        assert torch.isfinite(model(x)).all() and {"layers.0.self_attn", "layers.1.linear2"} <= names


def test_attention_functions_agree_with_pytorch_when_nothing_is_rounded():
    """Rounding to 24 bits changes nothing: the spelled-out attention is PyTorch's."""
    from lplab.formats import FloatFormat
    from lplab.training.recipe.recipe import Recipe

    wide = FloatFormat(8, 22)
    recipe = Recipe(activation=wide)
    torch.manual_seed(0)
    for causal, mask in ((True, None), (False, torch.rand(4, 4) > 0.3), (False, torch.randn(4, 4)), (False, None)):

        class Net(nn.Module):
            def forward(self, q, k, v, causal=causal, mask=mask):
                return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)

        mask if mask is None or mask.dtype != torch.bool else mask.fill_diagonal_(True)
        q, k, v = torch.randn(3, 2, 2, 4, 6).unbind()
        a, b = Net()(q, k, v), quantize_model(Net(), recipe)(q, k, v)
        assert (a - b).abs().max() < 1e-5


def test_a_query_that_may_see_nothing_gets_zeros_as_from_pytorch():
    """Padding on the left masks whole rows; a softmax over nothing would be NaN, forward and backward."""
    mask = torch.tensor([[False] * 4, [True, False, False, False], [True] * 4, [False] * 4])
    model = Functional(lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, attn_mask=mask))
    results = []
    for each in (model, quantize_model(model, wide_recipe())):
        torch.manual_seed(0)
        leaves = [torch.randn(2, 3, 4, 6, requires_grad=True) for _ in range(3)]
        y = each(*leaves)
        y.pow(2).sum().backward()
        results.append((y, *(leaf.grad for leaf in leaves)))
    assert (results[1][0][:, :, [0, 3]] == 0).all()
    for a, b in zip(*results, strict=True):
        assert (a - b).abs().max() < 1e-5


def wide_recipe():
    """A grid so fine that what comes out is PyTorch's to five digits, though it takes our way."""
    from lplab.formats import FloatFormat
    from lplab.training.recipe.recipe import Recipe

    return Recipe(activation=FloatFormat(8, 22))


@pytest.mark.parametrize("make", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("options", [
    {}, {"num_layers": 2, "bidirectional": True}, {"batch_first": True}, {"bias": False}, {"proj_size": 3},
])  # fmt: skip
@pytest.mark.parametrize("packed", [False, True])
def test_recurrent_layers_agree_with_pytorch_when_nothing_is_rounded(make, options, packed):
    from lplab.formats import FloatFormat
    from lplab.training.recipe.recipe import Recipe

    if make is nn.GRU and "proj_size" in options:
        pytest.skip("nn.GRU has no projection")
    torch.manual_seed(0)
    layer = make(4, 5, **options)
    x = torch.randn(6, 3, 4)
    if packed:
        first = options.get("batch_first", False)
        x = nn.utils.rnn.pack_padded_sequence(x, [3, 3, 2, 2, 1, 1] if first else [6, 4, 1], first)
    quantized = quantize_model(layer, Recipe(weight=FloatFormat(8, 22)))
    (a, ends_a), (b, ends_b) = layer(x), quantized(x)
    flat = lambda e: torch.cat([t.flatten() for t in (e if isinstance(e, tuple) else (e,))])  # noqa: E731
    assert (flat(ends_a) - flat(ends_b)).abs().max() < 1e-5
    a, b = (y.data if packed else y for y in (a, b))
    assert (a - b).abs().max() < 1e-5
    a.pow(2).sum().backward(), b.pow(2).sum().backward()
    for p, q in zip(layer.parameters(), quantized.parameters(), strict=True):
        assert (p.grad - q.grad).abs().max() < 1e-4


class Functional(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *tensors):
        return self.function(*tensors)


@pytest.mark.parametrize(("function", "shapes"), [
    (lambda a, b: a @ b, [(3, 4), (4, 2)]),
    (lambda a, b: a @ b, [(4,), (4, 2)]),
    (lambda a, b: a @ b, [(2, 3, 4), (4,)]),
    (lambda a, b: a @ b, [(4,), (4,)]),
    (torch.bmm, [(2, 3, 4), (2, 4, 5)]),
    (lambda a, b: torch.matmul(a, other=b), [(5, 1, 3, 4), (2, 4, 5)]),
    (lambda a, b: torch.einsum("bij,bkj->bik", a, b), [(2, 3, 4), (2, 5, 4)]),
    (lambda a, b: torch.tensordot(a, b, dims=([1], [0])), [(3, 4), (4, 2)]),
    (torch.inner, [(2, 3, 4), (5, 4)]),
    (lambda a, b: a.inner(b), [(4,), (4,)]),
    (torch.vdot, [(4,), (4,)]),
    (lambda a, b, c: torch.addmm(c, a, b, beta=0.5, alpha=2.0), [(3, 4), (4, 2), (3, 2)]),
    (lambda a, b, c: torch.baddbmm(c, a, b), [(2, 3, 4), (2, 4, 2), (2, 3, 2)]),
    (lambda a, b: functional.conv2d(a, b, padding="same"), [(2, 3, 6, 5), (4, 3, 2, 3)]),
    (lambda a, b: functional.conv1d(a, b, stride=2, padding=1), [(3, 8), (4, 3, 3)]),
    (lambda a, b: functional.conv3d(a, b, dilation=2), [(1, 2, 6, 5, 5), (3, 2, 2, 2, 2)]),
    (lambda a, b: functional.conv_transpose2d(a, b, stride=2, output_padding=1), [(1, 3, 4, 4), (3, 2, 3, 3)]),
    (lambda a, b, c: functional.linear(a, b, bias=c), [(2, 3, 4), (5, 4), (5,)]),
])  # fmt: skip
def test_functions_are_pytorchs_when_nothing_is_rounded(function, shapes):
    """With formats as wide as float32 minus a bit, values and gradients are PyTorch's to six digits."""
    from lplab.formats import FloatFormat
    from lplab.training.recipe.recipe import Recipe

    wide = FloatFormat(8, 22)
    recipe = Recipe(activation=wide, weight=wide, output_gradient_dx=wide)
    torch.manual_seed(0)
    tensors = [torch.randn(s) for s in shapes]
    results = []
    for model in (Functional(function), quantize_model(Functional(function), recipe)):
        leaves = [t.clone().requires_grad_() for t in tensors]
        y = model(*leaves)
        y.pow(2).sum().backward()
        results.append((y, *(leaf.grad for leaf in leaves)))
    assert not emulation_sites_missing(model)
    for a, b in zip(*results, strict=True):
        assert a.shape == b.shape and (a - b).abs().max() <= 2e-5 * (1 + a.abs().max())


def emulation_sites_missing(model):
    return not emulation_of(model).ops


# ---- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("module", "message"), [
    (nn.RNN(2, 2), r"0 \(RNN\) has no quantized form; use nn.GRU or nn.LSTM, or pass skip=\['0'\]"),
    (nn.Bilinear(2, 2, 2), r"0 \(Bilinear\) .* torch.einsum, two"),
    (nn.EmbeddingBag(2, 2), r"0 \(EmbeddingBag\) .* nn.Embedding and a sum"),
    (nn.LazyLinear(2), r"run the model once"),
    (nn.Linear(2, 2).to(torch.complex64), "complex weights"),
])  # fmt: skip
def test_unsupported_modules_are_named(module, message):
    with pytest.raises(ValueError, match=message):
        quantize_model(nn.Sequential(module, nn.Linear(2, 2)), "hfp8_2019")


def test_skip_leaves_a_layer_in_float32():
    model = quantize_model(nn.ModuleDict({"rnn": nn.RNN(2, 2), "out": nn.Linear(2, 2)}), "hfp8_2019", skip="rnn")
    assert torch.equal(model["rnn"](torch.ones(1, 1, 2))[0], dequantize_model(model)["rnn"](torch.ones(1, 1, 2))[0])


def test_unsupported_functions_are_named():
    class Own(nn.Module):
        def forward(self, x):
            return torch.einsum("i,i,i->", x, x, x)

    with pytest.raises(NotImplementedError, match=r"0 \(Own\): an einsum of 3 tensors has no quantized form; write it"):
        quantize_model(nn.Sequential(Own()), "hfp8_2019")(torch.ones(2))


MATRIX = torch.ones(2, 2)


@pytest.mark.parametrize(("function", "message"), [
    (lambda x: torch.zeros(2, 2).addmm_(x, x), "a product that is added in place has no quantized form; use"),
    (lambda x: torch.zeros(2).addmv_(x, x[0]), "added in place"),
    (lambda x: torch.zeros(1, 2, 2).baddbmm_(x[None], x[None]), "added in place"),
    (lambda x: torch.zeros(2, 2).addbmm(x[None], x[None]), "torch.addbmm has no quantized form; write it"),
    (lambda x: torch.linalg.vecdot(x, x), "write it with torch.einsum"),
    (lambda x: torch.convolution(x[None], x[:, :, None], None, [1], [0], [1], False, [0], 1), "use functional.conv1d"),
    (lambda x: torch.sparse.mm(x.to_sparse(), x), "a product with a sparse matrix has no quantized form; make"),
    (lambda x: x.to_sparse() @ x, "a product with a sparse matrix"),
])  # fmt: skip
def test_no_product_stays_in_float32_without_a_word(function, message):
    with pytest.raises(NotImplementedError, match=rf"0 \(Functional\): .*{message}"):
        quantize_model(nn.Sequential(Functional(function)), "hfp8_2019")(MATRIX)
    for plain in (quantize_model(nn.Sequential(Functional(function)), "fp32"),
                  quantize_model(nn.Sequential(Functional(function)), "hfp8_2019", skip="0")):  # fmt: skip
        assert torch.equal(plain(MATRIX), function(MATRIX))


@pytest.mark.parametrize("function", [
    lambda i: torch.einsum("i,j->ij", i, i), lambda i: torch.tensordot(i, i, 1), torch.inner, lambda i: i @ i,
])  # fmt: skip
@pytest.mark.parametrize("numbers", [torch.arange(3), torch.arange(3) + 1j])
def test_products_of_integers_and_complex_numbers_are_pytorchs(function, numbers):
    alone = (lambda i: function(i, i)) if function is torch.inner else function
    assert torch.equal(quantize_model(Functional(alone), "hfp8_2019")(numbers), alone(numbers))


def test_bad_arguments_are_explained():
    model = net()
    with pytest.raises(ValueError, match="there is no recipe 'hfp9'; did you mean hfp8_2019"):
        quantize_model(model, "hfp9")
    with pytest.raises(ValueError, match="no layer is called 'nope'"):
        quantize_model(model, "fp32", skip=["nope"])
    for wrong in ({"skip": [0]}, {"overrides": ["0"]}):
        with pytest.raises(TypeError, match="skip takes names, overrides a dict of names and recipes; got "):
            quantize_model(model, "fp32", **wrong)
    with pytest.raises(ValueError, match="last must be a layer with weights, got '2'; allowed: 0, 3, 5"):
        quantize_model(model, "fp32", last="2")
    with pytest.raises(ValueError, match="quantized already"):
        quantize_model(quantize_model(model, "fp32"), "fp32")
    with pytest.raises(TypeError, match=r"expected a torch.nn.Module and a recipe, got int"):
        quantize_model(3, "fp32")
    with pytest.raises(ValueError, match="not quantized; call quantize_model"):
        emulation_of(model)


def test_second_derivatives_are_refused():
    x = torch.ones(2, requires_grad=True)
    y = quantize_model(nn.Linear(2, 1), "hfp8_2019")(x).sum()
    (gradient,) = torch.autograd.grad(y, x, create_graph=True)
    with pytest.raises(RuntimeError):
        gradient.sum().backward()


def test_plain_recurrent_nets_train_under_fp32():
    layer = quantize_model(nn.RNN(2, 2), "fp32")
    assert torch.equal(layer(torch.ones(1, 1, 2))[0], dequantize_model(layer)(torch.ones(1, 1, 2))[0])


def test_first_and_last_follow_the_order_of_registration():
    assert kinds_of(net()) == {"0": {"first"}, "3": frozenset(), "5": {"last"}}
    assert kinds_of(models.character_transformer(5))["head"] == {"last"}
    assert not any("first" in kinds for kinds in kinds_of(models.character_transformer(5)).values())
    assert kinds_of(net(), first=None, last="3") == {"0": frozenset(), "3": {"last"}, "5": frozenset()}


def test_overrides_by_pattern():
    model = quantize_model(net(), "hfp8_2019", overrides={"3": "int4_fp4_2020", "[05]": "fp32"})
    model(X)
    labels = {n: s.rules.output_gradient_dx.label for n, s in emulation_of(model).ops.items() if "/" not in n}
    assert labels == {"0": "float32", "3": "radix4_fp4_even, nearest away, a scale for each layer", "5": "float32"}


def test_the_first_override_that_fits_a_layer_holds():
    model = quantize_model(net(), "fp32", overrides={"3": "int4_fp4_2020", "*": "hfp8_2019"})
    model(X)
    labels = {name: op.rules.output_gradient_dx.label for name, op in emulation_of(model).ops.items()}
    assert labels["3"].startswith("radix4_fp4_even") and not labels["0"].startswith("radix4")


def test_gradient_scales_follow_the_gradients():
    model, loss_of = FOREIGN["research"]()
    model = quantize_model(model, "int4_fp4_2020")
    for _ in range(4):
        loss_of(model).backward()
    scales = [s.scale.scale for s in emulation_of(model).ops.values() if s.scale]
    assert len(scales) >= 4 and len(set(scales)) > 1 and all(s > 1 for s in scales)
