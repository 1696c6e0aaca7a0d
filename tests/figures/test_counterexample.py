"""The counterexample on its number line: every format, every odd kind of number."""

import itertools
import math
import re
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from lplab import figures, formats
from lplab.figures import style
from lplab.figures.counterexample_labels import LANES
from lplab.figures.grid import element_of
from lplab.figures.neighbourhood import neighbourhood
from tests.kinds import by_class

NAMES = formats.names()
OTHERS = {
    "3 codes": formats.CodebookFormat((-1.0, 0.0, 1.0, float("nan")), name="ternary"),
    "uint8": formats.IntFormat(bits=8, signed=False, scale=0.01, zero_point=100),
    "q1.31": formats.FixedFormat(1, 31),
    "flushing": formats.FloatFormat(4, 3, subnormals=False),
}
ODD = (math.nan, math.inf, -math.inf)
NORMAL, SUBNORMAL, ZERO, HALFWAY, STEMS, SIGNS = range(6)


def signs(fig: Any) -> dict[str, tuple[float, str, str]]:
    """Place, words and symbol of each of the three."""
    trace = fig.data[SIGNS]
    words = [text.strip("←→ ") for text in trace.text]
    return {
        name: (float(x), text, str(symbol))
        for name, x, text, symbol in zip(("x", "expected", "yours"), trace.x, words, trace.marker.symbol, strict=True)
    }


@pytest.mark.parametrize("name", by_class([*NAMES, *OTHERS]))
@pytest.mark.filterwarnings("error")
def test_every_format_and_every_kind_of_number(name: str) -> None:
    fmt = OTHERS[name] if name in OTHERS else formats.get(name)
    grid = element_of(fmt)
    step = grid.smallest_subnormal
    points = (0.0, 0.3 * step, -1.5 * step, 0.7 * grid.max, grid.max, 1.01 * grid.max, 40 * grid.max, -3 * grid.max)
    shapes = set()
    for x, yours in itertools.product((*points, *ODD), (0.3 * step, 1e30, *ODD)):
        fig = figures.counterexample(fmt, x, yours, 0.0)
        shapes.add((*(t.type for t in fig.data), len(fig.layout.shapes), len(fig.layout.annotations)))
        low, high = fig.layout.xaxis.range
        assert math.isfinite(low) and low < high
        assert fig.layout.meta["alt"].endswith(".") and "<" not in fig.layout.meta["alt"]
        assert all(0 <= place <= 1 for place, *_ in signs(fig).values())
        drawn = [fig.data[k].x for k in (NORMAL, SUBNORMAL, ZERO)]
        values = np.unique(np.concatenate(drawn))
        assert len(values) <= 40
        assert np.array_equal(grid.quantize(values), values), "each tick is a number of the format"
    assert len(shapes) == 1, "figures.update needs the same traces"


@pytest.mark.parametrize("name", [n for n in NAMES if element_of(formats.get(n)).bits <= 8])
def test_no_number_in_view_is_left_out(name: str) -> None:
    grid = element_of(formats.get(name))
    for x in (0.4, 3.3, -1.7, grid.smallest_subnormal / 3, grid.max * 1.5):
        around = neighbourhood(grid, x, (0.0, 2.0))
        low, high = around.view
        assert np.array_equal(around.values, grid.values[(grid.values >= low) & (grid.values <= high)])


def test_tie() -> None:
    fig = figures.counterexample("e4m3fn", 0.296875, 0.28125, 0.3125)
    assert fig.data[HALFWAY].x.tolist() == [0.296875] * 2
    assert "just where x is" in fig.layout.meta["subtitle"] and "exactly halfway" in fig.layout.meta["alt"]
    labels = dict(zip(fig.layout.xaxis.tickvals, fig.layout.xaxis.ticktext, strict=True))
    assert labels[0.28125] == "0.28125<br>0 0101 001" and labels[0.3125] == "0.3125<br>0 0101 010"
    result = signs(fig)
    assert len({symbol for *_, symbol in result.values()}) == 3, "told apart by shape"
    assert [text for _, text, _ in result.values()] == ["x 0.296875", "expected 0.3125", "yours 0.28125"], "and by word"
    assert result["yours"][0] < result["x"][0] < result["expected"][0]
    assert fig.layout.height == pytest.approx(180, abs=20)


