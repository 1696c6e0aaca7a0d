"""Mechanisms on a page without a kernel, made of what the site is made of; and pictures of one, to look at.

    python -m tests.browser.mechanism_pages octaves --out pictures [--do "page.keyboard.press('End')"]

writes a picture at 390, 760 and 1366 pixels, light and dark. What `--do` says is done first, with the picture's first
handle in focus.
"""

import argparse
import functools
import http.server
import importlib.util
import shutil
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.browser.lab import find_browser

PROJECT = Path(__file__).parents[2]
WIDTHS = (390, 760, 1366)
THEMES = """<style>
:root { --pst-color-text-base: #222; --pst-color-background: #fff; --pst-color-text-muted: #555; }
[data-theme=dark] { --pst-color-text-base: #e6e6e6; --pst-color-background: #111; --pst-color-text-muted: #aaa; }
body { background: var(--pst-color-background); margin: 16px; font-family: system-ui; }
</style>"""


def module_of_the_site(name: str) -> ModuleType:
    """A module of docs/_ext, which is no package."""
    folder = PROJECT / "docs/_ext"
    sys.path.insert(0, str(folder))
    try:
        spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module


def write_pages(folder: Path) -> None:
    """A page for each mechanism, ``name.html``, with the site's own scripts and style sheets."""
    from lplab.widgets.mechanisms import MECHANISMS, mechanism

    static = folder / "static"
    module_of_the_site("build_site").stage_scripts(static)
    for path in (PROJECT / "docs/_static").iterdir():
        shutil.copy(path, static)
    shown = module_of_the_site("recorded").shown
    for name in MECHANISMS:
        sheets = "".join(f"<link rel=stylesheet href=static/{sheet}.css>" for sheet in ("mechanisms", "site"))
        (folder / f"{name}.html").write_text(
            f"<!doctype html><html><meta charset=utf-8><link rel=icon href=data:,>{sheets}{THEMES}"
            "<meta name=viewport content='width=device-width'>"
            f"<body>{shown(mechanism(name))}<script type=module src=static/recorded.js></script>",
            "utf-8",
        )


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves the pages, and says nothing."""

    def log_message(self, *_: Any) -> None:
        pass


def serve(folder: Path) -> http.server.ThreadingHTTPServer:
    """Serve a folder at the loopback address; the caller shuts it down."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def main() -> None:
    """Write pictures of a mechanism."""
    import tempfile

    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(
        "python -m tests.browser.mechanism_pages", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("name")
    parser.add_argument("--out", type=Path, default=Path("pictures"))
    parser.add_argument("--do", default="", help="lines of Python with `page` and `one`, the mechanism's element")
    parser.add_argument("--as", dest="suffix", default="", help="a word for the names of the pictures")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        write_pages(Path(folder))
        server = serve(Path(folder))
        browser = driver.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        for width in WIDTHS:
            for theme in ("light", "dark"):
                page = browser.new_page(
                    viewport={"width": width, "height": 600}, device_scale_factor=1.5 if width < 760 else 1
                )
                page.on("console", lambda message: print(message.text))
                page.on("pageerror", lambda error: print(error))
                page.goto(f"http://127.0.0.1:{server.server_port}/{args.name}.html")
                page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
                one = page.locator(".lp-mechanism[data-shown]")
                one.wait_for()
                if args.do:
                    one.locator(".lp-handle").first.focus()
                    exec(args.do.replace("\\n", "\n"), {"page": page, "one": one})
                page.wait_for_timeout(500)
                path = args.out / f"{args.name}{args.suffix}-{width}-{theme}.png"
                one.screenshot(path=path)
                page.close()
        browser.close()
        server.shutdown()


if __name__ == "__main__":
    main()
