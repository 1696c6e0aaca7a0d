"""Controls to choose a tensor: network, step, layer and role; a synthetic one; or one of the user's files."""

from typing import Any

import ipywidgets
import traitlets

from .controls import line, set_text, show_errors
from .tensor_library import TensorLibrary, choices, group_of, nearest_name

_FIRST = {"synthetic": "synthetic/normal"}
_PARTS = ("step", "layer", "role")


class TensorChooser(ipywidgets.VBox):
    """Dropdowns that together choose the name of a tensor; the trait `name` is the state.

    >>> chooser = TensorChooser(TensorLibrary(), "resnet/step0/stem/weight")
    >>> chooser.parts["role"].value = "gradient"
    >>> chooser.name
    'resnet/step0/stem/gradient'
    """

    name = traitlets.Unicode(help="Name of the chosen tensor in the library.")

    def __init__(self, library: TensorLibrary, name: str) -> None:
        self.library = library
        self.source = ipywidgets.Dropdown(description="tensor from")
        self.parts = {part: ipywidgets.Dropdown(description=part) for part in _PARTS}
        self.other_tensors = ipywidgets.Dropdown(description="tensor")
        self.path = ipywidgets.Text(
            description="your file", placeholder=".npy .npz .pt .safetensors", continuous_update=False
        )
        self.load = ipywidgets.Button(description="Load", tooltip="load the tensors of this file")
        self.message, self.error_line = line("", "lp-error", "lp-live"), line("", "lp-error", "lp-live")
        set_text(self.message, "")
        set_text(self.error_line, "")
        self._setting_controls = False
        row = ipywidgets.HBox([self.path, self.load])
        row.add_class("lp-row")
        super().__init__(
            [self.source, *self.parts.values(), self.other_tensors, row, self.message, self.error_line], name=name
        )
        self._show(name)
        self.observe(lambda change: self._renamed(change["new"]), "name")
        self._watch(self.source, self._choose_source)
        self._watch(self.other_tensors, lambda value: self._choose(f"{group_of(self.name)}/{value}"))
        for position, part in enumerate(_PARTS, start=1):
            self._watch(self.parts[part], lambda value, position=position: self._choose_part(position, value))
        self.load.on_click(show_errors(self.error_line, lambda _: self.load_file(self.path.value)))
        self._watch(self.path, lambda path: self.load_file(path) if path.strip() else None)

    def load_file(self, path: str) -> None:
        """Load a file and show its first tensor; an error is shown below the box."""
        if not path.strip():
            set_text(self.message, f"Type the path of a file first: {self.path.placeholder}")
            return
        try:
            names = self.library.add_file(path)
        except (ValueError, OSError) as error:
            set_text(self.message, str(error))
        else:
            set_text(self.message, "")
            self.name = names[0]
            self._show(names[0])

    def clear_file(self) -> None:
        """Clear the file's name and its error."""
        self.path.value = ""
        set_text(self.message, "")

    def _watch(self, widget: Any, function: Any) -> None:
        def react(change: Any) -> None:
            if not self._setting_controls and change["new"] is not None:
                function(change["new"])

        widget.observe(show_errors(self.error_line, react), "value")

    def _choose(self, name: str) -> None:
        self.name = name

    def _choose_source(self, group: str) -> None:
        names = [name for name in self.library.names() if group_of(name) == group]
        wanted = f"{group}/{self.name.split('/', 1)[1]}"
        fallback = names[-1] if names[0].count("/") < 3 else nearest_name(names, wanted, fixed=0)
        self._choose(_FIRST.get(group, fallback))

    def _choose_part(self, position: int, value: str) -> None:
        parts = self.name.split("/")
        parts[position] = value
        self._choose(nearest_name(self.library.names(), "/".join(parts), fixed=position))

    def _renamed(self, name: str) -> None:
        set_text(self.message, "")  # an error of a file no longer applies
        self._show(name)

    def _show(self, name: str) -> None:
        """Set all dropdowns to the name, and show only those that it needs."""
        names = self.library.names()
        options = choices(names, name)
        values = name.split("/")[1:] if len(options) == 3 else [name.split("/", 1)[1]]
        boxes = list(self.parts.values()) if len(options) == 3 else [self.other_tensors]
        self._setting_controls = True
        try:
            self._set(self.source, list(dict.fromkeys(map(group_of, names))), group_of(name))
            for box in (*self.parts.values(), self.other_tensors):
                box.layout.display = None if box in boxes else "none"
            for box, allowed, value in zip(boxes, options, values, strict=True):
                self._set(box, allowed, value)
        finally:
            self._setting_controls = False

    def _set(self, box: Any, options: list[str], value: str) -> None:
        if list(box.options) != options:
            box.options = options
        box.value = value
