"""Lab 06: the answer of its question, the student's functions beside the library's, and agreement with PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lplab import quantizers, widgets
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.lab06 import delayed_table, draw_biases, draw_delayed, draw_retuned, retuned_net
from lplab.exercises.lab06.best_bias import best_bias
from lplab.exercises.lab06.delayed_scales import DELAYED, SPIKE, delayed_scales
from lplab.exercises.lab06.retune import RETUNE, close_enough, retune, retune_cases
from lplab.exercises.model import exercise_catalogue
from tests.exercises.in_process import judge_here as judge


def usual_bias(x, exponent_bits, mantissa_bits):
    return 7, 0.0


def always_one(amax, length, largest, margin):
    return np.ones(len(amax))


def too_short(amax, length, largest, margin):
    return np.ones(3)


def one_channel(batches):
    return np.zeros(2), np.ones(2)


def nothing_new(batches):
    return np.zeros(batches[0].shape[1]), np.ones(batches[0].shape[1])


def test_three_quarters_of_the_gradient_become_zero():
    assert exercise_catalogue.question("06.a").truth() == 72.9


def test_biases_are_drawn_once_they_are_there():
    right, wrong = draw_biases(best_bias), draw_biases(usual_bias)
    assert isinstance(right, widgets.LiveFigure) and right.layout.meta["title"].endswith("19 of 19 as the library")
    assert not wrong.layout.meta["title"].endswith("19 of 19 as the library")


def test_scales_are_drawn_once_they_are_there():
    assert "it returns 3 scales for 400 steps" in str(draw_delayed(too_short))
    right, wrong = draw_delayed(delayed_scales), draw_delayed(always_one)
    assert right.figure.layout.meta["title"].endswith("yours agrees in 400")
    assert wrong.figure.layout.meta["title"].endswith("yours agrees in 0")
    one = "1 of 400 steps is clipped. It lies less than 0.1 octaves beyond the end."
    for length, margin, start in (
        (16, 2, one),
        (64, 1, "0 of 400 steps are clipped. In the other"),
        (1, 0, "205 of 400"),
    ):
        right.controls["length"].value, right.controls["margin"].value = length, margin
        assert right.summary.value.startswith(start)
        assert right.figure.layout.meta["title"].endswith("yours agrees in 400")
    right.copy_button.click()
    known = {"quantizers": quantizers}
    exec(right._control_group.clipboard["text"], known)
    assert known["history"].values.maxlen == 1


def test_a_margin_of_an_octave_cures_most_clipping():
    rows = {row[:2]: row[2:] for row in delayed_table((1, 16, 64), (0, 1))}
    clipped = {key: count for key, (count, _, _) in rows.items()}
    assert clipped[1, 0] > 150 > 50 > clipped[16, 0] > 10 > clipped[1, 1] > clipped[16, 1] == 1
    assert (clipped[16, 0], clipped[64, 0], clipped[64, 1]) == (37, 9, 0)
    assert round(rows[1, 0][1], 1) == 4.2 and rows[64, 1][1] == 0, "octaves beyond the end"


def test_a_spike_is_clipped_and_remembered():
    scales = delayed_scales(SPIKE, 3, 1.0, 0)
    assert (scales < SPIKE).nonzero()[0].tolist() == [3] and scales[4:7].tolist() == [64.0] * 3 and scales[7] == 1


@pytest.mark.parametrize("batches", [case[0] for case in retune_cases()], ids=lambda b: f"{len(b)} of {b[0].shape}")
def test_re_tuned_statistics_are_those_of_pytorch(batches):
    norm = torch.nn.BatchNorm2d(batches[0].shape[1], momentum=None, dtype=torch.float64)
    for x in batches:
        norm(torch.from_numpy(x))
    mean, variance = retune(batches)
    np.testing.assert_allclose(norm.running_mean.numpy(), mean, rtol=1e-12)
    np.testing.assert_allclose(norm.running_var.numpy(), variance, rtol=1e-7, atol=1e-12)


def test_other_ways_to_the_same_statistics_pass():
    for (batches,) in retune_cases():
        flat = [x.transpose(1, 0, 2, 3).reshape(x.shape[1], -1) for x in batches]
        means = sum(f.mean(1) for f in flat) / len(flat)
        squares = sum(((f**2).sum(1) - f.shape[1] * f.mean(1) ** 2) / (f.shape[1] - 1) for f in flat) / len(flat)
        assert close_enough((batches,), np.stack([means, squares])) == ""
    assert "returns parts of different shapes" in RETUNE.form.problem((batches,), (np.zeros(2), np.zeros(3)))


@pytest.mark.slow
def test_a_network_is_tuned_by_a_function_as_by_the_library(monkeypatch):
    monkeypatch.setattr(retuned_net, "STEPS", 30)
    monkeypatch.setattr(retuned_net, "RETRAIN_STEPS", 3)
    monkeypatch.setattr(retuned_net, "FORMATS", {"E3M2": "e3m2"})
    retuned_net.trained.cache_clear()
    try:
        for function, agreed in ((retune, 1), (nothing_new, 0)):
            run = draw_retuned(function)
            assert run.figure.layout.meta["title"] == "Nothing yet"
            run.start()
            run.wait(120)
            assert run.state == "finished" and len(run.result()) == 2, run.error_line.value
            assert run.figure.layout.meta["title"].endswith(f"yours agrees in {agreed} of 1")
        run = draw_retuned(one_channel)
        run.start()
        run.wait(120)
        assert run.state == "ready" and "it does not return a mean and a variance" in run.status.value
    finally:
        retuned_net.trained.cache_clear()


TEXTBOOK = """import numpy as np
def best_bias(x, e, m):
    size = np.abs(x[x != 0])
    bias = int(np.floor(2**e - 1 - np.log2(size.max() / (2 - 2.0**-m))))
    return bias, np.mean(size <= 2.0 ** (-bias - m))
"""


@pytest.mark.parametrize(("old", "new", "known"), [
    ("x[", "x[", "a logarithm, which rounds away what is too much"),
    ("e - 1", "e - 2", "the uppermost exponent is reserved, as IEEE does"),
    ("size <= 2.0 **", "size < 2.0 **", "a tie goes up to the smallest number"),
])  # fmt: skip
def test_a_logarithm_is_told_why_it_fails_and_hides_no_other_mistake(old, new, known):
    verdict = judge(exercise_catalogue.get("06.1"), Answer(TEXTBOOK.replace(old, new), "best_bias"))
    assert verdict.misconception == known, verdict.text
    if old == new:
        assert verdict.ring == "properties" and "log2 rounds the step away" in verdict.text
        assert (
            "one rounding step above 1.7053025658242404e−12 (1.875 × 2⁻⁴⁰), the largest number of bias 55"
            in verdict.text
        )


def test_a_list_of_scales_will_do():
    source = DELAYED.solution.replace("return scales", "return scales.tolist()")
    assert judge(DELAYED, Answer(source, "delayed_scales")).passed
