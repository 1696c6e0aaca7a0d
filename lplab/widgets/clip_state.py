"""What the clip explorer shows at a position of its controls: tensors, rules, figures, sentences. No widgets."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from lplab import datasets, figures
from lplab import formats as F
from lplab.figures.clip_bits import share
from lplab.figures.clips import error_range
from lplab.figures.words import number
from lplab.quantizers import Percentile, sawb_scale
from lplab.quantizers.clipping import Magnitudes
from lplab.quantizers.distributions import magnitudes
from lplab.quantizers.sawb import DEFAULT_ROWS, SAWB_ROWS
from lplab.quantizers.sawb_fit import fit

BITS = (2, 8)
MAX, PERCENTILE, LEAST, SAWB, HAND = "max |x|", "99.9 %", "least error", "SAWB", "by hand"
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
class ClipPosition:
    """Where the controls stand.

    Attributes:
        tensor: a name of `TENSORS`, or "yours".
        bits: 2 to 8.
        rule: how the clip is chosen; "by hand" takes ``percent``.
        percent: the clip in percent of the largest magnitude, 1 to 110.

    >>> ClipPosition(bits=3).rule
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
        allowed = (MAX, PERCENTILE, LEAST, SAWB, *DECAYS, HAND)
        if self.rule not in allowed:
            raise ValueError(f"unknown rule {self.rule!r}; allowed: {', '.join(allowed)}")
        if not 1 <= self.percent <= 110:
            raise ValueError(f"percent must be from 1 to 110, got {self.percent}")


PRESETS: dict[str, ClipPosition] = {
    "max |x|, 2 bits": ClipPosition(),
    "PACT, 2 bits": ClipPosition(rule="PACT, λ = 0.005"),
    "PACT, 4 bits": ClipPosition(bits=4, rule="PACT, λ = 0.0002"),
    "SAWB, 2 bits": ClipPosition("weights, attention, trained", 2, SAWB),
    "SAWB, 4 bits": ClipPosition("weights, attention, trained", 4, SAWB),
    "INT8, max |x|": ClipPosition("weights, attention, trained", 8, MAX),
}
NO_PRESET = "own setting"


def preset_of(at: ClipPosition) -> str:
    """The name of the preset at this position, or "own setting"; the slider of the clip counts only by hand.

    >>> preset_of(ClipPosition()), preset_of(ClipPosition(bits=5))
    ('max |x|, 2 bits', 'own setting')
    """
    plain = replace(at, percent=at.percent if at.rule == HAND else 100)
    return next((name for name, position in PRESETS.items() if position == plain), NO_PRESET)


class Look:
    """A tensor as the explorer sees it: sorted once, the clips and errors of every rule at all bits.

    Args:
        tensor: float array.

    >>> Look(np.array([0.0, 1.0, 3.0])).rules
    ('max |x|', '99.9 %', 'least error', 'PACT, λ = 0.005', 'PACT, λ = 0.0002')
    """

    def __init__(self, tensor: np.ndarray) -> None:
        self.tensor = np.asarray(tensor, np.float64)
        self.signed = bool((self.tensor < 0).any())
        self.magnitudes = Magnitudes(self.tensor)
        self.rules = (MAX, PERCENTILE, LEAST, *((SAWB,) if self.signed else DECAYS))
        self.clips = {rule: [self._clip(rule, bits) for bits in range(BITS[0], BITS[1] + 1)] for rule in self.rules}
        self.errors = {rule: self._errors(rule) for rule in self.rules}
        self.limits = error_range(self.magnitudes, self.levels(BITS[1]))

    def levels(self, bits: int) -> int:
        """The levels over [−α, α]: SAWB's for signed tensors; for others twice those of PACT, less the shared zero."""
        if not self.signed:
            return 2 ** (bits + 1) - 1
        return SAWB_ROWS[DEFAULT_ROWS[bits]].levels if bits in DEFAULT_ROWS else 2**bits - 1

    def clip(self, at: ClipPosition) -> float:
        """The clip α at a position."""
        if at.rule == HAND:
            return at.percent / 100 * (self.magnitudes.largest or 1.0)
        return self.clips[at.rule][at.bits - BITS[0]]

    def error(self, at: ClipPosition) -> float:
        """The error at a position as a share of the tensor's power."""
        return float(self.magnitudes.errors(self.clip(at), self.levels(at.bits)).total[0]) / (
            self.magnitudes.power or 1
        )

    def settled(self, at: ClipPosition) -> ClipPosition:
        """The same with a rule that this tensor has: PACT needs numbers that are not negative, SAWB is for weights."""
        fits = at.rule == HAND or at.rule in self.rules
        return at if fits else replace(at, rule=SAWB if self.signed else next(iter(DECAYS)))

    def shown(self, bits: int) -> list[figures.ClipRule]:
        """The rules with their clips at these bits, and their errors at all."""
        return [figures.ClipRule(r, self.clips[r][bits - BITS[0]], self.errors[r]) for r in self.rules]

    def _clip(self, rule: str, bits: int) -> float:
        x = self.magnitudes
        chosen: dict[str, Callable[[], float]] = {
            MAX: lambda: x.largest,
            PERCENTILE: lambda: float(Percentile(99.9).clips(np, x.sorted[None], F.IntFormat(8, symmetric=True))[0]),
            LEAST: lambda: x.best_clip(self.levels(bits)),
            SAWB: lambda: sawb_clip(x.sorted, bits),
            **{name: partial(x.settled_clip, decay) for name, decay in DECAYS.items()},
        }
        return chosen[rule]() or x.largest or 1.0

    def _errors(self, rule: str) -> np.ndarray:
        at = zip(self.clips[rule], range(BITS[0], BITS[1] + 1), strict=True)
        each = [self.magnitudes.errors(clip, self.levels(bits)).total[0] for clip, bits in at]
        return np.array(each) / (self.magnitudes.power or 1.0)


