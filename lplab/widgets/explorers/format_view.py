"""What the format explorer shows for a state: figures and sentences. Pure functions, no widgets."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import figures
from lplab.figures.lazy_figure import as_dicts
from lplab.number_text import number, raised
from lplab.widgets.tensor_library import TensorLibrary

from .format_state import FormatState, code_of, format_of, rounding_of

LEFT, RIGHT = 60, 16  # margins of all three figures, so that their axes of magnitudes are aligned
HEIGHTS = {"line": 192, "error": 166, "histogram": 212}
ALONE = {"line": 290, "error": 320, "histogram": 330}  # of panels that stand alone
ERROR_TOP = 28.0  # percent, the end of the error's axis; fixed, so that errors of two formats can be compared


@dataclass(frozen=True)
class FigureWithText:
    """One figure, and its description in one line."""

    figure: go.Figure
    description: str


@dataclass(frozen=True)
class View:
    """Everything that the explorer shows for a state.

    Attributes:
        problem: why the state describes no format, or "".
        summary: the format in one line.
        code: Python that makes it.
        line: the number line.
        error: relative error against magnitude.
        histogram: magnitudes of the tensor in the format's window.
        figure: the three above one another, a `lplab.figures.lazy_figure.LazyFigure`.
    """

    problem: str = ""
    summary: str = ""
    code: str = ""
    line: FigureWithText | None = None
    error: FigureWithText | None = None
    histogram: FigureWithText | None = None
    figure: Any = None

    @property
    def descriptions(self) -> tuple[str, ...]:
        """The descriptions of the three figures, from the top."""
        return tuple(panel.description for panel in (self.line, self.error, self.histogram) if panel)


def view_of(state: FormatState, library: TensorLibrary, heights: Mapping[str, int] = HEIGHTS) -> View:
    """Return what is shown for a state; where controls contradict each other, only the problem.

    >>> view_of(FormatState(), TensorLibrary()).summary
    'e4m3fn: 8 bits, max 448, smallest normal 0.015625, smallest subnormal 2⁻⁹, 17.8 octaves, gap above 1: 0.125'
    >>> view_of(FormatState(specials="dlfloat"), TensorLibrary()).problem
    "specials='dlfloat' has no subnormals; pass subnormals=False"
    """
    try:
        fmt = format_of(state)
    except ValueError as error:
        return View(problem=str(error))
    tensor = library.sample(state.tensor)
    octaves = octaves_of(tensor)
    with as_dicts():  # the figures only update the one on the page
        line = _with_text(_number_line(fmt, state.line, octaves, heights["line"]))
        curve = figures.error_curve(
            fmt, rounding=state.rounding, octaves=octaves, top=ERROR_TOP, height=heights["error"]
        )
        error_view = _with_text(curve)
        drawn = _histogram(state, fmt, tensor, octaves, heights["histogram"])
        histogram = _with_text(drawn, library.note(state.tensor))
        figure = figures.stacked([line.figure], [error_view.figure, histogram.figure], left=LEFT, right=RIGHT)
    return View("", summary_of(fmt), code_of(state), line, error_view, histogram, figure)


def octaves_of(tensor: np.ndarray) -> tuple[int, int]:
    """Return the octaves that all figures show. They depend on the tensor alone: no other control moves an axis.

    >>> octaves_of(np.array([0.001, 0.5]))
    (-20, 12)
    """
    size = np.abs(tensor[np.isfinite(tensor) & (tensor != 0)])
    low, high = (math.frexp(float(v))[1] for v in (size.min(), size.max())) if size.size else (0, 0)
    low, high = max(low, high - 40), min(high, 120)
    return 4 * math.floor((min(low, -16) - 2) / 4), 4 * math.ceil((max(high, 8) + 2) / 4)


def summary_of(fmt: Any) -> str:
    """Return width, range, precision and dynamic range in one line."""
    parts = [f"{fmt.bits:g} bits", f"max {_number(fmt.max)}"]
    if fmt.smallest_normal > fmt.smallest_subnormal:
        parts.append(f"smallest normal {_number(fmt.smallest_normal)}")
        parts.append(f"smallest subnormal {_number(fmt.smallest_subnormal)}")
    else:
        parts.append(f"smallest positive {_number(fmt.smallest_normal)}")
    parts.append(f"{fmt.dynamic_range_octaves:.1f} octaves")
    eps = getattr(fmt, "eps", math.nan)
    if math.isfinite(eps):
        parts.append(f"gap above 1: {_number(eps)}")
    return f"{fmt.label}: {', '.join(parts)}"


def _number(value: float) -> str:
    return raised(number(value, digits=6, plain=True))


def what_of(state: FormatState) -> str:
    """Return the axis title of the elements.

    >>> what_of(FormatState(tensor="resnet/step0/stem/weight_gradient")), what_of(FormatState(tensor="own/x"))
    ('|weight gradient|', '|x|')
    """
    role = state.tensor.rsplit("/", 1)[-1].replace("_", " ")
    return f"|{role}|" if role in ("weight", "activation", "gradient", "weight gradient") else "|x|"


def _number_line(fmt: Any, scale: str, octaves: tuple[int, int], height: int) -> go.Figure:
    limits = (2.0 ** octaves[0], 2.0 ** octaves[1]) if scale == "log" else None
    return figures.number_line(fmt, scale=scale, limits=limits, height=height)


def _histogram(state: FormatState, fmt: Any, tensor: np.ndarray, octaves: tuple[int, int], height: int) -> go.Figure:
    how = rounding_of(state)
    return figures.magnitude_histogram(tensor, fmt, rounding=how, octaves=octaves, what=what_of(state), height=height)


def _with_text(figure: go.Figure, note: str = "") -> FigureWithText:
    alt = str(figures.style.as_plain_dicts(figure)[1]["meta"]["alt"])
    return FigureWithText(figure, raised(f"{alt} {note}".strip()))
