"""The stored trainings of Gupta's claim: error against fraction bits, updates lost and outputs saturated."""

from dataclasses import replace
from typing import Any

import ipywidgets

from lplab import claims, figures
from lplab.claims.papers.gupta_2015 import GUPTA_2015, RULES, SETTINGS
from lplab.figures.lazy_figure import as_dicts
from lplab.training import LABELS
from lplab.widgets.controls import line, set_text, show_errors
from lplab.widgets.explorer_base import Explorer
from lplab.widgets.live.fixed_point_training import Runs, live_training, rules_at
from lplab.widgets.live.live_figure import LiveFigure, single_redraw
from lplab.widgets.live.live_run import LiveRun

from . import training_state as st

_LIVE = ("stochastic", "nearest_down", "nearest_even", "nearest_up")


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

    _copy_tooltip = "Python that trains this run"

    def __init__(self, **position: Any) -> None:
        found = claims.stored(GUPTA_2015)
        if found.missing(GUPTA_2015):
            raise ValueError("the results are not stored: run lplab claims run gupta_2015")
        self.results, self.provenance = found.results(GUPTA_2015), found.provenance
        self._note = f"{len(GUPTA_2015.seeds)} seeds · measured {found.sessions[-1].date} · lplab {GUPTA_2015.id}"
        super().__init__(st.TrainingState(**position).make_consistent())
        for box in self.boxes.values():
            box.observe(
                show_errors(self.error_line, lambda _: self._on_control_change(rules=self._checked_rules())), "value"
            )

    # -- what a notebook may use ----------------------------------------------------------------------------------

    def set(self, **position: Any) -> None:
        """Set controls by name: the fields of `TrainingState`."""
        self.position = replace(self.position, **position).make_consistent()

    def runs(self) -> Runs:
        """The trainings at these fraction bits and in this arithmetic, one for each rule, and floating point."""
        own = SETTINGS[self.position.setting].run
        fixed = {k: v for k, v in rules_at(self.position.fraction_bits, _LIVE, **own).items() if k in LABELS.values()}
        return {**fixed, **{k: v for k, v in rules_at(8, ()).items()}}

    def live(self, name: str = "Train all rules here") -> LiveRun:
        """A button that trains the runs of the current state and draws them while they train."""
        return live_training(self.runs, name=name)

    # -- display --------------------------------------------------------------------------------------------------

    def _build(self, state: st.TrainingState) -> tuple[list[ipywidgets.Widget], list[ipywidgets.Widget]]:
        w = ipywidgets
        self.controls = {
            "setting": w.Dropdown(options=[(s.label, name) for name, s in SETTINGS.items()], description="arithmetic"),
            "rule": w.Dropdown(options=[(LABELS[rule], rule) for rule in RULES], description="rounding"),
            "fraction_bits": w.IntSlider(min=st.BITS[0], max=st.BITS[1], description="fraction bits"),
        }
        self.boxes = {rule: w.Checkbox(description=LABELS[rule], indent=False) for rule in RULES}
        self.figures = {
            "errors": LiveFigure(st.errors_figure(self.results, state, self._note)),
            "losses": LiveFigure(st.losses_figure(self.results, state)),
        }
        self.summary = line(st.summary(self.results, state), "lp-quiet", "lp-live")
        setting, rule, fraction_bits = self.controls.values()
        heads = [line(text, "lp-heading") for text in ("Stored runs", "Curves", "Look into")]
        source = line(f"{len(self.results)} trainings, {self.provenance}.", "lp-quiet")
        side = [heads[0], setting, heads[1], *self.boxes.values(), heads[2], rule, fraction_bits]
        return side, [self.figures["errors"], self.summary, self.figures["losses"], source]

    def _checked_rules(self) -> tuple[str, ...]:
        return tuple(rule for rule, box in self.boxes.items() if box.value)

    def _update_options(self, state: st.TrainingState) -> None:
        self.controls["fraction_bits"].max = SETTINGS[state.setting].fraction_bits[-1]
        for rule, box in self.boxes.items():
            box.value = rule in state.rules

    def _draw(self, state: st.TrainingState) -> None:
        set_text(self.summary, st.summary(self.results, state))
        with single_redraw(), as_dicts():  # only what differs is sent: of the slider, the marks and a title
            figures.update(self.figures["errors"], st.errors_figure(self.results, state, self._note))
            figures.update(self.figures["losses"], st.losses_figure(self.results, state))
