"""Veils: hidden before a guess, shown once after it; what fails is said, and can be tried again."""

import ipywidgets
import plotly.graph_objects as go
import pytest

from lplab.figures import DataTable
from lplab.widgets import LiveFigure, Veil


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (ipywidgets.IntSlider(), ipywidgets.IntSlider),
        (go.Figure(), LiveFigure),
        (DataTable({"a": [1]}), ipywidgets.HTML),
        (lambda: DataTable({"a": [1]}), ipywidgets.HTML),
    ],
)
def test_the_content_comes_when_the_veil_is_lifted(content, kind):
    veil = Veil(content, "How many?")
    assert "Guess first: How many?" in veil.message.value
    assert not any(isinstance(child, kind) for child in veil.children[3:]) and not veil.is_lifted
    veil.button.click()
    assert veil.is_lifted and len(veil.children) == 1 and isinstance(veil.children[0], kind)


def test_a_function_is_called_once_and_only_when_it_is_needed():
    calls = []
    veil = Veil(lambda: calls.append(1) or go.Figure(), "?")
    assert calls == []
    veil.lift()
    first = veil.children
    veil.lift()
    assert calls == [1] and veil.children == first


def test_the_button_can_do_something_else():
    pressed = []
    veil = Veil(go.Figure(), "?", on_request=lambda: pressed.append(1))
    veil.button.click()
    assert pressed == [1] and not veil.is_lifted


def test_a_failure_is_said_and_can_be_tried_again():
    results = [ValueError("no numbers yet"), go.Figure()]

    def content():
        found = results.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    veil = Veil(content, "?")
    with pytest.raises(ValueError, match="no numbers yet"):
        veil.lift()
    assert "ValueError: no numbers yet" in veil.error_line.value and not veil.button.disabled
    veil.lift()
    assert veil.is_lifted and isinstance(veil.children[0], LiveFigure)


def test_what_cannot_be_shown_is_refused_at_once():
    with pytest.raises(TypeError, match="a widget, a figure, a table or a function that makes one is needed, got str"):
        Veil("text", "?")
