"""Figures above one another: everything at the place where its own figure has it."""

from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from lplab import figures, formats, widgets
from lplab.figures import style
from lplab.figures.stacked import POINTER_PASSES, TEXTS_ACROSS

OCTAVES = (-20, 12)
LIMITS = (2.0**-20, 2.0**12)
TENSOR = (np.random.default_rng(1).standard_t(3, 5_000) * 0.05).astype(np.float32)


def parts(fmt: Any) -> tuple[go.Figure, go.Figure, go.Figure]:
    return (
        figures.number_line(fmt, scale="log", limits=LIMITS),
        figures.error_curve(fmt, octaves=OCTAVES, top=28.0),
        figures.magnitude_histogram(TENSOR, fmt, octaves=OCTAVES),
    )


@pytest.fixture
def three() -> tuple[go.Figure, go.Figure, go.Figure]:
    return parts("e4m3fn")


def test_traces_are_the_panels(three: Any) -> None:
    line, error, histogram = three
    fig = figures.stacked([line], [error, histogram])
    assert len(fig.data) == sum(len(f.data) for f in three) + 4, "the notes of each, and all titles"
    for trace, old in zip(fig.data, (*line.data, *error.data, *histogram.data), strict=False):
        assert trace.type == old.type and np.array_equal(trace.x, old.x, equal_nan=True)
    assert [t.yaxis for t in fig.data[:-4]] == ["y"] * 8 + ["y2"] * 3 + ["y3"] * 5
    assert [t.xaxis for t in fig.data[:-4]] == ["x"] * 8 + ["x2"] * 8
    assert fig.layout.barmode == "stack"


def test_panels_do_not_overlap_and_keep_their_heights(three: Any) -> None:
    fig = figures.stacked([three[0]], list(three[1:]))
    plot = fig.layout.height - fig.layout.margin.t - fig.layout.margin.b
    domains = [fig.layout[name].domain for name in ("yaxis", "yaxis2", "yaxis3")]
    for panel, (start, end) in zip(three, domains, strict=True):
        own = panel.layout.height - panel.layout.margin.t - panel.layout.margin.b
        assert (end - start) * plot == pytest.approx(own)
    assert domains[0][0] > domains[1][1] and domains[1][0] > domains[2][1] and domains[2][0] == 0


def test_one_group_has_one_axis(three: Any) -> None:
    fig = figures.stacked([three[0]], list(three[1:]))
    assert fig.layout.xaxis.anchor == "y" and fig.layout.xaxis2.anchor == "y3"
    assert fig.layout.xaxis2.title.text == three[2].layout.xaxis.title.text
    assert tuple(fig.layout.xaxis2.range) == OCTAVES
    assert not fig.layout.xaxis99.visible and not fig.layout.yaxis4.visible, "only for the texts"


def test_titles_and_annotations_are_texts_at_their_places(three: Any) -> None:
    fig = figures.stacked([three[0]], list(three[1:]), left=60)
    *notes, titles = fig.data[-4:]
    plot = fig.layout.height - fig.layout.margin.b
    for panel, note, title, place in zip(three, notes, titles.text, fig.layout.meta["panels"], strict=True):
        assert panel.layout.meta["title"] in title and place["title"] == panel.layout.meta["title"]
        assert all(a.text in note.text for a in panel.layout.annotations if a.visible is not False)
        cell = fig.layout[place["axes"][1]]
        assert note.yaxis == place["axes"][1].replace("axis", "")
        assert plot * cell.domain[1] == pytest.approx(plot - place["top"]), "a cell begins where the title does"
        assert plot * (cell.domain[1] - cell.domain[0]) == pytest.approx(cell.range[1]), "its axis counts pixels"
        assert (note.y >= 0).all() and (note.y <= cell.range[1]).all()
        assert cell.domain[0] <= fig.layout[place["axes"][0]].domain[0]
    assert titles.y.min() > 0 and titles.y.max() < plot and titles.x.min() == 0
    place = next(y for y, text in zip(notes[2].y, notes[2].text, strict=True) if "exact" in text)
    height = (fig.layout.yaxis3.domain[1] - fig.layout.yaxis7.domain[0]) * plot
    assert place == pytest.approx(height + 4), "the key stands on its panel"


def test_shapes_stay_in_their_panels(three: Any) -> None:
    fig = figures.stacked([three[0]], list(three[1:]))
    assert len(fig.layout.shapes) == sum(len(f.layout.shapes) for f in three)
    assert [s.yref for s in fig.layout.shapes] == ["y2 domain"] * 3 + ["y3 domain"] * 4
    assert {s.xref for s in fig.layout.shapes} == {"x2"}


def test_alt_text_is_all_of_theirs_and_the_parts_stay_as_they_are(three: Any) -> None:
    before = [f.to_json() for f in three]
    alt = figures.stacked([three[0]], list(three[1:])).layout.meta["alt"]
    assert all(f.layout.meta["alt"] in alt for f in three)
    assert [f.to_json() for f in three] == before


def test_figure_is_valid_and_can_be_updated() -> None:
    live = None
    for name in ("e4m3fn", "int4", "fp16", "mxfp4", "e8m0"):
        line, error, histogram = parts(formats.get(name))
        fig = figures.stacked([line], [error, histogram])
        go.Figure(fig.to_plotly_json())
        live = figures.update(live, fig) if live else go.Figure(fig)
        before, after = (style.as_plain_dicts(one)[1]["shapes"] for one in (live, fig))
        assert figures.figure_display.same(before, after)
        assert live.layout.meta["alt"] == fig.layout.meta["alt"]


def test_the_pointer_passes_the_texts_wherever_the_figure_is_shown(three: Any, tmp_path: Path) -> None:
    """Their subplots are the only ones of this x axis; the style sheets of live figures and of files name it."""
    fig = figures.stacked([three[0]], list(three[1:]))
    texts = [trace for trace in fig.data if trace.xaxis == TEXTS_ACROSS]
    assert len(texts) == 4 and all(trace.hoverinfo == "skip" and trace.mode == "text" for trace in texts)
    assert POINTER_PASSES in (Path(widgets.__file__).parent / "static" / "live_figure.css").read_text("utf-8")
    assert POINTER_PASSES in figures.export(fig, tmp_path / "three.html").read_text("utf-8")


def test_clear_errors(three: Any) -> None:
    with pytest.raises(ValueError, match="at least one figure"):
        figures.stacked()
    with pytest.raises(ValueError, match=r"one x axis.*yaxis2"):
        figures.stacked([figures.error_curve(["e4m3fn", "e5m2"])])
    with pytest.raises(ValueError, match="a legend"):
        figures.stacked([figures.number_line("e2m1").update_layout(showlegend=True)])
