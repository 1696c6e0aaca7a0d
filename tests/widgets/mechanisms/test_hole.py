"""Lab 00: the function is wrong only for what should become 3, and the checks' order finds the smallest of these."""

import numpy as np
import pytest

from lplab.exercises.checks.compare import simplicity_key
from lplab.exercises.checks.grids import boundary_values
from lplab.exercises.checks.verdict import Counterexample
from lplab.widgets.mechanisms import hole

NUMBERS = (0, 0.5, 1, 1.5, 2, 3, 4, 6)


def nearest_of_e2m1(x, forgotten=None):
    """By exhaustion: the nearest number; of two, the one whose last bit is 0, which is every second one."""
    near = min(NUMBERS, key=lambda number: (abs(number - x), NUMBERS.index(number) % 2))
    if near == forgotten:
        near = min((number for number in NUMBERS if number != forgotten), key=lambda number: abs(number - x))
    return near


@pytest.mark.parametrize("place", range(0, 6 * hole.PARTS + 1, 4))
def test_both_answers_are_the_nearest_numbers(place):
    x = place / hole.PARTS
    found = hole.data()["places"][place]
    assert found == {"yours": nearest_of_e2m1(x, forgotten=3), "right": nearest_of_e2m1(x)}


def test_six_tests_find_nothing_and_the_boundary_set_does():
    data = hole.data()
    for x in data["tests"]:
        assert nearest_of_e2m1(x) == nearest_of_e2m1(x, forgotten=3)
    wrong = [k for k, each in enumerate(data["boundary"]) if each["yours"] != each["right"]]
    assert len(wrong) == 5
    simplest = min(wrong, key=lambda k: simplicity_key(Counterexample((points()[k],), 2.0, 3.0)))
    assert data["smallest"] == simplest
    assert data["boundary"][min(wrong)] == {"at": 2.5, "side": 1, "yours": 2.0, "right": 3.0}


def points():
    """The numbers of the boundary set in the mechanism."""
    boundary = hole.data()["boundary"]
    return [float(np.nextafter(each["at"], each["side"] * np.inf)) if each["side"] else each["at"] for each in boundary]


def test_the_boundary_set_is_that_of_the_checks():
    of_checks = boundary_values(hole.FORMAT, specials=False)
    assert points() == np.sort(of_checks[(of_checks >= 0) & (of_checks <= 6)]).tolist()
