"""Lab 14: the answer of its question, its solutions against the library, and the student's functions in the figures."""

import ast
import json
from pathlib import Path

import numpy as np
import pytest

from lplab import widgets
from lplab.exercises.capstone.costs import BUDGET, costs_of
from lplab.exercises.capstone.points import FOR_BUDGET, MAX_POINTS
from lplab.exercises.capstone.published_recipes import is_published, plain_mxfp4
from lplab.exercises.capstone.scoring import checked_recipe
from lplab.exercises.checks.variants import function_of
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.lab14 import EXERCISES, draw_pair, draw_slopes, draw_two_weights
from lplab.exercises.lab14.four_bits import SIZES, captured_layers, fp4, hadamard
from lplab.exercises.lab14.hadamard_pair import NAMES, exact_cases, unrounded
from lplab.exercises.lab14.one_weight import captured_weights, fp4_group
from lplab.exercises.lab14.slope import ROUNDINGS, roundings
from lplab.exercises.model import exercise_catalogue
from lplab.formats import BlockFormat, get
from lplab.labs import lab14
from lplab.quantizers import NVFP4_SIGNS, Hadamard, PreScaled
from lplab.recordings.ingredient_runs import (
    HELPERS,
    MXFP4_2025,
    NVFP4_2025,
    PLAIN,
    Ingredients,
    ingredient_branches,
)
from lplab.training.recipe.recipe_data import BLOCK_KEYS, OPERANDS, RECIPE_KEYS, RULE_KEYS
from tests.exercises.in_process import judge_here as judge

PROJECT = Path(__file__).parents[2]
CELLS = json.loads((PROJECT / "labs" / "14_four_bits_again.ipynb").read_text("utf-8"))["cells"]
TEXT = " ".join("".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "markdown")


def solution(number):
    return function_of(EXERCISES[number - 1])


def unfinished(*args):
    raise NotImplementedError


# ---- the exercises' own tools ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounding", [lambda x: fp4(x), lambda x: np.stack([fp4_group(row) for row in x])])
def test_fp4_is_the_librarys_blocks_with_scales_that_are_not_rounded(rounding):
    """Ties aside, which these numbers do not have."""
    x = np.random.default_rng(0).normal(size=(200, 16)).astype(np.float32).astype(np.float64)
    library = BlockFormat(get("e2m1"), scale=get("fp32"), block_size=16)
    np.testing.assert_allclose(rounding(x), library.quantize(x), rtol=1e-6)
    assert not rounding(np.zeros((1, 16))).any()


def test_the_matrix_is_the_librarys_transform_of_columns():
    x = np.random.default_rng(1).normal(size=(16, 3))
    np.testing.assert_allclose(hadamard(16) @ x, Hadamard(16, NVFP4_SIGNS).apply(x, axis=0), atol=1e-12)
    for size in (4, 16):
        np.testing.assert_array_equal(hadamard(size).T @ hadamard(size), np.eye(size))
        assert not np.array_equal(hadamard(size), hadamard(size).T), "else its transpose would be no mistake"


def test_cases_that_lose_nothing_lose_nothing():
    x = unrounded(1, 32, 2, 16)
    after = (hadamard(16) @ x.reshape(2, 16, 2)).reshape(32, 2)
    assert np.isin(np.abs(after), SIZES).all() and np.array_equal(fp4(after.T).T, after)
    assert all(np.abs(dy.T @ y).max() > 1 for dy, y, _ in exact_cases())


def test_the_sums_of_the_boundary_set_are_exact_in_any_order():
    for dy, x, h in exercise_catalogue.get("14.1").boundary():
        for each in (dy, x):
            groups = each.reshape(-1, len(h), each.shape[1])
            forward = np.einsum("ij,gjk->gik", h, groups)
            back = np.einsum("ij,gjk->gik", h[:, ::-1], groups[:, ::-1])
            assert np.array_equal(forward, back) and np.array_equal(forward, h @ groups)


# ---- the solutions against the library -------------------------------------------------------------------------------


def test_a_transformed_pair_is_that_of_the_librarys_transform():
    dy, x = captured_layers()["head"]
    block = BlockFormat(get("e2m1"), scale=get("fp32"), block_size=16)
    left, right = (block.quantize(Hadamard(16, NVFP4_SIGNS).apply(each.T)) for each in (dy, x))
    np.testing.assert_allclose(solution(1)(dy, x, hadamard(16)), left @ right.T, rtol=1e-3, atol=1e-9)


