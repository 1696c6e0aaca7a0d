"""The explorer of stored trainings: every control moves what it says, and the numbers are those that are stored."""

import numpy as np
import pytest

from lplab import claims, training
from lplab.claims.papers.gupta_2015 import GUPTA_2015, RULES, SETTINGS
from lplab.widgets import TrainingExplorer
from lplab.widgets.explorers.training_explorer import TrainingState, summary


@pytest.fixture(scope="module")
def results():
    return claims.stored(GUPTA_2015).results(GUPTA_2015)


def test_the_first_figure_makes_the_point():
    explorer = TrainingExplorer()
    figure = explorer.figures["errors"]
    assert figure.layout.annotations[0].text.startswith("5 seeds · measured 20")
    assert any(
        "lplab claims run gupta_2015" in getattr(part, "value", "")
        for part in explorer.children[0].children[1].children
    )
    alt = figure.layout.meta["alt"]
    assert "stochastic" in alt and figure.layout.shapes[0].x0 == 6
    shown = explorer.results.median("test_error", setting="one format", rounding="nearest_down", fraction_bits=6)
    assert f"{shown:.0f} % wrong" in explorer.summary.value


def test_every_control_changes_what_it_says(results):
    explorer = TrainingExplorer()
    explorer.controls["setting"].value = "20 bits"
    assert explorer.controls["fraction_bits"].max == 18
    explorer.controls["fraction_bits"].value = 18
    explorer.controls["rule"].value = "stochastic"
    errors, losses = (explorer.figures[name] for name in ("errors", "losses"))
    assert errors.layout.shapes[0].x0 == losses.layout.shapes[0].x0 == 18
    assert errors.layout.title.text.startswith("FL 18: ") and errors.layout.meta["title"].startswith("FL 18: ")
    expected = [
        results.median("outputs_saturated", **explorer.position.point | {"fraction_bits": b}) for b in range(4, 19)
    ]
    np.testing.assert_allclose(losses.data[3].y, 100 * np.array(expected))
    explorer.boxes["nearest_even"].value = False
    names = [trace.name for trace in errors.data if trace.visible is not False]
    assert "stochastic" in names and "nearest (ties to even)" not in names


def test_fraction_bits_follow_what_was_measured():
    explorer = TrainingExplorer(setting="20 bits", fraction_bits=18)
    explorer.set(setting="one format")
    assert explorer.position.fraction_bits == explorer.controls["fraction_bits"].value == 14
    explorer.reset()
    assert (explorer.position.setting, explorer.controls["fraction_bits"].value) == ("20 bits", 18)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("rule", RULES)
def test_the_statement_and_the_code_tell_the_stored_run(results, setting, rule):
    state = TrainingState(setting, rule=rule, fraction_bits=9)
    names = {"train_fixed_point": lambda run: run, "FixedPointConfig": training.FixedPointConfig}
    assert eval(state.code.removesuffix(".numbers()"), names) == state.run
    errors = results.values("test_error", **state.point)
    assert f"({errors.min():.1f} to {errors.max():.1f} over 5 seeds)" in summary(results, state)


def test_copying_shows_the_code():
    explorer = TrainingExplorer(rule="stochastic", fraction_bits=8)
    explorer.copy_button.click()
    assert explorer._control_group.clipboard["text"] == explorer.copied_code(explorer.position)
    explorer.set(fraction_bits=9)
    assert "fraction_bits=9" in explorer.code_line.value


def test_the_live_button_trains_what_the_controls_say():
    explorer = TrainingExplorer(setting="gradient first", fraction_bits=10)
    runs = explorer.runs()
    assert len(runs) == 5 and runs["floating point"].fraction_bits is None
    assert runs["floor(x + ½)"] == TrainingState("gradient first", rule="nearest_up", fraction_bits=10).run
    run = explorer.live()
    assert run.state == "ready" and run.progress.max == 60


def test_unknown_positions_are_refused():
    with pytest.raises(ValueError, match="unknown setting '16'; allowed: one format"):
        TrainingExplorer(setting="16")
    with pytest.raises(ValueError, match="unknown rule"):
        TrainingExplorer().set(rule="coin")


def test_without_stored_results_it_says_how_to_get_them(monkeypatch):
    monkeypatch.setattr("lplab.claims.stored", lambda claim: claims.Stored({}))
    with pytest.raises(ValueError, match="run lplab claims run gupta_2015"):
        TrainingExplorer()
