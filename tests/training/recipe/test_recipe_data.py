"""Recipes as data: back and forth without loss, and one clear line for every kind of bad data."""

import json
from dataclasses import replace

import hypothesis
import pytest
from hypothesis import strategies as st

from lplab import formats as F
from lplab.quantizers import Amax, Hadamard, PreScaled
from lplab.training import QuantSpec, Recipe, recipes
from lplab.training.recipe.recipe import LayerRules, Switch
from lplab.training.recipe.recipe_data import (
    EXCEPTIONS,
    MAX_TEXT,
    OPERANDS,
    data_from_recipe,
    parse_json,
    recipe_from_data,
)

BLOCKS = ("deepseek_2024", "mxfp8_2025", "mxfp4_2025", "quartet_2025", "nvfp4_2025")
ABLATIONS = [
    *[(name, {}) for name in BLOCKS],
    ("deepseek_2024", {"tile": 64, "weight_tile": None, "gradients": "e5m2", "power_of_two": True}),
    ("mxfp8_2025", {"scale_rule": "floor", "gradients": "e5m2", "forward": "bf16"}),
    ("mxfp4_2025", {"rounding": "nearest_even", "hadamard": 0, "pre_scale": 1, "forward": "mxfp4"}),
    ("nvfp4_2025", {"weight_tile": None, "signs": False, "late": 0.0, "forward_rounding": "stochastic"}),
    ("nvfp4_2025", {"switch": 0.82}),
    ("nvfp4_2025", {"switch": 7, "hadamard": 32, "wide": "fp16"}),
]


@pytest.mark.parametrize(("name", "switches"), ABLATIONS)
def test_a_published_recipe_comes_back_as_it_was(name, switches):
    recipe = recipes.get(name, **switches)
    text = json.dumps(data_from_recipe(recipe))
    back = recipe_from_data(parse_json(text))
    if recipe.switch is not None:
        assert back.switch.at == recipe.switch.at
        assert back.switch.to == recipe.switch.to.replace(source="")
    assert back.replace(switch=None) == recipe.replace(source="", switch=None)
    assert len(text) < MAX_TEXT / 5


def test_data_say_what_they_mean():
    """Each key by hand, without the way back."""
    stochastic = QuantSpec("nvfp4", "stochastic", axis="contraction", transform=Hadamard(16, 3))
    blocks = F.BlockFormat(F.get("e2m1"), block_size=(8, 4), scale_rule="rceil", name="tiles")
    recipe = recipe_from_data(
        {
            "weight": {"format": {"element": "e2m1", "block": [8, 4], "scale_rule": "rceil", "name": "tiles"}},
            "activation": {"format": "int8", "scaling": "amax"},
            "output_gradient_dx": {"format": "mxfp4", "rounding": "stochastic", "pre_scale": 0.75},
            "output_gradient_dw": {"format": "nvfp4", "rounding": "stochastic", "hadamard": 16, "signs": 3},
            "activation_dw": {"format": "nvfp4", "rounding": "stochastic", "hadamard": 16, "signs": 3},
            "exceptions": {"last": "bf16", "product": {"weight": "e4m3fn"}, "late": "nvfp4"},
            "late_share": 0.25,
        }
    )
    assert recipe.weight == QuantSpec(blocks, axis="contraction")
    assert recipe.activation == QuantSpec("int8", scaling=Amax())
    wanted = QuantSpec(quantizer=PreScaled("mxfp4", 0.75, "stochastic"), axis="contraction")
    assert recipe.output_gradient_dx == wanted
    assert recipe.output_gradient_dw == recipe.activation_dw == stochastic
    assert recipe.exceptions["last"] == LayerRules(**dict.fromkeys(OPERANDS[:4], "bf16"))
    assert recipe.exceptions["product"] == LayerRules(weight="e4m3fn")
    block = QuantSpec("nvfp4", axis="contraction")
    assert recipe.exceptions["late"] == LayerRules(**dict.fromkeys(OPERANDS, block))
    assert (recipe.late_share, recipe.weight_dx, recipe.switch) == (0.25, None, None)
    assert recipe_from_data({}) == Recipe()


