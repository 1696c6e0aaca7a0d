"""Recorded magnitudes under a window: shares against exact counts, figures that stay while controls move."""

import numpy as np
import pytest

from lplab import figures
from lplab import formats as F
from lplab.figures import LossScaleHistory
from lplab.figures.range_outcomes import OCTAVES, describe, range_outcomes, window_edges
from lplab.figures.window import window
from lplab.recordings.magnitudes import BINS, LOWEST, MagnitudeCounts, recorded

RNG = np.random.default_rng(3)
TENSOR = (RNG.standard_normal(20_000) * np.exp2(RNG.uniform(-40, -5, 20_000))).astype(np.float32)
FP16 = window(F.get("fp16"))


def magnitudes(x):
    """What a recorder keeps of a tensor."""
    size = np.abs(x[x != 0]).astype(np.float64)
    counts = np.bincount(np.frexp(size)[1] - 1 - LOWEST, minlength=BINS)
    return MagnitudeCounts(counts, int((x == 0).sum()), float(size.max()))


@pytest.mark.parametrize("scale", [-6, 0, 8, 16, 24, 30])
def test_shares_in_fp16_are_those_of_the_tensor(scale):
    """All edges of fp16 but the upper one, 65520, lie between bins."""
    outcomes = range_outcomes(magnitudes(TENSOR), FP16, scale)
    rounded = F.get("fp16").quantize(TENSOR.astype(np.float64) * 2.0**scale)
    assert outcomes.lost == pytest.approx(np.mean(rounded == 0), abs=1e-12)
    assert outcomes.overflowed == pytest.approx(np.mean(np.isinf(rounded)), abs=1e-3)
    assert outcomes.shares.sum() == pytest.approx(1)
    small = np.abs(TENSOR.astype(np.float64) * 2.0**scale) < 2.0**-14
    assert outcomes.shares[:2].sum() == pytest.approx(small.mean(), abs=1e-12)


@pytest.mark.parametrize("name", ["bf16", "dlfloat16", "fp8_152", "hfp8_forward", "e5m2", "e4m3fn", "e2m1", "int8"])
@pytest.mark.parametrize("scale", [0, 10, 20])
def test_shares_of_other_formats_are_near(name, scale):
    """An octave that an edge splits is split evenly: wrong by a part of one of some forty octaves at most."""
    outcomes = range_outcomes(magnitudes(TENSOR), window(F.get(name)), scale)
    rounded = F.get(name).quantize(TENSOR.astype(np.float64) * 2.0**scale)
    assert outcomes.lost == pytest.approx(np.mean(rounded == 0), abs=0.01)


def test_what_ends_below_the_edge_does_not_overflow():
    x = np.array([1.0, 1.9, 300.0])  # e4m3fn ends at 464, within the octave from 256 on
    assert range_outcomes(magnitudes(x), window(F.get("e4m3fn"))).overflowed == 0
    assert range_outcomes(magnitudes(np.array([1.0, 511.0])), window(F.get("e4m3fn"))).overflowed > 0


def test_lost_length_is_near_the_tensors_own():
    outcomes = range_outcomes(magnitudes(TENSOR), FP16, -8)
    kept = F.get("fp16").quantize(TENSOR.astype(np.float64) * 2.0**-8) != 0
    own = np.linalg.norm(TENSOR[~kept].astype(np.float64)) / np.linalg.norm(TENSOR.astype(np.float64))
    assert own / 2 < outcomes.lost_length < own * 2  # a bin's elements lie within a factor of two


def test_an_empty_tensor_loses_nothing():
    nothing = MagnitudeCounts(np.zeros(BINS, np.int64), 7, 0.0)
    outcomes = range_outcomes(nothing, FP16)
    assert (
        outcomes.lost == outcomes.lost_length == 0 and describe(outcomes) == "nothing becomes zero, nothing overflows"
    )
    assert "7 more are zero" in figures.gradient_range(nothing, FP16, name="fp16").layout.title.text


def test_a_format_without_subnormals_has_no_such_range():
    zero, normal, _ = window_edges(window(F.get("dlfloat16")))
    assert zero == normal
    fig = figures.gradient_range(magnitudes(TENSOR), window(F.get("dlfloat16")), name="1-6-9")
    assert [shape.visible for shape in fig.layout.shapes] == [True, False, True, False]  # it ends beyond the axis


def test_the_scale_moves_the_bars_and_nothing_else():
    one, other = (figures.gradient_range(magnitudes(TENSOR), FP16, k, name="fp16") for k in (0, 8))
    assert one.layout.yaxis.range == other.layout.yaxis.range and one.layout.xaxis.range == other.layout.xaxis.range
    assert [s.x0 for s in one.layout.shapes] == [s.x0 for s in other.layout.shapes]
    middles = [sum((bar.x * bar.y).sum() for bar in fig.data[:4]) / 100 for fig in (one, other)]
    assert middles[1] - middles[0] == pytest.approx(8, abs=0.01)  # the outermost bar holds a few
    assert sum(bar.y.sum() for bar in other.data[:4]) == pytest.approx(100)
    figures.update(one, other)
    assert "loss scale 2⁸" in one.layout.meta["title"] and one.layout.xaxis.title.text.startswith("loss scale × ")


