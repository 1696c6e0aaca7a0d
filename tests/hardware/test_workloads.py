"""Workloads: published totals, the products of three passes, and modules watched while they run."""

import warnings
from collections import namedtuple

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from lplab import models
from lplab.hardware import compute, precisions, workloads
from lplab.hardware.memory import activation_bytes
from lplab.hardware.workloads import torch_ops
from lplab.hardware.workloads.workload import Layer, Workload

# parameters and multiply-adds (products alone) as everybody counts them: torchvision and its counters for the first
# four; the others from the papers' shapes
TOTALS = {
    "resnet18": (11_689_512, 1_814_073_344),
    "resnet50": (25_557_032, 4_089_184_256),
    "mobilenetv2": (3_504_872, 300_774_272),
    "vgg16": (138_357_544, 15_470_264_320),
    "bert_base": (109_482_240, None),
    "gpt": (124_439_808, None),
}


@pytest.mark.parametrize("name", TOTALS)
def test_totals_are_those_that_everybody_knows(name):
    parameters, multiplications = TOTALS[name]
    found = workloads.get(name)
    assert found.parameters == parameters
    assert multiplications in (None, found.multiplications)


def test_gpt3_needs_six_operations_for_each_parameter_and_token():
    gpt3 = workloads.get("gpt3")
    assert gpt3.parameters == pytest.approx(174.6e9, rel=1e-3)
    per_token = gpt3.training_flops / gpt3.tokens
    assert per_token == pytest.approx(6 * 175e9, rel=0.05)  # attention adds a few per cent
    assert per_token * 300e9 == pytest.approx(3.14e23, rel=0.05)


def test_the_medium_language_model_of_zaremba():
    lstm = workloads.get("lstm_lm")
    assert round(lstm.parameters / 1e6, 1) == 19.8
    state = next(layer for layer in lstm.layers if layer.name == "lstm1.state")
    assert state.steps == 35 and state.m == 1


def test_three_products_for_each_layer():
    products = workloads.get("resnet50").gemms(8)
    forward, dx, dw = products.flops
    some = forward > 0
    assert np.array_equal(forward[some][1:], dx[some][1:]) and np.array_equal(forward, dw)
    assert dx[some][0] == 0  # the gradient of the image is not needed
    assert forward.sum() == 16 * workloads.get("resnet50").multiplications


def test_attention_repeats_its_products_and_dense_layers_lengthen_theirs():
    bert = workloads.get("bert_base")
    one, eight = bert.gemms(1), bert.gemms(8)
    own = bert.columns["kind"] == "attention"
    dense = bert.columns["kind"] == "linear"
    assert np.array_equal(eight.groups[0, own], 8 * one.groups[0, own]) and np.array_equal(
        eight.m[0, own], one.m[0, own]
    )
    assert np.array_equal(eight.m[0, dense], 8 * one.m[0, dense])
    many = bert.gemms([1, 8])
    assert many.m.shape == (2, 3, len(bert)) and np.array_equal(many.m[1], eight.m)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Workload("empty", "empty", ()), "workload 'empty' has no layers"),
        (lambda: Workload("n", "n", (Layer("norm", "norm", inputs=3, outputs=3),)), "has no matrix product"),
        (lambda: Layer("x", "linear", m=1, n=2), "m, n and k are all above 0"),
        (lambda: Layer("x", "linear", m=-1, n=2, k=3), "m must be a whole number from 0, got -1"),
        (lambda: Layer("x", "linear", m=1, n=2, k=3, groups=0), "groups must be a whole number from 1"),
        (lambda: Layer("x", "linear", m=1, n=2, k=3, exception="wide"), "exception must be one of first"),
        (lambda: workloads.get("resnet51"), "there is no workload 'resnet51'; did you mean resnet"),
        (lambda: workloads.gpt(layers=0), "gpt: layers must be a whole number from 1, got 0"),
        (lambda: workloads.gpt(heads=0), "gpt: heads must be a whole number from 1, got 0"),
        (lambda: workloads.gpt(inner=-4), "gpt: inner must be a whole number from 1, got -4"),
        (lambda: workloads.gpt(width=100, heads=3), "the width 100 cannot be shared among 3 heads"),
        (lambda: workloads.get("gpt").gemms(0), "batch must be a whole number from 1"),
        (lambda: workloads.get("gpt").gemms(1.5), "batch must be a whole number from 1"),
    ],
)
def test_bad_input_gets_one_line(make, message):
    with pytest.raises(ValueError, match=message) as problem:
        make()
    assert "\n" not in str(problem.value)


