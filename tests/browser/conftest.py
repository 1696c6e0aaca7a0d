"""Fixtures of the browser tests: one JupyterLab, one browser and one window for all, a notebook for each file."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.lab import Lab, Notebook, Window, find_browser


@pytest.fixture(scope="session")
def browser_path() -> str:
    path = find_browser()
    if not path:
        pytest.skip("no Chromium, Chrome or Edge found: set LPLAB_BROWSER to the path of one")
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
    pytest.importorskip("jupyterlab", reason="JupyterLab is not installed")
    lab = Lab(tmp_path_factory.mktemp("jupyter"))
    yield lab
    lab.stop()


@pytest.fixture(scope="session")
def window(chromium: Any, jupyter: Any) -> Iterator[Any]:
    window = Window(jupyter, chromium)
    yield window
    window.discard()


@contextlib.contextmanager
def opening(window: Any, session: pytest.Session) -> Iterator[Callable[..., Any]]:
    """Open one notebook in the window; afterwards nothing may have failed unseen.

    Where a test failed, page and kernel may be in any state: the next notebook gets new ones.
    """
    opened, failed = [], session.testsfailed

    def open_(cells: list[str] | dict[str, Any], seconds: float, kernel: str = "cells") -> Any:
        assert not opened, "the window holds one notebook"
        opened.append(Notebook(window, cells, seconds, kernel))
        return opened[0]

    fine = False
    try:
        yield open_
        for notebook in opened:
            notebook.close()
        fine = bool(opened) and session.testsfailed == failed
    finally:
        if not fine:
            window.discard()


@pytest.fixture(scope="module")
def open_notebook(window: Any, request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Open a notebook of cells, in the kernel that such notebooks use one after the other."""
    with opening(window, request.session) as open_:
        yield lambda *cells: open_(list(cells), 60)


@pytest.fixture
def open_lab(window: Any, request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Open a lab as it comes, without the outputs that are stored in it, in a kernel of its own or one with a name."""

    def lab(path: Path) -> dict[str, Any]:
        book = json.loads(path.read_text("utf-8"))
        for cell in book["cells"]:
            if cell["cell_type"] == "code":
                cell.update(outputs=[], execution_count=None)
        return book

    with opening(window, request.session) as open_:
        yield lambda path, seconds, kernel="": open_(lab(path), seconds, kernel)
