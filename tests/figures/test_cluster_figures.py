"""Figures of clusters: timelines that add up, curves with published points apart, rings and buckets."""

import numpy as np
import pytest

from lplab import figures
from lplab.figures import style
from lplab.figures.cluster_scaling import ScalingCurve
from lplab.figures.device_timeline import DETAILS, STYLES, rounded_up
from lplab.figures.sweep_curves import FAMILIES
from lplab.hardware import Cluster, simulate, sweep

pytest.importorskip("pandas")
STEP = simulate("resnet18", Cluster("v100", 16, "10Gb/s, 50us"), precision="fp16_mixed", compressor="scalecom")


@pytest.mark.parametrize("detail", DETAILS)
def test_a_timeline_has_the_seconds_of_the_step(detail):
    fig = figures.device_timeline(STEP, 2, detail=detail)
    lengths = {trace.name: trace.x[trace.y == 0].sum() for trace in fig.data if trace.visible}
    assert lengths["forward"] == pytest.approx(1e3 * STEP.times.forward.item())
    assert sum(lengths.values()) == pytest.approx(1e3 * STEP.step_seconds)
    network = sum(trace.x[trace.y == 2].sum() for trace in fig.data if trace.visible)
    assert network == pytest.approx(1e3 * STEP.communication_seconds)
    ends = max((trace.base + trace.x).max() for trace in fig.data if trace.visible)
    assert ends == pytest.approx(1e3 * STEP.step_seconds) and ends <= fig.layout.xaxis.range[1]


def test_a_timeline_can_be_zoomed_and_tells_kinds_apart_without_colour():
    fig = figures.device_timeline(STEP)
    assert fig.layout.dragmode == "zoom" and fig.layout.xaxis.fixedrange is False
    assert len({look[:2] for look in STYLES.values()}) == len(STYLES)
    same = [
        a for a in STYLES for b in STYLES if a < b and STYLES[a][0] == STYLES[b][0] and STYLES[a][1] == STYLES[b][1]
    ]
    assert not same and "modelled" in fig.layout.meta["alt"]


def test_timelines_of_one_size_update_each_other():
    other = simulate("resnet18", Cluster("v100", 16, "100Gb/s, 1us"), precision="fp16_mixed")
    live = figures.update(figures.device_timeline(STEP), figures.device_timeline(other))
    assert live.layout.meta["title"] == figures.device_timeline(other).layout.meta["title"]


def test_layers_are_many_and_buckets_are_few():
    bars = [sum(len(trace.x) for trace in figures.device_timeline(STEP, 1, detail=d).data) for d in DETAILS]
    assert bars[0] < 40 < bars[1]
    with pytest.raises(ValueError, match="allowed: buckets, layers"):
        figures.device_timeline(STEP, detail="bits")


@pytest.mark.parametrize("seconds", [1e-6, 0.0121, 0.1, 0.99, 7.0, 480.0])
def test_the_axis_ends_at_a_round_number_not_far_beyond(seconds):
    assert seconds <= rounded_up(seconds) <= 1.6 * seconds


def test_the_axis_of_the_timeline_can_be_fixed():
    assert figures.device_timeline(STEP, until_seconds=0.5).layout.xaxis.range[1] == 500


def test_modelled_and_published_differ_by_shape_and_word():
    curve = ScalingCurve("mine", [1, 4, 16], [1, 0.9, 0.8])
    fig = figures.scaling([curve], chosen=4, published=[("DDL", 16, 0.85)])
    lines, here, stars = fig.data[0], fig.data[1], fig.data[2]
    assert stars.mode == "markers+text" and "published" in stars.text[0] and lines.marker.symbol != stars.marker.symbol
    assert "modelled" in lines.hovertemplate and here.x.tolist() == [2.0] and here.y.tolist() == [0.9]
    assert "Published: DDL, 16 devices, 85%" in fig.layout.meta["alt"] and "mine: 90 %" in fig.layout.meta["title"]


def test_many_curves_need_families_and_names_stand_apart():
    curves = [ScalingCurve(f"c{i}", [1, 1024], [1, 0.001 * i], 0) for i in range(8)]
    with pytest.raises(ValueError, match="name their families; got 8"):
        figures.scaling(curves)
    names = figures.scaling(curves, families=["all"]).data[-1]
    assert np.diff(names.y).min() > 0.05 and names.text.tolist() == [f"c{i}" for i in range(8)]
    leaders = figures.scaling(curves, families=["all"]).data[-2]
    assert leaders.y[0::3].tolist() == [0.001 * i for i in range(8)] and leaders.y[1::3].tolist() == names.y.tolist()
    assert len(figures.scaling(curves[:2]).data) == len(figures.scaling(curves, families=["all"]).data) - 8
    high = [ScalingCurve(f"c{i}", [1, 1024], [1, 1 - 0.001 * i], 0) for i in range(8)]
    top = figures.scaling(high, families=["all"]).data[-1]
    assert top.y.max() <= 1.04 and np.diff(top.y).min() > 0.05