# ---- modules ---------------------------------------------------------------------------------------------------------

WORDS = torch.zeros(4, 16, dtype=torch.long)
MODULES = {
    "residual": (models.digits_resnet, (4, 1, 8, 8)),
    "resnet": (lambda: models.resnet(8), (4, 3, 32, 32)),
    "depthwise": (models.depthwise_net, (4, 3, 8, 8)),
    "mlp": (models.mlp, (4, 64)),
    "transformer": (lambda: models.character_transformer(65), WORDS),
    "lstm": (lambda: models.lstm(50), WORDS),
    "torch's own": (lambda: torch.nn.TransformerEncoderLayer(64, 4, batch_first=True), (4, 10, 64)),
}


def watched(name):
    make, example = MODULES[name]
    model = make()
    return model, workloads.from_module(model, example if isinstance(example, torch.Tensor) else torch.zeros(example))


@pytest.mark.parametrize("name", MODULES)
def test_a_module_gives_its_parameters_and_torchs_count_of_operations(name):
    from torch.utils.flop_counter import FlopCounterMode

    example = MODULES[name][1]
    model, found = watched(name)
    assert found.parameters == sum(p.numel() for p in model.parameters())
    if name == "lstm":  # torch's counter knows no recurrent layers
        width = 64
        assert found.multiplications == 16 * (2 * 8 * width * width + width * 50)
        return
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        model(example if isinstance(example, torch.Tensor) else torch.zeros(example))
    assert 8 * found.multiplications == counter.get_total_flops()


def test_the_batch_divides_out_and_the_module_stays_as_it_was():
    model = models.digits_resnet()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    one, many = (workloads.from_module(model, torch.ones(n, 1, 8, 8)) for n in (1, 8))
    assert [(a.m, a.n, a.k, a.weights, a.inputs) for a in one.layers] == [
        (b.m, b.n, b.k, b.weights, b.inputs) for b in many.layers
    ]
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert not any(module._forward_hooks for module in model.modules())


