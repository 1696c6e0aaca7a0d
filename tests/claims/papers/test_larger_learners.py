"""The larger experiments on many learners: each check can fail, and short trainings of toy pictures do as they say."""

import numpy as np
import pytest
from torch import nn

from lplab import claims
from lplab.claims.framework import larger_models, learner_models
from lplab.claims.papers import adacomp_2018_language_large as language
from lplab.claims.papers import error_feedback_large as feedback
from lplab.claims.papers import scalecom_2020, scalecom_2020_large
from lplab.datasets import Split
from lplab.training import tasks
from tests.claims.changed_numbers import but, holds


@pytest.fixture
def toy_pictures(monkeypatch):
    """Random pictures in place of Fashion-MNIST."""
    draw = np.random.default_rng(0)
    images, labels = draw.random((720, 4, 14, 14), np.float32), draw.integers(0, 10, 720)
    split = Split(images, labels, images[:20], labels[:20])
    monkeypatch.setattr(larger_models, "fashion_pictures", lambda: split)


def near(base, seed, step=0.01):
    """A number of each seed, a little apart."""
    return base + step * seed


# ---- ScaleCom --------------------------------------------------------------------------------------------------------


def scalecom(point, seed):
    """Invented numbers under which everything holds."""
    lost = {"dense": 0.0, "filtered": 0.1, "plain": 0.1 if point["learners"] == 4 else 0.9}[point["method"]]
    return {
        "error": near(11 + lost, seed), "loss": near(0.44 + lost / 10, seed), "train_loss": near(0.3 + lost / 10, seed),
    }  # fmt: skip


def test_scalecom_at_a_larger_size_holds_and_can_fail():
    claim = claims.get("scalecom_2020_large")
    assert holds(claim, scalecom) == ([True] * 2, [True] * 2)
    for which, learners, method in ((0, 4, "plain"), (1, 64, "filtered")):
        findings, _ = holds(claim, but(scalecom, "error", 12.5, learners=learners, method=method))
        assert findings == [number != which for number in range(2)]
        # One seed of five is enough.
        assert not holds(claim, but(scalecom, "error", 12.5, learners=learners, method=method, seed=3))[0][which]


@pytest.mark.parametrize(("which", "number", "value", "wanted"), [
    (0, "error", 11.0, {"learners": 64, "method": "plain"}),
    (1, "train_loss", 0.2, {"learners": 64, "method": "filtered"}),
    (1, "train_loss", 0.2, {"learners": 4, "method": "plain"}),
])  # fmt: skip
def test_reasons_of_scalecom_at_a_larger_size_can_fail(which, number, value, wanted):
    _, reasons = holds(claims.get("scalecom_2020_large"), but(scalecom, number, value, **wanted))
    assert not reasons[which]


def test_scalecom_at_a_larger_size_in_short(toy_pictures):
    dense, plain = (scalecom_2020_large.run(4, method, 0, 6) for method in ("dense", "plain"))
    assert dense.keys() == plain.keys() >= {"error", "loss", "train_loss"}
    assert dense["skipped"] == 0 and dense["loss"] != plain["loss"]
    assert dense == scalecom_2020_large.run(4, "dense", 0, 6), "the same bits"


