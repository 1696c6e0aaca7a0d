"""What is rounded how is visible: the report, what ``print`` shows of a model, and the warning where nothing is."""

import copy
import io
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional

from lplab.arithmetic import Accumulator
from lplab.quantizers import LUQ, SAWB, Amax, Quantizer
from lplab.training import (
    LayerRules,
    LearnedClip,
    QuantSpec,
    Recipe,
    RoundsNothing,
    dequantize_model,
    float32,
    quantize_model,
    recipe_report,
    recipes,
)
from lplab.training.emulation.conversion import emulation_of
from tests.training.emulation.foreign import FOREIGN

X, Y = torch.rand(5, 1, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(5) % 3


def net():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 1),
        nn.Flatten(), nn.Linear(32, 3),
    )  # fmt: skip


def backward(model):
    functional.cross_entropy(model(X), Y).backward()
    return model


def row_of(report, layer, product, role):
    (row,) = [r for r in report.rows if (r.layer, r.product, r.role) == (layer, product, role)]
    return row


def test_every_product_and_role_has_a_row():
    report = recipe_report(backward(quantize_model(net(), "int4_fp4_2020")))
    cells = {(r.product, r.role): (r.format, r.rounding, r.because) for r in report.rows if r.layer == "3"}
    sawb, clip, nothing = ("SAWB 15 levels", "nearest even", ""), ("uint4", "nearest even", ""), ("float32", "")
    assert cells == {
        ("forward", "activation"): clip,
        ("forward", "weight"): sawb,
        ("forward", "output"): (*nothing, "int4_fp4_2020 rounds no output"),
        ("dx", "output_gradient_dx"): ("radix4_fp4_even", "nearest away", ""),
        ("dx", "weight"): sawb,
        ("dx", "input_gradient"): (*nothing, "int4_fp4_2020 rounds no input gradient"),
        ("dw", "output_gradient_dw"): ("radix4_fp4_odd", "nearest away", ""),
        ("dw", "activation"): clip,
        ("dw", "weight_gradient"): (*nothing, "int4_fp4_2020 rounds no weight gradient"),
    }
    assert report.recipe == "int4_fp4_2020" and report.has_run
    assert row_of(report, "1/normalization", "forward", "output").because == (
        "int4_fp4_2020 leaves normalization in float32"
    )
    assert {r.kind for r in report.rows} == {"first", "normalization", "", "pointwise/reducing", "last"}
    assert row_of(report, "7", "dw", "weight_gradient").because == (
        "int4_fp4_2020 rounds no weight gradient of the kind 'last'"
    )


def test_scales_and_clips_are_those_of_now():
    model = quantize_model(net(), "int4_fp4_2020")
    before = recipe_report(model)
    assert row_of(before, "3", "forward", "activation").scale == "trained clip, not set yet"
    assert row_of(before, "3", "forward", "activation").format == "int or uint4"
    assert row_of(before, "3", "dx", "output_gradient_dx").scale == "GradScale, not set yet"
    after = recipe_report(backward(model))
    assert row_of(after, "3", "forward", "activation").scale == f"trained clip {model[3].pact_alpha.item():.4g}"
    scale = emulation_of(model).ops["3"].scale.scale
    for role in ("dx", "dw"):
        shown = row_of(after, "3", role, f"output_gradient_{role}").scale
        assert shown.startswith("GradScale, 2^") and 2.0 ** float(shown.removeprefix("GradScale, 2^")) == scale


@pytest.mark.parametrize("recipe", recipes.names())
def test_modules_of_pytorch_are_known_before_they_run(recipe):
    torch.manual_seed(0)
    model = quantize_model(net(), recipe)
    before, ran = recipe_report(model), recipe_report(model, X)
    assert before.rows == ran.rows and not before.has_run and ran.has_run
    assert not emulation_of(model).ops, "a copy has run"


