"""The numbers behind the figures, against counts and searches that share no code with them."""

import math
import re
from typing import Any

import numpy as np
import pytest
import torch

from lplab import figures, formats
from lplab.figures import style
from lplab.figures.range_outcomes import window_edges
from lplab.figures.statistics import as_array
from lplab.figures.window import window
from tests.kinds import by_class, in_turn, one_in_three

SMALL = [n for n in formats.names() if not hasattr(formats.get(n), "block_size") and formats.get(n).bits <= 8]


def random() -> np.random.Generator:
    """The same numbers for every test, whichever ran before."""
    return np.random.default_rng(7)


def spread(fmt: Any, n: int = 3000) -> np.ndarray:
    """Numbers of both signs over all octaves of a format and beyond, some of them its own values, some zero."""
    rng = random()
    low, high = math.log2(fmt.smallest_subnormal) - 4, math.log2(fmt.max) + 2
    x = 2 ** rng.uniform(low, high, n) * rng.choice([-1.0, 1.0], n)
    x[::10] = rng.choice(fmt.values, len(x[::10]))
    x[::97] = 0
    return x


def outcome_by_hand(x: float, values: list[float], zero: tuple[float, float], beyond: float | None = None) -> str:
    """What happens to one number, from the sorted values and the one ``beyond`` them, if they do not saturate.

    Ties aside. Between the ends of ``zero`` it becomes zero.
    """
    if x in values:
        return "exact"
    if x > (values[-1] + (beyond or 2 * values[-1] - values[-2])) / 2:
        return "saturated"
    if x < (values[0] - (values[1] - values[0]) / 2 if values[0] <= 0 else 0):
        return "saturated"
    return "flushed" if zero[0] < x < zero[1] else "rounded"


def finite_values(fmt: Any) -> list[float]:
    return sorted({float(v) + 0.0 for v in fmt.codebook() if math.isfinite(v)})


TWO_SIDES = {  # formats whose two sides of zero differ
    "nf4": formats.get("nf4"),
    "nf4, mirrored": formats.CodebookFormat(tuple(-formats.get("nf4").values)),
    "coarse below zero": formats.CodebookFormat((-5.0, -1.0, 0.0, 0.25)),
    "without zero": formats.CodebookFormat((-3.0, -1.0, 2.0, 5.0)),
    "without signs": formats.CodebookFormat((0.0, 1.0, 2.0, 4.0)),
    "NaN beyond": formats.CodebookFormat((1.0, 2.0), beyond=8.0),
    "uint4": formats.IntFormat(4, signed=False),
    "int4 around 3": formats.IntFormat(4, zero_point=3),
    "P3109 without signs": formats.get("binary8p4uf"),
}


@pytest.mark.parametrize("name", [*one_in_three(SMALL), *TWO_SIDES])
def test_shares_against_a_count_by_hand(name: str) -> None:
    fmt = TWO_SIDES.get(name) or formats.get(name)
    x = spread(fmt)
    values = finite_values(fmt)
    zero = (0.0, 0.0)  # posits, for one, have no way to zero
    if 0 in values and not name.startswith("posit"):
        zero = (max([v for v in values if v < 0], default=-2 * x.max()) / 2, fmt.smallest_subnormal / 2)
    if not getattr(fmt, "subnormals", True):
        end = (fmt.smallest_normal + fmt.smallest_normal / fmt.radix) / 2  # flushed after rounding to one more binade
        zero = (-end, end)
    outcomes = [outcome_by_hand(v, values, zero, getattr(fmt, "beyond", None)) for v in x.tolist()]
    n = figures.tensor_statistics(x, fmt)
    for outcome in ("exact", "rounded", "flushed", "saturated"):
        assert getattr(n, outcome) == outcomes.count(outcome) / len(x), outcome
    assert n.exact + n.rounded + n.flushed + n.saturated == pytest.approx(1)


@pytest.mark.parametrize("name", ["mxfp4", "mxfp8_e4m3", "mxfp6_e2m3", "mxint8"])
def test_shares_of_blocks_against_a_count_by_hand(name: str) -> None:
    fmt = formats.get(name)
    x = random().standard_t(2, (7, 100)).astype(np.float32)
    values = finite_values(fmt.element)
    top_exponent, zero = math.floor(math.log2(values[-1])), fmt.element.smallest_subnormal / 2
    outcomes = []
    for row in x.astype(np.float64):
        for start in range(0, 100, 32):
            block = row[start : start + 32]
            scale = 2.0 ** (math.floor(math.log2(np.abs(block).max())) - top_exponent)
            outcomes += [outcome_by_hand(v / scale, values, (-zero, zero)) for v in block.tolist()]
    n = figures.tensor_statistics(x, fmt)
    for outcome in ("exact", "rounded", "flushed", "saturated"):
        assert getattr(n, outcome) == outcomes.count(outcome) / x.size, outcome


