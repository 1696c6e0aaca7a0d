"""A mechanism: one idea of a lab that moves under the hand, and its widget for notebooks."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from lplab.figures import style

_HERE = Path(__file__).parent
_STATIC = _HERE.parent / "static"
COLOURS = {
    "blue": style.BLUE,
    "vermilion": style.VERMILION,
    "green": style.GREEN,
    "pink": style.PINK,
    "amber": style.AMBER,
    "grey": style.GREY,
}


@dataclass(frozen=True)
class Mechanism:
    """One idea that moves under the hand.

    The browser looks up and draws, and computes no number format. So what it shows comes from ``data``, which the
    library computes, once.

    Args:
        name: its file beside this one, ``name.js``, draws it.
        title: what it shows, in a few words.
        todo: one sentence above the picture that says what to do. ``*words*`` are bold; ``*orange: words*`` are
            underlined in a colour of the picture, too: orange, blue or green.
        alt: one or two full sentences for those who cannot see the picture.
        data: computes what the browser looks up: numbers, text, lists and dicts of them.

    Raises:
        ValueError: alt text that is no sentence.

    >>> Mechanism("octaves", "A line", "Drag the *orange: number*.", "A line with numbers.", dict).todo_html
    'Drag the <b class="orange">number</b>.'
    """

    name: str
    title: str
    todo: str
    alt: str
    data: Callable[[], dict[str, Any]] = field(repr=False)

    def __post_init__(self) -> None:
        if not self.alt.strip().endswith("."):
            raise ValueError(f"alt text must be one or two full sentences, got {self.alt!r}")

    @property
    def todo_html(self) -> str:
        """The sentence above the picture, as HTML."""
        text = re.sub(r"\*(orange|blue|green): (.+?)\*", r'<b class="\1">\2</b>', html.escape(self.todo, quote=False))
        return re.sub(r"\*(.+?)\*", r"<b>\1</b>", text)

    @property
    def script(self) -> str:
        """The module of JavaScript that draws it, in notebooks and on the site: the frame and the mechanism's own."""
        parts = (_STATIC / "keep_keys.js", _HERE / "frame.js", _HERE / f"{self.name}.js")
        return "\n".join(part.read_text(encoding="utf-8") for part in parts)

    def content(self) -> dict[str, Any]:
        """What the browser gets: plain data."""
        return {
            "name": self.name,
            "title": self.title,
            "todo": self.todo_html,
            "alt": self.alt,
            "colours": COLOURS,
            "data": self.data(),
        }


def fraction_text(value: float) -> str:
    """A number that is not negative: below 1 as a fraction.

    >>> fraction_text(36.0), fraction_text(1.125), fraction_text(3 / 512)
    ('36', '1.125', '3/512')
    """
    return f"{value:g}" if value >= 1 or value == 0 else str(Fraction(value))


class MechanismView(anywidget.AnyWidget):
    """A mechanism in a notebook. Once it is drawn, it needs no kernel.

    Args:
        mechanism: what to show.
    """

    _esm = traitlets.Unicode().tag(sync=True)
    _css = (_HERE / "frame.css").read_text(encoding="utf-8")
    content = traitlets.Dict(help="What the browser looks up and draws.").tag(sync=True)

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism
        super().__init__(_esm=mechanism.script, content=mechanism.content())