def test_what_lies_beyond_the_axis_counts_in_the_outermost_bars():
    far = MagnitudeCounts(np.eye(1, BINS, 10, dtype=np.int64)[0], 0, 2.0**-85.5)
    fig = figures.gradient_range(far, FP16, name="fp16")
    assert list(fig.data[0].x) == [OCTAVES[0] + 0.5] and list(fig.data[0].y) == [100]


def test_the_map_tells_every_row_and_outlines_one():
    recording, role = recorded("digits_resnet"), "output_gradient_dx"
    rows = [(layer, recording.magnitudes(layer, role, 400)) for layer in recording.layers(role)]
    fig = figures.range_map(rows, FP16, name="fp16", chosen=2)
    assert list(fig.layout.yaxis.ticktext[1:3]) == [rows[1][0], f"<b>{rows[2][0]}</b>"]
    assert (fig.layout.shapes[-1].y0, fig.layout.shapes[-1].y1) == (1.5, 2.5)
    assert len(fig.data[2].text) == len(rows) + 1 and fig.data[2].text[-1] == "31.6 %"
    assert fig.layout.meta["title"] == "fp16, no loss scale: head loses most, 31.6 %"
    for label, _ in rows:
        assert f"{label}: " in fig.layout.meta["alt"]
    others, chosen = fig.data[:2]
    assert np.isnan(others.x).sum() == len(rows) - 1 and np.isnan(chosen.x).sum() == 1
    assert np.nanmax(chosen.y) == 2 and np.nanmin(chosen.y) >= 0.5
    up = figures.range_map(rows, FP16, 30, name="fp16", chosen=2)
    assert "overflows" in up.layout.meta["title"]
    assert list(up.data[0].text) == list(others.text) and np.array_equal(up.data[0].y, others.y, equal_nan=True)


def test_the_columns_of_a_map_have_room_on_a_phone():
    layout = figures.range_map([("a", magnitudes(np.ones(9)))], FP16, name="fp16").layout
    (left, right), (low, high) = layout.xaxis2.domain, layout.xaxis2.range
    plot, share, nothing = 195, 38, 6  # pixels: between the margins of a figure of 358; of "29.8 %"; of "0"
    unit = (right - left) * plot / (high - low)
    assert -low * unit >= share / 2 - 2 and unit >= (share + nothing) / 2 + 2  # elements over an edge by 2 are shown


def test_a_map_without_a_chosen_row_outlines_none_and_says_what_is_alike():
    rows = [(name, magnitudes(np.full(9, size))) for name, size in (("a", 2.0**-60), ("b", 2.0**-50))]
    fig = figures.range_map(rows, FP16, name="fp16", chosen=None)
    assert fig.layout.meta["title"] == "fp16, no loss scale: every row loses 100 %"
    assert not fig.layout.shapes[-1].visible and "<b>" not in "".join(fig.layout.yaxis.ticktext)
    assert np.isnan(fig.data[0].x).sum() == 2 and not len(fig.data[1].x)
    large = [("c", magnitudes(np.array([1.0, 2.0**20]))), ("d", magnitudes(np.array([1.0, 1.0, 2.0**20]))), *rows]
    assert figures.range_map(large, FP16, name="fp16").layout.meta["title"].endswith(": c overflows most, 50.0 %")
    assert figures.range_map(large[1:], FP16, name="fp16").layout.meta["title"].endswith(": d overflows, 33.3 %")


@pytest.mark.parametrize(
    ("rows", "chosen"), [([], 0), ([("a", magnitudes(TENSOR))], 1), ([("a", magnitudes(TENSOR))], -1)]
)
def test_a_map_needs_the_row_that_it_outlines(rows, chosen):
    with pytest.raises(ValueError, match="chosen must be one of"):
        figures.range_map(rows, FP16, name="fp16", chosen=chosen)


def test_courses_of_the_loss_scale():
    yours = LossScaleHistory("yours", [8.0, 4.0, 4.0], [True, False, False])
    fig = figures.loss_scale_history([yours, LossScaleHistory("library", [], [])], steps=10)
    assert fig.layout.meta["alt"] == "Loss scale after 3 of 10 steps: yours 2², 1 step left out; library."
    assert list(fig.data[0].y) == [3, 2, 2] and list(fig.data[1].x) == [1] and len(fig.data[2].x) == 0
    assert fig.layout.xaxis.range == (0, 10.5)


@pytest.mark.parametrize(("scales", "skipped"), [([1.0], []), ([0.0], [True]), ([float("inf")], [True])])
def test_scales_that_are_none_are_refused(scales, skipped):
    with pytest.raises(ValueError, match="positive numbers, one for each step"):
        LossScaleHistory("x", scales, skipped)


def test_one_or_two_courses_share_a_figure():
    with pytest.raises(ValueError, match="one or two"):
        figures.loss_scale_history([], steps=3)
