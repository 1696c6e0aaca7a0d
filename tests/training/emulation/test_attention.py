"""Attention under a recipe: masks, mask objects, groups of heads, and PyTorch's own path in evaluation."""

import itertools
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right, causal_upper_left
from torch.nn.attention.flex_attention import flex_attention

from lplab.formats import FloatFormat
from lplab.training import recipes
from lplab.training.emulation.conversion import emulation_of, float32, quantize_model
from lplab.training.emulation.unseen_products import unseen_products
from lplab.training.recipe.recipe import Recipe

NEARLY_EXACT = FloatFormat(8, 22, bias=127)
FINE = Recipe(**dict.fromkeys(("weight", "activation", "output_gradient_dx", "output_gradient_dw"), NEARLY_EXACT))
INF = float("inf")


class Attend(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, q, k, v, mask=None, **options):
        if callable(mask):  # a mask object that the model makes
            mask = mask(q.shape[-2], k.shape[-2])
        return F.scaled_dot_product_attention(self.layer(q), k, v, mask, **options)


def model_of(recipe, module=None):
    torch.manual_seed(0)
    return quantize_model(module or Attend(), recipe, first=None, last=None)


def operands(*heads, queries=3, keys=6):
    torch.manual_seed(1)
    return [torch.randn(2, each, n, 8) for each, n in zip(heads, (queries, keys, keys), strict=True)]


@pytest.mark.parametrize("recipe", [name for name in recipes.names() if name != "fp32"])
@pytest.mark.parametrize("inside", [True, False])
def test_a_mask_object_masks_as_its_booleans_do(recipe, inside):
    q, k, v = operands(2, 2, 2)
    for make, shift in ((causal_upper_left, 0), (causal_lower_right, 3)):
        allowed = torch.ones(3, 6, dtype=torch.bool).tril(shift)
        with torch.no_grad():
            expected = model_of(recipe)(q, k, v, allowed)
            mask = make if inside else make(3, 6)
            assert torch.equal(model_of(recipe)(q, k, v, mask), expected)
            later = (k + (torch.arange(6) == 5)[:, None], v + (torch.arange(6) == 5)[:, None])
        if recipe == "hfp8_2019":  # no scale joins the positions
            assert torch.equal(model_of(recipe)(q, *later, mask)[:, :, 0], expected[:, :, 0])


def test_a_mask_object_and_a_causal_mask_are_refused_as_in_pytorch():
    with pytest.raises(ValueError, match="CausalBias should not be used with causal=True"):
        model_of("hfp8_2019")(*operands(2, 2, 2), causal_upper_left(3, 6), is_causal=True)


@pytest.mark.parametrize("heads", [*itertools.product((1, 4, 6), (1, 2, 4), (1, 2, 3))])
def test_groups_of_heads(heads):
    """Key and value are each repeated by their own factor, or PyTorch refuses the call."""
    q, k, v = (x.requires_grad_() for x in operands(*heads))
    try:
        F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    except RuntimeError as error:
        with pytest.raises(RuntimeError) as found:
            model_of("hfp8_2019")(q, k, v, enable_gqa=True)
        assert str(found.value) == str(error)
        return
    repeated = [x.repeat_interleave(heads[0] // x.shape[1], 1) for x in (k, v)]
    results = []
    for operands_, options in (((q, k, v), {"enable_gqa": True}), ((q, *repeated), {})):
        y = model_of("hfp8_2019")(*operands_, **options)
        results.append([y, *torch.autograd.grad(y.square().sum(), (q, k, v))])
    assert all(map(torch.equal, *results))


def blocked(*rows):
    mask = torch.zeros(3, 6)
    mask[list(rows)] = -INF
    return mask


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", [
    {"mask": torch.rand(3, 6) > 0.4}, {"mask": torch.rand(6) > 0.4}, {"mask": torch.rand(2, 1, 1, 6) > 0.4},
    {"mask": torch.randn(3, 6)}, {"mask": torch.randn(3, 1)}, {"mask": torch.randn(2, 2, 3, 6)}, {"mask": blocked(1)},
    {"mask": blocked(0, 1, 2)}, {"mask": blocked(1) == 0}, {"mask": torch.randn(6)}, {"mask": torch.randn(5)},
    {"mask": torch.ones(3, 6).long()}, {"mask": torch.ones(3, 6).half()}, {"mask": torch.ones(2, 2, 2, 3, 6)},
    {"mask": torch.ones(3, 6).double()}, {"mask": torch.rand(3, 6) > 0.2, "is_causal": True}, {"is_causal": True},
    {"scale": 0.3}, {"scale": -2.0}, {"scale": 0.0}, {"dropout_p": 1.0}, {"dropout_p": 1.5}, {"dropout_p": -0.5},
])  # fmt: skip
def test_masks_and_scales_are_pytorchs(options):
    q, k, v = (x.requires_grad_() for x in operands(2, 2, 2))
    model, options = model_of(FINE), dict(options)
    mask = options.pop("mask", None)
    try:
        expected = F.scaled_dot_product_attention(model.layer(q), k, v, mask, **options)
    except (RuntimeError, IndexError) as error:
        with pytest.raises(type(error)) as found:
            model(q, k, v, mask, **options)
        assert str(found.value) == str(error)
        return
    y = model(q, k, v, mask, **options)
    assert torch.allclose(y, expected, atol=1e-5)
    for found, gradient in zip(*(torch.autograd.grad(each.sum(), (q, k, v)) for each in (y, expected)), strict=True):
        assert torch.allclose(found, gradient, atol=1e-5)


