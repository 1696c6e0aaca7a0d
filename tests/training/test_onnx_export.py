"""A quantized model as an ONNX file: onnxruntime computes from it what the model computes."""

import copy
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from lplab import formats, models
from lplab.arithmetic import Accumulator
from lplab.quantizers import Amax, Percentile
from lplab.training import QuantSpec, Recipe, inference_recipe, quantize_for_inference, quantize_model, recipes

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
from onnx import numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

from lplab.training.onnx_export import export, operators  # noqa: E402
from lplab.training.onnx_export.export import export_onnx  # noqa: E402
from lplab.training.onnx_export.onnx_types import exportable, onnx_type  # noqa: E402

NAMES = ["int8", "int4", "int2", "e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "hfp8_forward", "fp8_152", "q4.12"]


def session(path, optimize=True):
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    options.add_session_config_entry("session.x64quantprecision", "1")  # int8 sums in more than 16 bits
    if not optimize:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def run(path, *inputs, optimize=True):
    running = session(path, optimize)
    names = [each.name for each in running.get_inputs()]
    return running.run(None, {name: x.numpy() for name, x in zip(names, inputs, strict=True)})


def ours(model, *inputs):
    with torch.no_grad():
        return model(*inputs).numpy()


def _magnitudes(layer, weight):
    twin = copy.deepcopy(layer)
    twin.weight.data = weight.detach().abs() * 1.2
    if twin.bias is not None:
        twin.bias.data.abs_()
    return twin


# ---- single layers: the bound ----------------------------------------------------------------------------------------

LAYERS = {
    "linear": (nn.Linear(40, 7), (3, 40)),
    "linear, three axes": (nn.Linear(40, 7, bias=False), (3, 5, 40)),
    "conv1d": (nn.Conv1d(4, 6, 3, stride=2, padding=1), (2, 4, 11)),
    "conv2d": (nn.Conv2d(4, 6, 3, padding="same", dilation=2), (2, 4, 9, 8)),
    "conv2d, even kernel": (nn.Conv2d(4, 6, (2, 4), padding="same"), (2, 4, 9, 8)),
    "depthwise": (nn.Conv2d(6, 6, 3, groups=6, bias=False), (2, 6, 9, 8)),
    "conv3d": (nn.Conv3d(2, 3, 2), (2, 2, 4, 5, 4)),
    "transposed": (nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1, groups=2), (2, 4, 5, 5)),
}


def seeded(layer, shape):
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(0, 0.3)
    return layer, torch.randn(shape)


def within_the_bound(layer, x, found, expected):
    """Both are float32 sums of the same products: they differ by no more than 2n·2^−24·Σ|x·w| (rounding < 20 %)."""
    n = layer.weight.numel() // max(layer.bias.numel() if layer.bias is not None else layer.weight.shape[0], 1) + 1
    sums = _magnitudes(layer, layer.weight)(x.abs() * 1.2).detach().numpy()
    assert found.shape == expected.shape
    assert (np.abs(found - expected) <= 2 * n * 2.0**-24 * sums).all()


@pytest.mark.parametrize("name", ["int8", "hfp8_forward"])
@pytest.mark.parametrize("kind", LAYERS)
def test_every_kind_of_layer_is_within_the_bound_of_the_order_of_sums(kind, name, tmp_path):
    layer, x = seeded(*LAYERS[kind])
    quantized = quantize_for_inference(layer, name)
    path = export_onnx(quantized, x, tmp_path / "net.onnx")
    expected = ours(quantized, x)
    for optimize in (True, False):
        within_the_bound(layer, x, run(path, x, optimize=optimize)[0], expected)


class Products(nn.Module):
    """A parameter on either side of a product."""

    def __init__(self, *shape, left=False):
        super().__init__()
        self.weight, self.left = nn.Parameter(torch.randn(*shape)), left

    def forward(self, x):
        return self.weight @ x if self.left else x @ self.weight


class Twice(nn.Module):
    """A layer that is used twice, or as a table and as a product."""

    def __init__(self, layer, table=False):
        super().__init__()
        self.layer, self.table = layer, table

    def forward(self, x):
        y = functional.relu(self.layer(x))
        return y + functional.embedding((y.sum(-1) > 1).long(), self.layer.weight) if self.table else self.layer(y)