def test_the_quantizers_of_a_quantized_module_stay_as_they_were():
    from lplab.training import quantize_model, quantizer_state

    model = quantize_model(models.digits_resnet(), "int4_fp4_2020")
    before = quantizer_state(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert workloads.from_module(model, torch.ones(2, 1, 8, 8)).layers
    assert quantizer_state(model) == before and before["clips"]


def test_ends_shortcuts_depthwise_layers_and_attention_are_told_apart():
    _, residual = watched("residual")
    kinds = {layer.name: layer.exception for layer in residual.layers if layer.exception}
    assert kinds == {"stem": "first", "head": "last", "layer2.shortcut.0": "shortcut", "layer3.shortcut.0": "shortcut"}
    _, depthwise = watched("depthwise")
    assert any(layer.exception == "depthwise" and layer.groups > 1 for layer in depthwise.layers)
    _, transformer = watched("transformer")
    assert sum(layer.kind == "attention" for layer in transformer.layers) == 6
    _, lstm = watched("lstm")
    assert {layer.steps for layer in lstm.layers if layer.has_product} == {1, 16}


def test_a_first_product_behind_a_table_has_a_dx_and_one_behind_a_picture_has_none():
    for name, expected in (("transformer", True), ("residual", False)):
        _, found = watched(name)
        first = [layer.exception for layer in found.layers].index("first")
        assert (found.gemms(1).flops[1, first] > 0) == expected, name


def test_fused_attention_is_two_products_and_a_softmax():
    class Fused(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.scaled_dot_product_attention(x, x, x)

    found = workloads.from_module(Fused(), torch.zeros(2, 4, 10, 16))
    assert [layer.kind for layer in found.layers][:3] == ["attention", "softmax", "attention"]
    assert found.multiplications == 2 * 4 * 10 * 10 * 16


@pytest.mark.parametrize("batch", [0, -1, 2.0, True, "2"])
def test_a_batch_that_is_no_number_of_examples_is_refused(batch):
    with pytest.raises(ValueError, match="batch must be an integer from 1"):
        workloads.from_module(nn.Linear(4, 2), torch.zeros(3, 4), batch=batch)


def test_what_is_no_batch_or_has_no_product_is_refused():
    with pytest.raises(ValueError, match="ReLU multiplies no matrices"):
        workloads.from_module(torch.nn.ReLU(), torch.zeros(1, 3))
    with pytest.raises(ValueError, match="example_input must be a tensor with a batch"):
        workloads.from_module(models.mlp(), 3)


# ---- counts by hand --------------------------------------------------------------------------------------------------

B, T, E = 4, 6, 16  # examples, steps or tokens, width
ROWS, STEPS = torch.randn(B, E), torch.randn(B, T, E)
WORDS_OF_T = torch.zeros(B, T, dtype=torch.long)


class Does(nn.Module):
    """A module that computes what a function of it and its arguments says; tensors become buffers."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, nn.Buffer(part) if type(part) is torch.Tensor else part)

    def forward(self, *args, **kwargs):
        return self.function(self, *args, **kwargs)


def p(*shape, dtype=None):
    return nn.Parameter(torch.randn(*shape, dtype=dtype))


def dense(n=E, k=E):
    return nn.Linear(k, n)


def image(*shape):
    return torch.randn(B, *shape)


def masks(m, x):
    return functional.scaled_dot_product_attention(x.repeat(1, 4, 1, 1), x, x, enable_gqa=True)


PACKED = nn.utils.rnn.pack_padded_sequence
COUNTS = {  # a module, its input, multiply-adds for one example
    "matrix by vector": (Does(lambda m, x: m.w @ x[0], w=p(5, E)), ROWS[:1], 5 * E),
    "by a vector": (Does(lambda m, x: x @ m.w, w=p(E)), STEPS, T * E),
    "outer": (Does(lambda m, x: torch.outer(x[0], m.w), w=p(5)), ROWS[:1], 5 * E),
    "outer, einsum": (Does(lambda m, x: torch.einsum("bi,bj->bij", x, x)), ROWS, E * E),
    "addr": (Does(lambda m, x: torch.addr(torch.zeros(E, 5), x[0], m.w), w=p(5)), ROWS[:1], 5 * E),
    "a scale is no outer product": (Does(lambda m, x: m.l(x) * x.mean(1, True), l=dense()), ROWS, E * E),
    "bilinear": (nn.Bilinear(E, 3, 7), (ROWS, ROWS[:, :3]), 7 * E * 3),
    "complex": (Does(lambda m, x: x.cfloat() @ m.w, w=p(E, 5, dtype=torch.cfloat)), ROWS, 4 * 5 * E),
    "weight on the left": (Does(lambda m, x: (m.w @ x.t()).t(), w=p(5, E)), ROWS, 5 * E),
    "einsum": (Does(lambda m, x: torch.einsum("bti,hio->bhto", x, m.w), w=p(4, E, 3)), STEPS, T * 4 * E * 3),
    "a weight for each head": (
        Does(lambda m, x: torch.einsum("bthi,hio->btho", x, m.w), w=p(4, E, 3)), image(T, 4, E), T * 4 * E * 3),
    "broadcast bmm": (Does(lambda m, x: x[:, None] @ m.w, w=p(4, E, 3)), STEPS, T * 4 * E * 3),
    "tensordot": (Does(lambda m, x: torch.tensordot(x, m.w, ([2], [1])), w=p(5, E)), STEPS, T * 5 * E),
    "buffer": (Does(lambda m, x: functional.linear(x, m.w), w=torch.randn(5, E)), ROWS, 5 * E),
    "table of positions": (
        Does(lambda m, x: m.l(x) + (m.t @ m.w).sum(), t=torch.randn(225, 2), w=p(2, 8), l=dense()), ROWS, E * E + 3600),
    "weight norm": (nn.utils.parametrizations.weight_norm(dense(5)), ROWS, 5 * E),
    "sum of products of weights": (
        Does(lambda m, x: functional.linear(x, m.w + m.b @ m.a), w=p(8, E), a=p(2, E), b=p(8, 2)), ROWS, 24 * E),
    "grouped, dilated": (nn.Conv2d(8, 12, 3, groups=4, dilation=2), image(8, 9, 9), 25 * 12 * 2 * 9),
    "depthwise": (nn.Conv2d(8, 8, 3, groups=8, padding=1), image(8, 9, 9), 81 * 8 * 9),
    "frames": (Does(lambda m, x: m.c(x.flatten(0, 1)), c=nn.Conv2d(3, 5, 3)), image(7, 3, 8, 8), 7 * 36 * 27 * 5),
    "transposed": (nn.ConvTranspose2d(16, 32, 2, 2), image(16, 9, 9), 81 * 16 * 32 * 4),
    "transposed, grouped": (nn.ConvTranspose2d(16, 32, 3, 2, 1, 1, groups=4), image(16, 9, 9), 81 * 16 * 8 * 9),
    "transposed, depthwise": (nn.ConvTranspose1d(8, 8, 4, 4, groups=8), image(8, 9), 9 * 8 * 4),
    "kernels of the example": (
        Does(lambda m, x: functional.conv2d(x.reshape(1, -1, 8, 8), m.l(x.mean((2, 3))).view(-1, 3, 1, 1), groups=B),
             l=dense(15, 3)), image(3, 8, 8), 45 + 64 * 15),
    "lstm": (nn.LSTM(E, 8, 2, bidirectional=True, proj_size=5, batch_first=True), STEPS,
             2 * T * (32 * (E + 5) + 5 * 8 + 32 * (10 + 5) + 5 * 8)),
    "gru": (nn.GRU(E, 8, batch_first=True), STEPS, T * 24 * (E + 8)),
    "several lengths": (
        Does(lambda m, x: m.l(PACKED(x, torch.tensor([6, 5, 3, 2]), True))[1][0], l=nn.LSTM(E, 8)), STEPS, 4 * 32 * 24),
    "examples one by one": (Does(lambda m, x: torch.stack([m.l(row) for row in x]), l=dense(5)), ROWS, 5 * E),
    "bags": (Does(lambda m, x: m.l(m.e(x)), e=nn.EmbeddingBag(50, E), l=dense(3)), WORDS_OF_T, 3 * E),
    "grouped queries": (Does(masks), image(2, T, 8), 2 * 8 * T * T * 8),
    "windows": (
        Does(lambda m, x: functional.scaled_dot_product_attention(*[x.flatten(0, 1)] * 3)), image(9, 2, T, 8),
        2 * 18 * T * T * 8),
    "cross attention": (
        nn.MultiheadAttention(E, 4, batch_first=True).eval(), (STEPS, *[image(9, E)] * 2),
        2 * (T + 9) * E * E + 2 * T * 9 * E),
    "called twice": (Does(lambda m, x: m.l(m.l(x)), l=dense()), ROWS, 2 * E * E),
    "tied": (Does(lambda m, x: functional.linear(m.e(x), m.e.weight), e=nn.Embedding(50, E)), WORDS_OF_T, T * 50 * E),
    "half precision": (dense(3).half(), ROWS.half(), 3 * E),
    "by name": (Does(lambda m, a, b: m.l(a) + m.l(b), l=dense()), {"a": ROWS, "b": ROWS}, 2 * E * E),
    "gradients within": (
        Does(lambda m, x: torch.vmap(torch.func.grad(lambda row: m.l(row).norm()))(x), l=dense()), ROWS, 2 * E * E),
    "vmap": (Does(lambda m, x: torch.vmap(lambda row: m.w @ row)(x), w=p(5, E)), ROWS, 5 * E),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTS)
def test_a_module_multiplies_as_often_as_counted_by_hand(name):
    model, example, count = COUNTS[name]
    found = workloads.from_module(model, example)
    assert (found.multiplications, found.uncounted) == (count, ())
    assert found.parameters == sum(parameter.numel() for parameter in model.parameters())


def both(m, images):
    return [m.c(x[None]) for x in images]


Pair = namedtuple("Pair", "rows number")
BATCHES = {  # a module, its input, examples in it, multiply-adds for one example
    "time first": (nn.LSTM(E, 8), torch.randn(T, B, E), B, T * 32 * (E + 8)),
    "attention, time first": (
        nn.MultiheadAttention(E, 4), (torch.randn(T, B, E),) * 3, B, 4 * T * E * E + 2 * T * T * E),
    "a packed sequence": (nn.LSTM(E, 8), PACKED(STEPS, torch.tensor([6, 5, 3, 2]), True), B, 4 * 32 * 24),
    "a list of images": (Does(both, c=nn.Conv2d(3, 5, 3)), [*image(3, 8, 8)], B, 36 * 27 * 5),
    "images of two sizes": (
        Does(both, c=nn.Conv2d(3, 5, 3)), [torch.randn(3, 8, 8), torch.randn(3, 9, 10)], 2, (36 + 56) // 2 * 27 * 5),
    "without a batch": (dense(5), ROWS[0], 1, 5 * E),
    "a named tuple": (Does(lambda m, pair: m.l(pair.rows), l=dense(5)), Pair(ROWS, 3), None, 5 * E),
}  # fmt: skip


@pytest.mark.parametrize("name", BATCHES)
def test_the_batch_is_where_the_user_says(name):
    model, example, batch, count = BATCHES[name]
    found = workloads.from_module(model, example, batch=batch)
    assert found.multiplications == count
    assert found.parameters == sum(parameter.numel() for parameter in model.parameters())


QUERIES = {  # what makes queries of a batch, and how often their product is computed in a batch of 32
    "expanded": (lambda q, x: q.expand(len(x), -1, -1), 32),
    "repeated": (lambda q, x: q.repeat(len(x), 1, 1), 32),
    "expanded and computed": (lambda q, x: (2 * q).expand(len(x), -1, -1).transpose(0, 1), 32),
    "once": (lambda q, x: q, 1),
}


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("query", [p(1, 5, E), torch.randn(1, 5, E)], ids=["parameter", "buffer"])
def test_what_is_repeated_for_each_example_is_multiplied_for_each(name, query):
    make, times = QUERIES[name]
    model = Does(lambda m, x: m.l(make(m.q, x)).sum() + x, q=query, l=dense())
    found = workloads.from_module(model, STEPS)
    products = 3 if isinstance(query, nn.Parameter) else 2  # forward, dW, and dx where the queries are trained
    assert found.gemms(32).flops.sum() == products * times * 2 * 5 * E * E
    assert found.parameters == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("batch", [1, 2, 4])
def test_all_rows_of_experts_are_counted_once(batch):
    """Each token goes to one expert, and the experts' shares of the batch are uneven."""

    def routed(m, x):
        rows = x.flatten(0, 1)
        out = torch.zeros_like(rows)
        for i, expert in enumerate(m.experts):
            own = torch.arange(i * i, (i + 1) ** 2)  # 1, 3, 5 and 7 of 16 tokens
            out.index_add_(0, own, expert(rows[own]))
        return out

    model = Does(routed, experts=nn.ModuleList(nn.Sequential(dense(5), dense(E, 5)) for _ in range(4)))
    found = workloads.from_module(model, torch.randn(batch, 16 // batch, E))
    assert found.multiplications == 16 // batch * 2 * 5 * E
    assert found.parameters == 4 * (2 * 5 * E + 5 + E)


@pytest.mark.parametrize("mode", [True, False])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_inference_multiplies_as_often_as_training(mode, device):
    """In eval() PyTorch computes attention by one operator."""
    with torch.device(device):
        layer = nn.TransformerEncoderLayer(E, 4, 32, batch_first=True)
        model = nn.Sequential(dense(), nn.TransformerEncoder(layer, 2)).train(mode)
    found = workloads.from_module(model, torch.zeros(B, T, E, device=device))
    assert found.multiplications == T * E * E + 2 * (4 * T * E * E + 2 * T * T * E + 2 * T * E * 32)
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.parametrize("mode", [True, False])
def test_a_vision_transformer_of_16_by_16_patches(mode):
    """17.56 billion multiply-adds for 197 tokens of 768 in 12 blocks, as its definition gives."""

    class Vision(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches, self.norm = nn.Conv2d(3, 768, 16, 16), nn.LayerNorm(768)
            self.word, self.places = p(1, 1, 768), p(1, 197, 768)
            layer = nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True, norm_first=True)
            self.blocks, self.head = nn.TransformerEncoder(layer, 12, enable_nested_tensor=False), nn.Linear(768, 1000)

        def forward(self, x):
            x = self.patches(x).flatten(2).mT
            x = torch.cat([self.word.expand(len(x), -1, -1), x], 1) + self.places
            return self.head(self.norm(self.blocks(x))[:, 0])

    with torch.device("meta"):
        model = Vision().train(mode)
    found = workloads.from_module(model, torch.zeros(1, 3, 224, 224, device="meta"))
    block = 4 * 197 * 768**2 + 2 * 197**2 * 768 + 2 * 197 * 768 * 3072
    assert found.multiplications == 196 * 768**2 + 12 * block + 768 * 1000 == 17_563_828_224
    assert found.parameters == 86_567_656


def no_gradient(m, x):
    with torch.no_grad():
        x = m.a(x)
    return m.b(x)


class Doubled(torch.autograd.Function):
    """A product whose operands are computed within."""

    @staticmethod
    def forward(ctx, x, w):
        return (2 * x) @ (2 * w).t()

    @staticmethod
    def backward(ctx, gradient):
        raise NotImplementedError


def freeze(*names, layers=3):
    model = nn.Sequential(*[dense() for _ in range(layers)])
    for name in names:
        model.get_parameter(name).requires_grad_(False)
    return model


def two(function):
    return Does(function, a=dense(), b=dense())


TRAINED = {  # a module, and how many products of E × E numbers its forward and backward pass have
    "all": (freeze(), 3 + 2 + 3),
    "first frozen": (freeze("0.weight", "0.bias"), 3 + 1 + 2),
    "its bias trained": (freeze("0.weight"), 3 + 2 + 2),
    "middle frozen": (freeze("1.weight", "1.bias"), 3 + 2 + 2),
    "last frozen": (freeze("2.weight", "2.bias"), 3 + 2 + 2),
    "all frozen": (freeze().requires_grad_(False), 3),
    "no_grad": (two(no_gradient), 2 + 0 + 1),
    "detached": (two(lambda m, x: m.b(m.a(x).detach())), 2 + 0 + 2),
    "checkpoint": (two(lambda m, x: checkpoint(m.b, m.a(x), use_reentrant=False)), 2 + 1 + 2),
    "reentrant checkpoint": (two(lambda m, x: checkpoint(m.b, m.a(x), use_reentrant=True)), 2 + 1 + 2),
    "a function of one's own": (two(lambda m, x: Doubled.apply(m.a(x), m.b.weight) + m.b.bias), 2 + 1 + 2),
    "a trained norm first": (nn.Sequential(nn.LayerNorm(E), dense()), 1 + 1 + 1),
    "a buffer above": (Does(lambda m, x: m.a(x) @ m.w, a=dense(), w=torch.randn(E, E)), 2 + 1 + 1),
    "computed weights": (nn.utils.parametrizations.weight_norm(dense()), 1 + 0 + 1),
}


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("enabled", [True, False])
def test_the_backward_pass_computes_what_something_trained_needs(name, enabled):
    model, products = TRAINED[name]
    with torch.set_grad_enabled(enabled):
        found = workloads.from_module(model, ROWS)
    assert found.training_flops == products * 2 * E * E
    assert found.parameters == sum(x.numel() for x in model.parameters() if x.requires_grad)
    assert found.frozen == sum(x.numel() for x in model.parameters() if not x.requires_grad)


def test_what_is_frozen_has_no_update_and_no_master_and_its_work_is_forward_alone():
    model = nn.Sequential(dense(64), nn.ReLU(), nn.LayerNorm(64), dense(8, 64))
    whole = workloads.from_module(model, ROWS)
    half = workloads.from_module(model.requires_grad_(False).append(dense(8, 8)), ROWS)
    times = compute.layer_times(half, "h100", "fp32", 8)
    names = [layer.name for layer in half.layers]
    assert names == ["0", "1", "2", "3", "4"]
    backward = times.dx_seconds + times.dw_seconds
    assert not backward[:4].any() and backward[4] > 0 and not times.update_seconds[:4].any()
    fp32 = precisions.get("fp32")
    assert activation_bytes(half, fp32) == 4 * (8 + 8) < activation_bytes(whole, fp32)


@pytest.mark.parametrize(("function", "operator"), [
    (lambda m, x: m.l(torch.fft.fft(x).real), "aten._fft_r2c"),
    (lambda m, x: m.l(torch.sparse.mm(torch.eye(B).to_sparse(), x)), "aten._sparse_addmm"),
    (lambda m, x: torch.cdist(m.l(x), m.l(x)), "aten._cdist_forward"),
    (lambda m, x: torch.linalg.solve(torch.eye(E), m.l(x).mT), "aten._linalg_solve_ex"),
])  # fmt: skip
def test_operators_that_multiply_and_are_not_counted_are_named(function, operator):
    with pytest.warns(UserWarning, match=f"Does: products are not counted in {operator}"):
        found = workloads.from_module(Does(function, l=dense()), ROWS)
    assert found.uncounted == (f"{operator} (the model)",)
    with pytest.raises(ValueError, match="multiplies no matrices by operators that are counted, only by aten._fft_r2c"):
        workloads.from_module(Does(lambda m, x: torch.fft.fft(x)), ROWS)


def test_every_operator_that_a_recipe_takes_for_a_product_is_counted_or_named():
    from lplab.training.emulation.unseen_products import PRODUCT_OPERATORS

    counted = {"convolution", *torch_ops._PRODUCTS}
    fused = {name for name in PRODUCT_OPERATORS if name.startswith("_scaled_dot_product")}
    assert PRODUCT_OPERATORS - fused - counted <= torch_ops._UNCOUNTED


def test_a_quantized_module_multiplies_as_the_plain_one():
    from lplab.training import quantize_model

    plain = models.character_transformer(65)
    found = [workloads.from_module(model, WORDS) for model in (plain, quantize_model(plain, "hfp8_2019"))]
    assert found[0].layers == found[1].layers


class Caching(nn.Module):
    """Its buffers change in place, grow, and come into being."""

    def __init__(self):
        super().__init__()
        self.dense = dense()
        self.register_buffer("calls", torch.zeros(()), persistent=False)
        self.register_buffer("cache", torch.zeros(0, E))
        self.register_buffer("mask", None)

    def forward(self, x):
        self.calls += 1
        self.cache, self.mask = torch.cat([self.cache, self.dense(x)]), torch.ones(len(x))
        return self.cache


def test_buffers_that_change_or_grow_are_as_before():
    model = Caching()
    calls, cache = model.calls, model.cache
    workloads.from_module(model, ROWS)
    assert calls == 0 and model.calls is calls
    assert model.cache is cache and not len(cache) and model.mask is None


def test_every_module_keeps_its_own_mode():
    model = nn.Sequential(nn.BatchNorm1d(E), dense())
    model[0].eval()
    workloads.from_module(model, ROWS)
    assert [module.training for module in model] == [False, True]


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")
def test_a_compiled_script_is_recorded_without_names():
    found = workloads.from_module(torch.jit.script(nn.Sequential(dense(), nn.ReLU())), ROWS)
    assert [(layer.name, layer.kind) for layer in found.layers] == [("", "linear"), ("", "activation")]


def test_a_module_without_shapes_is_refused():
    with pytest.raises(ValueError, match="LazyLinear has parameters without a shape; call it once"):
        workloads.from_module(nn.LazyLinear(3), ROWS)
