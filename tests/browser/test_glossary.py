"""A word at the end of a lab leads into the glossary, shown as a page, and from there into a lab."""

import json
import shutil
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser
PROJECT = Path(__file__).parents[2]
LAB = "09_send_what_matters.ipynb"
SHOWN = "path => jupyterapp.shell.currentWidget?.context?.path === path"
IN_VIEW = """() => {
  const shown = document.querySelector('.jp-MarkdownViewer');
  const word = shown?.querySelector('[data-jupyter-id=residual]');
  if (!word) return false;
  const [top, page] = [word.getBoundingClientRect().top, shown.getBoundingClientRect()];
  return top > page.top - 10 && top < page.bottom;
}"""


@pytest.fixture
def page(chromium, jupyter):
    """The last words of a lab, open in JupyterLab as start.py opens it: at the folder above labs/."""
    for folder in ("docs", "labs"):
        (jupyter.root / folder).mkdir()
    shutil.copy(PROJECT / "docs/glossary.md", jupyter.root / "docs")
    book = json.loads((PROJECT / "labs" / LAB).read_text("utf-8"))
    book["cells"] = [cell for cell in book["cells"] if "glossary.md" in "".join(cell["source"])]
    (jupyter.root / "labs" / LAB).write_text(json.dumps(book), "utf-8")
    context = chromium.new_context(viewport={"width": 1440, "height": 1000})
    page = context.new_page()
    page.set_default_timeout(60_000)
    # a workspace of its own: JupyterLab opens again what was open in a workspace, and these files will be gone
    page.goto(
        f"{jupyter.url}/lab/workspaces/words/tree/labs/{LAB}?token={jupyter.token}", wait_until="domcontentloaded"
    )
    yield page
    page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext?.shutdown()")
    context.close()
    for folder in ("docs", "labs"):
        shutil.rmtree(jupyter.root / folder)


def test_a_word_opens_the_glossary_as_a_page_at_its_entry_and_back(page):
    page.locator(".jp-Notebook a[href*='/files/docs/glossary.md']", has_text="residual").click()
    page.wait_for_function(SHOWN, arg="docs/glossary.md")
    page.wait_for_function(IN_VIEW)
    entry = page.locator(".jp-MarkdownViewer p", has=page.locator("[data-jupyter-id=residual]"))
    assert entry.locator("strong").inner_text() == "residual"
    entry.locator("a", has_text="09").click()
    page.wait_for_function(SHOWN, arg=f"labs/{LAB}")
