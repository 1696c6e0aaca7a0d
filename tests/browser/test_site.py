"""The site: made by one command, its links hold, and in a real browser it moves, without a kernel and a network."""

import functools
import http.server
import importlib.util
import re
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlparse

import pytest

import lplab

PROJECT = Path(__file__).parents[2]
MEGABYTES = 60
LAB = "labs/05_why_sums_break_first.html"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site with one lab executed; the others have their stored outputs."""
    for needed in ("sphinx", "myst_nb", "pydata_sphinx_theme", "sphinx_design"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"no {needed}: it is of the extra `site`, which `start.py test --all` installs")
    folder = tmp_path_factory.mktemp("site")
    script = str(PROJECT / "docs/_ext/build_site.py")
    command = [sys.executable, script, "--build-only", "--labs=05", f"--folder={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in (done.stdout + done.stderr).replace("[IPKernelApp] WARNING", ""), done.stderr
    return folder / "html"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address(pages: Path) -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(pages))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def open_page(chromium: Any, address: str) -> Iterator[Any]:
    """Open a page with all addresses but the site's closed; afterwards none was asked for, and nothing had failed."""
    contexts, outside, errors = [], [], []

    def open_(path: str, width: int = 1440, scheme: str = "light", **options: Any) -> Any:
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **options)
        contexts.append(context)

        def refuse(route: Any) -> None:
            outside.append(route.request.url)
            route.abort()

        context.route(lambda url: not url.startswith((address, "data:", "blob:")), refuse)
        page = context.new_page()
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(address + path)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert outside == [] and errors == []


# ---- the files -------------------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """Addresses that a page leads to or loads, and its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.images_without_text = 0
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.links |= {given[name] or "" for name in ("href", "src") if name in given}
        self.anchors |= {given[name] or "" for name in ("id", "name") if name in given}
        self.images_without_text += tag == "img" and not given.get("alt")


def html_files(pages: Path) -> list[Path]:
    """The pages; the theme keeps a template of its own among its styles."""
    return [path for path in pages.rglob("*.html") if "_static" not in path.parts]


def test_every_link_leads_to_a_page_and_a_place_that_are_there(pages):
    found = {path.relative_to(pages).as_posix(): Page(path) for path in html_files(pages)}
    assert len(found) > 60
    broken = []
    for name, page in found.items():
        for link in page.links:
            parts = urlparse(urljoin(f"http://site/{name}", link))
            if parts.netloc != "site" or parts.scheme != "http" or link in ("#", ""):
                continue
            target = unquote(parts.path).lstrip("/") or "index.html"
            fragment = unquote(parts.fragment)
            lost = fragment and target in found and fragment not in found[target].anchors
            if lost or not (pages / target).is_file():
                broken.append(f"{name}: {link}")
    assert broken == []


def test_every_picture_has_a_text(pages):
    without = [path.name for path in html_files(pages) if Page(path).images_without_text]
    assert without == []


def test_the_site_is_small_and_has_plotly_once(pages):
    sizes = {path: path.stat().st_size for path in pages.rglob("*") if path.is_file()}
    assert sum(sizes.values()) < MEGABYTES * 1e6
    assert [path.name for path, size in sizes.items() if size > 2e6 and path.suffix == ".js"] == ["plotly.min.js"]


def test_the_reference_has_every_public_name(pages):
    for package in lplab.__all__:
        module = getattr(lplab, package)
        anchors = Page(pages / "api" / f"{package}.html").anchors
        public = [name for name in module.__all__ if callable(getattr(module, name))]
        assert public and [name for name in public if f"lplab.{package}.{name}" not in anchors] == [], package


# ---- in a browser ----------------------------------------------------------------------------------------------------


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (390, "dark"), (820, "dark"), (1440, "light")])
def test_pages_fit_and_follow_the_theme(open_page, width, scheme):
    for path in ("index.html", LAB, "api/formats.html", "docs/claims.html", "docs/glossary.html"):
        page = open_page(path, width, scheme)
        page.evaluate("document.querySelectorAll('details').forEach(each => (each.open = true))")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert all(int(part) > 128 for part in re.findall(r"\d+", ground)[:3]) == (scheme == "light"), path
        page.context.close()


