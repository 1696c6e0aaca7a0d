"""Sums of 65,536 numbers with mean 1 and standard deviation 1 in 1-6-9, chunk by chunk (Wang et al. 2018, figure 3b).

The table is an exact replica computed for our notes on the paper: NumPy's default generator with seed 0, inputs rounded
to ten significant bits, an unbounded exponent. dlfloat16 gives the same, as nothing leaves its range.
"""

import numpy as np
import pytest

from lplab import formats as F
from lplab.arithmetic import kahan_sum, matmul, pairwise_sum
from lplab.arithmetic import sum as sum_in

LENGTHS = (4096, 16384, 32768, 65536)
UNBOUNDED = F.FloatFormat(10, 9, specials="none")  # 2^-511 to 2^512, which is as good
TABLE = [
    (None, "nearest_even", (3712, 4096, 4096, 4096)),
    (1, "nearest_even", (3712, 4096, 4096, 4096)),
    (None, "toward_zero", (1042, 1224, 1134, 1072)),
    (8, "nearest_even", (3992, 16384, 16480, 16800)),
    (16, "nearest_even", (4048, 16480, 32768, 32768)),
    (32, "nearest_even", (4036, 16416, 32768, 64960)),
    (64, "nearest_even", (4048, 16384, 32832, 65664)),
    (128, "nearest_even", (4048, 16480, 32896, 65664)),
    (256, "nearest_even", (4036, 16512, 32704, 65152)),
    (4096, "nearest_even", (3712, 15072, 30112, 60096)),
]


@pytest.fixture(scope="module")
def numbers() -> np.ndarray:
    edge = np.sqrt(3)
    return UNBOUNDED.quantize(np.random.default_rng(0).uniform(1 - edge, 1 + edge, LENGTHS[-1]))


@pytest.mark.parametrize("fmt", [UNBOUNDED, F.get("dlfloat16")], ids=["unbounded", "dlfloat16"])
@pytest.mark.parametrize(("chunk", "rounding", "expected"), TABLE)
def test_table(numbers, fmt, chunk, rounding, expected):
    assert [sum_in(numbers[:n], fmt, chunk=chunk, rounding=rounding) for n in LENGTHS] == list(expected)


ERRORS = {"nearest_even": {None: 0.94, 1: 0.94, 8: 0.74, 16: 0.50, 32: 0.009, 64: 0.0015, 128: 0.0015, 256: 0.006,
                           4096: 0.083}, "toward_zero": {None: 0.98}}  # fmt: skip


@pytest.mark.parametrize(("chunk", "rounding", "expected"), TABLE)
def test_last_column_of_the_table(chunk, rounding, expected):
    """The relative error against the exact 65,565, to the digits that are printed."""
    printed = ERRORS[rounding][chunk]
    digits = 4 if printed < 0.005 else 3 if printed < 0.1 else 2
    assert round(abs(expected[-1] - 65565) / 65565, digits) == printed


def test_the_exact_sum(numbers):
    assert round(float(numbers.sum())) == 65565


def test_the_printed_stochastic_sums_are_such_as_these(numbers):
    """4176, 17024, 33664, 66048 are one draw of the notes; ours have other bits, and lie on both sides of it."""
    printed = (4176, 17024, 33664, 66048)
    ours = [[sum_in(numbers[:n], "dlfloat16", rounding="stochastic", seed=seed) for n in LENGTHS] for seed in range(20)]
    assert (np.min(ours, axis=0) < printed).all() and (printed < np.max(ours, axis=0)).all()
    assert round(abs(printed[-1] - 65565) / 65565, 3) == 0.007


def test_stochastic_rounding_follows(numbers):
    sums = np.array([sum_in(numbers, "dlfloat16", rounding="stochastic", seed=seed) for seed in range(40)])
    assert abs(sums.mean() - 65565) < 3 * sums.std() / np.sqrt(40)
    assert sums.std() < 0.05 * 65565


def test_a_matrix_product_is_many_such_sums(numbers):
    ones = np.ones((4, len(numbers)), np.float32)
    columns = np.stack([numbers] * 3, axis=1).astype(np.float32)
    assert (matmul(ones, columns, "dlfloat16", chunk=64) == 65664).all()
    assert (matmul(ones, columns, "dlfloat16") == 4096).all()


@pytest.mark.parametrize(("name", "bits"), [("dlfloat16", 9), ("bf16", 7), ("e4m3fn", 3)])
@pytest.mark.parametrize("term", [1.0, 0.25])
def test_a_sum_of_equal_terms_stalls(name, bits, term):
    """At a·2^(m + 1) where ties go to even, at twice that where they go away from zero."""
    terms = np.full(5000, term)
    assert sum_in(terms, name) == term * 2 ** (bits + 1)
    away = sum_in(terms, name, rounding="nearest_away")
    assert away == min(term * 2 ** (bits + 2), F.get(name).max)


@pytest.mark.parametrize("chunk", [4, 16])
def test_chunks_move_the_stall(chunk):
    """The outer sum stalls at chunk · 2^(m + 1), or twice that where ties go away from zero."""
    ones = np.ones(40_000)
    assert sum_in(ones, "dlfloat16", chunk=chunk) == chunk * 2**10
    assert sum_in(ones, "dlfloat16", chunk=chunk, rounding="nearest_away") == chunk * 2**11


def test_other_ways_to_sum(numbers):
    """A tree and a compensated sum end at the number of ten bits nearest to the exact sum."""
    nearest = F.get("dlfloat16").quantize(float(numbers.sum()))
    assert pairwise_sum(numbers, "dlfloat16") == kahan_sum(numbers, "dlfloat16") == nearest == 65536


def test_products_of_fp8_are_exact_in_1_6_9():
    """1-5-2 by 1-5-2 has at most 6 significant bits, 1-4-3 by 1-5-2 at most 7; only the exponent may not fit."""
    small, large = F.get("fp8_152").values, F.get("hfp8_forward").values
    register = F.get("dlfloat16")
    for x, y in ((small, small), (small, large)):
        products = np.outer(x, y)
        fits = (np.abs(products) >= register.smallest_normal) | (products == 0)
        assert (register.quantize(products)[fits] == products[fits]).all()
        rounded = matmul(x[:, None], y[None, :], "dlfloat16", fma=False)
        assert (rounded == matmul(x[:, None], y[None, :], "dlfloat16")).all()
