"""Make the edition of the labs that runs in a browser alone, with JupyterLite; `start.py site --lite` calls this.

The edition holds the labs, lplab as a wheel, and the wheels of what Pyodide, Python for browsers, does not bring along.
Pyodide itself, numpy and pandas are no part of it: a browser that opens a lab fetches them from Pyodide's own address.
The first cell of each lab installs lplab there. What the labs can do without PyTorch, processes and threads is tested
in tests/labs/test_light_labs.py.
"""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOT_IN_PYODIDE = ("anywidget", "comm", "ipywidgets", "jupyterlab_widgets", "plotly", "psygnal")  # beside lplab itself
INSTALL = "%pip install -q lplab anywidget ipywidgets pandas plotly"
SETTINGS = {"jupyter-lite-schema-version": 0, "jupyter-config-data": {"appName": "lplab"}}
KERNEL = {"name": "python", "display_name": "Python (Pyodide)", "language": "python"}
NOTE = "This lab runs in your browser. The first cell fetches what it needs: some minutes the first time.\n\n"


def build_lite(folder: Path) -> Path | None:
    """Make the edition in a folder; where its tools are missing, say so in one line.

    Returns:
        The folder to publish, or None.

    Raises:
        RuntimeError: a tool that is there failed; the message is the end of what it printed.
    """
    missing = [name for name in ("jupyterlite_core", "jupyterlite_pyodide_kernel", "hatchling") if not found(name)]
    if missing:
        print(f"No edition for browsers: {', '.join(missing)} cannot be imported (pip install 'lplab[lite]').")
        return None
    shutil.rmtree(folder, ignore_errors=True)
    wheels, contents = folder / "pypi", folder / "files"  # where JupyterLite looks for wheels and for files
    contents.mkdir(parents=True)
    command("hatchling", "build", "-t", "wheel", "-d", str(wheels), cwd=ROOT)
    if left := [name for name in NOT_IN_PYODIDE if not fetched(name, wheels)]:
        print(f"No wheel of {', '.join(left)} can be had now: browsers will ask PyPI for it.", flush=True)
    for lab in sorted((ROOT / "labs").glob("[0-9][0-9]_*.ipynb")):
        book = for_browsers(json.loads(lab.read_text("utf-8")))
        (contents / lab.name).write_text(json.dumps(book, ensure_ascii=False), "utf-8")
    (folder / "jupyter-lite.json").write_text(json.dumps(SETTINGS), "utf-8")
    options = ["--apps", "lab", "--no-sourcemaps", "--contents", "files", "--output-dir", "edition"]
    command("jupyterlite_core", "build", *options, cwd=folder)
    return folder / "edition"


def for_browsers(book: dict) -> dict:
    """A lab with the cell that installs lplab in front of its first code, and what that means; the lab is changed."""
    book["metadata"]["kernelspec"] = KERNEL  # or the browser asks which one
    first = next(k for k, cell in enumerate(book["cells"]) if cell["cell_type"] == "code")
    book["cells"][first:first] = [
        {"cell_type": "markdown", "id": "browser-note", "metadata": {}, "source": NOTE},
        {"cell_type": "code", "id": "browser-install", "metadata": {}, "source": INSTALL, "outputs": [],
         "execution_count": None},
    ]  # fmt: skip
    return book


def fetched(name: str, wheels: Path) -> bool:
    """Whether a wheel for every platform could be had, in the version of constraints.txt."""
    options = ["--no-deps", "--only-binary=:all:", "--platform=any", "--implementation=py", "--python-version=3.13"]
    options += ["--constraint", str(ROOT / "constraints.txt"), "--dest", str(wheels), "--quiet"]
    try:
        command("pip", "download", *options, name, cwd=ROOT)
    except RuntimeError:
        return False
    return True


def command(module: str, *options: str, cwd: Path) -> None:
    """Run a Python module; RuntimeError with its last lines if it fails."""
    done = subprocess.run([sys.executable, "-m", module, *options], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{module} failed: " + "\n".join((done.stdout + done.stderr).splitlines()[-10:]))


def found(module: str) -> bool:
    """Whether a module can be imported."""
    return importlib.util.find_spec(module) is not None
