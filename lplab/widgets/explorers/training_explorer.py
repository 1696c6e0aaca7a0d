"""The stored trainings of Gupta's claim: error against fraction bits, updates lost and outputs saturated."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import ipywidgets
import numpy as np
import plotly.graph_objects as go

from lplab import claims, figures
from lplab.claims.papers.gupta_2015 import FLOATING, GUPTA_2015, RULES, SETTINGS, run_of
from lplab.figures.training_error import error_text
from lplab.formats import FixedFormat
from lplab.number_text import percent
from lplab.training import LABELS, FixedPointConfig
from lplab.widgets.controls import line, show_errors
from lplab.widgets.explorer_base import Explorer
from lplab.widgets.fields import Choice, ExplorerState, Slider, control
from lplab.widgets.live.fixed_point_training import Runs, live_training, rules_at
from lplab.widgets.live.live_run import LiveRun

BITS = (4, 18)  # the axis of both figures: it stays where it is whatever the controls do
HEIGHTS = {"errors": 360, "losses": 290}
_LIVE = ("stochastic", "nearest_down", "nearest_even", "nearest_up")


@dataclass(frozen=True)
class TrainingState(ExplorerState):
    """The value of every control.

    Attributes:
        setting: a name of ``lplab.claims.papers.gupta_2015.SETTINGS``: word length, outputs, and what is rounded.
        rules: the rounding rules whose curves are shown.
        rule: the one to look into.
        fraction_bits: the run to look into.
    """

    setting: str = control(
        "one format", Choice("arithmetic", {s.label: name for name, s in SETTINGS.items()}, css="lp-long-list")
    )
    rules: tuple[str, ...] = RULES
    rule: str = control("nearest_down", Choice("rounding", {LABELS[rule]: rule for rule in RULES}))
    fraction_bits: int = control(6, Slider("fraction bits", *BITS, unit="bits"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.rules, tuple) or not set(self.rules) <= set(RULES):
            raise ValueError(f"rules must be a tuple of some of {', '.join(RULES)}; got {self.rules!r}")

    def changed(self, **changes: Any) -> "TrainingState":
        """The state after changes, with fraction bits that were measured in its setting.

        >>> TrainingState("20 bits", fraction_bits=18).changed(setting="one format").fraction_bits
        14
        """
        wanted = replace(self, **changes)
        measured = SETTINGS[wanted.setting].fraction_bits
        return replace(wanted, fraction_bits=min(max(wanted.fraction_bits, measured[0]), measured[-1]))

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
    return figures.lost_updates(
        BITS, bits, lost, saturated, rule=LABELS[state.rule], marked_bits=state.fraction_bits, height=height
    )


def summary(results: claims.Results, state: TrainingState) -> str:
    """The numbers of the chosen run, in one line."""
    fmt = state.run.weight_format
    assert fmt is not None  # a point of a setting is fixed point
    each = {name: results.values(name, **state.point) for name in ("test_error", *_SHARES)}
    errors, shares = each["test_error"], [f"{percent(float(np.median(each[n])))} {text}" for n, text in _SHARES.items()]
    outputs = state.run.output_format
    own = "" if outputs is None or outputs == fmt else f"; outputs {_name(outputs)}, from {_ends(outputs)}"
    return (
        f"{_name(fmt)}, step 1/{2**fmt.fraction_bits:,}, from {_ends(fmt)}{own}; "
        f"{LABELS[state.rule]}: {error_text(float(np.median(errors)))} wrong "
        f"({errors.min():.1f} to {errors.max():.1f} over {len(errors)} seeds); {'; '.join(shares)}."
    )


_SHARES = {
    "updates_lost": "of the updates that are not zero are lost",
    "updates_made": "of all weights move in a step",
    "outputs_saturated": "of the outputs saturated",
}


def _name(fmt: FixedFormat) -> str:
    return f"⟨{fmt.integer_bits}, {fmt.fraction_bits}⟩"


def _ends(fmt: FixedFormat) -> str:
    return f"{fmt.min:,.6g} to {fmt.max:,.6g}".replace("-", "\N{MINUS SIGN}")


def _numbers(results: claims.Results, setting: str, rule: str, number: str) -> Sequence[np.ndarray]:
    """[fraction bits, seeds]."""
    each = SETTINGS[setting].fraction_bits
    return [results.values(number, setting=setting, rounding=rule, fraction_bits=bits) for bits in each]


class TrainingExplorer(Explorer):
    """Stored trainings behind four controls: the arithmetic, the rules shown, and the run to look into.

    Args:
        **position: fields of `TrainingState`: ``setting``, ``rules``, ``rule``, ``fraction_bits``. Reset returns to
            them.

    Raises:
        ValueError: an unknown setting or rule, or results that are not stored (``lplab claims run gupta_2015``).

    >>> explorer = TrainingExplorer(setting="20 bits", rule="stochastic", fraction_bits=14)
    >>> explorer.summary.value[:23]
    '⟨6, 14⟩, step 1/16,384,'
    """

    imports = ("from lplab.training import FixedPointConfig, train_fixed_point",)
    state_class = TrainingState
    side: ClassVar = {"Stored runs": ("setting",), "Curves": ("rules",), "Look into": ("rule", "fraction_bits")}
    _copy_tooltip = "Python that trains this run"

    def __init__(self, **position: Any) -> None:
        kept = claims.stored(GUPTA_2015)
        if kept.missing(GUPTA_2015):
            raise ValueError("the results are not stored: run lplab claims run gupta_2015")
        self.results, self.provenance = kept.results(GUPTA_2015), kept.provenance
        self._note = f"{len(GUPTA_2015.seeds)} seeds · measured {kept.sessions[-1].date} · lplab {GUPTA_2015.id}"
        super().__init__(**position)
        for box in self.boxes.values():
            box.observe(
                show_errors(self.error_line, lambda _: self._on_control_change(rules=self._checked_rules())), "value"
            )

    def runs(self) -> Runs:
        """The trainings at these fraction bits and in this arithmetic, one for each rule, and floating point."""
        own = SETTINGS[self.position.setting].run
        fixed = {k: v for k, v in rules_at(self.position.fraction_bits, _LIVE, **own).items() if k in LABELS.values()}
        return {**fixed, **{k: v for k, v in rules_at(8, ()).items()}}

    def live(self, name: str = "Train all rules here") -> LiveRun:
        """A button that trains the runs of the current state and draws them while they train."""
        return live_training(self.runs, name=name)

    def _parts(self, state: TrainingState) -> dict[str, list[Any]]:
        self.boxes = {rule: ipywidgets.Checkbox(description=LABELS[rule], indent=False) for rule in RULES}
        return {"rules": list(self.boxes.values())}

    def _checked_rules(self) -> tuple[str, ...]:
        return tuple(rule for rule, box in self.boxes.items() if box.value)

    def _update_options(self, state: TrainingState) -> None:
        super()._update_options(state)
        self.controls["fraction_bits"].max = SETTINGS[state.setting].fraction_bits[-1]
        for rule, box in self.boxes.items():
            box.value = rule in state.rules

    figure_names: ClassVar = {"errors": "Wrong answers against fraction bits", "losses": "What is lost in one rounding"}

    def _figures(self, state: TrainingState) -> dict[str, Any]:
        errors = errors_figure(self.results, state, self._note)
        return {"errors": errors, "losses": losses_figure(self.results, state)}

    def _summary(self, state: TrainingState) -> str:
        return summary(self.results, state)

    def _main(self) -> list[ipywidgets.Widget]:
        return [*super()._main(), line(f"{len(self.results)} trainings, {self.provenance}.", "lp-quiet")]
