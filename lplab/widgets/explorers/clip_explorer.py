"""A clip over a real tensor, live: tensor, bits, rule, and the clip itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np

from lplab import datasets, figures, quantizers
from lplab import formats as F
from lplab.figures.clip_bits import share
from lplab.figures.clips import error_range
from lplab.number_text import number
from lplab.quantizers.clipping import Magnitudes
from lplab.quantizers.distributions import magnitudes
from lplab.quantizers.sawb import DEFAULT_ROWS, SAWB_ROWS
from lplab.quantizers.sawb_fit import fit
from lplab.widgets.explorer_base import Explorer
from lplab.widgets.fields import Choice, ExplorerState, Slider, control, preset_of

BITS = (2, 8)
MAX, PERCENTILE, MIN_ERROR, SAWB, MANUAL = "max |x|", "99.9 %", "least error", "SAWB", "by hand"
DECAYS = {"PACT, λ = 0.005": 0.005, "PACT, λ = 0.0002": 0.0002}
PERCENT = (1, 110)
COUNT = 10_000  # magnitudes of a distribution

CAPTURED = {
    "activations, layer 3, trained": "resnet/step200/layer3.conv2/activation",
    "activations, layer 1, trained": "resnet/step200/layer1.conv1/activation",
    "activations, layer 3, untrained": "resnet/step0/layer3.conv2/activation",
    "weights, layer 3, trained": "resnet/step200/layer3.conv2/weight",
    "weights, attention, trained": "transformer/step1000/blocks.0.attention.qkv/weight",
    "weights, layer 3, untrained": "resnet/step0/layer3.conv2/weight",
}
DISTRIBUTIONS = ("gaussian", "laplace", "logistic", "uniform", "triangle")
TENSORS = (*CAPTURED, *DISTRIBUTIONS, "ReLU of a gaussian")
OWN = "yours"
HEIGHTS = {"histogram": 194, "error": 184, "bits": 216}
ALONE = {"histogram": 330, "error": 330, "bits": 330}  # of panels that stand alone


@dataclass(frozen=True)
class ClipState(ExplorerState):
    """The value of every control.

    Attributes:
        tensor: a name of `TENSORS`, or "yours".
        bits: 2 to 8.
        rule: how the clip is chosen; "by hand" uses ``percent``.
        percent: the clip in percent of the largest magnitude, 1 to 110.

    >>> ClipState(bits=3).rule
    'max |x|'
    """

    tensor: str = control(TENSORS[0], Choice("tensor", (*TENSORS, OWN), css="lp-long-list"))
    bits: int = control(
        2, Slider("bits", *BITS, refusal="{name} must be an integer from {low} to {high}, got {value!r}", unit="bits")
    )
    rule: str = control(MAX, Choice("rule", (MAX, PERCENTILE, MIN_ERROR, SAWB, *DECAYS, MANUAL)))
    percent: int = control(
        100,
        Slider(
            "clip (% max)",
            *PERCENT,
            tooltip="α in percent of the largest magnitude",
            refusal="{name} must be from {low} to {high}, got {value!r}",
        ),
    )


_ATTENTION = "weights, attention, trained"
PRESETS: dict[str, dict[str, Any]] = {
    "max |x|, 2 bits": ClipState.every_field(),
    "PACT, 2 bits": ClipState.every_field(rule="PACT, λ = 0.005"),
    "PACT, 4 bits": ClipState.every_field(bits=4, rule="PACT, λ = 0.0002"),
    "SAWB, 2 bits": ClipState.every_field(tensor=_ATTENTION, bits=2, rule=SAWB),
    "SAWB, 4 bits": ClipState.every_field(tensor=_ATTENTION, bits=4, rule=SAWB),
    "INT8, max |x|": ClipState.every_field(tensor=_ATTENTION, bits=8, rule=MAX),
}
NO_PRESET = "own setting"


class TensorAnalysis:
    """A tensor, sorted once, with the clips and errors of every rule at all numbers of bits.

    Args:
        tensor: float array.

    >>> TensorAnalysis(np.array([0.0, 1.0, 3.0])).rules
    ('max |x|', '99.9 %', 'least error', 'PACT, λ = 0.005', 'PACT, λ = 0.0002')
    """

    def __init__(self, tensor: np.ndarray) -> None:
        self.tensor = np.asarray(tensor, np.float64)
        self.signed = bool((self.tensor < 0).any())
        self.magnitudes = Magnitudes(self.tensor)
        self.rules = (MAX, PERCENTILE, MIN_ERROR, *((SAWB,) if self.signed else DECAYS))
        self.clips = {rule: [self._clip(rule, bits) for bits in range(BITS[0], BITS[1] + 1)] for rule in self.rules}
        self.errors = {rule: self._errors(rule) for rule in self.rules}
        self.limits = error_range(self.magnitudes, self.levels(BITS[1]))

    def levels(self, bits: int) -> int:
        """The levels over [−α, α]: SAWB's for signed tensors, else twice those of PACT without the shared zero."""
        if not self.signed:
            return 2 ** (bits + 1) - 1
        return SAWB_ROWS[DEFAULT_ROWS[bits]].levels if bits in DEFAULT_ROWS else 2**bits - 1

    def clip(self, state: ClipState) -> float:
        """The clip α in a state."""
        if state.rule == MANUAL:
            return state.percent / 100 * (self.magnitudes.largest or 1.0)
        return self.clips[state.rule][state.bits - BITS[0]]

    def error(self, state: ClipState) -> float:
        """The error in a state as a share of the tensor's power."""
        return float(self.magnitudes.errors(self.clip(state), self.levels(state.bits)).total[0]) / (
            self.magnitudes.power or 1
        )

    def make_consistent(self, state: ClipState) -> ClipState:
        """The state with a rule that fits this tensor: PACT needs a tensor without negative numbers, SAWB weights."""
        fits = state.rule == MANUAL or state.rule in self.rules
        return state if fits else replace(state, rule=SAWB if self.signed else next(iter(DECAYS)))

    def clip_rules(self, bits: int) -> list[figures.ClipRule]:
        """The rules with their clips at this number of bits, and their errors at all of them."""
        return [figures.ClipRule(r, self.clips[r][bits - BITS[0]], self.errors[r]) for r in self.rules]

    def _clip(self, rule: str, bits: int) -> float:
        x, percentile = self.magnitudes, quantizers.Percentile(99.9)
        clips: dict[str, Callable[[], float]] = {
            MAX: lambda: x.largest,
            PERCENTILE: lambda: float(percentile.clips(np, x.sorted[None], F.IntFormat(8, symmetric=True))[0]),
            MIN_ERROR: lambda: x.best_clip(self.levels(bits)),
            SAWB: lambda: sawb_clip_or_fit(x.sorted, bits),
            **{name: partial(x.equilibrium_clip, decay) for name, decay in DECAYS.items()},
        }
        return clips[rule]() or x.largest or 1.0

    def _errors(self, rule: str) -> np.ndarray:
        pairs = zip(self.clips[rule], range(BITS[0], BITS[1] + 1), strict=True)
        each = [self.magnitudes.errors(clip, self.levels(bits)).total[0] for clip, bits in pairs]
        return np.array(each) / (self.magnitudes.power or 1.0)


