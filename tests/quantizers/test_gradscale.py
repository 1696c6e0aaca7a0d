"""GradScale against the table of Sun et al. 2020 (paper notes 4.4) and the choices where the paper is silent."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lplab.quantizers import GradScale, two_phase
from lplab.quantizers.gradscale import first_scale

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(("largest", "vote"), [
    (33.0, 0), (64.0, 0), (np.nextafter(32.0, 64), 0),  # the window is half open
    (32.0, 1), (1e-30, 1), (5.0, 1),
    (np.nextafter(64.0, 65), -1), (1e9, -1),
    (0.0, 0), (math.inf, -1), (math.nan, -1),  # our choice
])  # fmt: skip
@pytest.mark.parametrize("sign", [1, -1])
def test_the_vote(largest, vote, sign):
    assert GradScale(1.0).vote(np.array([0.0, sign * largest, 0.0])) == vote


def test_from_one_it_takes_21_steps():
    """From s = 1 and a maximum of 3e-5 the scale needs 21 steps to settle at 2^21, m = 62.9 (paper notes 4.4)."""
    layer, steps = GradScale(1.0), 0
    while layer.vote(3e-5) != 0:
        layer.update()
        steps += 1
    assert (steps, layer.scale) == (21, 2.0**21)
    assert layer.scale * 3e-5 == pytest.approx(62.9, abs=0.05)
    for _ in range(5):
        layer.vote(3e-5), layer.update()
    assert layer.scale == 2.0**21


@given(st.floats(1e-12, 1e5), st.floats(2.0**-20, 2.0**40))
def test_a_constant_gradient_has_one_fixed_point(largest, start):
    layer = GradScale(start)
    for _ in range(70):
        layer.vote(largest)
        layer.update()
    settled = layer.scale
    layer.vote(largest)
    assert layer.update() == settled
    assert 32 < settled * largest <= 64 or settled in (layer.min_scale, layer.max_scale)


@given(st.floats(1e-300, 1e300), st.sampled_from([64.0, 448.0, 57344.0, 1.0]))
def test_the_first_scale_is_exact(largest, maximum):
    scale = Fraction(first_scale(largest, maximum))
    assert scale * Fraction(largest) <= Fraction(maximum) < 2 * scale * Fraction(largest)
    assert math.frexp(float(scale))[0] == 0.5


def test_the_first_gradient_sets_the_first_scale():
    layer = GradScale()
    assert layer.scale == 1.0
    assert layer.vote(np.zeros(3)) == 0 and layer.scale == 1.0  # nothing to learn from
    assert layer.vote(np.float32([3e-5])) == 0 and layer.scale == 2.0**21
    assert GradScale().vote(math.nan) == -1


def test_a_step_uses_the_scale_that_was_there_before():
    layer = GradScale(1.0)
    dy = np.float32([100.0, 1.0])
    even, odd = layer.two_phase(dy)
    assert layer.scale == 1.0 and layer.votes == [-1]
    np.testing.assert_array_equal(even, two_phase(dy)[0])
    assert layer.update() == 0.5 and layer.votes == []
    even, odd = layer.two_phase(dy, ties="toward_zero")
    np.testing.assert_array_equal(odd, two_phase(dy, 0.5, ties="toward_zero")[1])


@pytest.mark.parametrize(("own", "others", "factor"), [
    ([1], [], 2), ([1, -1], [], 1), ([0], [1, 1, -1], 2), ([-1], [0, 0], 0.5), ([], [], 1), ([1], [-1, -1], 0.5),
    ([1, 1], [1], 2), ([-1], [-1, -1], 0.5),  # the sign decides, not the size
])  # fmt: skip
def test_workers_vote_together(own, others, factor):
    layer = GradScale(8.0)
    for vote in own:
        assert layer.vote({1: 1.0, 0: 7.0, -1: 9.0}[vote]) == vote
    assert layer.update(others) == 8.0 * factor


def test_nan_and_infinity_halve_and_skip():
    for wrong in (math.nan, math.inf):
        layer = GradScale(8.0)
        layer.vote(np.array([1.0, wrong]))
        assert layer.skip
        assert layer.update() == 4.0 and not layer.skip
    layer = GradScale(2.0**40)
    assert layer.vote(1e300) == -1 and not layer.skip  # large, but a number


def test_a_dead_layer_keeps_its_scale_and_bounds_hold():
    layer = GradScale(4.0)
    for _ in range(100):
        layer.vote(np.zeros(9)), layer.vote(np.zeros(0))
        layer.update()
    assert layer.scale == 4.0
    for _ in range(100):
        layer.vote(1e-30), layer.update()
    assert layer.scale == 2.0**40
    for _ in range(100):
        layer.vote(1e30), layer.update()
    assert layer.scale == 2.0**-20
    assert GradScale(1e300).scale == 2.0**40


def test_torch_votes_as_numpy():
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        dy = torch.randn(3, 5, generator=torch.Generator().manual_seed(0)).to(dtype)
        ours, theirs = GradScale(), GradScale()
        assert ours.vote(dy) == theirs.vote(dy.float().numpy()) and ours.scale == theirs.scale
        assert torch.equal(
            ours.two_phase(dy)[0].float(), torch.from_numpy(two_phase(dy.float().numpy(), ours.scale)[0])
        )


def test_a_checkpoint_continues():
    layer = GradScale()
    layer.vote(3e-5), layer.update(), layer.vote(1e-9)
    copy = GradScale()
    copy.load_state_dict(layer.state_dict())
    assert (copy.scale, copy.votes, copy.skip) == (layer.scale, layer.votes, layer.skip)
    assert copy.update() == layer.update()
    copy.vote(1.0)
    assert layer.votes == []


@pytest.mark.parametrize(("call", "message"), [
    (lambda: GradScale(0), "scale must be a positive finite number, got 0"),
    (lambda: GradScale(maximum=math.inf), "maximum must be a positive finite number, got inf"),
    (lambda: GradScale(min_scale=2.0, max_scale=1.0), "min_scale must not exceed max_scale, got 2.0 and 1.0"),
    (lambda: GradScale().update([2]), r"a vote must be -1, 0 or 1, got \[2\]"),
])  # fmt: skip
def test_errors_say_what_is_allowed(call, message):
    with pytest.raises(ValueError, match=message):
        call()
