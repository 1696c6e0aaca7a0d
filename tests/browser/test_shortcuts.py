"""Jupyter's shortcuts with the focus on a control of lplab: all work but those that the control uses itself."""

import pytest

pytestmark = pytest.mark.browser

CELLS = (
    "import ipywidgets\nfrom lplab.exercises import check\nfrom lplab.widgets import BitPanel, Prediction\n"
    "from lplab.widgets.controls import ControlGroup",
    "ipywidgets.HTML('<button>plain</button><input>').add_class('plain')",
    "slider = ipywidgets.IntSlider(2, 0, 5)\nrest = [ipywidgets.Dropdown(options=['b', 'd']), ipywidgets.Text()]\n"
    "ipywidgets.VBox([slider, *rest, ControlGroup()]).add_class('lp-controls').add_class('ours')",
    "panel = BitPanel('e4m3fn'); panel",
    "def midpoint(low, high):\n    return low\n\ncheck('00.1', midpoint)",
    "Prediction('Which?', ['few', 'most'], answer='most')",
    "last = 1",
)
BUTTON, TEXT = ".plain button", ".plain input"  # Jupyter gets all keys of these
OURS = {
    ".ours [role=slider]": BUTTON,
    ".ours select": BUTTON,
    ".ours input": TEXT,
    ".lp-bit[tabindex='0']": BUTTON,
    ".lp-bits input": TEXT,
    ".lp-check button": BUTTON,
    ".lp-prediction input": BUTTON,
}
# What Jupyter calls at each sequence of keys that it knows; it calls nothing in truth. F8 ends a half sequence.
PRESS = """async selector => {
  const {commands} = jupyterapp, called = {};
  const names = {Ctrl: 'ctrlKey', Alt: 'altKey', Shift: 'shiftKey', Cmd: 'metaKey'};
  const codes = {Enter: 13, Escape: 27, Backspace: 8, Tab: 9, End: 35, Home: 36, ArrowLeft: 37, ArrowUp: 38,
    ArrowRight: 39, ArrowDown: 40, Delete: 46, '=': 187, ',': 188, '-': 189, '.': 190, '/': 191, '[': 219,
    '\\\\': 220, ']': 221, "'": 222};
  commands.execute = async (command, {_luminoEvent}) => { called[_luminoEvent.keys.join(', ')].push(command); };
  const press = keystroke => {
    const parts = keystroke.split(' '), key = parts.pop();
    const keyCode = codes[key] ?? (/^F\\d/.test(key) ? 111 + Number(key.slice(1)) : key.charCodeAt());
    const held = Object.fromEntries(parts.map(part => [names[part], true]));
    const typed = key.length === 1 && !held.shiftKey ? key.toLowerCase() : key;
    const options = {key: typed, keyCode, ...held, bubbles: true, cancelable: true};
    const control = document.activeElement;
    for (const type of ['keydown', 'keyup']) control.dispatchEvent(new KeyboardEvent(type, options));
  };
  document.querySelector(selector).focus();
  for (const binding of commands.keyBindings) {
    const keys = binding.keys.join(', ');
    if (!keys || called[keys]) continue;
    called[keys] = [];
    [...binding.keys, 'F8'].forEach(press);
  }
  await new Promise(done => setTimeout(done, 200));
  delete commands.execute;
  return called;
}"""
LISTEN = """early => {
  document.removeEventListener('keydown', jupyterapp, !early);
  document.addEventListener('keydown', jupyterapp, early);
}"""


@pytest.fixture(scope="module")
def notebook(open_notebook):
    notebook = open_notebook(*CELLS)
    for control in (BUTTON, *OURS):
        notebook.page.locator(control).first.wait_for()
    return notebook


@pytest.mark.parametrize("early", [False, True], ids=["JupyterLab", "Notebook 7"])
def test_every_shortcut_that_a_control_does_not_use_works(notebook, early):
    """JupyterLab hears keys after the control has, Notebook 7 before it does."""
    page = notebook.page
    page.evaluate(LISTEN, early)
    called = {control: page.evaluate(PRESS, control) for control in (BUTTON, TEXT, *OURS)}
    page.evaluate(LISTEN, False)
    for control, plain in OURS.items():
        for keys, commands in called[plain].items():
            first = keys.split(", ")[0]
            own = not first.startswith(("Ctrl", "Alt", "Escape", "F", "Shift F")) and first != "Shift Enter"
            own |= plain == TEXT and keys in {"Ctrl Z", "Ctrl Y", "Ctrl Shift Z"}
            assert called[control][keys] == ([] if own else commands), (control, keys)
    for keys in ("Ctrl S", "Shift Enter", "Ctrl Enter", "Ctrl Shift C", "B", "D, D", "0, 0"):
        assert called[BUTTON][keys], f"Jupyter does nothing at {keys}, so this test shows nothing"


def test_keys_of_a_real_keyboard(notebook):
    page, cells = notebook.page, notebook.page.locator(".jp-Cell").count()
    dirty = "() => jupyterapp.shell.currentWidget.context.model.dirty"
    page.evaluate("() => { jupyterapp.shell.currentWidget.context.model.dirty = true; }")
    notebook.python("slider.set_trait('value', 2)")
    page.locator(".ours [role=slider][aria-valuenow='2.0']").focus()
    for key in ("b", "d", "d", "x", "ArrowRight", "Control+s", "Control+Shift+ArrowLeft"):
        page.keyboard.press(key)
    notebook.becomes("slider.value", 3)
    notebook.sees(dirty, False)
    text = page.locator(".lp-bits input")
    text.focus()
    page.keyboard.press("b")
    page.keyboard.press("Control+z")
    assert text.input_value() == ""
    notebook.python("panel.set_trait('pattern', 0)")
    page.keyboard.type("1")
    page.keyboard.press("Shift+Enter")
    assert notebook.python("panel.pattern") == 0, "Enter encodes the number; with Shift it runs the cell"
    assert page.locator(".jp-Cell").count() == cells
    assert not page.locator("[data-lm-suppress-shortcuts]").count()
