"""Figures as files: PNG, SVG, HTML that needs nothing else, and the data as CSV."""

from __future__ import annotations

import csv
import html
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures.stacked import POINTER_PASSES
from lplab.figures.style import CONFIG, themed

KINDS = (".png", ".svg", ".html", ".csv")


def export(fig: go.Figure, path: str | Path, *, theme: str = "light", width: int = 900, scale: float = 2) -> Path:
    """Write a figure to a file; the ending of the name says as what. The alt text goes along (not into CSV).

    Args:
        fig: the figure.
        path: ends in .png, .svg, .html (plotly.js inside, needs no network) or .csv (one line a data point; of a
            heatmap one a cell, its value as z).
        theme: "light", "dark", or "clear" for a transparent background.
        width: in pixels; the height is the figure's own. HTML follows the width of its window.
        scale: pixels of the PNG per pixel of the figure.

    Returns:
        The path.

    Raises:
        ValueError: another ending. RuntimeError: an image is wanted, but kaleido or a browser is missing.

    >>> import tempfile
    >>> fig = go.Figure(go.Scatter(x=np.array([1.0, 2.0]), y=np.array([3.0, 4.0]), name="line"))
    >>> print(export(fig, Path(tempfile.mkdtemp()) / "data.csv").read_text())
    trace,name,x,y
    0,line,1.0,3.0
    0,line,2.0,4.0
    """
    path = Path(path)
    kind = path.suffix.lower()
    if kind not in KINDS:
        raise ValueError(f"cannot write {path.name!r}; the name must end in {', '.join(KINDS)}")
    if kind == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(_table(fig))
        return path
    alt = str((fig.layout.meta or {}).get("alt", ""))
    dressed = themed(fig, theme)
    if kind == ".html":
        path.write_text(_page(dressed, alt), encoding="utf-8")
    else:
        image = _image(dressed, kind[1:], width, scale)
        path.write_bytes(_described_svg(image, alt) if kind == ".svg" else _described_png(image, alt))
    return path


def _image(fig: go.Figure, kind: str, width: int, scale: float) -> bytes:
    """Draw with kaleido, which drives an installed Chrome or Chromium."""
    try:
        return bytes(fig.to_image(format=kind, width=width, scale=scale if kind == "png" else 1))
    except (
        Exception
    ) as error:  # kaleido and its browser driver raise a dozen types, ValueError and RuntimeError among them
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise RuntimeError(
            f"{kind.upper()} needs the package kaleido (pip install kaleido) and Chrome or Chromium, found through the "
            f"environment variable BROWSER_PATH or the usual places; HTML and CSV need neither. Kaleido said: {reason}"
        ) from error


def _page(fig: go.Figure, alt: str) -> str:
    title = html.escape(str((fig.layout.meta or {}).get("title", "lplab figure")))
    figure = fig.to_html(full_html=False, include_plotlyjs=True, config=CONFIG)
    label = html.escape(alt, quote=True)
    background = fig.layout.paper_bgcolor or "transparent"
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{POINTER_PASSES}</style></head>\n"
        f'<body style="margin:0;background:{background}">\n'
        f'<figure style="margin:0" role="img" aria-label="{label}">{figure}</figure>\n</body></html>\n'
    )


def _described_svg(image: bytes, alt: str) -> bytes:
    """The alt text as the image's description, for screen readers."""
    start, _, remaining = image.decode().partition(">")
    return f'{start} role="img"><desc>{html.escape(alt)}</desc>{remaining}'.encode()


def _described_png(image: bytes, alt: str) -> bytes:
    """The alt text as an iTXt chunk "Description" behind the header chunk (33 bytes into the file)."""
    body = b"iTXtDescription\0\0\0\0\0" + alt.encode()
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    return image[:33] + chunk + image[33:]


def _table(fig: go.Figure) -> Iterator[list[Any]]:
    """The data of the visible traces, one line a point."""
    deep = any("z" in trace for trace in fig.data)
    yield ["trace", "name", "x", "y", *(["z"] if deep else [])]
    for i, trace in enumerate(fig.data):
        if trace.visible is not False:
            yield from ([i, trace.name, *point] for point in _points(trace, deep))


def _points(trace: Any, deep: bool) -> Iterator[list[Any]]:
    """A trace's points; of a heatmap one for each cell that has a value. ``deep``: there is a third column."""
    xs, ys = _column(trace.x), _column(trace.y)
    if "z" not in trace:
        yield from ([x, y, *([None] if deep else [])] for x, y in zip(xs, ys, strict=True))
        return
    for y, row in zip(ys, _column(trace.z), strict=True):
        yield from ([x, y, z] for x, z in zip(xs, row, strict=True) if z is not None and z == z)


def _column(values: Any) -> list[Any]:
    return np.asarray(values).tolist() if values is not None else []
