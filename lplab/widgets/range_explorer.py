"""The range of gradients, live: recorded magnitudes of every layer, over time, under a format's window."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ipywidgets

from lplab import figures
from lplab.figures.light import light
from lplab.recording_files import Recording, recorded

from . import range_state as rs
from .controls import guarded, line, say
from .live_figure import LiveFigure, one_frame
from .positioned import PositionedExplorer, offer

OWN, NONE = "your recording", "(none)"


class RangeExplorer(PositionedExplorer):
    """A recorded training under a format's window, behind a loss scale.

    Args:
        recording: a `lplab.recording_files.Recording`, a `lplab.training.Recorder`, or the path of a file; by default
            the two recordings that ship with lplab.
        **position: fields of `Position`: ``role``, ``layer``, ``step``, ``format``, ``scale``, ``rows``. Reset comes
            back to them.

    Raises:
        ValueError: a position that does not exist, or a file that is no recording.
        FileNotFoundError: there is no such file.

    >>> explorer = RangeExplorer(format="bf16")
    >>> explorer.figures["histogram"].layout.meta["title"]
    'bf16, no loss scale: nothing becomes zero, nothing overflows'
    """

    def __init__(self, recording: Any = None, **position: Any) -> None:
        self.recordings = {label: recorded(name) for label, name in rs.RECORDINGS.items()}
        chosen = {**position}
        if recording is not None:
            chosen["recording"] = self.recordings[OWN] = as_recording(recording)
        super().__init__(rs.settled(rs.Position(), **chosen))
        self.preset.observe(guarded(self.error_line, lambda change: self._preset(change["new"])), "value")
        self.load_button.on_click(guarded(self.error_line, lambda _: self.load(self.path.value)))
        self.path.observe(guarded(self.error_line, lambda change: self._typed(change["new"])), "value")

    # -- what a notebook may use ----------------------------------------------------------------------------------

    def set(self, **position: Any) -> None:
        """Move controls by name: the fields of `Position`; ``recording`` also by its label."""
        if isinstance(position.get("recording"), str):
            if position["recording"] not in self.recordings:
                known = ", ".join(self.recordings)
                raise ValueError(f"no recording {position['recording']!r}; there are: {known}")
            position["recording"] = self.recordings[position["recording"]]
        self.position = rs.settled(self.position, **position)

    def load(self, recording: Any) -> None:
        """Show another recording: a file's path, a `Recording` or a `Recorder`; what is wrong with it is said."""
        try:
            self.recordings[OWN] = as_recording(recording)
        except (ValueError, OSError) as problem:
            say(self.message, str(problem))
            return
        say(self.message, "")
        self.set(recording=OWN)

    def reset(self) -> None:
        """Put every control back to where it was at first."""
        self.path.value = ""
        say(self.message, "")
        super().reset()

    # -- display --------------------------------------------------------------------------------------------------

    def _build(self, at: rs.Position) -> tuple[list[ipywidgets.Widget], list[ipywidgets.Widget]]:
        w = ipywidgets
        self.controls = {
            "format": w.Dropdown(options=list(rs.FORMATS), description="format"),
            "scale": w.SelectionSlider(options=_scales(), value=at.scale, description="loss scale"),
            "recording": w.Dropdown(options=list(self.recordings), description="recording"),
            "role": w.Dropdown(options=_roles(at), description="tensors"),
            "layer": w.Dropdown(options=_layers(at), description="layer"),
            "step": w.SelectionSlider(options=_steps(at), value=at.step, description="step"),
            "rows": w.ToggleButtons(options=list(rs.MAPS), description="map of"),
        }
        self.preset = w.Dropdown(options=[NONE, *rs.PRESETS], description="preset")
        self.path = w.Text(description="your file", placeholder="recorded.npz", continuous_update=False)
        self.load_button = w.Button(description="Load", tooltip="show the recording in this file")
        self.figures = {name: LiveFigure(figure) for name, figure in rs.pictures(at).items()}
        self.statement = line(rs.statement(at), "lp-quiet", "lp-live")
        self.message = line("", "lp-error", "lp-live")
        say(self.message, "")
        return self._side(), [self.figures["histogram"], self.statement, self.figures["map"]]

    def _side(self) -> list[ipywidgets.Widget]:
        c, own = self.controls, ipywidgets.HBox([self.path, self.load_button])
        own.add_class("lp-row")
        window = [line("The window", "lp-heading"), self.preset, c["format"], c["scale"]]
        tensors = [line("The recording", "lp-heading"), c["recording"], c["role"], c["layer"], c["step"], c["rows"]]
        yours = [line("Your own", "lp-heading"), own, self.message]
        return [*window, *tensors, *yours]

    def _preset(self, name: str) -> None:
        if not self._setting and name in rs.PRESETS:
            self.set(**rs.PRESETS[name])

    def _typed(self, path: str) -> None:
        if path.strip():
            self.load(path)

    def _fit(self, at: rs.Position) -> None:
        offer(self.controls["recording"], list(self.recordings))
        offer(self.controls["role"], _roles(at))
        offer(self.controls["layer"], _layers(at))
        offer(self.controls["step"], _steps(at))
        here = {"format": at.format, "scale": at.scale}
        self.preset.value = next((name for name, preset in rs.PRESETS.items() if preset == here), NONE)

    def _values(self, at: rs.Position) -> dict[str, Any]:
        label = next(name for name, there in self.recordings.items() if there is at.recording)
        return {**super()._values(at), "recording": label}

    def _draw(self, at: rs.Position) -> None:
        say(self.statement, rs.statement(at))
        with one_frame(), light():
            for name, figure in rs.pictures(at).items():
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


def _roles(at: rs.Position) -> list[tuple[str, str]]:
    return [(rs.role_of(role), role) for role in at.recording.roles]


def _layers(at: rs.Position) -> list[tuple[str, str]]:
    return [(layer if layer == rs.ALL else rs.label_of(layer), layer) for layer in at.layers]


def _steps(at: rs.Position) -> list[tuple[str, int]]:
    return [(f"{step:,}", step) for step in at.recording.steps]


def _scales() -> list[tuple[str, int]]:
    low, high = rs.SCALES
    return [(rs.raised(rs.number_of(k)), k) for k in range(low, high + 1)]
