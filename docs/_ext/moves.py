"""What an explorer shows wherever one of its controls can be moved to, recorded, so that a page without a kernel moves.

Around each position that matters (as it opens, its presets, its questions), each control is moved to all its places
while the others stay. Then pairs of controls are moved together around the first position, the smallest pairs first. A
frame is what the explorer then shows. It is taken apart into small parts: a property of a trace or of an axis, a text,
a control's value. Each different part is kept once, and of each frame only what differs from the first one.
"""

import base64
import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ipywidgets
import numpy as np

from lplab.widgets.explorer_base import Explorer

Leaf = tuple[str, Any]
Path = tuple[Any, ...]
PLACES = 25  # of a slider's places as many are recorded, evenly, where it has more
PAIR = 400  # two controls are moved together where they have at most so many places together
FRAMES = 900  # further pairs are not begun once there are so many frames
NEVER = -1  # in a frame: it does not have this part; in moves: this place is not recorded
KINDS = {
    ipywidgets.IntSlider: "slider",
    ipywidgets.FloatSlider: "slider",
    ipywidgets.SelectionSlider: "slider",
    ipywidgets.Dropdown: "list",
    ipywidgets.ToggleButtons: "buttons",
    ipywidgets.Checkbox: "check",
}


# ---- controls --------------------------------------------------------------------------------------------------------


def controls_of(widget: Any) -> Iterator[Any]:
    """The controls in a widget that a page can move, from the top.

    >>> [each.description for each in controls_of(ipywidgets.VBox([ipywidgets.IntSlider(description="bits")]))]
    ['bits']
    """
    if type(widget) in KINDS:
        yield widget
    for child in getattr(widget, "children", ()):
        yield from controls_of(child)


def places_of(control: Any) -> list[Any]:
    """The values that a control is moved to: all options, or at most `PLACES` numbers with both ends.

    >>> places_of(ipywidgets.IntSlider(min=2, max=5)), len(places_of(ipywidgets.IntSlider(max=999)))
    ([2, 3, 4, 5], 25)
    """
    if isinstance(control, ipywidgets.Checkbox):
        return [False, True]
    if hasattr(control, "options"):
        return [each[1] if isinstance(each, tuple) else each for each in control.options]
    steps = round((control.max - control.min) / control.step)
    chosen = {round(k) for k in np.linspace(0, steps, min(steps + 1, PLACES))}
    numbers = [round(control.min + k * control.step, 9) for k in sorted(chosen)]
    return [int(each) for each in numbers] if isinstance(control, ipywidgets.IntSlider) else numbers


def control_leaf(control: Any, number: int, unit: str = "") -> Leaf:
    """What a page needs of a control at its present value; a slider over numbers lacks its options yet."""
    content = {
        "control": number,
        "kind": KINDS[type(control)],
        "label": control.description,
        "off": control.disabled,
        "unit": unit,
        "long": any(name.startswith("lp-long") for name in control._dom_classes),
        "tip": control.tooltip or "",
    }
    if isinstance(control, ipywidgets.Checkbox):
        content |= {"options": ["off", "on"], "at": int(control.value)}
    elif hasattr(control, "options"):
        options = [str(each[0] if isinstance(each, tuple) else each) for each in control.options]
        content |= {"options": options, "at": NEVER if control.index is None else control.index}
    else:
        content |= {"number": control.value, "format": control.readout_format, "silent": not control.readout}
        content |= {"all": round((control.max - control.min) / control.step) + 1, "ends": (control.min, control.max)}
    return "control", content


def number_text(value: float, form: str) -> str:
    """A number beside its slider.

    >>> number_text(-0.5, ".2f"), number_text(3, "d")
    ('−0.50', '3')
    """
    return format(value, form).replace("-", "\N{MINUS SIGN}")


# ---- recording -------------------------------------------------------------------------------------------------------


