"""What a JupyterHub needs for each lab: how soon its kernel is ready and shows its first view, and its memory.

``python -m benchmarks kernels`` runs every lab once from top to bottom, as a student finds it, in a kernel of its own;
it counts among the parts only when it is asked for by name. Memory is the resident set of the kernel and of the
processes that it started, looked at five times a second; kernels on one machine share the part of it that libraries
take. The last row is the server itself, JupyterLab without a kernel.
"""

from __future__ import annotations

import argparse
import os
import platform
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import psutil

LABS = Path(__file__).parents[1] / "labs"
LOOK = 0.2  # seconds between two looks at the memory
VIEWS = ("application/vnd.jupyter.widget-view+json", "application/vnd.plotly.v1+json", "image/png", "image/svg+xml")


@dataclass(frozen=True)
class Kernel:
    """One lab, or the server: seconds by the clock and of computing, and memory in MB.

    Args:
        name: of the lab, such as "01".
        ready, ready_mb: when the kernel answers.
        first_view, first_view_cpu: until the first widget or figure is sent.
        all_cells_cpu, most_mb: of the whole lab.
    """

    name: str
    ready: float
    ready_mb: float
    first_view: float
    first_view_cpu: float
    all_cells_cpu: float
    most_mb: float

    def __str__(self) -> str:
        times = f"{self.ready:.1f} | {self.first_view:.1f} | {self.first_view_cpu:.1f} | {self.all_cells_cpu:.0f}"
        return f"| {self.name} | {times} | {self.ready_mb:.0f} | {self.most_mb:.0f} |"


class Memory:
    """Looks at the resident sets of a process and its descendants until it is left; ``most`` is the largest, in MB."""

    def __init__(self, pid: int) -> None:
        self.process, self.most = psutil.Process(pid), 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def now(self) -> float:
        """MB now; processes that end meanwhile count nothing."""
        total = 0
        for one in [self.process, *self.process.children(recursive=True)]:
            try:
                total += one.memory_info().rss
            except psutil.NoSuchProcess:
                continue
        return total / 1e6

    def cpu_seconds(self) -> float:
        """Seconds of computing of the process and of its descendants that have ended."""
        times = self.process.cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)

    def _look(self) -> None:
        while not self._over.wait(LOOK):
            if not self.process.is_running():
                return
            self.most = max(self.most, self.now())

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def measure(path: Path) -> Kernel:
    """Run one lab from top to bottom."""
    import nbformat
    from jupyter_client.manager import KernelManager
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    manager = KernelManager(kernel_name="python3")
    client = NotebookClient(notebook, km=manager, timeout=600, resources={"metadata": {"path": str(path.parent)}})
    begun = time.perf_counter()
    with client.setup_kernel():
        ready = time.perf_counter() - begun
        with Memory(manager.provisioner.process.pid) as memory:
            ready_mb, first, first_cpu = memory.now(), 0.0, 0.0
            for number, cell in enumerate(notebook.cells):
                client.execute_cell(cell, number)
                if not first and any(set(VIEWS) & set(output.get("data", ())) for output in cell.get("outputs", ())):
                    first, first_cpu = time.perf_counter() - begun, memory.cpu_seconds()
            whole = memory.cpu_seconds()
    return Kernel(path.stem[:2], ready, ready_mb, first, first_cpu, whole, memory.most)


def server() -> Kernel:
    """JupyterLab without a kernel: until it answers, and its memory then."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        "--no-browser",
        f"--port={port}",
        "--IdentityProvider.token=",
        "--allow-root",
    ]
    begun = time.perf_counter()
    process = subprocess.Popen(command, cwd=LABS, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with Memory(process.pid) as memory:
            while not _answers(f"http://127.0.0.1:{port}/lab"):
                if process.poll() is not None or time.perf_counter() - begun > 120:
                    raise RuntimeError("JupyterLab did not start")
                time.sleep(0.1)
            ready, ready_mb, cpu = time.perf_counter() - begun, memory.now(), memory.cpu_seconds()
        return Kernel("server", ready, ready_mb, ready, cpu, cpu, max(memory.most, ready_mb))
    finally:
        process.terminate()
        process.wait()


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def machine() -> str:
    """The machine in one line."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    gib = psutil.virtual_memory().total / 2**30
    return (
        f"{os.cpu_count()} processors ({model}), {gib:.0f} GiB, {platform.system()}, Python {platform.python_version()}"
    )


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks kernels", description=main.__doc__)
    parser.add_argument("--lab", nargs="+", default=[], help="such as 01 (default: all, and the server)")
    args = parser.parse_args()
    print("| lab | ready, s | first view, s | … CPU s | all cells, CPU s | MB when ready | MB at most |", flush=True)
    print("|---|---|---|---|---|---|---|", flush=True)
    for path in sorted(LABS.glob("[0-9]*.ipynb")):
        if not args.lab or path.stem[:2] in args.lab:
            print(measure(path), flush=True)
    if not args.lab:
        print(server())
    print(machine())
    return 0


if __name__ == "__main__":
    sys.exit(main())
