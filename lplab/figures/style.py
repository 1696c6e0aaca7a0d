"""The house style of every figure, by :func:`apply_style`: colours with a fixed meaning, type, margins, alt text.

Figures have a transparent background and a grey ink that can be read on white and on near-black, so that one figure
serves both themes; :func:`themed` gives the crisper ink of one theme, for files and for figures without a widget.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import plotly.graph_objects as go

from lplab.figures.lazy_figure import as_plain_dicts as as_plain_dicts
from lplab.figures.lazy_figure import figure as figure

BLUE = "#0072B2"  # normal numbers, the first format, elements that are kept
VERMILION = "#D55E00"  # subnormal numbers, the second format, whatever is lost
GREEN = "#009E73"  # the reference: fp32, the true value, elements that stay exact
PINK = "#CC79A7"  # the fourth
AMBER = "#E69F00"  # fills only: 2.3:1 on white
PAPER = "#FFFFFF"  # dots inside a coloured bar
GREY = "#7F7F7F"  # axes, reference lines
INK = "#757575"  # text where the theme is not known: 4.6:1 on white, 4.1:1 on #111
SERIES = (  # colour, dash and symbol of the series of a figure: no two differ by colour alone
    (BLUE, "solid", "circle"),
    (VERMILION, "dash", "square"),
    (GREEN, "dot", "diamond"),
    (PINK, "dashdot", "triangle-up"),
)
COLOURS = tuple(colour for colour, _, _ in SERIES)
SERIES_BESIDE_GREEN = (  # the same beside a reference, which is green
    (BLUE, "solid", "circle"),
    (VERMILION, "dash", "square"),
    (PINK, "dot", "diamond"),
    (GREY, "dashdot", "triangle-up"),
)
QUANTITIES = {  # what the figures of several labs split a step into: one name, one colour
    "arithmetic": BLUE,
    "memory": VERMILION,
    "network": PINK,
    "static": GREY,
}
PROVENANCE = {  # where a number is from, by shape and by colour: the symbol, its colour
    "modelled": ("square", BLUE),
    "published": ("diamond-open", VERMILION),
    "measured": ("circle", GREEN),
}

NORMAL_RANGE = "rgba(0,114,178,.10)"
SUBNORMAL_RANGE = "rgba(230,159,0,.22)"
LOST_RANGE = "rgba(213,94,0,.14)"
OVERFLOW_RANGE = "rgba(204,121,167,.24)"  # where it stands beside what becomes zero

_BAR = {"line": {"width": 0}}
OUTCOME_STYLES: dict[str, dict[str, Any]] = {  # bars by what became of the elements: colour and pattern
    "exact": {
        **_BAR,
        "color": GREEN,
        "pattern": {"shape": ".", "fgcolor": PAPER, "fillmode": "overlay", "size": 5},
    },
    "rounded": {**_BAR, "color": BLUE},
    "flushed": {
        **_BAR,
        "color": VERMILION,
        "pattern": {"shape": "/", "fillmode": "replace", "size": 6, "solidity": 0.55},
    },
    "saturated": {
        **_BAR,
        "color": VERMILION,
        "pattern": {"shape": "x", "fillmode": "replace", "size": 7, "solidity": 0.5},
    },
}

FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", "DejaVu Sans", Arial, sans-serif'
MONO = 'ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace'
NOTE, TICK, BODY, TITLE = 11, 12, 13, 15  # font sizes in pixels
MARKER_LIMIT = 600  # SVG markers in a figure; more make the whole page slow

CONFIG = {"displayModeBar": False, "displaylogo": False, "responsive": True}
THEMES = {"light": ("#FFFFFF", "#222222"), "dark": ("#111111", "#E6E6E6")}  # background, ink

_AXIS = {
    "showgrid": True,
    "gridcolor": "rgba(127,127,127,.22)",
    "zeroline": False,
    "showline": True,
    "linecolor": GREY,
    "ticks": "outside",
    "ticklen": 4,
    "tickcolor": GREY,
    "tickangle": 0,
    "tickfont": {"size": TICK},
    "title": {"font": {"size": BODY}, "standoff": 8},
    "automargin": True,
    "fixedrange": True,
}
TEMPLATE: dict[str, Any] = {
    "layout": {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "colorway": COLOURS,
        "font": {"family": FONT, "size": BODY, "color": INK},
        "title": {
            "font": {"size": TITLE},
            "x": 0,
            "xref": "paper",
            "xanchor": "left",
            "yref": "container",
            "yanchor": "top",
        },
        "xaxis": _AXIS,
        "yaxis": _AXIS,
        "legend": {
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "yref": "container",  # below the title; a second row on narrow screens grows into the room left for it
            "yanchor": "top",
            "font": {"size": TICK},
            "entrywidth": 104,
            "traceorder": "normal",
            "itemclick": False,
            "itemdoubleclick": False,
        },
        "hoverlabel": {
            "font": {"family": MONO, "size": TICK, "color": "#F2F2F2"},
            "bgcolor": "#262626",
            "bordercolor": GREY,
            "align": "left",
        },
        "hovermode": "closest",
        "dragmode": False,
        "bargap": 0.04,
        "uirevision": "constant",
        "annotationdefaults": {"font": {"size": NOTE}, "showarrow": False},
    }
}


def apply_style(
    fig: go.Figure, *, alt: str, title: str, subtitle: str = "", height: int = 320, **margin: int
) -> go.Figure:
    """Apply the house style to a figure, in place, and return it. Every figure of lplab passes through here.

    Args:
        fig: the figure.
        alt: one or two full sentences with the numbers, for those who cannot see the figure; stored in
            ``layout.meta["alt"]``.
        title: the point that the figure makes, short (a narrow screen does not wrap it).
        subtitle: a smaller second line: what was counted, or the legend (:func:`lplab.figures.legend.legend`).
        height: in pixels, 260 to 400 unless the figure has many rows.
        margin: l, r, t or b in pixels, where a figure needs others.

    >>> fig = apply_style(go.Figure(), alt="An empty figure, for the example.", title="Nothing yet")
    >>> fig.layout.meta["alt"], fig.layout.height
    ('An empty figure, for the example.', 320)
    """
    # Plotly's own update_layout takes thirty times as long, most of it for copies of the template.
    _, layout = as_plain_dicts(fig)
    styled = style_layout(alt=alt, title=title, subtitle=subtitle, height=height, margin=margin)
    for name, value in styled.items():
        merge = isinstance(value, dict) and name != "template"
        layout[name] = {**layout.get(name, {}), **value} if merge else value
    return fig


def style_layout(
    *,
    alt: str,
    title: str,
    subtitle: str = "",
    height: int = 320,
    margin: dict[str, int] | None = None,
) -> dict[str, Any]:
    """The part of a layout that :func:`apply_style` adds: the house style, the title, the alt text, the measures.

    >>> sorted(style_layout(alt="Nothing.", title="Nothing"))
    ['height', 'legend', 'margin', 'meta', 'showlegend', 'template', 'title']
    """
    if not alt.strip().endswith("."):
        raise ValueError(f"alt text must be one or two full sentences, got {alt!r}")
    return {
        "template": deepcopy(TEMPLATE),
        "title": {
            "y": 1 - (28 if subtitle else 14) / height,  # plotly hangs two lines up by the second
            "text": title + (f"<br><span style='font-size:{NOTE}px'>{subtitle}</span>" if subtitle else ""),
        },
        "meta": {"alt": alt, "title": title, "subtitle": subtitle},
        "height": height,
        "showlegend": False,
        "legend": {"y": 1 - (38 + 16 * bool(subtitle)) / height},  # for a user who switches it on
        "margin": {"l": 64, "r": 16, "t": 48 + 16 * bool(subtitle), "b": 48} | (margin or {}),
    }


def themed(fig: go.Figure, theme: str) -> go.Figure:
    """A copy with the background and the ink of one theme, "light" or "dark"; "clear" leaves both as they are.

    >>> themed(go.Figure(), "dark").layout.paper_bgcolor
    '#111111'
    """
    if theme not in ("clear", *THEMES):
        raise ValueError(f"unknown theme {theme!r}; allowed: clear, {', '.join(THEMES)}")
    copy = go.Figure(fig)
    if theme != "clear":
        background, ink = THEMES[theme]
        copy.update_layout(paper_bgcolor=background, font_color=ink)
    return copy
