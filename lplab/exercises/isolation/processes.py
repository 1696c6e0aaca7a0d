"""The child process that runs student code: start, input, monitoring, and always its end. See ``isolation``."""

import contextlib
import itertools
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

CHILD = Path(__file__).with_name("child.py")
POLL_INTERVAL = 0.1  # seconds between two measurements of the child
KILL_TIMEOUT = 2.0  # seconds to wait for a killed process
MAX_LINE_BYTES = 33_000_000  # of one message of the child: a value of 16 MB as JSON
MAX_HEARD_BYTES = 300_000_000  # of all messages: more than the parent accepts
MAX_PRINTED_BYTES = 2_000  # bytes of the output that are kept, of its beginning and of its end
PASSED_ON: tuple[str, ...] = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
if sys.platform == "win32":
    PASSED_ON = ("PATH", "SYSTEMROOT", "WINDIR", "TEMP", "TMP")
PASSED_ON += ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")  # the loops of a product: the same last bits as in the caller
FIXED = {"PYTHONHASHSEED": "0", "LPLAB_NO_NUMBA": "1"} | {  # compiled loops would be kept outside of the child's folder
    f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "VECLIB_MAXIMUM", "NUMBA")
}


class Child:
    """A context manager: ``child.py`` at work on ``request`` in ``folder``; after it no process of it is left.

    ``path`` are folders appended to the child's module path. The child's environment holds nothing but where to find
    programs and libraries, and what makes the same input give the same result.
    """

    def __init__(self, request: bytes, folder: str, path: Sequence[str]) -> None:
        self.printed_bytes = 0
        self._folder = folder
        self._beginning = self._end = b""  # of what is printed
        self._request = request
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._over = threading.Event()
        environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ} | FIXED
        # What -I does, which would ignore PYTHONHASHSEED: neither this folder nor the user's packages are on the path.
        command = [sys.executable, "-s", "-P", "-X", "utf8", str(CHILD), *path]
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self._process: Any = subprocess.Popen(command, cwd=folder, env=environment, **pipes, **_own_group())
        self._hearer = threading.Thread(target=self._hear, daemon=True)
        self._drainer = threading.Thread(target=self._drain, daemon=True)
        self._threads = [threading.Thread(target=self._feed, daemon=True), self._hearer, self._drainer]

    def __enter__(self) -> "Child":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the child and its descendants, and wait until it is gone and its pipes are read."""
        _kill_family(self._process.pid)
        self._process.wait()
        self._over.set()
        for thread in self._threads:  # they end with the pipes, unless a process that ran away holds one open
            thread.join(KILL_TIMEOUT)

    def lines(self) -> Iterator[bytes]:
        """The child's messages, line by line, until the pipe closes; an empty one whenever it is time to measure."""
        next_poll = time.monotonic()
        gone = False
        while True:
            if time.monotonic() >= next_poll:
                yield b""
                next_poll = time.monotonic() + POLL_INTERVAL
            try:
                line = self._lines.get(timeout=max(0.0, next_poll - time.monotonic()))
            except queue.Empty:
                if gone:  # and yet the pipe is open: another process holds it
                    return
                if gone := self._process.poll() is not None:
                    self._hearer.join(KILL_TIMEOUT)  # it may not have had its turn yet
                continue
            if line is None:
                return
            yield line

    def used(self) -> tuple[float, int, int]:
        """Seconds of computing so far, bytes of memory and number of threads now; zeros when the child is gone."""
        try:
            child = psutil.Process(self._process.pid)
            times = child.cpu_times()
            return times.user + times.system, child.memory_info().rss, child.num_threads()
        except psutil.Error:
            return 0.0, 0, 0

    def written(self, most_files: int) -> tuple[int, int]:
        """Bytes and number of the files in the child's folder; it counts no more than one above ``most_files``."""
        sizes = []
        with contextlib.suppress(OSError), os.scandir(self._folder) as entries:
            for entry in itertools.islice(entries, most_files + 1):
                sizes.append(entry.stat(follow_symlinks=False).st_size)
        return sum(sizes), len(sizes)

    def exit_code(self) -> int | None:
        """The exit code as :class:`subprocess.Popen` has it, negative for a signal; None when the child lives on."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(KILL_TIMEOUT)
        return self._process.returncode

    def beginning(self) -> str:
        """The first 2 kB of the output."""
        return _text(self._beginning)

    def last_line(self) -> str:
        """The last line of the output, after the child has ended."""
        self._drainer.join(KILL_TIMEOUT)
        return _text(self._end).strip().rpartition("\n")[2]

    # ---- threads: one for each pipe, which also closes it ------------------------------------------------------------

    def _feed(self) -> None:
        with contextlib.suppress(OSError), self._process.stdin as pipe:  # a child that died says why by its exit code
            pipe.write(self._request)
            pipe.flush()
            self._over.wait()

    def _hear(self) -> None:
        heard = 0
        with self._process.stdout as pipe:
            while (line := pipe.readline(MAX_LINE_BYTES)).endswith(b"\n"):  # the last may have been cut off
                self._lines.put(line)
                heard += len(line)
                if heard > MAX_HEARD_BYTES:
                    break
        self._lines.put(None)

    def _drain(self) -> None:
        with self._process.stderr as pipe:
            while chunk := pipe.read1(65536):
                self.printed_bytes += len(chunk)
                self._beginning += chunk[: MAX_PRINTED_BYTES - len(self._beginning)]
                self._end = (self._end + chunk)[-MAX_PRINTED_BYTES:]


def _text(printed: bytes) -> str:
    return printed.decode("utf-8", errors="replace").replace("\r\n", "\n")


def _own_group() -> dict[str, Any]:
    """Arguments of Popen: the child hears no Ctrl-C of the terminal, and can be killed with its descendants."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW}
    return {"start_new_session": True}


def _kill_family(pid: int) -> None:
    try:
        child = psutil.Process(pid)
        family = [*child.children(recursive=True), child]
    except psutil.NoSuchProcess:
        family = []
    if sys.platform != "win32":  # those whose parents ended before them
        with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody is left; macOS: only zombies are left
            os.killpg(pid, signal.SIGKILL)
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
