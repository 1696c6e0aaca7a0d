"""Lab 07: the answer of its question, what its texts state, and the student's functions beside the library's."""

import re

import numpy as np
import pytest
from torch.nn import functional

from lplab import claims, widgets
from lplab.claims.papers.sun_2020_radix4 import GOOD_WITHIN
from lplab.exercises.checks.variants import function_of
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.lab07 import SCALE, draw_phases, draw_scales
from lplab.exercises.lab07.phases import THRESHOLDS, VALUES, even
from lplab.exercises.lab07.thresholds import wanted
from lplab.exercises.model import exercise_catalogue
from lplab.quantizers import GRADIENT_GRIDS, Radix4, grid_effect
from lplab.quantizers.gradscale import first_scale, scales_of
from lplab.recordings import gradient_maxima, gradients_at
from lplab.training import recipes, tasks
from lplab.training.loop.gradient_projection import gradient_projection, gradients_only
from tests.exercises.in_process import judge_here as judge

LAYERS = gradients_at("transformer", 50)


def single_phase(dy, scale):
    import numpy as np

    size = 4.0 ** np.minimum((np.frexp(1.6 * dy)[1] - 1) // 2, 3)
    return np.stack([size, size])


def doubling(largest, first):
    return first * 2.0 ** np.minimum(np.arange(len(largest)), 30)


def test_students_functions_are_drawn_once_they_work():
    drawn = draw_phases(single_phase)
    assert isinstance(drawn, widgets.LiveFigure) and len(drawn.data[5].x) > 75
    drawn = draw_scales(doubling)
    assert isinstance(drawn, widgets.LiveFigure) and drawn.layout.meta["title"].startswith("Yours agrees at ")
    assert "of one length" in str(draw_scales(lambda largest, first: largest[:3]))


def test_the_question_asks_for_the_largest_scale_at_which_nothing_passes_64():
    largest = max(np.abs(x).max() for x in LAYERS.values())
    assert largest * SCALE <= 64 < 2 * largest * SCALE
    assert exercise_catalogue.question("07.a").truth() == 76.4


def test_what_the_answer_says_of_octaves():
    tops = [np.log2(np.abs(x).max()) for x in LAYERS.values()]
    assert 5.5 <= max(tops) - min(tops) < 6
    for top, x in zip(tops, LAYERS.values(), strict=True):
        assert top - np.log2(np.quantile(np.abs(x[x != 0]), 0.01)) > 8


def test_what_the_lab_says_of_int4_and_of_the_cosine():
    values = np.array(GRADIENT_GRIDS["int4"].values)
    assert (values > 32).sum() == 4 and len(values) == 7
    top = [np.mean(np.abs(x) * first_scale(np.abs(x).max()) > 32) for x in LAYERS.values()]
    assert max(top) < 0.02
    two, four = ([grid_effect(x, grid, 2.0**16) for x in LAYERS.values()] for grid in ("radix2", "radix4_even"))
    assert abs(np.mean([e.cosine for e in two]) - np.mean([e.cosine for e in four])) < 0.02
    assert np.mean([e.zeroed for e in two]) > 10 * np.mean([e.zeroed for e in four])


def test_what_the_lab_says_of_a_scale_for_each_layer():
    errors = {
        grid: np.mean([grid_effect(x, grid, first_scale(np.abs(x).max())).error for x in LAYERS.values()])
        for grid in ("radix2", "radix4_even", "radix4_mean", "luq")
    }
    assert (
        0.5 < errors["radix2"] / errors["radix4_even"] < 0.6
        and 0.5 < errors["radix4_mean"] / errors["radix4_even"] < 0.7
    )
    odd = np.mean([grid_effect(x, "radix4_odd", first_scale(np.abs(x).max())).error for x in LAYERS.values()])
    assert 0.35 < 1 - errors["radix4_mean"] / errors["radix4_even"] < 1 - errors["radix4_mean"] / odd < 0.46
    assert errors["luq"] > errors["radix2"]


def test_what_the_lab_says_of_windows_of_scales():
    worst = {
        grid: {k for k in range(6, 25) if max(grid_effect(x, grid, 2.0**k).error for x in LAYERS.values()) <= 0.5}
        for grid in ("radix2", "radix4_even", "int4")
    }
    assert worst == {"radix2": {17}, "radix4_even": set(range(11, 18)), "int4": set()}
    assert GOOD_WITHIN == 0.25, "the bits within which scales of a training count as good"


def test_what_the_lab_says_of_the_head():
    task = tasks.get("transformer")
    batch = task.data(16, 0)(0)
    two, one = (
        gradient_projection(task.model(0), gradients_only(recipes.get("int4_fp4_2020", **switches)), *batch)
        for switches in ({}, {"phases": "single"})
    )
    assert round(two["head.weight"], 2) == 0.52 and round(one["head.weight"], 2) == 1.01
    assert one["token_embedding.weight"] < two["token_embedding.weight"] < 0.4
    assert round(one["token_embedding.weight"], 2) == 0.34
    seen = []
    model = task.model(0)

    def keep(module, inputs, output):
        output.retain_grad()
        seen.append(output)

    model.head.register_forward_hook(keep)
    scores = model(batch[0])
    functional.cross_entropy(scores.flatten(0, -2), batch[1].flatten()).backward()
    largest = seen[0].grad.abs().flatten(0, -2).amax(-1).numpy()  # p − 1 of each character
    assert np.abs(np.log2(largest) + 10).max() < 0.1
    scaled = largest * first_scale(float(largest.max()))
    assert scaled.min() > 60 and scaled.max() <= 64 and max(GRADIENT_GRIDS["radix4_odd"].values) == 32
    assert re.search(r"except last +dlfloat16", str(recipes.get("int4_fp4_2020")))


def test_what_the_lab_says_of_the_ablation_and_of_octaves():
    steps, scales = (claims.row(claims.get(name))["ours"] for name in ("sun_2020_ablation", "sun_2020_gradscale"))
    assert "41 % (all 1 × 1 FP8), 50 % (reducing 1 × 1 FP8) and 57 % (two phases)" in steps
    assert "scales of the layers and of attention span 6 octaves; eleven linear layers: " in scales
    recorded = gradient_maxima()
    last = [np.log2(scales_of(recorded.of(layer)))[-1] for layer in recorded.layers]
    assert len(last) == 21 and max(last) - min(last) == 9


def test_the_given_rounding_is_the_librarys():
    points = np.concatenate([VALUES, THRESHOLDS, np.exp2(np.linspace(-12, 9, 500)), [0.0]])
    np.testing.assert_array_equal(even(points), Radix4().quantize(points))
    np.testing.assert_array_equal(even(-points), Radix4().quantize(-points))


def test_the_solution_of_gradscale_is_the_librarys_on_a_recorded_run():
    solution = function_of(exercise_catalogue.get("07.4"))
    recorded = gradient_maxima()
    for layer in recorded.layers:
        np.testing.assert_array_equal(solution(recorded.of(layer).astype(float), 1.0), scales_of(recorded.of(layer)))


@pytest.mark.parametrize("radix", [2, 4, 16])
def test_multipliers_against_a_search_over_many_numbers(radix):
    x = radix ** ((np.arange(200_000) + 0.5) / 200_000)  # log-uniform
    cs = np.linspace(1.05, radix / 1.05, 400)
    rounded = [np.where(x < radix / c, 1.0, radix) for c in cs]
    best, kept = wanted(radix)
    step = cs[1] - cs[0]
    assert abs(cs[np.argmin([np.mean((q - x) ** 2) for q in rounded])] - best) <= step
    assert abs(cs[np.argmin([abs(np.mean(q - x)) for q in rounded])] - kept) <= step


def test_a_search_to_six_digits_passes_and_three_digits_do_not():
    exercise = exercise_catalogue.get("07.3")
    search = """
def multipliers(radix):
    low, high = 1.0, float(radix)
    for _ in range(60):
        t = (low + high) / 2
        kept = np.log(t) + radix * np.log(radix / t)
        low, high = (t, high) if kept > radix - 1 else (low, t)
    return 2 * radix / (1 + radix), round(radix / t, 7)
"""
    verdict = judge(exercise, Answer("import numpy as np\n" + search, "multipliers"))
    assert verdict.passed, verdict.text
    verdict = judge(exercise, Answer("import numpy as np\n" + search.replace("t, 7)", "t, 3)"), "multipliers"))
    assert not verdict.passed and "1.71241" in verdict.text
    six = "def multipliers(radix):\n    return float(f'{FIRST:.6g}'), float(f'{SECOND:.6g}')\n"
    six = six.replace("FIRST", "2 * radix / (1 + radix)").replace("SECOND", "np.e * radix ** (-1 / (radix - 1))")
    assert judge(exercise, Answer("import numpy as np\n" + six, "multipliers")).passed
    verdict = judge(exercise, Answer("import numpy as np\n" + six.replace(".6g", ".5g"), "multipliers"))
    assert not verdict.passed and "is 1.33333, yours is 1.3333." in verdict.text


def test_scales_may_come_as_a_list():
    exercise = exercise_catalogue.get("07.4")
    lists = exercise.solution.replace("    return scales\n", "    return [float(scale) for scale in scales]\n")
    assert lists != exercise.solution and judge(exercise, Answer(lists, "grad_scale")).passed
    assert isinstance(draw_scales(lambda largest, first: [first] * len(largest)), widgets.LiveFigure)
    words = "def grad_scale(largest, first):\n    return ['a'] * len(largest)\n"
    assert "return a numpy array of shape (3,)" in judge(exercise, Answer(words, "grad_scale")).text


def test_an_error_is_not_compared_with_a_legal_way():
    verdict = judge(exercise_catalogue.get("07.1"), Answer("def radix4(x):\n    return x + 'a'\n", "radix4"))
    assert not verdict.passed and "legal way" not in verdict.text and "raises" in verdict.text


def test_an_answer_that_overflows_before_it_saturates_is_shown_where():
    """1.6·x is infinite at the top of float64, where np.frexp has no exponent: 0.25 came out, and passed."""
    exercise = exercise_catalogue.get("07.1")
    late = exercise.solution.replace("np.clip(x, -64, 64)", "x").replace(
        "4.0**exponent", "4.0**np.minimum(exponent, 3)"
    )
    verdict = judge(exercise, Answer(late, "radix4"))
    assert not verdict.passed
    assert "x = 1.7e+308. Yours 0.25 (0 011), expected 64 (0 111)." in verdict.text
    assert "overflows to ∞" in verdict.text and verdict.misconception.startswith("1.6·x is taken before saturating")
    for kind in (np.float64, np.float32):
        x = np.array([np.finfo(kind).min, np.finfo(kind).max])
        np.testing.assert_array_equal(function_of(exercise)(x), Radix4().quantize(x))


def test_two_phases_may_come_as_a_tuple_and_must_be_two():
    exercise = exercise_catalogue.get("07.2")
    tuple_ = exercise.solution.replace("return np.stack([even(scaled), even(2 * scaled) / 2]) / scale",
                                       "return even(scaled) / scale, even(2 * scaled) / 2 / scale")  # fmt: skip
    assert tuple_ != exercise.solution
    assert judge(exercise, Answer(tuple_, "two_phase")).passed
    one = exercise.solution.replace(
        "return np.stack([even(scaled), even(2 * scaled) / 2]) / scale", "return even(scaled)"
    )
    assert "return two arrays of shape (1,), for dx and for dW" in judge(exercise, Answer(one, "two_phase")).text