def test_sixty_four_learners_have_what_the_parity_says():
    many, few = scalecom_2020_large.MANY, scalecom_2020_large.FEW
    assert many.rate == pytest.approx(0.1 * 704 / 128) and few.rate == pytest.approx(0.1)
    factor = scalecom_2020_large.schedule_of(many, many.steps)
    assert many.rate * factor(0) == pytest.approx(0.1, rel=0.2), "it begins near the rate of the small batch"
    assert many.rate * factor(many.steps - 1) == pytest.approx(many.rate / 100)
    rows = {row.name: row for row in claims.get("scalecom_2020_large").parity}
    assert rows["examples of each learner"].large == (many.examples, few.examples)
    examples = [scalecom_2020.task_of(f, 0.0).batch // n for f, worlds in scalecom_2020.WORLDS.items() for n in worlds]
    assert rows["examples of each learner"].small == (min(examples), max(examples))


@pytest.mark.parametrize(("name", "row"), [
    ("scalecom_2020_large", "layers with weights"), ("error_feedback_large", "layers with weights"),
])  # fmt: skip
def test_the_layers_of_the_parity_are_those_of_the_net(name, row):
    model = learner_models.fashion_resnet(4).model(0)
    layers = [n for n, m in model.named_modules() if isinstance(m, nn.Conv2d | nn.Linear) and "shortcut" not in n]
    parity = {each.name: each for each in claims.get(name).parity}
    assert parity[row].large == len(layers)
    assert not any(isinstance(m, nn.BatchNorm2d) for m in model.modules())


def test_what_the_parity_says_of_the_small_experiments_is_so():
    def layers(model):
        kinds = nn.Conv2d | nn.Linear
        return sum(isinstance(m, kinds) for m in model.modules())

    def parity(name):
        return {row.name: row.small for row in claims.get(name).parity}

    nets = [scalecom_2020.task_of(family, 0.0) for family in scalecom_2020.FAMILIES]
    counts = [layers(task.model(0)) for task in nets]
    for name in ("scalecom_2020_large", "error_feedback_large"):
        assert parity(name)["layers with weights"] == (min(counts), max(counts))
    assert {parity("error_feedback_large")["examples in a step"]} == {task.batch for task in nets}
    lstm, said = tasks.get("lstm"), parity("adacomp_2018_language_large")
    assert said["windows in a batch, of all learners"] == lstm.batch
    assert said["characters through which it is unrolled"] == lstm.data(1, 0)(0)[0].shape[1]
    assert said["recurrent layers"] == lstm.model(0).lstm.num_layers
    assert said["pairs of seeds"] == len(claims.get("adacomp_2018_language").seeds)


# ---- AdaComp ---------------------------------------------------------------------------------------------------------


def of_language(point, seed):
    """Invented numbers under which everything holds."""
    late = point["method"] == "adacomp"
    numbers = {"loss": near(2.5 + 0.003 * late, seed), "error": near(51, seed)}
    numbers |= {f"train_loss_{k}": near(3 - 0.2 * k + 0.1 * late / k**2, seed) for k in language.QUARTERS}
    return numbers | ({"paper": near(240, seed), "payload": near(230, seed), "sent_per_bin": 4.0} if late else {})


@pytest.mark.parametrize(("which", "name", "value", "wanted"), [
    (0, "paper", 199.0, {"seed": 2}), (1, "loss", 2.7, {"method": "adacomp", "seed": 2}),
])  # fmt: skip
def test_adacomp_on_language_at_a_larger_size_holds_and_can_fail(which, name, value, wanted):
    claim = claims.get("adacomp_2018_language_large")
    assert holds(claim, of_language) == ([True] * 2, [True])
    assert holds(claim, but(of_language, name, value, **wanted))[0] == [number != which for number in range(2)]


@pytest.mark.parametrize(("number", "value"), [("train_loss_1", 2.5), ("train_loss_4", 2.9)])
def test_the_reason_of_adacomp_at_a_larger_size_can_fail(number, value):
    claim = claims.get("adacomp_2018_language_large")
    assert holds(claim, but(of_language, number, value, method="adacomp"))[1] == [False]


def test_adacomp_on_language_at_a_larger_size_in_short():
    dense, adacomp = (language.run(method, 0, 8) for method in ("dense", "adacomp"))
    assert {"sent_per_bin", "paper", "payload", "empty"} <= adacomp.keys() - dense.keys()
    assert dense["train_loss_4"] < dense["train_loss_1"] < 6.3
    assert dense == language.run("dense", 0, 8)
    task = learner_models.stackable_lstm()
    assert (task.batch, task.data(2, 0)(0)[0].shape[1]) == (language.BATCH, language.UNROLLED)


# ---- error feedback --------------------------------------------------------------------------------------------------


def of_feedback(point, seed):
    """Invented numbers under which everything holds."""
    lost = 0.0 if point["method"] == "dense" else 0.05 if point["memory"] else 2.0
    still = 0.0 if point["method"] == "sign" or point["memory"] else 0.6
    return {
        "error": near(12 + lost, seed), "loss": near(0.45 + lost / 10, seed),
        "train_loss": near(0.4 + lost / 10, seed), "still": still,
    }  # fmt: skip


@pytest.mark.parametrize(("which", "name", "value", "wanted"), [
    (0, "loss", 0.44, {"method": "top-k", "memory": False}), (1, "loss", 0.44, {"method": "sign", "memory": False}),
    (2, "error", 13.0, {"method": "top-k", "memory": True}), (3, "error", 13.0, {"method": "sign", "memory": True}),
])  # fmt: skip
def test_error_feedback_at_a_larger_size_holds_and_can_fail(which, name, value, wanted):
    claim = claims.get("error_feedback_large")
    assert holds(claim, of_feedback) == ([True] * 4, [True] * 2)
    assert not holds(claim, but(of_feedback, name, value, **wanted))[0][which]
    assert not holds(claim, but(of_feedback, name, value, **wanted, seed=1))[0][which]


@pytest.mark.parametrize(("which", "name", "value", "wanted"), [
    (0, "still", 0.7, {"method": "sign", "memory": False}),
    (1, "train_loss", 0.5, {"method": "sign", "memory": True}),
    (1, "train_loss", 0.5, {"method": "top-k", "memory": True}),
])  # fmt: skip
def test_reasons_of_error_feedback_at_a_larger_size_can_fail(which, name, value, wanted):
    assert not holds(claims.get("error_feedback_large"), but(of_feedback, name, value, **wanted))[1][which]


def test_error_feedback_at_a_larger_size_in_short(toy_pictures):
    found = {(p["method"], p["memory"]): feedback.run(p["method"], p["memory"], 0, 2) for p in feedback.POINTS}
    assert found["top-k", False]["still"] > found["sign", False]["still"] == 0
    assert len({numbers["loss"] for numbers in found.values()}) == len(found)
