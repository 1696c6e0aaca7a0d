"""One throw-away JupyterLab on the loopback address, and notebooks open in a real browser."""

import ast
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "apputils-extension/themes": {"theme": "JupyterLab Light", "adaptive-theme": False},
    "docmanager-extension/plugin": {"autosave": False},
    "notebook-extension/tracker": {"windowingMode": "none"},
}
IDLE_SECONDS = 1800
# How often plotly forgets all points of a figure, with which it begins a new drawing.
COUNT_NEW_DRAWINGS = """() => {
  window.lpDrawnAnew = 0;
  for (const plot of document.querySelectorAll('.js-plotly-plot')) {
    let points = plot.calcdata;
    const set = value => { window.lpDrawnAnew += value === undefined; points = value; };
    Object.defineProperty(plot, 'calcdata', {get: () => points, set, configurable: true});
  }
}"""
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")


def find_browser() -> str | None:
    """Return the browser in LPLAB_BROWSER (start.py sets it), or the first Chromium-like one on the PATH."""
    return os.environ.get("LPLAB_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)), None)


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Lab:
    """JupyterLab with a random token and its own settings, data and runtime folders under `folder`."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "notebooks"
        self.root.mkdir()
        self.token = secrets.token_hex(16)
        self.url = ""  # known when the server runs
        for plugin, values in SETTINGS.items():
            file = folder / "settings" / "@jupyterlab" / f"{plugin}.jupyterlab-settings"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(values))
        places = {
            "JUPYTER_CONFIG_DIR": "config",
            "JUPYTER_DATA_DIR": "data",
            "JUPYTER_RUNTIME_DIR": "runtime",
            "IPYTHONDIR": "ipython",
            "JUPYTERLAB_SETTINGS_DIR": "settings",
            "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        }
        self.runtime = folder / "runtime"
        self.log = folder / "lab.log"
        options = [
            "--no-browser",
            "--ip=127.0.0.1",
            f"--port={free_port()}",  # if another takes it meanwhile, JupyterLab looks for the next
            f"--IdentityProvider.token={self.token}",
            f"--ServerApp.root_dir={self.root}",
            "--LabApp.expose_app_in_browser=True",
            "--LabApp.extension_manager=readonly",
            # where the tests were killed, nobody stops the server: it ends by itself
            f"--MappingKernelManager.cull_idle_timeout={IDLE_SECONDS}",
            "--MappingKernelManager.cull_connected=True",
            f"--ServerApp.shutdown_no_activity_timeout={IDLE_SECONDS}",
            *(["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []),
        ]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "jupyterlab", *options],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.root,
                start_new_session=True,
                env={**os.environ, **{name: str(folder / place) for name, place in places.items()}},
            )
        self._wait()

    def _wait(self, seconds: float = 120) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            try:
                # the server writes down which port it has in the end
                (file,) = self.runtime.glob("jpserver-*.json")
                self.url = f"http://127.0.0.1:{json.loads(file.read_text('utf-8'))['port']}"
                urllib.request.urlopen(f"{self.url}/api/status?token={self.token}", timeout=2).close()
                return
            except (OSError, ValueError):  # not there yet, or half written
                time.sleep(0.1)
        self.stop()
        raise RuntimeError("JupyterLab did not start:\n" + self.log.read_text()[-2000:])

    def stop(self) -> None:
        """End the server and its kernels."""
        if self.process.poll() is None:
            if os.name == "posix":
                os.killpg(self.process.pid, signal.SIGTERM)
            else:
                self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()


# Widget callbacks that fail show nowhere in the page: listen to the kernel's own messages.
LISTEN = """() => {
  const panel = jupyterapp.shell.currentWidget;
  window.lpFailures = [];
  panel.sessionContext.iopubMessage.connect((_, message) => {
    const parent = message.parent_header?.msg_type;
    if (message.header.msg_type === 'error') lpFailures.push(message.content.ename + ': ' + message.content.evalue);
    if (message.header.msg_type === 'stream' && message.content.name === 'stderr' && parent !== 'execute_request')
      lpFailures.push(message.content.text);
  });
}"""
ASK = """async (expression) => {
  const kernel = jupyterapp.shell.currentWidget.sessionContext.session.kernel;
  const ask = {code: '', silent: true, store_history: false, user_expressions: {it: `repr(${expression})`}};
  return (await kernel.requestExecute(ask).done).content.user_expressions.it;
}"""
OPEN = """async (path) => {
  const panel = await jupyterapp.commands.execute('docmanager:open', {path, factory: 'Notebook'});
  await panel.revealed;
}"""
READY = """path => {
  const panel = window.jupyterapp?.shell.currentWidget;
  return panel?.context?.path === path && panel.sessionContext?.session?.kernel?.status === 'idle';
}"""
KERNEL = """() => {
  const kernel = jupyterapp.shell.currentWidget.sessionContext.session?.kernel;
  return kernel && {id: kernel.id, name: kernel.name};
}"""
CLOSE = """async () => {
  jupyterapp.shell.currentWidget.dispose();
  await new Promise(done => setTimeout(done, 100));
  return document.querySelectorAll('.jp-NotebookPanel, .jp-Dialog').length;
}"""
END_KERNEL = "() => jupyterapp.shell.currentWidget.sessionContext.shutdown()"
# The kernel goes on for the next notebook, without the widgets and variables of this one.
CLEAN_KERNEL = """async model => {
  const kernel = jupyterapp.serviceManager.kernels.connectTo({model, handleComms: false});
  const code = "import ipywidgets; ipywidgets.Widget.close_all(); get_ipython().run_line_magic('reset', '-f')";
  const reply = await kernel.requestExecute({code, store_history: false}).done;
  kernel.dispose();
  return reply.content.status;
}"""


# anywidget says this of a widget that takes more than two seconds to begin, as on a machine with other work; the widget
# goes on and is drawn (see lplab/widgets/live/live_figure.py), and what is drawn is what tests look at.
SLOW = "[anywidget] Failed to initialize model."
SIZE = {"width": 1440, "height": 1000}


class Window:
    """A page of JupyterLab in which notebooks are opened one after the other.

    Loading the page and starting a kernel take most of the time of a notebook. So the page stays, and so do kernels
    with a name: their notebooks have one file name, and JupyterLab gives a file that is opened again the kernel that it
    had.
    """

    def __init__(self, lab: Lab, browser: Any) -> None:
        self.lab, self.browser = lab, browser
        self.context: Any = None

    def load(self) -> None:
        """Load the page, at its first notebook or after `discard`."""
        self.outside: list[str] = []
        self.errors: list[str] = []
        self.names: dict[str, str] = {}  # of the notebooks that share a kernel
        self.context = self.browser.new_context(viewport=SIZE)
        self.context.route(lambda url: not url.startswith((self.lab.url, "data:", "blob:")), self._refuse)
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)  # a machine with two cores and other work
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def show(self, cells: list[str] | dict[str, Any], kernel: str) -> str:
        """Open a notebook in a kernel, "" for a new one; wait for it, and return the name of the notebook's file."""
        new = self.context is None
        if new:
            self.load()
        name = f"{secrets.token_hex(4)}.ipynb"
        if kernel:
            name = self.names.setdefault(kernel, name)
        write(self.lab.root / name, cells)
        if new:
            self.page.goto(f"{self.lab.url}/doc/tree/{name}?token={self.lab.token}", wait_until="domcontentloaded")
        else:
            self.errors.clear()  # figures complain that their notebook was closed under them
            self.page.set_viewport_size(SIZE)
            self.page.mouse.move(0, 0)
            self.page.evaluate(OPEN, name)
        self.page.wait_for_function(READY, arg=name, timeout=120_000)
        return name

    def discard(self) -> None:
        """Close the page: the next notebook gets a new one and a new kernel."""
        if self.context:
            self.context.close()
        self.context = None

    def _refuse(self, route: Any) -> None:
        self.outside.append(route.request.url)
        route.abort()


class Notebook:
    """A notebook of the given cells, or a whole one, open in a window and run from top to bottom."""

    def __init__(
        self, window: Window, cells: list[str] | dict[str, Any], seconds: float = 60, kernel: str = "cells"
    ) -> None:
        self.window, self.own_kernel = window, not kernel
        self.name = window.show(cells, kernel)
        self.page = window.page
        self.page.evaluate(LISTEN)
        self.page.evaluate("() => jupyterapp.commands.execute('notebook:run-all-cells')")
        self.page.wait_for_function(
            "() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === 'idle'",
            timeout=1000 * seconds,
        )

    def python(self, expression: str) -> Any:
        """Return the value, a literal, that a Python expression has in the notebook's kernel."""
        answer = self.page.evaluate(ASK, expression)
        assert answer["status"] == "ok", answer
        return ast.literal_eval(ast.literal_eval(answer["data"]["text/plain"]))

    def becomes(self, expression: str, value: Any, seconds: float = 30) -> None:
        """Wait until the Python expression has that value: a click needs a moment to reach the kernel."""
        end = time.monotonic() + seconds
        while (now := self.python(expression)) != value:
            assert time.monotonic() < end, f"{expression} is {now!r}, not {value!r}"
            self.page.wait_for_timeout(50)

    def sees(self, script: str, value: Any, argument: Any = None, seconds: float = 60) -> None:
        """Wait until a function of JavaScript gives that value on the page; if it never does, say what it gave."""
        end = time.monotonic() + seconds
        while (now := self.page.evaluate(script, argument)) != value:
            assert time.monotonic() < end, f"the page shows {now!r}, not {value!r}"
            self.page.wait_for_timeout(50)

    def theme(self, name: str) -> None:
        """Switch JupyterLab's theme: Light or Dark."""
        change = "name => jupyterapp.commands.execute('apputils:change-theme', {theme: `JupyterLab ${name}`})"
        self.page.evaluate(change, name)
        light = str(name == "Light").lower()
        self.page.wait_for_selector(f"body[data-jp-theme-light={light}]", state="attached")
        self.page.wait_for_timeout(300)

    def load_anew(self) -> None:
        """Load the page again, with the notebook as it was saved; the kernel goes on."""
        self.page.goto(f"{self.window.lab.url}/doc/tree/{self.name}", wait_until="domcontentloaded")
        self.page.wait_for_function(READY, arg=self.name, timeout=120_000)
        self.page.evaluate(LISTEN)

    def close(self) -> None:
        """Close the notebook, and fail if anything went wrong unseen."""
        reported = self.page.evaluate("() => window.lpFailures ?? []")
        # the kernel says this once, while the page looks for widgets of an earlier life
        failures = [text for text in reported if not text.startswith("No such comm")]
        if self.own_kernel:
            self.page.evaluate(END_KERNEL)
        errors = [error for error in self.window.errors if error != SLOW]
        kernel = self.page.evaluate(KERNEL)
        left = self.page.evaluate(CLOSE)
        if not self.own_kernel:
            assert self.page.evaluate(CLEAN_KERNEL, kernel) == "ok", "widgets and variables stay"
        assert not self.window.outside, f"the page asked the outside world: {self.window.outside}"
        assert not failures, f"a callback failed: {failures}"
        assert not errors, f"errors in the page: {errors}"
        assert not left, "the notebook or a dialog is still open"


def write(path: Path, cells: list[str] | dict[str, Any]) -> None:
    """Write a notebook of code cells, or a whole one."""
    path.write_text(json.dumps(cells if isinstance(cells, dict) else _of_cells(cells)), "utf-8")


def _of_cells(cells: list[str]) -> dict[str, Any]:
    made = [
        {"cell_type": "code", "id": f"c{k}", "metadata": {}, "outputs": [], "execution_count": None, "source": source}
        for k, source in enumerate(cells)
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
