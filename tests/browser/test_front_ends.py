"""What other front ends than JupyterLab, and what a kernel that has ended, do to our widgets."""

import pytest

from lplab.widgets.controls import script

pytestmark = pytest.mark.browser

CELLS = (
    "import ipywidgets\nfrom lplab.widgets import Prediction\n"
    "question = Prediction('Which?', ['few', 'most'], answer='most'); question",
)
NOTE = "selector => getComputedStyle(document.querySelector(selector), '::before').content"
ERROR_COLOR = "selector => getComputedStyle(document.querySelector(selector)).getPropertyValue('--lp-error').trim()"


@pytest.fixture(scope="module")
def notebook(open_notebook):
    notebook = open_notebook(*CELLS)
    notebook.page.locator(".lp-prediction button").first.wait_for()
    return notebook


@pytest.mark.parametrize(
    ("mark", "dark"),
    [
        ("body.classList.add('vscode-dark')", True),
        ("document.documentElement.setAttribute('theme', 'dark')", True),
        ("body.classList.add('vscode-light')", False),
    ],
    ids=["VS Code", "Colab", "VS Code, light"],
)
def test_dark_themes_of_other_front_ends(notebook, mark, dark):
    """The marks are put on JupyterLab's page, in its light theme."""
    page = notebook.page
    page.evaluate("() => { const { body } = document; " + mark + "; }")
    try:
        assert page.evaluate(ERROR_COLOR, ".lp-prediction") == ("#ff8c5a" if dark else "#b02a00")
    finally:
        page.evaluate(
            "() => { document.body.classList.remove('vscode-dark', 'vscode-light');"
            " document.documentElement.removeAttribute('theme'); }"
        )


def test_controls_of_a_kernel_that_was_restarted_say_so(notebook):
    page = notebook.page
    assert page.evaluate(NOTE, ".lp-prediction") == "none"
    page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    notebook.sees(NOTE, '"No kernel answers here any more. In the notebook, run this cell again."', ".lp-prediction")
    assert page.locator(".lp-prediction").count() == 1
    # JupyterLab's debugger may lose its answer with the kernel
    notebook.window.errors[:] = [error for error in notebook.window.errors if "debugger state" not in error]


RENDER = """async source => {
  const url = URL.createObjectURL(new Blob([source], { type: 'text/javascript' }));
  const { default: view } = await import(url);
  const model = { get: () => ({}), set() {}, on() {}, off() {}, save_changes() {} };
  const scrolled = [];
  for (const [around, inside] of [['', ''], ['jp-Notebook', ''], ['jp-Notebook', 'jp-Cell']]) {
    const page = document.createElement('div');
    page.innerHTML = `<div class="${around}"><div class="${inside}"><section style="overflow-y: auto; height: 100px">` +
      '<div class="lp-controls" style="height: 500px"><p></p></div></section></div></div>';
    document.body.append(page);
    view.render({ model, el: page.querySelector('p') });
    await new Promise(done => setTimeout(done, 200));
    scrolled.push(getComputedStyle(page.querySelector('section')).overflowY);
    page.remove();
  }
  return scrolled;
}"""


def test_a_page_without_a_notebooks_panel_can_still_be_scrolled(notebook):
    """What scrolls outside of a cell is the page: Voila, VS Code, Colab and exported pages have no notebook's panel."""
    assert notebook.page.evaluate(RENDER, script("controls.js")) == ["auto", "auto", "visible"]
