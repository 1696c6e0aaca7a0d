"""The explorer of recorded gradients: every control over its range, presets, files of one's own, what it says."""

import numpy as np
import pytest

from lplab import formats as F
from lplab.figures.range_outcomes import range_outcomes
from lplab.figures.window import window
from lplab.recordings.magnitudes import Recording, recorded
from lplab.training import Recorder, tasks
from lplab.widgets import RangeExplorer
from lplab.widgets.explorers import range_explorer as rs
from tests.kinds import one_in_three


def title(explorer, figure="histogram"):
    return explorer.figures[figure].layout.meta["title"]


@pytest.fixture(scope="module")
def recorder():
    seen = Recorder(every=4)
    tasks.get("mlp").trainer("fp32", recorder=seen).run(9, progress=False)
    return seen


def test_the_first_figure_makes_the_point():
    explorer = RangeExplorer()
    assert title(explorer) == "fp16, no loss scale: 29.8 % become zero, nothing overflows"
    assert explorer.summary.value.startswith("Scores (block 2), output gradients, step 1,000, in fp16")
    assert "No layer overflows here up to a loss scale of 2²¹" in explorer.summary.value
    assert explorer.controls["layer"].value == rs.SCORES and explorer.preset.value == "fp16, no loss scale"


@pytest.mark.parametrize("name", one_in_three(rs.FORMATS))
def test_every_format_over_the_whole_range_of_scales(name):
    explorer = RangeExplorer(format=name)
    before = -1.0
    for _, scale in explorer.controls["scale"].options:
        explorer.controls["scale"].value = scale
        fates = range_outcomes(explorer.position.magnitudes, window(F.get(rs.FORMATS[name])), scale)
        assert fates.overflowed >= before  # a larger scale never overflows less
        before = fates.overflowed
        bars = sum(bar.y.sum() for bar in explorer.figures["histogram"].data[:4] if bar.y is not None)
        assert bars == pytest.approx(100)


@pytest.mark.parametrize("label", rs.RECORDINGS)
def test_every_role_layer_and_step_can_be_chosen(label):
    explorer = RangeExplorer()
    explorer.controls["recording"].value = label
    for _, role in explorer.controls["role"].options:
        explorer.controls["role"].value = role
        for _, layer in explorer.controls["layer"].options[:4]:
            explorer.controls["layer"].value = layer
            assert explorer.position.layer == layer and explorer.position.role == role
    for _, step in explorer.controls["step"].options:
        explorer.controls["step"].value = step
        assert f"step {step:,}" in explorer.summary.value
    explorer.controls["rows"].value = rs.STEPS
    rows = explorer.figures["map"].layout.yaxis.ticktext
    assert len(rows) == len(explorer.position.recording.steps) and rows[-1] == f"<b>step {step:,}</b>"


def test_the_largest_scale_is_the_largest():
    state = rs.RangeState()
    limit = rs.largest_safe_scale(state)
    everything = state.recording.magnitudes(None, state.role, state.step)
    assert range_outcomes(everything, state.window, limit).overflowed == 0
    assert range_outcomes(everything, state.window, limit + 1).overflowed > 0


def test_above_the_largest_scale_the_first_layer_to_overflow_is_named():
    explorer = RangeExplorer(scale=rs.largest_safe_scale(rs.RangeState()))
    assert "No layer overflows here up to a loss scale of 2²¹" in explorer.summary.value
    explorer.set(scale=32)
    assert "No layer overflows" not in explorer.summary.value
    assert "Above 2²¹ layers overflow, position embedding first." in explorer.summary.value
    assert title(explorer, "map").startswith("fp16, loss scale 2³²: position embedding overflows")


def test_presets_set_format_and_scale_and_follow_the_controls():
    explorer = RangeExplorer()
    for name, preset in rs.PRESETS.items():
        explorer.preset.value = name
        assert (explorer.position.format, explorer.position.scale) == (preset["format"], preset["scale"])
    explorer.controls["scale"].value = 3
    assert explorer.preset.value == "(none)"
    explorer.reset_button.click()
    assert explorer.position.scale == 0 and explorer.preset.value == "fp16, no loss scale"


@pytest.mark.parametrize("label", rs.RECORDINGS)
def test_the_code_gives_the_numbers(label):
    explorer = RangeExplorer(scale=4)
    explorer.set(recording=label)
    explorer.copy_button.click()
    text = explorer._control_group.clipboard["text"]
    *lines, last = text.splitlines()
    exec("\n".join(lines), names := {})
    shares = eval(last, names)
    np.testing.assert_array_equal(
        shares, range_outcomes(explorer.position.magnitudes, explorer.position.window, 4).shares
    )
    explorer.set(scale=5)
    assert ", 5).shares" in explorer.code_line.value


def test_a_recorder_a_recording_and_a_path_are_shown(recorder, tmp_path):
    path = Recording.of(recorder).save(tmp_path / "mine.npz")
    for given in (recorder, Recording.of(recorder), path, str(path)):
        explorer = RangeExplorer(given)
        assert explorer.controls["recording"].value == rs.OWN and explorer.position.layer == rs.ALL
        assert explorer.position.step == 8 and "output gradients" in explorer.summary.value
    explorer.set(recording="Transformer")
    explorer.reset()
    assert explorer.controls["recording"].value == rs.OWN


def test_a_file_is_loaded_by_its_name_and_what_is_wrong_is_said(recorder, tmp_path):
    explorer = RangeExplorer()
    explorer.path.value = str(tmp_path / "gone.npz")
    assert "there is no file gone.npz" in explorer.message.value and explorer.position == explorer._start
    explorer.path.value = str(recorder.save(tmp_path / "mine.npz"))
    assert explorer.message.value == "" and explorer.controls["recording"].value == rs.OWN
    (tmp_path / "bad.npz").write_text("x")
    explorer.path.value = str(tmp_path / "bad.npz")
    assert "bad.npz is no recording" in explorer.message.value and explorer.error_line.value == ""
    explorer.load_button.click()
    explorer.reset()
    assert explorer.path.value == "" and explorer.message.value == ""


def test_what_cannot_be_shown_is_refused():
    with pytest.raises(TypeError, match="a Recording, a Recorder or the path"):
        RangeExplorer(3)
    with pytest.raises(ValueError, match="at least one record"):
        RangeExplorer(Recorder())
    with pytest.raises(FileNotFoundError, match=r"^there is no file bf16.*; did you mean format='bf16'\?$"):
        RangeExplorer("bf16")
    with pytest.raises(FileNotFoundError, match=r"^there is no file gone\.npz[^;]*$"):
        RangeExplorer("gone.npz")
    with pytest.raises(ValueError, match="there are: Transformer, residual net"):
        RangeExplorer().set(recording="mine")


@pytest.mark.parametrize(("wrong", "message"), [
    ({"format": "fp13"}, "unknown format"),
    ({"rows": "columns"}, "unknown rows"),
    ({"scale": 33}, "from −?-?16 to 32"),
    ({"scale": 2.0}, "whole number"),
    ({"layer": "nose"}, "of layer 'nose'"),
    ({"step": 7}, "step 7 was not recorded"),
    ({"role": "taste"}, "there are: "),
])  # fmt: skip
def test_values_that_are_not_allowed_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        rs.RangeState(**wrong)


def test_a_layer_without_this_role_gives_way_to_all():
    state = rs.RangeState().changed(role="weight")
    assert state.layer == rs.ALL and state.step == 1000
    assert state.changed(recording=recorded("digits_resnet")).step == 400
