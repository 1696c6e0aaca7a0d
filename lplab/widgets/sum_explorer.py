"""A long sum in a narrow register, live: chunk, accumulator, mean and spread of the numbers."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import ipywidgets
import numpy as np

from lplab import figures
from lplab import formats as F
from lplab.arithmetic import Accumulator
from lplab.claims.wang_2018 import COUNT, numbers, running_sum
from lplab.figures.light import light
from lplab.figures.running_sum import grouped, off

from .controls import line, say
from .live_figure import LiveFigure
from .positioned import PositionedExplorer

PRESETS: dict[str, tuple[str, dict[str, Any]]] = {  # the name of the preset: format, further settings
    "1-6-9 (IBM)": ("dlfloat16", {}),
    "1-6-9, coin": ("dlfloat16", {"rounding": "stochastic"}),
    "1-6-9, cut off": ("dlfloat16", {"rounding": "toward_zero"}),
    "fp16 (1-5-10)": ("fp16", {}),
    "bf16 (1-8-7)": ("bf16", {}),
    "fp32 (1-8-23)": ("fp32", {}),
}
POINTS = 32
MOST = COUNT.bit_length() - 1  # the longest chunk is 2 to this power: one chunk
RANGES = {"chunk": (0, MOST), "mean": (-1.0, 2.0), "spread": (0.0, 2.0)}


@dataclass(frozen=True)
class SumPosition:
    """Where the controls stand.

    Attributes:
        preset: a name of `PRESETS`.
        chunk: numbers in a chunk, a power of two up to 65,536; 1 is a sum without chunks.
        mean, spread: mean and standard deviation of the uniform numbers.

    >>> SumPosition(chunk=64).accumulator
    Accumulator('dlfloat16', chunk=64)
    """

    preset: str = "1-6-9 (IBM)"
    chunk: int = 1
    mean: float = 1.0
    spread: float = 1.0

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            raise ValueError(f"unknown preset {self.preset!r}; allowed: {', '.join(PRESETS)}")
        if self.chunk not in [2**k for k in range(MOST + 1)]:
            raise ValueError(f"chunk must be a power of two from 1 to {COUNT:,}, got {self.chunk}")
        for name in ("mean", "spread"):
            low, high = RANGES[name]
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"{name} must be from {low:g} to {high:g}, got {getattr(self, name)}")

    @property
    def accumulator(self) -> Accumulator:
        """Format, chunk and rounding of the additions."""
        fmt, settings = PRESETS[self.preset]
        return Accumulator(fmt, chunk=self.chunk, **settings)

    @property
    def code(self) -> str:
        """Python that sums the same numbers."""
        fmt, settings = PRESETS[self.preset]
        given = "".join(f", {name}={value!r}" for name, value in {"chunk": self.chunk, **settings}.items())
        return f"arithmetic.sum(numbers({self.mean:g}, {self.spread:g}), {fmt!r}{given})"


@lru_cache(maxsize=64)
def _data(mean: float, spread: float) -> tuple[np.ndarray, np.ndarray]:
    """The numbers, and their exact sums at all points (64-bit sums of ten-bit numbers are exact here)."""
    x = numbers(mean, spread)
    return x, np.cumsum(x)[COUNT // POINTS - 1 :: COUNT // POINTS]


@lru_cache(maxsize=256)
def sums(at: SumPosition) -> tuple[np.ndarray, np.ndarray]:
    """The sums in the register and the true ones after each 2,048 numbers: float64 [32] both."""
    x, true = _data(at.mean, at.spread)
    return running_sum(x, at.accumulator, POINTS), true


def picture(at: SumPosition) -> Any:
    """The figure at a position."""
    register, true = sums(at)
    lengths = np.arange(1, POINTS + 1) * (COUNT // POINTS)
    name = at.preset.partition(" (")[0]
    how = "no chunks" if at.chunk in (1, COUNT) else f"chunks of {at.chunk:,}"
    title = f"Sum {grouped(register[-1])} of {grouped(true[-1])} ({off(register[-1], true[-1])})"  # short: no wrapping
    return figures.running_sum(lengths, register, true, name=f"{name}, {how}", title=title)


def statement(at: SumPosition) -> str:
    """The step of the register where the sum ends, beside the largest number, in one line.

    >>> statement(SumPosition())
    'At 4,096 the register goes in steps of 8; the largest of the numbers is 2.73. Chunks: 65,536 of 1.'
    """
    x, (register, _) = _data(at.mean, at.spread)[0], sums(at)
    end, fmt = float(register[-1]), F.get(PRESETS[at.preset][0])
    chunks = f"Chunks: {COUNT // at.chunk:,} of {at.chunk:,}."
    if not np.isfinite(end):
        return f"The largest number of {fmt.name} is {grouped(fmt.max)}: the sum has overflowed. {chunks}"
    step = float(np.spacing(np.float32(abs(end)))) * 2.0 ** (23 - fmt.mantissa_bits)
    largest = f"{float(np.abs(x).max()):.3g}"
    return (
        f"At {grouped(end)} the register goes in steps of {step:g}; the largest of the numbers is {largest}. {chunks}"
    )


class SumExplorer(PositionedExplorer):
    """A sum of 65,536 numbers behind four controls: chunk, accumulator, mean and spread of the numbers.

    Args:
        **position: fields of `SumPosition`; Reset comes back to them.

    >>> explorer = SumExplorer(chunk=64)
    >>> explorer.figure.layout.meta["title"]
    'Sum 65,664 of 65,565 (0.2 % off)'
    """

    _copies = "Python that makes this sum"
    _room = None

    def __init__(self, **position: Any) -> None:
        super().__init__(SumPosition(**position))

    def _build(self, at: SumPosition) -> tuple[list[ipywidgets.Widget], list[ipywidgets.Widget]]:
        w = ipywidgets
        powers = [(f"{2**k:,}", 2**k) for k in range(MOST + 1)]
        mean, spread = RANGES["mean"], RANGES["spread"]
        self.controls = {
            "chunk": w.SelectionSlider(options=powers, description="chunk"),
            "preset": w.Dropdown(options=list(PRESETS), description="accumulator"),
            "mean": w.FloatSlider(min=mean[0], max=mean[1], step=0.25, readout_format=".2f", description="mean"),
            "spread": w.FloatSlider(
                min=spread[0], max=spread[1], step=0.25, readout_format=".2f", description="spread"
            ),
        }
        self.figure = LiveFigure(picture(at))
        self.statement = line(statement(at), "lp-quiet", "lp-live")
        sum_, data = line("The sum", "lp-heading"), line("The numbers", "lp-heading")
        chunk, preset, *rest = self.controls.values()
        return [sum_, chunk, preset, data, *rest], [self.figure, self.statement]

    def _draw(self, at: SumPosition) -> None:
        say(self.statement, statement(at))
        with light():
            figures.update(self.figure, picture(at))
