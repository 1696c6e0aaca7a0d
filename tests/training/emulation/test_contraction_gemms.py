"""Each product rounds its own operands: against the papers' text, along the right axis, in every form of product."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from lplab import formats as F
from lplab.arithmetic import reference_sums
from lplab.quantizers import NVFP4_SIGNS, Hadamard
from lplab.training import quantize_model, recipes
from lplab.training.emulation.conversion import emulation_of
from lplab.training.recipe.quant_spec import LearnedClip, QuantSpec
from lplab.training.recipe.recipe import PROMOTED, LayerRules, Recipe, Update
from tests.training.emulation import papers_2025

MXFP4 = QuantSpec("mxfp4", axis="contraction")
ROTATED = QuantSpec("mxfp4", axis="contraction", transform=Hadamard(16, NVFP4_SIGNS))


def everywhere(recipe, **switches):
    """A recipe without exceptions."""
    recipe = recipes.get(recipe, **switches) if isinstance(recipe, str) else recipe
    return recipe.replace(exceptions={}, late_share=0.0)


def operands(tokens=(3, 50), inputs=140, outputs=150, seed=0):
    """x, w and dy in float32, with a few large numbers in each."""
    rng = np.random.default_rng(seed)
    shapes = ((*tokens, inputs), (outputs, inputs), (*tokens, outputs))
    found = []
    for shape in shapes:
        x = rng.standard_normal(shape) * np.exp(rng.standard_normal(shape[-1]))
        x[..., ::17] *= 8
        found.append(torch.tensor(x, dtype=torch.float32))
    return found


def through_lplab(recipe, x, w, dy):
    layer = nn.Linear(w.shape[1], w.shape[0], bias=False)
    with torch.no_grad():
        layer.weight.copy_(w)
    layer = quantize_model(layer, recipe)
    x = x.clone().requires_grad_()
    y = layer(x)
    y.backward(dy)
    return [t.detach().numpy().astype(np.float64) for t in (y, x.grad, layer.weight.grad)]


def signs_of(size):
    return Hadamard(size, 0).sign_vector.astype(np.float64)


PAPERS = {
    "deepseek_2024": ({}, papers_2025.deepseek),
    "mxfp8_2025": ({}, papers_2025.mxfp8),
    "mxfp4_2025": (
        {"rounding": "nearest_even"},
        lambda *t: papers_2025.mxfp4_backward(*t, signs_of(64)),
    ),
    "quartet_2025": ({"rounding": "nearest_even"}, lambda *t: papers_2025.quartet(*t, signs_of(32))),
    "nvfp4_2025": ({"rounding": "nearest_even"}, papers_2025.nvfp4),
}


@pytest.mark.parametrize("name", PAPERS)
def test_the_products_are_those_of_the_papers_text(name):
    """y, dx and dW of one layer, with tokens of three sequences and ragged blocks along all three sums."""
    switches, paper = PAPERS[name]
    x, w, dy = operands()
    found = through_lplab(everywhere(name, **switches), x, w, dy)
    wanted = paper(*(t.reshape(-1, t.shape[-1]).numpy().astype(np.float64) for t in (x, w, dy)))
    plain = (x @ w.T, dy @ w, dy.reshape(-1, 150).T @ x.reshape(-1, 140))
    for product, got, want, exact in zip(("y", "dx", "dW"), found, wanted, plain, strict=True):
        size = np.abs(want).max()
        np.testing.assert_allclose(got.reshape(want.shape), want, rtol=0, atol=1e-6 * size, err_msg=product)
        error = np.abs(want - exact.numpy().reshape(want.shape)).max()
        assert error > 1e-4 * size, "rounding is visible, so the comparison could have failed"


@pytest.mark.parametrize(("name", "switches", "changed"), [
    ("deepseek_2024", {"weight_tile": None}, "y dx"),
    ("deepseek_2024", {"tile": 32}, "y dx dW"),
    ("deepseek_2024", {"power_of_two": True}, "y dx dW"),
    ("mxfp8_2025", {"scale_rule": "floor"}, "y dx dW"),
    ("mxfp8_2025", {"gradients": "e5m2"}, "dx dW"),
    ("mxfp4_2025", {"hadamard": 0}, "dx dW"),
    ("mxfp4_2025", {"pre_scale": 1.0}, "dx dW"),
    ("mxfp4_2025", {"forward": "mxfp8_e4m3"}, "y"),
    ("nvfp4_2025", {"hadamard": 0}, "dW"),
    ("nvfp4_2025", {"signs": False}, "dW"),
    ("nvfp4_2025", {"weight_tile": None}, "y dx"),
    ("nvfp4_2025", {"forward": "bf16"}, "y"),
    ("nvfp4_2025", {"rounding": "stochastic"}, "dx dW"),
    ("quartet_2025", {"forward_hadamard": False}, "y"),
])  # fmt: skip
def test_a_switch_changes_the_products_that_it_names(name, switches, changed):
    base = {} if name in ("deepseek_2024", "mxfp8_2025") else {"rounding": "nearest_even"}
    data = operands()
    first = through_lplab(everywhere(name, **base), *data)
    second = through_lplab(everywhere(name, **base | switches), *data)
    differ = [key for key, a, b in zip(("y", "dx", "dW"), first, second, strict=True) if not np.array_equal(a, b)]
    assert " ".join(differ) == changed


# ---- the axis of the sum ---------------------------------------------------------------------------------------------


class OneScale:
    """Rounds each row to its largest magnitude: what it does shows which axis is the last one."""

    label = "one scale a row"

    def quantize(self, x):
        return x.abs().amax(-1, keepdim=True).expand_as(x)


ROWS = QuantSpec(quantizer=OneScale(), axis="contraction")
SIX = ("weight", "activation", "output_gradient_dx", "output_gradient_dw", "weight_dx", "activation_dw")


@pytest.mark.parametrize("role", SIX)
def test_each_role_is_rounded_along_the_sum_of_its_product(role):
    x, w, dy = operands((2, 4), 5, 6)
    rules = dict.fromkeys(("weight_dx", "activation_dw"), QuantSpec()) | {role: ROWS}
    found = through_lplab(Recipe(**rules), x, w, dy)
    rows = lambda t: t.abs().amax(1, keepdim=True).expand_as(t)  # noqa: E731
    x, dy = x.reshape(8, 5), dy.reshape(8, 6)
    used = {"weight": w, "activation": x, "output_gradient_dx": dy, "output_gradient_dw": dy.T, "weight_dx": w.T,
            "activation_dw": x.T}  # fmt: skip
    used[role] = rows(used[role])
    wanted = (used["activation"] @ used["weight"].T, used["output_gradient_dx"] @ used["weight_dx"].T,
              used["output_gradient_dw"] @ used["activation_dw"].T)  # fmt: skip
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got.reshape(want.shape), want.numpy(), rtol=1e-5, atol=1e-5)


def test_without_a_rule_of_its_own_the_backward_pass_uses_the_forward_operand():
    x, w, dy = operands((40,), 33, 20)
    once = through_lplab(Recipe(weight=MXFP4, activation=MXFP4), x, w, dy)
    rounded = [F.get("mxfp4").quantize(t).numpy() for t in (x, w)]
    np.testing.assert_allclose(once[1], dy.numpy() @ rounded[1], rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(once[2], dy.numpy().T @ rounded[0], rtol=1e-5, atol=1e-4)
    again = through_lplab(Recipe(weight=MXFP4, activation=MXFP4, weight_dx=MXFP4, activation_dw=QuantSpec()), x, w, dy)
    np.testing.assert_array_equal(once[0], again[0])
    np.testing.assert_allclose(again[2], dy.numpy().T @ x.numpy(), rtol=1e-5, atol=1e-4)
    assert not np.allclose(once[1], again[1], atol=1e-2)


# ---- every form of product -------------------------------------------------------------------------------------------


class Through(nn.Module):
    """A function of the input and one weight."""

    def __init__(self, function, shape):
        super().__init__()
        torch.manual_seed(1)
        self.function, self.weight = function, nn.Parameter(torch.randn(shape))

    def forward(self, x):
        return self.function(x, self.weight)


FORMS = {
    "linear": (lambda x, w: functional.linear(x, w), (2, 24, 40), (20, 40)),
    "x @ w": (lambda x, w: x @ w, (2, 24, 40), (40, 20)),
    "w @ x": (lambda x, w: w @ x, (2, 40, 24), (20, 40)),
    "stacks": (lambda x, w: x @ w, (2, 24, 40), (2, 40, 20)),
    "broadcast": (lambda x, w: x @ w, (3, 1, 24, 40), (2, 40, 20)),
    "vector": (lambda x, w: x @ w, (40,), (40, 20)),
    "addmm": (lambda x, w: torch.addmm(torch.ones(20), x, w), (24, 40), (40, 20)),
    "einsum": (lambda x, w: torch.einsum("bti,oi->bot", x, w), (2, 24, 40), (20, 40)),
    "einsum, two sums": (lambda x, w: torch.einsum("bhtd,hdo->bto", x, w), (2, 3, 24, 8), (3, 8, 20)),
    "einsum, dots": (lambda x, w: torch.einsum("...i,oi->o...", x, w), (2, 24, 40), (20, 40)),
    "einsum, dots in both": (lambda x, w: torch.einsum("...ij,...jk", x, w), (2, 24, 40), (2, 40, 20)),
    "einsum, no arrow": (lambda x, w: torch.einsum("tj,jk", x, w), (24, 40), (40, 20)),
    "einsum, outer": (lambda x, w: torch.einsum("t,o->to", x, w), (24,), (20,)),
    "tensordot": (lambda x, w: torch.tensordot(x, w, 2), (24, 5, 8), (5, 8, 20)),
    "inner": (lambda x, w: torch.inner(x, w), (24, 40), (20, 40)),
    "conv1d": (lambda x, w: functional.conv1d(x, w, padding=2, dilation=2), (3, 6, 17), (8, 6, 3)),
    "conv2d": (lambda x, w: functional.conv2d(x, w, stride=2, padding=1), (3, 6, 9, 8), (8, 6, 3, 3)),
    "conv2d, groups": (lambda x, w: functional.conv2d(x, w, groups=2, padding="same"), (3, 6, 9, 8), (8, 3, 3, 3)),
    "conv3d": (lambda x, w: functional.conv3d(x, w, stride=(1, 2, 1)), (2, 3, 5, 6, 4), (4, 3, 2, 3, 2)),
    "transposed": (
        lambda x, w: functional.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1),
        (2, 6, 5, 4),
        (6, 4, 3, 3),
    ),
    "transposed, groups": (
        lambda x, w: functional.conv_transpose1d(x, w, stride=3, groups=2, dilation=2), (2, 6, 5), (6, 4, 3)
    ),
}  # fmt: skip


def gradients(model, x, scale=None):
    x = x.clone().requires_grad_()
    y = model(x)
    torch.manual_seed(2)
    y.backward(torch.randn(y.shape))
    return y.detach(), x.grad, model.weight.grad


@pytest.mark.parametrize("form", FORMS)
def test_a_form_computes_what_pytorch_does_where_nothing_is_lost(form):
    """Under rules of 10 mantissa bits and a scale for each block the results are near those of float32."""
    function, x_shape, w_shape = FORMS[form]
    near = QuantSpec(F.BlockFormat(F.FloatFormat(5, 10, specials="none")), axis="contraction")
    turned = QuantSpec(near.format, axis="contraction", transform=Hadamard(8, 1))
    torch.manual_seed(0)
    x = torch.randn(x_shape)
    for rule in (near, turned):
        model = Through(function, w_shape)
        quantized = quantize_model(model, Recipe(**dict.fromkeys(SIX, rule)))
        assert emulation_of(quantized) is not None
        for got, want in zip(gradients(quantized, x), gradients(model, x), strict=True):
            assert got.shape == want.shape and not torch.equal(got, want)
            torch.testing.assert_close(got, want, rtol=0, atol=4e-3 * float(want.abs().max()))


@pytest.mark.parametrize("form", ["x @ w", "w @ x", "einsum", "tensordot", "inner"])
def test_all_spellings_of_one_product_are_one_product(form):
    """The tokens of a batch are one axis, however the product is written."""
    function, _, w_shape = FORMS[form]
    torch.manual_seed(0)
    tokens, weight = torch.randn(48, 40), torch.randn(20, 40)
    shape = {"x @ w": lambda t: t.reshape(2, 24, 40), "w @ x": lambda t: t.reshape(2, 24, 40).mT,
             "einsum": lambda t: t.reshape(2, 24, 40), "tensordot": lambda t: t.reshape(48, 5, 8)}  # fmt: skip
    layer, other = nn.Linear(40, 20, bias=False), Through(function, w_shape)
    with torch.no_grad():
        layer.weight.copy_(weight)
        other.weight.copy_((weight if tuple(w_shape) == (20, 40) else weight.t()).reshape(w_shape))
    recipe = everywhere("nvfp4_2025", rounding="nearest_even", weight_tile=None)
    layer, other = quantize_model(layer, recipe), quantize_model(other, recipe)
    layer(tokens).square().sum().backward()
    other(shape.get(form, lambda t: t)(tokens)).square().sum().backward()
    found = other.weight.grad.reshape(20, 40) if tuple(w_shape) == (20, 40) else other.weight.grad.reshape(40, 20).t()
    torch.testing.assert_close(found, layer.weight.grad, rtol=1e-5, atol=1e-4)


def test_recurrent_layers_and_attention_round_each_product():
    torch.manual_seed(0)
    rule = QuantSpec(F.BlockFormat(F.FloatFormat(5, 10, specials="none")), axis="contraction")
    recipe = Recipe(**dict.fromkeys(SIX, rule))
    for layer, inputs in (
        (nn.LSTM(6, 8, 2, bidirectional=True), (torch.randn(5, 3, 6),)),
        (nn.GRUCell(6, 8), (torch.randn(3, 6),)),
        (nn.MultiheadAttention(16, 2), (torch.randn(5, 3, 16),) * 3),
    ):
        quantized = quantize_model(copy.deepcopy(layer), recipe)
        outputs = [each(*inputs) for each in (layer, quantized)]
        pairs = [out[0] if isinstance(out, tuple) else out for out in outputs]
        torch.testing.assert_close(pairs[1], pairs[0], rtol=0, atol=5e-3)
        for out in pairs:
            out.square().sum().backward()
        for want, got in zip(layer.parameters(), quantized.parameters(), strict=True):
            torch.testing.assert_close(got.grad, want.grad, rtol=0, atol=0.02 * float(want.grad.abs().max()) + 1e-6)


# ---- sums, random bits, errors ---------------------------------------------------------------------------------------


def test_partial_sums_are_promoted_every_128_products():
    """A float32 sum of chunks of 128, added with 14 significant bits towards zero: the reference, number by number."""
    x, w, dy = operands((4,), 300, 5)
    recipe = everywhere("deepseek_2024", accumulator="promoted")
    assert recipe.accumulator == PROMOTED and PROMOTED.chunk == 128 and PROMOTED.format.mantissa_bits + 1 == 14
    y = through_lplab(recipe, x, w, dy)[0]
    rows = recipe.activation.format.quantize(x.numpy()).astype(np.float64)
    tiles = recipe.weight.format.quantize(w.numpy()).astype(np.float64)
    np.testing.assert_array_equal(y, reference_sums.matmul(rows, tiles.T, PROMOTED))
    ones = np.full(4096, 1.0)
    whole = PROMOTED.__class__(PROMOTED.format, rounding="toward_zero")
    assert reference_sums.dot(ones * 3, ones * 1.1, PROMOTED) > reference_sums.dot(ones * 3, ones * 1.1, whole)


def test_stochastic_gradients_are_right_on_average_and_differ_from_call_to_call():
    x, _, dy = operands((24,), 16, 12)
    layer = nn.Linear(16, 12, bias=False)
    model = quantize_model(layer, everywhere("mxfp4_2025"))
    total, first, draws = torch.zeros(12, 16), None, 150
    for _ in range(draws):
        model.zero_grad()
        model(x).backward(dy)
        first = model.weight.grad.clone() if first is None else first
        total += model.weight.grad
    want = dy.T @ x
    errors = [float((found - want).norm() / want.norm()) for found in (first, total / draws)]
    assert errors[0] > 0.03 and errors[1] < 3 * errors[0] / draws**0.5
    again = quantize_model(layer, everywhere("mxfp4_2025"))
    again(x).backward(dy)
    assert torch.equal(again.weight.grad, first)


@pytest.mark.parametrize(("rules", "message"), [
    ({"weight": ROTATED}, "weight has Hadamard.*so weight_dx needs a rule of its own"),
    ({"weight": ROTATED, "weight_dx": MXFP4}, "for y, activation has None and weight has Hadamard"),
    ({"output_gradient_dw": ROTATED, "activation_dw": MXFP4}, "for dW, output_gradient_dw has Hadamard.*has None"),
    ({"output_gradient_dw": ROTATED}, "for dW, output_gradient_dw has Hadamard.*and activation_dw has None"),
    ({"output_gradient_dx": ROTATED, "weight_dx": QuantSpec("mxfp4", axis="contraction", transform=Hadamard(32))},
     r"for dx, .*Hadamard\(size=16.*Hadamard\(size=32"),
])  # fmt: skip
def test_a_transform_of_one_operand_alone_is_refused(rules, message):
    with pytest.raises(ValueError, match=message):
        LayerRules(**rules)


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: QuantSpec("e4m3fn", axis="contraction"), ValueError, "needs a block format or a quantizer, got e4m3fn"),
    (lambda: QuantSpec("mxfp4", axis="tokens"), ValueError, "axis must be a number, 'contraction' or None"),
    (lambda: QuantSpec("mxfp4", transform=Hadamard()), ValueError, "pass axis='contraction'"),
    (lambda: QuantSpec("mxfp4", axis="contraction", transform=16), TypeError, "transform must be a lplab.quantizers"),
    (lambda: LayerRules(output=MXFP4), ValueError, "axis='contraction' is for operands of products, not for output"),
    (lambda: Update(weight=ROTATED), ValueError, "an update is no product, so it sums over no axis"),
    (lambda: LayerRules(activation=QuantSpec(scaling=LearnedClip()), activation_dw=MXFP4), ValueError,
     "rounds an activation once for all products; activation_dw must be None"),
    (lambda: LayerRules(weight_dx=3), TypeError, "weight_dx must be a QuantSpec"),
])  # fmt: skip
def test_rules_that_make_no_sense(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_products_without_a_matrix_form_say_what_to_write():
    model = quantize_model(Through(lambda x, w: torch.einsum("ti,oi->t", x, w), (4, 6)), Recipe(activation=MXFP4))
    with pytest.raises(NotImplementedError, match="without diagonals and sums .* got the einsum 'ti,oi->t'"):
        model(torch.ones(2, 6))
    rules = {"output_gradient_dw": ROTATED, "activation_dw": ROTATED}
    model = quantize_model(Through(lambda x, w: x @ x.mT, (1,)), Recipe(**rules))
    x = torch.ones(3, 6, requires_grad=True)
    with pytest.raises(ValueError, match="output_gradient_dx has None and activation_dw has Hadamard"):
        model(x).sum().backward()


def test_late_layers_are_the_last_ones():
    layers = [nn.Linear(8, 8) for _ in range(10)]
    model = quantize_model(nn.Sequential(*layers), recipes.get("nvfp4_2025", late=0.25))
    kinds = emulation_of(model).kinds
    assert [name for name, found in kinds.items() if "late" in found] == ["7", "8", "9"]
    rules = [emulation_of(model).rules_of(name, found) for name, found in kinds.items()]
    assert [rule.weight == QuantSpec("bf16") for rule in rules] == [False] * 7 + [True] * 3
    with pytest.raises(ValueError, match="late_share and an exception of the kind 'late' belong together"):
        Recipe(late_share=0.5)
