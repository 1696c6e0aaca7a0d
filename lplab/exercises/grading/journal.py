"""The verdicts of a grading as it goes on, in a file: a grading that was killed goes on where it was.

The file is a database of SQLite, so that a large class takes no memory: one row for each different answer, known by
its exercise and its source. Nothing in a row says whose answer it is. The file is for lplab alone, and goes away when
the marks are written.
"""

from __future__ import annotations

import errno
import hashlib
import json
import platform
import sqlite3
import weakref
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import lplab
from lplab.exercises.checks.verdict import NOT_JUDGED, Verdict
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.model import exercise_catalogue
from lplab.exercises.model.exercise import Exercise

JOURNAL = "judged_so_far.sqlite"
LOCK_SECONDS = 1.0  # to wait for a grading that is just closing the file
TABLES = """
PRAGMA locking_mode = EXCLUSIVE;
BEGIN EXCLUSIVE;
CREATE TABLE IF NOT EXISTS verdicts (answer BLOB PRIMARY KEY, verdict TEXT NOT NULL) WITHOUT ROWID;
CREATE TEMP TABLE unjudged (answer BLOB PRIMARY KEY, verdict TEXT NOT NULL) WITHOUT ROWID;
COMMIT;
"""

Task = tuple[str, Answer]


class Journal:
    """The verdicts on answers, each once; in a file that is gone with this object where ``path`` is None.

    A verdict counts for the same source of the same function, judged behind the same fence by the same version of the
    exercise, of lplab, Python and numpy; the seeds of all random numbers are fixed by these. That on a recipe counts
    for the same seeds and version of PyTorch. Verdicts that are none (`NOT_JUDGED`) last as long as this object.

    One grading at a time has the file.

    Raises:
        OSError: the file cannot be read or written, or another grading has it; so in all methods.
        ValueError: the file is no journal of lplab.

    >>> journal = Journal(None)
    >>> task = ("01.2", Answer("def f(x): pass", "f"))
    >>> journal.add(task, Verdict("01.2", 1, "Title", "failed", "form", ("It is wrong.",), 0, 6))
    >>> journal.get(task).lines, len(journal)
    (('It is wrong.',), 1)
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.fence = ""
        self.seeds: tuple[int, ...] = ()
        if path is None or path.exists():
            self._database  # noqa: B018  a file that is none of ours is told of before anything is read

    @cached_property
    def _database(self) -> sqlite3.Connection:
        """Opened when it is needed, so that bad input leaves no file."""
        try:
            if self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            name = "" if self.path is None else self.path
            database = sqlite3.connect(name, timeout=LOCK_SECONDS, check_same_thread=False)
            database.executescript(TABLES)
        except sqlite3.OperationalError as problem:
            raise self._not_written(problem) from None
        except sqlite3.DatabaseError:
            raise ValueError(f"{self.path} is no journal of lplab; remove it, and the grading begins anew") from None
        weakref.finalize(self, database.close)
        return database

    def _not_written(self, problem: sqlite3.OperationalError) -> OSError:
        if problem.sqlite_errorcode in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return OSError(f"another grading is running that writes {self.path}; wait for its end or stop it")
        of_the_machine = {sqlite3.SQLITE_FULL: errno.ENOSPC, sqlite3.SQLITE_IOERR: errno.EIO}
        number = of_the_machine.get(problem.sqlite_errorcode & 255)  # its lowest byte is the primary code
        told = f"{self.path} cannot be written: {problem}"
        return OSError(number, told) if number else OSError(told)

    def _execute(self, command: str, values: Iterable[Any] = ()) -> sqlite3.Cursor:
        try:
            return self._database.execute(command, tuple(values))
        except sqlite3.OperationalError as problem:
            raise self._not_written(problem) from None

    def begin(self, fence: str, seeds: Sequence[int]) -> None:
        """Say how answers are judged from now on, unless that was said before: marks so far are of the same grading.

        Args:
            fence: what fences the students' code.
            seeds: that recipes of the capstones are scored with.
        """
        if not self.fence:
            self.fence, self.seeds = fence, tuple(seeds)

    def __len__(self) -> int:
        """How many answers have a verdict."""
        return self._execute("SELECT count(*) FROM verdicts").fetchone()[0]

    def get(self, task: Task) -> Verdict | None:
        """The verdict on a task, if there is one."""
        for table in ("verdicts", "unjudged"):
            row = self._execute(f"SELECT verdict FROM {table} WHERE answer = ?", (self._key(task),)).fetchone()
            if row is not None:
                entry = json.loads(row[0])
                return Verdict(**{**entry, "lines": tuple(entry["lines"])})
        return None

    def add(self, task: Task, verdict: Verdict) -> None:
        """Write down a verdict, unless there is one; it is in the file after `commit`.

        Args:
            task: exercise and answer.
            verdict: on it, without a counterexample, which may be anything.
        """
        table = "unjudged" if verdict.status == NOT_JUDGED else "verdicts"
        self._execute(f"INSERT OR IGNORE INTO {table} VALUES (?, ?)", (self._key(task), json.dumps(vars(verdict))))

    def commit(self) -> None:
        """Have all verdicts in the file now; it takes some milliseconds of waiting for the disk."""
        try:
            self._database.commit()
        except sqlite3.OperationalError as problem:
            raise self._not_written(problem) from None

    def close(self) -> None:
        """Close the file; what is not in it yet is written first."""
        self.commit()
        self._database.close()

    def remove(self) -> None:
        """Close the journal and delete its file."""
        self.close()
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _key(self, task: Task) -> bytes:
        exercise = exercise_catalogue.get(task[0])
        made_by = [lplab.__version__, platform.python_version(), np.__version__, self.fence]
        made_by += [_version_of_torch(), *map(str, self.seeds)] if exercise.id in exercise_catalogue.CAPSTONES else []
        parts = [made_by, exercise.id, exercise.version, task[1].name, task[1].source]
        return hashlib.sha256(json.dumps(parts).encode()).digest()


@cache
def _version_of_torch() -> str:
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:  # then no recipe is scored here
        return ""


def not_reached(exercise: Exercise, answer: Answer) -> Verdict:
    """A judge that runs nothing: for the marks of a grading that was stopped."""
    line = "This answer was not reached when the grading was stopped; the same command goes on from here."
    return Verdict(exercise.id, exercise.version, exercise.title, NOT_JUDGED, "", (line,), 0, exercise.points)
