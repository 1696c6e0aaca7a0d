"""The range of gradients, live: recorded magnitudes of every layer, over time, under a format's window."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import ipywidgets

from lplab import figures
from lplab import formats as F
from lplab.figures.range_outcomes import describe, range_outcomes, scale_text
from lplab.figures.window import Window, window
from lplab.number_text import number, raised
from lplab.recordings.magnitudes import MagnitudeCounts, Recording, recorded
from lplab.widgets.controls import line, set_text, show_errors
from lplab.widgets.explorer_base import Explorer
from lplab.widgets.fields import Buttons, Choice, ExplorerState, Steps, control

RECORDINGS = {"Transformer": "transformer", "residual net": "digits_resnet"}  # label and name of those that ship
FORMATS: dict[str, str] = {  # as the controls call them, and the formats behind them
    "fp16": "fp16",
    "bf16": "bf16",
    "DLFloat16 (1-6-9)": "dlfloat16",
    "FP8 1-5-2 (2018)": "fp8_152",
    "HFP8 forward (1-4-3)": "hfp8_forward",
    "OCP E5M2": "e5m2",
    "OCP E4M3": "e4m3fn",
    "FP4 E2M1": "e2m1",
    "INT8": "int8",
}
SCALES = (-16, 32)  # log2 of the loss scale
OWN = "your recording"
SCORES = "blocks.2.attention/matmul"
ALL = "all layers"
LAYERS, STEPS = "all layers", "all steps"
MAPS = (LAYERS, STEPS)
ROLES = {  # as the controls call them; others keep their names
    "output_gradient_dx": "output gradients",
    "output_gradient_dw": "output gradients (for dW)",
    "weight_gradient": "weight gradients",
    "input_gradient": "input gradients",
    "activation": "activations",
    "weight": "weights",
}
PRESETS: dict[str, dict[str, Any]] = {  # named after what was published
    "fp16, no loss scale": {"format": "fp16", "scale": 0},
    "fp16, gradients 256 × smaller": {"format": "fp16", "scale": -8},
    "fp16, first scale of PyTorch": {"format": "fp16", "scale": 16},
    "bf16, no loss scale": {"format": "bf16", "scale": 0},
    "FP8 2018, scale 1000 ≈ 2¹⁰": {"format": "FP8 1-5-2 (2018)", "scale": 10},
}


@dataclass(frozen=True)
class RangeState(ExplorerState):
    """The value of every control.

    Attributes:
        recording: what was recorded; by default the Transformer that ships with lplab.
        role: one of its roles.
        layer: one of the role's layers, or "all layers".
        step: one of its steps.
        format: a name of `FORMATS`.
        scale: log2 of the loss scale, −16 to 32.
        rows: what the map shows, "all layers" of this step or "all steps" of this layer.

    Raises:
        ValueError: a value that is not allowed.

    >>> RangeState().magnitudes.total
    133056
    """

    recording: Recording = field(
        default_factory=lambda: recorded("transformer"),
        metadata={"control": Choice("recording", list(RECORDINGS), checked=False)},
    )
    role: str = control("output_gradient_dx", Choice("tensors", lambda state: _roles(state), checked=False))
    layer: str = control(SCORES, Choice("layer", lambda state: _layers(state), checked=False))
    step: int = control(1000, Steps("step", lambda state: _steps(state), checked=False))
    format: str = control("fp16", Choice("format", list(FORMATS)))
    scale: int = control(0, Steps("loss scale", lambda _: _scales(), checked=False, css="lp-long-slider"))
    rows: str = control(LAYERS, Buttons("map of", MAPS))

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.scale, bool) or not isinstance(self.scale, int) or not SCALES[0] <= self.scale <= SCALES[1]:
            raise ValueError(f"scale must be a whole number from {SCALES[0]} to {SCALES[1]}, got {self.scale!r}")
        self.recording.magnitudes(self._layer, self.role, self.step)  # raises for what was not recorded

    def changed(self, **changes: Any) -> RangeState:
        """The state after changes of some fields; role, layer and step change to ones that the recording has.

        >>> other = RangeState().changed(recording=recorded("digits_resnet"))
        >>> other.layer, other.step
        ('all layers', 400)
        """
        recording = changes.get("recording", self.recording)
        role = changes.get("role", self.role)
        if "role" not in changes and role not in recording.roles:
            role = next((name for name in recording.roles if "gradient" in name), recording.roles[0])
        layer, step = changes.get("layer", self.layer), changes.get("step", self.step)
        if "layer" not in changes and layer not in recording.layers(role):
            layer = ALL
        if "step" not in changes and step not in recording.steps:
            step = min(recording.steps, key=lambda recorded_step: abs(recorded_step - step))
        return replace(self, **{**changes, "role": role, "layer": layer, "step": step})

    @property
    def _layer(self) -> str | None:
        return None if self.layer == ALL else self.layer

    @property
    def layers(self) -> tuple[str, ...]:
        """The options for the layer: all layers together first."""
        return (ALL, *self.recording.layers(self.role))

    @property
    def window(self) -> Window:
        """The window of the format."""
        return window(F.get(FORMATS[self.format]))

    @property
    def magnitudes(self) -> MagnitudeCounts:
        """The magnitudes of the chosen tensor in the chosen step."""
        return _magnitudes(self.recording, self.layer, self.role, self.step)

    @property
    def table(self) -> list[tuple[str, MagnitudeCounts]]:
        """The rows of the map: labels and magnitudes."""
        if self.rows == LAYERS:
            names = self.recording.layers(self.role)
            return [(label_of(n), _magnitudes(self.recording, n, self.role, self.step)) for n in names]
        return [(f"step {s:,}", _magnitudes(self.recording, self.layer, self.role, s)) for s in self.recording.steps]

    @property
    def chosen(self) -> int | None:
        """The row of the chosen tensor in the map; None where all layers are chosen, which are every row."""
        if self.rows == STEPS:
            return self.recording.steps.index(self.step)
        return None if self.layer == ALL else self.layers.index(self.layer) - 1

    @property
    def code(self) -> str:
        """Python that gives the numbers."""
        names = [name for name in RECORDINGS.values() if recorded(name) is self.recording]
        made = f'recorded("{names[0]}")' if names else 'Recording.load("your file.npz")'
        layer = None if self.layer == ALL else self.layer
        return (
            f"x = {made}.magnitudes({layer!r}, {self.role!r}, {self.step})\n"
            f'range_outcomes(x, window(F.get("{FORMATS[self.format]}")), {self.scale}).shares'
        )


def _roles(state: RangeState) -> list[tuple[str, str]]:
    return [(role_of(role), role) for role in state.recording.roles]


def _layers(state: RangeState) -> list[tuple[str, str]]:
    return [(layer if layer == ALL else label_of(layer), layer) for layer in state.layers]


def _steps(state: RangeState) -> list[tuple[str, int]]:
    return [(f"{step:,}", step) for step in state.recording.steps]


def _scales() -> list[tuple[str, int]]:
    return [(raised(number_of(k)), k) for k in range(SCALES[0], SCALES[1] + 1)]


@lru_cache(maxsize=4096)
def _magnitudes(recording: Recording, layer: str, role: str, step: int) -> MagnitudeCounts:
    return recording.magnitudes(None if layer == ALL else layer, role, step)


def label_of(layer: str) -> str:
    """A short name of a layer: what it does and its block.

    >>> label_of("blocks.0.attention/matmul"), label_of("blocks.2.mlp.up"), label_of("layer2.conv1")
    ('scores (block 0)', 'mlp.up (block 2)', 'layer2.conv1')
    """
    names = {"attention/matmul": "scores", "attention/matmul2": "mix of values"}
    parts = layer.split(".", 2)
    if len(parts) == 3 and parts[0] == "blocks":
        return f"{names.get(parts[2], parts[2].removeprefix('attention.'))} (block {parts[1]})"
    return layer.removesuffix("_embedding") + " embedding" if layer.endswith("_embedding") else layer


def role_of(role: str) -> str:
    """A role in words.

    >>> role_of("weight_gradient"), role_of("running_mean")
    ('weight gradients', 'running mean')
    """
    return ROLES.get(role, role.replace("_", " "))


def figures_by_name(state: RangeState) -> dict[str, Any]:
    """The figures of a state: the histogram of one tensor, and the map."""
    what = "|gradient|" if "gradient" in state.role else "|x|"
    one = figures.gradient_range(state.magnitudes, state.window, state.scale, name=state.format, what=what)
    every = figures.range_map(state.table, state.window, state.scale, name=state.format, chosen=state.chosen, what=what)
    return {"histogram": one, "map": every}


def largest_safe_scale(state: RangeState) -> int | None:
    """log2 of the largest loss scale at which no layer of this role overflows in this step; None if all are zero.

    >>> largest_safe_scale(RangeState())
    21
    """
    largest = _magnitudes(state.recording, ALL, state.role, state.step).largest
    return math.floor(math.log2(state.window.magnitude) - math.log2(largest)) if largest > 0 else None


def first_to_overflow(state: RangeState) -> str:
    """The layer of this role that overflows first as the loss scale grows: the one with the largest magnitude.

    >>> first_to_overflow(RangeState())
    'position_embedding'
    """
    layers = state.recording.layers(state.role)
    return max(layers, key=lambda layer: _magnitudes(state.recording, layer, state.role, state.step).largest)


def _overflow_text(state: RangeState) -> str:
    """Which scale all layers bear in this step; above it, which layer overflows first. "" where all are zero."""
    limit = largest_safe_scale(state)
    if limit is None:
        return ""
    if state.scale <= limit:
        return f" No layer overflows here up to a loss scale of {number_of(limit)}."
    return f" Above {number_of(limit)} layers overflow, {label_of(first_to_overflow(state))} first."


def summary(state: RangeState) -> str:
    """What the format does to the chosen tensor, in one line, and how large the loss scale may be.

    >>> summary(RangeState(format="bf16"))[:70]
    'Scores (block 2), output gradients, step 1,000, in bf16 (normal from 2'
    """
    outcomes = range_outcomes(state.magnitudes, state.window, state.scale)
    layer = state.layer if state.layer == ALL else label_of(state.layer)
    ends = [number(end, digits=4, plain=True) for end in (state.window.normal, F.get(FORMATS[state.format]).max)]
    text = raised(
        f"{layer}, {role_of(state.role)}, step {state.step:,}, in {state.format} (normal from {ends[0]} to {ends[1]}), "
        f"{scale_text(state.scale)}: {describe(outcomes)}.{_overflow_text(state)}"
    )
    return text[:1].upper() + text[1:]


def number_of(exponent: int) -> str:
    """A power of two for a sentence.

    >>> number_of(-3)
    '2^−3'
    """
    return f"2^{exponent}".replace("-", "\N{MINUS SIGN}")


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

    imports = (
        "from lplab import formats as F",
        "from lplab.figures.range_outcomes import range_outcomes",
        "from lplab.figures.window import window",
        "from lplab.recordings.magnitudes import Recording, recorded",
    )
    state_class, preset_fields, no_preset = RangeState, PRESETS, "(none)"
    side: ClassVar = {
        "The window": ("preset", "format", "scale"),
        "The recording": ("recording", "role", "layer", "step", "rows"),
        "Your own": ("own file",),
    }
    figure_names: ClassVar = {"histogram": "The magnitudes of one tensor", "map": "The magnitudes in every row"}

    def __init__(self, recording: Any = None, **position: Any) -> None:
        self.recordings = {label: recorded(name) for label, name in RECORDINGS.items()}
        if recording is not None:
            try:
                position["recording"] = self.recordings[OWN] = as_recording(recording)
            except FileNotFoundError as error:
                raise FileNotFoundError(f"{error}{self._keyword_hint(str(recording))}") from None
        super().__init__(**position)
        self.load_button.on_click(show_errors(self.error_line, lambda _: self.load(self.path.value)))
        self.path.observe(show_errors(self.error_line, lambda change: self._typed(change["new"])), "value")

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

    def _changed(self, state: RangeState, changes: dict[str, Any]) -> RangeState:
        """The state after changes; ``recording`` is also known by its label."""
        if "recording" in changes:
            given, labelled = changes["recording"], self.recordings
            matching = [r for label, r in labelled.items() if r is given or (isinstance(given, str) and label == given)]
            if not matching:
                raise ValueError(f"no recording {given!r}; there are: {', '.join(labelled)}")
            changes = {**changes, "recording": matching[0]}
        return state.changed(**changes)

    def _parts(self, state: RangeState) -> dict[str, list[Any]]:
        self.path = ipywidgets.Text(description="your file", placeholder="recorded.npz", continuous_update=False)
        self.load_button = ipywidgets.Button(description="Load", tooltip="show the recording in this file")
        self.message = line("", "lp-error", "lp-live")
        set_text(self.message, "")
        row = ipywidgets.HBox([self.path, self.load_button])
        row.add_class("lp-row")
        return {"own file": [row, self.message]}

    def _typed(self, path: str) -> None:
        if path.strip():
            self.load(path)

    def _options(self, state: RangeState) -> dict[str, list[Any]]:
        return super()._options(state) | {"recording": list(self.recordings)}

    def _control_values(self, state: RangeState) -> dict[str, Any]:
        label = next(name for name, recording in self.recordings.items() if recording is state.recording)
        return super()._control_values(state) | {"recording": label}

    def _figures(self, state: RangeState) -> dict[str, Any]:
        return figures_by_name(state)

    def _summary(self, state: RangeState) -> str:
        return summary(state)


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
