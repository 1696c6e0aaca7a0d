"""Radix-4 FP4 and two phases: the vectors of the paper notes (4.2, 4.3), the published procedure, every reading."""

from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from lplab import formats as F
from lplab.quantizers import LUQ, Radix4, two_phase
from lplab.quantizers.radix4 import reference_radix4

torch = pytest.importorskip("torch")

EVEN = [4.0**n for n in range(-3, 4)]
THRESHOLDS = [0.009765625, 0.0390625, 0.15625, 0.625, 2.5, 10.0, 40.0]
VECTORS = {  # x → (even, odd), paper notes 4.2
    0.005: (0, 1 / 128), 0.0097: (0, 1 / 128), 0.0098: (1 / 64, 1 / 128), 0.1: (1 / 16, 1 / 8), 0.2: (1 / 4, 1 / 8),
    0.5: (1 / 4, 1 / 2), 0.7: (1, 1 / 2), 1.0: (1, 1 / 2), 2.0: (1, 2), 2.6: (4, 2), 3.9: (4, 2), 9.99: (4, 8),
    10.1: (16, 8), 30.0: (16, 32), 40.1: (64, 32), 100.0: (64, 32),
}  # fmt: skip
READINGS = [(t, u) for t in ("away", "toward_zero") for u in ("published", "midpoint")]


def exact(x, phase, ties, underflow):
    """One element by the definition, in rational numbers."""
    half = Fraction(1, 2) if phase == "odd" else 1
    values = [Fraction(0)] + [Fraction(4) ** n * half for n in range(-3, 4)]
    cuts = [(a + b) / 2 for a, b in pairwise(values)]
    if underflow == "published":
        cuts[0] = values[1] * Fraction(5, 8)
    magnitude = abs(Fraction(float(x)))
    past = sum(magnitude >= cut if ties == "away" else magnitude > cut for cut in cuts)
    return np.copysign(float(values[past]), x)


def probes(dtype):
    """Every value and threshold of both phases and all readings, their neighbours, and numbers in between."""
    points = np.array(THRESHOLDS + EVEN + [2.0**-7], dtype)
    points = np.concatenate([points, points / 2, points * 2, dtype([0, 1e-30, 1e30])])
    points = np.concatenate([points, np.nextafter(points, dtype(0)), np.nextafter(points, dtype(np.inf))])
    more = np.exp(np.random.default_rng(1).uniform(-7, 6, 300)).astype(dtype)
    points = np.concatenate([points, more])
    return np.concatenate([points, -points])


@pytest.mark.parametrize(("x", "want"), VECTORS.items())
@pytest.mark.parametrize("sign", [1, -1])
def test_printed_vectors(x, want, sign):
    assert two_phase(sign * x) == (sign * want[0], sign * want[1])
    for readings in READINGS:  # no tie among them; 0.0097 and 0.0098 lie above the midpoint
        even, odd = two_phase(sign * x, ties=readings[0], underflow=readings[1])
        assert (even, odd) == (sign * want[0], sign * want[1]) or (readings[1] == "midpoint" and x == 0.0097)


@pytest.mark.parametrize("phase", ["even", "odd"])
def test_values_change_at_the_printed_thresholds(phase):
    half = 0.5 if phase == "odd" else 1.0
    for below, value, threshold in zip([0.0, *EVEN], EVEN, THRESHOLDS, strict=False):
        cut = np.float32(threshold * half)
        assert Radix4(phase).quantize(cut) == value * half
        assert Radix4(phase).quantize(np.nextafter(cut, np.float32(0))) == below * half
        assert Radix4(phase, ties="toward_zero").quantize(cut) == below * half


def test_underflow_of_the_two_readings():
    assert [Radix4().quantize(x) for x in (0.0078125, 0.0097)] == [0, 0]
    assert [Radix4(underflow="midpoint").quantize(x) for x in (0.0078124, 0.0078125)] == [0, 1 / 64]
    assert Radix4(ties="toward_zero", underflow="midpoint").quantize(0.0078125) == 0


def test_the_table_of_codes():
    """Paper notes 4.1: fifteen values a phase, two codes for zero."""
    book = Radix4().format.codebook()
    assert book[:8].tolist() == [0, *EVEN] and book[8:].tolist() == [0, *(-v for v in EVEN)]
    assert (Radix4("odd").format.codebook() == book / 2).all()
    for phase in ("even", "odd"):
        assert (Radix4(phase).format.codebook() == F.get(f"radix4_fp4_{phase}").codebook()).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("readings", READINGS)
