"""Lab 13: the solutions are what the library's formats do; students' functions are drawn; other right ways pass."""

import json
from pathlib import Path

import numpy as np
import pytest

from lplab import exercises
from lplab import formats as F
from lplab.datasets import captured
from lplab.exercises.checks.variants import function_of
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.lab13 import draw_scales, draw_tiles, gradient_lost
from lplab.exercises.lab13 import mxfp4 as block_exercise
from lplab.exercises.lab13.average_bits import average_bits
from lplab.exercises.lab13.mxfp4 import GRADIENT, mxfp4
from lplab.exercises.lab13.round_tiles import WEIGHT, round_tiles
from lplab.exercises.lab13.rounding_fp4 import int4_format, mxfp4_format, one_scale, to_e2m1
from lplab.exercises.model import exercise_catalogue
from lplab.labs import lab13
from tests.exercises.in_process import judge_here

PROJECT = Path(__file__).parents[2]
TEXT = " ".join(
    "".join(cell["source"])
    for cell in json.loads((PROJECT / "labs" / "13_who_shares_a_scale.ipynb").read_text("utf-8"))["cells"]
    if cell["cell_type"] == "markdown"
)


def solved_block(block, up):
    fraction, exponent = np.frexp(np.abs(block).max())
    x = block / 2.0 ** (exponent - 3 + (up and fraction > 0.75))
    step = np.select([np.abs(x) < 2, np.abs(x) < 4], [0.5, 1.0], 2.0)
    return np.clip(step * np.round(x / step), -6, 6) * 2.0 ** (exponent - 3 + (up and fraction > 0.75))


def always_up(block, up):
    fraction, exponent = np.frexp(np.abs(block).max())
    x = block / 2.0 ** (exponent - 3 + (fraction > 0.75))
    step = np.select([np.abs(x) < 2, np.abs(x) < 4], [0.5, 1.0], 2.0)
    return np.clip(step * np.round(x / step), -6, 6) * 2.0 ** (exponent - 3 + (fraction > 0.75))


def solved_tiles(w, size):
    result = np.empty(w.shape)
    for i in range(0, w.shape[0], size):
        for j in range(0, w.shape[1], size):
            tile = w[i : i + size, j : j + size]
            scale = 2.0 ** (np.frexp(np.abs(tile).max())[1] - 3)
            result[i : i + size, j : j + size] = np.clip(np.round(tile / scale), -7, 7) * scale
    return result


