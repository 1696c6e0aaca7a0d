"""A guess and the truth, drawn together: two marks on one axis, or two signs in a list of answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.figures import axes, style, traces
from lplab.figures.legend import SIGNS
from lplab.figures.running_sum import grouped

HEIGHT = 120
LOG_FROM = 6.0  # ratio from which a logarithmic axis shows more: on a linear one the smaller number is lost near zero
_LANES, _TOP = (44.0, 20.0), 62.0  # pixels above the axis
_ROW = 24  # pixels a row of the list takes
_STYLES = {"you": ("circle-open", style.BLUE), "it is": ("diamond", style.GREEN)}


def guess_and_truth(
    guess: float | str, truth: float | str, *, choices: Sequence[str] = (), unit: str = "", height: int | None = None
) -> go.Figure:
    """A guess (○ you) beside what is true (◆ it is): as marks on an axis, or in the list of the choices.

    The axis of numbers is linear and begins at zero; logarithmic, in doublings, where one is at least six times the
    other. Infinity stands at the edge with an arrow, NaN at the left without a place.

    Args:
        guess: a number, or one of the choices.
        truth: a number, or one of the choices.
        choices: the possible answers, each a row; without them guess and truth are numbers.
        unit: of the numbers, such as "%".
        height: in pixels; by default 120 for numbers, and for choices what the rows need.

    Raises:
        ValueError: guess or truth is not among the choices, or is no number where there are none.

    >>> guess_and_truth(12, 55, unit="codes").layout.meta["alt"]
    'You said 12 codes; it is 55 codes, more by 43 codes, on a linear axis.'
    >>> guess_and_truth("few", "most", choices=("few", "half", "most")).layout.meta["alt"]
    'Of the answers few, half, most, you chose few; it is most.'
    """
    if choices:
        for value in (guess, truth):
            if value not in choices:
                raise ValueError(f"guess and truth must be among the choices {', '.join(choices)}; got {value!r}")
        return _list(str(guess), str(truth), list(choices), height)
    if isinstance(guess, str) or isinstance(truth, str):
        raise ValueError(f"guess and truth must be numbers where there are no choices, got {guess!r} and {truth!r}")
    return _marks(float(guess), float(truth), f" {unit}" if unit else "", height or HEIGHT)


# ---- numbers ---------------------------------------------------------------------------------------------------------


def _marks(guess: float, truth: float, unit: str, height: int) -> go.Figure:
    log = _is_log(guess, truth)
    scale = 1.0 if log else _scale(guess, truth)
    low, high = _view(guess, truth, log, scale)
    largest = max((value for value in (guess, truth) if math.isfinite(value)), default=0.0)
    places = {"you": _place(guess, log, scale, low, high), "it is": _place(truth, log, scale, low, high)}
    texts = {
        "you": _with_arrow_at_edge(f"you said {_text(guess)}{unit}", guess),
        "it is": _with_arrow_at_edge(f"it is {_text(truth)}{unit}", truth),
    }
    lanes = dict(zip(sorted(places, key=lambda name: places[name]), _LANES, strict=True))  # so no stem crosses words
    stems = {name: places[name] for name, v in (("you", guess), ("it is", truth)) if math.isfinite(v)}
    axis = _axis(low, high, log, scale, min(guess, truth), largest)
    view = tuple(axis["range"])
    layout = {"xaxis": axis, "yaxis": {"range": [0, _TOP], "visible": False}} | _line(axis)
    layout["xaxis"] |= {"visible": math.isfinite(guess) or math.isfinite(truth)}
    data = [_distance(places, guess, truth), _stems(stems, lanes), _signs(places, lanes, texts, view)]
    fig = style.figure(data, layout)
    return _styled(fig, _alt(guess, truth, unit, log), height, bottom=28)


def _is_log(guess: float, truth: float) -> bool:
    low, high = sorted((guess, truth))
    return low > 0 and high < math.inf and high / low >= LOG_FROM


def _scale(*values: float) -> float:
    """What numbers are divided by, so that an axis can be drawn through any two floats; 1 for all usual ones."""
    largest = max((abs(v) for v in values if math.isfinite(v)), default=0.0)
    return largest if largest and not 1e-100 < largest < 1e100 else 1.0


def _view(guess: float, truth: float, log: bool, scale: float) -> tuple[float, float]:
    finite = [v / scale for v in (guess, truth) if math.isfinite(v)]
    if log:
        finite = [math.log2(v) for v in finite]
    low, high = (min(finite), max(finite)) if log else (min([*finite, 0.0]), max([*finite, 0.0]))
    if low == high:
        low, high = -1.0, 1.0
    room = 0.08 * (high - low)
    words = (11 if log else 14) * room  # to the right, where a figure is 340 pixels wide
    return (low - room if low or log else low), high + words


def _place(value: float, log: bool, scale: float, low: float, high: float) -> float:
    if not math.isfinite(value):
        return high if value == math.inf else low
    return math.log2(value) if log else value / scale


def _text(value: float) -> str:
    whole = math.isfinite(value) and value == int(value)
    if whole and 1000 <= abs(value) < 1e7:
        return grouped(value)
    return number_text.decimal(value if whole else float(f"{value:.4g}"))


def _with_arrow_at_edge(text: str, value: float) -> str:
    return f"{text} →" if value == math.inf else f"← {text}" if value == -math.inf else text


def _axis(low: float, high: float, log: bool, scale: float, smallest: float, largest: float) -> dict[str, Any]:
    axis: dict[str, Any] = {
        "range": [low, high],
        "nticks": 8,
        "exponentformat": "power",
        "minexponent": 6,  # 2,000 and not 0.2×10⁴
        "separatethousands": True,
    }
    if log:
        positions = _whole_ticks(math.log2(smallest), math.log2(largest))
        axis |= {"range": [min(low, positions[0]), high]}
        axis |= axes.ticks(positions, [_doubling(k) for k in positions.tolist()])
    elif scale != 1:
        axis |= axes.ticks(np.zeros(1), ["0"])
    elif low == 0 and largest > 0:
        axis |= axes.amount_ticks(largest, _text, beyond=True)
    return axis


def _whole_ticks(low: float, high: float) -> np.ndarray:
    """Whole numbers at equal distances, the first at or below the lower end, the last at or above the upper one."""
    positions, _ = axes.power_ticks(math.floor(low), math.ceil(high), 6)
    step = positions[1] - positions[0] if len(positions) > 1 else 1
    return np.arange(math.floor(low / step), math.ceil(high / step) + 1) * step


def _line(axis: dict[str, Any]) -> dict[str, Any]:
    """The line of the axis from its first tick to its last: behind them is room for words, and no number."""
    if "tickvals" not in axis or len(axis["tickvals"]) < 2:
        return {}
    first, last = axis["tickvals"][0], axis["tickvals"][-1]
    line = {"type": "line", "x0": first, "x1": last, "y0": 0, "y1": 0, "line": {"color": style.GREY, "width": 2}}
    return {"xaxis": axis | {"showline": False}, "shapes": [line]}


def _doubling(k: int) -> str:
    """A power of two: in full where that is short."""
    return _text(2.0**k) if -6 <= k <= 13 else number_text.raised(number_text.power(k, plain=True))


def _distance(places: dict[str, float], guess: float, truth: float) -> dict[str, Any]:
    """A thick line on the axis between the two."""
    is_visible = math.isfinite(guess) and math.isfinite(truth) and guess != truth
    look = traces.stroke("rgba(127,127,127,.5)", 5)
    return traces.line("distance", np.array(list(places.values())), np.full(2, 3.0), look, visible=is_visible)


def _stems(places: dict[str, float], lanes: dict[str, float]) -> dict[str, Any]:
    x = np.array(list(places.values()), np.float64).repeat(3)
    y = np.array([y for name in places for y in (0.0, lanes[name] - 6, math.nan)], np.float64)
    return traces.line("stems", x, y, traces.stroke(style.GREY, 1.2))


def _signs(
    places: dict[str, float], lanes: dict[str, float], texts: dict[str, str], view: tuple[float, float]
) -> dict[str, Any]:
    left = {name: x > view[0] + 0.85 * (view[1] - view[0]) for name, x in places.items()}
    return traces.words(
        "guess and truth",
        np.array(list(places.values())),
        np.array([lanes[name] for name in places]),
        [f"  <b>{texts[name]}</b>  " for name in places],
        np.array([f"middle {'left' if left[name] else 'right'}" for name in places], dtype=str),
        mode="markers+text",
        textfont={"size": style.BODY},
        marker=_looks(list(places)),
        cliponaxis=False,
    )


def _looks(names: list[str]) -> dict[str, Any]:
    colours = np.array([_STYLES[name][1] for name in names], dtype=str)
    return {
        "symbol": np.array([_STYLES[name][0] for name in names], dtype=str),
        "size": np.array([15 if name == "you" else 10 for name in names]),
        "color": colours,
        "opacity": 1,
        "line": {"width": np.array([3 if name == "you" else 0 for name in names]), "color": colours},
    }


def _alt(guess: float, truth: float, unit: str, log: bool) -> str:
    text = f"You said {_text(guess)}{unit}; it is {_text(truth)}{unit}"
    if guess == truth:
        return f"{text}, the same."
    if not (math.isfinite(guess) and math.isfinite(truth)):
        return f"{text}."
    direction = "more" if truth > guess else "less"
    if log:
        ratio = max(truth, guess) / min(truth, guess)
        by = f" by a factor of {_text(float(f'{ratio:.3g}'))}" if math.isfinite(ratio) else ""
        return f"{text}, {direction}{by}, on a logarithmic axis."
    distance = abs(truth - guess)
    by = f" by {_text(float(f'{distance:.4g}'))}{unit}" if math.isfinite(distance) else ""
    return f"{text}, {direction}{by}, on a linear axis."


def _styled(fig: go.Figure, alt: str, height: int, bottom: int) -> go.Figure:
    return style.apply_style(fig, alt=alt, title="", height=height, l=20, r=20, t=4, b=bottom)


# ---- choices ---------------------------------------------------------------------------------------------------------


def _list(guess: str, truth: str, choices: list[str], height: int | None) -> go.Figure:
    rows = [[name for name, value in (("you", guess), ("it is", truth)) if value == choice] for choice in choices]
    marks = [(name, -float(i)) for i, row in enumerate(rows) for name in row]
    texts = [_row(choice, row) for choice, row in zip(choices, rows, strict=True)]
    y = -np.arange(len(choices), dtype=np.float64)
    shown = np.array([0.0 if row else 1.0 for row in rows])
    dots = traces.marker("circle", 5, style.GREY, opacity=shown, line={"width": 0})
    more = {"mode": "markers+text", "textfont": {"size": style.BODY}, "marker": dots, "cliponaxis": False}
    answers = traces.words("answers", np.zeros(len(y)), y, texts, "middle right", **more)
    at, looks = np.array([at for _, at in marks]), _looks([name for name, _ in marks])
    signs = traces.points("guess and truth", np.zeros(len(marks)), at, looks, cliponaxis=False)
    hidden = {"visible": False, "fixedrange": True}
    fig = style.figure(
        data=[answers, signs],
        layout={"xaxis": hidden | {"range": [0, 1]}, "yaxis": hidden | {"range": [0.5 - len(y), 0.5]}},
    )
    alt = f"Of the answers {', '.join(choices)}, you chose {guess}; "
    alt += "so it is." if guess == truth else f"it is {truth}."
    return _styled(fig, alt, height or _ROW * len(choices) + 12, bottom=8)


def _row(choice: str, names: list[str]) -> str:
    signs = "".join(f"     <span style='color:{_STYLES[n][1]}'>{SIGNS[_STYLES[n][0]]}</span> <b>{n}</b>" for n in names)
    return f"   {choice}" if not names else f"   <b>{choice}</b>{signs}"
