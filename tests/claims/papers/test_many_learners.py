"""Claims on many learners: their checks can fail; what they measure is what it says; rows T12 to T16."""

import numpy as np
import pytest

from lplab import claims
from lplab.claims.papers import adacomp_2018, scalecom_2020_rates
from lplab.claims.papers.adacomp_2018 import RecordingCompressor
from lplab.claims.papers.adacomp_2018_selection import (
    BINS,
    LOCAL,
    NO_FEEDBACK,
    SAMPLE_STEPS,
    SOFT,
    WithoutErrorFeedback,
)
from lplab.claims.papers.federated_2017 import PHONES, SILOS
from lplab.claims.papers.scalecom_2020 import BEFORE
from lplab.compression import AdaComp, LayerInfo, ScaleCom, TopK, exchange
from lplab.compression.ratios import adacomp_paper_ratio
from tests.claims.changed_numbers import but, holds, judged, where


@pytest.fixture
def draw():
    """Normal numbers, float32."""
    return lambda count, seed=0: np.random.default_rng(seed).standard_normal(count).astype(np.float32)


LAST = f"residue_{SAMPLE_STEPS[-1]}"


def finding(name, which, wanted, **numbers):
    """Whether a criterion holds if some stored numbers were others."""
    return judged(claims.get(name), where(wanted, **numbers)).findings[which].holds


def reason(name, which, wanted, **numbers):
    """The same of an explanation."""
    return judged(claims.get(name), where(wanted, **numbers)).explanations[which].holds


# ---- AdaComp ---------------------------------------------------------------------------------------------------------


def test_rows_t12_and_t13():
    assert adacomp_paper_ratio(50, 5) == 40 and adacomp_paper_ratio(500, 5) == 200


@pytest.mark.parametrize(("which", "family", "number", "value"), [
    (0, "LSTM", "paper", 150.0), (0, "convolutional", "paper", 39.0),
    (1, "fully connected", "loss", 2.0), (2, "convolutional", "loss", 2.0),
])  # fmt: skip
def test_adacomp_can_fail(which, family, number, value):
    assert not finding("adacomp_2018", which, {"family": family, "method": "adacomp"}, **{number: value})


def language(point, seed):
    """Invented numbers under which everything holds."""
    late = point["method"] == "adacomp"
    losses = {
        "loss": 2.5 + 0.1 * seed + 0.01 * late,
        "train_loss": 2.4 + 0.01 * late,
        "train_loss_half": 2.6 + 0.1 * late,
    }
    return losses | ({"paper": 250.0, "payload": 240.0, "sent_per_bin": 4.0} if late else {}) | {"error": 50.0}


@pytest.mark.parametrize(("ring", "which", "name", "value"), [
    (0, 0, "paper", 199.0), (0, 1, "loss", 2.53), (1, 0, "train_loss", 2.51),
])  # fmt: skip
def test_adacomp_on_language_holds_and_can_fail(ring, which, name, value):
    claim = claims.get("adacomp_2018_language")
    assert holds(claim, language) == ([True] * 2, [True])
    changed = holds(claim, but(language, name, value, method="adacomp", seed=0))
    assert not changed[ring][which]


