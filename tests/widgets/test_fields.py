"""Fields of explorers' states: what their controls accept, what they make of it, and the widgets that they make."""

from dataclasses import dataclass
from typing import Any

import ipywidgets
import numpy as np
import pytest

from lplab.widgets.fields import Buttons, Checkbox, Choice, ExplorerState, Slider, Steps, control, preset_of


@dataclass(frozen=True)
class Trip(ExplorerState):
    days: int = control(3, Slider("days", 1, 9))
    budget: float = control(0.5, Slider("budget", 0.0, 1.0, step=0.1, readout_format=".0%"))
    region: str = control("north", Buttons("region", ["north", "south"]))
    place: str = control("hill", Choice("place", lambda trip: {"north": ["hill"], "south": ["bay"]}[trip.region]))
    people: int = control(1, Steps("people", {"one": 1, "two": 2}))
    by_night: bool = control(False, Checkbox("by night"))
    name: Any = None  # has no control


def test_every_kind_of_control_makes_its_widget():
    made = {name: field.widget(Trip()) for name, field in Trip.controls().items()}
    kinds = ["IntSlider", "FloatSlider", "ToggleButtons", "Dropdown", "SelectionSlider", "Checkbox"]
    assert [type(widget) for widget in made.values()] == [getattr(ipywidgets, kind) for kind in kinds]
    assert (made["days"].min, made["days"].max, made["budget"].readout_format) == (1, 9, ".0%")
    assert dict(made["people"].options) == {"one": 1, "two": 2} and made["place"].options == ("hill",)
    labels = ["days", "budget", "region", "place", "people", "by night"]
    assert [widget.description for widget in made.values()] == labels


def test_equal_values_become_the_allowed_ones():
    trip = Trip(days=np.int64(4), people=2.0)
    assert [type(value) for value in (trip.days, trip.people)] == [int, int] and trip.people == 2
    assert Trip(budget=1).budget == 1


@pytest.mark.parametrize(("wrong", "message"), [
    ({"days": 2.0}, "days must be a whole number from 1 to 9, got 2.0"),
    ({"days": True}, "days must be a whole number from 1 to 9, got True"),
    ({"budget": "all"}, "budget must be from 0 to 1, got 'all'"),
    ({"budget": float("nan")}, "budget must be from 0 to 1, got nan"),
    ({"people": True}, "unknown people True; allowed: 1, 2"),
    ({"people": np.array([1, 2])}, "unknown people array"),
    ({"place": "bay"}, "unknown place 'bay'; allowed: hill"),
    ({"region": "south"}, "unknown place 'hill'; allowed: bay"),
    ({"by_night": 1}, "by_night must be True or False, got 1"),
])  # fmt: skip
def test_other_values_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Trip(**wrong)


def test_a_full_preset_leaves_nothing_as_it_was_and_the_first_that_fits_is_named():
    full = Trip.every_field(days=5)
    assert full.keys() == vars(Trip()).keys() and Trip(days=9, people=2).changed(**full) == Trip(days=5)
    presets = {"long": {"days": 9}, "long, two": {"days": 9, "people": 2}}
    assert preset_of(Trip(days=9, people=2), presets) == "long" and preset_of(Trip(), presets, "(none)") == "(none)"