@pytest.mark.parametrize("make", [
    lambda: (nn.LSTM(4, 5, 2, bidirectional=True, proj_size=3), torch.rand(6, 2, 4)),
    lambda: (nn.GRU(4, 5), torch.rand(6, 2, 4)),
    lambda: (nn.LSTMCell(4, 5), torch.rand(2, 4)),
    lambda: (nn.GRUCell(4, 5), torch.rand(2, 4)),
    lambda: (nn.Embedding(7, 3), torch.arange(4)),
    lambda: (nn.ConvTranspose1d(4, 4, 3, groups=4), torch.rand(2, 4, 5)),
    lambda: (nn.GroupNorm(2, 4), torch.rand(2, 4, 5)),
])  # fmt: skip
@pytest.mark.parametrize("recipe", ["fixed16_2015", "hfp8_2019", "pact_sawb_2019"])
def test_other_modules_have_the_names_that_they_have_when_they_run(make, recipe):
    module, x = make()
    model = quantize_model(module, recipe, first=None, last=None)
    before = recipe_report(model)
    model(x)
    assert [row.layer for row in before.rows] == [row.layer for row in recipe_report(model).rows]
    assert {row.layer for row in before.rows} >= set(emulation_of(model).ops)


@pytest.mark.parametrize("recipe", ["hfp8_2019", "int4_fp4_2020", "fixed16_2015", "bf16", "luq_2022"])
@pytest.mark.parametrize("name", FOREIGN)
def test_the_report_says_what_a_watcher_sees(name, recipe):
    """Each tensor that really passes a rounding has a row, and is changed by it only where the row says so."""
    model, loss_of = FOREIGN[name]()
    model, seen = quantize_model(model, recipe), {}

    def watch(op, role, before, rounded):
        changed = not torch.equal(before, rounded.values)
        seen[op.name, role] = seen.get((op.name, role), False) or changed

    emulation_of(model).watch = watch
    loss_of(model).backward()
    rows = {(row.layer, row.role): row for row in recipe_report(model).rows}
    wrong = [key for key, changed in seen.items() if changed and (key not in rows or rows[key].because)]
    assert len(seen) > 10 and not wrong
    rounded = [key for key in seen if key in rows and not rows[key].because]
    assert sum(seen[key] for key in rounded) > 0.7 * len(rounded), "most that are rounded are changed by it"


def test_products_of_forward_are_listed_once_it_has_run():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.matrix = nn.Linear(4, 12), nn.Parameter(torch.rand(4, 4))

        def forward(self, x):
            q, k, v = self.qkv(x).chunk(3, -1)
            return functional.scaled_dot_product_attention(q, k, v) @ self.matrix

    model = quantize_model(nn.ModuleDict({"a": Attention()})["a"], "int4_fp4_2020", first=None, last=None)
    assert str(recipe_report(model)).endswith("are not listed yet.")
    report = recipe_report(model, torch.rand(2, 3, 4))
    assert "not listed yet" not in str(report)
    assert {row.layer for row in report.rows} == {"qkv", "/scores", "/mix", "/matmul"}
    scores = row_of(report, "/scores", "forward", "activation")
    assert (scores.kind, scores.format, scores.scale) == ("product", "SAWB 15 levels", "SAWB's clip of each tensor")
    assert row_of(report, "qkv", "forward", "activation").format == "int or uint4", "the copy's clip is not shown"


def test_layers_whose_products_are_not_known_yet_have_a_row():
    model = quantize_model(nn.Sequential(nn.MultiheadAttention(4, 2), nn.Linear(4, 4)), "hfp8_2019")
    rows = [row for row in recipe_report(model).rows if row.layer == "0"]
    assert [row.because for row in rows] == ["its products are known once the model has run"]
    q = torch.rand(3, 2, 4)
    model[0](q, q, q)
    layers = {row.layer for row in recipe_report(model).rows}
    assert layers == {"0", "0/linear2", "0/matmul", "0/matmul2", "1"}


@pytest.mark.parametrize(("options", "because"), [
    ({"recipe": "fp32"}, "fp32 rounds nothing"),
    ({"recipe": "hfp8_2019", "skip": "3"}, "fp32 rounds nothing (skipped or overridden by '3')"),
    ({"recipe": "luq_2022", "first": "3"}, "luq_2022 leaves layers of the kind 'first' in float32"),
    ({"recipe": Recipe(activation="int8")}, "the recipe rounds no weight"),
])  # fmt: skip
def test_every_float32_has_its_reason(options, because):
    report = recipe_report(quantize_model(net(), **options))
    assert row_of(report, "3", "forward", "weight").because == because
    assert row_of(report, "3", "forward", "weight").format == "float32"
    assert all(bool(row.because) == (row.format == "float32") for row in report.rows)


