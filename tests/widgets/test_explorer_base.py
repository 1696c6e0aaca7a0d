"""The base of explorers: controls and position follow each other, and what a subclass adds takes part."""

from dataclasses import dataclass
from typing import ClassVar

import ipywidgets
import pytest
import traitlets

from lplab.widgets.explorer_base import Explorer, set_options
from lplab.widgets.fields import Choice, ExplorerState, control

SIZES = {"small": (1, 2), "large": (2, 3)}


@dataclass(frozen=True)
class Place(ExplorerState):
    kind: str = control("small", Choice("kind", list(SIZES)))
    size: int = control(
        1, Choice("size", lambda at: SIZES[at.kind], refusal="size must be one of ({allowed}), got {value!r}")
    )

    @property
    def code(self):
        return f"{self.kind!r}\n{self.size}"


class Plain(Explorer):
    """Controls alone: what is drawn is only written down."""

    state_class, side = Place, {"": ("presets", "kind", "size")}
    _copy_tooltip, _figure_flex = "Python that makes this", None

    def _parts(self, state):
        self.drawn, self.moves = [], []
        return {}

    def _figures(self, state):
        self.drawn.append(state)
        return {}

    def _summary(self, state):
        return f"{state.kind}, {state.size}"

    def _main(self):
        return [self.summary]

    def _on_control_change(self, **position):
        self.moves += [] if self._setting_controls else [position]
        super()._on_control_change(**position)


class Shown(Plain):
    preset_fields: ClassVar = {"the largest": {"kind": "large", "size": 3}}


class Listed(Plain):
    side: ClassVar = {"Where": ("preset", "kind", "size")}
    preset_fields, no_preset = Shown.preset_fields, "(none)"


@pytest.fixture
def shown():
    made = Shown()
    made.drawn.clear()
    return made


def test_a_preset_moves_the_controls_with_their_options_and_none_calls_back(shown):
    shown.preset_buttons["the largest"].click()
    assert (shown.controls["kind"].value, shown.controls["size"].value) == ("large", 3)
    assert shown.controls["size"].options == (2, 3) and shown.moves == []
    assert shown.drawn == [Place("large", 3)], "drawn once"
    shown.reset_button.click()
    assert shown.position == Place() and shown.controls["size"].options == (1, 2)


def test_a_control_moves_the_position_once(shown):
    shown.controls["size"].value = 2
    assert shown.position == Place(size=2) and shown.moves == [{"size": 2}] and shown.drawn == [Place(size=2)]


def test_what_cannot_be_is_said_on_the_page(shown):
    with pytest.raises(ValueError, match="size must be one of"):
        shown.controls["kind"].value = "large"
    assert "ValueError: size must be one of (2, 3), got 1" in shown.error_line.value
    shown.controls["size"].value = 2
    assert shown.error_line.value == ""


def test_the_position_is_of_the_kind_of_the_start(shown):
    with pytest.raises(traitlets.TraitError, match="position must be a Place, got str"):
        shown.position = "small"
    assert shown.position == Place()


def test_code_on_the_page_follows_the_position_once_it_is_shown(shown):
    shown.set(size=2)
    assert shown.code_line.value == "" and shown.copy_button.tooltip == "Python that makes this"
    shown.copy_button.click()
    assert shown._control_group.clipboard["text"] == "'small'\n2" and shown.code_line.value.endswith("<br>2")
    shown.reset()
    assert shown.code_line.value.endswith("<br>1") and shown._control_group.clipboard["text"].endswith("2")


def test_without_presets_and_with_the_room_that_a_subclass_gives():
    plain = Plain()
    side, main = plain.children[0].children
    assert plain.preset_buttons == {} and main.layout.flex is None and plain.buttons in side.children
    plain.controls["size"].value = 2
    assert plain.position.size == 2


def test_presets_in_a_list_are_chosen_by_name_and_follow_the_controls():
    listed = Listed(size=2)
    assert listed.preset_buttons == {} and listed.preset.value == "(none)"
    listed.set(preset="the largest")
    assert listed.position == Place("large", 3) and listed.preset.value == "the largest"
    listed.preset.value = "(none)"
    assert listed.position == Place("large", 3), "the entry for all other states changes nothing"
    listed.controls["size"].value = 2
    assert listed.preset.value == "(none)"
    listed.set(preset="the largest", size=2)
    assert listed.position == Place("large", 2), "what is given beside a preset counts"
    with pytest.raises(ValueError, match="unknown preset 'huge'; allowed: the largest"):
        listed.set(preset="huge")


def test_a_single_figure_is_asked_for_only_where_there_is_one():
    with pytest.raises(AttributeError, match="Plain has no single figure"):
        _ = Plain().figure


def test_the_same_options_keep_what_is_chosen():
    control = ipywidgets.Dropdown(options=["a", "b"], value="b")
    set_options(control, ("a", "b"))
    assert control.value == "b"
    set_options(control, ["c", "d"])
    assert control.value == "c" and control.options == ("c", "d")