def sawb_clip_or_fit(x: np.ndarray, bits: int) -> float:
    """SAWB's clip: published coefficients, and those of our own regression for 6 bits, for which none are published.

    >>> round(sawb_clip_or_fit(np.array([0.5, 1.0]), 2), 4)
    0.9186
    """
    if bits in DEFAULT_ROWS:
        return float(quantizers.sawb_clip(x, bits))
    row = fitted_row(2**bits - 1)
    return max(row[0] * float(np.sqrt((x**2).mean())) - row[1] * float(np.abs(x).mean()), 0.0)


@lru_cache(maxsize=8)
def fitted_row(levels: int) -> tuple[float, float]:
    """The c1 and c2 of our own regression for a number of levels."""
    row = fit(levels, 2000)
    return row.c1, row.c2


@lru_cache(maxsize=32)
def analyze(name: str) -> TensorAnalysis:
    """The analysis of a tensor of `TENSORS`.

    >>> analyze("laplace").signed, analyze("ReLU of a gaussian").signed
    (True, False)
    """
    if name in CAPTURED:
        return TensorAnalysis(datasets.captured()[CAPTURED[name]])
    x = magnitudes("gaussian" if name not in DISTRIBUTIONS else name, COUNT)
    return TensorAnalysis(np.concatenate([x, -x if name in DISTRIBUTIONS else 0 * x]))


