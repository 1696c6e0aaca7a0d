"""Fixtures of the browser tests: one JupyterLab and one browser for all, a notebook for each."""

import importlib.util
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

# the tests are no package (import mode importlib), so the helper beside this file is loaded by its path
_spec = importlib.util.spec_from_file_location("lplab_browser_lab", Path(__file__).with_name("lab.py"))
lab_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(lab_module)


@pytest.fixture(scope="session")
def browser_path() -> str:
    path = lab_module.find_browser()
    if not path:
        pytest.skip("no Chromium, Chrome or Edge found (LPLAB_BROWSER is not set)")
    return path


@pytest.fixture(scope="session")
def chromium(browser_path: str) -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    flags = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking", "--force-color-profile=srgb"]
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=browser_path, args=flags)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def jupyter(browser_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    lab = lab_module.Lab(tmp_path_factory.mktemp("jupyter"))
    yield lab
    lab.stop()


@pytest.fixture(scope="module")
def open_notebook(chromium: Any, jupyter: Any) -> Iterator[Callable[..., Any]]:
    """Open a notebook of cells; when the module's tests are over, nothing may have failed unseen in any."""
    opened = []

    def open_(*cells: str, **context: Any) -> Any:
        opened.append(lab_module.Notebook(jupyter, chromium, list(cells), **context))
        return opened[-1]

    yield open_
    for notebook in opened:
        notebook.close()


@pytest.fixture
def open_lab(chromium: Any, jupyter: Any) -> Iterator[Callable[[Path, float], Any]]:
    """Open a lab as it comes, without the outputs that are stored in it; afterwards nothing may have failed unseen."""
    opened = []

    def open_(path: Path, seconds: float) -> Any:
        book = json.loads(path.read_text("utf-8"))
        for cell in book["cells"]:
            if cell["cell_type"] == "code":
                cell.update(outputs=[], execution_count=None)
        opened.append(lab_module.Notebook(jupyter, chromium, book, seconds))
        return opened[-1]

    yield open_
    for notebook in opened:
        notebook.close()
