"""The plane of range and precision, scales over time, re-tuned statistics: the numbers are the library's."""

from __future__ import annotations

import numpy as np
import pytest

from lplab import figures
from lplab import formats as F
from lplab.figures.precision import OCTAVES, precision_of

X = np.array([2.0**-20, 0.5, -1.1, 3.0, 1e6, 0.0])


def row(fmt="e4m3fn", shift=0, group="weights", x=X):
    return figures.tensor_row(x, fmt, label="x", group=group, shift=shift)


@pytest.mark.parametrize("name", ["hfp8_forward", "hfp8_backward", "e4m3fn", "e5m2", "e3m2", "fp16", "bf16"])
def test_bits_of_precision_are_those_of_the_largest_relative_error(name):
    fmt = F.get(name)
    x, bits = precision_of(name)
    for low, high, claimed in zip(x[:-1], x[1:], bits[:-1], strict=True):
        values = np.float64(2.0) ** low * np.linspace(1, min(2, 2 ** (high - low)), 4097)[1:-1]
        worst = float(np.max(np.abs(fmt.quantize(values) - values) / values))
        assert worst <= 2.0**-claimed < 2.2 * worst + 1e-12 or claimed == 0, (low, worst, claimed)
    assert bits[0] == bits[-1] == 0 and 2 ** x[-1] >= fmt.max


def test_a_row_counts_octave_by_octave_what_survives():
    result = row()
    octave = {int(np.floor(np.log2(abs(v)))) - OCTAVES[0] for v in (0.5, -1.1, 3.0)}
    assert set(np.flatnonzero(result.kept).tolist()) == octave
    assert result.lost[-20 - OCTAVES[0]] == pytest.approx(100 / 6) and result.lost[-1] == pytest.approx(100 / 6)
    expected = figures.tensor_statistics(X, "e4m3fn")
    assert (result.numbers.flushed, result.numbers.sqnr_db) == (expected.flushed, expected.sqnr_db)


@pytest.mark.parametrize("shift", [-3, 0, 11])
def test_a_shift_moves_the_window_as_another_bias_does(shift):
    shifted = row("hfp8_forward", shift)
    biased = row(F.FloatFormat(4, 3, bias=11 + shift, specials="fnuz"))
    np.testing.assert_array_equal(shifted.kept, biased.kept)
    np.testing.assert_array_equal(shifted.lost, biased.lost)
    assert shifted.numbers.sqnr_db == pytest.approx(biased.numbers.sqnr_db)


def test_the_plane_says_its_numbers_and_keeps_its_axes():
    rows = [row(), row(group="gradients", x=X * 2.0**-24)]
    fig = figures.range_precision(rows, "e4m3fn", ["e5m2", "hfp8_forward"], chosen=1)
    assert "gradients" in fig.layout.meta["title"] and "become zero" in fig.layout.meta["alt"]
    other = figures.range_precision([row("e5m2"), row("e5m2", 5, "gradients")], "e5m2")
    assert fig.layout.xaxis.range == other.layout.xaxis.range and fig.layout.yaxis.range == other.layout.yaxis.range
    assert [trace.type for trace in fig.data] == [trace.type for trace in other.data]
    figures.update(fig, other)
    assert fig.layout.meta["title"] == other.layout.meta["title"]
    cloud = next(trace for trace in fig.data if trace.type == "heatmap")
    assert np.isfinite(np.asarray(cloud.z, float)).all(), "NaN is no JSON: two-dimensional arrays travel as text"


def test_a_plane_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match="at least one row is needed"):
        figures.range_precision([], "e4m3fn")
    with pytest.raises(ValueError, match="chosen must be a row from 0 to 0, got 1"):
        figures.range_precision([row()], "e4m3fn", chosen=1)
    with pytest.raises(ValueError, match="binary floating-point format is needed, got posit8_2"):
        figures.range_precision([row()], "posit8_2")


