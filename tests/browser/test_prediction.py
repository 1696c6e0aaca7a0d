"""Predictions and veils in JupyterLab, with the mouse and with the keyboard alone."""

import pytest

pytestmark = pytest.mark.browser

CELLS = (
    "import os, tempfile\nos.environ['LPLAB_PROGRESS'] = tempfile.mkdtemp() + '/progress.json'\n"
    "from lplab import figures\nfrom lplab.exercises import after_guess, predict\n"
    "from lplab.widgets import Prediction\nseen = []",
    "choice = Prediction('Which?', ['few', 'half', 'most'], answer='most')\n"
    "choice.on_reveal(lambda *pair: seen.append(pair))\nchoice",
    "number = Prediction('How much?', answer=5.88, unit='%'); number",
    "asked = predict('01.a'); asked",
    "veils = [after_guess('01.a', figures.DataTable({'codes': [n]}, caption=f'Table {n}')) for n in (1, 2)]; veils[0]",
    "veils[1]",
    "after_guess('02.a', figures.DataTable({'codes': [3]}, caption='Table 3'))",
    "wide = Prediction('How many, on a wide window?', answer=7.0, unit='%'); wide",
)


@pytest.fixture(scope="module")
def notebook(open_notebook):
    notebook = open_notebook(*CELLS)
    notebook.page.locator(".lp-prediction").nth(2).wait_for()
    notebook.page.locator(".lp-veil").nth(2).wait_for()
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
    box.get_by_role("button", name="Lock my guess").click()
    box.get_by_text("'much' is no number").wait_for()
    box.get_by_role("textbox").fill("12")
    box.get_by_role("button", name="Lock my guess").click()
    box.get_by_text("You said 12 %. It is 5.88 %").wait_for()
    box.locator(".textpoint", has_text="it is 5.88 %").wait_for()
    drawn, place = (box.locator(at).bounding_box() for at in (".js-plotly-plot .main-svg >> nth=0", ".lp-result"))
    assert drawn["y"] > place["y"]
    assert drawn["height"] <= 160
    notebook.becomes("number.guess", 12.0)
    for name in ("Lock my guess", "Skip"):
        assert box.get_by_role("button", name=name).is_disabled()


def test_veils_hide_until_the_question_is_skipped_with_the_keyboard_alone(notebook):
    page = notebook.page
    for number in (1, 2, 3):
        assert page.get_by_text(f"Table {number}", exact=True).count() == 0
    veil = page.locator(".lp-veil").first
    veil.locator("[aria-live]").first.wait_for(state="attached")  # a browser with other work is late
    veil.get_by_role("button", name="Show it without a guess").focus()
    page.keyboard.press("Enter")
    for number in (1, 2):
        page.get_by_text(f"Table {number}", exact=True).wait_for()
    page.locator(".lp-prediction").nth(2).get_by_text("You did not guess. It is: 55 codes.").wait_for()
    assert page.get_by_text("Table 3", exact=True).count() == 0, "it waits for another question"
    assert notebook.python("after_guess('01.a', figures.DataTable({'codes': [4]})).is_lifted"), (
        "what runs again is not veiled"
    )


def test_an_answer_gets_narrower_with_the_window(notebook):
    """An output that may not scroll kept the width of its figure, and the whole notebook scrolled sideways."""
    box = notebook.page.locator(".lp-prediction").nth(3)
    box.get_by_role("textbox").fill("5")
    box.get_by_role("button", name="Lock my guess").click()
    box.locator(".textpoint", has_text="it is 7 %").wait_for()
    beyond = """() => [...document.querySelectorAll('.lp-prediction')].map(box => {
        const cell = box.closest('.jp-Cell').getBoundingClientRect();
        return box.getBoundingClientRect().right <= cell.right + 1;
    })"""
    try:
        for width in (1000, 820):
            notebook.page.set_viewport_size({"width": width, "height": 1000})
            notebook.sees(beyond, [True] * 4, seconds=10)
    finally:
        notebook.page.set_viewport_size({"width": 1440, "height": 1000})
