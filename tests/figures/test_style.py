"""The house style: contrast on both themes, words, ticks."""

import math
import re

import plotly.graph_objects as go
import pytest

from lplab import figures, number_text
from lplab.figures import axes, shapes, style, traces


def luminance(colour: str) -> float:
    """Relative luminance after WCAG 2.2."""
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("background", ["#FFFFFF", "#111111"])
def test_contrast(background: str) -> None:
    for colour in (*style.COLOURS, style.GREY):
        assert contrast(colour, background) >= 3, colour  # WCAG: graphics
    assert contrast(style.INK, background) >= 4


def test_contrast_of_themed_text() -> None:
    for background, ink in style.THEMES.values():
        assert contrast(ink, background) >= 12


def test_finish_wants_sentences() -> None:
    with pytest.raises(ValueError, match="full sentences"):
        style.apply_style(go.Figure(), alt="a plot", title="Nothing")
    fig = style.apply_style(go.Figure(), alt="Nothing.", title="Point", subtitle="note", l=10)
    assert (fig.layout.meta["title"], fig.layout.margin.l, fig.layout.margin.r) == ("Point", 10, 16)
    assert "note" in fig.layout.title.text and not fig.layout.showlegend


def test_every_series_has_a_second_sign() -> None:
    for series in (style.SERIES, style.SERIES_BESIDE_GREEN):
        assert [len(set(signs)) for signs in zip(*series, strict=True)] == [len(style.COLOURS)] * 3
    looks = style.OUTCOME_STYLES.values()
    assert len({(look["color"], look.get("pattern", {}).get("shape")) for look in looks}) == len(looks)
    assert len({look.get("pattern", {}).get("shape") for look in looks}) == len(looks)


@pytest.mark.parametrize(("low", "high"), [(-3, 5), (-30, 12), (-150, 128), (0, 1), (-1074, 1024)])
def test_power_ticks_fit_and_are_few(low: float, high: float) -> None:
    positions, labels = axes.power_ticks(low, high)
    assert 1 <= len(positions) == len(labels) <= 8
    assert positions[0] >= low and positions[-1] <= high
    assert "-" not in "".join(labels.tolist())


def test_words_never_round_to_nothing() -> None:
    for share in (1e-9, 0.0004, 0.9996, 1 - 1e-9):
        assert number_text.percent(share) not in ("0.0 %", "0 %", "100.0 %", "100 %")
    assert number_text.percent(math.nan) == "no share"
    assert (
        number_text.number(float("-inf")) == "−∞"
        and number_text.number(math.nan) == "NaN"
        and number_text.number(0.0) == "0"
    )


@pytest.mark.parametrize("theme", ["light", "dark", "clear"])
def test_themed_is_a_copy(theme: str) -> None:
    for fig in (figures.error_curve("e2m1"), figures.number_line("e2m1")):
        before = fig.to_json()
        assert style.themed(fig, theme) is not fig
        assert fig.to_json() == before
    with pytest.raises(ValueError, match="light, dark"):
        style.themed(fig, "sepia")


def test_region_is_hidden_when_empty() -> None:
    assert not shapes.region(2.0, 2.0, style.LOST_RANGE)["visible"]


def test_names_of_narrow_ranges_are_left_out() -> None:
    names = traces.region_names([("x", 0, 1), ("x", 0, 2), ("subnormal", 4, 5.5)], 11, 1.0)
    assert names["text"].tolist() == ["", "x", "sub-<br>normal"] and names["x"].tolist() == [0.5, 1.0, 4.75]


def test_dressed_figures_share_nothing() -> None:
    first, second = (style.apply_style(go.Figure(), alt="Nothing.", title="Nothing") for _ in range(2))
    first.layout.template.layout.font.size = 40
    first.layout.template.layout.xaxis.ticklen = 9
    assert second.layout.template.layout.font.size == style.BODY
    assert style.TEMPLATE["layout"]["xaxis"]["ticklen"] == second.layout.template.layout.yaxis.ticklen == 4


def test_dress_is_valid() -> None:
    layout = go.Layout(style.style_layout(alt="Nothing.", title="Nothing", subtitle="at all"))
    assert not layout.showlegend and "at all" in layout.title.text


@pytest.mark.parametrize(
    "fig",
    [
        figures.multiplier_cost(),
        figures.delayed_ranges([1, 8, 2], [1, 1, 8], [1, 1, 4]),
        figures.union_growth([1, 64], [0.01, 0.3], [0.01, 0.01], 0.01),
        figures.clip_error(figures.clips.Magnitudes([0.2, 0.4, 3.0]), 3.0, 4),
        figures.tile_energy([1, 2, 4], [1.0, 1, 1], [4.0, 2, 1]),
        figures.phases(),
    ],
    ids=lambda fig: fig.layout.meta["title"],
)
def test_a_dashed_line_has_its_dash_in_the_key(fig) -> None:
    signs = {"━": "solid", "╍": "dash", "┅": "dot", "┉": "dashdot"}
    result = re.findall(r"color:(#\w+)'>(.)</span>", fig.layout.meta["subtitle"])
    keyed = [(colour, signs[sign]) for colour, sign in result if sign in signs]
    lines = {(trace.line.color, trace.line.dash or "solid") for trace in fig.data if "lines" in (trace.mode or "")}
    assert keyed and set(keyed) <= lines
