"""A process that imports the slow modules once and then starts kernels of Jupyter as copies of itself.

    python kernel_server.py torch pandas       import these, then read orders from standard input

An order is a line of JSON; the answer is a line with the kernel's process id. Copies are made by ``fork``, and only on
Linux: elsewhere the process itself becomes the kernel, and every kernel needs a process like this one.
"""

import importlib
import json
import os
import sys
import warnings
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import Any

FORKS = sys.platform == "linux"


class WrongText(SourceFileLoader):
    """Loads a module after one replacement in its text; nothing is written to disk."""

    def __init__(self, name: str, path: str, right: str, wrong: str):
        super().__init__(name, path)
        self.right, self.wrong = right, wrong

    def get_code(self, fullname: str) -> Any:
        """The compiled text, with the fault in it."""
        text = self.get_source(fullname)
        return compile(text.replace(self.right, self.wrong), self.path, "exec", dont_inherit=True)


class Fault:
    """Finds one module of lplab and has it loaded with a fault.

    Args:
        file: the module's file, such as formats/catalogue.py.
        right: what stands there.
        wrong: the text in its place.
    """

    def __init__(self, file: str, right: str, wrong: str):
        self.module = "lplab." + file.removesuffix(".py").replace("/", ".")
        self.right, self.wrong = right, wrong

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Where the module is and how it is loaded; None for all others."""
        spec = PathFinder.find_spec(name, path, target) if name == self.module else None
        if spec and spec.origin:
            spec.loader = WrongText(name, spec.origin, self.right, self.wrong)
        return spec


def plant(file: str, right: str, wrong: str) -> None:
    """Have a module loaded with a fault. Machine code that numba makes of a wrong library is not kept on disk."""
    from numba.core.caching import FunctionCache

    if any(name.partition(".")[0] == "lplab" for name in sys.modules):
        raise RuntimeError("lplab is imported already: too late for a fault")
    sys.meta_path.insert(0, Fault(file, right, wrong))
    FunctionCache.save_overload = lambda *args: None


def become_kernel(connection: str, folder: str, environment: dict[str, str], fault: list[str] | None) -> None:
    """Run a kernel until it is ended from outside."""
    from ipykernel.kernelapp import IPKernelApp

    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.chdir(folder)
    os.environ.update(environment)
    if fault:
        plant(*fault)
    app = IPKernelApp.instance()
    app.initialize(["-f", connection])
    app.start()


def serve() -> None:
    """Start a kernel for each order, one after the other, until standard input ends."""
    for line in sys.stdin:
        order = json.loads(line)
        if FORKS:
            with warnings.catch_warnings(action="ignore"):  # Python 3.12 and newer: BLAS has threads, ready for a fork
                kernel = os.fork()
            if kernel:
                print(kernel, flush=True)
                os.waitpid(kernel, 0)  # one at a time; and its CPU time becomes ours, so that it is counted
                continue
            os.environ["JPY_PARENT_PID"] = str(os.getppid())  # the kernel ends when this process does
        else:
            print(os.getpid(), flush=True)
        become_kernel(**order)
        return


def main(modules: list[str]) -> None:
    """Import the modules, then serve."""
    for name in ["ipykernel.kernelapp", *modules]:
        importlib.import_module(name)
    if "numba" in modules:  # most of its time goes into the first function that it compiles
        sys.modules["numba"].njit(lambda x: x)(1)
    serve()


if __name__ == "__main__":
    main(sys.argv[1:])
