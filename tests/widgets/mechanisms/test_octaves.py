"""Lab 01: the table that the browser looks up rounds as the formats do."""

from bisect import bisect_right

import numpy as np
import pytest

from lplab.widgets.mechanisms import octaves


def looked_up(table, values, x):
    """What octaves.js does."""
    return values[table["places"][bisect_right(table["borders"], x)]]


@pytest.mark.parametrize(("name", "fmt"), [("with", octaves.E4M3), ("without", octaves.WITHOUT)])
def test_the_table_rounds_as_the_format_does(name, fmt):
    data = octaves.data()
    values = [number["value"] for number in data["numbers"]]
    x = np.concatenate([np.arange(257) / 256 * view for view in data["views"]])  # every place of every view
    np.testing.assert_array_equal([looked_up(data[name], values, each) for each in x], fmt.quantize(x))


def test_every_number_has_its_bits_and_its_octave():
    data = octaves.data()
    assert [number["value"] for number in data["numbers"]] == octaves.E4M3.codebook()[:127].tolist()
    assert [int(number["bits"], 2) for number in data["numbers"]] == list(range(127))
    for number in data["numbers"]:
        octave = next(each for each in data["octaves"] if number["value"] < each["high"])
        assert octave["low"] <= number["value"]
        assert octave["subnormal"] == (number["bits"][1:5] == "0000")


def test_the_steps_of_the_subnormal_numbers_are_those_of_the_first_octave():
    below, first, second = octaves.octaves()[:3]
    assert below["step"] == first["step"] == "1/512" and second["step"] == "1/256"
    assert [below["high"], below["texts"]] == [first["low"], ["0", "1/64"]]
