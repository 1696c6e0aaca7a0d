"""Lab 15: the solutions are the library's; other right ways pass; messages; students' functions in the figures."""

import linecache
import textwrap

import numpy as np
import pytest

from lplab import quantizers, widgets
from lplab.exercises import lab15
from lplab.exercises.checks.variants import function_of
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.lab15 import EXERCISES, file_bits, gptq_step, growth, pack_ternary, rotate, round_cache
from lplab.exercises.model import exercise_catalogue
from tests.exercises.in_process import judge_here


def solution(number):
    return function_of(EXERCISES[number - 1])


def verdict_on(name, source):
    exercise = exercise_catalogue.get(name)
    return judge_here(exercise, Answer("import math\nimport numpy as np\n" + textwrap.dedent(source), exercise.name))


# ---- the solutions are the library's ---------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [3, 8])
def test_steps_over_all_columns_are_gptq(bits):
    rows, x = gptq_step.real_rows()
    h, w = quantizers.input_hessian(x), rows[0]
    for j in range(w.size):
        w = solution(1)(w, j, h, float(np.abs(rows[0]).max()) / (2 ** (bits - 1) - 1))
    grid = quantizers.WeightGrid(bits, None, "symmetric")
    np.testing.assert_allclose(w, quantizers.gptq_round(rows[:1], h, grid, damping=0)[0], atol=1e-12)


def test_smoothing_takes_the_librarys_factors_and_keeps_the_product():
    x, w = np.random.default_rng(15).normal(size=(2, 6, 5)) * [1, 100, 1, 0, 0.1]
    for alpha in (0, 0.4, 1):
        factors = quantizers.smoothing_factors(np.abs(x).max(0), np.abs(w).max(0), alpha)
        smoothed, weights = solution(2)(x, w, alpha)
        np.testing.assert_allclose((smoothed * factors, weights / factors), (x, w), rtol=1e-14)
        np.testing.assert_allclose(smoothed @ weights.T, x @ w.T, rtol=1e-12)


def test_what_fills_no_group_is_what_the_librarys_cache_keeps():
    kivi = quantizers.KIVI(bits=2, group=32, window=0)
    for tokens in (1, 31, 32, 100):
        _, keys, values = round_cache.recorded()[0]
        rounded, _ = solution(3)(keys[:tokens], values[:tokens], 32)
        stays = (rounded == keys[:tokens]).all(axis=1)
        assert stays[kivi.ready("channel", tokens) :].all() and not stays[: kivi.ready("channel", tokens)].any()


def test_a_rotation_is_the_librarys_and_the_mean_is_taken_out_as_there():
    embedding, gain, w_in, w_out, q, _ = rotate.larger()[0]
    for layer_norm in (False, True):
        written = (
            (quantizers.without_mean(embedding.T).T, quantizers.without_mean(w_out))
            if layer_norm
            else (embedding, w_out)
        )
        expected = (
            quantizers.rotate_reader(written[0], q),
            quantizers.rotate_reader(w_in * gain, q),
            quantizers.rotate_writer(written[1], q),
        )
        for ours, theirs in zip(solution(4)(embedding, gain, w_in, w_out, q, layer_norm), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-9)


def test_layer_norm_without_its_mean_taken_out_computes_something_else():
    args = rotate.larger()[1]
    finding = rotate.computes_the_same([args], [solution(4)(*args[:5], False)])
    assert finding and finding.sentence.startswith("A larger model computes something else")
    assert rotate.computes_the_same([args], [solution(4)(*args)]) is None


def test_bits_are_those_of_the_grid_and_the_model_has_its_size():
    assert sum(rows * columns for rows, columns, _ in file_bits.SMOLLM2) == 134_515_008
    for bits, group in ((4, 64), (2, 32)):
        grid = quantizers.WeightGrid(bits, group=group)
        rounded, whole = solution(5)(((8, 192, True), (4, 192, False)), bits, group, 16, bits)
        assert rounded == grid.bits_per_weight(192) and whole == pytest.approx((2 * rounded + 16) / 3)


def test_packed_weights_take_what_the_table_of_formats_says_and_come_back():
    w = np.random.default_rng(3).normal(size=40)
    scale, packed = solution(6)(w)
    assert 8 * packed.size / w.size == quantizers.STORED_WEIGHTS["ternary, packed"].bits_per_weight
    levels = np.clip(np.round(w / np.abs(w).mean()), -1, 1)
    np.testing.assert_allclose(pack_ternary.unpacked(scale, packed, w.size), levels * np.abs(w).mean())