@pytest.mark.parametrize(("rule", "cells"), [
    (QuantSpec("e4m3fn", "stochastic"), ("e4m3fn", "stochastic, 16 bits", "")),
    (QuantSpec("int8", scaling=Amax(), axis=0),
     ("int8", "nearest even", "Amax(power_of_two=False) of each tensor along axis 0")),
    (QuantSpec("mxfp4"), ("mxfp4", "nearest even", "e8m0 for each 32")),
    (QuantSpec("nvfp4"), ("nvfp4", "nearest even", "e4m3fn for each 16, one for the tensor")),
    (QuantSpec(quantizer=SAWB(2, axis=0)),
     ("SAWB 4 levels", "nearest even", "SAWB's clip of each tensor along axis 0")),
    (QuantSpec(quantizer=LUQ(samples=2)),
     ("LUQ 4 bits", "stochastic, 16 bits, mean of 2", "largest magnitude of each tensor")),
    (QuantSpec(quantizer=LUQ(nearest=True)), ("LUQ 4 bits", "nearest", "largest magnitude of each tensor")),
    (QuantSpec(quantizer=Quantizer("int4", Amax(), "nearest_away")),
     ("int4", "nearest away", "Amax(power_of_two=False) of each tensor")),
])  # fmt: skip
def test_every_rule_is_described(rule, cells):
    model = quantize_model(nn.Linear(2, 2), Recipe(weight=rule), first=None, last=None)
    row = row_of(recipe_report(model), "", "forward", "weight")
    assert (row.format, row.rounding, row.scale, row.because) == (*cells, "")


def test_a_quantizer_of_ones_own_is_named():
    class Halves:
        def quantize(self, x):
            return (2 * x).round() / 2

    report = recipe_report(quantize_model(nn.Linear(2, 2), Recipe(weight=QuantSpec(quantizer=Halves()))))
    row = row_of(report, "", "forward", "weight")
    assert (row.format, row.rounding, row.scale) == ("Halves", *["as the quantizer does"] * 2)


@pytest.mark.parametrize(("accumulator", "text"), [
    (None, "float32"),
    ("chunked", "dlfloat16, nearest away in chunks of 64"),
    (Accumulator("fp16"), "fp16, nearest even"),
])  # fmt: skip
def test_sums_are_described(accumulator, text):
    model = quantize_model(
        nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), recipes.get("bf16", accumulator=accumulator)
    )
    report = recipe_report(model)
    assert {row.accumulator for row in report.rows if row.layer == "0"} == {text}
    assert {row.accumulator for row in report.rows if row.layer != "0"} == {""}, "normalization is no product"


def test_the_frame_has_a_row_for_each_and_the_text_a_line_for_those_alike():
    pytest.importorskip("pandas")
    report = recipe_report(quantize_model(net(), "hfp8_2019"))
    frame = report.to_frame()
    assert len(frame) == len(report.rows) == 4 * 9 + 2
    assert list(frame.columns) == [
        "layer", "kind", "product", "role", "format", "rounding", "scale", "accumulator", "because",
    ]  # fmt: skip
    lines = str(report).splitlines()
    assert lines[0] == f"hfp8_2019: {(frame.because == '').sum()} of 38 tensors are rounded"
    assert lines[1].split() == ["layer", "product", "role", "rounded", "to"]
    assert " ".join(lines[2].split()) == "0 (first) forward, sums float32 activation, weight dlfloat16, nearest away"
    assert lines[8].split()[:5] == ["1/normalization", "(normalization)", "forward,", "dx", "all"]
    assert repr(report) == str(report)


def test_parts_and_models_with_quantized_parts():
    inner = backward(quantize_model(net(), "hfp8_2019"))
    outer = nn.ModuleDict({"a": inner, "b": quantize_model(nn.Linear(2, 2), "bf16"), "c": nn.Linear(2, 2)})
    report = recipe_report(outer)
    assert report.recipe == "hfp8_2019 and bf16"
    assert {row.layer for row in report.rows} == {"a.0", "a.1/normalization", "a.3", "a.5", "a.7", "b"}
    alone = recipe_report(inner[3])
    assert {row.layer for row in alone.rows} == {""} and len(alone.rows) == 9
    with pytest.raises(ValueError, match="not quantized; call quantize_model"):
        recipe_report(net())