@pytest.mark.parametrize("phase", ["even", "odd"])
def test_against_exact_arithmetic(dtype, readings, phase):
    x = probes(dtype)
    got = Radix4(phase, *readings).quantize(x)
    want = np.array([exact(v, phase, *readings) for v in x], dtype)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(x))


def test_the_published_procedure_is_the_default_reading():
    x = probes(np.float32)
    np.testing.assert_array_equal(two_phase(x)[0], reference_radix4(x))
    np.testing.assert_array_equal(two_phase(x)[1], reference_radix4(2.0 * x) / 2)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0])
    np.testing.assert_array_equal(two_phase(special)[0], reference_radix4(special))


def test_odd_is_half_of_the_even_of_twice():
    x = probes(np.float32)
    for ties, underflow in READINGS:
        even_of_twice = two_phase(2 * x, ties=ties, underflow=underflow)[0]
        np.testing.assert_array_equal(two_phase(x, ties=ties, underflow=underflow)[1], even_of_twice / 2)


def test_rounding_a_phase_from_the_other_is_wrong():
    """Paper notes 4.11: it maps 1 → ½ and 4 → 2 always, so a mean over the interval is missed."""
    odd = Radix4("odd")
    assert [odd.quantize(even) for even in EVEN] == [even / 2 for even in EVEN]
    assert odd.quantize(1.5) == 2 and odd.quantize(Radix4().quantize(1.5)) == 0.5


@pytest.mark.parametrize("scale", [2.0**21, 2.0**-9, 3.0])
@pytest.mark.parametrize("ties", ["away", "toward_zero"])
def test_a_scale_multiplies_before_and_divides_after(scale, ties):
    x = (probes(np.float32)[:300] / np.float32(scale)).astype(np.float32)
    even, odd = two_phase(x, scale, ties=ties)
    np.testing.assert_array_equal(even, two_phase(x * np.float32(scale), ties=ties)[0] / np.float32(scale))
    np.testing.assert_array_equal(odd, two_phase(x * np.float32(scale), ties=ties)[1] / np.float32(scale))


def test_special_numbers_and_shapes():
    even, odd = two_phase(np.float32([np.nan, np.inf, -np.inf, -0.0]), 4.0)
    assert np.isnan(even[0]) and even[1:].tolist() == [16, -16, 0] and odd[1:].tolist() == [8, -8, 0]
    assert np.signbit(even[3]) and np.signbit(odd[3])
    assert two_phase(np.float32([3e38]), 2.0**40)[0] == 2.0**-34
    assert [part.shape for part in two_phase(np.zeros((0, 4)))] == [(0, 4), (0, 4)]
    assert two_phase(np.array(1.0), 2.0)[0].shape == () and isinstance(two_phase(np.float32(1))[0], np.float32)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("ties", ["away", "toward_zero"])
def test_torch_is_numpy(dtype, ties):
    x = torch.from_numpy(probes(np.float32)).to(getattr(torch, dtype))
    wide = x.double().numpy() if dtype == "float64" else x.float().numpy()
    for got, want in zip(two_phase(x, 2.0, ties=ties), two_phase(wide, 2.0, ties=ties), strict=True):
        assert got.dtype == x.dtype
        assert torch.equal(got, torch.from_numpy(want).to(x.dtype))


def test_gradients_pass_straight_through():
    x = torch.ones(3, requires_grad=True)
    even, odd = two_phase(x)
    (even + 2 * odd).sum().backward()
    assert x.grad.tolist() == [3, 3, 3]


# ---- what two phases do to a gradient: the table of the paper notes, 4.3 ---------------------------------------------


def scaled_sample(kind, seed):
    """10^6 numbers |N(0, 1)| or lognormal with σ = 2, scaled so that the largest of them is 64."""
    x = np.random.default_rng(seed).normal(size=10**6)
    x = np.abs(x) if kind == "gaussian" else np.exp(2 * x)
    return x * 64 / x.max()