@pytest.mark.parametrize("tiles", [False, True])
def test_both_weights_are_those_of_the_librarys_blocks(tiles):
    w = np.random.default_rng(3).normal(size=(40, 24))
    forward, backward = solution(2)(w, 16, tiles)
    block = BlockFormat(get("e2m1"), scale=get("fp32"), block_size=(16, 16) if tiles else 16)
    np.testing.assert_allclose(forward, block.quantize(w), rtol=1e-6)
    np.testing.assert_allclose(backward, block.quantize(np.ascontiguousarray(w.T)).T, rtol=1e-6)


def test_a_known_slope_is_recognized_whatever_the_order_of_its_sums():
    source = """
def slope_and_error(g, rounded):
    m = sum(rounded) / len(rounded)
    return m @ g / (m @ m), ((m - g) @ (m - g)) ** 0.5 / (g @ g) ** 0.5
"""
    verdict = judge(exercise_catalogue.get("14.3"), Answer(source, "slope_and_error"))
    assert verdict.status == "failed" and "the slope the other way round" in str(verdict)


def test_the_slope_is_that_of_a_projection():
    g, made = roundings()
    slope, error = solution(3)(g, made[ROUNDINGS[0]][:1])
    coefficient, *_ = np.linalg.lstsq(g[:, None], made[ROUNDINGS[0]][0], rcond=None)
    assert slope == pytest.approx(coefficient[0]) and 0.05 < error < 0.3


# ---- figures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("draw", "number"), [(draw_pair, 1), (draw_two_weights, 2), (draw_slopes, 3)])
def test_students_functions_are_drawn_once_they_work(draw, number):
    assert "it is not written yet" in str(draw(unfinished))
    source = EXERCISES[number - 1].solution
    drawn = draw(_named(source, EXERCISES[number - 1].name))
    assert isinstance(drawn, widgets.LiveFigure)
    agrees = drawn.layout.meta["title"].rpartition("yours agrees at ")[2].split(" of ")
    assert agrees[0] == agrees[1] and int(agrees[1]) >= 10


def test_a_mistake_is_drawn_as_crosses():
    exercise = exercise_catalogue.get("14.1")
    one_side = next(each for each in exercise.mistakes if each.name.startswith("only dy is transformed"))
    drawn = draw_pair(_named(one_side.apply(exercise.solution), exercise.name))
    assert drawn.layout.meta["title"].endswith("yours agrees at 5 of 10"), "with the identity it is right"


def _named(source, name):
    """A function whose source can be read, as a notebook's can."""
    import linecache

    file = f"<lab14 {hash(source)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space = {"np": np}
    exec(compile(source, file, "exec"), space)
    return space[name]


# ---- what the lab says -----------------------------------------------------------------------------------------------


def test_the_question_asks_what_the_recording_says():
    recorded = ingredient_branches()
    left = recorded.gap(Ingredients("bf16", "nvfp4")).mean() / recorded.gap(PLAIN["nvfp4"]).mean()
    assert exercise_catalogue.question("14.a").truth() == round(100 * left, 1)
    assert left < 0.3, "nearly all of the gap comes from the forward pass"


def test_what_the_text_says_of_the_order_and_of_the_helpers():
    recorded = ingredient_branches()
    eight, nvfp4, mxfp4 = (recorded.gap(PLAIN[kind]).mean() for kind in ("mxfp8", "nvfp4", "mxfp4"))
    assert eight < nvfp4 < mxfp4 and "MXFP8 loses least, then NVFP4, then MXFP4" in TEXT
    assert all(map(lab14.within_noise, NVFP4_2025.helpers)) and "none of them can be told from chance" in TEXT
    least, most = (100 * recorded.share(PLAIN[kind]) for kind in ("nvfp4", "mxfp4"))
    assert f"In our network, four bits raise the loss by {least:.1f} to {most:.1f} %" in TEXT


def test_the_text_counts_the_helpers_that_there_are():
    helpers = TEXT.split("NVIDIA uses the first four, and tests the fifth.")[1].split("One figure shows")[0]
    assert helpers.count("\n- ") == len(HELPERS) == 5 and list(HELPERS)[:4] == list(NVFP4_2025.helpers)