def test_beyond_the_largest_number() -> None:
    fig = figures.counterexample("e4m3fn", 1e9, 512, 448)
    assert fig.layout.shapes[1].x0 == 448 and fig.layout.shapes[1].visible
    assert fig.data[HALFWAY].x[0] == 464
    assert fig.data[SIGNS].text[0].strip() == "x 1×10⁹ →" and fig.data[SIGNS].x[0] == 1
    assert "no number of the format" in fig.data[SIGNS].text[2]
    below = figures.counterexample("e4m3fn", -1e9, -448, -448)
    assert below.data[SIGNS].text[0].strip() == "← x −1×10⁹" and below.layout.shapes[1].x1 == -448


def test_subnormals_and_negative_numbers() -> None:
    fig = figures.counterexample("e4m3fn", 0.0015, 0, 2**-9)
    assert len(fig.data[ZERO].x) == 1 and not fig.data[NORMAL].visible
    assert 2**-9 in fig.data[SUBNORMAL].x
    negative = figures.counterexample("e4m3fn", -17.5, -16, -18)
    assert {-16.0, -18.0} <= set(negative.data[NORMAL].x)
    assert negative.layout.meta["title"] == "e4m3fn: −17.5 becomes −18, not −16"


def test_answers_that_are_no_numbers_of_the_format() -> None:
    def words(name: str, yours: float) -> str:
        return signs(figures.counterexample(name, 0.3, yours, 0.3125))["yours"][1]

    assert words("e4m3fn", 0.3) == "yours 0.3 (no number of the format)"
    assert words("e4m3fn", math.inf) == "yours ∞ (e4m3fn has no ∞)"
    assert words("e5m2", math.inf) == "yours ∞"
    assert words("e2m1", math.nan) == "yours NaN (e2m1 has no NaN)"
    assert words("e4m3fn", 1024.0) == "yours 1024 (no number of the format)"
    assert words("e4m3fn", 0.25) == "yours 0.25"


def test_nan_has_only_words() -> None:
    fig = figures.counterexample("e4m3fn", math.nan, 0.0, math.nan)
    assert not fig.layout.xaxis.visible and not any(t.visible for t in fig.data[:SIGNS])
    assert fig.layout.meta["title"] == "e4m3fn: NaN becomes NaN, not 0"


def test_negative_zero_is_not_zero() -> None:
    assert figures.counterexample("e4m3fn", -1e-9, 0.0, -0.0).layout.meta["title"].endswith("becomes −0, not 0")


def test_words_are_not_crossed_by_stems() -> None:
    """For answers around x on all sides: the stem of a higher sign never runs through words below it."""
    for yours, expected in itertools.permutations((0.25, 0.28125, 0.29, 0.3, 0.3125, 0.4, 9.0), 2):
        fig = figures.counterexample("e4m3fn", 0.295, yours, expected)
        trace = fig.data[SIGNS]
        for k, j in itertools.permutations(range(3), 2):
            if trace.y[j] <= trace.y[k] or trace.x[j] in (0, 1) or abs(trace.x[j] - trace.x[k]) < 1e-9:
                continue
            side = -1 if "left" in trace.textposition[k] else 1
            width = 6 * len(trace.text[k].strip()) / 700
            assert not 0 < side * (trace.x[j] - trace.x[k]) < width, (yours, expected)
        assert set(trace.y) == set(LANES)


def test_torch_and_numpy_scalars_are_numbers_and_lists_are_not() -> None:
    fig = figures.counterexample("q4.12", np.float32(0.5), np.float64(0.25), 0.5)
    assert fig.layout.meta["title"] == "q4.12: 0.5 becomes 0.5, not 0.25"
    for bad in ([1.0, 2.0], None, "x"):
        with pytest.raises(ValueError, match="yours must be one number"):
            figures.counterexample("e4m3fn", 1.0, bad, 1.0)


def test_figure_is_valid_and_keeps_to_the_palette() -> None:
    made = figures.counterexample("e4m3fn", 0.3, 0.28125, 0.3125).to_plotly_json()
    go.Figure(made)
    colours = set(re.findall(r"#[0-9A-Fa-f]{6}", str(made["data"])))
    assert colours <= {*style.COLOURS, style.GREY}


def test_fixed_point_has_no_key_of_normal_and_subnormal_numbers():
    fixed = figures.counterexample("q4.4", 0.3, yours=0.25, expected=0.3125).layout.meta["subtitle"]
    assert "normal" not in fixed and "halfway" in fixed
