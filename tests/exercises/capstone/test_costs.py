"""Bits and seconds of recipes: against sums written out by hand, and against the model of hardware."""

import numpy as np
import pytest

from lplab.exercises.capstone.costs import BATCH, CHIP, average_bits, bits_of, costs_of, peak_of, step_seconds, workload
from lplab.hardware import precisions
from lplab.hardware.compute import layer_times
from lplab.training import QuantSpec, Recipe, recipes
from lplab.training.recipe.recipe import LayerRules, Switch
from lplab.training.recipe.recipe_data import recipe_from_data


def multiplications():
    """Of the ordinary layers, of attention, of the last layer, for one sequence, forward: width, layers, tokens."""
    width, layers, tokens, words = 5120, 40, 2048, 50257
    ordinary = layers * tokens * (4 * width * width + 2 * width * 4 * width)
    attention = layers * 2 * tokens * tokens * width
    return np.array([ordinary, attention, tokens * width * words], float)


def test_average_bits_are_the_mean_over_multiplications():
    shares = multiplications() / multiplications().sum()
    assert average_bits(recipes.get("bf16")) == 16
    tiled, rows = 4 + 8 / 256, 4 + 8 / 16  # NVFP4: weights in tiles of 16 × 16, other numbers in blocks of 16
    ordinary = (4 * rows + 2 * tiled) / 6
    wanted = shares @ [ordinary, 16, 16]
    assert average_bits(recipes.get("nvfp4_2025", late=0.0)) == pytest.approx(wanted, rel=1e-12)


def test_each_operand_counts_in_its_product():
    """One role after the other at 4 bits, all others at 8; attention has activations and gradients alone."""
    shares = multiplications() / multiplications().sum()
    base = dict.fromkeys(("weight", "activation", "output_gradient_dx", "output_gradient_dw"), "e4m3fn")
    counts = {  # numbers out of six that are of this role: in ordinary layers and the last one, in attention
        "weight": (2, 0),
        "activation": (2, 4),
        "output_gradient_dx": (1, 1),
        "output_gradient_dw": (1, 1),
    }
    for role, (ordinary, attention) in counts.items():
        saved = shares @ np.array([ordinary, attention, ordinary]) * 4 / 6
        assert average_bits(Recipe(**(base | {role: "e2m1"}))) == pytest.approx(8 - saved, rel=1e-12), role
    split = Recipe(**base, weight_dx="e2m1", activation_dw="e2m1")
    saved = shares @ np.array([2, 2, 2]) * 4 / 6
    assert average_bits(split) == pytest.approx(8 - saved, rel=1e-12)


@pytest.mark.parametrize("name", ["mxfp8_2025", "quartet_2025", "bf16", "deepseek_2024"])
def test_seconds_are_those_of_the_precisions_of_lab_11(name):
    wanted = layer_times(workload(), CHIP, precisions.get(name), BATCH).step_seconds
    assert step_seconds(recipes.get(name)) == pytest.approx(wanted, rel=1e-3)


def test_a_backward_pass_in_four_bits_is_that_of_mxfp4():
    """The recipe keeps 16-bit weights for dx in lab 11's table; here the operand that is multiplied counts."""
    wanted = layer_times(workload(), CHIP, precisions.get("mxfp4_2025"), BATCH).step_seconds
    assert step_seconds(recipes.get("mxfp4_2025")) == pytest.approx(wanted, rel=0.03)


def test_late_layers_cost_their_own_bits():
    none, some, all_ = (costs_of(recipes.get("nvfp4_2025", late=late)) for late in (0.0, 0.15, 1.0))
    assert none.bits < some.bits < all_.bits == pytest.approx(16)
    assert none.seconds < some.seconds < all_.seconds
    share = 36 / 240  # of 243 layers with weights the last 37: 36 of blocks and the last layer
    ordinary = multiplications()[0] / multiplications().sum()
    missing = 16 - (4 * 4.5 + 2 * (4 + 8 / 256)) / 6
    # The blocks' layers are not equally large: 36 of 240 are six whole blocks.
    assert some.bits - none.bits == pytest.approx(ordinary * share * missing, rel=1e-9)


def test_a_switch_costs_both_parts_by_their_shares():
    first, second = recipes.get("nvfp4_2025"), recipes.get("bf16")
    wide = Recipe(**{role: getattr(second, role) for role in ("weight", "activation")})
    both = first.replace(switch=Switch(0.75, wide))
    a, b, found = costs_of(first), costs_of(wide), costs_of(both)
    assert found.bits == pytest.approx(0.75 * a.bits + 0.25 * b.bits)
    assert found.seconds == pytest.approx(0.75 * a.seconds + 0.25 * b.seconds)
    with pytest.raises(ValueError, match="switch: at must be a share"):
        costs_of(first.replace(switch=Switch(7, wide)))


PEAKS = {
    ("e2m1", "e2m1"): "fp4",
    ("nvfp4", "mxfp4"): "fp4",
    ("e3m2", "e2m1"): "fp8",
    ("mxfp8_e4m3", "mxfp4"): "fp8",
    ("int4", "int4"): "int4",
    ("int4", "int8"): "int8",
    ("int4", "e2m1"): "bf16",
    ("bf16", "e2m1"): "bf16",
    ("tf32", "bf16"): "tf32",
    ("fp32", "e2m1"): "fp32",
    ("mxint8", "int8"): "int8",
}


@pytest.mark.parametrize("pair", PEAKS, ids=" × ".join)
def test_products_run_at_the_peak_of_the_wider_operand(pair):
    left, right = (QuantSpec(name) for name in pair)
    assert peak_of(left, right) == peak_of(right, left) == PEAKS[pair]


def test_bits_count_the_share_of_a_scale():
    tiles = recipe_from_data({"weight": {"format": {"element": "e2m1", "block": [16, 16]}}})
    assert bits_of(tiles.weight) == 4 + 8 / 256
    assert bits_of(QuantSpec("mxfp8_e4m3")) == 8.25
    scaled = recipe_from_data({"weight": {"format": "mxfp4", "pre_scale": 0.75}})
    assert bits_of(scaled.weight) == 4.25


@pytest.mark.parametrize("name", ["posit8_1", "lns8", "q4.12", "e8m0"])
def test_a_format_that_no_chip_multiplies_is_refused(name):
    with pytest.raises(ValueError, match="no chip of the table multiplies"):
        costs_of(Recipe(weight=name))


def test_an_exception_without_products_costs_nothing():
    plain = Recipe(weight="int8")
    assert costs_of(plain.replace(exceptions={"embedding": LayerRules(weight="fp32")})) == costs_of(plain)
