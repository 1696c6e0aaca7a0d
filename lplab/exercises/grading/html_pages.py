"""Pages that stand alone: HTML with its style inside, no script, no network, light and dark, fit to be printed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import jinja2

MOST = 40  # bars of a histogram
BINS = 8


@cache
def _environment() -> jinja2.Environment:
    loader = jinja2.FileSystemLoader(Path(__file__).parent / "templates")
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["points"] = lambda value: f"{value:g}".replace("-", "−")
    return environment


def render(template: str, **values: Any) -> str:
    """A page from one of the ``templates``; whatever text comes in is escaped."""
    return _environment().get_template(template).render(**values)


@dataclass(frozen=True)
class Bar:
    """One bar: what it counts, how many, its share of the longest one, and whether it holds the truth."""

    label: str
    count: int
    percent: float
    is_truth: bool = False


def bars(counts: Sequence[tuple[str, int]], truth: str | None = None) -> list[Bar]:
    """Counts as bars, in their order.

    >>> [bar.percent for bar in bars([("passed", 4), ("form", 1)])]
    [100.0, 25.0]
    """
    longest = max((count for _, count in counts), default=1) or 1
    return [Bar(label, count, 100 * count / longest, label == truth) for label, count in counts]


def histogram(guesses: Sequence[float | str], truth: float | str, unit: str = "") -> list[Bar]:
    """How often each answer was given; many different numbers are put together in ranges of one width or one ratio.

    >>> [(bar.label, bar.count, bar.is_truth) for bar in histogram([12, 118, 12.0], 118, "codes")]
    [('12 codes', 2, False), ('118 codes', 1, True)]
    """
    numbers = sorted(float(guess) for guess in guesses if not isinstance(guess, str) and math.isfinite(guess))
    texts = Counter(str(guess) for guess in guesses if isinstance(guess, str) or not math.isfinite(guess))
    if len(set(numbers)) <= BINS:
        counted = [(_shown(value, unit), count) for value, count in Counter(numbers).items()]
        wanted = truth if isinstance(truth, str) else _shown(truth, unit)
    else:
        counted, wanted = _ranges(numbers, truth, unit)
    others = sorted(texts.items(), key=lambda pair: (-pair[1], pair[0]))
    return bars([*counted, *others][:MOST], wanted)


def _ranges(numbers: Sequence[float], truth: float | str, unit: str) -> tuple[list[tuple[str, int]], str]:
    """Numbers in ranges, and the label of the range that holds the truth."""
    low, high = numbers[0], numbers[-1]
    edges = _decades(low, high) if low > 0 and high / low > 100 else _steps(low, high)
    labels = [f"{_shown(a)} to {_shown(b, unit)}" for a, b in pairwise(edges)]
    counts = Counter(_bin(value, edges) for value in numbers)
    inside = not isinstance(truth, str) and edges[0] <= truth <= edges[-1]
    wanted = labels[_bin(float(truth), edges)] if inside else ""
    return [(label, counts[i]) for i, label in enumerate(labels)], wanted


def _decades(low: float, high: float) -> list[float]:
    """Powers of ten around the numbers.

    >>> _decades(0.02, 30)
    [0.01, 0.1, 1.0, 10.0, 100.0]
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    width = math.ceil((last - first) / MOST)
    return [10.0**power for power in range(first, last + width, width)]


def _steps(low: float, high: float) -> list[float]:
    """Round numbers around the numbers, at most ten ranges.

    >>> _steps(12, 249)
    [0.0, 50.0, 100.0, 150.0, 200.0, 250.0]
    """
    unit = 10.0 ** math.floor(math.log10((high - low) / BINS))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= (high - low) / BINS)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [step * i for i in range(first, last + 1)]


def _bin(value: float, edges: Sequence[float]) -> int:
    return min(sum(value >= edge for edge in edges[1:]), len(edges) - 2)


def _shown(value: float, unit: str = "") -> str:
    return f"{value:.4g}{' ' * bool(unit)}{unit}".replace("-", "−")
