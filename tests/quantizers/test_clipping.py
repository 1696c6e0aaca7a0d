"""The cost of a clip: against brute force, the library's quantizers, and the equilibrium of PACT's clip."""

import numpy as np
import pytest

from lplab.quantizers import SAWB, pact_forward
from lplab.quantizers.clipping import Magnitudes, upper_levels
from lplab.quantizers.sawb import on_levels

X = np.random.default_rng(4).laplace(0, 1, 3000)


@pytest.mark.parametrize("levels", [2, 3, 4, 8, 15, 32, 255])
def test_the_errors_are_those_of_sending_every_number_to_its_level(levels):
    for clip in (0.2, 1.0, 3.1, 20.0):
        found = Magnitudes(X).errors([clip], levels)
        off = (on_levels(np, X, np.array(clip), levels) - X) ** 2
        inside = np.abs(X) <= clip
        assert found.rounding[0] == pytest.approx(off[inside].sum() / len(X), rel=1e-9, abs=1e-15)
        assert found.clipping[0] == pytest.approx(off[~inside].sum() / len(X), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_without_negative_numbers_the_grid_is_that_of_pact(bits):
    x = np.maximum(X, 0)
    for clip in (0.5, 2.0, 9.0):
        off = ((pact_forward(x, clip, bits) - x) ** 2).mean()
        assert Magnitudes(x).errors([clip], 2 ** (bits + 1) - 1).total[0] == pytest.approx(off, rel=1e-9)


@pytest.mark.parametrize("levels", [3, 4, 16])
def test_the_search_does_not_depend_on_how_it_begins(levels):
    found = Magnitudes(X)
    assert found.best_clip(levels, 1e-6) == pytest.approx(
        found.best_clip(levels, 1e-6, reach=1, refinement=200), rel=1e-4
    )


def test_many_clips_at_once_are_each_alone():
    found = Magnitudes(X)
    clips = np.linspace(0.1, 5, 30)
    together = found.errors(clips, 15)
    alone = [found.errors(clip, 15) for clip in clips]
    np.testing.assert_array_equal(together.rounding, [e.rounding[0] for e in alone])
    np.testing.assert_array_equal(together.clipping, [e.clipping[0] for e in alone])


def test_with_more_bits_the_best_clip_moves_outward_and_errors_fall():
    found = Magnitudes(X)
    clips = [found.best_clip(levels) for levels in (3, 7, 15, 31, 63)]
    errors = [float(found.errors(c, n).total[0]) for c, n in zip(clips, (3, 7, 15, 31, 63), strict=True)]
    assert clips == sorted(clips) and errors == sorted(errors, reverse=True)


@pytest.mark.parametrize("decay", [0.0, 0.0002, 0.005, 0.1, 3.0])
def test_in_equilibrium_both_gradients_of_pact_are_equal(decay):
    x = np.maximum(X, 0)
    alpha = Magnitudes(x).equilibrium_clip(decay)
    assert np.maximum(x - alpha, 0).mean() == pytest.approx(decay * alpha, rel=1e-9, abs=1e-15)
    assert Magnitudes(x).equilibrium_clip(0) == pytest.approx(x.max(), rel=1e-12)


def test_special_tensors():
    zeros, empty, odd = Magnitudes([0.0, 0.0]), Magnitudes([]), Magnitudes([np.nan, np.inf, -2.0, 1.0])
    assert (zeros.largest, zeros.power, zeros.best_clip(4), zeros.equilibrium_clip(0.1)) == (0.0, 0.0, 1.0, 0.0)
    assert (empty.largest, empty.power, empty.best_clip(3), empty.equilibrium_clip(0.1)) == (0.0, 0.0, 1.0, 0.0)
    assert empty.errors([1.0], 3).total[0] == 0 and empty.share_beyond(1.0) == 1.0 - 0.0
    assert odd.sorted.tolist() == [1.0, 2.0] and odd.share_beyond(1.0) == 0.5
    constant = Magnitudes([0.3] * 5)
    assert constant.errors([0.3], 4).total[0] == pytest.approx(0, abs=1e-15)


def test_sawb_is_near_the_best_clip_for_few_levels():
    found = Magnitudes(X)
    for bits, levels, off in ((2, 4, 0.03), (4, 15, 0.11)):  # as far as the line of the regression is off
        assert SAWB(bits).clip(X) == pytest.approx(found.best_clip(levels), rel=off)


@pytest.mark.parametrize(("call", "message"), [
    (lambda: Magnitudes(X).errors([0.0], 4), "clips must be positive numbers"),
    (lambda: Magnitudes(X).errors([1.0], 1), "levels must be an integer from 2 to 1024, got 1"),
    (lambda: Magnitudes(X).equilibrium_clip(-1), "decay must not be negative, got -1"),
    (lambda: upper_levels(2000), "levels must be an integer from 2 to 1024"),
])  # fmt: skip
def test_errors_say_what_is_allowed(call, message):
    with pytest.raises(ValueError, match=message):
        call()