CLASSES = by_class(n for n in formats.names() if not hasattr(formats.get(n), "block_size"))


@pytest.mark.parametrize("rounding", [r for r in formats.ROUNDINGS if r != "stochastic"])
@pytest.mark.parametrize("name", [*CLASSES, *TWO_SIDES])
def test_what_becomes_zero_against_brute_force(name: str, rounding: str) -> None:
    fmt = TWO_SIDES.get(name) or formats.get(name)
    edges = window(fmt, rounding)
    ends = np.array([edges.zero_low, edges.zero_high])
    reach = 1.5 * max(fmt.smallest_subnormal, *ends, *-ends)
    x = np.concatenate([np.linspace(-reach, reach, 6001), ends, np.nextafter(ends, [-np.inf, np.inf])])
    x = x[(x != 0) & (x >= edges.low)]  # without signs, negative numbers saturate at zero
    assert np.array_equal(fmt.quantize(x, rounding) == 0, (x >= edges.zero_low) & (x <= edges.zero_high))


@pytest.mark.parametrize("name", ["e4m3fn", "dlfloat16", "int8", "posit8_1", "e8m0", *TWO_SIDES])
def test_what_may_become_zero_is_all_that_some_seeds_flush(name: str) -> None:
    fmt = TWO_SIDES.get(name) or formats.get(name)
    edges = window(fmt, "stochastic")
    ends = np.array([edges.zero_low, edges.zero_high])
    assert np.all((ends == 0) | np.isin(ends, fmt.values))
    reach = np.where(ends == 0, [-fmt.smallest_subnormal, fmt.smallest_subnormal], ends)
    x = np.outer([0.1, 0.5, 0.95, 1.05, 1.5], reach).ravel()
    x = x[x >= edges.low]
    flushed = np.any([fmt.quantize(x, "stochastic", seed=seed) == 0 for seed in range(300)], axis=0)
    assert np.array_equal(flushed, (x > edges.zero_low) & (x < edges.zero_high))


@pytest.mark.parametrize("rounding", formats.ROUNDINGS)
@pytest.mark.parametrize("name", ["nf4", "nf4, mirrored", "coarse below zero", "without signs"])
def test_each_element_counts_on_its_own_side(name: str, rounding: str) -> None:
    """Shares of a tensor, and of each side alone, are what ``quantize`` makes of the elements."""
    fmt = TWO_SIDES[name]
    x = spread(fmt)
    low, high = float(fmt.values[0]), float(fmt.values[-1])
    for part in (x, x[x < 0], x[x > 0]):
        q = np.asarray(fmt.quantize(part, rounding, seed=3))
        step = np.diff(fmt.values)[[0, -1]] / 2 * rounding.startswith("nearest")
        step[0] = step[0] if low else fmt.smallest_subnormal / 2 * rounding.startswith("nearest")
        beyond = (part < low - step[0]) | (part > high + step[1])
        n = figures.tensor_statistics(part, fmt, rounding, seed=3)
        assert n.exact == np.mean(q == part)
        assert n.flushed == np.mean((q == 0) & (part != 0) & ~beyond)
        assert n.saturated == np.mean(beyond)


def test_ranges_of_magnitudes_end_where_the_first_side_ends() -> None:
    """Magnitudes have no signs: of NF4 the negative side loses more to zero, and the positive one ends first."""
    zero, normal, end = np.exp2(window_edges(window(formats.get("nf4"))))
    below, above = -formats.get("nf4").values[6], np.diff(formats.get("nf4").values)[-1]
    assert zero == normal == pytest.approx(below / 2) and end == pytest.approx(1 + above / 2)


@pytest.mark.parametrize(
    ("name", "first"), [("uint4", 15.5), ("P3109 without signs", 59392), ("coarse below zero", 0.375)]
)
def test_the_magnitude_that_saturates_first(name: str, first: float) -> None:
    edge = window(TWO_SIDES[name]).magnitude
    assert edge == first
    inside, beyond = (figures.tensor_statistics(np.array([edge * share]), TWO_SIDES[name]) for share in (0.999, 1.001))
    assert (inside.saturated, beyond.saturated) == (0, 1)


