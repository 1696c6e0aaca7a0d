"""The error map of a matrix, and signal to noise against who shares a scale."""

import numpy as np
import pytest

from lplab import figures
from lplab.figures.error_map import percent_off, signal_to_noise

X = np.array([[4.0, 1.0, 0.0, 0.5], [8.0, -2.0, 0.25, 1.0]])
Q = np.array([[4.0, 0.75, 0.0, 0.0], [6.0, -2.0, 0.125, 1.0]])
CLIPPED = np.array([[0, 0, 0, 0], [1, 0, 0, 0]], bool)


def test_each_number_shows_what_became_of_it():
    fig = figures.error_map(X, Q, (1, 2), CLIPPED, rows="token", columns="input")
    assert np.asarray(fig.data[0].z).tolist() == [[0, 25, 0, 100], [-25, 0, 50, 0]]
    assert "12.5 % become zero" in fig.layout.meta["title"] and "12.5 % are clipped" in fig.layout.meta["alt"]
    assert fig.layout.xaxis.title.text == "input" and fig.layout.yaxis.title.text == "token"
    assert fig.layout.yaxis.range == (1.5, -0.5), "the first row stands at the top"


def test_only_a_zero_is_off_by_a_hundred_and_a_clipped_number_never_by_nothing():
    x, q = np.array([1.0, 1.0, 10.0]), np.array([2.5, 1e-9, 9.99])
    assert percent_off(x, q, np.array([False, False, True])).tolist() == [99, 99, -1]


def test_signal_to_noise_is_that_of_the_tensor():
    fig = figures.error_map(X, Q, (1, 2))
    error = 10 * np.log10(np.sum(X**2) / np.sum((Q - X) ** 2))
    assert signal_to_noise(X, Q) == pytest.approx(error)
    assert f"{error:.1f} dB" in fig.layout.meta["title"]
    assert np.isnan(signal_to_noise(np.zeros(2), np.ones(2)))


@pytest.mark.parametrize(("tile", "upright"), [((1, 2), [1.5]), ((2, 4), []), ((1, 3), [2.5])])
def test_edges_stand_between_the_blocks(tile, upright):
    lines = figures.error_map(X, Q, tile).data[1]
    x = np.asarray(lines.x)
    assert x[~np.isnan(x)].tolist() == [place for place in upright for _ in range(2)]
    assert np.isnan(x[-1]) and np.isnan(np.asarray(lines.y)[-1])


def test_tiles_have_edges_in_both_directions_and_narrow_blocks_none():
    big = np.ones((8, 8))
    lines = figures.error_map(big, big, (4, 2)).data[1]
    x, y = np.asarray(lines.x), np.asarray(lines.y)
    pairs = {(a, b, c, d) for a, c, b, d in zip(x[:-1:3], y[:-1:3], x[1:-1:3], y[1:-1:3], strict=True)}
    assert pairs == {(-0.5, 7.5, 3.5, 3.5), *((k, k, -0.5, 7.5) for k in (1.5, 3.5, 5.5))}
    many = np.ones((2, 200))
    frame = figures.error_map(many, many, (1, 2)).data[1]  # a hundred lines would hide the map
    corners = list(zip(np.asarray(frame.x), np.asarray(frame.y), strict=True))
    assert corners == [(99.5, 0.5), (101.5, 0.5), (101.5, 1.5), (99.5, 1.5), (99.5, 0.5)]
    assert len(figures.error_map(many, many, many.shape).data[1].x) == 1, "one block needs no line"


@pytest.mark.parametrize(("change", "message"), [
    ({"q": Q[:1]}, "two matrices of one shape and at most 65,536 numbers are needed, got"),
    ({"x": np.ones(4), "q": np.ones(4)}, "two matrices of one shape"),
    ({"tile": (0, 2)}, r"a tile has at least one row and one column, got \(0, 2\)"),
])  # fmt: skip
def test_a_map_that_cannot_be_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        figures.error_map(**({"x": X, "q": Q, "tile": (1, 2)} | change))


def shares(**changes):
    given = {"E8M0": [20.0, 15.0], "float32": [21.0, np.nan]}
    bits = {"E8M0": [4.5, 4.25], "float32": [6.0, 5.0]}
    return figures.sharing_errors(**({"names": ["16", "32"], "curves": given, "at": 0, "bits": bits} | changes))


def test_the_mark_names_the_best_scale_and_what_it_costs():
    assert shares().layout.meta["title"] == "Shared by 16: float32 scales keep most, 21.0 dB with 6 bits a value"
    assert "E8M0 15.0 dB with 4.25 bits a value" in shares(at=1).layout.meta["alt"]
    assert "float32" not in shares(at=1).layout.meta["alt"], "what integers do not have is not told"
    assert shares(at=1).layout.shapes[0].x0 == 1
    assert np.isnan(np.asarray(shares().data[1].y)[1])


def test_what_lies_beyond_the_axis_stands_at_its_end_and_is_told():
    fig = shares(curves={"E8M0": [70.0, 15.0], "float32": [21.0, -3.0]})
    assert np.asarray(fig.data[0].y).tolist() == [50, 15] and np.asarray(fig.data[1].y).tolist() == [21, 0]
    assert np.asarray(fig.data[0].customdata)[0].tolist() == [70, 4.5] and "70.0 dB" in fig.layout.meta["title"]


def test_two_states_of_the_curves_are_one_figure():
    fig = shares()
    figures.update(fig, shares(at=1))
    assert fig.layout.meta == shares(at=1).layout.meta


@pytest.mark.parametrize(("change", "message"), [
    ({"at": 2}, "at must be from 0 to 1, got 2"),
    ({"names": ["16"]}, "1 to 4 formats of the scale are needed, each with 1 numbers"),
    ({"curves": {}, "bits": {}}, "1 to 4 formats of the scale"),
])  # fmt: skip
def test_curves_that_cannot_be_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        shares(**change)


# ---- both rules for a scale ------------------------------------------------------------------------------------------


def test_a_change_stands_at_its_place_between_powers_of_two():
    fig = figures.scale_rules([1.5, 7.0, 0.25], [0.0, -1 / 7, -2.0], [0.1, 1 / 7, 0.0], agreed=(5, 6))
    down, up = fig.data
    assert np.asarray(down.x).tolist() == [1.5, 1.75, 1.0] == np.asarray(up.x).tolist()
    assert np.asarray(down.y).tolist() == pytest.approx([0, -100 / 7, -32]), "beyond the axis it stands at the end"
    assert fig.layout.meta["title"].endswith("rounded down, +8.1 % rounded up; yours agrees in 5 of 6 results")
    assert "rounded down from −200 % to 0 %" in fig.layout.meta["alt"]


@pytest.mark.parametrize(("given", "message"), [
    (([], [], []), "one change by each rule is needed for each of at least one block"),
    (([1.0], [0.0, 0.0], [0.0]), "one change by each rule"),
    (([0.0], [0.0], [0.0]), "the largest magnitude of a block must be above 0"),
])  # fmt: skip
def test_changes_that_cannot_be_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        figures.scale_rules(*given)