class Recorder:
    """Frames of an explorer, and which move leads from which frame to which.

    Args:
        explorer: it is moved, and back to where it was.
        show: what it shows now: its leaves, from the top.

    Attributes:
        frames: the leaves of each frame.
        refused: frames that show a message in place of a state, since their controls do not go together.
        moves: of a frame and a control, the frame of each place, in the order of the control's options.
    """

    def __init__(self, explorer: Explorer, show: Callable[[], list[Leaf]]) -> None:
        self.explorer, self.show = explorer, show
        self.controls = list(controls_of(explorer))
        self.names = {id(control): name for name, control in explorer.controls.items()}
        self.free = [each for each in self.controls if id(each) not in self.names]  # not all are of the position
        self.frames: list[list[Leaf]] = []
        self.refused: list[int] = []
        self.moves: dict[int, dict[int, dict[Any, int]]] = {}
        self._numbers: dict[Any, int] = {}

    def _key(self) -> Any:
        return self.explorer.position, tuple(each.value for each in self.free)

    def _kept(self, key: Any) -> int:
        """The number of the frame that the explorer shows now."""
        if key not in self._numbers:
            self._numbers[key] = len(self.frames)
            if is_stale(self.explorer):
                self.refused.append(len(self.frames))
            self.frames.append(self.show())
        return self._numbers[key]

    def at(self, position: Any) -> int:
        """The number of the frame at a position."""
        self.explorer.position = position
        return self._kept(self._key())

    def around(self, frame: int, position: Any, which: Sequence[int]) -> None:
        """Move each of these controls to all its places, from a position."""
        self.explorer.position = position
        offered = {
            k: (c, places_of(c)) for k, c in enumerate(self.controls) if k in which and is_open(c, self.explorer)
        }
        for k, (control, places) in offered.items():
            if k not in self.moves.setdefault(frame, {}):
                self.moves[frame][k] = {place: self._move(position, control, place) for place in places}

    def _move(self, position: Any, control: Any, place: Any) -> int:
        name, free = self.names.get(id(control)), tuple(each.value for each in self.free)
        if name is None:
            return self._move_free(position, control, place)
        if name == "preset" and place == self.explorer.no_preset:
            return self._numbers[position, free]  # the entry for all other states changes nothing
        there = self.explorer._moved(position, {name: place})
        if (there, free) not in self._numbers:
            self.explorer.position = there
            if is_stale(self.explorer):  # what it shows depends on where it came from
                self.explorer.position = position
                self.explorer.position = there
        return self._numbers[there, free] if (there, free) in self._numbers else self._kept(self._key())

    def _move_free(self, position: Any, control: Any, place: Any) -> int:
        """As a user moves it, since the control is not a field of the position."""
        self.explorer.position = position
        before = [each.value for each in self.free]
        control.value = place
        frame = self._kept(self._key())
        self.explorer.position = position
        for each, value in zip(self.free, before, strict=True):
            each.value = value
        return frame


def is_open(control: Any, within: Any) -> bool:
    """Whether a control is shown and can be moved."""
    if control.disabled or control.layout.display == "none":
        return False
    hidden = [each for each in boxes_of(within) if each.layout.display == "none"]
    return not any(control in controls_of(each) for each in hidden)


def boxes_of(widget: Any) -> Iterator[Any]:
    """All boxes in a widget, itself included."""
    if isinstance(widget, ipywidgets.Box):
        yield widget
        for child in widget.children:
            yield from boxes_of(child)


def is_stale(explorer: Any) -> bool:
    """Whether a part of an explorer shows an earlier state."""
    return any("lp-stale" in each._dom_classes for each in boxes_of(explorer))


def record(
    explorer: Explorer, positions: Sequence[Any], show: Callable[[], list[Leaf]]
) -> tuple[dict[str, Any], list[Leaf], list[int]]:
    """Record an explorer around some positions.

    Args:
        explorer: it is moved, and back to where it was.
        positions: the first one is the base of all frames.
        show: what the explorer shows now: its leaves, from the top.

    Returns:
        What a page needs to move, as plain data; the leaves of the first position; the number of the frame of each.
    """
    start, recorder = explorer.position, Recorder(explorer, show)
    everything = range(len(recorder.controls))
    asked = [recorder.at(position) for position in positions]
    for frame, position in dict(zip(asked, positions, strict=True)).items():
        recorder.around(frame, position, everything)
    _pairs(recorder, asked[0], positions[0])
    explorer.position = start
    if len({len(each) for each in recorder.frames}) != 1:
        raise ValueError(f"{type(explorer).__name__} changes what it is made of, so it cannot be recorded")
    numbers = finish_sliders(recorder.frames)
    moves = {
        frame: {
            k: [there.get(place, NEVER) for place in numbers.get((frame, k), there)] for k, there in of_controls.items()
        }
        for frame, of_controls in recorder.moves.items()
    }
    recording = encoded(recorder.frames) | {"moves": moves, "refused": recorder.refused}
    return recording, recorder.frames[asked[0]], asked


