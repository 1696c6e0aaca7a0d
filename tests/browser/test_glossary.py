"""A word at the end of a lab leads into the glossary, shown as a page, and from there into a lab."""

import json
import shutil
from pathlib import Path

import pytest

from lplab.widgets.glossary_words import GlossaryWords, words

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


# ---- entries that open where a word stands ---------------------------------------------------------------------------

LINKS = """<!doctype html><meta charset=utf-8><body style="margin: 40px">
<p><a href="../docs/glossary.md?_xsrf=1#bin">a bin</a>, <a href="https://site/docs/glossary.html#amax">amax</a>,
<a href="../docs/glossary.md#no-such-word">none</a> and <a href="#bin">another link</a></p>"""
EXPLAIN = """async ([script, words]) => {
  const module = await import(URL.createObjectURL(new Blob([script], {type: "text/javascript"})));
  for (let k = 0; k < 2; k += 1) module.default.render({model: {get: () => words}}); // as of two widgets
}"""


@pytest.fixture
def open_words(chromium):
    """A page with links, without a kernel."""
    contexts = []

    def open_(**options):
        contexts.append(chromium.new_context(viewport={"width": 390, "height": 300}, **options))
        page = contexts[-1].new_page()
        page.set_content(LINKS)
        page.evaluate(EXPLAIN, [str(GlossaryWords._esm), words()])
        page.add_style_tag(content=str(GlossaryWords._css))
        return page

    yield open_
    for context in contexts:
        context.close()


def test_a_word_shows_its_entry_to_the_pointer(open_words):
    page = open_words()
    box = page.locator("#lp-word")
    assert box.count() == 1 and box.is_hidden()
    page.get_by_role("link", name="a bin").hover()
    box.wait_for()
    assert box.inner_html() == words()["bin"]
    shown = box.bounding_box()
    assert shown["x"] >= 0 and shown["x"] + shown["width"] <= 390
    box.hover()
    page.wait_for_timeout(300)
    assert box.is_visible(), "the pointer may go over to the entry"
    page.mouse.move(380, 290)
    box.wait_for(state="hidden")
    for other in ("none", "another link"):
        page.get_by_role("link", name=other).hover()
        page.wait_for_timeout(250)
        assert box.is_hidden()


def test_a_word_shows_its_entry_to_keys_and_screen_readers_and_escape_closes_it(open_words):
    page = open_words()
    box, link = page.locator("#lp-word"), page.get_by_role("link", name="amax")
    page.keyboard.press("Tab")
    assert box.inner_html() == words()["bin"]
    page.keyboard.press("Tab")
    assert box.inner_html() == words()["amax"]
    assert link.get_attribute("aria-describedby") == "lp-word" and box.get_attribute("role") == "tooltip"
    page.keyboard.press("Escape")
    assert box.is_hidden() and link.get_attribute("aria-describedby") is None
    assert page.evaluate("() => document.activeElement.textContent") == "amax"


def test_a_tap_shows_the_entry_and_a_second_one_follows_the_link(open_words):
    page = open_words(has_touch=True, is_mobile=True)
    page.evaluate("() => addEventListener('click', event => { event.preventDefault(); globalThis.followed = true; })")
    box, link = page.locator("#lp-word"), page.get_by_role("link", name="a bin")
    link.tap()
    assert box.is_visible() and not page.evaluate("() => globalThis.followed")
    page.touchscreen.tap(200, 280)
    assert box.is_hidden()
    page.evaluate("() => (globalThis.followed = false)")
    link.tap()
    link.tap()
    assert box.is_hidden() and page.evaluate("() => globalThis.followed")


def test_a_question_of_a_lab_brings_the_words_into_its_notebook(open_lab, tmp_path):
    nbformat = pytest.importorskip("nbformat")
    book = nbformat.v4.new_notebook()
    link = "An [octave](../docs/glossary.md#octave) is the stretch from one power of two to the next."
    code = 'from lplab.exercises import predict\npredict("00.a")'
    book.cells = [nbformat.v4.new_markdown_cell(link), nbformat.v4.new_code_cell(code)]
    book.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path = tmp_path / "words.ipynb"
    nbformat.write(book, path)
    notebook = open_lab(path, 60)
    page = notebook.page
    page.locator("#lp-word").wait_for(state="attached")
    page.locator(".jp-Notebook a", has_text="octave").hover()
    page.locator("#lp-word").wait_for()
    assert page.locator("#lp-word").inner_html() == words()["octave"]
