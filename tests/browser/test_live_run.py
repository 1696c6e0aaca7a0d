"""Work in the background, in JupyterLab: the notebook stays alive, Stop works while it runs; mouse and keyboard."""

import re

import pytest

pytestmark = pytest.mark.browser

CELLS = (
    "import time, numpy as np, plotly.graph_objects as go\nfrom lplab.widgets import LiveRun, TrainingExplorer",
    """def slow():
    for k in range(2000):
        time.sleep(0.02)
        yield k
def draw(got):
    return go.Figure(go.Scatter(y=np.sqrt(got)), dict(height=220, meta={'alt': f'{len(got)} steps'}))
run = LiveRun(slow, draw, total=2000, name='Count slowly', unit='step')
run""",
    "import ipywidgets\nslider = ipywidgets.IntSlider(max=20, description='k'); slider",
    "explorer = TrainingExplorer(); explorer",
    "live = explorer.live(); live",
    "def broken():\n    yield 1\n    raise ValueError('no way')\n"
    "wrong = LiveRun(broken, draw, total=3, name='Break')\nwrong",
)


@pytest.fixture(scope="module")
def notebook(open_notebook):
    notebook = open_notebook(*CELLS)
    notebook.page.wait_for_function("() => document.querySelectorAll('.lp-fig .cartesianlayer .subplot').length === 5")
    return notebook


def button(notebook, name):
    return notebook.page.get_by_role("button", name=name, exact=True)


def start_button(notebook, name):
    """The button that starts a run: its name says "again" after the first time, which another test may have been."""
    return notebook.page.get_by_role("button", name=re.compile(f"^{name}( again)?$"))


def test_stop_by_mouse_while_the_notebook_lives(notebook):
    page = notebook.page
    start_button(notebook, "Count slowly").click()
    plot = page.locator(".js-plotly-plot").first
    page.wait_for_function(
        "e => /^([5-9]|\\d\\d+) steps$/.test(e.getAttribute('aria-label'))", arg=plot.element_handle()
    )
    assert notebook.python("run.state") == "running", "the cell has returned and the kernel answers"
    page.locator("[role=slider]").first.focus()
    page.keyboard.press("ArrowRight")
    notebook.becomes("slider.value", 1)
    assert notebook.python("run.state") == "running"
    button(notebook, "Stop").first.click()
    notebook.becomes("run.state", "stopped")
    page.get_by_text("Stopped after").first.wait_for()
    done = notebook.python("len(run.result())")
    assert 5 <= done < 2000
    page.wait_for_function(
        "([e, n]) => e.getAttribute('aria-label') === `${n} steps`", arg=[plot.element_handle(), done]
    )


def test_start_and_stop_with_the_keyboard_alone(notebook):
    page = notebook.page
    start_button(notebook, "Count slowly").focus()
    page.keyboard.press("Enter")
    notebook.becomes("run.state", "running")
    page.wait_for_function(
        "() => [...document.querySelectorAll('button')].some(b => b.innerText === 'Stop' && !b.disabled)"
    )
    button(notebook, "Stop").first.focus()
    page.keyboard.press("Space")
    notebook.becomes("run.state", "stopped")
    assert page.locator(".lp-live[aria-live=polite]").count() >= 1


def test_an_error_is_seen_in_the_page(notebook):
    button(notebook, "Break").click()
    notebook.page.get_by_text("ValueError: no way (after 1 of 3 steps)").wait_for()
    assert notebook.python("wrong.state") == "failed"


def test_a_real_training_runs_and_stops(notebook):
    page = notebook.page
    button(notebook, "Train all rules here").click()
    plot = page.locator(".js-plotly-plot").nth(3)
    page.wait_for_function("e => e.getAttribute('aria-label').includes('After ')", arg=plot.element_handle())
    notebook.python("live.stop()")
    notebook.becomes("live.state in ('stopped', 'finished')", True)
    assert notebook.python("len(live.result())") >= 1


def test_the_explorer_answers_keys(notebook):
    page = notebook.page
    plot = page.locator(".js-plotly-plot").nth(1)
    marked = plot.locator(".shapelayer path").first
    before = marked.get_attribute("d")
    page.locator("[aria-label='fraction bits']").focus()
    page.keyboard.press("ArrowRight")
    notebook.becomes("explorer.position.fraction_bits", 7)
    page.wait_for_function("([e, old]) => e.getAttribute('d') !== old", arg=[marked.element_handle(), before])
    text = plot.get_attribute("aria-label")
    page.get_by_label("floor(x + ½)", exact=True).focus()
    page.keyboard.press("Space")
    notebook.becomes("'nearest_up' in explorer.position.rules", False)
    page.wait_for_function("([e, old]) => e.getAttribute('aria-label') !== old", arg=[plot.element_handle(), text])
