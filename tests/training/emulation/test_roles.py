"""Every operand of every product that PyTorch really computes lies on the grid that the recipe gives its role.

The spy sits below autograd, where the products are carried out, and knows nothing of lplab.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from lplab import formats, models
from lplab.quantizers import DelayedScaling
from lplab.training import recipes
from lplab.training.emulation.conversion import emulation_of, quantize_model
from lplab.training.recipe.quant_spec import PerLayerGradScale, QuantSpec
from lplab.training.recipe.recipe import LayerRules, Recipe
from tests.training.emulation.foreign import FOREIGN

ATEN = torch.ops.aten
PRODUCTS = {ATEN.mm: (0, 1), ATEN.bmm: (0, 1), ATEN.addmm: (1, 2), ATEN.baddbmm: (1, 2), ATEN.convolution: (0, 1)}


class Spy(TorchDispatchMode):
    """Keeps copies of the operands of all products: pairs, and for a backward convolution (dy, x, weight, mask)."""

    def __init__(self):
        super().__init__()
        self.pairs, self.backward_convolutions = [], []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        packet = func.overloadpacket
        if packet in PRODUCTS:
            self.pairs.append(tuple(args[i].clone() for i in PRODUCTS[packet]))
        if packet is ATEN.convolution_backward:
            self.backward_convolutions.append((*(a.clone() for a in args[:3]), args[-1]))
        return func(*args, **(kwargs or {}))


def on(format, *tensors, scale=1.0):
    return all(bool((format.quantize(t * scale) == t * scale).all()) for t in tensors)


def everywhere(name, **switches):
    """A recipe without exceptions."""
    return recipes.get(name, **switches).replace(exceptions={})


def spied(model, loss_of):
    forward, backward = Spy(), Spy()
    with forward:
        loss = loss_of(model)
    with backward:
        (loss * 256).backward()
    return forward, backward


def resnet():
    x, y = torch.rand(4, 1, 8, 8), torch.arange(4)
    return models.digits_resnet(), lambda model: functional.cross_entropy(model(x), y)


def transformer():
    ids = torch.randint(9, (2, 8))
    return models.character_transformer(9), lambda m: functional.cross_entropy(m(ids).flatten(0, 1), ids.flatten())


MODELS = {"resnet": resnet, "transformer": transformer, "gpt2": FOREIGN["gpt2"], "speech": FOREIGN["speech"]}


@pytest.mark.parametrize("name", MODELS)
def test_hybrid_fp8_reaches_every_product(name):
    model, loss_of = MODELS[name]()
    model = quantize_model(model, everywhere("hfp8_2019"))
    forward, backward = spied(model, loss_of)
    narrow, wide = formats.get("hfp8_forward"), formats.get("hfp8_backward")
    assert len(forward.pairs) >= 6
    assert all(on(narrow, *pair) for pair in forward.pairs)
    for a, b in backward.pairs:  # one is a gradient, the other what the forward product saw
        assert (on(wide, a) and on(narrow, b)) or (on(wide, b) and on(narrow, a))
    for dy, x, weight, _ in backward.backward_convolutions:
        assert on(wide, dy) and on(narrow, x, weight)
    assert len(backward.pairs) + len(backward.backward_convolutions) >= len(forward.pairs)


def in_any_order(pairs):
    return sorted(tuple((tuple(t.shape), t.numpy().tobytes()) for t in pair) for pair in pairs)


@pytest.mark.parametrize("name", MODELS)
def test_fp32_computes_what_plain_pytorch_computes(name):
    model, loss_of = MODELS[name]()
    plain = spied(model, loss_of)
    quantized = spied(quantize_model(model, "fp32"), loss_of)
    model.zero_grad()
    if name == "speech":  # dropout differs from call to call
        assert [len(s.pairs) for s in plain] == [len(s.pairs) for s in quantized]
        return
    for a, b in zip(plain, quantized, strict=True):
        assert in_any_order(a.pairs) == in_any_order(b.pairs)


@pytest.mark.parametrize(("phases", "dx_phase", "dw_phase"), [
    ("two", "even", "odd"), ("swapped", "odd", "even"), ("single", "even", "even"),
])  # fmt: skip
def test_two_phases_go_to_the_two_products(phases, dx_phase, dw_phase):
    torch.manual_seed(0)
    recipe = everywhere("int4_fp4_2020", phases=phases)
    model = quantize_model(nn.Linear(6, 5, bias=False), recipe, first=None, last=None)
    x = torch.randn(40, 6, requires_grad=True)
    spy = Spy()
    y = model(x)
    with spy:
        y.backward(torch.randn(40, 5) * 1e-4)
    scale = emulation_of(model).ops[""].scale.scale
    (dy_dx, weight), (dy_dw, seen) = spy.pairs
    assert dy_dx.shape == (40, 5) and dy_dw.shape == (5, 40)
    assert on(formats.get(f"radix4_fp4_{dx_phase}"), dy_dx, scale=scale)
    assert on(formats.get(f"radix4_fp4_{dw_phase}"), dy_dw, scale=scale)
    assert len(weight.unique()) <= 15 and len(seen.unique()) <= 15
    assert (dy_dx.abs().max() * scale) in (32, 64, 16)


def test_fp8_for_dw_beside_fp4_for_dx():
    torch.manual_seed(0)
    model = quantize_model(nn.Linear(6, 5), everywhere("int4_fp4_2020", dw="fp8"), first=None, last=None)
    x = torch.randn(40, 6, requires_grad=True)
    spy, dy = Spy(), torch.randn(40, 5) * 1e-4
    y = model(x)
    with spy:
        y.backward(dy)
    scale = emulation_of(model).ops[""].scale.scale
    (dy_dx, _), (dy_dw, _) = spy.pairs
    assert on(formats.get("radix4_fp4_even"), dy_dx, scale=scale)
    assert on(formats.get("hfp8_backward"), dy_dw, scale=scale) and len(dy_dw.abs().unique()) > 8


def kinds_net():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.Conv2d(8, 8, 3, padding=1, groups=8),
        nn.Conv2d(8, 4, 1),
        nn.Conv2d(4, 6, 1),
        nn.Flatten(),
        nn.Linear(6 * 16, 8),
        nn.Linear(8, 3),
    )


def test_exceptions_get_what_they_should():
    recipe = recipes.get("int4_fp4_2020", pointwise="reducing_fp8")
    model = quantize_model(kinds_net(), recipe)
    functional.cross_entropy(model(torch.rand(4, 1, 4, 4)), torch.arange(4) % 3).backward()
    ops = emulation_of(model).ops
    kinds = {name: sorted(op.kinds) for name, op in ops.items()}
    assert kinds == {
        "0": ["first"], "1": ["depthwise"], "2": ["pointwise", "reducing"], "3": ["pointwise"], "5": [], "6": ["last"],
    }  # fmt: skip
    labels = {name: op.rules.output_gradient_dw.format.label for name, op in ops.items()}
    assert labels == {
        "0": "dlfloat16", "1": "dlfloat16", "2": "hfp8_backward", "3": "radix4_fp4_odd", "5": "radix4_fp4_odd",
        "6": "dlfloat16",
    }  # fmt: skip


def test_the_weight_gradient_and_outputs_are_rounded_where_the_recipe_says_so():
    model = quantize_model(nn.Linear(3, 2), "bf16")
    x = torch.randn(5, 3, requires_grad=True)
    y = model(x)
    y.backward(torch.randn(5, 2))
    bf16 = formats.get("bf16")
    assert on(bf16, y, x.grad, model.weight.grad) and not on(bf16, model.weight)


def test_fixed_point_rounds_outputs_errors_and_normalization():
    model = quantize_model(nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 2)), "fixed16_2015")
    grid, seen = formats.get("q6.10"), []
    for layer in model:
        layer.register_forward_hook(lambda module, args, output: seen.append(output))
    x = torch.randn(3, 4, requires_grad=True)
    model(x).sum().backward()
    assert len(seen) == 3 and on(grid, *seen, x.grad)


def test_the_emulated_accumulator_is_that_of_arithmetic():
    from lplab.arithmetic import matmul
    from lplab.training.recipe.recipe import CHUNKED

    torch.manual_seed(0)
    model = quantize_model(nn.Linear(300, 2, bias=False), recipes.get("fp8_2018", accumulator="chunked"), last=None)
    x = torch.rand(3, 300)
    dlfloat = formats.get("dlfloat16")
    rules = emulation_of(model).rules_of("", frozenset({"first"}))
    q, w = (getattr(rules, role).format.quantize(t.detach(), "nearest_away") for role, t in
            (("activation", x), ("weight", model.weight)))  # fmt: skip
    assert torch.equal(model(x), matmul(q, w.T, CHUNKED)) and on(dlfloat, model(x))


def test_luq_rounds_to_powers_of_two_times_one_number():
    torch.manual_seed(0)
    model = quantize_model(nn.Linear(6, 5), everywhere("luq_2022"), first=None, last=None)
    x = torch.randn(40, 6, requires_grad=True)
    spy, y = Spy(), model(x)
    dy = torch.randn(40, 5) * 1e-3
    with spy:
        y.backward(dy)
    units = (spy.pairs[0][0].abs() / dy.abs().max() * 64).unique()
    assert torch.isin(units, torch.tensor([0.0, 1, 2, 4, 8, 16, 32, 64])).all() and len(units) > 4


@pytest.mark.parametrize("name", ["pact_sawb_2019", "int4_fp4_2020", "luq_2022"])
def test_the_grid_of_sawb_is_a_switch(name):
    torch.manual_seed(0)
    seen = {}
    for row in (None, "4bit", "403_16"):
        model = quantize_model(nn.Linear(40, 50), everywhere(name, bits=4, sawb=row), first=None, last=None)
        emulation_of(model).watch = lambda _, role, before, after, row=row: seen.update({(row, role): after.values})
        model(torch.randn(3, 40))
    codes = {row: len(seen[row, "weight"].unique()) for row in (None, "4bit", "403_16")}
    assert codes == {None: 15, "4bit": 16, "403_16": codes["403_16"]} and codes["403_16"] in (15, 16)
    assert (seen["4bit", "weight"] != 0).all() and (seen["403_16", "weight"] == 0).any()


def test_shared_inputs_are_rounded_once_and_dy_once():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(4, 4) for _ in range(3))

        def forward(self, x):
            return self.q(x) + self.k(x) + self.v(x)

    model = quantize_model(Attention(), everywhere("hfp8_2019"))
    seen = []
    emulation = emulation_of(model)
    forward, _ = spied(model, lambda m: m(torch.ones(2, 4) * 0.3).sum())
    pointers = {pair[0].sum().item() for pair in forward.pairs}
    assert len(pointers) == 1
    emulation.watch = lambda op, role, before, after: seen.append((op.name, role))
    model(torch.ones(2, 4)).sum().backward()
    assert [role for name, role in seen if name == "q"].count("output_gradient_dx") <= 1
    assert ("q", "weight") in seen and ("q", "activation") in seen


@pytest.mark.parametrize("kind", ["embedding", "normalization"])
def test_a_scale_per_layer_serves_layers_without_a_product_too(kind):
    """An embedding or a normalization has a gradient but no product: its scale follows all the same."""
    layers = nn.Sequential(nn.Embedding(5, 8), nn.LayerNorm(8), nn.Linear(8, 3))
    rule = QuantSpec("radix4_fp4_even", "nearest_away", PerLayerGradScale())
    rules = LayerRules(output_gradient_dx=rule, output_gradient_dw=rule)
    model = quantize_model(layers, Recipe(exceptions={kind: rules}))
    (1e-6 * model(torch.tensor([0, 1, 2, 3])).square().sum()).backward()
    weight = model[0 if kind == "embedding" else 1].weight
    assert weight.grad.count_nonzero() > 0


@pytest.mark.parametrize(("quantizer", "message"), [
    (DelayedScaling("e4m3fn"), "must not have state, as DelayedScaling has"),
    (object(), "must have a method quantize"),
])  # fmt: skip
def test_quantizers_that_no_rule_can_use(quantizer, message):
    with pytest.raises(TypeError, match=message):
        QuantSpec(quantizer=quantizer)