def test_rounding_costs_more_after_longer_trainings():
    for way in growth.WAYS.values():
        for bits in growth.BITS:
            steps, plain, rounded = growth.recorded(way, bits)
            exponent, predicted, best = solution(7)(steps, plain, rounded)
            assert exponent > 0.5 and predicted > (rounded - plain).max() and best == steps.max()


def test_solutions_need_no_library():
    for exercise in EXERCISES:
        assert "lplab" not in exercise.solution and exercise.goal.startswith("Goal ")


# ---- other right ways, and what is said of wrong ones ----------------------------------------------------------------

OTHER_WAYS = {
    ("15.1", "the inverse of the part that is left"): """
        def gptq_step(w, j, h, step):
            new, inverse = w.copy(), np.linalg.inv(h[j:, j:])
            new[j] = np.rint(w[j] / step) * step
            new[j:] -= (w[j] - new[j]) / inverse[0, 0] * inverse[0] * (np.arange(len(w) - j) > 0)
            return new
    """,
    ("15.1", "a Cholesky factor, as in the paper"): """
        def gptq_step(w, j, h, step):
            u = np.linalg.cholesky(np.linalg.inv(h)).T
            q = step * round(w[j] / step)
            return np.concatenate([w[:j], [q], w[j + 1 :] - (w[j] - q) / u[j, j] * u[j, j + 1 :]])
    """,
    ("15.2", "input by input"): """
        def smooth(x, w, alpha):
            x, w = x.copy(), w.copy()
            for j in range(x.shape[1]):
                most = [max(1e-5, *map(abs, m[:, j]), 0) for m in (x, w)]
                s = most[0] ** alpha * most[1] ** (alpha - 1)
                x[:, j] /= s
                w[:, j] *= s
            return [x, w]
    """,
    ("15.3", "reshaped into groups"): """
        def two_bits(x):
            low, step = x.min(axis=1, keepdims=True), np.ptp(x, axis=1, keepdims=True) / 3
            return low + step * np.round((x - low) / np.where(step > 0, step, 1))

        def round_cache(keys, values, group):
            n = len(keys) // group * group
            turned = keys[:n].T.reshape(-1, group)
            whole = two_bits(turned).reshape(-1, n).T if n else keys[:0]
            return np.concatenate([whole, keys[n:]]), two_bits(values.reshape(-1, group)).reshape(values.shape)
    """,
    ("15.4", "a matrix that takes the mean out"): """
        def rotate(embedding, gain, w_in, w_out, q, layer_norm):
            n = len(q)
            center = np.eye(n) - np.ones((n, n)) / n if layer_norm else np.eye(n)
            return embedding @ center @ q, w_in @ np.diag(gain) @ q, (center @ q).T @ w_out
    """,
    ("15.5", "row by row"): """
        def file_bits(tensors, bits, group, scale_bits, zero_bits):
            row = lambda n: n * bits + (n // group + (n % group > 0)) * (scale_bits + zero_bits)
            own = sum(r * row(n) for r, n, k in tensors if k)
            count = [sum(r * n for r, n, k in tensors if k == which) for which in (True, False)]
            return own / count[0], (own + 16 * count[1]) / sum(count)
    """,
    ("15.6", "weight by weight"): """
        def pack_ternary(w):
            scale, packed = sum(map(abs, w)) / len(w), []
            for start in range(0, len(w), 5):
                byte = 0
                for k in range(5):
                    level = max(-1, min(1, round(w[start + k] / scale))) if start + k < len(w) else 0
                    byte += (level + 1) * 3**k
                packed.append(byte)
            return scale, packed
    """,
    ("15.7", "normal equations, logarithms of base 10"): """
        def growth(steps, plain, rounded):
            pairs = [(math.log10(s), math.log10(r - p)) for s, p, r in zip(steps, plain, rounded) if r > p]
            x, y = np.array(pairs).T
            slope = ((x - x.mean()) * y).sum() / ((x - x.mean()) ** 2).sum()
            ahead = 10 ** (y.mean() + slope * (math.log10(2 * max(steps)) - x.mean()))
            return slope, ahead, min(zip(rounded, steps))[1]
    """,
}


