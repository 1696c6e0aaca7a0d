"""Every switch of every recipe: what it changes in the recipe, that nothing else is a switch, and that it trains."""

import numpy as np
import pytest

from lplab import formats as F
from lplab.arithmetic import Accumulator
from lplab.quantizers import LUQ, NVFP4_SIGNS, SAWB, Amax, Hadamard, Radix4
from lplab.training import PerLayerGradScale, QuantSpec, Recipe, inference_recipe, recipes
from lplab.training.recipe.published_8bit import DLFLOAT, STOCHASTIC_14
from lplab.training.recipe.recipe import CHUNKED, PROMOTED
from tests.kinds import one_in_three

FP8_PER_LAYER = QuantSpec("hfp8_backward", scaling=PerLayerGradScale(maximum=2.0**15))
INT8 = QuantSpec("int8", scaling=Amax())  # without a scale most weights would be 0
RADIX_2 = (0, 1, 2, 4, 8, 16, 32, 64)
SWITCHES = [  # recipe, switches, and what must be: a path into the recipe → a value
    ("bf16", {"master_weights": False}, {"update.weight": QuantSpec("bf16")}),
    ("fp16_mixed", {"loss_scale": 128.0}, {"loss_scale": 128.0}),
    ("fixed16_2015", {"fraction_bits": 10}, {"weight.format": F.FixedFormat(6, 10),
     "update.weight.format.label": "q6.10"}),
    ("fixed16_2015", {"word_length": 20}, {"weight.format": F.FixedFormat(8, 12)}),
    ("fixed16_2015", {"rounding": "nearest_down"}, {"weight.rounding.mode": "nearest_down",
     "output.rounding.mode": "nearest_down", "update.momentum.rounding.mode": "nearest_down"}),
    ("fixed16_2015", {"outputs": "q4.12"}, {"output.format.label": "q4.12", "input_gradient.format.label": "q4.12"}),
    ("fp8_2018", {"rounding": "nearest_even"}, {"update.weight": QuantSpec("dlfloat16"),
     "update.momentum": QuantSpec("dlfloat16")}),
    ("fp8_2018", {"first_last": "fp8_152"}, {"first.weight": QuantSpec("fp8_152"),
     "last.output_gradient_dw": QuantSpec("fp8_152")}),
    ("fp8_2018", {"loss_scale": "dynamic"}, {"loss_scale": "dynamic"}),
    ("hfp8_2019", {"forward": "fp8_152"}, {"weight": QuantSpec("fp8_152"), "activation": QuantSpec("fp8_152")}),
    ("hfp8_2019", {"backward": "hfp8_forward"}, {"output_gradient_dx": QuantSpec("hfp8_forward"),
     "output_gradient_dw": QuantSpec("hfp8_forward")}),
    ("hfp8_2019", {"first_last": "hfp8_forward"}, {"first.weight": QuantSpec("hfp8_forward"),
     "depthwise.activation": QuantSpec("hfp8_forward")}),
    ("hfp8_2019", {"update": "fp32"}, {"update.is_identity": True}),
    ("hfp8_2019", {"loss_scale": 1000.0}, {"loss_scale": 1000.0}),
    ("pact_sawb_2019", {"bits": 4}, {"weight.quantizer": SAWB(4), "activation.learned.bits": 4}),
    ("pact_sawb_2019", {"sawb": "2bit_2018"}, {"weight.quantizer": SAWB(2, "2bit_2018")}),
    ("pact_sawb_2019", {"first_last": "int8"}, {"first.weight": INT8, "last.activation": INT8,
     "first.output_gradient_dx": QuantSpec()}),
    ("pact_sawb_2019", {"shortcuts": "bf16"}, {"shortcut.weight": QuantSpec("bf16")}),
    ("int4_fp4_2020", {"gradients": "fp32"}, {"output_gradient_dx": QuantSpec(), "output_gradient_dw": QuantSpec(),
     "weight.quantizer": SAWB(4)}),
    ("int4_fp4_2020", {"phases": "single"}, {"output_gradient_dw": QuantSpec("radix4_fp4_even", "nearest_away",
     PerLayerGradScale())}),
    ("int4_fp4_2020", {"phases": "swapped"}, {"output_gradient_dx": QuantSpec("radix4_fp4_odd", "nearest_away",
     PerLayerGradScale())}),
    ("int4_fp4_2020", {"scale": 2.0**14}, {"loss_scale": 2.0**14, "output_gradient_dx": QuantSpec("radix4_fp4_even",
     "nearest_away")}),
    ("int4_fp4_2020", {"radix": 2, "phases": "single"}, {"output_gradient_dx.format.codebook": RADIX_2,
     "output_gradient_dw.format.codebook": RADIX_2}),
    ("int4_fp4_2020", {"dw": "fp8"}, {"output_gradient_dw": FP8_PER_LAYER,
     "output_gradient_dx": QuantSpec("radix4_fp4_even", "nearest_away", PerLayerGradScale())}),
    ("int4_fp4_2020", {"pointwise": "fp8"}, {"pointwise.output_gradient_dx": FP8_PER_LAYER,
     "pointwise.output_gradient_dw": FP8_PER_LAYER, "pointwise.weight.quantizer": SAWB(4)}),
    ("int4_fp4_2020", {"pointwise": "reducing_fp8"}, {"reducing.output_gradient_dx": FP8_PER_LAYER}),
    ("int4_fp4_2020", {"bits": 2}, {"weight.quantizer": SAWB(2), "activation.learned.bits": 2}),
    ("int4_fp4_2020", {"sawb": "403_16"}, {"weight.quantizer": SAWB(4, "403_16")}),
    ("int4_fp4_2020", {"first_last": "bf16"}, {"first.weight": QuantSpec("bf16"), "depthwise.weight": QuantSpec("bf16"),
     "shortcut.weight": QuantSpec("bf16")}),
    ("luq_2022", {"samples": 2}, {"output_gradient_dw.quantizer": LUQ(2), "output_gradient_dx.quantizer": LUQ(1)}),
    ("luq_2022", {"bits": 2}, {"weight.quantizer": SAWB(2), "activation.quantizer": SAWB(2)}),
    ("luq_2022", {"sawb": "luq"}, {"weight.quantizer": SAWB(4, "luq"), "activation.quantizer": SAWB(4, "luq")}),
    ("luq_2022", {"first_last": "dlfloat16"}, {"first.weight": DLFLOAT, "last.weight": DLFLOAT}),
    ("deepseek_2024", {"tile": 64}, {"activation.format.tile": (1, 64), "weight.format.tile": (128, 128)}),
    ("deepseek_2024", {"weight_tile": None}, {"weight.format.tile": (1, 128), "weight_dx.format.tile": (1, 128)}),
    ("deepseek_2024", {"gradients": "e5m2"}, {"output_gradient_dw.format.element.mantissa_bits": 2,
     "activation_dw.format.element.mantissa_bits": 3}),
    ("deepseek_2024", {"power_of_two": True}, {"weight.format.scale": F.get("e8m0"),
     "activation.format.scale_rule": "rceil"}),
    ("deepseek_2024", {"wide": "fp32"}, {"last.is_identity": True, "product.is_identity": True}),
    ("deepseek_2024", {"accumulator": "promoted"}, {"accumulator": PROMOTED, "last.accumulator": PROMOTED}),
    ("mxfp4_2025", {"rounding": "nearest_even"}, {"output_gradient_dx.quantizer.rounding.mode": "nearest_even",
     "weight_dx.quantizer.rounding.mode": "nearest_even"}),
    ("mxfp4_2025", {"hadamard": 0}, {"weight_dx.transform": None, "output_gradient_dw.transform": None}),
    ("mxfp4_2025", {"signs": False}, {"weight_dx.transform": Hadamard(64), "activation_dw.transform": Hadamard(64)}),
    ("mxfp4_2025", {"pre_scale": 1.0}, {"activation_dw.quantizer": None, "activation_dw.format": F.get("mxfp4")}),
    ("mxfp4_2025", {"scale_rule": "rceil"}, {"weight_dx.quantizer.format.scale_rule": "rceil"}),
    ("mxfp4_2025", {"forward": "mxfp4"}, {"weight": QuantSpec("mxfp4", axis="contraction"),
     "activation": QuantSpec("mxfp4", axis="contraction"), "weight_dx.quantizer.factor": 0.75}),
    ("mxfp4_2025", {"wide": "fp32"}, {"last.is_identity": True, "product.is_identity": True}),
    ("quartet_2025", {"hadamard": 16}, {"weight.transform": Hadamard(16), "weight_dx.transform": Hadamard(16, 0)}),
    ("quartet_2025", {"forward_hadamard": False}, {"weight.transform": None, "weight_dx.transform": Hadamard(32, 0)}),
    ("quartet_2025", {"rounding": "nearest_even"}, {"output_gradient_dx.quantizer.rounding.mode": "nearest_even"}),
    ("quartet_2025", {"pre_scale": 1.0}, {"output_gradient_dx.format": F.get("mxfp4")}),
    ("quartet_2025", {"forward": "bf16"}, {"weight": QuantSpec("bf16"), "weight_dx.quantizer.factor": 0.75}),
    ("quartet_2025", {"wide": "fp32"}, {"last.is_identity": True, "embedding.is_identity": True}),
    ("mxfp8_2025", {"scale_rule": "floor"}, {"weight.format.scale_rule": "floor",
     "output_gradient_dw.format.scale_rule": "floor"}),
    ("mxfp8_2025", {"gradients": "e5m2"}, {"output_gradient_dx.format.element.mantissa_bits": 2,
     "weight_dx.format.element.mantissa_bits": 3}),
    ("mxfp8_2025", {"forward": "bf16"}, {"weight": QuantSpec("bf16"), "weight_dx.format.tile": (1, 32)}),
    ("mxfp8_2025", {"wide": "fp32"}, {"last.is_identity": True, "embedding.is_identity": True}),
    ("nvfp4_2025", {"hadamard": 0}, {"output_gradient_dw.transform": None, "activation_dw.transform": None}),
    ("nvfp4_2025", {"signs": False}, {"activation_dw.transform": Hadamard(16)}),
    ("nvfp4_2025", {"rounding": "nearest_even"}, {"output_gradient_dx.is_random": False,
     "output_gradient_dw.is_random": False}),
    ("nvfp4_2025", {"forward_rounding": "stochastic"}, {"weight.is_random": True, "activation_dw.is_random": True}),
    ("nvfp4_2025", {"weight_tile": None}, {"weight.format": F.get("nvfp4"), "weight_dx.format": F.get("nvfp4")}),
    ("nvfp4_2025", {"late": 0.0}, {"late_share": 0.0}),
    ("nvfp4_2025", {"forward": "bf16"}, {"weight": QuantSpec("bf16"), "weight_dx.format.tile": (16, 16)}),
    ("nvfp4_2025", {"switch": 0.82}, {"switch.at": 0.82, "switch.to.weight": QuantSpec("bf16"),
     "switch.to.weight_dx.format.tile": (16, 16), "switch.to.activation_dw.transform": Hadamard(16, NVFP4_SIGNS)}),
    ("nvfp4_2025", {"wide": "fp32"}, {"last.is_identity": True, "late.is_identity": True}),
    *((name, {"accumulator": "chunked"}, {"accumulator": CHUNKED}) for name in recipes.names()),
]  # fmt: skip


