"""Lab 02's tables and its small figure: what is drawn is what the library computes."""

import numpy as np

from lplab.labs import lab02


def test_small_updates_are_lost_by_nearest_and_kept_by_the_coin_on_average():
    assert not lab02.movement("nearest_down").any() and not lab02.movement("nearest_even").any()
    coin = lab02.movement("stochastic")
    assert set(np.diff(coin)) == {0.0, 1.0}
    assert abs(coin[-1] - 100) < 4 * np.sqrt(1000 * 0.1 * 0.9), "four standard deviations"
    drawn = lab02.small_updates()
    assert drawn.data[1].y[1:].tolist() == coin.tolist()
    assert f"by {coin[-1]:.0f} steps" in drawn.layout.meta["title"] and "nearest by 0" in drawn.layout.meta["title"]


def test_one_draw_moves_all_elements_alike():
    rounded = lab02.one_draw(np.full(100, 0.3), 0, np.random.default_rng(1))
    assert len(set(rounded)) == 1 and rounded[0] in (0.0, 1.0)


def test_the_table_has_the_numbers_of_the_stored_runs():
    columns = lab02.errors().columns
    at = {"setting": "one format", "rounding": "nearest_down", "fraction_bits": 6}
    row = columns["format"].index("⟨10, 6⟩")
    assert columns["nearest: wrong (%)"][row] == lab02.stored().median("test_error", **at)
    assert columns["nearest: weights moved"][row] == lab02.stored().median("updates_made", **at)
