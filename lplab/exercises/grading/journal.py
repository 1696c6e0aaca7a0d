"""The verdicts of a grading as it goes on, in a file: a grading that was killed goes on where it was.

Each line is one verdict, known by its exercise and the source of the answer. The file is for lplab alone, and goes away
when the marks are written.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import lplab
from lplab.exercises.checks.verdict import Verdict
from lplab.exercises.grading.marks import NOT_JUDGED
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.model import catalogue
from lplab.exercises.model.exercise import Exercise

JOURNAL = "judged_so_far.jsonl"
LEFT_OUT = ("counterexample", "printed", "seconds")  # of a verdict: marks do not need them

Task = tuple[str, Answer]


class Journal:
    """The verdicts in a file, which :meth:`add` appends to; nothing is kept where ``path`` is None.

    Lines that cannot be read, such as the last one of a process that was killed, are skipped. A folder that is missing
    is made with the first verdict. OSError if the file cannot be read or written.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.known: dict[str, Verdict] = {}
        self._writing = threading.Lock()  # several answers are judged at a time
        if path is None or not path.exists():
            return
        for line in path.read_text("utf-8", errors="replace").splitlines():
            try:
                key, entry = json.loads(line)
                self.known[key] = Verdict(**{**entry, "lines": tuple(entry["lines"])})
            except (ValueError, TypeError, KeyError):
                continue

    def get(self, task: Task) -> Verdict | None:
        """The verdict on a task, if an earlier run has judged it."""
        return self.known.get(_key(task))

    def add(self, task: Task, verdict: Verdict) -> None:
        """Write down a verdict, unless an earlier run did or it is none."""
        key = _key(task)
        if self.path is None or key in self.known or verdict.status == NOT_JUDGED:
            return
        kept = {field.name: getattr(verdict, field.name) for field in fields(verdict) if field.name not in LEFT_OUT}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._writing, self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([key, kept]) + "\n")


def _key(task: Task) -> str:
    exercise = catalogue.get(task[0])
    parts = [lplab.__version__, exercise.id, exercise.version, task[1].name, task[1].source]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def judged_so_far(path: Path) -> Callable[[Exercise, Answer], Verdict]:
    """A judge that runs nothing: it knows the verdicts in a journal, and says of others that they are not there yet."""
    journal = Journal(path)

    def judge(exercise: Exercise, answer: Answer) -> Verdict:
        line = "This answer was not reached when the grading was stopped; the same command goes on from here."
        none = Verdict(exercise.id, exercise.version, exercise.title, NOT_JUDGED, "", (line,), 0, exercise.points)
        return journal.get((exercise.id, answer)) or none

    return judge