def at(recipe, path):
    """What lies at a path such as "first.weight.format"; a codebook as its magnitudes."""
    found = recipe
    for step in path.split("."):
        found = recipe.exceptions[step] if step in recipe.exceptions and found is recipe else getattr(found, step)
    return tuple(found()[:8].tolist()) if callable(found) else found


@pytest.mark.parametrize(("name", "switches", "wanted"), SWITCHES)
def test_a_switch_does_what_it_says(name, switches, wanted):
    plain, switched = recipes.get(name), recipes.get(name, **switches)
    assert switched != plain
    for path, value in wanted.items():
        assert at(switched, path) == value


def test_no_switch_is_without_a_test():
    tested = {(name, switch) for name, switches, _ in SWITCHES for switch in switches}
    assert tested == {(name, switch) for name in recipes.names() for switch in recipes.switches_of(name)}


@pytest.mark.parametrize(("name", "switches", "_"), one_in_three(SWITCHES))
def test_a_switched_recipe_trains(name, switches, _):
    torch = pytest.importorskip("torch")
    from lplab.training import Batches, Trainer

    torch.manual_seed(0)
    layers = [torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)]
    x = torch.rand(32, 8)
    data = Batches(x, (x[:, 0] > x[:, 1]).long(), batch=16)
    trainer = Trainer(torch.nn.Sequential(*layers), data, recipes.get(name, **switches))
    before = trainer.model[2].weight.detach().clone()
    assert all(np.isfinite(step.loss) for step in trainer.steps(3))
    assert not torch.equal(trainer.model[2].weight, before)