def test_the_worked_example_is_that_of_the_table():
    dy, x, transformed_dy, transformed_x = lab14.four_numbers().columns.values()
    assert "4 · 5 − 4 · 1 − 4 · 2 + 4 · 0 = 8" in TEXT and (transformed_dy, transformed_x) == (
        [4.0] * 4,
        [5.0, -1.0, -2.0, 0.0],
    )
    assert np.dot(dy, x) == np.dot(transformed_dy, transformed_x) == 8


def test_a_factor_of_3_4_leaves_the_scale_and_clips_nothing():
    assert "multiply the divided numbers by 3/4 before they round them. The scale stays as it was" in TEXT
    block, x = BlockFormat(get("e2m1"), block_size=4), np.array([4.2, 1.0, 0.3, 0.0])
    assert (
        block.quantize(np.array([7.9, 0, 0, 0]))[0] == 6 and PreScaled(block).quantize(np.array([7.9, 0, 0, 0]))[0] == 8
    )
    steps_of_one = 0.75 * PreScaled(block).quantize(x)
    assert steps_of_one[2] == 0 and block.quantize(0.75 * x)[2] == 0.25, (
        "multiplied before the scale is found: another one"
    )


def test_the_recipe_to_start_from_earns_points():
    cell = next(cell for cell in CELLS if cell["id"] == "own-recipe")
    mine = ast.literal_eval("".join(cell["source"]).partition("mine = ")[2].partition("own_recipe")[0].strip())
    recipe = checked_recipe(mine)
    assert BUDGET.allows(costs_of(recipe)) and not is_published(recipe), (
        "so it earns at least the points for the budget"
    )
    assert f"earns {FOR_BUDGET} of {MAX_POINTS} points" in TEXT
    assert recipe.replace(name="", output_gradient_dx=recipe.output_gradient_dw) == plain_mxfp4().replace(name="")


def test_all_keys_of_a_recipe_are_shown():
    (table,) = lab14.recipe_keys().parts
    assert table.columns["key"] == [*RECIPE_KEYS, *RULE_KEYS, *BLOCK_KEYS]
    assert set(OPERANDS) < set(RECIPE_KEYS)


def test_what_the_text_says_of_transforms_and_weights():
    found = dict(zip(*lab14.facts().columns.values(), strict=True))
    plain, transformed = (found[f"error of dW in FP4, {name}, mean of the layers (%)"] for name in NAMES)
    assert plain < transformed < 1.3 * plain and "the transform makes dW slightly worse" in TEXT
    least, most = (found[f"weights that differ between the passes (%), {end}"] for end in ("least", "most"))
    assert 12.5 < least <= most < 13.7 and "differ by about 13 %" in TEXT
    assert len(captured_weights()) >= 5


def test_what_the_text_says_of_averaging():
    table = lab14.slopes()
    nearest, clipped, right = (
        dict(zip(table.columns, row, strict=True)) for row in zip(*table.columns.values(), strict=True)
    )
    assert nearest["slope, 1 draw"] == nearest["slope, 32 draws"] and nearest["error, 1"] == nearest["error, 32"]
    assert clipped["slope, 32 draws"] < 0.995 < right["slope, 32 draws"] < 1.005
    assert nearest["error, 1"] < right["error, 1"] and right["error, 32"] < 0.3 * right["error, 1"]


def test_what_the_text_says_of_time():
    columns = lab14.step_times().columns
    rows = {name: index for index, name in enumerate(columns["recipe"])}
    speeds = {chip: {name: columns[chip][row] for name, row in rows.items()} for chip in ("B200", "H100")}
    assert speeds["B200"]["plain NVFP4"] < 2 * speeds["B200"]["MXFP8 (2025)"]
    assert speeds["H100"]["plain NVFP4"] == pytest.approx(speeds["H100"]["MXFP8 (2025)"], rel=0.05)
    assert speeds["B200"]["MXFP4 backward (2025)"] < 1.05 * speeds["B200"]["MXFP8 (2025)"]


def test_what_the_text_says_of_the_transform_in_mxfp4():
    recorded = ingredient_branches()
    for chosen in (MXFP4_2025, MXFP4_2025.without("stochastic")):
        assert (recorded.gap(chosen.without("hadamard"), chosen) > 0).all()
    assert "the gap is then smaller on every seed" in TEXT
