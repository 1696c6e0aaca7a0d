"""The same bits on every path: reference, array operations, compiled loops; every word, thread count and layout."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lplab import formats as F
from lplab.arithmetic import Accumulator, array_sums, compiled_sums, exactness, gemm, reference_sums
from lplab.arithmetic.exactness import bit_range_of
from lplab.formats import Rounding
from lplab.formats.paths import array_kernels
from lplab.formats.paths.rules import FLOAT_LAYOUTS, grid_rule, sum_rule
from tests.kinds import in_turn, slow

from .operands import KINDS, assert_same, operand

EVERY_WAY = [
    Accumulator("dlfloat16"),
    Accumulator("dlfloat16", chunk=3, rounding="nearest_away"),
    Accumulator("dlfloat16", chunk=4, rounding="stochastic"),
    Accumulator("dlfloat16", rounding=Rounding("stochastic", 8, "A"), fma=False),
    Accumulator("bf16"),
    Accumulator("fp16", chunk=5, outer="bf16"),
    Accumulator("fp16", rounding="toward_zero"),
    Accumulator("e4m3fn", rounding="up"),
    Accumulator("e5m2", rounding="down", chunk=2, outer="fp16"),
    Accumulator("hfp8_forward", rounding="to_odd"),
    Accumulator("q8.8", rounding="nearest_down"),
    Accumulator("q4.12", chunk=4, outer="q16.16"),
    Accumulator("int8"),
    Accumulator("fp32"),
    Accumulator("dlfloat16", fma=False, product="e4m3fn"),
    Accumulator(F.FloatFormat(4, 0, specials="none")),
    Accumulator("posit8_1"),
    Accumulator("radix4_fp4_even", chunk=2, outer="lns8"),
    Accumulator(F.IntFormat(8, scale=0.3), rounding="stochastic"),
]


def by_arrays(a: np.ndarray, b: np.ndarray, accumulator: Accumulator, seed: int = 0) -> np.ndarray:
    return array_sums.matmul(np, gemm.as_float64(np, a)[None], gemm.as_float64(np, b)[None], accumulator, seed)[0]


def compiled(a: np.ndarray, b: np.ndarray, accumulator: Accumulator, seed: int = 0, threads: int = 1) -> np.ndarray:
    """What the loop gives, or the array path where no loop serves."""
    with mock.patch.object(compiled_sums, "MIN_OPERATIONS_BEFORE_LOADING", 0), np.errstate(all="ignore"):
        return gemm.matmul_arrays(np, a, b, accumulator, seed, threads)


COMPILED_FOR_IT_ALONE = (1, 5, 6, 7, 9, 11, 17)  # of EVERY_WAY: seconds each; roundings and pairs like others


@pytest.mark.parametrize(
    "accumulator", [slow(way) if i in COMPILED_FOR_IT_ALONE else way for i, way in enumerate(EVERY_WAY)], ids=str
)
def test_all_paths_agree_with_the_reference(accumulator):
    rng = np.random.default_rng(3)
    loops = (
        ("spread", "patterns") if accumulator in EVERY_WAY[2:] else KINDS
    )  # each kind may be another loop to compile
    for kind in KINDS:
        for other in (kind, "fp8"):
            a, b = operand(kind, (3, 13), rng), operand(other, (13, 2), rng)
            with np.errstate(all="ignore"):
                want = reference_sums.matmul(a.astype(float), b.astype(float), accumulator, seed=5)
                assert_same(by_arrays(a, b, accumulator, 5), want)
            if kind in loops:
                assert_same(compiled(a, b, accumulator, 5), want)


def test_every_way_but_tables_is_compiled():
    spread = bit_range_of(operand("spread", (50,), np.random.default_rng(0)).astype(float))
    arrays = [w for w in EVERY_WAY if compiled_sums.plan_loop(spread.times(spread), w, 13) is None]
    assert arrays == EVERY_WAY[-3:]


FEW_LOOPS = ("fp8", "dlfloat", "patterns")  # kinds of operands that share their loops


@given(st.integers(0, 2**32 - 1), st.sampled_from(FEW_LOOPS), st.sampled_from(FEW_LOOPS), st.integers(1, 64))
@settings(max_examples=60)
def test_random_products(seed, kind, other, chunk):
    rng = np.random.default_rng(seed)
    a, b = operand(kind, (2, 20), rng), operand(other, (20, 3), rng)
    for name in ("dlfloat16", "fp16", "e5m2"):
        accumulator = Accumulator(name, chunk=chunk)
        with np.errstate(all="ignore"):
            want = reference_sums.matmul(a.astype(float), b.astype(float), accumulator)
            assert_same(by_arrays(a, b, accumulator), want)
        assert_same(compiled(a, b, accumulator), want)


# -- the loop is chosen for its speed; the choice never shows -------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "mode"), in_turn(("dlfloat16", "bf16", "fp16", "e4m3fn"), ("nearest_even", "nearest_away"), 2)
)
def test_the_float32_loop_gives_the_bits_of_the_exact_one(name, mode):
    """Millions of additions, most of them rounded, on operands for which a loop in float32 is chosen or nearly so."""
    rng = np.random.default_rng(7)
    chosen = set()
    accumulator = Accumulator(name, rounding=mode, chunk=16)
    pairs = ("fp8", "fp8"), ("fp8", "gradients"), ("powers", "fp8"), ("dlfloat", "powers"), ("dlfloat", "dlfloat")
    for kind, other in pairs:
        a, b = operand(kind, (96, 64), rng), operand(other, (64, 128), rng)
        products_ = bit_range_of(a.astype(float)).times(bit_range_of(b.astype(float)))
        chosen.add(compiled_sums.plan_loop(products_, accumulator, 64).real)
        rule = grid_rule(accumulator.format.rounding_spec, accumulator.rounding, "float64")
        exact_sums = compiled_sums.LoopPlan("float64", rule, rule, None, True)
        with mock.patch.object(compiled_sums, "plan_loop", lambda *_, exact_sums=exact_sums: exact_sums):
            want = compiled(a, b, accumulator)
        assert_same(compiled(a, b, accumulator), want)
    assert "float32" in chosen


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("mode", ["nearest_even", "stochastic"])
def test_thread_counts(mode, threads):
    rng = np.random.default_rng(11)
    a, b = operand("dlfloat", (75, 64), rng), operand("fp8", (64, 130), rng)
    accumulator = Accumulator("dlfloat16", chunk=16, rounding=mode)
    assert a.shape[0] * a.shape[1] * b.shape[1] > compiled_sums.MIN_PARALLEL_WORK
    assert_same(compiled(a, b, accumulator, 9, threads), by_arrays(a, b, accumulator, 9))


@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 1), (1, 200), (200, 1), (5, 63), (130, 7), (3, 128), (2, 129), (2, 250)]
)
def test_shapes_and_their_stochastic_elements(rows, columns):
    """Rows and columns change places where columns are few; an element keeps its number."""
    rng = np.random.default_rng(rows)
    a, b = operand("dlfloat", (rows, 9), rng), operand("fp8", (9, columns), rng)
    accumulator = Accumulator("dlfloat16", chunk=4, rounding="stochastic")
    assert_same(compiled(a, b, accumulator, 9), by_arrays(a, b, accumulator, 9))


def test_batches_and_their_stochastic_elements():
    rng = np.random.default_rng(0)
    a, b = operand("dlfloat", (2, 1, 3, 9), rng), operand("fp8", (4, 9, 5), rng)
    accumulator = Accumulator("dlfloat16", rounding="stochastic")
    got = compiled(a, b, accumulator, 9)
    with mock.patch.object(compiled_sums, "available", lambda: False):
        assert_same(gemm.matmul_arrays(np, a, b, accumulator, 9, 1), got)
    wide_a, wide_b = (
        np.broadcast_to(a, (2, 4, 3, 9)).reshape(8, 3, 9),
        np.broadcast_to(b, (2, 4, 9, 5)).reshape(8, 9, 5),
    )
    one_by_one = [
        [
            reference_sums.dot(
                wide_a[n, i].astype(float), wide_b[n, :, j].astype(float), accumulator, 9, (n * 3 + i) * 5 + j
            )
            for i in range(3)
            for j in range(5)
        ]
        for n in range(8)
    ]
    assert_same(got.reshape(8, 15), one_by_one)


# -- bit ranges of operands ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_both_ways_to_measure_agree(kind):
    for seed in range(20):
        x = operand(kind, (int(seed) + 1, 7), np.random.default_rng(seed))
        exact = bit_range_of(gemm.as_float64(np, x))
        measured = compiled_sums.measure_bit_range(x)
        assert (measured.bits, measured.low, measured.finite) == (exact.bits, exact.low, exact.finite)
        assert measured.high == max(exact.high, -125) or exact.high == measured.high


def test_the_bit_range_of_a_broadcast_array_is_measured_once():
    x = np.broadcast_to(np.float32([[1.5], [3.0]]), (2, 10**9))
    assert compiled_sums.measure_bit_range(x) == exactness.BitRange(2, -1, 2)


def test_special_cases_of_bit_ranges():
    assert bit_range_of(np.zeros(3)) == exactness.BitRange(1, 0, 0)
    assert not bit_range_of(np.array([np.inf, 1.0])).finite
    assert bit_range_of(np.array([5e-324])).low == -1074
    assert exactness.BitRange(1, 0, 3).times(exactness.BitRange(53, -5, 4)) == exactness.BitRange(53, -5, 7)


# -- the words of sums ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["nearest_even", "nearest_away"])
@pytest.mark.parametrize("name", ["dlfloat16", "fp16", "e4m3fn", "e5m2", "hfp8_backward", "q8.8", "int8"])
@pytest.mark.parametrize("real", ["float32", "float64"])
def test_a_sum_is_rounded_as_any_number_is(real, name, mode):
    """Ties, numbers beyond the largest, subnormal ones, zeros of both signs, infinity and NaN."""
    fmt, layout = F.get(name), FLOAT_LAYOUTS[real]
    grid = np.unique(np.concatenate([fmt.codebook(), [0.0]]))
    grid = grid[np.isfinite(grid)]
    middles = (grid[1:] + grid[:-1]) / 2
    near = np.concatenate([middles, np.nextafter(middles, np.inf), middles * (1 + 2.0**-20)])
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.1 * grid[-1], 1.1 * grid[0], 3 * grid[-1], 3 * grid[0]]
    x = np.concatenate([grid, near, special]).astype(real)
    rule = sum_rule(fmt.rounding_spec, Rounding(mode), real, in_range=False)
    word = array_kernels.words_for(np, real, **dict(rule.flags))[rule.word]
    with np.errstate(all="ignore"):
        assert_same(word(x.view(layout.integer), *rule.constants).view(real), fmt.quantize(x, mode))
    inside = x[(np.abs(x) <= grid[-1] / 2) & (np.abs(x) >= 2.0 ** (fmt.rounding_spec.min_exponent + 1))]
    rule = sum_rule(fmt.rounding_spec, Rounding(mode), real, in_range=True)
    word = array_kernels.words_for(np, real, **dict(rule.flags))[rule.word]
    assert_same(word(inside.view(layout.integer), *rule.constants).view(real), fmt.quantize(inside, mode))
