"""Home and End in a group of controls: they go to the ends that a slider has now, not to those that it began with."""

import pytest

pytestmark = pytest.mark.browser

CELLS = (
    "import ipywidgets\nfrom lplab.widgets.controls import ControlGroup",
    "number = ipywidgets.IntSlider(2, 0, 5, description='number')\n"
    "entry = ipywidgets.SelectionSlider(options=['a', 'b', 'c'], description='entry')\n"
    "box = ipywidgets.VBox([number, entry, ControlGroup()]).add_class('lp-controls'); box",
)


def test_ends_follow_the_range(open_notebook):
    notebook = open_notebook(*CELLS)
    number, entry = (notebook.page.locator(f"[role=slider][aria-label={name}]") for name in ("number", "entry"))
    entry.wait_for()
    notebook.python("number.set_trait('max', 9)")
    notebook.python("number.set_trait('min', 1)")
    notebook.python("entry.set_trait('options', tuple('abcdefg'))")
    for slider, ends in ((number, ("1", "9")), (entry, ("0", "6"))):
        notebook.sees("e => [e.getAttribute('aria-valuemin'), e.getAttribute('aria-valuemax')].map(parseFloat).join()",
                      ",".join(ends), slider.element_handle())  # fmt: skip
    for name, slider, first, last in (("number", number, 1, 9), ("entry", entry, "a", "g")):
        for key, value in (("End", last), ("Home", first), ("End", last)):
            slider.press(key)
            notebook.becomes(f"{name}.value", value)
