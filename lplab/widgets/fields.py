"""The state of an explorer, declared: a frozen dataclass whose fields say by which control each one is set.

A field's control checks its values and makes its widget. What an explorer does with them is in `Explorer`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import ipywidgets

Options = Mapping[str, Any] | Sequence[Any]  # labels and values, or values


@dataclass(frozen=True)
class Slider:
    """A number between two ends.

    Attributes:
        label: stands beside the slider.
        low, high: the ends.
        step: an int allows whole numbers alone; with a float every number between the ends is a value.
        readout_format: of the number beside the slider; None shows no number.
        tooltip: what the number means.
        refusal: the message for a value that is not allowed; it may name ``{name}``, ``{value}``, ``{low}`` and
            ``{high}``; "" is the usual one.
        unit: what a screen reader says behind the number, such as "bits"; what the label says need not come again.

    >>> Slider("epochs", 1, 20).check("epochs", 0, None)
    Traceback (most recent call last):
    ...
    ValueError: epochs must be a whole number from 1 to 20, got 0
    """

    label: str
    low: float
    high: float
    step: float = 1
    readout_format: str | None = ""
    tooltip: str = ""
    refusal: str = ""
    unit: str = ""

    def widget(self, state: Any) -> Any:
        """The control's widget; its value is set later."""
        kind = ipywidgets.IntSlider if isinstance(self.step, int) else ipywidgets.FloatSlider
        more: dict[str, Any] = {"readout": False} if self.readout_format is None else {}
        more |= {"readout_format": self.readout_format} if self.readout_format else {}
        more |= {"tooltip": self.tooltip} if self.tooltip else {}
        return kind(min=self.low, max=self.high, step=self.step, description=self.label, **more)

    def check(self, name: str, value: Any, state: Any) -> Any:
        """The value, or a ValueError that says what is allowed."""
        whole = isinstance(self.step, int)
        is_number = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
        if is_number and self.low <= value <= self.high:
            return int(value) if whole else value
        kind = "a whole number " if whole else ""
        refusal = self.refusal or f"{{name}} must be {kind}from {{low:g}} to {{high:g}}, got {{value!r}}"
        raise ValueError(refusal.format(name=name, value=value, low=self.low, high=self.high))


@dataclass(frozen=True)
class Choice:
    """One of several values, in a list.

    Attributes:
        label: stands beside the list.
        options: values, or labels and values; or a function of the state that gives them, where they depend on other
            fields or take time to load.
        checked: whether the options are what is allowed; otherwise the state checks the value itself.
        refusal: the message for a value that is not allowed; it may name ``{name}``, ``{value}``, ``{allowed}``. By
            default that of the state.
        css: a CSS class of the widget.

    >>> Choice("way", {"mobile": "lte", "at home": "wifi"}).check("radio", "wifi", ExplorerState())
    'wifi'
    >>> Choice("way", ("lte", "wifi")).check("radio", "5g", ExplorerState())
    Traceback (most recent call last):
    ...
    ValueError: unknown radio '5g'; allowed: lte, wifi
    """

    label: str
    options: Options | Callable[[Any], Options]
    checked: bool = True
    refusal: str = ""
    css: str = ""
    _widget_class: ClassVar[Any] = ipywidgets.Dropdown

    def offered(self, state: Any) -> list[Any]:
        """The options in a state: values, or pairs of label and value."""
        options = self.options(state) if callable(self.options) else self.options
        return list(options.items()) if isinstance(options, Mapping) else list(options)

    def values(self, state: Any) -> list[Any]:
        """The values that may be chosen in a state."""
        return [option[1] if isinstance(option, tuple) else option for option in self.offered(state)]

    def widget(self, state: Any) -> Any:
        """The control's widget; its value is set later."""
        made = self._widget_class(options=self.offered(state), description=self.label)
        if self.css:
            made.add_class(self.css)
        return made

    def check(self, name: str, value: Any, state: Any) -> Any:
        """The allowed value that equals the given one, or a ValueError that says what is allowed."""
        if not self.checked:
            return value
        allowed = self.values(state)
        if isinstance(value, Hashable):  # an array has no one truth to compare with
            for each in allowed:
                if each == value and isinstance(each, bool) == isinstance(value, bool):
                    return each
        refusal = self.refusal or state.refusal
        raise ValueError(refusal.format(name=name, value=value, allowed=", ".join(map(str, allowed))))