SCALED = {
    "linear, three axes": (lambda: nn.Linear(8, 6), (4, 5, 8)),
    "linear, square": (lambda: nn.Linear(8, 8), (4, 5, 8)),
    "linear, one axis": (lambda: nn.Linear(8, 6), (8,)),
    "convolution": (lambda: nn.Conv2d(4, 6, 3), (2, 4, 6, 6)),
    "transposed": (lambda: nn.ConvTranspose2d(4, 6, 3), (2, 4, 6, 6)),
    "product": (lambda: Products(8, 6), (4, 8)),
    "product of stacks": (lambda: Products(3, 8, 6), (3, 5, 8)),
    "product from the left": (lambda: Products(6, 8, left=True), (8, 4)),
    "linear, twice": (lambda: Twice(nn.Linear(8, 8)), (4, 5, 8)),
    "linear with two axes, twice": (lambda: Twice(nn.Linear(8, 8)), (4, 8)),
    "convolution, twice": (lambda: Twice(nn.Conv2d(4, 4, 3, padding=1)), (2, 4, 5, 5)),
    "table and product": (lambda: Twice(nn.Linear(8, 8), table=True), (2, 3, 8)),
}


@pytest.mark.parametrize("kind", SCALED)
def test_scales_of_integers_along_every_axis(kind, tmp_path):
    """onnxruntime multiplies integers where that is right, and only there; a shared weight it takes apart only once."""
    torch.manual_seed(0)
    net, x = SCALED[kind][0](), torch.randn(SCALED[kind][1])
    axes = [None, *range(min(3, max(parameter.ndim for parameter in net.parameters())))]
    for axis, activation in [*((axis, "int8") for axis in axes), (None, None)]:
        rounded = QuantSpec() if activation is None else QuantSpec(activation, scaling=Amax())
        recipe = Recipe(weight=QuantSpec("int8", scaling=Amax(), axis=axis), activation=rounded)
        model = quantize_model(net, recipe, first=None, last=None).eval()
        path = export_onnx(model, x, tmp_path / "net.onnx")
        np.testing.assert_allclose(run(path, x)[0], ours(model, x), atol=1e-5)
    kinds = [node.op_type for node in onnx.load(path).graph.node]
    assert kinds.count("DequantizeLinear") == 1, "the codes of the weight alone, also where two layers share it"


@pytest.mark.parametrize("name", NAMES)
def test_every_format_of_onnxruntime(name, tmp_path):
    layer, x = seeded(nn.Linear(40, 7), (6, 40))
    x[0, :4] = torch.tensor([1e6, -1e6, 0.0, -0.0]) if name not in ("fp8_152", "e5m2") else torch.tensor([6e4, 0, 0, 0])
    quantized = quantize_for_inference(layer, name)
    path = export_onnx(quantized, x, tmp_path / "net.onnx")
    within_the_bound(layer, x, run(path, x)[0], ours(quantized, x))
    rows = quantize_for_inference(layer, QuantSpec(name, scaling=Amax(), axis=0), activation=name)
    path = export_onnx(rows, x, tmp_path / "rows.onnx")  # a scale for each row of the weight
    within_the_bound(layer, x, run(path, x)[0], ours(rows, x))
    scaled = quantize_for_inference(layer, name, scaling=Amax())
    path = export_onnx(scaled, x, tmp_path / "scaled.onnx")
    for inputs in (x, x * 0, x * 2.0**-60, x * 1e-38):  # a scale computed in the file, at its limits too
        within_the_bound(layer, inputs, run(path, inputs)[0], ours(scaled, inputs))


@pytest.mark.parametrize("name", [*NAMES, "e2m1"])
def test_stored_codes_are_those_of_encode(name, tmp_path):
    layer, x = seeded(nn.Linear(9, 5), (2, 9))  # 45 codes: the last byte of 4 and 2 bits is not full
    format = formats.get(name)
    for spec in (QuantSpec(name), QuantSpec(name, scaling=Amax(), axis=0)):
        path = export_onnx(quantize_for_inference(layer, spec, activation="fp32", scaling=None), x, tmp_path / "n.onnx")
        stored = {each.name: each for each in onnx.load(path).graph.initializer}
        (node,) = [node for node in onnx.load(path).graph.node if node.op_type == "DequantizeLinear"]
        codes, scale = stored[node.input[0]], numpy_helper.to_array(stored[node.input[1]])
        kind = onnx_type(format)
        assert onnx.TensorProto.DataType.Name(codes.data_type) == kind.name
        weight = layer.weight.detach().numpy() / (scale.reshape(-1, 1) / np.float32(kind.scale))
        saturated = formats.FloatFormat(5, 2, saturating=True) if name == "e5m2" and spec.scaling else format
        expected = saturated.encode(weight)
        raw = np.frombuffer(codes.raw_data, f"<u{max(format.bits, 8) // 8}")
        if format.bits < 8:
            raw = (raw[:, None] >> np.arange(0, 8, format.bits, dtype=np.uint8)) & (2**format.bits - 1)
        np.testing.assert_array_equal(raw.reshape(-1)[:45].reshape(5, 9), expected)


