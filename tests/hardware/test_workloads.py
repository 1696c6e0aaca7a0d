"""Workloads: published totals, the products of three passes, and modules watched while they run."""

import warnings

import numpy as np
import pytest
import torch

from lplab import models
from lplab.hardware import workloads
from lplab.hardware.workloads.layer import Layer, Workload

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
    assert found.forward_flops == 2 * found.multiplications


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
    assert forward.sum() == 8 * workloads.get("resnet50").forward_flops


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
    assert 4 * found.forward_flops == counter.get_total_flops()


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


def test_what_is_no_batch_or_has_no_product_is_refused():
    with pytest.raises(ValueError, match="ReLU multiplies no matrices"):
        workloads.from_module(torch.nn.ReLU(), torch.zeros(1, 3))
    with pytest.raises(ValueError, match="example_input must be a tensor with a batch"):
        workloads.from_module(models.mlp(), 3)