def test_clipped_steps_are_counted_and_an_answer_is_drawn_beside():
    amax, ends = np.array([1.0, 8.0, 2.0, 2.0]), np.array([1.0, 1.0, 8.0, 8.0])
    fig = figures.delayed_ranges(amax, ends, [1.0, 1.0, 8.0, 0.0])
    assert fig.layout.meta["title"] == ("Clipped in 1 of 4 steps; 1.3 octaves unused in the others; yours agrees in 3")
    assert fig.data[3].x.tolist() == [1.0] and np.isnan(fig.data[2].y[3]) and fig.data[2].visible
    assert np.isnan(fig.data[2].y).tolist() == [True, True, False, True], "an answer that is right covers no line"
    assert not figures.delayed_ranges(amax, ends).data[2].visible
    everything = figures.delayed_ranges([2.0], [1.0], what="All").layout.meta["title"]
    assert everything == "All: clipped in 1 of 1 steps; 0.0 octaves unused in the others"
    with pytest.raises(ValueError, match="of one length"):
        figures.delayed_ranges(amax, ends[:2])
    with pytest.raises(ValueError, match="must be above zero"):
        figures.delayed_ranges([0.0], [1.0])


def test_re_tuned_errors_tell_agreement():
    fig = figures.retuned_errors(["1-4-3", "int4"], [1.0, 30.0], [1.0, 8.0], 0.25, [1.0, 9.0])
    assert fig.layout.meta["title"].endswith("re-tuned 8.0 %, float32 0.2 %; yours agrees in 1 of 2")
    same, different, nothing = fig.data[3:]
    assert same.y.tolist() == [0.0] and different.y.tolist() == [1.0] and same.marker.symbol != different.marker.symbol
    assert len(nothing.x) == 0, "nobody trained it on"
    trained = figures.retuned_errors(["1-4-3", "int4"], [1.0, 30.0], [1.0, 8.0], 0.25, retrained=[0.5, 5.0])
    assert trained.layout.meta["title"] == "int4: 30.0 % wrong, re-tuned 8.0 %, retrained 5.0 %"
    assert trained.data[5].y.tolist() == [0.0, 1.0]
    assert "1-4-3 1.0 %, re-tuned 1.0 %, retrained 0.5 %" in trained.layout.meta["alt"]
    assert min(fig.data[0].x) >= np.log10(0.5), "an error of zero has no logarithm"
    assert len(figures.retuned_errors(["a"], [1.0], [0.0], 0.0).data[3].x) == 0
    begun = figures.retuned_errors(["1-4-3", "int4"], [1.0, np.nan], [1.0, np.nan], 0.25, [1.0, np.nan])
    assert begun.layout.meta["title"] == "1-4-3: 1.0 % wrong, re-tuned 1.0 %, float32 0.2 %; yours agrees in 1 of 1"
    assert "int4" not in begun.layout.meta["alt"] and begun.data[1].y.tolist() == [0.0]
    empty = figures.retuned_errors(["1-4-3"], [np.nan], [np.nan], np.nan)
    assert empty.layout.meta["title"] == "Nothing yet" and "nan" not in empty.layout.meta["alt"]
    with pytest.raises(ValueError, match="one number for each of 2 formats"):
        figures.retuned_errors(["a", "b"], [1.0], [1.0, 2.0], 0.0)


@pytest.mark.parametrize(("fmt", "others"), [("e4m3fn", ["hfp8_forward"]), ("fp16", ["e5m2"]), ("e5m2", ["fp16"])])
def test_every_format_is_shown_whole(fmt, others):
    """fp16 has eleven bits: its plateau was above the panel, and only its sides were seen."""
    fig = figures.range_precision([row(fmt)], fmt, others)
    top = fig.layout.yaxis.range[1]
    for name in ("the format", "other formats"):
        (line,) = fig.select_traces({"name": name})
        assert top - np.nanmax(line.y) >= 0.2, name
    assert top / fig.layout.yaxis.dtick <= 8, "no more ticks than a low panel has room for"
    assert (top == 5.6) == (fmt == "e4m3fn"), "formats of eight bits share one axis"
