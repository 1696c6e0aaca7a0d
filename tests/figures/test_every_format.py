"""Every figure, for every format of the catalogue: drawn, described, light enough, and always the same traces."""

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from lplab import figures, formats, number_text
from lplab.figures import style
from lplab.figures.codebook_table import codebook_table_data
from lplab.figures.grid import element_of
from tests.kinds import by_kind

NAMES = formats.names()
TENSOR = (np.random.default_rng(1).standard_t(3, 20_000) * 0.05).astype(np.float32)
WIDE_CODEBOOK = formats.CodebookFormat(tuple(np.linspace(-1, 1, 2**16)), name="65,536 values")
OTHERS = {
    "3 codes": formats.CodebookFormat((-1.0, 0.0, 1.0, float("nan")), name="ternary"),
    "65536": WIDE_CODEBOOK,
    "uint8": formats.IntFormat(bits=8, signed=False, scale=0.01, zero_point=100),
    "q1.31": formats.FixedFormat(1, 31),
    "flushing": formats.FloatFormat(4, 3, subnormals=False),
    "far away": formats.FloatFormat(4, 3, bias=60),
}

DRAW: dict[str, Callable[[Any], go.Figure]] = {
    "number_line": figures.number_line,
    "number_line_log": lambda f: figures.number_line(f, scale="log"),
    "number_line_around": lambda f: figures.number_line(f, around=0.3),
    "error_curve": figures.error_curve,
    "error_curve_shared": lambda f: figures.error_curve(f, panels=False),
    "error_curve_stochastic": lambda f: figures.error_curve(f, rounding="stochastic"),
    "magnitude_histogram": lambda f: figures.magnitude_histogram(TENSOR, f),
    "compare": figures.compare,
    "compare_tensor": lambda f: figures.compare(f, TENSOR),
}
PALETTE = {*style.COLOURS, style.AMBER, style.GREY, style.INK, style.PAPER}
PALETTE |= {style.NORMAL_RANGE, style.SUBNORMAL_RANGE, style.LOST_RANGE}
DATA_KEYS = ("x", "y", "base", "customdata", "hovertext", "values", "text", "tickvals", "ticktext")

every_figure = pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW.keys())
every_format = pytest.mark.parametrize("name", by_kind([*NAMES, *OTHERS], also=OTHERS))


def format_of(name: str) -> Any:
    return OTHERS[name] if name in OTHERS else formats.get(name)


