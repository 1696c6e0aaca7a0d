"""What holds for every explorer: ends, bad values, presets, Reset, code, and names for keyboard and screen reader.

The explorers are those that `lplab.widgets` exports: a new one takes part by itself.
"""

import ast
import builtins
from copy import deepcopy
from dataclasses import fields
from functools import cache

import ipywidgets
import numpy as np
import pytest

from lplab import widgets
from lplab.figures.figure_display import as_plain_dicts, same
from lplab.widgets.controls import ControlGroup
from lplab.widgets.explorer_base import Explorer
from lplab.widgets.fields import Choice

EXPORTED = [getattr(widgets, name) for name in widgets.__all__]
EXPLORERS = {c.__name__: c for c in EXPORTED if isinstance(c, type) and issubclass(c, Explorer)}
FIELDS = [(name, field) for name, explorer in EXPLORERS.items() for field in explorer.state_class.controls()]
BAD = ("nonsense", 10**9, -1e9, float("nan"), [1], np.arange(3))
# Values that are allowed there, or give way to others: what a field's documentation says.
GIVES_WAY = {("PlaneExplorer", "tensor")}
TOLD = {"price"}  # changes the sentence and no figure
MIDDLE = {("ClipExplorer", "rule"), ("SumExplorer", "chunk")}  # whose two ends show what is shown at first
PRESETS = [(name, preset) for name, explorer in EXPLORERS.items() for preset in explorer.preset_fields]


@cache
def made(name):
    return EXPLORERS[name]()


@pytest.fixture
def explorer(request):
    """An explorer by its name, as it is at first."""
    explorer = made(request.param)
    explorer.reset()
    return explorer


def each(cases):
    """Parameters of a test: an explorer, and something of it."""
    return pytest.mark.parametrize(("explorer", "name"), cases, indirect=["explorer"])


every = pytest.mark.parametrize("explorer", EXPLORERS, indirect=True)


def pictures(explorer):
    """Traces and layout of each figure of an explorer."""
    return {name: as_plain_dicts(figure) for name, figure in explorer.figures.items()}


def ends_of(control):
    """The first and the last value of a control."""
    if hasattr(control, "options"):
        values = [option[1] if isinstance(option, tuple) else option for option in control.options]
        return values[0], values[-1]
    return (control.min, control.max) if hasattr(control, "min") else (not control.value, control.value)


def inside(widget):
    """A widget and all widgets in it."""
    yield widget
    for child in getattr(widget, "children", ()):
        yield from inside(child)


def test_there_are_seventeen_of_them():
    assert len(EXPLORERS) == 17 and all(c.__module__.startswith("lplab.widgets.explorers.") for c in EXPLORERS.values())


@every
def test_each_control_stands_on_the_page_once(explorer):
    assert set(explorer.controls) == {*explorer.state_class.controls(), *(["preset"] if explorer.no_preset else [])}
    shown = list(inside(explorer))
    for control in (*explorer.controls.values(), *explorer.preset_buttons.values(), *explorer.figures.values()):
        assert shown.count(control) == 1
    for common in (explorer.summary, explorer.error_line, explorer.code_line, explorer.reset_button):
        assert shown.count(common) == 1


@every
def test_keyboard_and_screen_reader_find_names(explorer):
    assert "lp-controls" in explorer._dom_classes, "keys stay in this group, and its sliders are named"
    assert sum(isinstance(widget, ControlGroup) for widget in explorer.children) == 1
    assert all(control.description for control in explorer.controls.values())
    for button in (widget for widget in inside(explorer) if isinstance(widget, ipywidgets.Button)):
        assert button.description and button.tooltip
    for line in (explorer.summary, explorer.error_line):
        assert "lp-live" in line._dom_classes
    assert all(figure.alt.endswith(".") for figure in explorer.figures.values())


@each(FIELDS)
def test_a_control_reaches_both_ends_and_reset_comes_back(explorer, name):
    start, control = explorer.position, explorer.controls[name]
    before = {field: each.value for field, each in explorer.controls.items()}
    drawn, is_hidden = deepcopy(pictures(explorer)), control.layout.display == "none"
    was_off, why, moves_a_figure = control.disabled, control.tooltip, False
    for value in ends_of(control):
        control.value = value
        assert control.value == value and explorer.error_line.value == "" and explorer.summary.value
        if name not in ("preset", "recording"):  # which show the name of something
            assert getattr(explorer.position, name) == value
        moves_a_figure |= not same(pictures(explorer), drawn)
    if (type(explorer).__name__, name) in MIDDLE:
        control.index = len(control.options) // 2
        moves_a_figure |= not same(pictures(explorer), drawn)
    assert moves_a_figure or is_hidden or ((was_off or name in TOLD) and why), "a control without effect says why"
    explorer.reset_button.click()
    assert explorer.position == start
    assert {field: each.value for field, each in explorer.controls.items()} == before


@each([case for case in FIELDS if case not in GIVES_WAY])
@pytest.mark.parametrize("value", BAD, ids=repr)
def test_a_bad_value_gets_one_clear_line_and_changes_nothing(explorer, name, value):
    start = explorer.position
    with pytest.raises(ValueError) as caught:
        explorer.set(**{name: value})
    message = str(caught.value)
    assert "\n" not in message and len(message) > 20
    assert name in message or repr(value) in message or str(value) in message
    assert explorer.position == start


@every
def test_an_unknown_field_is_refused(explorer):
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        explorer.set(colour="red")


@each(PRESETS)
def test_a_preset_sets_its_fields(explorer, name):
    wanted = explorer.preset_fields[name]
    if explorer.no_preset:
        explorer.preset.value = name
        assert explorer.preset.value == name
    else:
        explorer.preset_buttons[name].click()
    assert {field: getattr(explorer.position, field) for field in wanted} == dict(wanted)
    assert explorer.error_line.value == ""


@every
def test_copied_code_is_shown_and_follows_and_the_state_writes_itself(explorer):
    explorer.copy_button.click()
    text = explorer._control_group.clipboard["text"]
    compile(text, "copied", "exec")
    assert explorer.code_line.value.count("<br>") == len(text.splitlines()) - 1
    name = next(n for n, field in explorer.state_class.controls().items() if isinstance(field, Choice))
    explorer.controls[name].value = ends_of(explorer.controls[name])[1]
    state = explorer.position
    written = {f.name: getattr(state, f.name) for f in fields(state)}
    literals = {key: eval(repr(value)) for key, value in written.items() if key != "recording"}
    assert type(state)(**written | literals) == state
    explorer.reset()


@pytest.mark.parametrize("name", EXPLORERS)
def test_copied_code_brings_every_name_that_it_uses(name):
    """In a new notebook nothing is imported: the code must run there. (`x` may be a tensor of the reader.)"""
    explorer = made(name)
    explorer.reset()
    assert explorer.imports and "import " not in explorer._code(explorer.position), "imports are the explorer's"
    tree = ast.parse(explorer.copied_code(explorer.position))
    exec(
        compile(ast.Module([n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)], []), name, "exec"), {}
    )
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    imported = {alias.asname or alias.name for node in ast.walk(tree) for alias in getattr(node, "names", ())}
    known = imported | {node.id for node in names if isinstance(node.ctx, ast.Store)} | {*dir(builtins), "x"}
    assert imported and {node.id for node in names} <= known
