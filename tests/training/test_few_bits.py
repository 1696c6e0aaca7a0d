"""Models in few bits by name: each method done by hand, the order of layers, the report, what is refused."""

import copy
import pkgutil

import numpy as np
import pytest
import torch
from torch import nn

from lplab.models import LlamaShape, bits_a_token, llama, transformer
from lplab.quantizers import Hadamard, LayerInput, WeightGrid, awq_clipped, awq_scales, gptq_round, input_hessian
from lplab.quantizers import smoothing_factors as smoothing
from lplab.training import (
    FewBits,
    bits_report,
    caught_inputs,
    change_in_order,
    quantize_for_inference,
    recipe_report,
)
from lplab.training.calibration import sharing_layers
from lplab.training.few_bits import linear_layers

X = torch.from_numpy(np.random.default_rng(0).standard_normal((90, 32)).astype(np.float32))
X[:, 3] *= 40
SHAPE = LlamaShape(vocabulary=30, width=32, blocks=2, heads=4, kv_heads=2, hidden=64)
IDS = torch.from_numpy(np.random.default_rng(1).integers(0, 30, (6, 16)))


def net(seed=0):
    """Three layers; the last one is not rounded."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 16, bias=False), nn.ReLU(), nn.Linear(16, 4)
    ).eval()


@torch.no_grad()
def by_hand(name):
    """The outputs of the net with layers 0 and 2 rounded, each formula as in its paper."""
    rows, made = X, net()
    for place in (0, 2):
        layer, x = made[place], rows
        w = layer.weight
        if name == "w3a16_gptq:group=8":
            q = gptq_round(w, input_hessian(x), WeightGrid(3, 8))
        elif name == "w3a16_awq:group=8":
            grid = WeightGrid(3, 8, "asymmetric_awq")
            s = awq_scales(w, x, grid).float()
            q = grid.quantize(awq_clipped(w * s, x / s, grid)) / s
        elif name == "w8a8_llmint8:per=tensor":
            q, x = WeightGrid(8, None, "symmetric").quantize(w), LayerInput(8, "tensor", outlier=6.0).quantize(x)
        else:
            q = WeightGrid(4, 16, "full_range").quantize(w)
        rows = nn.functional.linear(x, q, layer.bias).relu()
    return made[4](rows)


NAMES = ["w3a16_gptq:group=8", "w3a16_awq:group=8", "w4a16:group=16,kind=full_range", "w8a8_llmint8:per=tensor"]


@torch.no_grad()
@pytest.mark.parametrize("name", NAMES)
def test_a_name_does_what_its_method_says(name):
    made = quantize_for_inference(net(), name, calibration=[X[:40], (X[40:], "targets")])
    torch.testing.assert_close(made(X), by_hand(name), atol=1e-5, rtol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("name", ["w8a8_smoothquant", "w4a4_hadamard_gptq:size=16,group=16"])
def test_methods_that_change_the_inputs_of_a_layer(name):
    """A single layer, since the next is calibrated with inputs that are not rounded."""
    single = nn.Sequential(net()[0])
    made = quantize_for_inference(single, name, calibration=X, layers=["*"])
    w = single[0].weight
    if "smooth" in name:
        s = smoothing(X.abs().amax(0), w.abs().amax(0)).float()
        q, x = WeightGrid(8, None, "symmetric").quantize(w * s), LayerInput(8).quantize(X / s)
    else:
        h = Hadamard(16)
        q, x = gptq_round(h.apply(w), input_hessian(h.apply(X)), WeightGrid(4, 16)), LayerInput(4).quantize(h.apply(X))
    torch.testing.assert_close(made(X), nn.functional.linear(x, q, single[0].bias), atol=1e-5, rtol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("name", ["w16a16_smoothquant", "w16a16_hadamard:size=16"])
def test_without_rounding_a_repair_changes_nothing(name):
    model = llama(SHAPE, seed=1).eval()
    made = quantize_for_inference(model, name, calibration=IDS)
    torch.testing.assert_close(made(IDS), model(IDS), atol=1e-4, rtol=1e-4)


def test_layers_are_calibrated_with_inputs_from_layers_that_are_rounded():
    seen = []
    model = net()
    change_in_order(model, X, ["0", "2"], lambda names, x: seen.append((names, x)) or halve(model, names))
    other = net()
    assert [names for names, _ in seen] == [("0",), ("2",)]
    torch.testing.assert_close(seen[0][1], X)
    with torch.no_grad():
        other[0].weight.mul_(0.5)
        torch.testing.assert_close(seen[1][1], other[:2](X))
    torch.testing.assert_close(caught_inputs(other, [X[:10], X[10:]], ["2"])["2"], seen[1][1])


def halve(model, names):
    for name in names:
        model.get_submodule(name).weight.mul_(0.5)


def test_layers_with_one_input_are_taken_together():
    model = llama(SHAPE)
    found = sharing_layers(model, IDS[:1], linear_layers(model))
    names = []
    for part in (f"blocks.{b}.{part}." for b in range(2) for part in ("attention", "mlp")):
        groups = ["q k v", "o"] if "attention" in part else ["gate up", "down"]
        names += [tuple(part + name for name in group.split()) for group in groups]
    assert found == names


@pytest.mark.parametrize("made", [transformer(30, width=32, heads=4, blocks=2, context=16), llama(SHAPE, seed=2)])
def test_language_models_lose_less_with_more_bits_and_are_not_changed(made):
    before = copy.deepcopy(made.state_dict())
    base = bits_a_token(made.eval(), IDS)
    rises = [
        abs(bits_a_token(quantize_for_inference(made, f"w{b}a16_gptq:group=16", calibration=IDS), IDS) - base)
        for b in (2, 4, 8)
    ]
    assert rises[0] > rises[1] > rises[2] and rises[2] < 1e-3
    assert all(torch.equal(value, before[name]) for name, value in made.state_dict().items())


def test_the_report_counts_scales_zeros_factors_and_all_that_stays():
    model = llama(SHAPE).eval()
    made = quantize_for_inference(model, "w4a16_gptq:group=16", calibration=IDS)
    report = bits_report(made)
    rounded = 2 * (2 * 32 * 32 + 2 * 16 * 32 + 3 * 64 * 32)
    rest = 30 * 32 + 5 * 32  # the embedding, which is the head too, and the norms
    assert report.rounded == 4 + 20 / 16
    assert report.whole == pytest.approx((rounded * report.rounded + rest * 16) / (rounded + rest))
    assert report.megabytes == pytest.approx((rounded * 5.25 + rest * 16) / 8e6)
    assert "4 bits" not in str(report).splitlines()[0] and "not rounded" in str(report)
    smooth = bits_report(quantize_for_inference(model, "w8a8_smoothquant", calibration=IDS))
    scales = 2 * (32 + 32 + 16 + 16 + 64 + 64 + 32) * 16  # one for each output
    factors = 2 * (32 + 32 + 32 + 64) * 16  # one for each input of the four groups
    assert smooth.rounded == pytest.approx(8 + (scales + factors) / rounded)
    with pytest.raises(ValueError, match="bits are known of models from quantize_for_inference"):
        bits_report(model)


def test_the_report_of_the_recipe_says_what_is_rounded_and_how():
    made = quantize_for_inference(net(), "w4a8_gptq:group=16", calibration=X)
    rows = {(row.layer, row.role): row for row in recipe_report(made, X).rows if row.product == "forward"}
    assert rows["0", "weight"].format.startswith("int4 asymmetric, a scale for groups of 16, by gptq")
    assert rows["0", "activation"].format == "int8, a scale for each row of channels"
    assert rows["4", "weight"].because
    copied = copy.deepcopy(made)
    assert torch.equal(copied(X), made(X)) and bits_report(copied) == bits_report(made)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("w4a16_gptq:group=8",), "looks at the inputs of layers: pass calibration"),
        (("w4a16_gtpq",), "there is no method 'gtpq'; did you mean gptq"),
        (("w4a16:group",), "options are like group=64"),
        (("w4a16:gruop=3",), "there is no option 'gruop'; did you mean group"),
        (("w4a16:group=x",), "group must be a whole number, got 'x'"),
        (("w4a16:search=1,static_groups=yes",), "static_groups must be True or False"),
        (("w4a16_gptq_rtn",), "two methods of one kind"),
        (("w4a",), "unknown format|a name is like"),
        (("w12a16",), "weights have 2 to 8 bits, or 16 for none, got 12"),
        (("w4a16:group=128",), "0: group=128 does not divide the 32 inputs"),
        (("w4a16_hadamard:size=64",), "size=64 does not divide the 32 inputs"),
        (("w4a16:alpha=2",), "alpha must be from 0 to 1"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        quantize_for_inference(net(), *arguments)


def test_calibration_and_layers_that_do_not_fit_are_refused():
    for calibration, words in (([], "at least one batch"), ([X, X[:, :3]], "may differ in their first size only")):
        with pytest.raises(ValueError, match=words):
            quantize_for_inference(net(), "w4a16_gptq:group=8", calibration=calibration)
    with pytest.raises(TypeError, match="must be tensors"):
        quantize_for_inference(net(), "w4a16_gptq:group=8", calibration=[3])
    with pytest.raises(ValueError, match="no linear layer is called 'head'; there are: 0, 2, 4"):
        quantize_for_inference(net(), "w4a16:group=8", layers=["head"])
    with pytest.raises(ValueError, match="no linear layer but its last"):
        quantize_for_inference(nn.Linear(4, 4), "w4a16:group=4")
    with pytest.raises(ValueError, match="0: all inputs of the layer were zero"):
        quantize_for_inference(net(), "w4a16_gptq:group=8", calibration=torch.zeros(3, 32))
    assert FewBits(4, 16, group=None).grid == WeightGrid(4, None)


def test_no_public_name_of_training_is_that_of_a_module_which_would_hide_it_once_imported():
    """Names are imported on first use: a module of the same name, imported by another, would stand in its place."""
    from lplab import training

    modules = {module.name for module in pkgutil.iter_modules(training.__path__)}
    assert modules.isdisjoint(training.__all__) and "few_bits" in modules