def test_four_bit_floats_by_the_reference_evaluator(tmp_path):
    layer, x = seeded(nn.Linear(40, 7), (6, 40))
    for spec in ("e2m1", QuantSpec("e2m1", scaling=Amax())):
        quantized = quantize_for_inference(layer, spec)
        path = export_onnx(quantized, x, tmp_path / "net.onnx")
        assert onnx.load(path).opset_import[0].version == 23
        (found,) = ReferenceEvaluator(str(path)).run(None, {"input": x.numpy()})
        within_the_bound(layer, x, found, ours(quantized, x))


# ---- nets whose sums are exact: bit for bit --------------------------------------------------------------------------


class Exact(nn.Module):
    """Convolutions, both kinds of clipped ReLU, pooling, a shortcut, linear layers: sums of a few small fractions."""

    def __init__(self):
        super().__init__()
        self.stem, self.conv = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.hidden, self.head = nn.Linear(16, 12), nn.Linear(12, 5)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randint(-4, 5, parameter.shape) / 4)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.stem(x)), 2)
        x = functional.avg_pool2d(functional.relu6(self.conv(x)) + x, 2)
        x = functional.relu(self.hidden(functional.relu_(x - 0.5).flatten(1)))
        return self.head(x)


EXACT = {
    "int8": formats.IntFormat(8, scale=0.25),
    "int8, symmetric": formats.IntFormat(8, symmetric=True, scale=0.25),
    "uint8 with a zero point": formats.IntFormat(8, signed=False, scale=0.125, zero_point=40),
    "int4": formats.IntFormat(4, scale=0.25),
    "int16": formats.IntFormat(16, scale=2.0**-6),
    "q5.3": formats.get("q5.3"),
    "e4m3fn": formats.get("e4m3fn"),
    "hfp8_forward": formats.get("hfp8_forward"),
    "e5m2": formats.get("e5m2"),
}


@pytest.mark.parametrize("name", EXACT)
def test_a_net_with_exact_sums_is_equal_bit_for_bit(name, tmp_path):
    torch.manual_seed(0)
    x = torch.randint(-16, 17, (5, 2, 8, 8)) / 4
    quantized = quantize_for_inference(Exact(), EXACT[name], scaling=None)
    path = export_onnx(quantized, x[:2], tmp_path / "net.onnx")
    expected = ours(quantized, x)
    assert len(np.unique(expected)) >= 10
    for optimize in (True, False):
        np.testing.assert_array_equal(run(path, x, optimize=optimize)[0], expected)


# ---- nets: every layer from its own input ----------------------------------------------------------------------------


def with_all_values(path):
    """The file with every value as an output."""
    model = onnx.load(path)
    known = {output.name for output in model.graph.output}
    for node in model.graph.node:
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output if name not in known)
    onnx.save(model, path.with_name("all.onnx"))
    return path.with_name("all.onnx"), model


@pytest.mark.parametrize(
    ("net", "name"),
    [
        ("mlp", "e4m3fn"),
        ("digits_resnet", "int8"),
        pytest.param("mlp", "int8", marks=pytest.mark.slow),
        pytest.param("digits_resnet", "e4m3fn", marks=pytest.mark.slow),
        pytest.param("depthwise_net", "int8", marks=pytest.mark.slow),
        pytest.param("depthwise_net", "e4m3fn", marks=pytest.mark.slow),
    ],
)
def test_every_layer_of_a_net_computes_what_ours_computes_from_the_same_input(net, name, tmp_path):
    shape = {"mlp": (3, 64), "digits_resnet": (3, 1, 8, 8), "depthwise_net": (3, 3, 8, 8)}[net]
    torch.manual_seed(0)
    model, x = getattr(models, net)().eval(), torch.randn(shape)
    quantized = quantize_for_inference(model, name)
    path = export_onnx(quantized, x[:2], tmp_path / "net.onnx")
    everything, proto = with_all_values(path)
    running = session(everything, optimize=False)
    values = dict(zip([o.name for o in running.get_outputs()], running.run(None, {"x": x.numpy()}), strict=True))
    values["x"] = x.numpy()
    made_by = {output: node for node in proto.graph.node for output in node.output}
    checked = 0
    for node in proto.graph.node:
        if node.op_type not in ("Gemm", "Conv"):
            continue
        codes = made_by[made_by[node.input[0]].input[0]]
        assert codes.op_type == "QuantizeLinear"
        layer = model.get_submodule(node.name.partition("/")[0])
        given = torch.from_numpy(values[codes.input[0]])
        expected = ours(quantize_for_inference(layer, name), given)
        within_the_bound(layer, given, values[node.output[0]], expected)
        checked += 1
    assert checked == sum(isinstance(module, nn.Linear | nn.Conv2d) for module in model.modules())
    found, expected = run(path, x)[0], ours(quantized, x)
    assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max()