def test_updates_of_2018_throw_a_coin_with_fourteen_bits():
    for name in ("fp8_2018", "hfp8_2019"):
        assert recipes.get(name).update.weight == QuantSpec("dlfloat16", STOCHASTIC_14)


def test_an_accumulator_reaches_every_layer():
    own = Accumulator("bf16", chunk=8)
    for name in recipes.names():
        recipe = recipes.get(name, accumulator=own)
        assert recipe.accumulator == own
        assert all(
            recipe.rules_for({kind}).accumulator == own for kind in ("first", "last") if kind in recipe.exceptions
        )


@pytest.mark.parametrize("ties", ["away", "toward_zero"])
@pytest.mark.parametrize("underflow", ["published", "midpoint"])
def test_every_reading_of_radix_4_fits_into_a_recipe(ties, underflow):
    """The recipe takes figure 2c. Another reading is a quantizer; with ties away, also a format with layer scales."""
    radix4 = Radix4("even", ties, underflow)
    x = np.float32([0.0078125, 0.0097, 0.009765625, 0.625, 2.5, 3.0])
    rules = [QuantSpec(quantizer=radix4)] + [QuantSpec(radix4.format, "nearest_away", PerLayerGradScale())] * (
        ties == "away"
    )
    for rule in rules:
        found = recipes.get("int4_fp4_2020").replace(output_gradient_dx=rule).output_gradient_dx
        got = found.quantizer.quantize(x) if found.quantizer else found.format.quantize(x, found.rounding)
        np.testing.assert_array_equal(got, [radix4.quantize(float(number)) for number in x])