def test_one_training_of_adacomp_on_language_in_short(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr("lplab.claims.papers.adacomp_2018_language.STEPS", 4)
    numbers = claims.measure(claims.get("adacomp_2018_language"), {"method": "adacomp"}, 0)
    assert numbers["paper"] > 1 and 0 < numbers["loss"] < 7


@pytest.mark.parametrize(("which", "numbers"), [
    (0, {"wire": 1e4}), (1, {"empty": 0.0}), (2, {"train_loss": 6.2}),
])  # fmt: skip
def test_reasons_of_adacomp_can_fail(which, numbers):
    assert reason("adacomp_2018", which, {}, sent_per_bin=4.0)
    assert not reason("adacomp_2018", which, {"method": "adacomp"}, **numbers)


def test_messages_are_counted_by_decoding_them(draw):
    infos = {"w": LayerInfo("w", (40, 50), "dense")}
    counted = adacomp_2018.Counted(infos)
    compressor = RecordingCompressor(AdaComp(), counted.note).for_layer(infos["w"])
    gradients = [draw(2000, seed=s).reshape(40, 50) for s in (1, 2)]
    states = [compressor.init((40, 50)) for _ in gradients]
    exchange(compressor, gradients, states, layer="w")
    sent = 0
    for state, gradient in zip(states, gradients, strict=True):
        state.commit()
        sent += int((state["residual"] != gradient.reshape(-1)).sum())
    assert counted.sent == sent and counted.bins == 2 * 4 and counted.elements == 4000
    assert counted.numbers(500)["payload"] < counted.numbers(500)["paper"]


@pytest.mark.parametrize(("which", "wanted", "numbers"), [
    (0, {"method": SOFT, "bin": 50, "momentum": 0.0}, {LAST: 5.0}),
    (1, {"method": SOFT, "bin": BINS[-1], "momentum": 0.0}, {LAST: 5.0}),
    (2, {"method": SOFT, "bin": 500, "momentum": 0.0}, {"loss": 1.0}),
    (2, {"method": LOCAL, "bin": 500, "momentum": 0.0}, {"loss": 0.29}),
])  # fmt: skip
def test_the_threshold_can_fail(which, wanted, numbers):
    assert finding("adacomp_2018_selection", which, {"method": "nobody"})
    assert not finding("adacomp_2018_selection", which, wanted, **numbers)


@pytest.mark.parametrize(("which", "wanted", "numbers"), [
    (0, {"method": LOCAL, "bin": BINS[-1]}, {LAST: 99.0}),
    (1, {"method": LOCAL, "bin": 50, "momentum": 0.0}, {"payload": 999.0}),
    (2, {"method": LOCAL, "bin": 50, "momentum": 0.9}, {"loss": 0.1}),
    (3, {"method": NO_FEEDBACK}, {"loss": 0.29}),
])  # fmt: skip
def test_reasons_of_the_threshold_can_fail(which, wanted, numbers):
    assert not reason("adacomp_2018_selection", which, wanted, **numbers)


def test_forgetful_forgets_and_watched_changes_nothing(draw):
    gradient, forgetful, plain = draw(1000), WithoutErrorFeedback(TopK(0.1)), TopK(0.1, error_feedback=False)
    state, seen = forgetful.init((1000,)), []
    watched = RecordingCompressor(ScaleCom(chunk=50), lambda context, request: seen.append(type(request).__name__))
    for _ in range(3):
        result = exchange(forgetful, [gradient], [state])
        state.commit()
        assert (result == exchange(plain, [gradient], [plain.init((1000,))])).all()
    one, other = watched.init((1000,)), watched.init((1000,))
    assert (exchange(watched, [gradient], [one]) == exchange(ScaleCom(chunk=50), [gradient], [other])).all()
    assert seen == ["Broadcast", "AllReduce"]


# ---- ScaleCom --------------------------------------------------------------------------------------------------------


def test_rows_t14_to_t16_from_the_layer_lists():
    for network, (published, tolerance) in scalecom_2020_rates.PUBLISHED.items():
        result = scalecom_2020_rates.measure({"network": network, "reading": "rule"}, 0)
        assert abs(result["elements"] / published - 1) <= tolerance


def test_rates_can_fail():
    assert not finding("scalecom_2020_rates", 0, {"network": "resnet50", "reading": "rule"}, elements=90.0)
    assert not reason("scalecom_2020_rates", 0, {"reading": "rule"}, payload=500.0)


@pytest.mark.parametrize(("which", "wanted", "numbers"), [
    (0, {"method": "ScaleCom", "learners": 64}, {"wire": 9e4}),
    (1, {"method": "local top-k", "learners": 64}, {"wire": 6e3}),
    (2, {"method": "local top-k", "learners": 64}, {"filled": 0.01}),
])  # fmt: skip
def test_traffic_can_fail(which, wanted, numbers):
    assert finding("scalecom_2020_traffic", which, {"method": "nobody"})
    assert not finding("scalecom_2020_traffic", which, wanted, **numbers)


def test_reasons_of_traffic_can_fail():
    assert not reason("scalecom_2020_traffic", 0, {"method": "local top-k", "learners": 64}, filled=0.5)
    assert not reason("scalecom_2020_traffic", 1, {"method": "local top-k", "learners": 64}, wire=100.0)


@pytest.mark.parametrize(("which", "wanted", "numbers"), [
    (0, {"lr": 0.1, "beta": 1.0}, {"cosine_200": 1.1}),
    (1, {"lr": 1.0, "beta": 1.0}, {f"cosine_{n}": 0.3 for n in range(120, 201, 20)}),
    (2, {"lr": 1.0, "beta": 0.1}, {f"cosine_{n}": 1.0 for n in range(120, 201, 20)}),
])  # fmt: skip
def test_similarity_can_fail(which, wanted, numbers):
    assert finding("scalecom_2020_similarity", which, {"lr": "none"})
    assert not finding("scalecom_2020_similarity", which, wanted, **numbers)


def test_momentum_is_the_only_difference_between_the_two_settings_of_a_family():
    pytest.importorskip("torch")
    from lplab.claims.papers.scalecom_2020 import FAMILIES, task_of

    for family in FAMILIES:
        plain, heavy = task_of(family, 0.0), task_of(family, 0.9)
        if plain.optimizer == "sgd":
            assert heavy.lr / (1 - 0.9) == pytest.approx(plain.lr) and dict(heavy.options) == {"momentum": 0.9}
        else:
            assert heavy.lr == plain.lr and dict(heavy.options)["betas"] == (0.9, 0.999)


def scalecom(point, seed):
    """Invented numbers: as good as dense without momentum, worse with it; less so with the filter or before sending."""
    heavy = point["method"] == "scalecom" and point["momentum"] > 0
    extra = {BEFORE: 0.3}.get(point.get("place"), 0.5 if point.get("beta") == 1 else 0.2)
    extra = 0.01 if point.get("slow") else extra
    return {"loss": 0.3 + 0.02 * seed + heavy * extra}


@pytest.mark.parametrize(("which", "family"), [*enumerate(["fully connected", "convolutional", "Transformer"])])
def test_accuracy_of_scalecom_holds_and_can_fail(which, family):
    claim = claims.get("scalecom_2020")
    assert holds(claim, scalecom) == ([True] * 3, [True] * 6)
    shape, _ = holds(claim, but(scalecom, "loss", 0.5, family=family, learners=64))
    assert shape == [k != which for k in range(3)]


@pytest.mark.parametrize(("which", "wanted", "value"), [
    (0, {"family": "Transformer", "learners": 4, "momentum": 0.9, "beta": 1.0}, 0.3),
    (1, {"family": "convolutional", "learners": 1, "momentum": 0.9}, 0.3),
    (2, {"family": "convolutional", "momentum": 0.9, "beta": 0.3}, 2.0),
    (3, {"warm_up": False}, 0.5),
    (4, {"place": BEFORE}, 0.9),
    (4, {"place": BEFORE, "seed": 1}, 0.9),
    (5, {"slow": True}, 0.6),
    (5, {"slow": True, "seed": 2}, 0.9),
])  # fmt: skip
def test_reasons_of_scalecom_can_fail(which, wanted, value):
    _, explained = holds(claims.get("scalecom_2020"), but(scalecom, "loss", value, method="scalecom", **wanted))
    assert not explained[which]


def error_feedback(point, seed):
    """Invented numbers under which all criteria hold."""
    lost = (0.1 if point["family"] == "Transformer, Adam" else 2.7) * (not point["memory"])
    return {"loss": 0.3 + lost + 0.02 * seed, "still": 0.7 if point["method"] == "top-k" else 0.0}


@pytest.mark.parametrize(("value", "wanted", "wrong"), [
    (0.3, {"family": "Transformer", "method": "top-k", "memory": False, "seed": 0}, [0]),
    (0.3, {"family": "convolutional", "method": "sign", "memory": False, "seed": 0}, [1]),
    (0.7, {"family": "convolutional", "method": "top-k", "memory": True, "seed": 1}, [2]),
    (0.7, {"family": "Transformer", "method": "sign", "memory": True, "seed": 2}, [3]),
    (0.01, {"family": "fully connected", "method": "dense"}, [2, 3]),
])  # fmt: skip
def test_error_feedback_holds_and_can_fail(value, wanted, wrong):
    claim = claims.get("error_feedback")
    assert holds(claim, error_feedback) == ([True] * 4, [True, True, False, True])
    assert holds(claim, but(error_feedback, "loss", value, **wanted))[0] == [k not in wrong for k in range(4)]


@pytest.mark.parametrize(("which", "name", "value", "wanted"), [
    (0, "still", 0.8, {"method": "sign", "memory": False}),
    (3, "loss", 3.1, {"family": "Transformer, Adam", "memory": False}),
])  # fmt: skip
def test_reasons_of_error_feedback_can_fail(which, name, value, wanted):
    assert not holds(claims.get("error_feedback"), but(error_feedback, name, value, **wanted))[1][which]


def test_the_noisy_network_of_error_feedback_can_be_another():
    steady = where({"family": "convolutional", "method": "sign", "memory": True}, loss=0.1)
    worse = where({"family": "Transformer", "method": "sign", "memory": True}, loss=3.5)
    for change, others_show_it in ((steady, True), (worse, False)):
        _, others, noisy, _ = judged(claims.get("error_feedback"), change).explanations
        assert others.holds is others_show_it and not noisy.holds


# ---- lossless --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("which", "numbers"), [(0, {"zstd shuffled: size": 0.01}), (1, {"lz4: copies": 0.5})])
def test_lossless_can_fail(which, numbers):
    assert not finding("lempel_ziv", which, {"family": "LSTM"}, **numbers)


def test_sizes_do_not_depend_on_the_machine_and_residues_are_those_of_the_training():
    pytest.importorskip("torch")
    from lplab.claims.papers.lempel_ziv import recorded

    residues, gradients = recorded("fully connected", AdaComp(bin=50), seed=0, values=60_000)
    assert residues.shape == gradients.shape == (60_000,)
    assert np.median(np.abs(residues)) > np.median(np.abs(gradients)) > 0


# ---- clients that do not come back -----------------------------------------------------------------------------------


def clients(point, seed):
    """Invented numbers under which everything holds."""
    loss = 1.0 + 0.02 * seed + (point["steps"] == 1)
    waiting = 0.1 if point["upload"] == "top-k with memory" else 0.0
    once = point["clients"] == PHONES
    loss += point["upload"].startswith("top-k") and (once or not waiting)
    down = 1e5 if point["download"] == "fp32" else 3e4
    return {"loss": loss, "error": 9.0, "up": 4e3, "down": down, "waiting": waiting, "lost": waiting * once}


@pytest.mark.parametrize(("which", "name", "value", "wanted"), [
    (0, "loss", 1.0, {"steps": 1}),
    (1, "loss", 1.0, {"clients": SILOS, "upload": "top-k without"}),
    (2, "loss", 1.5, {"clients": PHONES, "upload": "top-k with memory"}),
    (2, "lost", 0.0, {"clients": PHONES, "upload": "top-k with memory"}),
])  # fmt: skip
def test_federated_holds_and_can_fail(which, name, value, wanted):
    claim = claims.get("federated_2017")
    assert holds(claim, clients) == ([True] * 3, [True] * 2)
    assert holds(claim, but(clients, name, value, **wanted))[0] == [k != which for k in range(3)]


def test_reasons_of_federated_can_fail():
    claim = claims.get("federated_2017")
    assert not holds(claim, but(clients, "loss", 2.0, upload="QSGD"))[1][0]
    assert not holds(claim, but(clients, "up", 9e4, upload="top-k with memory"))[1][1]
