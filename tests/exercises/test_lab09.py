"""Lab 09: the answer of its question, what its texts state, and the student's selection beside the library's."""

import numpy as np
import pytest

from lplab import claims, datasets, widgets
from lplab.compression import AdaComp, adacomp
from lplab.compression.wire import adacomp_wire
from lplab.exercises.checks.variants import function_of
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.lab09 import draw_selection
from lplab.exercises.model import exercise_catalogue
from lplab.parallel.instrumented_adacomp import MOMENTUM
from lplab.recordings.adacomp_runs import adacomp_recording
from tests.exercises.in_process import judge_here as judge

R = adacomp_recording()


def solved(residual, gradient, bin):
    total = residual + gradient
    limits = np.repeat(np.maximum.reduceat(np.abs(total), np.arange(0, len(total), bin)), bin)[: len(total)]
    return np.where((np.abs(total + gradient) >= limits) & (limits > 0), np.sign(total), 0.0)


def nothing(residual, gradient, bin):
    return np.zeros(len(residual))


def test_a_students_selection_is_drawn_once_it_works():
    short = str(draw_selection(lambda residual, gradient, bin: residual[:3]))
    assert "returns an array of shape (3,); one of shape (200,) is needed" in short
    drawn = draw_selection(solved)
    assert isinstance(drawn, widgets.LiveFigure)
    assert drawn.layout.meta["title"] == "Yours agrees at 200 of 200 elements"
    sent = int(R.window("convolution", 237).sent[:200].sum())
    assert draw_selection(nothing).layout.meta["title"] == f"Yours agrees at {200 - sent} of 200 elements"


def test_the_question_and_its_answer():
    course = R.history("dense")
    assert exercise_catalogue.question("09.a").truth() == round(100 * float(course.share.mean()), 1) == 1.4
    assert round(float(course.sent.mean()) * 500 / course.size) == 7


@pytest.mark.parametrize("bin", [1, 7, 50, 63, 64, 500])
def test_the_solutions_together_are_adacomp(bin):
    select, pack, residuals = (function_of(exercise_catalogue.get(f"09.{k}")) for k in (2, 3, 1))
    rng = np.random.default_rng(bin)
    residual, gradient = (rng.integers(-512, 513, 1000) / 256 for _ in range(2))
    residual[rng.random(1000) < 0.5], gradient[::3] = 0, 0
    found = adacomp.adacomp_select_arrays(residual.astype(np.float32), gradient.astype(np.float32), AdaComp(bin), bin)
    symbols = select(residual, gradient, bin)
    assert np.flatnonzero(symbols).tolist() == found.indices.tolist()
    message = adacomp_wire.encode(found.scale, found.indices, found.negative, 1000, bin)
    assert pack(symbols, float(found.scale), bin) == message.tolist()
    scale = float(found.scale)
    rows = residuals(np.stack([residual, gradient]), np.stack([np.zeros(1000), symbols]), np.array([1.0, scale]))
    np.testing.assert_allclose(rows[-1], found.residual, atol=1e-6)


def test_booleans_lists_and_nothing_are_met_with_words():
    exercise = exercise_catalogue.get("09.2")
    said = judge(exercise, Answer("def select(residual, gradient, bin):\n    return residual > 1\n", "select")).text
    assert "return floating-point numbers" in said
    said = judge(exercise_catalogue.get("09.3"), Answer("def pack(symbols, scale, bin):\n    return []\n", "pack")).text
    assert "return a list of numbers" in said


def test_a_message_may_be_an_array():
    exercise = exercise_catalogue.get("09.3")
    array = exercise.solution.replace("return scale_bytes", "return np.array(scale_bytes").rstrip() + ")\n"
    verdict = judge(exercise, Answer(array, "pack"))
    assert verdict.passed, verdict.text


def test_rows_that_are_collected_in_a_list_are_right():
    code = """
import numpy as np


def residuals(gradients, symbols, scales):
    r, out = np.zeros(gradients.shape[1]), []
    for g, q, s in zip(gradients, symbols, scales):
        r = r + g - s * q
        out.append(r)
    return np.array(out)
"""
    verdict = judge(exercise_catalogue.get("09.1"), Answer(code, "residuals"))
    assert verdict.passed, verdict.text


def test_what_differs_in_a_message_is_shown():
    right = exercise_catalogue.get("09.3").solution
    swapped = right.replace("for k in range(width)]", "for k in reversed(range(width))]")
    said = judge(exercise_catalogue.get("09.3"), Answer(swapped, "pack")).text
    yours, expected = said.split("Yours ")[1].split("). ")[0].split("), expected ")
    assert yours != expected and "from number" in said


# ---- what the lab's text says ----------------------------------------------------------------------------------------


