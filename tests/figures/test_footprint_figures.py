"""Figures of energy and carbon: their bars are the numbers, their words say which are modelled and which published."""

import numpy as np
import pytest

from lplab import figures
from lplab.figures import style, traces
from lplab.hardware import footprint
from lplab.hardware.footprint import Energy, runs

STEPS = {"16 bits": Energy(60.0, 10.0, 10.0, 20.0), "4 bits": Energy(15.0, 4.0, 10.0, 12.0)}


def test_bars_of_parts_add_up_to_the_totals():
    fig = figures.energy_parts(STEPS, "4 bits", reference=("plain", 100.0))
    assert [trace.name for trace in fig.data[:4]] == list(footprint.PARTS)
    np.testing.assert_allclose(np.sum([trace.x for trace in fig.data[:4]], axis=0), [100, 41])
    assert fig.layout.shapes[0].x0 == 100
    assert {trace.name: trace.marker.color for trace in fig.data[:4]} == style.QUANTITIES
    assert "▸ 4 bits" in fig.layout.yaxis.ticktext[1] and "modelled" in fig.layout.xaxis.title.text
    assert len({str(trace.marker.pattern.shape) for trace in fig.data[:4]}) == 4, (
        "parts differ in pattern, not colour alone"
    )


def test_the_axis_holds_every_bar_and_no_line_crosses_a_sum():
    rows = {"a": Energy(50.0, 0.0, 0.0, 49.0), "b": Energy(10.0, 0.0, 0.0, 0.0), "c": Energy(90.0, 0.0, 0.0, 60.0)}
    fig = figures.energy_parts(rows, reference=("plain", 100.0), most=100.0)
    assert fig.layout.xaxis.range[1] == pytest.approx(1.2 * 150)
    assert list(fig.data[-1].x) == [100, 10, 150]  # 99 J would be written across the line at 100


def test_a_step_without_energy_is_drawn():
    fig = figures.energy_parts({"nothing": Energy(0.0, 0.0, 0.0, 0.0)})
    assert np.isfinite(fig.layout.xaxis.range).all()


def test_places_hold_the_grid_times_the_energy():
    places = [footprint.region(name) for name in ("france", "poland")]
    fig = figures.carbon_by_place({"a": 1000.0, "b": 500.0}, places, "b", "poland", published=("poland", 400.0, "x"))
    chosen, others, published = fig.data
    np.testing.assert_allclose(10 ** np.array(chosen.x), [28, 331])
    other = figures.carbon_by_place({"a": 1000.0, "b": 500.0}, places, "a").data
    for name, found in (("a", others.marker), ("b", chosen.marker)):
        (again,) = (trace.marker for trace in other if trace.name == name)
        assert (found.color, found.symbol) == (again.color, again.symbol), "a precision keeps its colour"
    assert chosen.marker.size > others.marker.size and not set(chosen.y) & set(others.y), "none lies on another"
    np.testing.assert_allclose(10 ** np.array(others.x), [56, 662])
    assert 10 ** published.x[0] == pytest.approx(400) and published.y[0] == -1
    assert "modelled" in fig.layout.meta["subtitle"] and "published (x)" in fig.layout.meta["subtitle"]


def test_published_runs_stand_beside_ours():
    rows = [runs.get("gpt3"), runs.get("elmo")]
    ours, theirs = figures.published_runs(rows).data
    assert theirs.x[1] == pytest.approx(552_100) and ours.x[0] == pytest.approx(rows[1].bill.kilograms)
    assert list(theirs.y) == ["ELMo (2019)", "GPT-3 (2021)"]
    assert ours.marker.symbol != theirs.marker.symbol


def test_corrections_shrink_to_the_last():
    fig = figures.corrections([("a", 1000.0), ("b", 100.0), ("c", 10.0)], (1000, 11))
    assert fig.layout.meta["title"] == "From 1 t to 10 kg: 100 times less"
    np.testing.assert_allclose(fig.data[0].x, [1, 0.1, 0.01])
    assert fig.data[0].base is None and fig.layout.xaxis.range[0] == 0, "lengths of bars are shares of the first"
    np.testing.assert_allclose(fig.data[1].x, [1, 0.011])
    assert list(fig.data[2].text) == ["1 t", "100 kg", "10 kg"]


def test_yours_is_compared_tile_by_tile():
    arithmetic, memory = [2.0, 2.0, 2.0], [8.0, 4.0, 2.0]
    fig = figures.tile_energy([1, 2, 4], arithmetic, memory, (arithmetic, [8.0, 4.0, 3.0]))
    assert fig.layout.meta["title"] == "Yours agrees at 5 of 6 points"
    assert len(fig.data[2].x) == 5 and len(fig.data[3].x) == 1
    for trace in fig.data[:2]:
        assert trace.line.color == style.QUANTITIES[trace.name], "one name, one colour"


def test_a_round_is_computing_receiving_sending():
    r = footprint.federated(operations=1e11, down_bytes=1e7, up_bytes=1e6)
    fig = figures.round_energy({"here": r})
    assert [trace.x[0] for trace in fig.data[:3]] == pytest.approx([r.compute_joules, r.down_joules, r.up_joules])


def test_kinds_of_numbers_differ_in_shape_and_word():
    symbols = {traces.provenance(kind, 11)["symbol"] for kind in style.PROVENANCE}
    assert len(symbols) == 3 and set(style.PROVENANCE) == {"modelled", "published", "measured"}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: figures.energy_parts({}), "at least one row"),
        (lambda: figures.energy_parts(STEPS, "2 bits"), "there is no row '2 bits'"),
        (lambda: figures.carbon_by_place({}, [footprint.region("uk")]), "positive energy"),
        (lambda: figures.carbon_by_place({"a": 1.0}, [footprint.region("uk")], "b"), "there is no 'b'"),
        (lambda: figures.published_runs([]), "at least one"),
        (lambda: figures.corrections([("a", 1.0)], (1, 1)), "at least two steps"),
        (lambda: figures.tile_energy([1, 2], [1.0], [1.0, 2.0]), "of one length"),
    ],
)
def test_what_cannot_be_drawn_is_said(call, words):
    with pytest.raises(ValueError, match=words):
        call()