class Attention(nn.Module):
    """Everything that attention is written with: PyTorch's module, its function, masks, and products by hand."""

    def __init__(self):
        super().__init__()
        self.embedding, self.position = nn.Embedding(11, 16), nn.Embedding(6, 16)
        self.heads, self.norm = nn.MultiheadAttention(16, 2, batch_first=True), nn.LayerNorm(16)
        self.qkv, self.head = nn.Linear(16, 48), nn.Linear(16, 11)
        self.register_buffer("mask", torch.ones(6, 6, dtype=torch.bool).tril())

    def forward(self, ids):
        x = self.embedding(ids) + self.position(torch.arange(ids.shape[1]))
        x = self.norm(x + self.heads(x, x, x, need_weights=False)[0])
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k, v = (each.unflatten(-1, (2, 8)).transpose(1, 2) for each in (q, k, v))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y + functional.scaled_dot_product_attention(q, k, v, attn_mask=self.mask)
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / 8**0.5
        y = y + scores.masked_fill(~self.mask, -torch.inf).softmax(-1) @ v
        return self.head(functional.gelu(x + y.transpose(1, 2).flatten(2)))


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("int8", "e5m2")]


@pytest.mark.parametrize("name", ["e4m3fn", *SLOW])
def test_attention(name, tmp_path):
    torch.manual_seed(1)
    quantized = quantize_for_inference(Attention(), name)
    ids = torch.randint(0, 11, (4, 6))
    path = export_onnx(quantized, ids[:2], tmp_path / "net.onnx")
    assert [o.name for o in session(path).get_outputs()] == ["output_0"]
    assert session(path).get_outputs()[0].shape == ["batch", 6, 11]
    found, expected = run(path, ids)[0], ours(quantized, ids)
    # Float sums in another order move a few numbers to the next value of the format: a step is 1/127 or 2^−3, 2^−2.
    error = np.abs(found - expected)
    assert error.max() < 0.1 * np.abs(expected).max() and error.mean() < 0.01 * np.abs(expected).max()


@pytest.mark.slow
def test_attention_in_float32(tmp_path):
    torch.manual_seed(1)
    plain, ids = quantize_model(Attention().eval(), "fp32"), torch.randint(0, 11, (4, 6))
    path = export_onnx(plain, ids[:2], tmp_path / "plain.onnx")
    np.testing.assert_allclose(run(path, ids)[0], ours(plain, ids), rtol=1e-4, atol=1e-5)