@pytest.mark.browser
def test_the_first_page_moves_until_it_is_paused(open_page):
    page = open_page("index.html")
    value = page.locator(".lp-hero .lp-bits-value")
    before = value.inner_text()
    page.wait_for_function("old => document.querySelector('.lp-hero .lp-bits-value').textContent !== old", arg=before)
    page.get_by_role("button", name="Pause").click()
    still = value.inner_text()
    page.wait_for_timeout(2000)
    assert value.inner_text() == still


@pytest.mark.browser
def test_the_first_pages_panel_computes_by_mouse_and_keyboard(open_page):
    page = open_page("index.html", reduced_motion="reduce")
    value = page.locator(".lp-hero .lp-bits-value")
    page.locator(".lp-hero input").fill("0.3")
    page.keyboard.press("Enter")
    assert value.inner_text() == "0.3125"
    page.get_by_role("combobox", name="Format").select_option("e2m1")
    sign = page.get_by_role("switch", name="sign bit")
    assert value.inner_text() == "0.5"
    sign.focus()
    page.keyboard.press("1")
    assert value.inner_text() == "−0.5"
    page.get_by_role("button", name="above").click()
    assert value.inner_text() in ("0", "−0")


@pytest.mark.browser
@pytest.mark.parametrize("width", [360, 390, 820, 1440])
def test_the_first_tap_on_a_moving_panel_flips_the_bit_and_moves_nothing(open_page, width):
    page = open_page("index.html", width=width)
    bit = page.get_by_role("switch", name="sign bit")
    before, where = bit.get_attribute("aria-checked"), bit.bounding_box()
    bit.click()
    assert bit.get_attribute("aria-checked") != before and bit.bounding_box() == where
    page.get_by_role("button", name="Move by itself").wait_for()


@pytest.mark.browser
def test_an_explorer_shows_the_positions_of_its_questions_and_its_figure_lives(open_page):
    page = open_page(LAB)
    page.locator(".lp-veil > summary").first.click()
    explorer = page.locator(".lp-recorded").first
    figure = explorer.locator(".lp-fig").first
    explorer.locator(".lp-fig[data-drawn]").first.wait_for()
    heading = figure.locator(".lp-fig-title")
    assert heading.inner_text().startswith("Sum 1,024 of 65,536")
    for _ in range(2):
        explorer.get_by_role("button", name="Next").click()
    assert "Question 3 of 7." in explorer.inner_text()
    explorer.get_by_role("button", name="Set the controls").click()
    assert explorer.locator(".lp-setting", has_text="chunk").locator("output").inner_text() == "32"
    page.wait_for_function("() => !document.querySelector('.lp-fig-title').textContent.startsWith('Sum 1,024')")
    explorer.get_by_text("Show the answer").locator("visible=true").click()
    assert "Chunks of 32 hold." in explorer.inner_text()
    figure.locator(".nsewdrag").first.hover()
    figure.locator(".hovertext").first.wait_for()
    assert re.search(r"\d", figure.locator(".hovertext").first.text_content())
    explorer.get_by_role("button", name="As it opens").click()
    page.wait_for_function("() => document.querySelector('.lp-fig-title').textContent.startsWith('Sum 1,024')")


SEEN = """place => {
  const { top, bottom, height } = place.getBoundingClientRect();
  return (Math.min(bottom, innerHeight) - Math.max(top, 0)) / height;
}"""


@pytest.mark.browser
def test_on_a_small_screen_a_button_shows_the_figure_that_it_changes(open_page):
    """The figure stood below all controls, out of sight of who pressed a button at the lower edge."""
    page = open_page(LAB, width=390)
    page.locator(".lp-veil > summary").first.click()
    explorer = page.locator(".lp-recorded").first
    figure = explorer.locator(".lp-fig").first
    explorer.locator(".lp-fig").first.scroll_into_view_if_needed()
    explorer.locator(".lp-fig[data-drawn]").first.wait_for()
    title = explorer.locator(".lp-fig-title").first
    presets = explorer.locator(".lp-presets button")
    for _ in range(2):
        explorer.get_by_role("button", name="Next").locator("visible=true").click()
    for button in (explorer.get_by_role("button", name="Set the controls").locator("visible=true"), presets.nth(0)):
        before = title.inner_text()
        button.evaluate("one => window.scrollBy(0, one.getBoundingClientRect().bottom - innerHeight + 4)")
        page.wait_for_timeout(300)
        assert figure.evaluate(SEEN) < 0.5, "the button is at the lower edge, the figure below it"
        button.click()
        page.wait_for_function("old => document.querySelector('.lp-fig-title').textContent !== old", arg=before)
        page.wait_for_timeout(600)
        assert figure.evaluate(SEEN) >= 0.5 and button.evaluate(SEEN) == 1


