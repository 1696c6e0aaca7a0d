"""A long sum in a narrow register, live: chunk, accumulator, mean and spread of the numbers."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from lplab import arithmetic, figures
from lplab import formats as F
from lplab.arithmetic import Accumulator
from lplab.claims.papers.wang_2018 import COUNT, numbers, running_sum
from lplab.figures.running_sum import grouped, off
from lplab.widgets.explorer_base import Explorer
from lplab.widgets.fields import Choice, ExplorerState, Slider, Steps, control

PRESETS: dict[str, tuple[str, dict[str, Any]]] = {  # the name of the preset: format, further settings
    "1-6-9 (IBM)": ("dlfloat16", {}),
    "1-6-9, stochastic": ("dlfloat16", {"rounding": "stochastic"}),
    "1-6-9, cut off": ("dlfloat16", {"rounding": "toward_zero"}),
    "fp16 (1-5-10)": ("fp16", {}),
    "bf16 (1-8-7)": ("bf16", {}),
    "fp32 (1-8-23)": ("fp32", {}),
}
POINTS = 32
MAX_CHUNK_LOG2 = COUNT.bit_length() - 1  # the longest chunk is 2 to this power: one chunk
CHUNKS = tuple(2**k for k in range(MAX_CHUNK_LOG2 + 1))
_POWER = f"{{name}} must be a power of two from 1 to {COUNT:,}, got {{value!r}}"  # what is said of another chunk


@dataclass(frozen=True)
class SumState(ExplorerState):
    """The value of every control.

    Attributes:
        preset: a name of `PRESETS`.
        chunk: numbers in a chunk, a power of two up to 65,536; 1 is a sum without chunks.
        mean, spread: mean and standard deviation of the uniform numbers.

    >>> SumState(chunk=64).accumulator
    Accumulator('dlfloat16', chunk=64)
    """

    preset: str = control("1-6-9 (IBM)", Choice("accumulator", list(PRESETS)))
    chunk: int = control(
        1,
        Steps(
            "chunk",
            {f"{chunk:,}": chunk for chunk in CHUNKS},
            refusal=_POWER,
            css="lp-wide-readout",  # "65,536"
            unit="elements",
        ),
    )
    mean: float = control(1.0, Slider("mean", -1.0, 2.0, step=0.25, readout_format=".2f"))
    spread: float = control(1.0, Slider("spread", 0.0, 2.0, step=0.25, readout_format=".2f"))

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
def register_and_true_sums(state: SumState) -> tuple[np.ndarray, np.ndarray]:
    """The sums in the register and the true ones after every 2,048 numbers: float64 [32] both."""
    x, true = _data(state.mean, state.spread)
    return running_sum(x, state.accumulator, POINTS), true


@lru_cache(maxsize=256)
def last_finite_sum(state: SumState) -> tuple[int, float] | None:
    """How many numbers are added before the register overflows, and their sum in it; None where it never does.

    >>> last_finite_sum(SumState(preset="fp16 (1-5-10)", chunk=64))
    (65422, 65504.0)
    >>> last_finite_sum(SumState()) is None
    True
    """
    finite = np.isfinite(register_and_true_sums(state)[0])
    if finite.all():
        return None
    fmt, settings = PRESETS[state.preset]
    x = _data(state.mean, state.spread)[0]
    sum_of = lambda count: float(arithmetic.sum(x[:count], fmt, chunk=state.chunk, **settings))  # noqa: E731
    below = int(np.argmin(finite)) * (COUNT // POINTS)  # the last drawn length that is finite
    above = below + COUNT // POINTS
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (middle, above) if np.isfinite(sum_of(middle)) else (below, middle)
    return below, sum_of(below)


def figure(state: SumState) -> Any:
    """The figure of a state."""
    register, true = register_and_true_sums(state)
    lengths = np.arange(1, POINTS + 1) * (COUNT // POINTS)
    name = state.preset.partition(" (")[0]
    how = "no chunks" if state.chunk in (1, COUNT) else f"chunks of {state.chunk:,}"
    title = f"Sum {grouped(register[-1])} of {grouped(true[-1])} ({off(register[-1], true[-1])})"  # short: no wrapping
    last = last_finite_sum(state)
    return figures.running_sum(lengths, register, true, name=f"{name}, {how}", last=last, title=title)


@lru_cache(maxsize=256)
def largest_addend(state: SumState) -> float:
    """The largest magnitude that the total ever adds: a number, or with chunks the sum of one in its register."""
    x = _data(state.mean, state.spread)[0]
    if state.chunk in (1, COUNT):
        return float(np.abs(x).max())
    fmt, settings = PRESETS[state.preset]
    chunks, ones = x.astype(np.float32).reshape(-1, state.chunk), np.ones((state.chunk, 1), np.float32)
    return float(np.abs(arithmetic.matmul(chunks, ones, Accumulator(fmt, **settings))).max())


def summary(state: SumState) -> str:
    """The step of the register where the sum ends, beside the largest number that it adds, in one line.

    >>> summary(SumState())
    'At 4,096 the register goes in steps of 8; the largest of the numbers is 2.73.'
    >>> summary(SumState(chunk=64))
    'At 65,664 the register goes in steps of 128; the largest sum of a chunk is 89.5. Chunks: 1,024 of 64.'
    """
    register, fmt = register_and_true_sums(state)[0], F.get(PRESETS[state.preset][0])
    end = float(register[-1])
    whole = state.chunk in (1, COUNT)
    chunks = "" if whole else f" Chunks: {COUNT // state.chunk:,} of {state.chunk:,}."
    if not np.isfinite(end):
        return f"The largest number of {fmt.name} is {grouped(fmt.max)}: the sum has overflowed.{chunks}"
    step = float(np.spacing(np.float32(abs(end)))) * 2.0 ** (23 - fmt.mantissa_bits)
    if state.mean > 0:
        what = "largest of the numbers" if whole else "largest sum of a chunk"
    else:  # the one that is farthest from 0 may be negative
        what = f"largest magnitude of {'the numbers' if whole else 'the sum of a chunk'}"
    largest = grouped(float(f"{largest_addend(state):.3g}"))
    return f"At {grouped(end)} the register goes in steps of {step:g}; the {what} is {largest}.{chunks}"


class SumExplorer(Explorer):
    """A sum of 65,536 numbers behind four controls: chunk, accumulator, mean and spread of the numbers.

    Args:
        **position: fields of `SumState`; Reset returns to them.

    >>> explorer = SumExplorer(chunk=64)
    >>> explorer.figure.layout.meta["title"]
    'Sum 65,664 of 65,565 (0.2 % off)'
    """

    imports = (
        "from lplab import arithmetic",
        "from lplab.claims.papers.wang_2018 import numbers",
    )
    state_class = SumState
    side: ClassVar = {"The sum": ("chunk", "preset"), "The numbers": ("mean", "spread")}
    _copy_tooltip = "Python that makes this sum"
    _figure_flex = None

    figure_names: ClassVar = {"figure": "The running sum"}

    def _figures(self, state: SumState) -> dict[str, Any]:
        return {"figure": figure(state)}

    def _summary(self, state: SumState) -> str:
        return summary(state)