class Assorted(nn.Module):
    """Operators without rules, in ways that models use them."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(12, 12) for _ in range(2))
        self.group, self.rms = nn.GroupNorm(3, 12), nn.RMSNorm(12)
        self.norm, self.activation = nn.BatchNorm1d(12), nn.ReLU(inplace=True)
        self.dropout, self.pool = nn.Dropout(0.5), nn.AdaptiveAvgPool1d(4)

    def forward(self, x, gate):
        batch, size = x.shape
        for layer in self.layers[:1]:
            x = self.activation(layer(x))
        x = self.norm(self.rms(self.group(x)))
        x += functional.silu(gate) - 2 * gate.sigmoid()
        a, b = x.view(batch, 2, size // 2).unbind(1)
        x = torch.cat([a.clamp(-1, 1), torch.stack([b, b.abs()], 1).mean(1)], -1)
        x = torch.where(x > 0, x, 0.5 * x.tanh()) + functional.leaky_relu(x[:, :1], 0.2).expand(batch, size)
        x = self.dropout(x) + torch.addmm(gate, x, self.layers[1].weight.t(), beta=0.5)
        x = self.pool(x.unsqueeze(1)).squeeze(1) / (1 + x.pow(2).sum(-1, keepdim=True)).sqrt()
        return {"first": x, "rest": (functional.hardswish(x).split([1, 3], 1)[1], x.log_softmax(-1).argmax(-1))}


def test_operators_without_rules_and_several_inputs_and_outputs(tmp_path):
    torch.manual_seed(0)
    quantized = quantize_for_inference(Assorted(), formats.IntFormat(16, scale=2.0**-10), scaling=None)
    x, gate = torch.randn(5, 12), torch.randn(5, 12)
    with torch.no_grad():
        expected = quantized(x, gate)
    path = export_onnx(quantized, (x[:2], gate[:2]), tmp_path / "net.onnx")
    found = run(path, x, gate)
    for ours_, theirs in zip((expected["first"], *expected["rest"]), found, strict=True):
        np.testing.assert_allclose(theirs, ours_.numpy(), rtol=1e-3, atol=1e-3)


# ---- the file --------------------------------------------------------------------------------------------------------


def test_the_model_is_unchanged_and_the_file_has_names_and_few_bytes(tmp_path):
    torch.manual_seed(0)
    quantized = quantize_for_inference(models.mlp((64, 256, 256, 10)), "int4", ends="fp32")
    quantized.train()
    before = {name: value.clone() for name, value in quantized.state_dict().items()}
    path = export_onnx(quantized, torch.randn(2, 64), tmp_path / "net.onnx")
    assert quantized.training and all(torch.equal(before[n], v) for n, v in quantized.state_dict().items())
    graph = onnx.load(path).graph
    kinds = [node.op_type for node in graph.node]
    assert kinds.count("QuantizeLinear") == 1 and kinds.count("DequantizeLinear") == 2  # the ends are float32
    assert "layers.1/" in " ".join(node.name for node in graph.node if node.op_type == "Gemm")
    assert session(path).get_inputs()[0].shape == ["batch", 64]
    fixed = export_onnx(quantized, torch.randn(1, 64), tmp_path / "one.onnx")  # one row: torch.export takes it as fixed
    assert session(fixed).get_inputs()[0].shape == [1, 64]
    codes = 256 * 256 // 2 + 4 * (64 * 256 + 256 + 256 + 256 * 10 + 10)
    assert codes < path.stat().st_size < codes + 6000


class ComputedWeight(nn.Module):
    """A factor that is computed from a parameter, a buffer and a constant."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randint(-3, 4, (8, 8)).float())
        self.register_buffer("mask", (torch.arange(64).reshape(8, 8) % 3 > 0).float())

    def forward(self, x):
        return x @ (torch.eye(8) + torch.where(self.mask > 0, self.weight, torch.zeros(()))) + x @ self.mask


def test_a_computed_weight_goes_out_as_a_weight(tmp_path):
    recipe = inference_recipe("int2", "e4m3fn", scaling=None)
    model = quantize_model(ComputedWeight(), recipe).eval()
    x = torch.randint(-4, 5, (3, 8)).float()
    path = export_onnx(model, x, tmp_path / "net.onnx")
    assert np.array_equal(run(path, x)[0], ours(model, x))
    assert not np.array_equal(ours(model, x), ours(quantize_model(ComputedWeight(), "fp32"), x))


def test_a_trained_recipe_with_overrides_goes_out_too(tmp_path):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))
    quantized = quantize_model(net, inference_recipe("e4m3fn"), overrides={"2": inference_recipe("int8")}, skip=["4"])
    path = export_onnx(quantized, torch.randn(2, 16), tmp_path / "net.onnx")
    kinds = {t.data_type for t in onnx.load(path).graph.initializer}
    assert {onnx.TensorProto.FLOAT8E4M3FN, onnx.TensorProto.INT8, onnx.TensorProto.FLOAT} <= kinds
    x = torch.randn(7, 16)
    np.testing.assert_allclose(run(path, x)[0], ours(quantized.eval(), x), atol=0.02)


# ---- what is refused -------------------------------------------------------------------------------------------------

linear, x2 = nn.Linear(32, 32), torch.randn(2, 32)