def test_the_error_curve_is_that_of_positive_numbers() -> None:
    least, top = formats.get("nf4").values[[8, -2]]
    text = figures.error_curve("nf4").layout.meta["alt"]
    assert f"to zero up to {least / 2:.3g}, overflow above {1 + (1 - top) / 2:.3g}" in text
    assert "nothing to zero, overflow above 1" in figures.error_curve("nf4", rounding="up").layout.meta["alt"]


OVERFLOWING = [  # a posit rounds each finite number to a finite one
    n
    for n in formats.names()
    if not getattr(formats.get(n), "saturating", True) and not isinstance(formats.get(n), formats.PositFormat)
]


@pytest.mark.parametrize("name", OVERFLOWING)
def test_upper_edge_against_overflow(name: str) -> None:
    fmt = formats.get(name)
    high = window(fmt).high
    assert np.isfinite(fmt.quantize(float(np.nextafter(high, 0))))
    assert not np.isfinite(fmt.quantize(float(np.nextafter(high, np.inf))))


def test_numbers_against_the_definitions() -> None:
    x = random().normal(size=999)
    q = formats.get("e5m2").quantize(x)
    n = figures.tensor_statistics(x, "e5m2")
    assert n.sqnr_db == pytest.approx(10 * math.log10(np.mean(x**2) / np.mean((q - x) ** 2)))
    assert n.bias == pytest.approx(np.mean(q - x))
    assert (n.smallest, n.largest, n.count) == (np.abs(x).min(), np.abs(x).max(), 999)


def test_what_is_not_finite_is_counted_apart() -> None:
    x = np.array([1.0, np.nan, np.inf, -np.inf, 1e9, 0.0])
    n = figures.tensor_statistics(x, "e5m2")
    assert (n.count, n.nan, n.infinite, n.overflowed) == (6, 1, 2, 1)
    assert (n.exact, n.saturated, n.zero) == (2 / 3, 1 / 3, 1 / 3)
    assert n.sqnr_db == math.inf  # of the two that stay
    saturating = figures.tensor_statistics(x, "e4m3fn")
    assert saturating.overflowed == 0 and saturating.sqnr_db < 1


def test_stochastic_repeats_itself_with_its_seed() -> None:
    x = random().normal(size=1000).astype(np.float32)
    one, same, other = (figures.tensor_statistics(x, "e2m1", "stochastic", seed=s) for s in (1, 1, 2))
    assert one == same != other
    assert one.flushed > 0


def test_a_rounding_with_its_random_bits() -> None:
    x = random().normal(size=1000).astype(np.float32)
    coin = formats.Rounding("stochastic", random_bits=2, variant="A")
    n = figures.tensor_statistics(x, "e2m1", coin, seed=5)
    assert n.rounding == "stochastic (2 random bits)"
    assert n.bias == pytest.approx(np.mean(formats.get("e2m1").quantize(x, coin, seed=5) - x), rel=1e-4)
    assert window(formats.get("e2m1"), coin) == window(formats.get("e2m1"), "stochastic")
    for fig in (
        figures.magnitude_histogram(x, "e2m1", rounding=coin),
        figures.error_curve("e2m1", rounding=coin),
        figures.number_line("e2m1", around=0.3, rounding=coin),
        figures.compare("e2m1", x, rounding=coin),
    ):
        assert "Rounding(" not in fig.layout.meta["alt"]


EDGE_CASES = {
    "empty": np.empty(0, np.float32),
    "empty 2-d": np.empty((0, 32), np.float32),
    "one": np.array(0.3),
    "zeros": np.zeros((4, 32), np.float32),
    "nothing finite": np.array([np.nan, np.inf]),
    "some not finite": np.array([np.nan, np.inf, 1.0, -2.5], np.float32),
    "tiny": np.full(5, 1e-45, np.float32),
    "huge": np.array([3e38, -3e38], np.float32),
    "half": np.array([0.1, 6e-8, 65504], np.float16),
    "torch": torch.linspace(-1, 1, 70).reshape(2, 35),
    "torch bfloat16": torch.linspace(-1, 1, 70).to(torch.bfloat16),
    "torch with gradient": torch.linspace(-1, 1, 70).requires_grad_(),
    "not contiguous": np.arange(24.0).reshape(4, 6)[:, ::2],
}


FEW_FORMATS = ["e4m3fn", "e5m2", "e8m0", "int8", "posit8_1", "lns8", "mxfp4", "nvfp4", "fp32"]


