"""Losses step by step: fixed axes, mean over some steps, a cross where a training ended early."""

import numpy as np
import pytest

from lplab import figures
from lplab.figures import LossCurve, style


def test_the_line_is_the_mean_of_the_last_steps():
    curve = LossCurve("a", np.arange(6.0))
    assert curve.smooth(1).tolist() == curve.losses.tolist()
    assert curve.smooth(3).tolist() == [0.0, 0.5, 1.0, 2.0, 3.0, 4.0]
    fig = figures.loss_curves([LossCurve("a", np.arange(60.0))], steps=100)
    assert fig.data[0].y[-1] == np.mean([56, 57, 58, 59]) and "mean of the last 4 steps" in fig.layout.xaxis.title.text


def test_axes_stay_while_curves_grow():
    early = figures.loss_curves([LossCurve("a", [2.0])], LossCurve("fp32", [2.0]), steps=50)
    late = figures.loss_curves([LossCurve("a", [2.0] + 30 * [9.0])], LossCurve("fp32", [2.0] + 30 * [0.1]), steps=50)
    assert early.layout.xaxis.range == late.layout.xaxis.range == (0, 50.5)
    assert early.layout.yaxis.range == late.layout.yaxis.range
    assert early.layout.margin == late.layout.margin and early.layout.title.y == late.layout.title.y
    figures.update(early, late)
    assert len(early.data[0].y) == 31


def test_the_range_of_losses_can_be_chosen():
    fig = figures.loss_curves([LossCurve("a", [4.3, 90.0], diverged=True)], steps=9, loss_range=(2.0, 4.5), unit="bits")
    assert fig.layout.yaxis.range == (2.0, 4.5) and list(fig.data[-1].y) == [4.5]
    assert fig.layout.yaxis.title.text == "loss (bits)"


def test_a_diverged_training_is_marked_within_the_axes():
    fig = figures.loss_curves([LossCurve("a", [2.0, 50.0], diverged=True), LossCurve("b", [2.0, 1.0])], steps=10)
    crosses = fig.data[-1]
    assert list(crosses.x) == [2] and list(crosses.y) == [fig.layout.yaxis.range[1]] and crosses.marker.symbol == "x"
    assert fig.layout.meta["alt"] == "Training loss after 2 of 10 steps: a diverged after 2, b 1.00 nats."
    at_once = figures.loss_curves([LossCurve("a", [], diverged=True)], steps=10)
    assert list(at_once.data[-1].x) == [0]


def test_the_reference_is_green_and_every_line_has_a_second_sign():
    fig = figures.loss_curves([LossCurve(n, [1.0]) for n in "abcd"], LossCurve("fp32", [1.0]), steps=10)
    assert fig.data[4].line.color == style.GREEN and len({trace.line.dash for trace in fig.data[:4]}) == 4
    assert fig.layout.meta["subtitle"].count("<br>") == 2, "five entries of the key on three lines"


def test_the_key_takes_one_line_where_it_has_room():
    short = figures.loss_curves([LossCurve(n, [1.0]) for n in ("dense", "own top-k", "ScaleCom")], steps=10)
    assert "<br>" not in short.layout.meta["subtitle"] and "own top-k: 1.00" in short.layout.meta["subtitle"]
    long = figures.loss_curves([LossCurve(f"int4_fp4_2020, {n} phases", [1.0]) for n in "123"], steps=10)
    assert long.layout.meta["subtitle"].count("<br>") == 1 and long.layout.margin == short.layout.margin
    one = figures.loss_curves([LossCurve("dense", [1.0])], steps=10)
    assert one.layout.margin.t < short.layout.margin.t, "no room for lines that never come"


def test_wrong_input_is_refused():
    with pytest.raises(ValueError, match="a: losses must be finite"):
        LossCurve("a", [1.0, np.nan])
    with pytest.raises(ValueError, match="loss_range must be two numbers in order"):
        figures.loss_curves([], steps=1, loss_range=(2.0, 1.0))
    with pytest.raises(ValueError, match="at most 4 curves"):
        figures.loss_curves([LossCurve("a", [])] * 5, steps=1)
