"""The state of the training explorer, and what the stored trainings of a claim show in a state; no widgets."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import claims, figures
from lplab.claims.papers.gupta_2015 import FLOATING, RULES, SETTINGS, run_of
from lplab.figures.training_error import error_text
from lplab.number_text import percent
from lplab.training import LABELS, FixedPointConfig

BITS = (4, 18)  # the axis of both figures: it stays where it is whatever the controls do
HEIGHTS = {"errors": 360, "losses": 260}


@dataclass(frozen=True)
class TrainingState:
    """The value of every control.

    Attributes:
        setting: a name of ``lplab.claims.papers.gupta_2015.SETTINGS``: word length, outputs, and what is rounded.
        rules: the rounding rules whose curves are shown.
        rule: the one to look into.
        fraction_bits: the run to look into.

    >>> TrainingState(fraction_bits=16).make_consistent().fraction_bits
    14
    """

    setting: str = "one format"
    rules: tuple[str, ...] = RULES
    rule: str = "nearest_down"
    fraction_bits: int = 6

    def __post_init__(self) -> None:
        for name, value, allowed in (("setting", self.setting, tuple(SETTINGS)), ("rule", self.rule, RULES)):
            if value not in allowed:
                raise ValueError(f"unknown {name} {value!r}; allowed: {', '.join(allowed)}")

    def make_consistent(self) -> "TrainingState":
        """The state with fraction bits that were measured in this setting."""
        measured = SETTINGS[self.setting].fraction_bits
        bits = min(max(self.fraction_bits, measured[0]), measured[-1])
        return TrainingState(self.setting, self.rules, self.rule, bits)

    @property
    def point(self) -> dict[str, Any]:
        """The chosen point of the claim."""
        return {"setting": self.setting, "rounding": self.rule, "fraction_bits": self.fraction_bits}

    @property
    def run(self) -> FixedPointConfig:
        """The chosen training, with seed 0."""
        return run_of(self.point, 0)

    @property
    def code(self) -> str:
        """Python that trains it.

        >>> TrainingState(fraction_bits=8, rule="stochastic").code
        "train_fixed_point(FixedPointConfig(fraction_bits=8, rounding='stochastic', seed=0)).numbers()"
        """
        given = {"fraction_bits": self.fraction_bits, "rounding": self.rule} | SETTINGS[self.setting].run | {"seed": 0}
        return f"train_fixed_point(FixedPointConfig({', '.join(f'{k}={v!r}' for k, v in given.items())})).numbers()"


def errors_figure(results: claims.Results, state: TrainingState, note: str = "") -> go.Figure:
    """Test error against fraction bits, a curve for each rule."""
    return figures.training_error(
        curves(results, state),
        results.values("test_error", setting=FLOATING),
        bits=BITS,
        marked_bits=state.fraction_bits,
        note=note,
        height=HEIGHTS["errors"],
    )


def curves(results: claims.Results, state: TrainingState) -> list[figures.Curve]:
    """The curves of all rules; hidden ones keep their place and colour."""
    bits = SETTINGS[state.setting].fraction_bits
    each = {rule: _numbers(results, state.setting, rule, "test_error") for rule in RULES}
    return [figures.Curve(LABELS[rule], bits, errors, rule in state.rules) for rule, errors in each.items()]


def losses_figure(results: claims.Results, state: TrainingState) -> go.Figure:
    """Updates lost and outputs saturated, for the chosen rule."""
    lost, saturated = (
        _numbers(results, state.setting, state.rule, name) for name in ("updates_lost", "outputs_saturated")
    )
    bits = SETTINGS[state.setting].fraction_bits
    height = HEIGHTS["losses"]
    return figures.training_losses(
        BITS, bits, lost, saturated, rule=LABELS[state.rule], marked_bits=state.fraction_bits, height=height
    )


def summary(results: claims.Results, state: TrainingState) -> str:
    """The numbers of the chosen run, in one line."""
    fmt = state.run.weight_format
    assert fmt is not None  # a point of a setting is fixed point
    each = {name: results.values(name, **state.point) for name in ("test_error", *_SHARES)}
    errors, shares = each["test_error"], [f"{percent(float(np.median(each[n])))} {text}" for n, text in _SHARES.items()]
    return (
        f"⟨{fmt.integer_bits}, {fmt.fraction_bits}⟩, step 1/{2**fmt.fraction_bits:,}, from {_end(fmt.lowest)} to "
        f"{_end(fmt.max)}; {LABELS[state.rule]}: {error_text(float(np.median(errors)))} wrong "
        f"({errors.min():.1f} to {errors.max():.1f} over {len(errors)} seeds); {'; '.join(shares)}."
    )


_SHARES = {
    "updates_lost": "of the updates lost",
    "updates_made": "of the weights move in a step",
    "outputs_saturated": "of the outputs saturated",
}


def _end(value: float) -> str:
    return f"{value:,.6g}".replace("-", "\N{MINUS SIGN}")


def _numbers(results: claims.Results, setting: str, rule: str, number: str) -> Sequence[np.ndarray]:
    """[fraction bits, seeds]."""
    each = SETTINGS[setting].fraction_bits
    return [results.values(number, setting=setting, rounding=rule, fraction_bits=bits) for bits in each]