class ChangesAView(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(32, 32)

    def forward(self, x):
        y = self.layer(x)
        y[:, :4].relu_()
        return y


REFUSED = {
    "posit": (
        linear,
        "posit8_1",
        r"the model \(linear\): the activation is rounded to posit8_1, which has no ONNX type",
    ),
    "blocks": (linear, "mxfp4", r"rounded to mxfp4, which has no ONNX type; these have one: .*e4m3fn.*int8"),
    "fp16": (linear, "fp16", "fp16, which has no ONNX type"),
    "chance": (linear, QuantSpec("int8", "stochastic"), "rounded at random"),
    "another rounding": (linear, QuantSpec("int8", "up", Amax()), "rounds to nearest even; the activation .* 'up'"),
    "a percentile": (linear, QuantSpec("int8", scaling=Percentile(99.0)), r"is Percentile.*only Amax\(\) is computed"),
    "rows": (linear, QuantSpec("int8", scaling=Amax(), axis=0), "a scale for each index of axis 0"),
    "scale on scale": (
        linear,
        QuantSpec(formats.IntFormat(8, scale=0.3), scaling=Amax()),
        "on top of that of int8 × 0.3",
    ),
    "PACT": (linear, recipes.get("pact_sawb_2019").replace(exceptions={}), "PACT, .* no ONNX type"),
    "weights of a method": (
        nn.Sequential(linear, nn.Linear(32, 2)),
        "w4a16:group=32",
        r"0 \(linear\): the weight is rounded by a rule of its own \(int4 asymmetric, a scale for groups of 32, by "
        r"rtn\): its values are kept, not the codes",
    ),
    "inputs of a method": (
        nn.Sequential(linear, nn.Linear(32, 2)),
        "w16a8_llmint8",
        r"the activation is rounded by a rule of its own \(int8, a scale for each row of channels, channels above 6 as",
    ),
    "a view": (ChangesAView(), "int8", "in-place change of a view"),
    "dtype": (nn.Linear(32, 32).double(), "e4m3fn", "float64"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_onnx_form_is_refused_in_one_line(case, tmp_path):
    model, format, message = REFUSED[case]
    quantized = quantize_for_inference(model, format)
    with pytest.raises(ValueError, match=message) as error:
        export_onnx(quantized, x2.to(next(model.parameters()).dtype), tmp_path / "net.onnx")
    assert "\n" not in str(error.value) and not list(tmp_path.iterdir())


def test_other_refusals(tmp_path):
    path = tmp_path / "net.onnx"
    with pytest.raises(ValueError, match="the model is not quantized"):
        export_onnx(linear, x2, path)
    lstm = quantize_for_inference(nn.Sequential(nn.LSTM(4, 4)), "int8")
    with pytest.raises(ValueError, match=r"0 \(lstm.input\): this operator is not exported"):
        export_onnx(lstm, torch.randn(3, 2, 4), path)
    summed = quantize_model(linear, inference_recipe("int8").replace(accumulator=Accumulator("fp16")))
    with pytest.raises(ValueError, match="ONNX has no sums in"):
        export_onnx(summed, x2, path)
    branching = quantize_for_inference(Branching(), "int8")
    with pytest.raises(ValueError, match="torch.export cannot trace the model: "):
        export_onnx(branching, x2, path)


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(32, 32)

    def forward(self, x):
        return self.layer(x) if float(x.sum()) > 0 else x


def test_a_rounding_that_the_file_would_lack_is_noticed(tmp_path, monkeypatch):
    def unrounded(graph, node, x, weight, bias):
        return graph.add("Gemm", x, weight, bias, transB=1)

    monkeypatch.setitem(operators.PRODUCTS, torch.ops.aten.linear.default, unrounded)
    with pytest.raises(ValueError, match="the model: the model rounds its .* 1 times, the file would 0 times"):
        export_onnx(quantize_for_inference(linear, "int8"), x2, tmp_path / "net.onnx")
    assert not list(tmp_path.iterdir()) and export.PRODUCTS is operators.PRODUCTS


def test_the_list_of_formats_is_that_of_the_types():
    assert exportable() == [name for name in formats.names() if onnx_type(formats.get(name)) is not None]
    assert {"int8", "int4", "e4m3fn", "e5m2", "e2m1"} <= set(exportable())


def test_without_onnx_one_line_says_what_to_install():
    code = """if 1:
        import sys
        sys.modules["onnx"] = None
        try:
            from lplab.training import export_onnx
        except ImportError as error:
            print(error)
    """
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found == "lplab.training.export_onnx needs onnx: pip install 'lplab[export]'\n"