def whole(bin: int | None = None, factor: float = 2.0) -> dict[str, float]:
    """A run in four numbers: one of how many is sent, how many agree, loss at the end, length of residuals."""
    each = [R.history(layer, bin, factor) for layer in R.layers]
    sent, agreeing = sum(float(c.sent.mean()) for c in each), sum(float(c.agreeing.mean()) for c in each)
    held = float(np.mean([c.residual_ratio.mean() for c in each]))
    return {"one of": sum(R.sizes) / sent, "agree": agreeing / sent, "loss": last(R.losses(bin, factor)), "held": held}


def last(losses: np.ndarray) -> float:
    return float(losses[-20:].mean())


def test_what_it_says_of_rates():
    convolution, dense = R.history("convolution"), R.history("dense")
    assert round(convolution.compression_ratios().paper) == 65 and round(dense.compression_ratios().paper) == 139
    assert round(float(convolution.sent.mean()) * 50 / convolution.size) == 3
    assert round(float(dense.sent.mean()) * 500 / dense.size) == 7
    for c in (convolution, dense):
        assert c.compression_ratios().wire == pytest.approx(c.compression_ratios().payload / 2)
        assert c.compression_ratios(learners=64).wire == pytest.approx(c.compression_ratios().payload / 32)


def test_what_it_says_of_soft_and_hard():
    pairs = ((None, 50), (5000, 500))
    for soft, hard in ((whole(a, 2.0), whole(b, 1.0)) for a, b in pairs):
        assert 0.8 < hard["one of"] / soft["one of"] < 1.1, "the hard one sends a little more"
        assert soft["loss"] < hard["loss"] / 2 and 0.85 < soft["held"] / hard["held"] <= 1
        assert soft["agree"] > 0.98 and 0.66 < hard["agree"] < 0.77
    longest = max(R.history(layer, None, 1.0).residual_ratio[-10:].mean() for layer in R.layers)
    assert longest < 20, "residuals without the soft threshold stay some gradients long"
    assert whole(None, 1.0)["loss"] < 1


def test_what_it_says_of_residuals():
    assert 0.45 < R.other("top 1 %, no residue")[1] < 0.55 and 0.1 < R.other("top 1 %")[1] < 0.14


def test_what_it_says_of_positions():
    bits = {bin: 32 / R.history("convolution", bin).compression_ratios().payload for bin in (1, 5, 20, 50, 100)}
    assert bits[1] > 1.6 and bits[5] > 1.6 > bits[20] and bits[100] > bits[50]
    assert R.history("convolution", 100).share.mean() < R.history("convolution", 50).share.mean()


def test_what_it_says_of_the_entropy_bound():
    """One element a bin of 50: six bits for its place and one for its sign can be decoded, and pass the bound."""
    hard = R.history("convolution", 50, 1.0)
    assert float(hard.sent.mean()) == pytest.approx(hard.size / 50, rel=0.03)
    assert 32 * hard.size / (32 + 7 * -(-hard.size // 50)) > hard.compression_ratios().bound


def test_what_it_says_of_bin_1():
    assert 0.34 < 1 - R.history("convolution", 1).share.mean() < 0.4


def test_what_it_says_of_one_threshold_for_all():
    c = datasets.captured()
    layers = [np.abs(c[name]).ravel() for name in c.select(model="transformer", step=50, role="weight_gradient")]
    sizes = np.sort(np.concatenate(layers))
    above = [int((layer >= sizes[-len(sizes) // 100]).sum()) for layer in layers]
    assert above.count(0) == 3 and 0.085 < above[-1] / layers[-1].size < 0.095


def test_what_it_says_of_the_claims():
    whole_claim = claims.row(claims.get("adacomp_2018"))
    assert all(found["holds"] for found in whole_claim["findings"]), (
        "rates of all three, accuracy of the two for pictures"
    )
    assert whole_claim["badge"].endswith("text is behind after 500 steps") and whole_claim["verdict"] == "shown in part"
    late = whole_claim["explained"][-1]["sentence"]
    assert late.startswith("The LSTM's training loss is behind the uncompressed one") and "after 500" in late
    assert "waits for about 131 steps" in whole_claim["explained"][-1]["sentence"]
    selection = claims.row(claims.get("adacomp_2018_selection"))
    assert all(found["holds"] for found in selection["findings"]) and "by plain SGD" in selection["experiment"]
    equal = [
        found for found in selection["explained"] if "0.30 (0.30–0.34) and 0.28 (0.28–0.32) bits" in found["sentence"]
    ]
    assert len(equal) == 1 and equal[0]["holds"], "at equal bytes, without momentum, both are equally good"
    assert MOMENTUM == 0.9, "repeats a message 1 + 0.9 + 0.81 + ... = ten times"
