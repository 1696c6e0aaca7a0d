"""The clip explorer: every control over its whole range, and the numbers are the library's."""

from dataclasses import asdict

import numpy as np
import pytest

from lplab import claims, datasets
from lplab.quantizers import SAWB, pact_forward, sawb_clip
from lplab.widgets import ClipExplorer, live_clips
from lplab.widgets.explorers import clip_explorer as cs
from lplab.widgets.live import clip_training

ACTIVATIONS = "resnet/step200/layer3.conv2/activation"


@pytest.fixture(scope="module")
def explorer():
    return ClipExplorer()


def test_the_first_figure_makes_the_point():
    shown = ClipExplorer()
    assert shown.figure.layout.meta["title"] == "α = 6.59: 0 % clipped; fullest level 87.5 %"
    assert "error 29.6 % of the power; least 7.1 %, with α = 2.48" in shown.summary.value


@pytest.mark.parametrize("name", ["preset", "tensor", "bits", "rule", "percent"])
def test_every_control_reaches_its_ends(explorer, name):
    explorer.reset()
    control = explorer.controls[name]
    values = list(getattr(control, "options", ())) or [control.min, control.max]
    seen = set()
    for value in values:
        if value == cs.NO_PRESET:
            continue
        control.value = value
        assert explorer.error_line.value == ""
        state = explorer.position
        assert (control.value if name == "preset" else getattr(state, name)) == value
        seen.add(explorer.figure.alt)
    assert len(seen) > 1, "it changes the figure"
    explorer.reset()
    assert asdict(explorer.position) == asdict(cs.ClipState())


def test_moving_the_clip_is_a_rule_by_hand_and_a_rule_moves_the_clip(explorer):
    explorer.reset()
    explorer.controls["percent"].value = 40
    assert explorer.position.rule == "by hand" and explorer.controls["preset"].value == cs.NO_PRESET
    assert explorer.analysis().clip(explorer.position) == pytest.approx(0.4 * explorer.analysis().magnitudes.largest)
    explorer.controls["rule"].value = "least error"
    assert explorer.controls["percent"].value == 38
    explorer.controls["rule"].value = "by hand"
    assert explorer.position.percent == 38


def test_errors_are_those_of_the_quantizers():
    x = datasets.captured()[ACTIVATIONS].astype(np.float64)
    analysis = cs.analyze(cs.TENSORS[0])
    for bits in (2, 4, 8):
        for rule in analysis.rules:
            state = cs.ClipState(bits=bits, rule=rule)
            off = ((pact_forward(x, analysis.clip(state), bits) - x) ** 2).mean() / (x**2).mean()
            assert (
                analysis.error(state) == pytest.approx(off, rel=1e-6) == pytest.approx(analysis.errors[rule][bits - 2])
            )
    w = datasets.captured()[cs.CAPTURED["weights, attention, trained"]].astype(np.float64)
    analysis = cs.analyze("weights, attention, trained")
    for bits in (2, 4, 5, 8):
        state = cs.ClipState("weights, attention, trained", bits, "SAWB")
        assert analysis.clip(state) == pytest.approx(sawb_clip(w, bits), rel=1e-6)
        off = ((SAWB(bits).quantize(w) - w) ** 2).mean() / (w**2).mean()
        assert analysis.error(state) == pytest.approx(off, rel=1e-5)


@pytest.mark.parametrize("name", cs.TENSORS)
def test_no_rule_beats_the_least_error(name):
    analysis = cs.analyze(name)
    for rule in analysis.rules:
        assert (analysis.errors[rule] >= analysis.errors["least error"] * (1 - 1e-3)).all()
    assert (np.diff(analysis.errors["least error"]) < 0).all()


@pytest.mark.parametrize(("rule", "bits", "is_noted"), [("SAWB", 6, True), ("SAWB", 5, False), ("max |x|", 6, False)])
def test_coefficients_that_are_not_published_are_said_to_be_ours(explorer, rule, bits, is_noted):
    explorer.set(tensor="uniform", rule=rule, bits=bits)
    assert ("No published row for 6 bits: coefficients of our own fit." in explorer.summary.value) == is_noted


def test_sawb_misses_the_best_clip_of_a_uniform_tensor_at_eight_bits_and_not_at_two():
    """What the lab says in “What you saw”."""
    for analysis in filter(lambda analysis: analysis.signed, map(cs.analyze, cs.TENSORS)):
        assert analysis.errors["SAWB"][0] < 1.012 * analysis.errors["least error"][0]
    for name, percent in (("uniform", 0.62), ("weights, layer 3, untrained", 0.22)):
        analysis = cs.analyze(name)
        assert 100 * analysis.errors["SAWB"][-1] == pytest.approx(percent, abs=0.005)
        assert 100 * analysis.errors["least error"][-1] == pytest.approx(0.0015, abs=5e-5)


def test_the_parts_of_the_error_are_equal_beside_the_best_clip():
    """The curves of rounding and clipping cross to the left of the least sum."""
    x = cs.analyze(cs.TENSORS[0]).magnitudes
    assert x.best_clip(7) == pytest.approx(2.48, abs=0.01)
    found = x.errors(np.array([2.23, 2.27]), 7)
    assert (np.sign(found.rounding - found.clipping) == [-1, 1]).all()