@pytest.mark.parametrize("shapes", [
    ((3, 8), (6, 8), (6, 8)), ((2, 3, 8), (2, 6, 8), (2, 6, 5)), ((2, 0, 8), (2, 6, 8), (2, 6, 8)),
    ((2, 3, 8), (2, 0, 8), (2, 0, 8)), ((2, 3, 0), (2, 6, 0), (2, 6, 4)), ((2, 4, 3, 8), (1, 4, 6, 8), (2, 1, 6, 8)),
])  # fmt: skip
def test_ranks_and_empty_sizes(shapes):
    torch.manual_seed(0)
    tensors = [torch.randn(shape) for shape in shapes]

    class Bare(nn.Module):
        def forward(self, q, k, v):
            return F.scaled_dot_product_attention(q, k, v)

    assert torch.allclose(model_of(FINE, Bare())(*tensors), F.scaled_dot_product_attention(*tensors), atol=1e-6)


def test_values_of_another_length_are_refused():
    """PyTorch's fused function on CPUs reads beyond the end of the shorter tensor."""
    q, k, v = operands(2, 2, 2)
    with pytest.raises(RuntimeError, match="Expected size for first two dimensions of batch2"):
        model_of("hfp8_2019")(q, k, v[:, :, :4])


def test_flex_attention_is_refused_with_a_cure():
    class Flex(Attend):
        def forward(self, q, k, v):
            return flex_attention(self.layer(q), k, v)

    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(
            NotImplementedError, match="flex_attention has no quantized form; use functional.scaled_dot"
        ):
            model_of("hfp8_2019", Flex())(*operands(2, 2, 2))


# ---- layers ----------------------------------------------------------------------------------------------------------


PADDING, LATER = torch.tensor([[False] * 5, [False] * 3 + [True] * 2]), torch.ones(5, 5, dtype=torch.bool).triu(1)
LAYERS = {
    "attention": (lambda: nn.MultiheadAttention(8, 2, batch_first=True), lambda m, x: m(x, x, x)[0]),
    "attention, padded": (
        lambda: nn.MultiheadAttention(8, 2, batch_first=True), lambda m, x: m(x, x, x, key_padding_mask=PADDING)[0],
    ),
    "attention, masks": (
        lambda: nn.MultiheadAttention(8, 2, batch_first=True, add_zero_attn=True),
        lambda m, x: m(x, x, x, key_padding_mask=PADDING, attn_mask=LATER, need_weights=False)[0],
    ),
    "encoder, padded": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), 2),
        lambda m, x: m(x, src_key_padding_mask=PADDING),
    ),
}  # fmt: skip


class Around(nn.Module):
    def __init__(self, layer, call):
        super().__init__()
        self.layer, self.call, self.head = layer, call, nn.Linear(8, 8)

    def forward(self, x):
        return self.head(self.call(self.layer, x))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LAYERS)
def test_attention_layers_that_round_nothing_have_pytorchs_bits(name):
    make, call = LAYERS[name]
    torch.manual_seed(0)
    plain, x = Around(make(), call), torch.randn(2, 5, 8)
    whole, part = quantize_model(plain, "fp32"), quantize_model(plain, "hfp8_2019", skip=["layer", "layer.*"])
    off = quantize_model(plain, "hfp8_2019", first=None, last=None)
    for train, grad in itertools.product((True, False), (True, False)):
        with torch.set_grad_enabled(grad):
            expected = call(plain.train(train).layer, x)
            for model in (whole, part, off):
                model.train(train)
            with float32(off):
                results = [call(model.layer, x) for model in (whole, part, off)]
            assert all(torch.equal(y, expected) for y in results)
            assert torch.equal(whole(x), plain(x))
    assert not emulation_of(part).thread.modes and not emulation_of(part).thread.calls


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LAYERS)
def test_attention_layers_round_the_same_in_evaluation(name):
    """PyTorch's fused function is not taken where a recipe rounds."""
    make, call = LAYERS[name]
    torch.manual_seed(0)
    plain, x = Around(make(), call).eval(), torch.randn(2, 5, 8)
    fine, rounded = quantize_model(plain, FINE, first=None, last=None), quantize_model(plain, "hfp8_2019")
    with_gradients = rounded(x)
    with torch.no_grad():
        assert torch.equal(rounded(x), with_gradients) and not torch.allclose(rounded(x), plain(x), atol=1e-4)
        kept = ~PADDING if "encoder" in name else torch.ones_like(PADDING)  # PyTorch sets padded positions to zero
        assert torch.allclose(fine(x)[kept], plain(x)[kept], atol=1e-5)
    assert not unseen_products(emulation_of(rounded))


def test_an_error_in_a_layer_that_rounds_nothing_leaves_the_mode_on():
    make, call = LAYERS["attention"]
    model = quantize_model(Around(make(), call).eval(), "hfp8_2019", skip=["layer", "layer.*"], first=None, last=None)
    x = torch.randn(2, 5, 8)
    expected = model(x)

    def catches(module, x):
        with pytest.raises(Exception, match="was expecting embedding dimension of 8"):
            module(x[..., :4], x, x)
        return call(module, x)

    model.call = catches
    assert torch.equal(model(x), expected)
