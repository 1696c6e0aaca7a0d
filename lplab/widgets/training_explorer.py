"""The stored trainings of Gupta's claim, to be looked into: error against fraction bits, and why it rises."""

from dataclasses import replace
from typing import Any

import ipywidgets
import traitlets

from lplab import claims, figures
from lplab.claims.gupta_2015 import GUPTA_2015, RULES, SETTINGS
from lplab.figures.light import light
from lplab.training import LABELS

from . import stored_trainings as st
from .controls import Helper, guarded, line, say
from .live_figure import LiveFigure, one_frame
from .live_run import LiveRun
from .training import Runs, live_training, rules_at

_LIVE = ("stochastic", "nearest_down", "nearest_even", "nearest_up")


class TrainingExplorer(ipywidgets.VBox):
    """Stored trainings behind four controls: the arithmetic, the rules shown, and the run to look into.

    Args:
        **position: fields of `Position`: ``setting``, ``rules``, ``rule``, ``fraction_bits``. Reset comes back to them.

    Raises:
        ValueError: an unknown setting or rule, or results that are not stored (``lplab claims run gupta_2015``).

    >>> explorer = TrainingExplorer(setting="20 bits", rule="stochastic", fraction_bits=14)
    >>> explorer.statement.value[:23]
    '⟨6, 14⟩, step 1/16,384,'
    """

    position = traitlets.Instance(st.Position, help="Where the controls stand.")

    def __init__(self, **position: Any) -> None:
        found = claims.stored(GUPTA_2015)
        if found.missing(GUPTA_2015):
            raise ValueError("the results are not stored: run lplab claims run gupta_2015")
        self.results, self.provenance = found.results(GUPTA_2015), found.provenance
        self._note = f"{len(GUPTA_2015.seeds)} seeds · measured {found.sessions[-1].date} · lplab {GUPTA_2015.id}"
        self._start = st.Position(**position).settled()
        self._setting = False
        self._build(self._start)
        super().__init__([self._columns, self.error_line, self._helper], position=self._start)
        self.add_class("lp-controls")
        self._set_controls(self._start)
        self.observe(guarded(self.error_line, lambda change: self._react(change["new"])), "position")
        for name in ("setting", "rule", "fraction_bits"):
            moved = guarded(self.error_line, lambda change, name=name: self._moved(**{name: change["new"]}))
            self.controls[name].observe(moved, "value")
        for box in self.boxes.values():
            box.observe(guarded(self.error_line, lambda _: self._moved(rules=self._ticked())), "value")
        self.reset_button.on_click(guarded(self.error_line, lambda _: self.reset()))
        self.copy_button.on_click(guarded(self.error_line, lambda _: self.copy_code()))

    # -- what a notebook may use ----------------------------------------------------------------------------------

    def set(self, **position: Any) -> None:
        """Move controls by name: the fields of `Position`."""
        self.position = replace(self.position, **position).settled()

    def reset(self) -> None:
        """Put every control back to where it was at first."""
        self.position = self._start

    def copy_code(self) -> None:
        """Show the run to look into as Python, and copy it to the clipboard."""
        say(self.code_line, self.position.code)
        self._helper.copy(self.position.code)

    def runs(self) -> Runs:
        """The trainings at these fraction bits and in this arithmetic, one for each rule, and floating point."""
        own = SETTINGS[self.position.setting].run
        fixed = {k: v for k, v in rules_at(self.position.fraction_bits, _LIVE, **own).items() if k in LABELS.values()}
        return {**fixed, **{k: v for k, v in rules_at(8, ()).items()}}

    def live(self, name: str = "Train all rules here") -> LiveRun:
        """A button that trains what the controls say, anew and before your eyes."""
        return live_training(self.runs, name=name)

    # -- display --------------------------------------------------------------------------------------------------

    def _build(self, at: st.Position) -> None:
        w = ipywidgets
        self.controls: dict[str, Any] = {
            "setting": w.Dropdown(options=[(s.label, name) for name, s in SETTINGS.items()], description="arithmetic"),
            "rule": w.Dropdown(options=[(LABELS[rule], rule) for rule in RULES], description="rounding"),
            "fraction_bits": w.IntSlider(min=st.BITS[0], max=st.BITS[1], description="fraction bits"),
        }
        self.boxes = {rule: w.Checkbox(description=LABELS[rule], indent=False) for rule in RULES}
        self.figures = {
            "errors": LiveFigure(st.errors_figure(self.results, at, self._note)),
            "losses": LiveFigure(st.losses_figure(self.results, at)),
        }
        self.statement = line(st.statement(self.results, at), "lp-quiet", "lp-live")
        self.error_line = line("", "lp-error", "lp-live")
        self.code_line = line("", "lp-code")
        say(self.error_line, "")
        say(self.code_line, "")
        self.reset_button = w.Button(description="Reset", tooltip="back to where it was at first")
        self.copy_button = w.Button(description="Copy as code", tooltip="Python that trains this run")
        self._helper = Helper()
        buttons = w.HBox([self.reset_button, self.copy_button])
        buttons.add_class("lp-row")
        look = [self.controls["rule"], self.controls["fraction_bits"]]
        side = w.VBox(
            [
                line("Stored runs", "lp-heading"),
                self.controls["setting"],
                line("Curves", "lp-heading"),
                *self.boxes.values(),
                line("Look into", "lp-heading"),
                *look,
                buttons,
                self.code_line,
            ]
        )
        source = line(f"{len(self.results)} trainings, {self.provenance}.", "lp-quiet")
        main = w.VBox([self.figures["errors"], self.statement, self.figures["losses"], source])
        main.layout.flex = (
            "3 1 520px"  # the keys of the curves need the room: on a narrow screen the controls go on top
        )
        self._columns = w.Box([side, main])
        for box, css in ((side, "lp-side"), (main, "lp-main"), (self._columns, "lp-columns")):
            box.add_class(css)

    def _ticked(self) -> tuple[str, ...]:
        return tuple(rule for rule, box in self.boxes.items() if box.value)

    def _moved(self, **position: Any) -> None:
        if not self._setting:
            self.set(**position)

    def _set_controls(self, at: st.Position) -> None:
        """Put the controls where the position says, without their calling back."""
        self._setting = True
        try:
            self.controls["fraction_bits"].max = SETTINGS[at.setting].fraction_bits[-1]
            for name, control in self.controls.items():
                control.value = getattr(at, name)
            for rule, box in self.boxes.items():
                box.value = rule in at.rules
        finally:
            self._setting = False

    def _react(self, at: st.Position) -> None:
        self._set_controls(at)
        say(self.statement, st.statement(self.results, at))
        if self.code_line.value:
            say(self.code_line, at.code)
        with one_frame(), light():  # only what differs is sent: of the slider, the marks and a title
            figures.update(self.figures["errors"], st.errors_figure(self.results, at, self._note))
            figures.update(self.figures["losses"], st.losses_figure(self.results, at))