@pytest.mark.browser
def test_a_question_that_needs_no_move_says_so_and_one_thought_opens_all_that_it_hides(open_page):
    page = open_page(LAB)
    veils = page.locator(".lp-veil")
    assert veils.count() > 1 and veils.evaluate_all("all => all.filter(one => one.open).length") == 0
    heads = page.locator(".lp-veil > summary")
    same = heads.all_inner_texts().count(heads.first.inner_text())
    assert same > 1
    heads.first.click()
    page.wait_for_function(f"() => document.querySelectorAll('details.lp-veil[open]').length === {same}")
    explorer = page.locator(".lp-recorded").first
    explorer.get_by_role("button", name="Set the controls").locator("visible=true").click()
    told = explorer.locator("span[role=status]")
    assert told.inner_text() == "The controls stand there already."
    explorer.get_by_role("button", name="Next").locator("visible=true").click()
    explorer.get_by_role("button", name="Set the controls").locator("visible=true").click()
    assert told.text_content() == ""


@pytest.mark.browser
@pytest.mark.parametrize("path", ["api/compression.html", "api/training.html", "docs/claims.html"])
def test_words_of_long_pages_stay_within_a_small_screen(open_page, path):
    """Of the article, not of tables and programs, which scroll in themselves."""
    page = open_page(path, width=390)
    wide = page.evaluate("""() => [...document.querySelectorAll('.bd-article :is(p, dd, dt, li)')].filter(
        (one) => !one.closest('table, pre') && one.getBoundingClientRect().right > innerWidth + 1).length""")
    assert wide == 0


def test_lplab_can_be_downloaded_from_the_first_page(pages):
    start = (pages / "index.html").read_text("utf-8")
    if not (PROJECT / ".git").exists():
        assert "Download the repository" in start
        return
    assert re.search(r"<a href='lplab.zip' download>Download lplab</a> \(\d+ MB\)", start)
    names = zipfile.ZipFile(pages / "lplab.zip").namelist()
    assert {"lplab/start.py", "lplab/labs/README.md", "lplab/lplab/__init__.py"} <= set(names)


@pytest.mark.browser
def test_a_lab_says_how_to_open_it_for_real(open_page):
    page = open_page(LAB)
    note = page.locator(".admonition.note").first.inner_text()
    assert "python3 start.py" in note and "labs/05_why_sums_break_first.ipynb" in note
    page.locator(".lp-veil > summary").first.click()
    assert page.locator(".lp-recorded .lp-note").first.inner_text().endswith("opens the lab in JupyterLab.")


@pytest.mark.browser
@pytest.mark.parametrize(
    ("path", "names"), [("index.html", ["register", "beads", "shared_scale"]), (LAB, ["register"])]
)
def test_mechanisms_of_a_page_move(open_page, path, names):
    page = open_page(path, width=390)
    for name in names:
        one = page.locator(f".lp-mechanism[data-name={name}][data-shown]")
        one.wait_for()
        before = one.get_attribute("data-shown")
        one.get_by_role("slider").first.focus()
        page.keyboard.press("ArrowRight")
        assert one.get_attribute("data-shown") != before
    assert page.locator(".lp-mechanism").count() == len(names)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390


@pytest.mark.browser
def test_a_word_of_the_glossary_opens_where_it_stands(open_page):
    page = open_page(LAB)
    page.locator("#lp-word").wait_for(state="attached")
    page.locator("a[href*='glossary.html#accumulator']").first.hover()
    page.locator("#lp-word").wait_for()
    assert page.locator("#lp-word b").inner_text() == "accumulator"
    page.keyboard.press("Escape")
    assert page.locator("#lp-word").is_hidden()
