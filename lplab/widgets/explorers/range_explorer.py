"""The range of gradients, live: recorded magnitudes of every layer, over time, under a format's window."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ipywidgets

from lplab import figures
from lplab.figures.lazy_figure import as_dicts
from lplab.recordings.magnitudes import Recording, recorded
from lplab.widgets.controls import line, set_text, show_errors
from lplab.widgets.explorer_base import Explorer, set_options
from lplab.widgets.live.live_figure import LiveFigure, single_redraw

from . import range_state as rs

OWN, NONE = "your recording", "(none)"


class RangeExplorer(Explorer):
    """A recorded training under a format's window, behind a loss scale.

    Args:
        recording: a `lplab.recordings.magnitudes.Recording`, a `lplab.training.Recorder`, or the path of a file; by
            default the two recordings that ship with lplab.
        **position: fields of `RangeState`: ``role``, ``layer``, ``step``, ``format``, ``scale``, ``rows``. Reset
            returns to them.

    Raises:
        ValueError: a value that is not allowed, or a file that is no recording.
        FileNotFoundError: there is no such file.

    >>> explorer = RangeExplorer(format="bf16")
    >>> explorer.figures["histogram"].layout.meta["title"]
    'bf16, no loss scale: nothing becomes zero, nothing overflows'
    """

    def __init__(self, recording: Any = None, **position: Any) -> None:
        self.recordings = {label: recorded(name) for label, name in rs.RECORDINGS.items()}
        fields = {**position}
        if recording is not None:
            fields["recording"] = self.recordings[OWN] = as_recording(recording)
        super().__init__(rs.make_consistent(rs.RangeState(), **fields))
        self.preset.observe(show_errors(self.error_line, lambda change: self._preset(change["new"])), "value")
        self.load_button.on_click(show_errors(self.error_line, lambda _: self.load(self.path.value)))
        self.path.observe(show_errors(self.error_line, lambda change: self._typed(change["new"])), "value")

    # -- what a notebook may use ----------------------------------------------------------------------------------

    def set(self, **position: Any) -> None:
        """Set controls by name: the fields of `RangeState`; ``recording`` also by its label."""
        if isinstance(position.get("recording"), str):
            if position["recording"] not in self.recordings:
                known = ", ".join(self.recordings)
                raise ValueError(f"no recording {position['recording']!r}; there are: {known}")
            position["recording"] = self.recordings[position["recording"]]
        self.position = rs.make_consistent(self.position, **position)

    def load(self, recording: Any) -> None:
        """Show another recording: a file's path, a `Recording` or a `Recorder`; an error is shown beside the box."""
        try:
            self.recordings[OWN] = as_recording(recording)
        except (ValueError, OSError) as problem:
            set_text(self.message, str(problem))
            return
        set_text(self.message, "")
        self.set(recording=OWN)

    def reset(self) -> None:
        """Set every control back to its first value."""
        self.path.value = ""
        set_text(self.message, "")
        super().reset()

    # -- display --------------------------------------------------------------------------------------------------

    def _build(self, state: rs.RangeState) -> tuple[list[ipywidgets.Widget], list[ipywidgets.Widget]]:
        w = ipywidgets
        self.controls = {
            "format": w.Dropdown(options=list(rs.FORMATS), description="format"),
            "scale": w.SelectionSlider(options=_scales(), value=state.scale, description="loss scale"),
            "recording": w.Dropdown(options=list(self.recordings), description="recording"),
            "role": w.Dropdown(options=_roles(state), description="tensors"),
            "layer": w.Dropdown(options=_layers(state), description="layer"),
            "step": w.SelectionSlider(options=_steps(state), value=state.step, description="step"),
            "rows": w.ToggleButtons(options=list(rs.MAPS), description="map of"),
        }
        self.preset = w.Dropdown(options=[NONE, *rs.PRESETS], description="preset")
        self.path = w.Text(description="your file", placeholder="recorded.npz", continuous_update=False)
        self.load_button = w.Button(description="Load", tooltip="show the recording in this file")
        self.figures = {name: LiveFigure(figure) for name, figure in rs.figures_by_name(state).items()}
        self.summary = line(rs.summary(state), "lp-quiet", "lp-live")
        self.message = line("", "lp-error", "lp-live")
        set_text(self.message, "")
        return self._side(), [self.figures["histogram"], self.summary, self.figures["map"]]

    def _side(self) -> list[ipywidgets.Widget]:
        c, own = self.controls, ipywidgets.HBox([self.path, self.load_button])
        own.add_class("lp-row")
        window = [line("The window", "lp-heading"), self.preset, c["format"], c["scale"]]
        tensors = [line("The recording", "lp-heading"), c["recording"], c["role"], c["layer"], c["step"], c["rows"]]
        yours = [line("Your own", "lp-heading"), own, self.message]
        return [*window, *tensors, *yours]

    def _preset(self, name: str) -> None:
        if not self._setting_controls and name in rs.PRESETS:
            self.set(**rs.PRESETS[name])

    def _typed(self, path: str) -> None:
        if path.strip():
            self.load(path)

    def _update_options(self, state: rs.RangeState) -> None:
        set_options(self.controls["recording"], list(self.recordings))
        set_options(self.controls["role"], _roles(state))
        set_options(self.controls["layer"], _layers(state))
        set_options(self.controls["step"], _steps(state))
        here = {"format": state.format, "scale": state.scale}
        self.preset.value = next((name for name, preset in rs.PRESETS.items() if preset == here), NONE)

    def _control_values(self, state: rs.RangeState) -> dict[str, Any]:
        label = next(name for name, recording in self.recordings.items() if recording is state.recording)
        return {**super()._control_values(state), "recording": label}

    def _draw(self, state: rs.RangeState) -> None:
        set_text(self.summary, rs.summary(state))
        with single_redraw(), as_dicts():
            for name, figure in rs.figures_by_name(state).items():
                figures.update(self.figures[name], figure)


def as_recording(given: Any) -> Recording:
    """A recording from a file's path, from a recorder, or as it is.

    Raises:
        TypeError: something else.
        ValueError: a file that is no recording, or a recorder that has recorded nothing.
        FileNotFoundError: there is no such file.
    """
    if isinstance(given, Recording):
        return given
    if isinstance(given, str | Path):
        return Recording.load(given)
    if hasattr(given, "records"):
        return Recording.of(given, "recorded just now")
    raise TypeError(f"a recording is a Recording, a Recorder or the path of a file, got {type(given).__name__}")


def _roles(state: rs.RangeState) -> list[tuple[str, str]]:
    return [(rs.role_of(role), role) for role in state.recording.roles]


def _layers(state: rs.RangeState) -> list[tuple[str, str]]:
    return [(layer if layer == rs.ALL else rs.label_of(layer), layer) for layer in state.layers]


def _steps(state: rs.RangeState) -> list[tuple[str, int]]:
    return [(f"{step:,}", step) for step in state.recording.steps]


def _scales() -> list[tuple[str, int]]:
    low, high = rs.SCALES
    return [(rs.raised(rs.number_of(k)), k) for k in range(low, high + 1)]
