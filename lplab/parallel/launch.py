"""Start a distributed run from a notebook or a terminal, read its reports, and end all its processes.

This module needs PyTorch (in the processes that it starts) and psutil.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import psutil

from lplab.parallel.run_settings import RunSettings

LINE_PREFIX = "lplab "
SHUTDOWN_TIMEOUT = 10.0  # seconds for processes to end after SIGTERM


class DistributedError(RuntimeError):
    """A run that ended early; the message names the rank and its error."""


class DistributedRun:
    """A run by processes on this machine, as an iterator over the reports of rank 0.

    Ending the iteration early, or :meth:`stop`, ends all processes.

    Args:
        settings: of the run.

    Attributes:
        weights: of rank 0 at the end, float32 by parameter; {} until the run is complete.

    >>> run = DistributedRun(RunSettings("mlp", learners=2, steps=3))
    >>> run.command[1:3]
    ['-m', 'torch.distributed.run']
    """

    def __init__(self, settings: RunSettings) -> None:
        self.settings = settings
        self.command = self._command(settings)
        self.weights: dict[str, np.ndarray] = {}
        self._process: subprocess.Popen[str] | None = None
        # The ranks are remembered in case torchrun itself is killed.
        self._ranks: list[psutil.Process] = []
        self._stopped = False

    @staticmethod
    def _command(settings: RunSettings) -> list[str]:
        ranks = ["--standalone", f"--nproc-per-node={settings.learners}"]
        work = ["-m", "lplab.parallel.worker", settings.to_json()]
        return [sys.executable, "-m", "torch.distributed.run", *ranks, *work]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Start, and yield a dictionary for each step (step, loss, payload_bytes, skipped), and one at the end.

        Raises:
            DistributedError: a rank failed or was killed.
        """
        self.weights, self._stopped = {}, False
        with tempfile.TemporaryDirectory(prefix="lplab") as folder:
            file = self.settings.save or os.path.join(folder, "weights.npz")
            yield from self._reports(self._command(replace(self.settings, save=file)))
            if not self._stopped:
                with np.load(file, allow_pickle=False) as stored:
                    self.weights = {name: stored[name] for name in stored.files}

    def _reports(self, command: list[str]) -> Iterator[dict[str, Any]]:
        """Start the processes and yield the reports of rank 0; the processes end in any case."""
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        self._process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        # An aborted rank prints some forty frames behind its reason.
        last: deque[str] = deque(maxlen=400)
        self._ranks = []
        try:
            # It is a pipe.
            assert self._process.stdout is not None
            for line in self._process.stdout:
                if line.startswith(LINE_PREFIX):
                    self._ranks = self._ranks or self.processes[1:]
                    yield json.loads(line.removeprefix(LINE_PREFIX))
                else:
                    last.append(line.rstrip())
                if self._process.poll() is not None and any(map(psutil.Process.is_running, self._ranks)):
                    # torchrun has ended and left its ranks running.
                    break
            if self._process.wait() and not self._stopped:
                raise DistributedError(reason(list(last), self._process.returncode))
        finally:
            self._end()

    def stop(self) -> None:
        """End all processes, and with them the iteration."""
        self._stopped = True
        self._end()

    @property
    def processes(self) -> list[psutil.Process]:
        """torchrun and all processes that it started."""
        if self._process is None:
            return []
        processes: list[psutil.Process] = []
        with contextlib.suppress(psutil.NoSuchProcess):
            own = psutil.Process(self._process.pid)
            processes = [own, *own.children(recursive=True)]
        return [*processes, *(rank for rank in self._ranks if rank not in processes and rank.is_running())]

    def _end(self) -> None:
        """Terminate, wait, kill: torchrun ends its ranks on SIGTERM; processes that remain are killed."""
        alive = self.processes
        for end in (psutil.Process.terminate, psutil.Process.kill):
            for process in alive:
                with contextlib.suppress(psutil.NoSuchProcess):
                    end(process)
            _, alive = psutil.wait_procs(alive, SHUTDOWN_TIMEOUT)
        if self._process is not None:
            self._process.wait()


def reason(last: list[str], code: int) -> str:
    """The reason of a failure, from the last lines of the output: torchrun's summary, or the first error.

    A rank that is aborted by a C++ exception ends by signal 6; the exception's text is in a line "what(): …". Where
    other ranks have failed otherwise, that is taken for the reason: gloo aborts a rank that has lost a peer, too.

    >>> reason(["traceback", "ValueError: no such thing"], 1)
    'the run ended with code 1: ValueError: no such thing'
    >>> reason(["  rank      : 1 (local_rank: 1)", "  exitcode  : -9 (pid: 77)"], 1)
    'rank 1 was ended by signal 9; all other ranks have been stopped'
    >>> reason(["  what():  Connection closed by peer", "  rank      : 0", "  exitcode  : -6 (pid: 78)"], 1)
    'rank 0 was ended by signal 6 (Connection closed by peer); all other ranks have been stopped'
    >>> reason([], -9)
    'torchrun was ended by signal 9; all ranks have been stopped'
    """
    if code < 0:
        return f"torchrun was ended by signal {-code}; all ranks have been stopped"
    failures = re.findall(r"^ +rank +: (\d+).*\n +exitcode +: (-?\d+)", "\n".join(last), re.MULTILINE)
    # torchrun names the failure that it holds for the first at the end.
    rank, exit_code = min(reversed(failures), key=lambda failure: failure[1] == "-6", default=("", ""))
    if exit_code.startswith("-"):
        thrown = [line.partition("what():")[2].strip() for line in last if line.lstrip().startswith("what():")]
        why = f" ({thrown[0]})" if thrown and exit_code == "-6" else ""
        return f"rank {rank} was ended by signal {exit_code[1:]}{why}; all other ranks have been stopped"
    errors = [line for line in last if "Error" in line and not line.startswith(("Traceback", " "))]
    message = (errors or last or ["no output"])[0]
    return f"the run ended with code {code}: {message}"
