"""A check in JupyterLab: the message is announced, the miss is drawn, hints and solution open by mouse and by key."""

import pytest

pytestmark = pytest.mark.browser

CELLS = (
    "from lplab.exercises import check, predict, progress_of",
    "import math\n\ndef round_e4m3(x):\n    return math.copysign(min(abs(x), 448.0), x)\n\ncheck('01.2', round_e4m3)",
    "def midpoint(low, high):\n    return (low + high) / 2\n\ncheck('00.1', midpoint)",
    "def midpoint(low, high):\n    while True:\n        pass\n\ncheck('00.1', midpoint)",
    "progress_of('00')",
)


@pytest.fixture(scope="module")
def notebook(open_notebook):
    notebook = open_notebook(*CELLS)
    notebook.page.locator(".lp-check").nth(2).wait_for(timeout=60_000)
    notebook.page.wait_for_timeout(300)
    return notebook


def test_a_miss_is_said_and_drawn(notebook):
    box = notebook.page.locator(".lp-check").first
    status = box.get_by_role("status").first
    assert "0.3" in status.inner_text() and "expected 0.3125" in status.inner_text()
    box.locator(".js-plotly-plot").wait_for()
    assert box.locator("[role=img], [aria-label]").count() >= 1


def test_hints_open_one_by_one_with_the_keyboard(notebook):
    page, box = notebook.page, notebook.page.locator(".lp-check").first
    hint = box.get_by_role("button", name="Hint 1 of 3")
    hint.focus()
    page.keyboard.press("Enter")
    box.get_by_text("Hint 1 of 3: Find the step").wait_for()
    box.get_by_role("button", name="Hint 2 of 3").press("Enter")
    box.get_by_text("Hint 2 of 3: ").wait_for()
    box.get_by_role("button", name="Hint 3 of 3").press("Enter")
    box.get_by_text("Hint 3 of 3: ").wait_for()
    assert box.get_by_role("button", name="Hint 3 of 3").is_disabled()


def test_the_solution_opens_on_request(notebook):
    box = notebook.page.locator(".lp-check").first
    box.get_by_role("button", name="Solution").click()
    box.get_by_text("is not passed yet").wait_for()
    box.get_by_role("button", name="Show it anyway").click()
    box.get_by_text("octave = max(math.frexp(size)[1] - 1, -6)").wait_for()
    assert box.get_by_text("def round_e4m3(x)").count() == 1, "once, and whole"


def test_a_pass_and_an_endless_loop(notebook):
    boxes = notebook.page.locator(".lp-check")
    assert "passes all checks" in boxes.nth(1).inner_text()
    assert boxes.nth(1).get_by_role("button").count() == 1
    assert "Stopped after 5 s of computing" in boxes.nth(2).inner_text()
    assert notebook.python("1 + 1") == 2  # the kernel lives
    bar = notebook.page.get_by_role("progressbar", name="Progress in lab 00")
    assert bar.get_attribute("aria-valuenow") == "1"
