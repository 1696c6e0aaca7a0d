"""The explorer of many learners: every control over its whole range, and the numbers are the recorded ones."""

import numpy as np
import pytest

from lplab.recordings import BETAS, CHUNKS, LEARNERS, LearnerSetting, many_learners
from lplab.widgets import LearnersExplorer
from lplab.widgets.explorers.learners_explorer import PRESETS, RATE_NAMES, LearnersState, summary


@pytest.fixture(scope="module")
def explorer():
    return LearnersExplorer()


def test_the_first_figure_makes_the_point():
    shown = LearnersExplorer()
    assert shown.figure.layout.meta["title"] == "64 learners, own choices: 23.0 % of the weights; the leader’s: 0.9 %"
    assert "ScaleCom 4.16 kB, own top-k 117 kB, dense 206 kB" in shown.summary.value
    assert shown.figure.alt.startswith("With 64 learners the sum of own choices holds 23.0 %")


@pytest.mark.parametrize("name", ["learners", "chunk", "beta", "learning_rate"])
def test_every_control_reaches_its_ends_and_is_answered(explorer, name):
    explorer.reset()
    control = explorer.controls[name]
    values = [option[1] if isinstance(option, tuple) else option for option in control.options]
    seen = set()
    for value in values:
        control.value = value
        assert getattr(explorer.position, name) == value and explorer.error_line.value == ""
        seen.add((explorer.figure.alt, explorer.summary.value))
    assert len(seen) == len(values), "each value changes what is said"
    explorer.reset()
    assert control.value == getattr(LearnersState(), name)


def test_the_controls_offer_what_was_recorded(explorer):
    offered = [list(control.options) for control in explorer.controls.values()]
    assert offered[0] == list(LEARNERS) and offered[1] == list(CHUNKS)
    assert [value for _, value in offered[2]] == sorted(BETAS) and offered[3] == list(RATE_NAMES)


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("rate", RATE_NAMES)
def test_what_is_drawn_is_what_was_recorded(explorer, chunk, rate):
    explorer.set(learners=16, chunk=chunk, beta=0.3, learning_rate=rate)
    drawn = {(trace.name, trace.yaxis): trace.y for trace in explorer.figure.data}
    number = RATE_NAMES[rate]
    own = [many_learners(LearnerSetting("topk", n, chunk, learning_rate=number)) for n in LEARNERS]
    leader = many_learners(LearnerSetting("scalecom", 16, chunk, 0.3, number))
    np.testing.assert_allclose(drawn["own top-k", None], [100 * run.union.mean() for run in own], rtol=1e-6)
    np.testing.assert_allclose(drawn["own top-k", "y2"], [run.sent_bytes for run in own][1:])
    np.testing.assert_array_equal(drawn["cosine distance of the residuals", "y3"], leader.cosine.astype(float))
    np.testing.assert_array_equal(drawn["missed by the leader", "y3"], leader.missed.astype(float))


def test_no_axis_moves_with_any_control(explorer):
    explorer.reset()
    axes = [explorer.figure.layout[f"yaxis{k}"].range for k in ("", "2", "3")]
    for value in (8, 1, 64):
        explorer.set(learners=value, chunk=400, beta=0.1, learning_rate="ten times")
        assert [explorer.figure.layout[f"yaxis{k}"].range for k in ("", "2", "3")] == axes
    for position in PRESETS.values():
        explorer.set(**position)
        for trace in explorer.figure.data:
            y = np.asarray(trace.y, float)
            low, high = explorer.figure.layout[f"yaxis{(trace.yaxis or 'y')[1:]}"].range
            if trace.yaxis != "y3":
                y = np.log10(y)
            assert np.nanmin(y) >= low and np.nanmax(y) <= high, (position, trace.name)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_put_the_controls_there(explorer, name):
    explorer.reset()
    explorer.preset_buttons[name].click()
    assert {field: getattr(explorer.position, field) for field in PRESETS[name]} == PRESETS[name]
    assert {field: explorer.controls[field].value for field in PRESETS[name]} == PRESETS[name]


@pytest.mark.parametrize("name", PRESETS)
def test_copied_code_gives_the_numbers_of_the_figure(explorer, name):
    explorer.set(**PRESETS[name])
    *lines, last = explorer.copied_code(explorer.position).splitlines()
    exec("\n".join(lines), scope := {})
    union, sent, cosine, error = eval(last, scope)
    state = list(LEARNERS).index(explorer.position.learners)
    drawn = {(trace.name, trace.yaxis): trace.y for trace in explorer.figure.data}
    assert 100 * union == pytest.approx(drawn["ScaleCom", None][state], rel=1e-6)
    assert (
        sent == drawn["ScaleCom", "y2"][state - 1] and cosine[-1] == drawn["cosine distance of the residuals", "y3"][-1]
    )
    assert f"ScaleCom {100 * error:.1f} %" in summary(explorer.position)


def test_copying_shows_the_code_and_one_learner_is_said():
    shown = LearnersExplorer(learners=1)
    shown.copy_button.click()
    assert shown._control_group.clipboard["text"] == shown.copied_code(shown.position)
    assert shown.figure.alt.endswith("One learner.") and "with 1 learner:" in shown.summary.value
    shown.set(beta=0.5)
    assert "beta=0.5" in shown.code_line.value


@pytest.mark.parametrize(("wrong", "message"), [
    ({"learners": 3}, "learners must be one of 1, 2, 4, 8, 16, 32, 64, got 3"),
    ({"chunk": 100}, "chunk must be one of 25, 50, 112, 400, got 100"),
    ({"beta": 0.2}, "beta must be one of"),
    ({"learning_rate": "huge"}, "learning_rate must be one of standard, ten times"),
])  # fmt: skip
def test_combinations_that_were_not_recorded_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        LearnersExplorer(**wrong)


def test_the_key_of_a_panel_names_what_is_drawn_in_it():
    shown = LearnersExplorer()
    shown.take_apart()
    words = {name: shown.figures[name].layout.meta["subtitle"] for name in ("shares", "bytes")}
    assert "dense" not in words["shares"] and "if independent" in words["shares"]
    assert "dense" in words["bytes"] and "if independent" not in words["bytes"]
    assert all("own top-k" in text and "ScaleCom" in text for text in words.values())
