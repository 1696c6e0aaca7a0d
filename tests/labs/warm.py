"""Notebooks run by nbval's own code, cell by cell, in kernels that start with the slow modules imported."""

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.connect import write_connection_file
from nbval.kernel import RunningKernel
from nbval.plugin import IPyNbCell, IPyNbFile, NbCellError

from tests.labs.kernel_server import FORKS

PROJECT = Path(__file__).parents[2]
SLOW_MODULES = ("torch", "numba", "pandas", "plotly.graph_objects", "ipywidgets", "anywidget", "nbformat")


class WarmKernel(RunningKernel):
    """A kernel started by a server, with the interface that nbval uses."""

    def __init__(self, process: int, connection: Path):
        self.process = psutil.Process(process)
        self.kc = BlockingKernelClient(connection_file=str(connection))
        self.kc.load_connection_file()
        self.kc.start_channels()
        self._wait_until_ready(time.monotonic() + 60)
        self._ensure_iopub_up()

    def _wait_until_ready(self, until: float) -> None:
        while True:
            try:
                return self.kc.wait_for_ready(timeout=max(1, until - time.monotonic()))
            except RuntimeError:  # also where a busy machine lets the kernel's heart miss a beat, while it begins
                if not self.is_alive() or time.monotonic() > until:
                    raise

    def is_alive(self) -> bool:
        """Whether the process is alive."""
        return bool(self.process.is_running() and self.process.status() != psutil.STATUS_ZOMBIE)

    def interrupt(self) -> None:
        """End a cell that takes too long, and the kernel with it; nbval then says so."""
        with suppress(psutil.NoSuchProcess):
            for process in [*self.process.children(recursive=True), self.process]:
                with suppress(psutil.NoSuchProcess):
                    process.kill()

    def stop(self) -> None:
        """End the kernel and its processes."""
        self.kc.stop_channels()
        self.interrupt()


class KernelServer:
    """Starts kernels that have imported the slow modules, and ``more``: one at a time."""

    def __init__(self, *more: str):
        self.modules = [*SLOW_MODULES, *more] if FORKS else []
        self.server: subprocess.Popen | None = None
        self.kernel: WarmKernel | None = None

    def start(self, folder: Path, fault: Sequence[str] | None = None) -> WarmKernel:
        """A kernel that works in ``folder``; it imports lplab with the fault: (file, right text, wrong text).

        The kernel before is ended.
        """
        if self.kernel:
            self.kernel.stop()
        if not FORKS:
            self.close()
        server = self.server = self.server or self.open()
        connection = folder / "connection.json"
        write_connection_file(str(connection), key=uuid.uuid4().hex.encode())
        order = {
            "connection": str(connection),
            "folder": str(folder),
            "environment": {"LPLAB_PROGRESS": str(folder / "progress.json")},
            "fault": fault,
        }
        assert server.stdin and server.stdout
        server.stdin.write(json.dumps(order) + "\n")
        server.stdin.flush()
        process = int(server.stdout.readline())
        try:
            self.kernel = WarmKernel(process, connection)
        except BaseException:  # the server waits for the end of this kernel before it reads the next order
            psutil.Process(process).kill()
            raise
        return self.kernel

    def open(self) -> subprocess.Popen:
        """The process that imports the modules."""
        command = [sys.executable, "-P", str(Path(__file__).with_name("kernel_server.py")), *self.modules]
        env = {**os.environ, "PYTHONPATH": str(PROJECT)}
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True)

    def close(self) -> None:
        """End the kernel and the server."""
        if self.kernel:
            self.kernel.stop()
        if self.server:
            self.server.communicate(timeout=60)
        self.server = self.kernel = None


@contextmanager
def kernel_server(*more: str) -> Iterator[KernelServer]:
    """A server, closed at the end."""
    server = KernelServer(*more)
    try:
        yield server
    finally:
        server.close()


def cells_of(path: Path, kernel: RunningKernel, session: pytest.Session) -> list[IPyNbCell]:
    """The tests that nbval makes of a notebook, to be run in ``kernel``."""
    book = IPyNbFile.from_parent(session, path=path)
    book.kernel = kernel
    return list(book.collect())


def failure_message(cell: IPyNbCell) -> str:
    """Run a cell. The message of nbval if it fails; empty if it passes."""
    try:
        cell.runtest()
    except NbCellError as error:
        return f"cell {error.cell_num}: {error}\n{error.source}\n{error.inner_traceback}"
    return ""