def panels(analysis: TensorAnalysis, state: ClipState, heights: Mapping[str, int] = HEIGHTS) -> dict[str, Any]:
    """The three panels of a state, with these heights; the error of one that stands alone has a linear axis."""
    clip, levels, rules = analysis.clip(state), analysis.levels(state.bits), analysis.clip_rules(state.bits)
    what = "|w|" if analysis.signed else "x"
    height, limits = heights["error"], analysis.limits
    histogram = figures.clip_histogram(analysis.magnitudes, clip, levels, what=what, height=heights["histogram"])
    alone = heights is ALONE
    error = figures.clip_error(analysis.magnitudes, clip, levels, rules, limits=limits, linear=alone, height=height)
    bits = list(range(BITS[0], BITS[1] + 1))
    here = (state.bits, analysis.error(state))
    last = figures.bits_error(bits, rules, at=here, limits=limits, height=heights["bits"])
    return {"histogram": histogram, "error": error, "bits": last}


def figure(analysis: TensorAnalysis, state: ClipState) -> Any:
    """The three panels of a state, as one figure."""
    above, below, last = panels(analysis, state).values()
    return figures.stacked([above, below], [last])


def summary(analysis: TensorAnalysis, state: ClipState) -> str:
    """Grid, step and error in a state, and the best clip, in one line.

    >>> summary(analyze("uniform"), ClipState("uniform", 2))
    '4 levels from −1.73 to 1.73 in steps of 1.15, error 11.1 % of the power; least 6.2 %, with α = 1.3.'
    """
    clip, levels = analysis.clip(state), analysis.levels(state.bits)
    count, low = (levels, -clip) if analysis.signed else ((levels + 1) // 2, 0.0)
    best = analysis.clips[MIN_ERROR][state.bits - BITS[0]]
    step = 2 * clip / (levels - 1)
    fitted = state.rule == SAWB and state.bits not in DEFAULT_ROWS
    note = f" No published row for {state.bits} bits: coefficients of our own fit." if fitted else ""
    least = share(float(analysis.errors[MIN_ERROR][state.bits - BITS[0]]))
    ends = " to ".join(number(v, digits=3) for v in (low, clip))
    return (
        f"{count} levels from {ends} in steps of {number(step, digits=3)}, error {share(analysis.error(state))} of the "
        f"power; least {least}, with α = {number(best, digits=3)}.{note}"
    )


def code(analysis: TensorAnalysis, state: ClipState) -> str:
    """Python that quantizes the tensor in this way.

    >>> code(analyze(TENSORS[0]), ClipState())
    "pact_forward(datasets.captured()['resnet/step200/layer3.conv2/activation'], alpha=6.59109, bits=2)"
    """
    name, clip = state.tensor, analysis.clip(state)
    x = f"datasets.captured()[{CAPTURED[name]!r}]" if name in CAPTURED else "x"
    if not analysis.signed:
        return f"pact_forward({x}, alpha={clip:.6g}, bits={state.bits})"
    if state.rule == SAWB and state.bits in DEFAULT_ROWS:
        return f"SAWB({state.bits}).quantize({x})"
    return f"on_levels(np, {x}, np.array({clip:.6g}), levels={analysis.levels(state.bits)})"


class ClipExplorer(Explorer):
    """A tensor under a grid of few bits, behind five controls: preset, tensor, bits, rule and clip.

    Args:
        own: an array or tensor of your own, which is then in the list of tensors as "yours", and chosen.
        **position: fields of `ClipState`; Reset returns to them.

    >>> explorer = ClipExplorer(rule="least error")
    >>> explorer.summary.value[:41]
    '4 levels from 0 to 2.48 in steps of 0.827'
    """

    imports = (
        "import numpy as np",
        "from lplab import datasets",
        "from lplab.quantizers import SAWB, pact_forward",
        "from lplab.quantizers.sawb import on_levels",
    )
    state_class, preset_fields, no_preset = ClipState, PRESETS, NO_PRESET
    side: ClassVar = {"The tensor": ("preset", "tensor"), "The grid": ("bits", "rule", "percent")}
    figure_names: ClassVar = {
        "histogram": "The numbers, the levels of the grid and the clip α",
        "error": "The error against the clip α",
        "bits": "The error against the bits",
    }
    _copy_tooltip = "Python that quantizes so"

    def __init__(self, own: Any = None, **position: Any) -> None:
        if isinstance(own, str):
            raise ValueError(f"own must be an array or a tensor, got {own!r}{self._keyword_hint(own)}")
        self._own = None if own is None else TensorAnalysis(_as_array(own))
        super().__init__(**({} if own is None else {"tensor": OWN}) | position)

    def analysis(self, state: ClipState | None = None) -> TensorAnalysis:
        """The rules, clips and errors of a state's tensor, by default of the current state."""
        name = (state or self.position).tensor
        return self._own if name == OWN and self._own is not None else analyze(name)

    look = analysis  # its earlier name

    def _changed(self, state: ClipState, changes: dict[str, Any]) -> ClipState:
        """The state after changes, with a rule that fits its tensor."""
        wanted = state.changed(**changes)
        if wanted.tensor == OWN and self._own is None:
            raise ValueError('the tensor "yours" must be given: ClipExplorer(own=array)')
        return self.analysis(wanted).make_consistent(wanted)

    def _on_control_change(self, **position: Any) -> None:
        """Moving the clip selects the rule "by hand"."""
        if "percent" in position:
            position["rule"] = MANUAL
        elif position.get("rule") == MANUAL:
            position["percent"] = self.controls["percent"].value
        super()._on_control_change(**position)

    def _options(self, state: ClipState) -> dict[str, list[Any]]:
        """The tensors that are there, and the rules that fit the chosen one."""
        tensors = [*(() if self._own is None else (OWN,)), *TENSORS]
        return {"tensor": tensors, "rule": [*self.analysis(state).rules, MANUAL]}

    def _control_values(self, state: ClipState) -> dict[str, Any]:
        """The slider stands at the clip of any rule; it counts for the preset only under the rule "by hand"."""
        analysis = self.analysis(state)
        share = round(100 * analysis.clip(state) / (analysis.magnitudes.largest or 1.0))
        plain = state if state.rule == MANUAL else replace(state, percent=100)
        return super()._control_values(state) | {
            "preset": preset_of(plain, PRESETS, NO_PRESET),
            "percent": min(max(share, PERCENT[0]), PERCENT[1]),
        }

    def _code(self, state: ClipState) -> str:
        return code(self.analysis(state), state)

    def _figures(self, state: ClipState) -> dict[str, Any]:
        return {"figure": figure(self.analysis(state), state)}

    def _panels(self, state: ClipState) -> dict[str, Any]:
        drawn = panels(self.analysis(state), state, ALONE)
        return {name: figures.stacked([panel]) for name, panel in drawn.items()}

    def _summary(self, state: ClipState) -> str:
        return summary(self.analysis(state), state)


def _as_array(own: Any) -> np.ndarray:
    """The user's tensor or array as float64.

    Raises:
        ValueError: no finite real numbers in it.
    """
    own = own.detach().cpu().float().numpy() if hasattr(own, "detach") else own
    array = np.asarray(own)
    if array.dtype.kind not in "fiu" or not np.isfinite(array).any():
        raise ValueError(f"own must hold finite real numbers, got {array.size} elements of dtype {array.dtype}")
    return array.astype(np.float64)
