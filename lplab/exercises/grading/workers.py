"""Who judges the answers: threads of this process, each with a child process, or the workers of a Dask cluster."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

import lplab
from lplab.exercises.isolation import fences
from lplab.exercises.model.exercise_catalogue import CAPSTONES

CONNECT_SECONDS = 20


@dataclass(frozen=True)
class Workers:
    """Where answers are judged.

    Args:
        pool: takes the work.
        count: how many answers are judged at the same time.
        fence: what fences the students' code there.
        recipes: takes the recipes of the capstones, on this machine: a gap compares with a training on it.
    """

    pool: Executor
    count: int
    fence: str
    recipes: Executor

    def pool_for(self, exercise: str) -> Executor:
        """Where the answers to an exercise are judged."""
        return self.recipes if exercise in CAPSTONES else self.pool


@contextmanager
def threads(count: int) -> Iterator[Workers]:
    """Judge on this machine, so many answers at a time; when something is raised, those that wait are dropped."""
    with ThreadPoolExecutor(count) as pool:
        try:
            yield Workers(pool, count, fences.summary(), pool)
        except BaseException:  # Ctrl-C: those that have not begun need not begin
            pool.shutdown(cancel_futures=True)
            raise


@contextmanager
def dask_workers(scheduler: str) -> Iterator[Workers]:
    """Judge on the workers of a Dask cluster, one answer a thread of theirs, and recipes on this machine.

    The workers need the same versions of lplab, Python and numpy as this process, so that marks do not depend on who
    judges. They get exercise and source of each answer, never a name or a file.

    Args:
        scheduler: its address, such as "tcp://10.0.0.1:8786".

    Raises:
        ValueError: nothing answers there, there are no workers, or their versions differ.
    """
    from distributed import Client

    try:
        client = Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as problem:
        line = " ".join(str(problem).split())
        raise ValueError(f"no Dask scheduler answers at {scheduler}: {line}") from None
    with client:
        machines = client.run(_machine)
        if not machines:
            raise ValueError(f"the Dask scheduler at {scheduler} has no workers")
        for address, (versions, _) in machines.items():
            if versions != _machine()[0]:
                raise ValueError(f"the worker {address} has {versions}; here is {_machine()[0]}")
        fence = " | ".join(sorted({fence for _, fence in machines.values()}))
        count = sum(client.nthreads().values())
        with threads(os.cpu_count() or 1) as here:
            yield Workers(client.get_executor(pure=False), count, fence, here.pool)


def _machine() -> tuple[str, str]:
    """The versions on which verdicts depend, and what fences students' code."""
    versions = f"lplab {lplab.__version__}, Python {platform.python_version()}, numpy {np.__version__}"
    return versions, fences.summary()
