"""Lab 07: rungs and roundings of both phases are those of the paper's rule, 1.6 below each power of four."""

import numpy as np
import pytest

from lplab.widgets.mechanisms import ladder


def by_rule(x, phase):
    """4^n for the n with 4^n/1.6 <= x < 4^(n+1)/1.6; the odd phase is the same at half the size."""
    factor = {"even": 1, "odd": 2}[phase]
    powers = 4.0 ** np.arange(-3, 4)
    return powers[np.searchsorted(powers / 1.6, factor * x, side="right") - 1] / factor


@pytest.mark.parametrize("phase", ["even", "odd"])
def test_each_size_goes_to_its_rung(phase):
    data = ladder.data()
    np.testing.assert_array_equal(data[phase], by_rule(np.array(data["sizes"]), phase))
    assert set(np.log2(data[phase])) <= {exponent for exponent, _ in data["rungs"][phase]}


def test_rungs_are_powers_of_four_and_the_odd_ones_are_half_as_large():
    even, odd = (ladder.rungs(fmt) for fmt in (ladder.EVEN, ladder.ODD))
    assert [exponent for exponent, _ in even] == [-6, -4, -2, 0, 2, 4, 6]
    assert [exponent for exponent, _ in odd] == [exponent - 1 for exponent, _ in even]


def test_the_mean_of_both_is_nearer_than_one_phase():
    data = ladder.data()
    sizes, even, odd = (np.array(data[name]) for name in ("sizes", "even", "odd"))
    one, both = (np.abs(q - sizes) / sizes for q in (even, (even + odd) / 2))
    # after a factor of four everything comes again, and five such factors and one place more are drawn
    assert one[:-1].mean() == pytest.approx(data["average"]["one"]) and both[:-1].mean() == pytest.approx(
        data["average"]["both"]
    )
    assert data["average"]["both"] < 0.6 * data["average"]["one"]