@dataclass(frozen=True)
class Steps(Choice):
    """One of several values in order, the smallest first, along a slider.

    Attributes:
        unit: what a screen reader says behind the value, such as "learners".
    """

    unit: str = ""
    _widget_class = ipywidgets.SelectionSlider


@dataclass(frozen=True)
class Buttons(Choice):
    """One of a few values, as buttons beside one another."""

    _widget_class = ipywidgets.ToggleButtons


@dataclass(frozen=True)
class Checkbox:
    """Yes or no.

    >>> Checkbox("shared update").check("sharded", "no", None)
    Traceback (most recent call last):
    ...
    ValueError: sharded must be True or False, got 'no'
    """

    label: str

    def widget(self, state: Any) -> Any:
        """The control's widget; its value is set later."""
        return ipywidgets.Checkbox(description=self.label, indent=False)

    def check(self, name: str, value: Any, state: Any) -> bool:
        """The value, or a ValueError that says what is allowed."""
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be True or False, got {value!r}")
        return value


Control = Slider | Choice | Checkbox


def control(default: Any, by: Control) -> Any:
    """A field of an `ExplorerState`: its first value, and the control that sets it."""
    return field(default=default, metadata={"control": by})


@dataclass(frozen=True)
class ExplorerState:
    """The base of explorers' states: a frozen dataclass whose fields are checked by their controls.

    Raises:
        ValueError: a value that is not allowed.

    >>> @dataclass(frozen=True)
    ... class Walk(ExplorerState):
    ...     days: int = control(3, Slider("days", 1, 9))
    ...     place: str = control("hills", Choice("place", ["hills", "coast"]))
    >>> Walk(place="moon")
    Traceback (most recent call last):
    ...
    ValueError: unknown place 'moon'; allowed: hills, coast
    >>> Walk().changed(days=4)
    Walk(days=4, place='hills')
    """

    refusal: ClassVar[str] = "unknown {name} {value!r}; allowed: {allowed}"

    def __post_init__(self) -> None:
        self.check(*self.controls())

    @classmethod
    def controls(cls) -> dict[str, Control]:
        """The fields that have a control, and their controls."""
        return {each.name: each.metadata["control"] for each in fields(cls) if "control" in each.metadata}

    @classmethod
    def every_field(cls, **some: Any) -> dict[str, Any]:
        """All fields with their defaults, but for those given: a preset that leaves nothing as it was.

        >>> ExplorerState.every_field()
        {}
        """
        return {each.name: each.default for each in fields(cls)} | some

    def check(self, *names: str) -> None:
        """Check these fields; a value that equals an allowed one becomes that one."""
        controls = self.controls()
        for name in names:
            object.__setattr__(self, name, controls[name].check(name, getattr(self, name), self))

    def changed(self, **changes: Any) -> Self:
        """The state after changes of some fields; a subclass lets other fields follow them."""
        return replace(self, **changes)

    @property
    def code(self) -> str:
        """Python that gives the numbers of this state."""
        raise NotImplementedError


def preset_of(state: ExplorerState, presets: Mapping[str, Mapping[str, Any]], otherwise: str = "") -> str:
    """The first preset whose fields the state has.

    >>> preset_of(ExplorerState(), {"all": {}})
    'all'
    """
    return next(
        (name for name, preset in presets.items() if all(getattr(state, f) == v for f, v in preset.items())), otherwise
    )
