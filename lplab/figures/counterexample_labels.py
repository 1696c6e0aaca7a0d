"""Where the signs and the labels of a counterexample go, so that none covers or crosses another."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np

from lplab import number_text
from lplab.figures.grid import element_of
from lplab.figures.neighbourhood import Neighbourhood
from lplab.figures.statistics import name_of
from lplab.formats.coding import bits_text

LANES = (60.0, 40.0, 20.0)  # pixels above the line: x is in the first if that can be had
BINARY_BITS = 16  # codes up to this width are written bit by bit where there is room, others in hexadecimal
_SIGN, _LETTER, _PLOT = 14, 6.8, 640  # pixels that a sign and a letter take, and a usual width of the plot


@dataclass(frozen=True)
class LabelledValue:
    """One of the three signs: name, words, place (0 to 1 over the view), whether it is really there, lane and side."""

    name: str
    text: str
    place: float
    inside: bool
    lane: float = 0.0
    left: bool = False

    @property
    def width(self) -> float:
        """Room that its words take, as a share of the view."""
        return (_SIGN + _LETTER * len(self.text)) / _PLOT


def marks_of(fmt: Any, values: dict[str, float], around: Neighbourhood | None) -> list[LabelledValue]:
    """The three signs, in lanes and with their words on sides where no stem crosses the words, if that can be had.

    >>> from lplab import formats
    >>> from lplab.figures.neighbourhood import neighbourhood
    >>> e2m1 = formats.get("e2m1")
    >>> marks = marks_of(e2m1, {"x": 2.2, "expected": 2.0, "yours": 2.2}, neighbourhood(e2m1, 2.2))
    >>> [(mark.text, mark.lane, mark.left) for mark in marks][:2]
    [('x 2.2', 60.0, False), ('expected 2', 40.0, True)]
    """
    marks = [_mark(fmt, name, value, around) for name, value in values.items()]
    marks, _ = min((_with_lanes(order) for order in permutations(marks)), key=lambda laid: laid[1])  # the first is best
    return sorted(marks, key=lambda m: list(values).index(m.name))


def _mark(fmt: Any, name: str, value: float, around: Neighbourhood | None) -> LabelledValue:
    text = f"{name} {number_text.decimal(value)}{_remark(name, value, fmt)}"
    if around is None or math.isnan(value):
        return LabelledValue(name, text, 0.0, False)
    low, high = around.view
    if low <= value <= high:
        return LabelledValue(name, text, (value - low) / (high - low), True)
    return (
        LabelledValue(name, f"{text} →", 1.0, False) if value > high else LabelledValue(name, f"← {text}", 0.0, False)
    )


def _with_lanes(marks: tuple[LabelledValue, ...]) -> tuple[list[LabelledValue], int]:
    """Give each sign its lane, from the top, and its side; and count the words that are crossed all the same."""
    done: list[LabelledValue] = []
    crossed = 0
    for mark, lane in zip(marks, LANES, strict=True):
        stems = [m.place for m in done if m.inside]
        faults = {
            left: (sum(abs(s - mark.place) > 1e-9 and start < s < end for s in stems), not 0 <= start <= end <= 1)
            for left, start, end in (
                (False, mark.place, mark.place + mark.width),
                (True, mark.place - mark.width, mark.place),
            )
        }
        away = bool(stems) and mark.place < stems[0]  # from the highest sign, if there is a choice
        left = min(faults, key=lambda side: (faults[side][1], faults[side][0], side != away))
        crossed += faults[left][0]
        done.append(replace(mark, lane=lane, left=left))
    return done, crossed


def _remark(name: str, value: float, fmt: Any) -> str:
    """That an answer is not even a number of the format."""
    element = element_of(fmt)
    if name == "x":
        return ""
    if math.isnan(value):
        return "" if element.has_nan else f" ({name_of(fmt)} has no NaN)"
    if math.isinf(value):
        return "" if getattr(element, "has_infinity", False) else f" ({name_of(fmt)} has no ∞)"
    inside = element.min <= value <= element.max and float(element.quantize(value, "toward_zero")) == value
    return "" if inside else " (no number of the format)"


def labels_of(fmt: Any, around: Neighbourhood | None) -> tuple[np.ndarray, np.ndarray]:
    """Value and code below the ticks, the neighbours of x first, and none that would touch another.

    >>> from lplab import formats
    >>> from lplab.figures.neighbourhood import neighbourhood
    >>> labels_of(formats.get("e2m1"), neighbourhood(formats.get("e2m1"), 2.2))[1][:2].tolist()
    ['2<br>0 10 0', '3<br>0 10 1']
    """
    if around is None:
        return np.empty(0), np.empty(0, dtype=str)
    focus = around.halfway if math.isfinite(around.halfway) else float(np.mean(around.view))
    values = np.array(sorted(around.values.tolist(), key=lambda v: abs(v - focus)))
    start, end = around.beyond
    for code in (_binary, _hexadecimal):
        wanted = [(v, f"{number_text.decimal(v)}<br>{code(fmt, v)}") for v in values.tolist()]
        wanted += [((start + end) / 2, "out of<br>range")] if end > start else []
        chosen = _labels_with_room(wanted, around.view)
        if set(values[:2]) <= {value for value, _ in chosen}:
            break
    return np.array([v for v, _ in chosen]), np.array([text for _, text in chosen], dtype=str)


def _labels_with_room(wanted: list[tuple[float, str]], view: tuple[float, float]) -> list[tuple[float, str]]:
    """The labels, from the first on, that have room beside the ones before."""
    chosen: list[tuple[float, str, float]] = []
    for value, text in wanted:
        half = (0.5 * _LETTER * max(map(len, text.split("<br>"))) + 3) / _PLOT * (view[1] - view[0])
        if all(abs(value - other) > half + width for other, _, width in chosen):
            chosen.append((value, text, half))
    return [(value, text) for value, text, _ in chosen]


def _binary(fmt: Any, value: float) -> str:
    return bits_text(int(fmt.encode(value)), fmt) if fmt.bits <= BINARY_BITS else _hexadecimal(fmt, value)


def _hexadecimal(fmt: Any, value: float) -> str:
    return f"0x{int(fmt.encode(value)):0{-(-fmt.bits // 4)}X}"