def test_the_model_is_not_changed_by_inputs_to_try():
    model = quantize_model(net(), "int4_fp4_2020")
    before, random = copy.deepcopy(model), torch.get_rng_state()
    recipe_report(model, X)
    assert torch.equal(torch.get_rng_state(), random) and model.training
    for a, b in zip(model.state_dict().values(), before.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    assert model[3].pact_alpha.item() == 10


# ---- print(model) ----------------------------------------------------------------------------------------------------


def test_print_shows_in_short_what_is_rounded():
    model = quantize_model(net(), "int4_fp4_2020", skip="5")
    lines = [line.strip() for line in repr(model).splitlines()]
    assert lines[1] == "recipe=int4_fp4_2020"
    assert lines[2] == "(0): Conv2d(1, 4, kernel_size=(3, 3), stride=(1, 1), rounded: operands dlfloat16)"
    assert lines[5].endswith(
        "rounded: weight SAWB 15 levels, activation PACT 4 bits, gradients radix4_fp4_even and radix4_fp4_odd)"
    )
    assert lines[7].endswith(", in float32)") and lines[4] == "(2): ReLU()"
    assert repr(dequantize_model(model)) == repr(net())


def test_copies_and_files_print_what_they_are():
    model = quantize_model(nn.Linear(2, 2), "hfp8_2019")
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for other in (copy.deepcopy(model), torch.load(file, weights_only=False)):
        assert (
            repr(other)
            == repr(model)
            == ("Linear(in_features=2, out_features=2, bias=True, recipe=hfp8_2019, rounded: operands dlfloat16)")
        )
        other.out_features = 9
        assert "out_features=9" in repr(other) and "out_features=2" in repr(model)
    plain = copy.deepcopy(dequantize_model(model))
    assert repr(plain) == "Linear(in_features=2, out_features=2, bias=True)"


# ---- a recipe that rounds nothing ------------------------------------------------------------------------------------


def test_a_recipe_that_rounds_no_layer_warns_once_with_the_cure():
    model = nn.ModuleDict({"rnn": nn.LSTM(4, 4, 2), "head": nn.Linear(4, 2)})
    with pytest.warns(RoundsNothing) as caught:
        quantize_model(model, "luq_2022")
    (warning,) = caught
    assert str(warning.message) == (
        "luq_2022 rounds no layer of this model: it leaves rnn (first), head (last) in float32; pass first=None, "
        "last=None to quantize_model, or recipes.get('luq_2022', first_last='bf16')"
    )
    assert warning.filename == __file__


@pytest.mark.parametrize(("recipe", "options"), [
    ("luq_2022", {"first": None}),
    ("luq_2022", {"overrides": {"head": "bf16"}}),
    (recipes.get("luq_2022", first_last="bf16"), {}),
    ("fp32", {}),
    ("luq_2022", {"skip": "*"}),
    ("hfp8_2019", {}),
    (Recipe(name="one layer", exceptions={}), {"overrides": {"head": "bf16"}}),
])  # fmt: skip
def test_it_does_not_warn_where_something_is_rounded_or_all_was_asked_for(recipe, options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quantize_model(nn.ModuleDict({"rnn": nn.LSTM(4, 4, 2), "head": nn.Linear(4, 2)}), recipe, **options)


def test_the_cure_for_other_kinds_is_in_the_recipe():
    with pytest.warns(RoundsNothing, match=r"it leaves the model \(embedding\) in float32; change its exceptions$"):
        quantize_model(nn.Embedding(3, 2), "luq_2022", last=None)


def test_a_recipe_without_a_name_warns_too():
    recipe = Recipe(weight=QuantSpec("int4"), activation=QuantSpec(scaling=LearnedClip()),
                    exceptions={"first": LayerRules(), "last": LayerRules()})  # fmt: skip
    with pytest.warns(RoundsNothing, match="^the recipe rounds no layer of this model: it leaves the model"):
        model = quantize_model(nn.Linear(2, 2), recipe)
    x = torch.rand(3, 2)
    with float32(model):
        expected = model(x)
    assert torch.equal(model(x), expected)
