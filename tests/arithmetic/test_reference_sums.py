"""The reference against rounding by definition in rational numbers, which shares no line with lplab."""

import dataclasses
import functools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lplab import formats as F
from lplab.arithmetic import Accumulator, compiled_sums, matmul, reference_sums, rng_streams
from lplab.arithmetic import dot as dot_product
from lplab.formats import counter_rng
from lplab.formats.paths.kernel_selection import without_compiled_loops
from tests.formats import exact

from .operands import KINDS, operand

NAMES = ("dlfloat16", "bf16", "fp16", "e4m3fn", "e5m2", "hfp8_forward", "binary8p3", "e2m1")
MODES = [mode for mode in F.ROUNDINGS if mode != "stochastic"]


@functools.cache
def ruler(name: str) -> exact.Ruler:
    """All values of a format, as rational numbers."""
    return exact.float_ruler(F.get(name))


def rounded(value: Fraction, name: str, mode: str) -> Fraction | float:
    """A rational number rounded by the ruler of a format; the sign of zero is left to other tests."""
    size = exact.round_magnitude(abs(value), ruler(name), mode, value < 0) if value else Fraction(0)
    return -size if value < 0 else size


def dot(x: list[float], y: list[float], name: str, mode: str, chunk: int | None, fma: bool) -> Fraction | float:
    """The definition, word by word, for sums that stay finite."""
    total: Fraction | float = Fraction(0)
    for start in range(0, len(x), chunk or len(x)):
        part: Fraction | float = Fraction(0)
        for a, b in zip(x[start:][: chunk or len(x)], y[start:][: chunk or len(x)], strict=True):
            product: Fraction | float = Fraction(a) * Fraction(b)
            product = product if fma else rounded(Fraction(product), name, mode)
            part = part + product
            part = rounded(Fraction(part), name, mode) if abs(part) < float("inf") else part
        if chunk is None:
            return part
        total = rounded(Fraction(total) + Fraction(part), name, mode) if abs(part) < float("inf") else part
    return total


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_against_rationals(name, mode):
    rng = np.random.default_rng(1)
    for kind in [k for k in KINDS if k != "patterns"]:
        for chunk, fma in ((None, True), (3, True), (None, False)):
            x, y = (operand(kind, (8,), rng).astype(float) / (1 if kind != "spread" else 2.0**30) for _ in range(2))
            accumulator = Accumulator(name, chunk=chunk, rounding=mode, fma=fma)
            got = reference_sums.dot(x, y, accumulator)
            if np.isfinite(got):
                assert Fraction(got) == dot(x.tolist(), y.tolist(), name, mode, chunk, fma)


@given(
    st.lists(st.tuples(*[st.floats(-1e4, 1e4, width=32)] * 2), min_size=1, max_size=6),
    st.sampled_from(MODES),
    st.sampled_from(["dlfloat16", "fp16", "e4m3fn"]),
)
def test_any_finite_numbers(pairs, mode, name):
    x, y = (list(column) for column in zip(*pairs, strict=True))
    got = reference_sums.dot(np.array(x), np.array(y), Accumulator(name, rounding=mode))
    if np.isfinite(got):
        assert Fraction(got) == dot(x, y, name, mode, None, True)


@given(st.fractions().filter(bool), st.integers(-60, 60))
def test_to_odd_is_a_neighbour_and_odd(number, shift):
    number = number * Fraction(2) ** shift
    odd = reference_sums.to_odd(number)
    if Fraction(odd) != number:
        assert np.float64(odd).view(np.int64) & 1
        inward = np.nextafter(odd, np.inf if Fraction(odd) < number else -np.inf)
        assert min(Fraction(odd), Fraction(inward)) < number < max(Fraction(odd), Fraction(inward))


@pytest.mark.parametrize(("total", "x", "y", "expected"), [
    (np.inf, 1.0, 2.0, np.inf),
    (np.inf, -np.inf, 1.0, np.nan),
    (1.0, np.inf, 0.0, np.nan),
    (1.0, np.nan, 0.0, np.nan),
    (np.inf, 1e300, -1e300, np.inf),
    (0.0, -0.0, 1.0, 0.0),
    (-0.0, -0.0, 1.0, -0.0),
    (-0.0, 0.0, 1.0, 0.0),
    (1.0, -1.0, 1.0, 0.0),
])  # fmt: skip
def test_special_values(total, x, y, expected):
    got = reference_sums.fused(total, x, y)
    assert (np.isnan(got) and np.isnan(expected)) or (got == expected and np.signbit(got) == np.signbit(expected))


@pytest.mark.parametrize("mode", MODES)
def test_an_exact_zero_has_no_sign(mode):
    """In every mode and on every path; IEEE 754 has −0 under "down"."""
    for numbers in ([1.0, -1.0], [-1.0, 1.0], [-0.0, -0.0], [-0.0]):
        assert not np.signbit(dot_product(numbers, [1.0] * len(numbers), "e5m2", rounding=mode))
        x = np.float32([numbers] * 80)
        for with_loops in (True, False):
            with without_compiled_loops(not with_loops):
                assert not np.signbit(matmul(x, np.ones((len(numbers), 70), np.float32), "bf16", rounding=mode)).any()


@pytest.mark.parametrize("saturating", [True, False, "propagate"])
@pytest.mark.parametrize("name", ["binary8p4ue", "binary8p4uf", "e5m2"])
def test_formats_without_a_sign_and_saturation_modes(name, saturating, monkeypatch):
    """Every addition is the format's own rounding of the exact sum; with compiled loops and without."""
    monkeypatch.setattr(compiled_sums, "_worth_it", lambda plan, operations: True)  # else it depends on what is loaded
    fmt = dataclasses.replace(F.get(name), saturating=saturating)
    for mode in ("nearest_even", "nearest_away", "down", "to_odd"):
        for numbers in ([-5.0], [5.0, -5.0], [1e6, -1e6, 3.0], [np.inf, 1.0], [-np.inf, 3.0], [3e38, 3e38], [np.nan]):
            want = 0.0
            for number in numbers:
                want = fmt.quantize(want + number, mode)
            for with_loops in (True, False):
                with without_compiled_loops(not with_loops):
                    got = matmul(
                        np.float32([numbers] * 80), np.ones((len(numbers), 70), np.float32), fmt, rounding=mode
                    )
                np.testing.assert_array_equal(got, np.full_like(got, want))
                assert np.isnan(want) or (np.signbit(got) == np.signbit(want)).all()


def test_keys_are_those_of_the_counter():
    for seed in (0, 7, 2**64 - 1, 2**70 + 3):
        for stream in range(rng_streams.STREAMS):
            keys = rng_streams.keys(seed, stream, 50)
            want = [counter_rng.keys(seed, rng_streams.STREAMS * step + stream) for step in range(50)]
            assert keys.view(np.uint32).tolist() == [list(pair) for pair in want]


def test_each_addition_has_its_own_bits():
    """Draws for (element, step, stream) behave as if independent: no two of the 3 · 64 · 64 coincide too often."""
    steps = [(step, stream) for step in range(64) for stream in range(3)]
    draws = np.array([[rng_streams.random_bits(5, *step, element, 16) for element in range(64)] for step in steps])
    assert abs(draws.mean() / 2**16 - 0.5) < 0.01
    correlation = np.corrcoef(draws)[np.triu_indices(len(draws), 1)]
    assert np.abs(correlation).max() < 0.7 and abs(correlation.mean()) < 0.01
