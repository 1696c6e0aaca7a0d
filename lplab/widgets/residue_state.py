"""What AdaComp sends and what stays: where the controls stand, and what follows; no widgets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import figures
from lplab.figures.sent_and_kept import SentCourse
from lplab.figures.words import percent
from lplab.residue_recording import Counted, Course, residue_recording

BY_KIND = "50 | 500"  # elements of a bin: in the convolution | in the other layers
SHOWN = 50, 500  # elements of a layer that the lower figure shows, at least and at most
BINS_SHOWN = 4  # as many bins, if these limits allow
FACTORS = {"soft (s = 2)": 2.0, "hard: maxima only (s = 1)": 1.0}


def bins() -> tuple[int | str, ...]:
    """The lengths of bins that were recorded, AdaComp's own choice first.

    >>> bins()[:3]
    ('50 | 500', 1, 5)
    """
    return tuple(dict.fromkeys(bin or BY_KIND for bin, _ in residue_recording().runs))


def bin_label(bin: int | str) -> str:
    """A length of bins in words.

    >>> bin_label("50 | 500"), bin_label(5000)
    ('50 | 500', '5,000')
    """
    return bin if isinstance(bin, str) else f"{bin:,}"


@dataclass(frozen=True)
class Position:
    """Where the controls stand.

    Attributes:
        bin: elements of a bin in all layers, or "50 | 500": 50 in the convolution, 500 in the others.
        factor: s of the soft threshold, 1 or 2.
        layer: a layer of the recording.
        moment: a step of which elements were kept.

    >>> Position().layer, Position().moment
    ('convolution', 30)
    """

    bin: int | str = BY_KIND
    factor: float = 2.0
    layer: str = "convolution"
    moment: int = 30

    def __post_init__(self) -> None:
        recorded = residue_recording()
        allowed: dict[str, tuple[Any, ...]] = {
            "bin": bins(),
            "factor": tuple(FACTORS.values()),
            "layer": recorded.layers,
            "moment": recorded.moments,
        }
        for name, values in allowed.items():
            if getattr(self, name) not in values:
                raise ValueError(f"unknown {name} {getattr(self, name)!r}; allowed: {', '.join(map(str, values))}")

    @property
    def run(self) -> tuple[int | None, float]:
        """Which training this is."""
        return (None if self.bin == BY_KIND else int(self.bin)), self.factor

    @property
    def point(self) -> int:
        """The place of the moment among the recorded steps."""
        return int(np.searchsorted(residue_recording().steps, self.moment))

    @property
    def code(self) -> str:
        """Python that gives the numbers of this layer."""
        return "\n".join(
            [
                "from lplab.residue_recording import residue_recording",
                f"course = residue_recording().course({self.layer!r}, bin={self.run[0]}, factor={self.factor:g})",
                f"print(course.share[{self.point}], course.held[{self.point}], course.counted({self.point}))",
            ]
        )


PRESETS: dict[str, dict[str, Any]] = {  # the name of the preset: fields of Position
    "AdaComp (2018)": {"bin": BY_KIND, "factor": 2.0},
    "50 everywhere": {"bin": 50, "factor": 2.0},
    "500 everywhere": {"bin": 500, "factor": 2.0},
    "No bins": {"bin": 1, "factor": 2.0},
    "Local selection": {"bin": BY_KIND, "factor": 1.0},
}


@lru_cache(maxsize=256)
def course(at: Position, layer: str) -> Course:
    """One layer of the chosen run."""
    return residue_recording().course(layer, *at.run)


def courses_figure(at: Position) -> go.Figure:
    """The upper figure."""
    recorded = residue_recording()
    each = {layer: course(at, layer) for layer in recorded.layers}
    now, bin = each[at.layer], bin_label(at.bin)
    title = f"Bins of {bin}: {at.layer} sends {percent(float(now.share.mean()))}, holds {now.held.mean():.1f} gradients"
    return figures.sent_and_kept(
        [SentCourse(layer, c.steps, c.share, c.held) for layer, c in each.items()],
        steps=len(recorded.other("dense")[0]),
        chosen=recorded.layers.index(at.layer),
        at=at.moment,
        title=title,
    )


def bins_figure(at: Position) -> go.Figure:
    """The lower figure: some bins of the layer at the moment."""
    window = residue_recording().window(at.layer, at.moment, *at.run)
    shown = shown_bins(window.sent, window.bin)
    r, g, sent, limit = (x[shown] for x in (window.residue, window.gradient, window.sent, window.limit))
    where = f"{at.layer}, step {at.moment}, learner 0"
    count = int(sent.sum())
    which = f"the first {sent.size} elements" if not shown.start else f"elements {shown.start:,} to {shown.stop - 1:,}"
    title = f"{where}: {count} of {which} {'is' if count == 1 else 'are'} sent"
    if not count:
        title = f"{where}: none of {which} reaches its bin's largest"
    return figures.bins(
        r, g, sent, limit, window.scale, bin=window.bin, factor=at.factor, first=shown.start, title=title
    )


def shown_bins(sent: np.ndarray, bin: int) -> slice:
    """Which of the kept elements are drawn: whole bins, from the first that sends, where there is one to begin with.

    >>> shown_bins(np.arange(500) == 320, 50)
    slice(300, 500, None)
    >>> shown_bins(np.zeros(500, bool), 5)
    slice(0, 50, None)
    """
    size = int(np.clip(BINS_SHOWN * bin, *SHOWN))
    first = int(np.argmax(sent)) // bin * bin
    start = max(0, min(first, (len(sent) - size) // bin * bin))
    return slice(start, start + size)


def statement(at: Position) -> str:
    """What becomes of the training under this setting, in one line."""
    recorded = residue_recording()
    last, (dense, dense_error) = recorded.losses(*at.run)[-20:].mean(), recorded.other("dense")
    now = course(at, at.layer)
    per_bin = now.sent.mean() * now.bin / now.size
    nothing = now.empty.mean() / -(-now.size // now.bin)
    are = "element is" if f"{per_bin:.2g}" == "1" else "elements are"
    return (
        f"{at.layer}: of a bin {per_bin:.2g} {are} sent on average, {percent(float(nothing))} of the bins send "
        f"nothing; {percent(float(now.agreeing.mean() / now.sent.mean()))} of what is sent has the sign of its "
        f"gradient. Training loss of the last 20 steps {last:.2f}, without compression "
        f"{dense[-20:].mean():.2f}; test errors {percent(recorded.error(*at.run))} and "
        f"{percent(dense_error)}."
    )


def table(at: Position) -> list[tuple[str, str, str]]:
    """Rows of words: how it is counted, the rate at the moment, the rate over all steps."""
    now = course(at, at.layer)
    moment, whole = now.counted(at.point), now.counted()
    names = {
        "paper": "the paper's way",
        "payload": "decodable message",
        "wire": "on the wire, 4 learners",
        "bound": "entropy bound",
    }
    return [(text, times(getattr(moment, name)), times(getattr(whole, name))) for name, text in names.items()]


def times(rate: float) -> str:
    """A rate as text.

    >>> times(203.4), times(3.96), times(float("inf"))
    ('203×', '4.0×', 'nothing sent')
    """
    if not np.isfinite(rate):
        return "nothing sent"
    return f"{rate:,.0f}×" if rate >= 99.5 else f"{rate:.1f}×"


__all__ = ["PRESETS", "Counted", "Position", "bins", "bins_figure", "courses_figure", "statement", "table"]
