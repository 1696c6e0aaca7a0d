"""Lab 02's tables: what they show is what the library computes."""

import numpy as np

from lplab.labs import lab02


def test_one_draw_moves_all_elements_alike():
    rounded = lab02.one_draw(np.full(100, 0.3), 0, np.random.default_rng(1))
    assert len(set(rounded)) == 1 and rounded[0] in (0.0, 1.0)


def test_the_table_has_the_numbers_of_the_stored_runs():
    columns = lab02.errors().columns
    at = {"setting": "one format", "rounding": "nearest_down", "fraction_bits": 6}
    row = columns["format"].index("⟨10, 6⟩")
    assert columns["nearest: wrong (%)"][row] == lab02.stored().median("test_error", **at)
    assert columns["nearest: weights moved"][row] == lab02.stored().median("updates_made", **at)