def blocks_in_rows(w, size):
    parts = np.array_split(w, w.shape[1] // size, axis=1)
    return np.hstack([np.array([one_scale(row) for row in part]) for part in parts])


# ---- the roundings that stand ready ----------------------------------------------------------------------------------


def test_the_provided_rounding_is_that_of_the_format():
    e2m1 = F.get("e2m1")
    numbers = e2m1.codebook()
    middles = (np.sort(numbers)[:-1] + np.sort(numbers)[1:]) / 2
    x = np.concatenate([numbers, middles, middles * (1 + 1e-12), middles * (1 - 1e-12), [7.0, 1e9, -100.0]])
    np.testing.assert_array_equal(to_e2m1(x), e2m1.quantize(x))


def test_one_scale_is_a_block_of_four_bit_integers():
    rng = np.random.default_rng(3)
    for size in (2, 16, 31):
        x = rng.standard_normal((20, size)) * 2.0 ** rng.integers(-20, 20, (20, 1))
        np.testing.assert_array_equal([one_scale(row) for row in x], int4_format(size).quantize(x))
    assert not one_scale(np.zeros((2, 2))).any()


# ---- the solutions are the library's ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("up", "expected"), [(False, "mxfp4"), (True, mxfp4_format(32, "rceil"))])
def test_blocks_are_those_of_the_catalogue(up, expected):
    fmt = F.get(expected) if isinstance(expected, str) else expected
    x = captured()[GRADIENT].reshape(-1, 32).astype(np.float64)
    np.testing.assert_array_equal([mxfp4(block, up) for block in x], fmt.quantize(x))


def test_average_bits_are_those_of_the_formats():
    assert average_bits((64, 256), 4, (1, 32), 8, 0) == F.get("mxfp4").bits == 4.25
    assert average_bits((64, 256), 4, (1, 16), 8, 0) == F.get("nvfp4").bits == 4.5
    codes = F.get("mxfp4").encode(np.ones((2, 40)))
    stored = 4 * 80 + 8 * np.asarray(codes.scales).size  # what encode stores of a matrix with short last blocks
    assert average_bits((2, 40), 4, (1, 32), 8, 0) == stored / 80


def test_tiles_serve_both_passes():
    w = captured()[WEIGHT].astype(np.float64)
    tiles = round_tiles(w, 16)
    np.testing.assert_array_equal(tiles, int4_format((16, 16)).quantize(w))
    np.testing.assert_array_equal(tiles.T, round_tiles(w.T, 16))
    assert not np.array_equal(blocks_in_rows(w, 16), blocks_in_rows(w.T, 16).T)


def test_the_prediction_is_what_the_explorer_shows():
    from lplab.widgets.explorers.scale_explorer import ScaleState, result

    assert gradient_lost() == round(100 * result(ScaleState(tensor="gradient")).zeroed, 1)


# ---- other right ways ------------------------------------------------------------------------------------------------

OTHER_WAYS = {
    ("13.1", "a search for the scale, and a table"): """
        def mxfp4(block, up):
            numbers = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
            largest, scale = np.abs(block).max(), 2.0**-200
            while largest > (6 if up else np.nextafter(8, 0)) * scale:
                scale *= 2
            size = np.minimum(np.abs(block) / scale, 6)
            nearest = np.array([min(range(8), key=lambda k: (abs(numbers[k] - s), k % 2)) for s in size])
            return np.sign(block) * numbers[nearest] * scale
    """,
    ("13.2", "tile by tile"): """
        def average_bits(shape, element_bits, tile, scale_bits, tensor_bits):
            bits = tensor_bits
            for row in range(0, shape[0], tile[0]):
                for column in range(0, shape[1], tile[1]):
                    values = min(tile[0], shape[0] - row) * min(tile[1], shape[1] - column)
                    bits += scale_bits + values * element_bits
            return bits / (shape[0] * shape[1])
    """,
    ("13.3", "einsum"): """
        def product(which, along, down):
            x, w, g = along
            if which == "y":
                return np.einsum("ti,oi->to", x, w)
            return np.einsum("to,oi->ti", g, down[1]) if which == "dx" else np.einsum("to,ti->oi", down[2], down[0])
    """,
    ("13.4", "split in both directions"): """
        def round_tiles(w, size):
            def one(tile):
                scale = 2.0 ** (math.frexp(np.abs(tile).max())[1] - 3)
                return np.clip(np.round(tile / scale), -7, 7) * scale
            rows, columns = range(size, w.shape[0], size), range(size, w.shape[1], size)
            strips = [np.split(strip, columns, axis=1) for strip in np.split(w, rows)]
            return np.block([[one(tile) for tile in strip] for strip in strips])
    """,
}


@pytest.mark.parametrize(("name", "way"), OTHER_WAYS, ids=str)
def test_other_right_ways_pass(name, way):
    import textwrap

    exercise = exercises.get(name)
    source = "import math\nimport numpy as np\n" + textwrap.dedent(OTHER_WAYS[name, way])
    verdict = judge_here(exercise, Answer(source, exercise.name))
    assert verdict.passed, verdict.text


def test_a_mistake_is_told_with_the_smallest_case_and_its_reason():
    exercise = exercises.get("13.1")
    (logarithm,) = (known for known in exercise.mistakes if known.name.startswith("a logarithm"))
    source = logarithm.apply(exercise.solution)
    verdict = judge_here(exercise, Answer(source, exercise.name))
    assert verdict.ring == "boundary set" and verdict.misconception == logarithm.name
    assert "The largest magnitude is" in verdict.text and "their quotient is 7.99" in verdict.text
    (swapped,) = (known for known in exercises.get("13.3").mistakes if known.name.startswith("dW takes the x"))
    product = exercises.get("13.3")
    told = judge_here(product, Answer(swapped.apply(product.solution), product.name)).text
    assert "dW sums over the tokens" in told and swapped.name in told


# ---- what the lab says -----------------------------------------------------------------------------------------------


def test_the_reason_for_the_answer_has_the_numbers_of_the_gradient():
    told = dict(zip(*lab13.facts().columns.values(), strict=True))
    because, shown = exercise_catalogue.question("13.a").because, lab13.what_you_saw().columns["becomes zero"]
    assert f"{told['largest number of the gradient over the median']} times the median" in because
    assert f"{told['the median over a scale that makes 6 of the largest']} of the median" in because
    x = captured()[GRADIENT].astype(np.float64)
    scaled = 6 * np.abs(x) / np.abs(x).max()
    assert np.array_equal(F.get("e2m1").quantize(scaled) == 0, scaled <= 0.25) and 0.09 < (scaled > 0.25).mean() < 0.11
    assert shown[0] == pytest.approx(gradient_lost() / 100, abs=1e-3) and 0.45 < shown[1] < 0.55


def test_the_rules_part_where_the_text_says():
    assert lab13.where_the_rules_part() == (1.5, 1.75)
    assert "Up to 1.5 times a power of two, both rules find the same scale." in TEXT
    assert "everything from 1.5 to 1.75 becomes 1.5, too." in TEXT


def test_both_directions_of_blocks_are_compared_by_computing():
    told = dict(zip(*lab13.facts().columns.values(), strict=True))
    (share,) = (value for name, value in told.items() if name.startswith("gradient in MXFP4: numbers that differ"))
    assert f"In MXFP4, the direction of blocks changed {float(share.split()[0]):.0f} % of the gradient" in TEXT


def test_the_sum_of_a_block_takes_its_scales():
    stored, scales = np.array([[1.0, 3.0], [2.0, 4.0]]), np.array([0.5, 4.0])
    assert stored.prod(0).sum() * scales.prod() == (stored * scales[:, None]).prod(0).sum() == 28
    assert "1 · 2 + 3 · 4 = 14. Then multiply by both scales once, ½ · 4 · 14 = 28" in TEXT


# ---- figures of a student's function ---------------------------------------------------------------------------------


def test_both_rules_are_drawn_and_agreement_is_counted():
    title = draw_scales(solved_block).layout.meta["title"]
    blocks = block_exercise.gradient()[::2]
    changes = [np.abs(F.get("mxfp4").quantize(x)).max() / np.abs(x).max() - 1 for x in blocks]
    assert f"On average −{-100 * np.mean(changes):.2g} % rounded down" in title
    assert title.endswith("yours agrees in 256 of 256 results")
    same = int(draw_scales(always_up).layout.meta["title"].partition("agrees in ")[2].partition(" of")[0])
    assert 128 <= same < 256


def test_tiles_are_drawn_and_agreement_is_counted():
    assert draw_tiles(solved_tiles).layout.meta["title"].endswith("yours agrees in 16,384 of 16,384")
    title = draw_tiles(lambda w, size: w * 1.0).layout.meta["title"]
    assert title.startswith("Your 16 × 16 tiles: ∞ dB") and not title.endswith("16,384 of 16,384")
    assert "of shape (32,) and dtype float64: return one of shape (64, 256)" in str(
        draw_tiles(lambda w, size: w[0, :32])
    )


def test_solutions_need_no_library():
    for exercise in exercises.of_lab("13"):
        assert callable(function_of(exercise)) and "lplab" not in exercise.solution
