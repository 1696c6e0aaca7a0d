"""What lab 10 says in words, the answers against the library, and the recorded trainings reproduced."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from lplab import widgets
from lplab.claims import claim_catalogue as claims
from lplab.compression import Context, ScaleCom, exchange
from lplab.compression.layer_info import LayerInfo
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.lab10 import draw_choice, draw_similarity, sum_of_own_choices
from lplab.exercises.lab10.leaders_choice import gradients, leaders_choice
from lplab.exercises.lab10.next_memory import next_memory
from lplab.exercises.lab10.similarity import residuals, similarity
from lplab.exercises.model import exercise_catalogue
from lplab.exercises.pages import page
from lplab.labs import lab10
from lplab.parallel import cosine_distance, hamming_distance
from lplab.recordings import BETAS, CHUNKS, LEARNERS, LEARNING_RATES, LearnerSetting, many_learners
from tests.exercises.in_process import judge_here as judge

DATA = Path(__file__).parents[2] / "data"
LAB = DATA.parent / "labs/10_many_learners_one_choice.ipynb"


def run(kind, learners=64, chunk=112, beta=1.0, rate=0.1):
    return many_learners(LearnerSetting(kind, learners, chunk if kind != "dense" else 1, beta, rate))


# ---- the words ---------------------------------------------------------------------------------------------------


def test_what_the_lab_says_of_the_sum():
    own, leader = run("topk"), run("scalecom")
    assert round(100 * float(own.union.mean()), 1) == 23.0
    assert round(float(own.union.mean() / own.density.mean())) == 26
    assert sum_of_own_choices() == 22.1, "at the learning rate that trains the network well"
    assert round(own.sent_bytes / leader.sent_bytes) == 28
    wide, dense = run("topk", chunk=25), run("dense")
    assert round(wide.sent_bytes / dense.sent_bytes, 1) == 2.6
    per_other = {run("topk", n).sent_bytes / (n - 1) for n in LEARNERS[1:]}
    assert len(per_other) == 1, "grows with n − 1"
    assert run("scalecom").sent_bytes < 1.13 * run("scalecom", 8).sent_bytes


def test_the_leaders_choice_is_constant_and_own_choices_lie_below_the_formula():
    for chunk in CHUNKS:
        for rate in LEARNING_RATES:
            shares = [run("scalecom", n, chunk, beta, rate).union for n in LEARNERS for beta in BETAS]
            assert len({float(s) for share in shares for s in share}) == 1
            for n in LEARNERS[1:]:
                own = run("topk", n, chunk, rate=rate)
                assert own.density.mean() < own.union.mean() < 1 - (1 - own.density.mean()) ** n


def test_what_the_lab_says_of_the_leader_and_the_filter():
    assert 0.70 < run("scalecom").missed.mean() < 0.80 and run("topk").missed.mean() > 0.95
    assert run("dense").test_error < run("scalecom").test_error < run("topk").test_error
    plain, torn = (float(run("scalecom", rate=rate).cosine[-1]) for rate in LEARNING_RATES)
    assert round(plain, 2) == 0.25 and torn > 0.8
    step60 = 9
    assert run("scalecom", beta=0.1, rate=1.0).cosine[step60] < 0.25 < 0.7 < run("scalecom", rate=1.0).cosine[step60]
    for rate in LEARNING_RATES:
        assert run("scalecom", beta=0.1, rate=rate).test_error > run("scalecom", rate=rate).test_error
    assert 120 * run("scalecom").density[0] == pytest.approx(1, abs=0.1), "an element is sent about once"


def test_directions_come_together_and_largest_places_hardly_do():
    pytest.importorskip("torch")
    m = residuals()
    pairs = similarity(m[:, 0], m[:, 1], 12)
    assert pairs[2, 0] > 1 and pairs[-10:, 0].mean() < 0.3 < 0.8 < pairs[-10:, 1].mean()


def test_dense_training_fails_where_the_rate_is_too_large_for_the_batch():
    errors = [run("dense", n, rate=1.0).test_error for n in LEARNERS]
    assert min(errors[:3]) > 0.8 and max(errors[3:]) < 0.05


def test_biases_are_two_hundred_and_sixty_six():
    torch = pytest.importorskip("torch")
    from lplab.training import tasks

    model = tasks.get("mlp").model(0)
    assert sum(p.numel() for name, p in model.named_parameters() if name.endswith("bias")) == 266
    assert not any(isinstance(m, torch.nn.modules.batchnorm._BatchNorm) for m in model.modules())


def test_with_momentum_scalecom_falls_behind():
    pytest.importorskip("torch")
    from lplab.parallel import RunSettings, SimulatedRun

    def loss(compressor, **options):
        settings = RunSettings("mlp", compressor, learners=8, steps=60, batch=8, **options)
        return [report["loss"] for report in SimulatedRun(settings, "stacked") if "loss" in report][-1]

    plain, bursts = {"lr": 0.5, "momentum": 0.0}, {"lr": 0.1, "momentum": 0.9}
    behind = [loss("scalecom:chunk=112", **how) / loss("dense", **how) for how in (plain, bursts)]
    assert behind[1] > 3 and behind[1] > 1.5 * behind[0]


def test_what_a_learner_keeps_is_called_residual_and_memory_only_where_the_papers_word_is_named():
    """Memory means bytes elsewhere in the course."""
    cells = json.loads(LAB.read_text("utf-8"))["cells"]
    said = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    papers_word = "(the paper calls them memories)"
    assert sum(text.count(papers_word) for text in said) == 1
    outputs = [json.dumps(cell["outputs"]) for cell in cells if cell["cell_type"] == "code"]
    explorer = lab10.explorer()
    questions = [each.text for each in lab10.QUESTIONS]
    questions += [each.answer(explorer.state_at(**each.position)) for each in lab10.QUESTIONS]
    rules = [criterion.statement for criterion in claims.get("scalecom_2020_similarity").criteria]
    exercises = [exercise_catalogue.get(f"10.{number}") for number in (1, 2, 3)]
    pages = [part for each in exercises for part in (page(each, [""] * len(each.mistakes)), *each.hints)]
    figure = explorer.figure.layout.meta["alt"]
    for text in (*said, *outputs, *questions, *rules, *pages, figure):
        rest = text.replace(papers_word, "").replace("next_memory", "")
        assert not re.search(r"memor(y|ies)", rest, re.IGNORECASE), rest
    assert 'id="memory-of-a-learner"' in (DATA.parent / "docs/glossary.md").read_text("utf-8"), "older links lead there"


def test_the_residual_is_the_share_beta_of_what_is_owed():
    """The folded example: 2 stands for 4; 4 + 4 = 8 is owed, 2 + 4 = 6 is sent, and half of the other 2 is 1."""
    beta, residual, gradient = 0.5, 2.0, 4.0
    owed = residual / beta + gradient
    sent = residual + gradient
    assert (owed, sent, owed - sent) == (8, 6, 2)
    for at, left in (([0], owed - sent), ([], owed)):
        found = next_memory(np.array([residual]), np.array([gradient]), np.array(at, int), beta)
        assert found.tolist() == [beta * left]


def test_bytes_on_the_ring_grow_although_the_message_does_not():
    messages = {run("scalecom", n, rate=1.0).sent_bytes / (2 * (n - 1) / n) for n in LEARNERS[1:]}
    assert messages == {2112.5}


# ---- the answers against the library ---------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [1.0, 0.5, 0.125])
def test_solutions_make_scalecom_step_by_step(beta):
    """Numbers with few bits: float32 is exact, so both must agree in every bit."""
    world, numel, chunk = 3, 40, 8
    compressor = ScaleCom(chunk=chunk, beta=beta, small="compressed").for_layer(LayerInfo("w", (numel,)))
    states = [compressor.init((numel,)) for _ in range(world)]
    memory = np.zeros((world, numel))
    for step in range(4):
        g = np.random.default_rng([1, step]).integers(-8, 9, (world, numel)).astype(np.float32)
        average = exchange(compressor, list(g), states, step=step)
        for state in states:
            state.commit()
        sent = leaders_choice(memory + g, chunk, step)
        leader = Context(0, world, step).leader
        p = (memory + g)[leader]
        places = np.array([s + int(np.argmax(np.abs(p[s : s + chunk]))) for s in range(0, numel, chunk)])
        memory = np.stack([next_memory(m, row, places, beta) for m, row in zip(memory, g.astype(float), strict=True)])
        np.testing.assert_array_equal(average * world, sent.sum(axis=0).astype(np.float32))
        np.testing.assert_array_equal(np.stack([state["residual"] for state in states]), memory)


def test_the_similarity_is_the_librarys():
    m = residuals()
    k = 12
    pairs = similarity(m[:, 0], m[:, 1], k)
    assert np.isnan(pairs[0]).all(), "residuals are empty before the first step"
    for pair, both in zip(pairs[1:], m[1:], strict=True):
        assert pair[0] == pytest.approx(cosine_distance(both), abs=1e-9) and pair[1] == hamming_distance(both, k)


def test_other_right_ways_pass():
    way = """
