"""The explorer of clusters: every control over its whole range, presets, and numbers that are the simulator's."""

import math
from dataclasses import fields

import pytest

from lplab.hardware import Cluster, simulate
from lplab.widgets import ClusterExplorer
from lplab.widgets.explorers.cluster_explorer import (
    DEVICES,
    PRESETS,
    PUBLISHED,
    ClusterState,
    efficiencies,
    figures_by_name,
    summary,
)
from lplab.widgets.fields import preset_of


@pytest.fixture(scope="module")
def explorer():
    return ClusterExplorer()


def titles(explorer):
    return explorer.figure.alt, explorer.figure.layout.meta["title"]


def test_the_first_figure_makes_the_point():
    shown = ClusterExplorer()
    assert shown.figure.layout.meta["title"] == "64 devices do the work of 16.7 (26.1 %)"
    texts = " ".join(next(trace for trace in shown.figure.data if trace.name == "titles").text)
    assert "A step of 93.0 ms; devices wait 68.8 ms of it" in texts and shown.figure.layout.xaxis2.fixedrange is False
    assert "sends 101 MB a step" in shown.summary.value and shown.preset.value == "64 V100, 10 Gb/s"


CONTROLS = ("chip", "devices", "per_node", "gigabits", "microseconds", "recipe", "compressor", "overlap", "batch",
            "utilization")  # fmt: skip


@pytest.mark.parametrize("name", CONTROLS)
def test_every_control_reaches_its_ends_and_changes_the_figure(explorer, name):
    explorer.reset()
    control, seen = explorer.controls[name], set()
    for option in control.options:
        value = option[1] if isinstance(option, tuple) else option
        control.value = value
        assert getattr(explorer.position, name) == value and explorer.error_line.value == ""
        seen.add((titles(explorer), explorer.summary.value))
    assert len(seen) >= min(3, len(control.options))
    explorer.reset()
    assert control.value == getattr(ClusterState(), name)


def test_a_shared_update_is_a_checkbox(explorer):
    explorer.reset()
    before = explorer.summary.value
    explorer.controls["sharded"].value = True
    assert explorer.position.sharded and explorer.summary.value != before
    explorer.reset()


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_move_the_controls_and_are_recognized(explorer, preset):
    explorer.reset()
    explorer.preset.value = preset
    assert preset_of(explorer.position, PRESETS) == preset == explorer.preset.value
    assert explorer.controls["chip"].value == PRESETS[preset]["chip"]
    explorer.controls["batch"].value = 8
    assert explorer.preset.value == "(none)" or preset_of(explorer.position, PRESETS) == explorer.preset.value
    explorer.reset()


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_come_out_the_same_wherever_the_controls_stood(explorer, preset):
    assert set(PRESETS[preset]) == {field.name for field in fields(ClusterState)}
    explorer.reset()
    explorer.set(overlap=0.3, sharded=True, compressor="topk, 1 %", batch=8, utilization=0.1, devices=2)
    explorer.preset.value = preset
    assert explorer.position == ClusterState(**PRESETS[preset])
    explorer.reset()


def test_the_share_of_the_peak_is_a_control(explorer):
    explorer.reset()
    explorer.preset.value = "DDL 2017 (4 × 64 P100)"
    assert explorer.controls["utilization"].value == 0.42
    explorer.controls["utilization"].value = 0.5
    assert explorer.position.utilization == 0.5 and explorer.preset.value == "(none)"
    explorer.reset()


def test_two_curves_never_have_one_name():
    for settings in ({}, {"recipe": "32 bits"}, {"recipe": "32 bits", "sharded": True}):
        first, second = figures_by_name(ClusterState(**settings))["scaling"].data[:2]
        assert first.name != second.name


def test_megabytes_and_images_are_said_plainly():
    large = summary(ClusterState(workload="gpt", recipe="32 bits", chip="H100 (2022)"))
    assert "e+" not in large and "examples a second" in large
    assert "images a second" in summary(ClusterState())


@pytest.mark.parametrize("preset", PUBLISHED)
def test_published_points_stand_beside_the_model(preset):
    name, devices, share = PUBLISHED[preset]
    state = ClusterState(**PRESETS[preset])
    star = next(trace for trace in figures_by_name(state)["scaling"].data if trace.name == "published")
    assert (
        star.visible
        and star.y.tolist() == [share]
        and star.text.tolist() == [f"{name}, published: {100 * share:.0f} %"]
    )
    assert state.devices == devices and abs(state.simulation.efficiency - share) < 0.06
    assert math.isclose(state.simulation.single_seconds, 0.2, rel_tol=0.03), "computing takes what they measured"
    other = next(trace for trace in figures_by_name(ClusterState())["scaling"].data if trace.name == "published")
    assert not other.visible


@pytest.mark.parametrize("settings", [{}, {"per_node": 8, "devices": 256}, {"compressor": "scalecom", "sharded": True}])
def test_copied_code_gives_the_step_of_the_figure(settings):
    state = ClusterState(**settings)
    found = eval(state.code, {"simulate": simulate, "Cluster": Cluster})
    assert found.step_seconds == state.simulation.step_seconds and found.memory == state.simulation.memory


def test_the_curve_goes_through_the_simulated_step():
    for devices in (1, 8, 4096):
        state = ClusterState(devices=devices, per_node=8, gigabits=100.0)
        assert math.isclose(efficiencies(state)[DEVICES.index(devices)], state.simulation.efficiency)


def test_what_does_not_fit_is_said():
    state = ClusterState(chip="P100 (2016)", recipe="32 bits", batch=32, workload="gpt")
    assert not state.simulation.fits and "too much" in summary(state)


def test_copying_shows_the_code(explorer):
    explorer.copy_button.click()
    assert (
        explorer._control_group.clipboard["text"] == explorer.copied_code(explorer.position)
        and "simulate(" in explorer.code_line.value
    )
    explorer.set(devices=8)
    assert "8, " in explorer.code_line.value
    explorer.reset()


@pytest.mark.parametrize(("wrong", "message"), [
    ({"chip": "V200"}, "chip must be one of P100"),
    ({"devices": 3}, "devices must be one of 1, 2, 4"),
    ({"gigabits": -1.0}, "gigabits must be one of"),
    ({"overlap": 2.0}, "overlap must be one of"),
    ({"utilization": 0.43}, "utilization must be one of 0.1, 0.2"),
    ({"workload": "resnet5"}, "did you mean resnet50"),
])  # fmt: skip
def test_values_that_are_not_allowed_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        ClusterExplorer(**wrong)