def sawb_clip(x: np.ndarray, bits: int) -> float:
    """SAWB's clip: published coefficients, and those of our own regression for 6 bits, for which none were found.

    >>> round(sawb_clip(np.array([0.5, 1.0]), 2), 4)
    0.9186
    """
    if bits in DEFAULT_ROWS:
        return float(sawb_scale(x, bits))
    row = own_row(2**bits - 1)
    return max(row[0] * float(np.sqrt((x**2).mean())) - row[1] * float(np.abs(x).mean()), 0.0)


@lru_cache(maxsize=8)
def own_row(levels: int) -> tuple[float, float]:
    """The c1 and c2 of our own regression for a number of levels."""
    found = fit(levels, 2000)
    return found.c1, found.c2


@lru_cache(maxsize=32)
def look_at(name: str) -> Look:
    """A tensor of `TENSORS`, looked at.

    >>> look_at("laplace").signed, look_at("ReLU of a gaussian").signed
    (True, False)
    """
    if name in CAPTURED:
        return Look(datasets.captured()[CAPTURED[name]])
    x = magnitudes("gaussian" if name not in DISTRIBUTIONS else name, COUNT)
    return Look(np.concatenate([x, -x if name in DISTRIBUTIONS else 0 * x]))


def picture(look: Look, at: ClipPosition) -> Any:
    """The three panels at a position, as one figure."""
    clip, levels, rules = look.clip(at), look.levels(at.bits), look.shown(at.bits)
    what = "|w|" if look.signed else "x"
    above = figures.clip_histogram(look.magnitudes, clip, levels, what=what, height=HEIGHTS[0])
    below = figures.clip_error(look.magnitudes, clip, levels, rules, limits=look.limits, height=HEIGHTS[1])
    bits = list(range(BITS[0], BITS[1] + 1))
    here = (at.bits, look.error(at))
    last = figures.bits_error(bits, rules, at=here, limits=look.limits, height=HEIGHTS[2])
    return figures.stacked([above, below], [last])


def statement(look: Look, at: ClipPosition) -> str:
    """Grid, step and error at a position, and the best clip, in one line.

    >>> statement(look_at("uniform"), ClipPosition("uniform", 2))
    '4 levels from −1.73 to 1.73 in steps of 1.15, error 11.1 % of the power; least 6.2 %, with α = 1.3.'
    """
    clip, levels = look.clip(at), look.levels(at.bits)
    count, low = (levels, -clip) if look.signed else ((levels + 1) // 2, 0.0)
    best = look.clips[LEAST][at.bits - BITS[0]]
    step = 2 * clip / (levels - 1)
    ours = at.rule == SAWB and at.bits not in DEFAULT_ROWS
    rest = f" No published row for {at.bits} bits: coefficients of our own fit." if ours else ""
    ends = " to ".join(number(v, digits=3) for v in (low, clip))
    return (
        f"{count} levels from {ends} in steps of {number(step, digits=3)}, error {share(look.error(at))} of the "
        f"power; least {share(float(look.errors[LEAST][at.bits - BITS[0]]))}, with α = {number(best, digits=3)}.{rest}"
    )


def code(look: Look, at: ClipPosition) -> str:
    """Python that quantizes the tensor so.

    >>> code(look_at(TENSORS[0]), ClipPosition())
    "pact_forward(datasets.captured()['resnet/step200/layer3.conv2/activation'], alpha=6.59109, bits=2)"
    """
    name, clip = at.tensor, look.clip(at)
    x = f"datasets.captured()[{CAPTURED[name]!r}]" if name in CAPTURED else "x"
    if not look.signed:
        return f"pact_forward({x}, alpha={clip:.6g}, bits={at.bits})"
    if at.rule == SAWB and at.bits in DEFAULT_ROWS:
        return f"Sawb({at.bits}).quantize({x})"
    return f"on_levels(np, {x}, np.array({clip:.6g}), levels={look.levels(at.bits)})"
