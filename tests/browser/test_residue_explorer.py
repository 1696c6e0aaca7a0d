"""What AdaComp sends and what stays, in JupyterLab: every control moved by hand, and a live run that Stop ends."""

import os

import pytest

pytestmark = pytest.mark.browser

CELLS = (
    "from lplab.widgets import ResidueExplorer, live_residues",
    "explorer = ResidueExplorer(); explorer",
    "live = live_residues(steps=2000, name='Train them'); live",
)
TITLES = "() => [...document.querySelectorAll('.lp-fig .gtitle')].map(e => e.textContent)"


@pytest.fixture(scope="module")
def notebook(open_notebook):
    notebook = open_notebook(*CELLS)
    notebook.page.wait_for_function("() => document.querySelectorAll('.lp-fig .gtitle').length === 3")
    return notebook


def shows(notebook, text):
    notebook.page.wait_for_function(f"text => ({TITLES})().some(title => title.includes(text))", arg=text)


def test_sliders_answer_to_keys(notebook):
    notebook.page.get_by_role("slider", name="bin").focus()
    notebook.page.keyboard.press("End")
    notebook.becomes("explorer.position.bin", 5000)
    shows(notebook, "Bins of 5,000: convolution sends 0.2 %")
    notebook.page.get_by_role("slider", name="step").focus()
    notebook.page.keyboard.press("ArrowRight")
    notebook.becomes("explorer.position.moment", 120)
    shows(notebook, "convolution, step 120, learner 0")


def test_lists_and_presets_answer_to_the_mouse(notebook):
    page = notebook.page
    page.get_by_label("layer", exact=True).select_option("dense")
    shows(notebook, "dense, step")
    page.get_by_label("threshold", exact=True).select_option("hard: maxima only (s = 1)")
    notebook.becomes("explorer.position.factor", 1.0)
    for name, bin in (("No bins", 1), ("500 everywhere", 500), ("AdaComp (2018)", "50 | 500")):
        page.get_by_role("button", name=name, exact=True).click()
        notebook.becomes("explorer.position.bin", bin)
        notebook.becomes("explorer.position.factor", 2.0)
    page.get_by_role("button", name="Local selection", exact=True).click()
    notebook.becomes("explorer.position.factor", 1.0)
    shows(notebook, "Bins of 50 | 500: dense sends 0.2 %")
    page.get_by_role("button", name="Copy as code").click()
    page.locator(".lp-code", has_text="course('dense', bin=None, factor=1)").wait_for()
    page.get_by_role("button", name="Reset", exact=True).click()
    notebook.becomes("explorer.position.layer", "convolution")


def test_a_live_run_draws_and_stops(notebook):
    page = notebook.page
    page.get_by_role("button", name="Train them", exact=True).click()
    page.wait_for_function(f"() => ({TITLES})().some(title => /^Step \\d+ of 2000: loss 2\\.\\d/.test(title))")
    if folder := os.environ.get("LPLAB_SHOTS"):
        page.wait_for_timeout(6000)
        page.screenshot(path=f"{folder}/live.png")
    page.get_by_role("button", name="Stop", exact=True).click()
    notebook.becomes("live.state", "stopped")
    assert 1 <= notebook.python("len(live.result())") < 2000