def _pairs(recorder: Recorder, frame: int, position: Any) -> None:
    """Two controls together, the smallest pairs first."""
    sizes = {
        k: len(places) for k, places in recorder.moves[frame].items() if id(recorder.controls[k]) in recorder.names
    }
    pairs = [(sizes[a] * sizes[b], a, b) for a in sizes for b in sizes if a < b]
    for size, a, b in sorted(pairs):
        if size > PAIR or len(recorder.frames) + size > FRAMES:
            break
        few, many = sorted((a, b), key=lambda k: sizes[k])
        name = recorder.names[id(recorder.controls[few])]
        for place, there in list(recorder.moves[frame][few].items()):
            if there != frame:
                recorder.around(there, recorder.explorer._moved(position, {name: place}), [many])


# ---- encoding --------------------------------------------------------------------------------------------------------


def parts_of(content: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The parts of plain data and where each of them is.

    >>> dict(parts_of({"x": {"range": [0, 1]}, "shapes": [{"x0": 3}]}))
    {('x', 'range'): [0, 1], ('shapes', 0, 'x0'): 3}
    """
    if isinstance(content, dict) and content and "bdata" not in content:
        for name, each in content.items():
            yield from parts_of(each, (*path, name))
    elif isinstance(content, list) and content and all(isinstance(each, dict) for each in content):
        for k, each in enumerate(content):
            yield from parts_of(each, (*path, k))
    else:
        yield path, content


def shorter(value: Any) -> Any:
    """An array of 64-bit numbers in 32 bits: seven digits, of which no screen shows the last.

    >>> shorter({"dtype": "f8", "bdata": base64.b64encode(np.array([0.5]).tobytes()).decode()})["dtype"]
    'f4'
    """
    if not (isinstance(value, dict) and value.get("dtype") == "f8"):
        return value
    wide = np.frombuffer(base64.b64decode(value["bdata"]), "<f8")
    with np.errstate(over="ignore"):
        narrow = wide.astype("<f4")
    if not np.allclose(narrow, wide, rtol=1e-6, atol=0, equal_nan=True):
        return value
    return value | {"dtype": "f4", "bdata": base64.b64encode(narrow.tobytes()).decode()}


def encoded(frames: list[list[Leaf]]) -> dict[str, Any]:
    """Frames as plain data, each as what differs from the first one; docs/_static/moves.js reads it.

    Returns:
        ``paths``: the places of all parts, the first element the leaf's number; ``pool``: their different values;
        ``base``: the first frame, a value's number for each path; ``frames``: a path's and a value's number in turn.
    """
    paths: dict[Path, int] = {}
    pool: dict[str, int] = {}
    rows = []
    for frame in frames:
        row: dict[int, int] = {}
        for k, (kind, content) in enumerate(frame):
            for path, value in parts_of({"kind": kind, "content": content}, (k,)):
                text = json.dumps(shorter(value), ensure_ascii=False, separators=(",", ":"))
                row[paths.setdefault(path, len(paths))] = pool.setdefault(text, len(pool))
        rows.append(row)
    base = [rows[0].get(k, NEVER) for k in range(len(paths))]
    changes = [[n for k, was in enumerate(base) if (now := row.get(k, NEVER)) != was for n in (k, now)] for row in rows]
    return {"paths": list(paths), "pool": [json.loads(text) for text in pool], "base": base, "frames": changes}


def finish_sliders(frames: list[list[Leaf]]) -> dict[tuple[int, int], list[float]]:
    """Give sliders over numbers their options: those between their ends that they show in one of the frames.

    Returns:
        These numbers, by the frame's and the control's number.
    """
    sliders = [
        (k, content)
        for k, frame in enumerate(frames)
        for kind, content in frame
        if kind == "control" and "number" in content
    ]
    found: dict[int, set[float]] = {}
    for _, content in sliders:
        found.setdefault(content["control"], set()).add(content["number"])
    numbers = {}
    for k, content in sliders:
        number, form, (low, high) = (content.pop(name) for name in ("number", "format", "ends"))
        own = sorted(each for each in found[content["control"]] if low <= each <= high)
        content |= {"options": [number_text(each, form) for each in own], "at": own.index(number)}
        numbers[k, content["control"]] = own
        if len(set(content["options"])) < len(own):
            raise ValueError(
                f"{content['label']}: {form} writes two of its numbers alike, so a page cannot tell them apart"
            )
    return numbers


def packed(data: dict[str, Any]) -> str:
    """Plain data as JSON, gzipped, as text."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()
