"""Predictions in JupyterLab, with the mouse and with the keyboard alone."""

import pytest

pytestmark = pytest.mark.browser

CELLS = (
    "from lplab.widgets import Prediction\nseen = []",
    "choice = Prediction('Which?', ['few', 'half', 'most'], answer='most')\n"
    "choice.on_reveal(lambda *pair: seen.append(pair))\nchoice",
    "number = Prediction('How much?', answer=5.88, unit='%'); number",
)


@pytest.fixture(scope="module")
def notebook(open_notebook):
    notebook = open_notebook(*CELLS)
    notebook.page.locator(".lp-prediction").nth(1).wait_for()
    notebook.page.wait_for_timeout(300)
    return notebook


def test_choice_with_the_keyboard_alone(notebook):
    page, box = notebook.page, notebook.page.locator(".lp-prediction").first
    box.get_by_role("radio").first.focus()
    page.keyboard.press("Space")
    page.keyboard.press("ArrowDown")
    notebook.becomes("choice.box.value", "half")
    assert notebook.python("choice.outcome is None")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    box.get_by_text("You said: half. It is: most.").wait_for()
    notebook.becomes("seen", [("half", "most")])
    box.locator(".js-plotly-plot[aria-label='Of the answers few, half, most, you chose half; it is most.']").wait_for()
    assert box.get_by_role("radio").first.is_disabled()
    assert box.locator("[aria-live]").count() >= 1


def test_number_with_the_mouse(notebook):
    box = notebook.page.locator(".lp-prediction").nth(1)
    box.get_by_role("textbox").fill("much")
    box.get_by_role("button").click()
    box.get_by_text("'much' is no number").wait_for()
    box.get_by_role("textbox").fill("12")
    box.get_by_role("button").click()
    box.get_by_text("You said 12 %. It is 5.88 %").wait_for()
    box.locator(".textpoint", has_text="it is 5.88 %").wait_for()
    drawn, place = (box.locator(at).bounding_box() for at in (".js-plotly-plot .main-svg >> nth=0", ".lp-result"))
    assert drawn["y"] > place["y"]
    assert drawn["height"] <= 160
    notebook.becomes("number.guess", 12.0)
    assert box.get_by_role("button").is_disabled()