def test_elements_of_blocks_saturate_whatever_the_catalogue_says():
    recipe = recipe_from_data({"weight": {"format": {"element": "e5m2", "block": 32}}})
    assert recipe.weight.format.element == replace(F.get("e5m2"), saturating=True)


def test_a_switch_names_what_changes():
    data = {"name": "first", "weight": "e4m3fn", "activation": "e4m3fn", "exceptions": {"last": "bf16"}}
    recipe = recipe_from_data({**data, "switch": {"at": 0.5, "to": {"weight": "bf16", "exceptions": None}}})
    wanted = Recipe(name="first", weight="bf16", activation="e4m3fn")
    assert recipe.switch == Switch(0.5, wanted)


BAD = {  # what is wrong: the data, and words of the message
    "no dictionary": (["weight"], "the recipe: a dictionary is needed"),
    "a text": ("nvfp4", "the recipe: a dictionary is needed, got 'nvfp4'"),
    "unknown role": ({"weigth": "nvfp4"}, "unknown key 'weigth'; closest: weight"),
    "a role that is no operand": ({"output": "bf16"}, "unknown key 'output'"),
    "unknown format": ({"weight": "nvpf4"}, "weight: format: unknown format 'nvpf4'; closest: nvfp4"),
    "a number": ({"weight": 4}, "weight: a dictionary is needed, got 4"),
    "no format": ({"weight": {"rounding": "stochastic"}}, "weight: 'format' is missing"),
    "format of a wrong kind": ({"weight": {"format": 8}}, "weight: format: a dictionary is needed, got 8"),
    "unknown key of a role": ({"weight": {"format": "nvfp4", "block": 16}}, "weight: unknown key 'block'"),
    "unknown rounding": ({"weight": {"format": "nvfp4", "rounding": "coin"}}, "rounding: 'coin' is none of"),
    "a rounding that is a list": ({"weight": {"format": "nvfp4", "rounding": ["up"]}}, "rounding: ['up'] is none of"),
    "fixed point of any width": ({"weight": "q20.10"}, "of fixed point the catalogue's formats are allowed"),
    "scaling of blocks": ({"weight": {"format": "nvfp4", "scaling": "amax"}}, "'scaling' makes no sense here"),
    "unknown scaling": ({"weight": {"format": "int8", "scaling": "mean"}}, "scaling must be 'amax'"),
    "Hadamard without blocks": ({"weight": {"format": "e2m1", "hadamard": 16}}, "'hadamard' makes no sense here"),
    "Hadamard of three": ({"weight": {"format": "nvfp4", "hadamard": 3}}, "weight: hadamard: size must be a power"),
    "Hadamard of millions": ({"weight": {"format": "nvfp4", "hadamard": 2**30}}, "hadamard: size must be"),
    "Hadamard of 256": ({"weight": {"format": "nvfp4", "hadamard": 256}}, "size must be an integer from 2 to 128"),
    "Hadamard of one operand": (
        {"weight": {"format": "nvfp4", "hadamard": 16}, "weight_dx": "nvfp4"},
        "cancels only on both operands",
    ),
    "signs alone": ({"weight": {"format": "nvfp4", "signs": 3}}, "there is no 'hadamard'"),
    "signs of a wrong number": (
        {"weight": {"format": "nvfp4", "hadamard": 4, "signs": [1, -1]}},
        "hadamard: signs must be 4 numbers",
    ),
    "signs that are none": ({"weight": {"format": "nvfp4", "hadamard": 2, "signs": [1, 2]}}, "list of 1 and -1"),
    "signs without end": ({"weight": {"format": "nvfp4", "hadamard": 2, "signs": [1] * 5000}}, "list of 1 and -1"),
    "signs that are text": ({"weight": {"format": "nvfp4", "hadamard": 2, "signs": "mine"}}, "list of 1 and -1"),
    "pre-scale of tiles": (
        {"weight": {"format": {"element": "e2m1", "block": [4, 4]}, "pre_scale": 0.75}},
        "has no power-of-two scale",
    ),
    "another pre-scale": ({"weight": {"format": "mxfp4", "pre_scale": 0.6}}, "weight: pre_scale is 0.75"),
    "pre-scale that is text": ({"weight": {"format": "mxfp4", "pre_scale": "x"}}, "or left out, got 'x' for mxfp4"),
    "pre-scale of other elements": ({"weight": {"format": "mxfp8_e4m3", "pre_scale": 0.75}}, "for blocks of e2m1"),
    "pre-scale under another rule": (
        {"weight": {"format": {"element": "e2m1", "block": 32, "scale_rule": "rceil"}, "pre_scale": 0.75}},
        "under the rule floor",
    ),
    "a block of one": ({"weight": {"format": {"element": "e2m1", "block": 1}}}, "block_size must be an integer from 2"),
    "a block of millions": ({"weight": {"format": {"element": "e2m1", "block": 10**9}}}, "from 2 to 1024"),
    "a tile of three sides": ({"weight": {"format": {"element": "e2m1", "block": [2, 2, 2]}}}, "block_size must be"),
    "no block": ({"weight": {"format": {"element": "e2m1"}}}, "weight: format: 'block' is missing"),
    "no element": ({"weight": {"format": {"block": 16}}}, "weight: format: 'element' is missing"),
    "an element of 16 bits": ({"weight": {"format": {"element": "bf16", "block": 16}}}, "element must be a saturating"),
    "blocks of posits": ({"weight": {"format": {"element": "posit8_1", "block": 16}}}, "element must be"),
    "a scale that is none": (
        {"weight": {"format": {"element": "e2m1", "block": 16, "scale": "bf16"}}},
        "must be E8M0",
    ),
    "unknown scale rule": (
        {"weight": {"format": {"element": "e2m1", "block": 16, "scale_rule": "mid"}}},
        "unknown scale_rule 'mid'",
    ),
    "a flag that is a number": (
        {"weight": {"format": {"element": "e2m1", "block": 16, "tensor_scale": 1}}},
        "tensor_scale must be true or false",
    ),
    "a long name": ({"name": "x" * 61}, "name must be text of at most 60 characters"),
    "a name of two lines": ({"name": "a\nb"}, "name must be text of at most 60 characters in one line"),
    "a name that is none": ({"name": 3}, "name must be text"),
    "unknown kind of layer": ({"exceptions": {"middle": "bf16"}}, "exceptions: unknown key 'middle'"),
    "exceptions that are a list": ({"exceptions": []}, "exceptions: a dictionary is needed"),
    "a bad exception": ({"exceptions": {"last": {"weight": "x"}}}, "exceptions: last: weight: format: unknown format"),
    "an exception of a wrong role": ({"exceptions": {"last": {"weights": "bf16"}}}, "exceptions: last: unknown key"),
    "late without a share": ({"exceptions": {"late": "bf16"}}, "belong together"),
    "a share without late": ({"late_share": 0.5}, "belong together"),
    "a share above 1": ({"late_share": 15}, "late_share must be a number from 0 to 1, got 15"),
    "a share that is NaN": ({"late_share": float("nan")}, "late_share must be a number from 0 to 1"),
    "a share that is true": ({"late_share": True}, "late_share must be a number from 0 to 1"),
    "a switch that is a number": ({"switch": 0.5}, "switch: a dictionary is needed"),
    "a switch to nothing": ({"switch": {"at": 0.5}}, "switch: 'to' is missing"),
    "a switch at no time": ({"switch": {"to": {}}}, "switch: 'at' is missing"),
    "a switch before the beginning": ({"switch": {"at": -0.5, "to": {}}}, "switch: at must be"),
    "a switch at NaN": ({"switch": {"at": float("nan"), "to": {}}}, "switch: at must be"),
    "a second switch": ({"switch": {"at": 0.5, "to": {"switch": {}}}}, "switch: to: unknown key 'switch'"),
    "a bad switch": ({"switch": {"at": 0.5, "to": {"weight": "x"}}}, "switch: to: weight: format: unknown format"),
    "a key that is no text": ({3: "bf16"}, "unknown key 3"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_data_get_one_clear_line(name):
    data, words = BAD[name]
    with pytest.raises(ValueError) as found:
        recipe_from_data(data)
    line = str(found.value)
    assert words in line
    assert "\n" not in line and len(line) < 400


BAD_TEXTS = {
    "{": "a recipe must be JSON: expecting property name",
    "": "a recipe must be JSON: expecting value",
    '{"late_share": NaN}': "a recipe has finite numbers alone, got NaN",
    '{"late_share": -Infinity}': "a recipe has finite numbers alone, got -Infinity",
    '{"weight": "bf16", "weight": "fp16"}': "each key once, and 'weight' is there twice",
    "[" * 15_000: "nested so deeply",
    " " * (MAX_TEXT + 1): "at most 20,000 characters",
}


@pytest.mark.parametrize("text", BAD_TEXTS, ids=[text[:30] for text in BAD_TEXTS])
def test_bad_text_gets_one_clear_line(text):
    with pytest.raises(ValueError, match=BAD_TEXTS[text]):
        parse_json(text)


NOT_DATA = {
    "an update": (Recipe(update=recipes.get("fp8_2018").update, name="x"), "neither an update"),
    "a loss scale": (Recipe(loss_scale=8.0), "nor a loss scale"),
    "results": (Recipe(output="bf16"), "output is rounded, too"),
    "an accumulator": (Recipe(accumulator="chunked"), "no accumulator"),
    "a quantizer": (recipes.get("pact_sawb_2019").replace(activation=None, exceptions={}), "describe no SAWB"),
    "blocks along another axis": (Recipe(weight=QuantSpec("nvfp4", axis=0)), "along the axis of the product's sum"),
    "another kind of layer": (Recipe(exceptions={"depthwise": LayerRules()}), "no exception of the kind 'depthwise'"),
    "a format of one's own": (Recipe(weight=F.FloatFormat(3, 3)), "no format of the catalogue"),
    "another factor": (recipes.get("mxfp4_2025", pre_scale=0.5), "no other factor than 0.75"),
    "few random bits": (Recipe(weight=QuantSpec("bf16", F.Rounding("stochastic", 4))), "by its name alone"),
}


@pytest.mark.parametrize("name", NOT_DATA)
def test_a_recipe_that_data_cannot_describe_is_refused(name):
    recipe, words = NOT_DATA[name]
    with pytest.raises(ValueError, match=words):
        data_from_recipe(recipe)


RULES = st.one_of(
    st.sampled_from(["bf16", "e4m3fn", "int4", "nvfp4", "mxfp4", "fp32"]),
    st.builds(
        lambda element, block, rule: {"format": {"element": element, "block": block, "scale_rule": rule}},
        st.sampled_from(["e2m1", "e4m3fn", "e5m2", "e3m2", "int8"]),
        st.one_of(st.integers(2, 64), st.tuples(st.integers(2, 16), st.integers(2, 16)).map(list)),
        st.sampled_from(["floor", "ceil", "nearest"]),
    ),
    st.builds(lambda mode: {"format": "mxfp4", "rounding": mode, "pre_scale": 0.75}, st.sampled_from(F.ROUNDINGS)),
)


@hypothesis.given(
    st.dictionaries(st.sampled_from(OPERANDS), RULES),
    st.dictionaries(st.sampled_from([kind for kind in EXCEPTIONS if kind != "late"]), RULES),
)
def test_recipes_made_of_any_rules_come_back(roles, exceptions):
    try:
        recipe = recipe_from_data({**roles, "exceptions": exceptions})
    except ValueError as problem:  # such as blocks beside a rule that has no axis
        assert "\n" not in str(problem)
        return
    assert recipe_from_data(json.loads(json.dumps(data_from_recipe(recipe)))) == recipe


JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.sampled_from(OPERANDS)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from([*OPERANDS, "format", "element", "block", "exceptions", "switch"]), inner),
    ),
    max_leaves=12,
)


@hypothesis.given(JUNK)
def test_whatever_data_hold_there_is_a_recipe_or_one_line(data):
    try:
        assert isinstance(recipe_from_data(data), Recipe)
    except ValueError as problem:
        assert str(problem) and "\n" not in str(problem) and len(str(problem)) < 600
