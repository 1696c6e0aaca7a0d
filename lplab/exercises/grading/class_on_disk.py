"""A class while it is graded: what was read and what was marked, on disk, so that a large class takes no memory.

It is a database of SQLite without a name, which goes away with the process, in the folder for temporary files
(``SQLITE_TMPDIR`` names another). Each different answer is in it once.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import unicodedata
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import PurePath
from typing import Any, overload

from lplab.exercises.grading.marks import Mark, Student
from lplab.exercises.grading.submissions import Submission, clean
from lplab.exercises.isolation.answers import Answer

TABLES = """
CREATE TABLE answers (
    number INTEGER PRIMARY KEY, digest BLOB UNIQUE, exercise TEXT, function TEXT, source BLOB
);
CREATE TABLE files (
    student BLOB, path BLOB, submission TEXT, name TEXT, place INTEGER, aside INTEGER, PRIMARY KEY (student, path)
) WITHOUT ROWID;
CREATE TABLE students (
    number INTEGER PRIMARY KEY, folded TEXT, name TEXT, file TEXT, broken INTEGER, rest TEXT,
    composed TEXT, rank INTEGER, owner BLOB
);
CREATE INDEX by_name ON students (folded, name, file);
CREATE INDEX by_rank ON students (composed, rank);
CREATE TABLE marks (
    exercise TEXT, student INTEGER, mark TEXT, PRIMARY KEY (exercise, student)
) WITHOUT ROWID;
CREATE TABLE given (
    exercise TEXT, student INTEGER, answer INTEGER, PRIMARY KEY (exercise, student, answer)
) WITHOUT ROWID;
"""
IN_ORDER = "folded, name, file, number"  # of students in the marks
REST = ("notes", "problem", "predictions", "history", "id", "email", "place", "absent")  # of a student, as JSON
COPIED = (  # of a submission, as JSON
    "name", "predictions", "notes", "places", "history", "problem", "is_claimed", "aside",
)  # fmt: skip
IN_ROSTER, NAMED, BROKEN, CLAIMED = range(4)  # what a student's name rests on, best first


@dataclass(frozen=True)
class OwnedFile:
    """One file of a student.

    Args:
        student: the files of one student have the same path here.
        path: from the folder of the class.
        submission: what is in it.
        name: of the student, as the system names the file; "" if it names none.
        place: in the roster.
    """

    student: PurePath
    path: PurePath
    submission: Submission
    name: str = ""
    place: int | None = None


class ClassOnDisk:
    """The files of a class, and then its students with their marks."""

    def __init__(self) -> None:
        self.database = sqlite3.connect("", check_same_thread=False)  # "": without a name
        self.database.executescript(TABLES)
        self.close = weakref.finalize(self, self.database.close)

    # ---- what was handed in ------------------------------------------------------------------------------------------

    def add_file(self, file: OwnedFile) -> None:
        """Keep a file that was read."""
        one = file.submission
        kept = {name: getattr(one, name) for name in COPIED}
        kept["answers"] = {key: [self._number(key, answer) for answer in some] for key, some in one.answers.items()}
        kept["times"] = {key: [time and time.isoformat() for time in some] for key, some in one.times.items()}
        row = (_bytes(file.student), _bytes(file.path), json.dumps(kept), file.name, file.place, one.aside)
        self.database.execute("INSERT INTO files VALUES (?, ?, ?, ?, ?, ?)", row)

    def files(self) -> Iterator[tuple[PurePath, list[OwnedFile]]]:
        """The files of each student, sorted."""
        rows = self.database.execute("SELECT * FROM files ORDER BY student, path")
        for student, some in groupby(rows, key=lambda row: row[0]):
            yield (
                _path(student),
                [
                    OwnedFile(_path(student), _path(path), self._submission(text), name, place)
                    for _, path, text, name, place, _ in some
                ],
            )

    def file_count(self) -> int:
        """How many files there are, apart from those that are passed over or stand beside another one."""
        return self.database.execute("SELECT count(*) FROM files WHERE NOT aside").fetchone()[0]

    def handed_in(self) -> Iterator[tuple[str, str, str, str]]:
        """Each file in order: its path, the student as the marks name one, "yes" or "no", and why it was not read."""
        query = """SELECT path, submission, number, students.name, rank, composed, rest, file
                   FROM files JOIN students ON owner = student ORDER BY student, path"""
        for path, text, _, name, rank, composed, rest, file in self.database.execute(query):
            one = json.loads(text)
            shown = self.shown(name, composed, rank, json.loads(rest), file)
            yield clean(_path(path).as_posix(), 300), shown, "no" if one["problem"] else "yes", one["problem"]

    def exercises(self) -> set[str]:
        """The ids of all exercises to which there is an answer."""
        return {row[0] for row in self.database.execute("SELECT DISTINCT exercise FROM answers")}

    def different_answers(self, exercises: Sequence[str]) -> int:
        """How many different answers there are to these exercises."""
        wanted = ", ".join("?" * len(exercises))
        query = f"SELECT count(*) FROM answers WHERE exercise IN ({wanted})"
        return self.database.execute(query, tuple(exercises)).fetchone()[0]

    def _number(self, exercise: str, answer: Answer) -> int:
        """The number of an answer, which is added if it is new."""
        digest = hashlib.sha256(json.dumps([exercise, answer.name, answer.source]).encode()).digest()
        known = self.database.execute("SELECT number FROM answers WHERE digest = ?", (digest,)).fetchone()
        if known:
            return known[0]
        source = answer.source.encode("utf-8", "surrogatepass")  # a report may hold halves of characters
        row = (digest, exercise, answer.name, source)
        cursor = self.database.execute("INSERT INTO answers VALUES (NULL, ?, ?, ?, ?)", row)
        assert cursor.lastrowid is not None, "a row was inserted"
        return cursor.lastrowid

    def _answer(self, number: int) -> Answer:
        row = self.database.execute("SELECT source, function FROM answers WHERE number = ?", (number,)).fetchone()
        return Answer(row[0].decode("utf-8", "surrogatepass"), row[1])

    def _submission(self, text: str) -> Submission:
        kept = json.loads(text)
        kept["answers"] = {key: tuple(map(self._answer, some)) for key, some in kept["answers"].items()}
        times = kept["times"].items()
        kept["times"] = {key: tuple(time and datetime.fromisoformat(time) for time in some) for key, some in times}
        kept["notes"] = tuple(kept["notes"])
        kept["places"] = {key: tuple(some) for key, some in kept["places"].items()}
        return Submission(**kept)

    # ---- students with their marks -----------------------------------------------------------------------------------

    def add_student(
        self,
        student: Student,
        answers: Mapping[str, Sequence[Answer]],
        owner: PurePath | None = None,
        is_claimed: bool = False,
    ) -> None:
        """Keep a student, with the answers that were handed in.

        Args:
            student: with the marks.
            answers: by exercise.
            owner: the student of the files, None where there are none.
            is_claimed: only a report says the name. Another student of this name keeps it as it is.
        """
        rest = json.dumps({name: getattr(student, name) for name in REST})
        rank = CLAIMED if is_claimed else BROKEN if student.problem else NAMED
        rank = rank if student.place is None else IN_ROSTER
        row = (
            student.name.casefold(), student.name, student.file, bool(student.problem), rest,
            unicodedata.normalize("NFC", student.name), rank, owner and _bytes(owner),
        )  # fmt: skip
        number = self.database.execute("INSERT INTO students VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)", row).lastrowid
        marks = [(key, number, json.dumps(vars(mark))) for key, mark in student.marks.items()]
        self.database.executemany("INSERT INTO marks VALUES (?, ?, ?)", marks)
        given = [(key, number, self._number(key, one)) for key, some in answers.items() for one in some]
        self.database.executemany("INSERT OR IGNORE INTO given VALUES (?, ?, ?)", given)

    def submitted_places(self) -> set[int]:
        """The places in the roster of those who handed something in."""
        return {row[0] for row in self.database.execute("SELECT DISTINCT place FROM files WHERE place IS NOT NULL")}

    def answers_to(self, exercise: str) -> Iterator[tuple[int, list[Answer]]]:
        """The answers to one exercise: number of the student, and what this student gave."""
        rows = self.database.execute(
            "SELECT student, answer FROM given WHERE exercise = ? ORDER BY student, answer", (exercise,)
        )
        for student, some in groupby(rows, key=lambda row: row[0]):
            yield student, [self._answer(answer) for _, answer in some]

    def shown(self, name: str, composed: str, rank: int, rest: Mapping[str, Any], file: str) -> str:
        """The name for the marks: with id, e-mail or file behind it where somebody else has the name as well founded.

        So a file that is added changes the name of nobody who has a better claim to it than that file.
        """
        query = "SELECT 1 FROM students WHERE composed = ? AND rank <= ? LIMIT 2"
        several = len(self.database.execute(query, (composed, rank)).fetchall()) > 1
        told_apart = rest["id"] or rest["email"] or file
        return f"{name} ({told_apart})" if several and told_apart else name

    def who(self, number: int) -> tuple[str, str]:
        """Name and file of a student."""
        return self.database.execute("SELECT name, file FROM students WHERE number = ?", (number,)).fetchone()

    def marks_of(self, exercise: str) -> Iterator[Mark]:
        """The marks for one exercise, of all files that could be read."""
        query = """SELECT mark FROM marks JOIN students ON students.number = student
                   WHERE exercise = ? AND NOT broken ORDER BY student"""
        return (_mark(text) for (text,) in self.database.execute(query, (exercise,)))


class Students(Sequence[Student]):
    """The students of a class on disk, sorted by name, each read when it is asked for.

    Args:
        on_disk: the class.
        exercises: the ids of those that were graded, in their order.
        only_broken: only students whose file could not be graded.
    """

    def __init__(self, on_disk: ClassOnDisk, exercises: Sequence[str], only_broken: bool = False) -> None:
        self._on_disk, self._exercises = on_disk, tuple(exercises)
        self._where = "WHERE broken" if only_broken else ""

    def __len__(self) -> int:
        query = f"SELECT count(*) FROM students {self._where}"
        return self._on_disk.database.execute(query).fetchone()[0]

    def __iter__(self) -> Iterator[Student]:
        query = f"SELECT * FROM students {self._where} ORDER BY {IN_ORDER}"
        return map(self._student, self._on_disk.database.execute(query))

    @overload
    def __getitem__(self, index: int) -> Student: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Student, ...]: ...
    def __getitem__(self, index: int | slice) -> Student | tuple[Student, ...]:
        places = range(len(self))[index]
        if isinstance(places, range):
            return tuple(self[place] for place in places)
        query = f"SELECT * FROM students {self._where} ORDER BY {IN_ORDER} LIMIT 1 OFFSET ?"
        return self._student(self._on_disk.database.execute(query, (places,)).fetchone())

    def _student(self, row: tuple[int, str, str, str, bool, str, str, int, bytes]) -> Student:
        """The student in a row, with the name that `ClassOnDisk.shown` gives."""
        number, _, name, file, _, rest, composed, rank, _ = row
        read = self._on_disk.database.execute
        marks = {}
        for exercise in self._exercises:
            query = "SELECT mark FROM marks WHERE exercise = ? AND student = ?"
            marks[exercise] = _mark(read(query, (exercise, number)).fetchone()[0])
        kept: dict[str, Any] = json.loads(rest)
        shown = self._on_disk.shown(name, composed, rank, kept, file)
        return Student(shown, file, marks, **{**kept, "notes": tuple(kept["notes"])})


def _mark(text: str) -> Mark:
    kept = json.loads(text)
    return Mark(**{**kept, "lines": tuple(kept["lines"])})


def _bytes(path: PurePath) -> bytes:
    """A path so that bytes sort as its parts do."""
    return b"\0".join(map(os.fsencode, path.parts))


def _path(form: bytes) -> PurePath:
    return PurePath(*map(os.fsdecode, form.split(b"\0")))