@pytest.mark.parametrize("way", OTHER_WAYS, ids=": ".join)
def test_other_right_ways_pass(way):
    verdict = verdict_on(way[0], OTHER_WAYS[way])
    assert verdict.passed, verdict.text


@pytest.mark.parametrize(
    ("name", "source", "said"),
    [
        (
            "15.2",
            "def smooth(x, w, alpha):\n    return x / (abs(x).max(0) ** alpha / abs(w).max(0) ** (1 - alpha))\n",
            "returns an array of shape (1, 2) and dtype float64: return x of shape (1, 2) and w of shape (1, 2)",
        ),
        (
            "15.3",
            "def round_cache(keys, values, group):\n    return keys.copy(), values.copy()\n",
            "Yours (1.25, 400, 5) in row 1 of keys, expected (1, 400, 5) in row 1 of keys",
        ),
        (
            "15.6",
            "def pack_ternary(w):\n    return abs(w).mean(), np.sign(w)\n",
            "returns −1 among its bytes: a byte is a whole number from 0 to 255",
        ),
        (
            "15.7",
            "def growth(steps, plain, rounded):\n    fit = np.polyfit(steps, rounded - plain, 1)\n"
            "    return fit[0], np.polyval(fit, 2 * max(steps)), steps[rounded.argmin()]\n",
            "Your answers coincide with a known mistake: a line through the costs themselves, without logarithms",
        ),
    ],
)
def test_a_wrong_answer_is_told_in_its_own_words(name, source, said):
    verdict = verdict_on(name, source)
    assert verdict.status == "failed" and said in verdict.text, verdict.text


def test_numbers_that_differ_by_rounding_are_shown_without_its_noise():
    text = verdict_on("15.7", "def growth(steps, plain, rounded):\n    return 1, 0.4, 400\n").text
    assert "Yours (1, 0.4, 400), expected (1, 0.8, 400)" in text


# ---- figures of a student's function ---------------------------------------------------------------------------------

FIGURES = ("columns", "alphas", "axes", "rotation", "file_bits", "ternary", "growth")


@pytest.mark.parametrize("number", range(1, 8))
def test_students_functions_are_drawn_once_they_work(number):
    exercise, draw = EXERCISES[number - 1], getattr(lab15, f"draw_{FIGURES[number - 1]}")
    drawn = draw(_named(exercise.solution, exercise.name))
    assert isinstance(drawn, widgets.LiveFigure)
    agrees, of = drawn.layout.meta["title"].rpartition("yours agrees at ")[2].split(" of ")
    assert agrees == of and int(of) >= 6


def test_axes_that_are_exchanged_are_drawn_as_crosses():
    exercise = EXERCISES[2]
    exchanged = next(each for each in exercise.mistakes if each.name.startswith("the axes are exchanged"))
    drawn = lab15.draw_axes(_named(exchanged.apply(exercise.solution), exercise.name))
    assert drawn.layout.meta["title"].endswith("yours agrees at 0 of 27")


def _named(source, name):
    """A function whose source can be read, as a notebook's can."""
    file = f"<lab15 {hash(source)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space = {}
    exec(compile(source, file, "exec"), space)
    return space[name]


# ---- what the lab says of the figures --------------------------------------------------------------------------------


def test_gptq_leaves_half_of_the_error_of_rounding_to_nearest():
    nearest, gptq = (gptq_step.error(gptq_step.states(name)[-1]) for name in gptq_step.NAMES)
    assert gptq < 0.5 * nearest


def test_with_layer_norm_an_error_stays_however_many_bits_the_inputs_have():
    plain, rotated, wrong = rotate.library_errors().values()
    assert (rotated < 0.7 * plain).all() and wrong[-1] > 5 * rotated[-1]


def test_small_groups_of_3_bits_take_more_than_large_ones_of_4():
    whole, four, three = file_bits.library_bits().values()
    assert three[0] > four[-1] and (whole > four + 2).all()


def test_about_half_of_the_weights_is_lost_with_three_levels():
    errors = np.concatenate(list(pack_ternary.expected_errors().values()))
    assert errors.min() > 45 and errors.max() < 60


def test_keys_by_channel_and_values_by_token_are_best_on_average():
    errors = {name: each.mean() for name, each in round_cache.library_errors().items()}
    assert min(errors, key=errors.get) == "keys by channel, values by token"
