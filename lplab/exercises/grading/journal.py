"""The verdicts of a grading as it goes on, in a file: a grading that was killed goes on where it was.

The file is a database of SQLite, so that a large class takes no memory: one row for each different answer, known by
its exercise and its source. Nothing in a row says whose answer it is. The file is for lplab alone, and goes away when
the marks are written.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sqlite3
import time
import weakref
from dataclasses import fields
from functools import cached_property
from pathlib import Path

import numpy as np

import lplab
from lplab.exercises.checks.verdict import Verdict
from lplab.exercises.grading.marks import NOT_JUDGED
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.model import catalogue
from lplab.exercises.model.exercise import Exercise

JOURNAL = "judged_so_far.sqlite"
LEFT_OUT = ("counterexample", "printed", "seconds")  # of a verdict: marks do not need them
COMMIT_SECONDS = 1.0  # what a killed grading loses at most
TABLES = """
CREATE TABLE IF NOT EXISTS verdicts (answer BLOB PRIMARY KEY, verdict TEXT NOT NULL) WITHOUT ROWID;
CREATE TEMP TABLE unjudged (answer BLOB PRIMARY KEY, verdict TEXT NOT NULL) WITHOUT ROWID;
"""

Task = tuple[str, Answer]


class Journal:
    """The verdicts on answers, each once; in a file that is gone with this object where ``path`` is None.

    A verdict counts for the same source of the same function, judged by the same version of the exercise, of lplab,
    Python and numpy; the seeds of all random numbers are fixed by these. Verdicts that are none (`NOT_JUDGED`) last as
    long as this object.

    Raises:
        OSError: the file cannot be read or written.
        ValueError: the file is no journal of lplab.

    >>> journal = Journal(None)
    >>> task = ("01.2", Answer("def f(x): pass", "f"))
    >>> journal.add(task, Verdict("01.2", 1, "Title", "failed", "form", ("It is wrong.",), 0, 6))
    >>> journal.get(task).lines, len(journal)
    (('It is wrong.',), 1)
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._committed = time.monotonic()
        if path is None or path.exists():
            self._database  # noqa: B018  a file that is none of ours is told of before anything is read

    @cached_property
    def _database(self) -> sqlite3.Connection:
        """Opened when it is needed, so that bad input leaves no file."""
        try:
            if self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            database = sqlite3.connect("" if self.path is None else self.path, check_same_thread=False)
            database.executescript(TABLES)
        except sqlite3.OperationalError as problem:
            raise OSError(f"{self.path} cannot be written: {problem}") from None
        except sqlite3.DatabaseError:
            raise ValueError(f"{self.path} is no journal of lplab; remove it, and the grading begins anew") from None
        weakref.finalize(self, database.close)
        return database

    def __len__(self) -> int:
        """How many answers have a verdict."""
        return self._database.execute("SELECT count(*) FROM verdicts").fetchone()[0]

    def get(self, task: Task) -> Verdict | None:
        """The verdict on a task, if there is one."""
        for table in ("verdicts", "unjudged"):
            found = self._database.execute(f"SELECT verdict FROM {table} WHERE answer = ?", (_key(task),)).fetchone()
            if found is not None:
                entry = json.loads(found[0])
                return Verdict(**{**entry, "lines": tuple(entry["lines"])})
        return None

    def add(self, task: Task, verdict: Verdict) -> None:
        """Write down a verdict, unless there is one; it is in the file within a second or two."""
        kept = {field.name: getattr(verdict, field.name) for field in fields(verdict) if field.name not in LEFT_OUT}
        table = "unjudged" if verdict.status == NOT_JUDGED else "verdicts"
        self._database.execute(f"INSERT OR IGNORE INTO {table} VALUES (?, ?)", (_key(task), json.dumps(kept)))
        if time.monotonic() - self._committed > COMMIT_SECONDS:
            self.commit()

    def commit(self) -> None:
        """Have all verdicts in the file now."""
        self._database.commit()
        self._committed = time.monotonic()

    def close(self) -> None:
        """Close the file; what is not in it yet is written first."""
        self.commit()
        self._database.close()

    def remove(self) -> None:
        """Close the journal and delete its file."""
        self.close()
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def _key(task: Task) -> bytes:
    exercise = catalogue.get(task[0])
    made_by = [lplab.__version__, platform.python_version(), np.__version__]
    parts = [*made_by, exercise.id, exercise.version, task[1].name, task[1].source]
    return hashlib.sha256(json.dumps(parts).encode()).digest()


def not_reached(exercise: Exercise, answer: Answer) -> Verdict:
    """A judge that runs nothing: for the marks of a grading that was stopped."""
    line = "This answer was not reached when the grading was stopped; the same command goes on from here."
    return Verdict(exercise.id, exercise.version, exercise.title, NOT_JUDGED, "", (line,), 0, exercise.points)