def test_a_sweeps_curves_are_its_numbers():
    names = ["none", "topk", "scalecom", "efsign", "randomk"]
    frame = sweep("resnet18", devices=[1, 8, 64], compressor=names, chip="a100")
    fig = figures.sweep_curves(frame)
    lines = {trace.name: trace for trace in fig.data[:5]}
    assert list(lines) == names
    for name, line in lines.items():
        assert line.y.tolist() == frame[frame.compressor == name].efficiency.tolist()
    dash = {name: line.line.dash for name, line in lines.items()}
    assert dash["topk"] == dash["efsign"] != dash["scalecom"] == dash["randomk"] != dash["none"]
    assert all(family in fig.layout.meta["subtitle"] for family in FAMILIES)
    two = figures.sweep_curves(
        sweep("resnet18", devices=[1, 8], precision=["fp32", "bf16"], batch=[8, 16], chip="a100")
    )
    assert two.data[0].name == "fp32, batch 8"
    frame["fits"] = frame["devices"] > 1  # sharded weights fit where there are enough devices
    assert [trace.name for trace in figures.sweep_curves(frame).data[:5]] == names
    with pytest.raises(ValueError, match="two numbers of devices"):
        figures.sweep_curves(sweep("resnet18", batch=[8, 16]))


def test_a_ring_of_many_steps_goes_on_in_the_next_line():
    """Eleven panels of six columns in one line were 8 pixels a cell in a window of 820, with numbers of 6."""
    held = np.arange(11 * 36).reshape(11, 6, 6)
    cells, names = figures.ring_steps(held, messages=60).data
    assert np.shape(cells.z) == (2 * 7, 6 * 7)
    assert [cells.z[1][0], cells.z[7 + 6][4 * 7 + 5]] == [0, 11 * 36 - 1]
    assert cells.z[7 + 1][5 * 7] is None and cells.hovertext[7 + 6][4 * 7 + 5] == "step 9, rank 5, part 5"
    assert names.text[6] == "step 5" and (names.x[6], names.y[6]) == (names.x[0], 7)
    fig = figures.ring_steps(np.ones((61, 50, 50), int), messages=60)
    assert np.shape(fig.data[0].z) == (61 * 51, 51), "panels wider than a line stand alone"


def test_rings_and_buckets():
    held = [[[1, 1], [1, 1]], [[1, 2], [2, 1]], [[2, 2], [2, 2]]]
    whole, half = figures.ring_steps(held, messages=4), figures.ring_steps(held[:2], messages=2)
    assert "all 2 ranks have the whole sum" in whole.layout.meta["title"]
    assert "0 of 2 ranks have the whole sum" in half.layout.meta["title"] and whole.data[0].zmax == 2
    cells, names = whole.data
    assert np.array(cells.z, float)[1:, :2].tolist() == [[1, 1], [1, 1]] and set(cells.z[0]) == {None}
    assert cells.hovertext[2][4] == "step 0, rank 1, part 1" and cells.z[2][4] == 1
    assert names.text.tolist() == ["start", "step 0", "step 1"] and names.y.tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="steps \\+ 1, ranks, parts"):
        figures.ring_steps([1], messages=0)
    fig = figures.bucket_times([1, 2, 4], [3, 1, 2], [3, 1, 9], backward_seconds=1.0)
    assert "agrees at 2 of 3" in fig.layout.meta["title"] and fig.data[3].x.tolist() == [2.0]
    assert fig.data[2].marker.symbol != fig.data[3].marker.symbol and fig.data[1].line.color == style.GREEN
    nobody = figures.bucket_times([1, 2], [3, 1], [np.nan, np.nan], backward_seconds=1.0)
    assert "agrees at 0 of 2" in nobody.layout.meta["title"] and nobody.layout.yaxis.range[1] == pytest.approx(3450)
    with pytest.raises(ValueError, match="of one length"):
        figures.bucket_times([1, 2], [1.0], [1.0, 2.0], backward_seconds=1.0)


def test_curves_whose_lengths_differ_are_refused():
    with pytest.raises(ValueError, match="of one length"):
        ScalingCurve("x", [1, 2], [1.0])
