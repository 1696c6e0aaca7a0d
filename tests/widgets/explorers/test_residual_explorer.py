"""The explorer of residues: every control over its whole range, and the numbers are the recording's."""

from itertools import product

import numpy as np
import pytest

from lplab.compression import AdaComp, TopK
from lplab.recordings.adacomp_runs import adacomp_recording
from lplab.widgets import ResidualExplorer, live_adacomp
from lplab.widgets.explorers import residual_explorer as rs


@pytest.fixture(scope="module")
def explorer():
    return ResidualExplorer()


def test_the_first_figure_makes_the_point():
    shown = ResidualExplorer()
    title = shown.figures["history"].layout.meta["title"]
    assert title == "Bins of 50 | 500: convolution sends 6.2 %, holds 2.2 gradients"
    assert "step 30" in shown.figures["bins"].layout.meta["title"]
    assert "without compression 0.05" in shown.summary.value


@pytest.mark.parametrize("name", ["bin", "factor", "layer", "moment"])
def test_every_position_of_every_control_changes_the_figure(explorer, name):
    explorer.reset()
    control = explorer.controls[name]
    values = [v[1] if isinstance(v, tuple) else v for v in control.options]
    seen = set()
    for value in values:
        control.value = value
        assert getattr(explorer.position, name) == value and explorer.error_line.value == ""
        seen.add((explorer.figures["history"].layout.meta["title"], explorer.figures["bins"].alt, explorer.table.value))
    assert len(seen) == len(values)
    explorer.reset()
    assert control.value == getattr(rs.ResidualState(), name)


def test_every_pair_of_run_and_layer_can_be_drawn():
    for bin in rs.bins():
        for factor in rs.FACTORS.values():
            for layer in adacomp_recording().layers:
                state = rs.ResidualState(bin, factor, layer, 237)
                assert rs.history_figure(state).layout.meta["alt"].endswith(".") and "%" in rs.summary(state)
                assert len(rs.bins_figure(state).data) == 7 and len(rs.table(state)) == 3


def test_steps_of_a_run_share_an_axis_that_holds_all_of_them():
    steps = [rs.bins_figure(rs.ResidualState(moment=moment)) for moment in adacomp_recording().moments]
    (shared,) = {fig.layout.yaxis.range for fig in steps}
    alone = max(float(np.nanmax(trace.y)) for fig in steps for trace in fig.data if len(trace.y))
    assert shared[1] > alone > 1


def test_the_lower_figure_begins_with_a_bin_that_sends():
    recorded, moved = adacomp_recording(), 0
    for bin, layer, moment in product((1, 5, 20, 50, 100), recorded.layers, recorded.moments):
        state = rs.ResidualState(bin=bin, layer=layer, moment=moment)
        fig, window = rs.bins_figure(state), recorded.window(layer, moment, *state.run)
        start = int(fig.layout.xaxis.ticktext[0].replace(",", ""))
        moved += start > 0
        assert start % bin == 0 and not (window.sent.any() and "none of" in fig.layout.meta["title"])
        sent = next(trace for trace in fig.data if trace.name == "sent")
        assert all(window.sent[int(element)] for element in sent.customdata[:, 2])
    assert moved, "in some of them the first bins send nothing"


def test_one_element_is_one():
    assert "of a bin 1 element is sent" in rs.summary(rs.ResidualState(bin=50, factor=1.0))
    assert "1 of the first 500 elements is sent" in rs.bins_figure(rs.ResidualState(layer="dense")).layout.meta["title"]


def test_without_ties_the_maximum_of_a_bin_is_one_element_also_in_bins_that_end_early():
    summary = rs.summary(rs.ResidualState(bin=5000, factor=1.0))
    assert "of a bin 1 element is sent on average, 0 % of the bins send nothing" in summary


def test_presets_put_the_controls_there(explorer):
    for name, button in explorer.preset_buttons.items():
        button.click()
        for field, value in rs.PRESETS[name].items():
            assert getattr(explorer.position, field) == value == explorer.controls[field].value
    explorer.reset_button.click()
    assert explorer.position == rs.ResidualState()


@pytest.mark.parametrize("position", [{}, {"bin": 20, "factor": 1.0, "layer": "dense", "moment": 120}])
def test_copied_code_gives_the_numbers_of_the_figure(explorer, position, capsys):
    explorer.reset()
    explorer.set(**position)
    explorer.copy_button.click()
    assert (
        explorer._control_group.clipboard["text"] == explorer.copied_code(explorer.position)
        and explorer.code_line.value
    )
    exec(explorer.copied_code(explorer.position), {})
    state = explorer.position
    history = adacomp_recording().history(state.layer, *state.run)
    share, held, *_ = capsys.readouterr().out.split()
    assert (
        float(share) == pytest.approx(float(history.share[state.point])) and history.steps[state.point] == state.moment
    )
    assert float(held) == pytest.approx(float(history.residual_ratio[state.point]))
    assert rs.table(state)[1][1] == rs.ratio_text(history.compression_ratios(state.point).payload)
    explorer.reset()


def test_a_wrong_value_is_seen(explorer):
    explorer.reset()
    with pytest.raises(ValueError, match="unknown bin 7"):
        explorer.set(bin=7)
    explorer.reset()


@pytest.mark.parametrize(("wrong", "message"), [
    ({"bin": 3}, "unknown bin 3; allowed: 50 | 500, 1"),
    ({"factor": 3.0}, "unknown factor 3.0; allowed: 2.0, 1.0|unknown factor 3.0; allowed: "),
    ({"layer": "stem"}, "unknown layer 'stem'; allowed: convolution"),
    ({"moment": 4}, "unknown moment 4; allowed: 3, 30"),
])  # fmt: skip
def test_values_that_are_not_allowed_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message.replace("50 | 500", r"50 \| 500")):
        ResidualExplorer(**wrong)


def test_a_live_run_draws_all_layers_and_stops():
    run = live_adacomp(AdaComp(bin=100), steps=40, name="residues, tested")
    assert run.figure.layout.meta["title"] == "Not started yet"
    run.start()
    run.stop()
    run.wait(120)
    done = len(run.result())
    assert run.state == "stopped" and 1 <= done < 40
    assert run.figure.layout.meta["title"].startswith(f"Step {done} of 40: loss 2.3")
    assert [len(trace.x) for trace in run.figure.data[:8]] == [done] * 8


@pytest.mark.parametrize(("make", "error", "message"), [
    (lambda: live_adacomp(TopK(0.1)), TypeError, "must be an AdaComp, got TopK"),
    (lambda: live_adacomp(layer="stem"), ValueError, "no layer 'stem'"),
    (lambda: live_adacomp(steps=0), ValueError, "steps"),
])  # fmt: skip
def test_what_cannot_run_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