@pytest.mark.parametrize(("name", "switches", "message"), [
    ("int4_fp4_2020", {"radix": 2}, "radix 2 has one phase; pass phases='single'"),
    ("int4_fp4_2020", {"radix": 3}, "radix must be 4 or 2, got 3"),
    ("int4_fp4_2020", {"scale": 0}, "scale must be 'layer' or a positive number, got 0"),
    ("int4_fp4_2020", {"pointwise": "int8"}, "pointwise must be 'fp4' or 'fp8' or 'reducing_fp8', got 'int8'"),
    ("pact_sawb_2019", {"bits": 3}, "bits must be 2 or 4, got 3"),
    ("fixed16_2015", {"fraction_bits": 16}, "fraction_bits must be an integer from 0 to 15, got 16"),
    ("fp8_2018", {"chunk": 64}, "fp8_2018 has no switch 'chunk'; allowed: rounding, first_last, loss_scale"),
])  # fmt: skip
def test_errors_say_what_is_allowed(name, switches, message):
    with pytest.raises(ValueError, match=message):
        recipes.get(name, **switches)


def test_weight_gradients_of_fp8_2018_are_rounded_to_1_6_9():
    assert recipes.get("fp8_2018").weight_gradient == QuantSpec("dlfloat16", "nearest_away")


@pytest.mark.parametrize("name", ["e4m3fn", "nvfp4"])
def test_the_name_of_a_format_is_answered_with_its_use(name):
    how = f"Recipe(weight='{name}', activation='{name}'), or quantize_for_inference(model, '{name}')"
    with pytest.raises(ValueError, match=f"^there is no recipe '{name}'; ") as error:
        recipes.get(name)
    assert str(error.value).endswith(f" ({name} is a format: {how})")
    assert Recipe(weight=name, activation=name).weight == QuantSpec(name) == inference_recipe(name).weight