def next_memory(m, g, sent_at, beta):
    new = m + beta * g
    new[sent_at] = (1 - beta) * m[sent_at]
    return new
"""
    assert judge(exercise_catalogue.get("10.2"), Answer(way, "next_memory")).passed
    masked = """
def leaders_choice(p, chunk, step):
    leader = np.abs(p[step % p.shape[0]])
    mask = np.zeros(p.shape[1], bool)
    for k in range(-(-p.shape[1] // chunk)):
        mask[k * chunk + leader[k * chunk : (k + 1) * chunk].argmax()] = True
    return np.where(mask, p, 0.0)
"""
    assert judge(exercise_catalogue.get("10.1"), Answer("import numpy as np\n" + masked, "leaders_choice")).passed
    listed = """
def similarity(a, b, k):
    rows = []
    for x, y in zip(a, b):
        if not x.any() or not y.any():
            rows.append((math.nan, math.nan))
            continue
        cosine = sum(u * v for u, v in zip(x, y)) / math.sqrt(sum(u * u for u in x) * sum(v * v for v in y))
        own, other = np.argpartition(abs(x), -k)[-k:], np.argpartition(abs(y), -k)[-k:]
        rows.append((1 - cosine, 1 - len(np.intersect1d(own, other)) / k))
    return rows
"""
    assert judge(
        exercise_catalogue.get("10.3"), Answer("import math\nimport numpy as np\n" + listed, "similarity")
    ).passed


def test_a_wrong_similarity_is_told_with_step_and_number():
    wrong = "import numpy as np\ndef similarity(a, b, k):\n    return np.zeros((len(a), 2))\n"
    verdict = judge(exercise_catalogue.get("10.3"), Answer(wrong, "similarity"))
    assert not verdict.passed and "In step 0 the cosine distance is 2, yours is 0" in verdict.text
    one = "import numpy as np\ndef similarity(a, b, k):\n    return np.zeros(len(a))\n"
    assert (
        "return 1 row, each with two numbers" in judge(exercise_catalogue.get("10.3"), Answer(one, "similarity")).text
    )


def test_own_functions_are_drawn_once_they_work():
    assert isinstance(draw_choice(leaders_choice), widgets.LiveFigure)
    drawn = draw_similarity(similarity)
    assert drawn.layout.meta["title"] == "Yours agrees at 60 of 60 steps"
    assert gradients().shape == (64, 1280) and residuals().shape == (60, 2, 1280)


# ---- the recorded trainings ------------------------------------------------------------------------------------


def test_every_run_was_recorded():
    every = [LearnerSetting("dense", n, learning_rate=rate) for n in LEARNERS for rate in LEARNING_RATES]
    every += [
        LearnerSetting("topk", n, c, learning_rate=rate) for n in LEARNERS for c in CHUNKS for rate in LEARNING_RATES
    ]
    every += [
        LearnerSetting("scalecom", n, c, b, r) for n in LEARNERS for c in CHUNKS for b in BETAS for r in LEARNING_RATES
    ]
    assert len(every) == 294
    for setting in every:
        found = many_learners(setting)
        assert found.steps.tolist() == list(range(6, 121, 6)) and np.isfinite(found.loss).all()
    with pytest.raises(ValueError, match="no run 'topk, 3 learners, 1 of 25, beta 1, rate 0.1'; recorded are learners"):
        many_learners(LearnerSetting("topk", 3, 25))


@pytest.mark.parametrize(
    "setting", [LearnerSetting("topk", 4, 50), LearnerSetting("scalecom", 2, 112, 0.3, 1.0)], ids=str
)
def test_a_run_made_again_is_the_recorded_one(setting, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(DATA))
    sys.modules.pop("record_many_learners", None)
    import record_many_learners

    again, stored = record_many_learners.measured(setting), many_learners(setting)
    assert again["sent_bytes"] == stored.sent_bytes
    np.testing.assert_allclose(again["density"], stored.density, rtol=1e-6)
    assert again["loss"][0] == pytest.approx(float(stored.loss[0]), rel=1e-4), "other processors add in another order"
    assert again["union"][0] == pytest.approx(float(stored.union[0]), rel=0.05)


def test_messages_show_arrays_with_all_their_dimensions():
    one = np.array([[3.0, 4.0]])
    assert exercise_catalogue.get("10.3").show((one, one, 1)) == "a = [[3, 4]], b = [[3, 4]], k = 1"
    two = np.array([[3.0, 4.0], [1.0, 2.0]])
    assert "a = [[3, 4], …], b = [[3, 4], …] (shape (2, 2), step 0 shown)" in exercise_catalogue.get("10.3").show(
        (two, two, 1)
    )
    memory = (one[0], one[0], np.array([1]), 0.5)
    assert exercise_catalogue.get("10.2").show(memory) == "m = [3, 4], g = [3, 4], sent_at = [1], beta = 0.5"
    assert "sent_at = [], " in exercise_catalogue.get("10.2").show((*memory[:2], np.zeros(0, np.int64), 1.0))
