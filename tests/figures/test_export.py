"""Figures as files."""

import csv
import os
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest

from lplab import figures
from tests.browser.lab import find_browser

FIGURE = figures.number_line(["e2m1", "e4m3fn"])
ALT = FIGURE.layout.meta["alt"]


@pytest.fixture
def browser(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("kaleido")
    path = find_browser()
    if not path:
        pytest.skip("no Chromium, Chrome or Edge found: set LPLAB_BROWSER to the path of one")
    monkeypatch.setenv("BROWSER_PATH", path)


@pytest.mark.browser
@pytest.mark.usefixtures("browser")
def test_png(tmp_path: Path) -> None:
    path = figures.export(FIGURE, tmp_path / "line.png", theme="dark", width=600, scale=1)
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert int.from_bytes(content[16:20]) == 600 and int.from_bytes(content[20:24]) == FIGURE.layout.height
    assert ALT.encode() in content and b"iTXt" in content


@pytest.mark.browser
@pytest.mark.usefixtures("browser")
def test_svg(tmp_path: Path) -> None:
    content = figures.export(FIGURE, tmp_path / "line.svg").read_text()
    assert content.startswith("<svg") and 'role="img"' in content.split(">", 1)[0]
    assert f"<desc>{ALT}</desc>" in content and content.rstrip().endswith("</svg>")


def test_html_needs_nothing_else(tmp_path: Path) -> None:
    path = figures.export(FIGURE, tmp_path / "line.HTML")
    content = path.read_text()
    assert f'aria-label="{ALT}"' in content and "<title>Half of" in content and 'lang="en"' in content
    outside = content.split("Plotly.newPlot")[0].count('<script src="')
    assert outside == 0 and len(content) > 1_000_000, "plotly.js is inside"


def test_csv_holds_the_data(tmp_path: Path) -> None:
    rows = list(csv.DictReader(figures.export(FIGURE, tmp_path / "line.csv").open()))
    assert rows[0].keys() == {"trace", "name", "x", "y"}
    normal = [float(r["x"]) for r in rows if r["name"] == "normal"]
    assert np.array_equal(normal, FIGURE.data[0].x)
    assert {r["name"] for r in rows} == {t.name for t in FIGURE.data if t.visible}


def test_csv_of_a_heatmap_has_its_cells_beside_the_points_of_lines(tmp_path: Path) -> None:
    cells = go.Heatmap(x=[1, 2, 3], y=[10, 20], z=[[0.5, None, 0.25], [1.0, float("nan"), 2.0]], name="cells")
    figure = go.Figure([cells, go.Scatter(x=[1], y=[2], name="line")])
    rows = list(csv.reader(figures.export(figure, tmp_path / "map.csv").open()))
    assert rows[0] == ["trace", "name", "x", "y", "z"]
    assert [row[2:] for row in rows if row[1] == "cells"] == [
        ["1", "10", "0.5"], ["3", "10", "0.25"], ["1", "20", "1.0"], ["3", "20", "2.0"]
    ]  # fmt: skip
    assert [row[2:] for row in rows if row[1] == "line"] == [["1", "2", ""]]


def test_clear_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"must end in \.png, \.svg, \.html, \.csv"):
        figures.export(FIGURE, tmp_path / "line.pdf")
    with pytest.raises(ValueError, match="light, dark"):
        figures.export(FIGURE, tmp_path / "line.html", theme="sepia")

    def fail(*args: object, **kwargs: object) -> bytes:
        raise ValueError("\nImage export using the kaleido engine requires the Kaleido package\nand more lines")

    monkeypatch.setattr(go.Figure, "to_image", fail)
    with pytest.raises(RuntimeError, match=r"pip install kaleido.*BROWSER_PATH.*requires the Kaleido package$"):
        figures.export(FIGURE, tmp_path / "line.png")
    assert os.listdir(tmp_path) == []
