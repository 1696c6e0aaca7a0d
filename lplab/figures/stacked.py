"""Several figures above one another as one: drawn in one go, and with one axis where they mean the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import style, traces

TITLES = "titles"  # the name of the trace that is drawn where the page does not write the titles: in pictures
# The x axis of the texts. Plotly lays their rectangle for the pointer over the panels, so that no panel would see the
# pointer and show a box. Style sheets know this name and let the pointer through (`POINTER_PASSES`).
TEXTS_ACROSS = "x99"
POINTER_PASSES = f'.nsewdrag[data-subplot^="{TEXTS_ACROSS}y"] {{ pointer-events: none !important; }}'
_TITLE, _BETWEEN = 14, 14  # pixels above a title; below a panel whose x axis another one shows
_PER_FIGURE = ("xaxis", "yaxis", "shapes", "annotations", "template", "title", "meta", "height", "margin", "legend")


def stacked(*groups: Sequence[go.Figure], left: int = 64, right: int = 16) -> go.Figure:
    """Put figures above one another. Those of a group share the x axis, which the last of them shows.

    A browser redraws one figure in half the time of its parts. The parts keep their titles above their panels; the alt
    text joins theirs. ``layout.meta["panels"]`` says where each title stands, in pixels, and which y axes go with it: a
    live figure writes the titles itself, wraps them, and moves what is below a title that needs more lines.

    Args:
        groups: figures of this package with one x and one y axis each, from the top; their heights and upper and lower
            margins are kept.
        left: left margin of all, in pixels.
        right: right margin of all.

    Raises:
        ValueError: there is no figure; a figure has more than one x or y axis, or needs a legend.

    >>> from lplab import figures
    >>> line = figures.number_line("e4m3fn", scale="log", limits=(2**-12, 2**10))
    >>> both = stacked([line, figures.error_curve("e4m3fn", octaves=(-12, 10))])
    >>> [trace.yaxis for trace in both.data[::8]], both.layout.height
    (['y', 'y2'], 528)
    >>> [(panel["top"], panel["axes"]) for panel in both.layout.meta["panels"]]
    [(0.0, ['yaxis', 'yaxis4']), (228.0, ['yaxis2', 'yaxis5'])]
    """
    panels = [_panel(fig, g, fig is group[-1]) for g, group in enumerate(groups, 1) for fig in group]
    if not panels:
        raise ValueError("at least one figure is needed")
    height = sum(p["height"] for p in panels)
    bottom = panels[-1]["bottom"]
    plot = height - bottom
    data: list[dict[str, Any]] = []
    layout: dict[str, Any] = {"shapes": []}
    notes: list[dict[str, Any]] = []
    titles: list[dict[str, Any]] = []
    places: list[dict[str, Any]] = []
    across, up = TEXTS_ACROSS, _name("y", len(panels) + 1)  # for the texts
    floor = float(height)
    for k, panel in enumerate(panels, 1):
        title = {name: panel["meta"][name] for name in ("title", "subtitle")}
        floor -= panel["height"]
        ends = (floor + panel["bottom"] - bottom, floor + panel["height"] - panel["top"] - bottom)
        _add_panel(data, layout, panel, _name("y", k), (max(ends[0] / plot, 0.0), ends[1] / plot))
        titles.append(_title(title, floor + panel["height"] - bottom))
        cell, own = (max(floor - bottom, 0.0), floor + panel["height"] - bottom), _name("y", len(panels) + 1 + k)
        notes.append(_words_of_texts(f"notes {k}", _notes(panel, (ends[0] - cell[0], ends[1] - cell[0])), across, own))
        layout |= {axis_name(own): _text_axis((0, cell[1] - cell[0]), across, domain=[cell[0] / plot, cell[1] / plot])}
        moving = [axis_name(_name("y", k)), axis_name(own)]
        places.append(title | {"top": height - floor - panel["height"], "room": panel["top"], "axes": moving})
    data += [*notes, _words_of_texts(TITLES, titles, across, up)]
    layout |= {axis_name(across): _text_axis((0, 1), up), axis_name(up): _text_axis((0, plot), across)}
    margin = {"l": left, "r": right, "t": 0, "b": bottom}
    alt = " ".join(p["meta"]["alt"] for p in panels)
    common = style.style_layout(alt=alt, title=panels[0]["meta"]["title"], height=height)
    common["meta"] |= {"panels": places}
    return style.figure(data, layout | common | {"title": {}, "margin": margin})


def _name(letter: str, number: int) -> str:
    return letter if number == 1 else f"{letter}{number}"


def axis_name(name: str) -> str:
    """The name of an axis in the layout.

    >>> axis_name("y"), axis_name("x2")
    ('yaxis', 'xaxis2')
    """
    return f"{name[0]}axis{name[1:]}"


def _panel(fig: go.Figure, group: int, shows_axis: bool) -> dict[str, Any]:
    """The parts of a figure, and its measures in pixels."""
    data, layout = style.as_plain_dicts(fig)
    odd = [name for name in layout if name[:5] in ("xaxis", "yaxis") and name[5:]]
    if odd or layout.get("showlegend"):
        raise ValueError(
            f"only figures with one x axis, one y axis and no legend can be stacked; this one has {odd or 'a legend'}"
        )
    bottom = layout["margin"]["b"] if shows_axis else _BETWEEN
    height = layout["height"] - layout["margin"]["b"] + bottom
    return {
        "data": data,
        "layout": layout,
        "meta": layout["meta"],
        "x": _name("x", group),
        "shows_axis": shows_axis,
        "top": layout["margin"]["t"],
        "bottom": bottom,
        "height": height,
    }


def _add_panel(
    data: list[dict[str, Any]], layout: dict[str, Any], panel: dict[str, Any], y: str, domain: tuple[float, float]
) -> None:
    """Put a panel into the whole, between the heights ``domain``, which are shares of the plot."""
    x, own = panel["x"], panel["layout"]
    data += [{**trace, "xaxis": x, "yaxis": y} for trace in panel["data"]]
    layout[axis_name(y)] = {**own["yaxis"], "domain": list(domain), "anchor": x, "automargin": False}
    if panel["shows_axis"]:
        layout[axis_name(x)] = {**own["xaxis"], "anchor": y, "automargin": False}
    else:  # the line that its x axis would have drawn
        layout[axis_name(y)] |= {"zeroline": True, "zerolinecolor": style.GREY, "zerolinewidth": 1}
    for shape in own.get("shapes", ()):
        axes = {"xref": shape["xref"].replace("x", x, 1), "yref": shape["yref"].replace("y", y, 1)}
        layout["shapes"].append({**shape, **axes})
    layout |= {name: value for name, value in own.items() if name not in _PER_FIGURE}


# ---- texts: annotations as one text trace, as a browser measures each annotation, and draws it twice -----------------

_SIDES = {"top": "bottom", "bottom": "top", "left": "right", "right": "left"}  # of a point, from the anchor of a text


def _title(texts: dict[str, str], top: float) -> dict[str, Any]:
    """Title and subtitle of a panel whose upper end is at this height, in pixels: words, place, side."""
    heading = f"<span style='font-size:{style.TITLE}px'>{texts['title']}</span>"
    title = heading + (f"<br>{texts['subtitle']}" if texts["subtitle"] else "")
    return {"text": title, "x": 0.0, "y": top - _TITLE, "side": "bottom right"}


def _notes(panel: dict[str, Any], ends: tuple[float, float]) -> list[dict[str, Any]]:
    """Annotations of a panel whose plot lies between these pixels: words, place (0 to 1, pixels), side."""
    own, result = panel["layout"], []
    for note in own.get("annotations", ()):
        x, y = note["x"], note["y"]
        if note.get("xref", "x") == "x":
            x = _share(x, own["xaxis"]["range"])
        if note.get("yref", "y") == "y":
            y = _share(y, own["yaxis"]["range"])
        height = ends[0] + y * (ends[1] - ends[0]) + note.get("yshift", 0)
        side = f"{_SIDES[note['yanchor']]} {_SIDES[note['xanchor']]}"
        result.append({"text": note["text"] if note.get("visible", True) else "", "x": x, "y": height, "side": side})
    return result


def _share(value: float, view: tuple[float, float]) -> float:
    return (value - view[0]) / (view[1] - view[0])


def _words_of_texts(name: str, texts: list[dict[str, Any]], x: str, y: str) -> dict[str, Any]:
    return traces.words(
        name,
        np.array([text["x"] for text in texts], np.float64),
        np.array([text["y"] for text in texts], np.float64),
        [text["text"] for text in texts],
        np.array([text["side"] for text in texts], dtype=str),
        xaxis=x,
        yaxis=y,
        showlegend=False,
        visible=bool(texts),
    )


def _text_axis(view: tuple[float, float], anchor: str, **more: Any) -> dict[str, Any]:
    """An invisible axis for texts."""
    return {"visible": False, "fixedrange": True, "range": list(view), "anchor": anchor} | more
