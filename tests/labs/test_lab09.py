"""Lab 09: its tables."""

from lplab.labs import lab09


def test_tables_speak_of_the_same_layers():
    rates, threshold = lab09.rates().columns, lab09.one_threshold().columns
    assert rates["layer"][-1] == "dense" and round(100 * rates["sent"][-1], 1) == 1.4
    sent = sum(share * size for share, size in zip(threshold["sent"], threshold["elements"], strict=True))
    assert abs(sent / sum(threshold["elements"]) - 0.01) < 1e-4, "the largest 1 % of all"
