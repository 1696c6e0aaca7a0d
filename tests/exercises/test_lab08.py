"""Lab 08: the answer of its question, what its texts state, and the student's selection beside the library's."""

import numpy as np
import pytest

from lplab import widgets
from lplab.compression import AdaComp, adacomp_wire, local
from lplab.exercises import catalogue
from lplab.exercises.checks.judge import judge
from lplab.exercises.checks.variants import function_of
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.lab08 import draw_selection
from lplab.residue_recording import residue_recording

R = residue_recording()


def unfinished(residue, gradient, bin):
    raise NotImplementedError


def nothing(residue, gradient, bin):
    return np.zeros(len(residue))


def test_a_students_selection_is_drawn_once_it_works():
    assert "it is not written yet" in str(draw_selection(unfinished))
    assert "of one length" in str(draw_selection(lambda residue, gradient, bin: residue[:3]))
    drawn = draw_selection(function_of(catalogue.get("08.2")))
    assert isinstance(drawn, widgets.LiveFigure)
    assert drawn.layout.meta["title"] == "Yours agrees at 200 of 200 elements"
    sent = int(R.window("convolution", 30).sent[:200].sum())
    assert draw_selection(nothing).layout.meta["title"] == f"Yours agrees at {200 - sent} of 200 elements"


def test_the_question_and_its_answer():
    course = R.course("dense")
    assert catalogue.question("08.a").truth() == round(100 * float(course.share.mean()), 1) == 1.4
    assert round(float(course.sent.mean()) * 500 / course.size) == 7


@pytest.mark.parametrize("bin", [1, 7, 50, 63, 64, 500])
def test_the_solutions_together_are_adacomp(bin):
    select, pack, residues = (function_of(catalogue.get(f"08.{k}")) for k in (2, 3, 1))
    rng = np.random.default_rng(bin)
    residue, gradient = (rng.integers(-512, 513, 1000) / 256 for _ in range(2))
    residue[rng.random(1000) < 0.5], gradient[::3] = 0, 0
    found = local.adacomp_arrays(residue.astype(np.float32), gradient.astype(np.float32), AdaComp(bin), bin)
    symbols = select(residue, gradient, bin)
    assert np.flatnonzero(symbols).tolist() == found.indices.tolist()
    message = adacomp_wire.encode(found.scale, found.indices, found.negative, 1000, bin)
    assert pack(symbols, float(found.scale), bin) == message.tolist()
    scale = float(found.scale)
    rows = residues(np.stack([residue, gradient]), np.stack([np.zeros(1000), symbols]), np.array([1.0, scale]))
    np.testing.assert_allclose(rows[-1], found.residue, atol=1e-6)


def test_booleans_lists_and_nothing_are_met_with_words():
    exercise = catalogue.get("08.2")
    said = judge(exercise, Answer("def select(residue, gradient, bin):\n    return abs(residue) > 1\n", "select")).text
    assert "return floating-point numbers" in said
    said = judge(catalogue.get("08.3"), Answer("def pack(symbols, scale, bin):\n    return []\n", "pack")).text
    assert "return a list of numbers" in said


def test_a_message_may_be_an_array():
    exercise = catalogue.get("08.3")
    array = exercise.solution.replace("return scale_bytes", "return np.array(scale_bytes").rstrip() + ")\n"
    verdict = judge(exercise, Answer(array, "pack"))
    assert verdict.passed, verdict.text