@pytest.mark.parametrize(("case", "name"), in_turn(list(EDGE_CASES), FEW_FORMATS, every=3))
@pytest.mark.filterwarnings("error")
def test_every_tensor_in_every_figure(case: str, name: str) -> None:
    tensor = EDGE_CASES[case]
    n = figures.tensor_statistics(tensor, name)
    array = as_array(tensor)
    assert (n.count, n.nan, n.infinite) == (array.size, int(np.isnan(array).sum()), int(np.isinf(array).sum()))
    for draw in (
        lambda: figures.magnitude_histogram(tensor),
        lambda: figures.magnitude_histogram(tensor, name),
        lambda: figures.compare([name, "bf16"], tensor),
    ):
        fig = draw()
        odd = f"{n.nan:,} NaN and {n.infinite:,} infinite"
        assert (odd in fig.layout.meta["alt"]) or not (n.nan or n.infinite)
        low, high = fig.layout.xaxis.range
        assert math.isfinite(low) and math.isfinite(high) and low < high


@pytest.mark.parametrize("name", ["e4m3fn", "fp32", "mxfp4", "nvfp4", "posit8_1"])
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid", "ignore:divide")
def test_the_ends_of_float64_do_not_break_figures(name: str) -> None:
    for tensor in (np.array([1.7e308, -1.7e308]), np.full(3, 5e-324)):
        assert figures.magnitude_histogram(tensor, name).layout.meta["alt"]


def test_histogram_counts_every_element_once() -> None:
    x = np.concatenate([random().standard_cauchy(5000), np.zeros(11), [1e-300, np.nan]])
    data = figures.magnitude_data(x, "e4m3fn")
    assert data.counts.sum() == 5001 and data.total == 5012 and data.nan == 1
    k = int(np.argmax(data.counts.sum(axis=0)))
    low = 2.0 ** float(data.octaves[k])
    assert data.counts[:, k].sum() == np.sum((abs(x) >= low) & (abs(x) < 2 * low))


def test_shares_in_the_ranges_of_a_histogram_leave_zeros_out() -> None:
    """Of eight elements, three are normal numbers of e4m3fn, one is subnormal, four are zero."""
    fig = figures.magnitude_histogram(np.array([1.0, 1.01, 3.0, 2.0**-8, 0, 0, 0, 0]), "e4m3fn")
    (names,) = fig.select_traces({"name": "names of the ranges"})
    shares = {name.replace("-<br>", "").split("<br>")[0]: name for name in names.text if name}
    assert "<b>37.5 %</b>" in shares["normal"] and "<b>12.5 %</b>" in shares["subnormal"]


@pytest.mark.parametrize("height", [212, 340])
@pytest.mark.parametrize("name", ["e4m3fn", "e5m2", "fp16", "int4"])
def test_names_of_ranges_lie_above_the_bars(name: str, height: int) -> None:
    """In the low histogram of lab 01 a share of three lines lay over the bars of its range."""
    x = 2.0**-9 * random().normal(size=2000)
    fig = figures.magnitude_histogram(x, name, height=height, octaves=(-28, 12))
    (names,) = fig.select_traces({"name": "names of the ranges"})
    plot = height - fig.layout.margin.t - fig.layout.margin.b
    pixels = plot / fig.layout.yaxis.range[1]
    tallest = np.zeros(60)
    for bars in fig.select_traces({"type": "bar"}):
        tallest[np.floor(bars.x).astype(int) + 28] += bars.y
    for text, y in zip(names.text, names.y, strict=True):
        lines = 1 + text.count("<br>")
        assert y * pixels - 1.2 * style.NOTE * lines >= tallest.max() * pixels - 2, text
    shares = re.findall(r"<b>[^<]*</b>", " ".join(names.text))
    assert len(shares) == sum(bool(text) for text in names.text) >= 2


def test_axes_do_not_move_with_the_format() -> None:
    x = random().normal(size=500)
    one, other = figures.magnitude_histogram(x, "e4m3fn"), figures.magnitude_histogram(x, "int4")
    assert one.layout.xaxis.range == other.layout.xaxis.range
    assert one.layout.yaxis.range == other.layout.yaxis.range


def test_bad_input_says_what_is_allowed() -> None:
    with pytest.raises(TypeError, match="real numbers"):
        figures.tensor_statistics(np.array(["a"]), "e4m3fn")
    with pytest.raises(ValueError, match="e4m3fn"):
        figures.tensor_statistics(np.ones(3), "e4m3fm")
    with pytest.raises(ValueError, match="linear, log"):
        figures.number_line("e2m1", scale="cubic")
    with pytest.raises(ValueError, match="limits must rise"):
        figures.number_line("e2m1", limits=(1, 1))