def leaves(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Path and value of everything in a figure's dictionary; arrays stay whole."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list | tuple) else ()
    for key, value in items:
        yield f"{path}.{key}", value
        yield from leaves(value, f"{path}.{key}")


def parts(fig: go.Figure) -> dict[str, Any]:
    """The traces and the layout without the template, as dictionaries with arrays in them."""
    layout = fig.layout.to_plotly_json()
    del layout["template"]
    return {"data": [trace.to_plotly_json() for trace in fig.data], "layout": layout}


@functools.cache
def drawn_for_e4m3fn(draw: Callable[[Any], go.Figure]) -> go.Figure:
    return draw("e4m3fn")


@every_figure
@every_format
@pytest.mark.filterwarnings("error")
def test_figure(draw: Callable[[Any], go.Figure], name: str) -> None:
    fmt = format_of(name)
    fig = draw(fmt)
    baseline = drawn_for_e4m3fn(draw)
    assert [t.type for t in fig.data] == [t.type for t in baseline.data], "update() needs the same traces"
    assert len(fig.layout.shapes) == len(baseline.layout.shapes)
    assert len(fig.layout.annotations) == len(baseline.layout.annotations)

    alt = fig.layout.meta["alt"]
    assert alt.endswith(".") and len(alt) > 40 and "<" not in alt.replace("<0.1 %", "")
    assert fig.layout.meta["title"] and len(re.sub(r"<[^>]*>", "", fig.layout.meta["title"])) <= 80
    assert 260 <= fig.layout.height <= 400
    assert fig.layout.template.layout.paper_bgcolor == "rgba(0,0,0,0)"

    markers = sum(len(t.x) for t in fig.data if t.type == "scatter" and "markers" in t.mode and t.visible)
    assert markers <= style.MARKER_LIMIT

    for path, value in leaves(parts(fig)):
        if path.rsplit(".", 1)[-1] in DATA_KEYS and "annotations" not in path and "hoverlabel" not in path:
            assert isinstance(value, np.ndarray | float | int | str), f"{path} is a {type(value).__name__}"
        if isinstance(value, str):
            for colour in re.findall(r"#[0-9A-Fa-f]{6}\b|rgba?\([^)]*\)", value):
                assert colour in PALETTE or is_tint(colour), f"{path}: {colour}"


def is_tint(colour: str) -> bool:
    """Whether a colour is one of the palette, or grey, made transparent."""
    red, green, blue, _ = (float(v) for v in colour[5:-1].split(","))
    return f"#{int(red):02X}{int(green):02X}{int(blue):02X}" in PALETTE or red == green == blue in (0, 127)


@every_format
def test_alt_holds_the_numbers(name: str) -> None:
    fmt = format_of(name)
    n = figures.tensor_statistics(TENSOR, fmt)
    alt = figures.magnitude_histogram(TENSOR, fmt).layout.meta["alt"]
    for share in (n.exact, n.rounded, n.flushed, n.saturated):
        assert number_text.percent(share) in alt
    assert number_text.decibels(n.sqnr_db) in figures.compare(fmt, TENSOR).layout.meta["alt"]
    largest = number_text.number(element_of(fmt).max, plain=True)
    assert largest in figures.number_line(fmt).layout.meta["alt"]


@every_format
def test_shares_stand_in_the_key(name: str) -> None:
    fmt = format_of(name)
    n = figures.tensor_statistics(TENSOR, fmt)
    fig = figures.magnitude_histogram(TENSOR, fmt)
    shares = [
        f"{outcome} {number_text.percent(getattr(n, outcome))}"
        for outcome in ("exact", "rounded", "flushed", "saturated")
    ]
    key = re.sub(r"<[^<>%]*>", "", fig.layout.annotations[-1].text.replace("<br>", "    "))
    assert [entry[2:] for entry in key.split("    ")] == shares
    assert [trace.name for trace in fig.data[:4]] == ["exact", "rounded", "flushed", "saturated"]


def test_many_formats_at_once() -> None:
    for draw in (figures.number_line, figures.error_curve, figures.compare):
        fig = draw(NAMES[:12])
        markers = sum(len(t.x) for t in fig.data if t.type == "scatter" and "markers" in t.mode and t.visible)
        assert markers <= style.MARKER_LIMIT
        assert all(name in fig.layout.meta["alt"] for name in NAMES[:12])
    with pytest.raises(ValueError, match="at most 4 formats"):
        figures.error_curve(NAMES[:5], panels=False)
    with pytest.raises(ValueError, match="at least one format"):
        figures.compare([])


def test_number_line_lists_every_value() -> None:
    values = formats.get("e4m3fn").values
    _, (row,) = figures.number_line_data("e4m3fn")
    assert np.array_equal(np.sort(row.values), values)
    fig = figures.number_line("e4m3fn")
    drawn = np.concatenate([t.x for t in fig.data[:3]])
    assert np.array_equal(np.unique(drawn), values)
    assert len(fig.data[1].x) == 3 * 14  # the subnormals of both signs: two ends of a tick and a gap


def test_error_curve_worst_case_is_the_formula() -> None:
    for name, m in {"e4m3fn": 3, "e5m2": 2, "bf16": 7, "fp16": 10, "e2m1": 1}.items():
        worst = figures.error_curve_data(formats.get(name), -1, 2).worst
        unit = 2.0 ** -(m + 1)
        assert worst == pytest.approx(100 * unit / (1 + unit), rel=1e-6)


def test_error_curve_agrees_with_quantize() -> None:
    fmt = formats.get("e5m2")
    curve = figures.error_curve_data(fmt, -18, 17, rounding="toward_zero")
    x = 2.0**curve.log2_x
    error = 100 * np.abs(fmt.quantize(x, "toward_zero") - x) / x
    assert not curve.is_outline
    between = error > 1e-6  # at a value itself the detour over log2 may end a hair below it
    between &= curve.percent > 0
    assert between.sum() > 1000
    np.testing.assert_allclose(curve.percent[between], error[between], rtol=1e-3)


def test_a_table_is_exact_and_a_worst_case_says_of_what() -> None:
    cells = codebook_table_data("e4m3fn")
    assert [float(text.replace("−", "-")) for text in cells[2][1:127]] == formats.get("e4m3fn").codebook()[
        1:127
    ].tolist()
    both = figures.error_curve(["q4.4", "e4m3fn"])
    captions = [a.text for a in both.layout.annotations]
    assert both.layout.yaxis.range[1] >= 33.3, "the worst case is on the axis"
    assert any("from 0.0625 on: 33.3 %" in text for text in captions)
    assert any("among normal numbers: 5.88 %" in text for text in captions)
