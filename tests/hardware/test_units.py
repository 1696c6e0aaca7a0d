"""Amounts for people: the unit that fits, also where rounding reaches the next one, and a real minus."""

import math

import pytest

from lplab.hardware.units import duration, format_si, grouped, mass, money


@pytest.mark.parametrize(("value", "text"), [
    (999.4, "999 B"), (999.6, "1 kB"), (1e6, "1 MB"), (0.9996, "1 B"), (0.9994, "999 mB"), (-2.5e12, "−2.5 TB"),
    (0.0, "0 B"), (math.inf, "∞ B"), (-math.inf, "−∞ B"), (3e-16, "0.3 fB"), (2e21, "2,000 EB"),
])  # fmt: skip
def test_a_prefix_is_taken_once_its_unit_is_filled_as_printed(value, text):
    assert format_si(value, "B") == text


@pytest.mark.parametrize(("seconds", "text"), [
    (119.0, "119 s"), (120.0, "2 minutes"), (7199.0, "120 minutes"), (7200.0, "2 hours"), (172_800.0, "2 days"),
    (1e-9, "1 ns"), (0.0, "0 s"),
])  # fmt: skip
def test_two_of_a_unit_are_needed_from_minutes_on(seconds, text):
    assert duration(seconds) == text


def test_masses_and_money():
    assert [mass(kg) for kg in (2.5e6, 999.0, 0.5)] == ["2.5 kt", "999 kg", "500 g"]
    assert [money(value) for value in (9_999, 10_000, 0.123, 2e9)] == ["$9,999", "$10 thousand", "$0.12", "$2 billion"]


@pytest.mark.parametrize(("value", "digits", "text"), [
    (1289.4, 3, "1,289"), (-0.012345, 3, "−0.0123"), (60.0, 3, "60"), (1e-7, 2, "0.0000001"), (0.0, 3, "0"),
])  # fmt: skip
def test_no_exponents(value, digits, text):
    assert grouped(value, digits) == text


def test_what_is_not_finite_is_no_error():
    assert [duration(math.inf), duration(math.nan), mass(-math.inf)] == ["∞ days", "nan s", "−∞ kt"]
    assert [money(math.inf), grouped(math.nan, 3)] == ["$∞ billion", "nan"]