@cache
def statistics(kind):
    """Relative bias, squared error over power and share of zeros, as [seed, quantizer, column].

    Where a distribution lies on the grid depends on the largest of its draws, so every draw gives other numbers.
    """
    table = []
    for seed in range(10):
        x = scaled_sample(kind, seed)
        even, odd = two_phase(x)
        rows = (even, odd, (even + odd) / 2, LUQ(nearest=True).quantize(x), LUQ().quantize(x, seed=seed))
        table.append(
            [((v - x).mean() / x.mean(), ((v - x) ** 2).mean() / (x**2).mean(), (v == 0).mean()) for v in rows]
        )
    return np.array(table)


@pytest.mark.parametrize(("kind", "row", "bias", "error", "zeros"), [
    ("gaussian", "even", -0.134, 0.119, 0.001),
    ("gaussian", "odd", -0.134, 0.149, 0.000),
    ("gaussian", "mean", -0.134, 0.047, 0.000),
    ("gaussian", "radix 2", -0.040, 0.038, 0.048),
    ("gaussian", "luq", 0.000, 0.082, 0.032),
    ("lognormal", "even", -0.17, 0.134, 0.65),
    ("lognormal", "odd", -0.15, 0.134, 0.51),
    ("lognormal", "mean", -0.16, 0.050, 0.51),
    ("lognormal", "radix 2", -0.71, 0.112, 0.995),
    ("lognormal", "luq", 0.004, 0.407, 0.97),
])  # fmt: skip
def test_the_printed_statistics(kind, row, bias, error, zeros):
    """The notes' draws are one more: their numbers lie among those of ten draws of ours, but for their rounding."""
    ours = statistics(kind)[:, ("even", "odd", "mean", "radix 2", "luq").index(row)]
    rounding = 0.0025 if kind == "gaussian" else 0.005
    printed = np.array([bias, error, zeros])
    assert (printed >= ours.min(0) - rounding).all() and (printed <= ours.max(0) + rounding).all(), ours


@pytest.mark.parametrize("kind", ["log-uniform", "uniform", "gaussian"])
def test_the_multiplier_1_6_has_the_least_error(kind):
    """Fig. 2b, and the notes' check: 1.60 for three distributions. The error is flat there, hence steps of 0.1."""
    x = np.linspace(0, 1, 100_001)[1:-1]
    if kind == "log-uniform":
        x = 4.0 ** (4 * x - 2)
    elif kind == "uniform":
        x = x * 16
    else:
        x = np.abs(np.random.default_rng(0).normal(size=200_000)) * 8
    multipliers = np.arange(1.2, 2.2, 0.1)
    errors = [((reference_radix4(x, m) - x) ** 2).mean() for m in multipliers]
    assert multipliers[np.argmin(errors)] == pytest.approx(1.6)


@pytest.mark.parametrize(("kind", "low", "high"), [("uniform", 1.58, 1.62), ("gaussian", 1.9, 2.0),
                                                  ("log-uniform", 1.70, 1.73)])  # fmt: skip
def test_the_multiplier_without_bias(kind, low, high):
    """1.6 for uniform numbers, more for realistic ones: so the rule shrinks gradients (4.3).

    The notes print 1.6, 1.95 and, for log-uniform numbers, 2.1. For those one can say it exactly: over an interval
    [1, 4] the mean is 3 / ln 4 and that of the values 1 + 3·log4(multiplier), equal at 1.712. 2.1 is not found again.
    """
    u = (np.arange(400_000) + 0.5) / 400_000
    x = {"uniform": 64 * u, "log-uniform": 4.0 ** (3 * u), "gaussian": scaled_sample("gaussian", 42)}[kind]
    below, above = ((reference_radix4(x, m) - x).mean() for m in (low, high))
    assert below < 0 < above


# ---- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: Radix4("both"), ValueError, "phase must be 'even' or 'odd', got 'both'"),
    (lambda: Radix4(ties="even"), ValueError, "ties must be 'away' or 'toward_zero', got 'even'"),
    (lambda: two_phase(1.0, underflow="half"), ValueError, "underflow must be 'published' or 'midpoint', got 'half'"),
    (lambda: two_phase(1.0, 0), ValueError, "scale must be a positive finite number, got 0"),
    (lambda: two_phase(1.0, float("nan")), ValueError, "scale must be a positive finite number, got nan"),
    (lambda: two_phase(np.arange(3)), TypeError, "convert integers with"),
])  # fmt: skip
def test_errors_say_what_is_allowed(call, error, message):
    with pytest.raises(error, match=message):
        call()
