"""Recorded trainings under AdaComp, live: what every layer sends, its residual, and the compression ratio."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import plotly.graph_objects as go

from lplab import figures
from lplab.figures.adacomp_bins import tallest
from lplab.figures.sent_and_kept import SentHistory
from lplab.number_text import percent
from lplab.recordings.adacomp_runs import LayerHistory, adacomp_recording
from lplab.widgets.explorer_base import Explorer
from lplab.widgets.fields import Choice, ExplorerState, Steps, control

BY_KIND = "50 | 500"  # elements of a bin: in the convolution | in the other layers
SHOWN_ELEMENTS = 50, 500  # smallest and largest number of elements in the lower figure
SHOWN_BINS = 4  # bins in the lower figure, within these limits
FACTORS = {"soft (s = 2)": 2.0, "hard: maxima only (s = 1)": 1.0}


def bins() -> tuple[int | str, ...]:
    """The lengths of bins that were recorded, AdaComp's own choice first.

    >>> bins()[:3]
    ('50 | 500', 1, 5)
    """
    return tuple(dict.fromkeys(bin or BY_KIND for bin, _ in adacomp_recording().runs))


def bin_label(bin: int | str) -> str:
    """A length of bins in words.

    >>> bin_label("50 | 500"), bin_label(5000)
    ('50 | 500', '5,000')
    """
    return bin if isinstance(bin, str) else f"{bin:,}"


@dataclass(frozen=True)
class ResidualState(ExplorerState):
    """The value of every control.

    Attributes:
        bin: elements of a bin in all layers, or "50 | 500": 50 in the convolution, 500 in the others.
        factor: s of the soft threshold, 1 or 2.
        layer: a layer of the recording.
        moment: a step whose elements were recorded.

    >>> ResidualState().layer, ResidualState().moment
    ('convolution', 30)
    """

    bin: int | str = control(
        BY_KIND,
        Steps("bin", lambda _: {bin_label(b): b for b in bins()}, css="lp-wide-readout", unit="elements"),  # "50 | 500"
    )
    factor: float = control(2.0, Choice("threshold", FACTORS))
    layer: str = control("convolution", Choice("layer", lambda _: adacomp_recording().layers))
    moment: int = control(30, Steps("step", lambda _: adacomp_recording().moments))

    @property
    def run(self) -> tuple[int | None, float]:
        """The key of the recorded training: bin length (None for AdaComp's own) and factor."""
        return (None if self.bin == BY_KIND else int(self.bin)), self.factor

    @property
    def point(self) -> int:
        """The index of the moment among the recorded steps."""
        return int(np.searchsorted(adacomp_recording().steps, self.moment))

    @property
    def code(self) -> str:
        """Python that gives the numbers of this layer."""
        return "\n".join(
            [
                f"history = adacomp_recording().history({self.layer!r}, bin={self.run[0]}, factor={self.factor:g})",
                f"print(history.share[{self.point}], history.residual_ratio[{self.point}])",
                f"print(history.compression_ratios({self.point}))",
            ]
        )


PRESETS: dict[str, dict[str, Any]] = {  # the name of the preset: fields of ResidualState
    "AdaComp (2018)": {"bin": BY_KIND, "factor": 2.0},
    "50 everywhere": {"bin": 50, "factor": 2.0},
    "500 everywhere": {"bin": 500, "factor": 2.0},
    "Bins of 1": {"bin": 1, "factor": 2.0},
    "Hard threshold": {"bin": BY_KIND, "factor": 1.0},
}


@lru_cache(maxsize=256)
def layer_history(state: ResidualState, layer: str) -> LayerHistory:
    """One layer of the chosen run."""
    return adacomp_recording().history(layer, *state.run)


def history_figure(state: ResidualState) -> go.Figure:
    """The upper figure."""
    recorded = adacomp_recording()
    each = {layer: layer_history(state, layer) for layer in recorded.layers}
    now, bin = each[state.layer], bin_label(state.bin)
    sends, holds = percent(float(now.share.mean())), f"{now.residual_ratio.mean():.1f}"
    title = f"Bins of {bin}: {state.layer} sends {sends}, holds {holds} gradients"
    return figures.sent_and_kept(
        [SentHistory(layer, c.steps, c.share, c.residual_ratio) for layer, c in each.items()],
        steps=len(recorded.other("dense")[0]),
        chosen=recorded.layers.index(state.layer),
        at=state.moment,
        title=title,
    )


def bins_figure(state: ResidualState) -> go.Figure:
    """The lower figure: some bins of the layer at the moment."""
    window = adacomp_recording().window(state.layer, state.moment, *state.run)
    shown = shown_bins(window.sent, window.bin)
    r, g, sent, limit = (x[shown] for x in (window.residual, window.gradient, window.sent, window.limit))
    where = f"{state.layer}, step {state.moment}, learner 0"
    count = int(sent.sum())
    which = f"the first {sent.size} elements" if not shown.start else f"elements {shown.start:,} to {shown.stop - 1:,}"
    title = f"{where}: {count} of {which} {'is' if count == 1 else 'are'} sent"
    if not count:
        title = f"{where}: none of {which} reaches its bin's largest"
    return figures.adacomp_bins(
        r,
        g,
        sent,
        limit,
        window.scale,
        bin=window.bin,
        factor=state.factor,
        first=shown.start,
        top=tallest_of_all_steps(state.layer, state.run, state.factor),
        title=title,
    )


@lru_cache(maxsize=256)
def tallest_of_all_steps(layer: str, run: tuple[int | None, float], factor: float) -> float:
    """One axis for all recorded steps of a run, so that bars of one step can be compared with another's."""
    recorded = adacomp_recording()
    windows = [recorded.window(layer, step, *run) for step in recorded.moments]
    shown = [shown_bins(each.sent, each.bin) for each in windows]
    return max(
        tallest(w.residual[part], w.gradient[part], w.limit[part], w.scale, factor)
        for w, part in zip(windows, shown, strict=True)
    )


def shown_bins(sent: np.ndarray, bin: int) -> slice:
    """The slice of the recorded elements to draw: whole bins, beginning with the first bin that sends anything.

    >>> shown_bins(np.arange(500) == 320, 50)
    slice(300, 500, None)
    >>> shown_bins(np.zeros(500, bool), 5)
    slice(0, 50, None)
    """
    size = int(np.clip(SHOWN_BINS * bin, *SHOWN_ELEMENTS))
    first = int(np.argmax(sent)) // bin * bin
    start = max(0, min(first, (len(sent) - size) // bin * bin))
    return slice(start, start + size)


def summary(state: ResidualState) -> str:
    """What is sent, training loss and test error under this setting, in one line."""
    recorded = adacomp_recording()
    last, (dense, dense_error) = recorded.losses(*state.run)[-20:].mean(), recorded.other("dense")
    now = layer_history(state, state.layer)
    bins = -(-now.size // now.bin)
    per_bin, nothing = now.sent.mean() / bins, now.empty.mean() / bins
    are = "element is" if f"{per_bin:.2g}" == "1" else "elements are"
    return (
        f"{state.layer}: of a bin {per_bin:.2g} {are} sent on average, {percent(float(nothing))} of the bins send "
        f"nothing; {percent(float(now.agreeing.mean() / now.sent.mean()))} of what is sent has the sign of its "
        f"gradient. Training loss of the last 20 steps {last:.2f}, without compression "
        f"{dense[-20:].mean():.2f}; test errors {percent(recorded.error(*state.run))} and "
        f"{percent(dense_error)}."
    )


def table(state: ResidualState) -> list[tuple[str, str, str]]:
    """Rows of text: how the ratio is counted, the compression ratio at the moment, and over all steps."""
    now = layer_history(state, state.layer)
    moment, whole = now.compression_ratios(state.point), now.compression_ratios()
    names = {
        "paper": "the paper's way",
        "payload": "decodable message",
        "wire": "on the wire, 4 learners",
    }
    return [(text, ratio_text(getattr(moment, name)), ratio_text(getattr(whole, name))) for name, text in names.items()]


def ratio_text(compression_ratio: float) -> str:
    """A compression ratio as text.

    >>> ratio_text(203.4), ratio_text(3.96), ratio_text(float("inf"))
    ('203×', '4.0×', 'nothing sent')
    """
    if not np.isfinite(compression_ratio):
        return "nothing sent"
    return f"{compression_ratio:,.0f}×" if compression_ratio >= 99.5 else f"{compression_ratio:.1f}×"


class ResidualExplorer(Explorer):
    """What four learners send under AdaComp, behind four controls: length of the bins, threshold, layer, step.

    Args:
        **position: fields of `ResidualState`: ``bin``, ``factor``, ``layer``, ``moment``. Reset returns to them.

    Raises:
        ValueError: a value that is not allowed.

    >>> explorer = ResidualExplorer(bin=1)
    >>> explorer.figures["history"].layout.meta["title"][:28]
    'Bins of 1: convolution sends'
    """

    imports = ("from lplab.recordings import adacomp_recording",)
    state_class, preset_fields = ResidualState, PRESETS
    side: ClassVar = {
        "AdaComp": ("presets", "bin", "factor"),
        "Look at": ("layer", "moment"),
        "This layer, times smaller": ("table",),
    }
    table_heads = ("", "this step", "all steps")

    figure_names: ClassVar = {
        "history": "What is sent and what waits, over the steps",
        "bins": "The first bins of one step",
    }

    def _figures(self, state: ResidualState) -> dict[str, Any]:
        return {"history": history_figure(state), "bins": bins_figure(state)}

    def _summary(self, state: ResidualState) -> str:
        return summary(state)

    def _table(self, state: ResidualState) -> list[tuple[str, str, str]]:
        return table(state)
