"""The state of the clip explorer, and what it shows in a state: tensors, rules, figures, summary; no widgets."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

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

BITS = (2, 8)
MAX, PERCENTILE, MIN_ERROR, SAWB, MANUAL = "max |x|", "99.9 %", "least error", "SAWB", "by hand"
DECAYS = {"PACT, λ = 0.005": 0.005, "PACT, λ = 0.0002": 0.0002}
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
HEIGHTS = (260, 250, 290)


@dataclass(frozen=True)
class ClipState:
    """The value of every control.

    Attributes:
        tensor: a name of `TENSORS`, or "yours".
        bits: 2 to 8.
        rule: how the clip is chosen; "by hand" uses ``percent``.
        percent: the clip in percent of the largest magnitude, 1 to 110.

    >>> ClipState(bits=3).rule
    'max |x|'
    """

    tensor: str = TENSORS[0]
    bits: int = 2
    rule: str = MAX
    percent: int = 100

    def __post_init__(self) -> None:
        if self.tensor not in (*TENSORS, OWN):
            raise ValueError(f"unknown tensor {self.tensor!r}; allowed: {', '.join(TENSORS)}, {OWN}")
        if isinstance(self.bits, bool) or self.bits not in range(BITS[0], BITS[1] + 1):
            raise ValueError(f"bits must be an integer from {BITS[0]} to {BITS[1]}, got {self.bits!r}")
        allowed = (MAX, PERCENTILE, MIN_ERROR, SAWB, *DECAYS, MANUAL)
        if self.rule not in allowed:
            raise ValueError(f"unknown rule {self.rule!r}; allowed: {', '.join(allowed)}")
        if not 1 <= self.percent <= 110:
            raise ValueError(f"percent must be from 1 to 110, got {self.percent}")


PRESETS: dict[str, ClipState] = {
    "max |x|, 2 bits": ClipState(),
    "PACT, 2 bits": ClipState(rule="PACT, λ = 0.005"),
    "PACT, 4 bits": ClipState(bits=4, rule="PACT, λ = 0.0002"),
    "SAWB, 2 bits": ClipState("weights, attention, trained", 2, SAWB),
    "SAWB, 4 bits": ClipState("weights, attention, trained", 4, SAWB),
    "INT8, max |x|": ClipState("weights, attention, trained", 8, MAX),
}
NO_PRESET = "own setting"


def preset_of(state: ClipState) -> str:
    """The name of the preset of this state, or "own setting"; the clip's slider counts only under the rule "by hand".

    >>> preset_of(ClipState()), preset_of(ClipState(bits=5))
    ('max |x|, 2 bits', 'own setting')
    """
    plain = replace(state, percent=state.percent if state.rule == MANUAL else 100)
    return next((name for name, position in PRESETS.items() if position == plain), NO_PRESET)


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


def figure(analysis: TensorAnalysis, state: ClipState) -> Any:
    """The three panels of a state, as one figure."""
    clip, levels, rules = analysis.clip(state), analysis.levels(state.bits), analysis.clip_rules(state.bits)
    what = "|w|" if analysis.signed else "x"
    above = figures.clip_histogram(analysis.magnitudes, clip, levels, what=what, height=HEIGHTS[0])
    below = figures.clip_error(analysis.magnitudes, clip, levels, rules, limits=analysis.limits, height=HEIGHTS[1])
    bits = list(range(BITS[0], BITS[1] + 1))
    here = (state.bits, analysis.error(state))
    last = figures.bits_error(bits, rules, at=here, limits=analysis.limits, height=HEIGHTS[2])
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
        return f"Sawb({state.bits}).quantize({x})"
    return f"on_levels(np, {x}, np.array({clip:.6g}), levels={analysis.levels(state.bits)})"
