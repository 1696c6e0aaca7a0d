"""Runs a notebook as a browser would: with few packages, no other processes and no threads.

    python -m tests.labs.light_process    read folders from standard input, and run the lab.ipynb in each

Into the folder goes shown.jsonl: for each code cell what it shows, as a line of JSON. The answer is the exit code.

What can be imported besides Python's own modules and lplab: numpy, pandas, plotly, ipywidgets, anywidget, and what
these require. The cells run in IPython's shell in this very process, since a kernel would start threads: in a copy of
it, made by ``fork`` when all these are imported, which takes longer than many labs. Where there is no ``fork``, the
process runs one notebook and ends.
"""

import contextlib
import importlib
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

PACKAGES = ("numpy", "pandas", "plotly", "ipywidgets", "anywidget")
ABSENT = ("psutil", "torch", "numba", "filelock", "platformdirs", "resource", "fcntl", "_multiprocessing")
PROJECT = Path(__file__).parents[2]


class Without:
    """A finder of modules that does not find what is absent, as where it was never installed."""

    def __init__(self, finder: Any, absent: set[str]) -> None:
        self.finder, self.absent = finder, absent

    def __getattr__(self, name: str) -> Any:
        return getattr(self.finder, name)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """What the finder finds; None for what is absent."""
        return None if name.partition(".")[0] in self.absent else self.finder.find_spec(name, path, target)


def absent_packages() -> set[str]:
    """All top-level modules of other packages, and Python's own ones that a browser lacks."""
    present = {normal(name) for name in required(PACKAGES)} | {"lplab"}
    owners = importlib.metadata.packages_distributions()
    others = {top for top, names in owners.items() if not {normal(name) for name in names} & present}
    return others | set(ABSENT)


def required(names: tuple[str, ...]) -> set[str]:
    """The distributions of these names, and all that they require."""
    found: set[str] = set()
    todo = [normal(name) for name in names]
    while todo:
        if (name := todo.pop()) not in found:
            found.add(name)
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # for another system
                lines = importlib.metadata.requires(name) or []
                todo += [normal(re.split(r"[^\w.-]", line)[0]) for line in lines if "extra ==" not in line]
    return found


def normal(name: str) -> str:
    """The name of a distribution as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def take_away() -> None:
    """From now on: no other packages, no processes, no threads."""
    for name in ABSENT:
        sys.modules.pop(name, None)  # such as fcntl, which Python's own modules have loaded by now
    absent = absent_packages()
    sys.meta_path[:] = [Without(finder, absent) for finder in sys.meta_path]
    threading.Thread.start = no_thread  # type: ignore[method-assign]
    subprocess.Popen.__init__ = no_process  # type: ignore[method-assign, assignment]
    for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp", "system", "execv", "execve"):
        if hasattr(os, name):
            setattr(os, name, no_process)


def no_thread(*_: object) -> NoReturn:
    """What Pyodide says."""
    raise RuntimeError("can't start new thread")


def no_process(*_: object, **__: object) -> NoReturn:
    """What Pyodide says."""
    raise OSError(138, "emscripten does not support processes.")


def shown_cells(notebook: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Run the code cells: of each its id, what it prints, what it shows as text, and its error, if there is one."""
    import IPython
    from IPython.utils.capture import capture_output
    from traitlets.config import Config

    shell: Any = IPython.core.interactiveshell.InteractiveShell(config=Config(HistoryManager={"enabled": False}))
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        with capture_output() as captured:
            result = shell.run_cell("".join(cell["source"]), store_history=False)
        error = result.error_before_exec or result.error_in_exec
        texts = [output.data.get("text/plain", "") for output in captured.outputs]
        yield {
            "id": cell.get("id", ""),
            "printed": captured.stdout,
            "shown": texts,
            "error": f"{type(error).__name__}: {error}" if error else "",
        }


def run(folder: Path) -> int:
    """Run the notebook in a folder; 1 if a cell raised an error."""
    os.chdir(folder)
    os.environ["LPLAB_PROGRESS"] = str(folder / "none.json")
    failed = 0
    with (folder / "shown.jsonl").open("w", encoding="utf-8") as shown:
        for cell in shown_cells(json.loads((folder / "lab.ipynb").read_text("utf-8"))):
            failed |= bool(cell["error"])
            print(json.dumps(cell), file=shown, flush=True)
    return failed


def main() -> None:
    """Run notebooks until standard input ends."""
    fork = getattr(os, "fork", None)
    take_away()
    for name in ("IPython", *PACKAGES, "lplab.exercises", "lplab.widgets", "lplab.figures"):
        importlib.import_module(name)
    for line in sys.stdin:
        folder = Path(line.rstrip("\n"))
        if fork is None:
            print(run(folder), flush=True)
            return
        if not (child := fork()):
            code = 2
            try:
                code = run(folder)
            finally:  # never back into the loop, with an error neither
                sys.stderr.flush()
                os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