def test_a_rule_that_a_tensor_does_not_have_is_replaced(explorer):
    explorer.set(preset="PACT, 4 bits")
    explorer.set(tensor="laplace")
    assert explorer.position.rule == "SAWB"
    explorer.set(tensor="ReLU of a gaussian")
    assert explorer.position.rule.startswith("PACT") and explorer.position.bits == 4
    assert set(explorer.controls["rule"].options) == {*explorer.analysis().rules, "by hand"}


def test_axes_stay_while_bits_and_clip_move(explorer):
    explorer.reset()
    axes = [explorer.figure.layout[name].range for name in ("xaxis", "yaxis", "yaxis2", "yaxis3")]
    for position in ({"bits": 8}, {"percent": 10, "rule": "by hand"}):
        explorer.set(**position)
        assert [explorer.figure.layout[name].range for name in ("xaxis", "yaxis", "yaxis2", "yaxis3")] == axes


@pytest.mark.parametrize("preset", cs.PRESETS)
def test_copied_code_gives_the_error_of_the_figure(explorer, preset):
    explorer.set(preset=preset)
    explorer.copy_button.click()
    *imports, last = explorer._control_group.clipboard["text"].splitlines()
    exec("\n".join(imports), names := {})
    values = eval(last, names)
    x = datasets.captured()[cs.CAPTURED[explorer.position.tensor]].astype(np.float64)
    off = ((np.asarray(values, np.float64) - x) ** 2).mean() / (x**2).mean()
    assert off == pytest.approx(explorer.analysis().error(explorer.position), rel=1e-3)
    assert explorer.code_line.value


def test_a_tensor_of_ones_own():
    shown = ClipExplorer(own=np.array([[0.0, 1.0], [2.0, 8.0]]), bits=3)
    assert shown.position.tensor == "yours" and shown.analysis().magnitudes.largest == 8
    shown.set(tensor="uniform")
    shown.reset()
    assert shown.position.tensor == "yours"
    torch = pytest.importorskip("torch")
    assert ClipExplorer(own=torch.tensor([-1.0, 2.0], requires_grad=True)).analysis().signed
    zeros = ClipExplorer(own=np.zeros(5))
    assert zeros.error_line.value == "" and zeros.position.tensor == "yours"


@pytest.mark.parametrize(("wrong", "message"), [
    ({"tensor": "bias"}, "unknown tensor 'bias'; allowed: activations"),
    ({"tensor": "yours"}, "must be given: ClipExplorer"),
    ({"bits": 1}, "bits must be an integer from 2 to 8, got 1"),
    ({"rule": "amax"}, "unknown rule 'amax'; allowed: max"),
    ({"percent": 0}, "percent must be from 1 to 110, got 0"),
    ({"own": np.array([np.nan])}, "own must hold finite real numbers"),
    ({"own": "SAWB"}, r"^own must be an array or a tensor, got 'SAWB'; did you mean rule='SAWB'\?$"),
    ({"own": "SAWB, 2 bits"}, r"; did you mean preset='SAWB, 2 bits'\?$"),
    ({"own": "gone"}, r"^own must be an array or a tensor, got 'gone'$"),
])  # fmt: skip
def test_values_that_are_not_allowed_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        ClipExplorer(**wrong)


def test_an_unknown_preset_is_refused(explorer):
    with pytest.raises(ValueError, match="unknown preset 'LSQ'; allowed: max"):
        explorer.set(preset="LSQ")


def test_the_stored_losses_lie_in_the_order_that_the_lab_expects_live():
    claim = claims.get("pact_2018")
    results = claims.stored(claim).results(claim)
    last = [results.values("train_loss", clip="none")]
    last += [results.values("train_loss", clip=clip, bits=2) for clip in ("trained", 10.0, 1.0)]
    assert (np.diff(last, axis=0) > 0).all()
    five = [results.values(number, clip="trained", bits=5) for number in ("alpha_most", "error")]
    assert np.median(five[0]) == pytest.approx(2.5, abs=0.05)
    fixed = results.values("error", clip=10.0, bits=5)
    assert np.median(fixed) < np.median(five[1]) < fixed.max() + 1 and five[1].min() < fixed.max()


def test_the_live_trainings_train_the_clip_that_is_to_be_trained():
    run = live_clips(2, steps=3, task="mlp")
    run.start()
    run.wait(120)
    assert run.state == "finished" and set(run.losses) == {
        "clip trained",
        "clip fixed at 1",
        "clip fixed at 10",
        "fp32",
    }
    alphas = {
        name: [float(p.detach()) for key, p in trainer.model.named_parameters() if key.endswith("pact_alpha")]
        for name, trainer in run.trainers.items()
    }
    assert set(alphas["clip fixed at 1"]) == {1.0} and set(alphas["clip fixed at 10"]) == {10.0}
    assert max(alphas["clip trained"]) < 10 and alphas["fp32"] == []
    with pytest.raises(ValueError, match="bits must be an integer from 1 to 8"):
        live_clips(0)
    assert live_clips().progress.max == clip_training.pact_2018.STEPS
