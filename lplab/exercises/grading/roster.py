"""The list of a class: who is in it, by the names and numbers under which a submission may come."""

from __future__ import annotations

import csv
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

MOODLE, CANVAS, OTHER = "Moodle's grading worksheet", "Canvas's gradebook", "a list"
COLUMNS = {  # what a column may be called, in small letters
    "id": ("sis user id", "id number", "student id", "student number", "student_id", "sid", "id"),
    "email": ("email address", "email", "e-mail", "mail"),
    "name": ("full name", "student", "name"),
    "first": ("first name", "first_name", "firstname", "given name"),
    "last": ("last name", "last_name", "lastname", "surname", "family name"),
    "login": ("sis login id", "username", "login"),
    "number": ("identifier", "id"),  # by which Moodle and Canvas know a participant
    "submitted": ("submitted",),  # when, in ISO 8601
}
NO_STUDENT = re.compile(
    r"\s*(points possible\b.*|student, test)?\s*", re.IGNORECASE
)  # in the column of names of Canvas


@dataclass(frozen=True)
class Enrolled:
    """One student of the list.

    Args:
        name, id, email: as the list has them; "" where it has none.
        keys: all that may name the student in the path of a file.
        row: the whole row, by column.
        submitted: when something was handed in, if the list has such a column.
    """

    name: str
    id: str
    email: str
    keys: tuple[str, ...]
    row: Mapping[str, str]
    submitted: datetime | None = None


class Roster:
    """The students of a class.

    Args:
        columns: of the file, in their order.
        students: in the order of the file.
        others: rows that are no student, such as the points of Canvas.
    """

    def __init__(
        self,
        columns: Iterable[str],
        students: Iterable[Enrolled],
        others: Iterable[Mapping[str, str]] = (),
    ) -> None:
        self.columns, self.students, self.others = tuple(columns), tuple(students), tuple(others)
        self.by_key: dict[str, set[int]] = {}
        for place, student in enumerate(self.students):
            for key in student.keys:
                self.by_key.setdefault(key, set()).add(place)

    @property
    def kind(self) -> str:
        """Which system wrote the list: `MOODLE`, `CANVAS` or `OTHER`."""
        if {"Identifier", "Grade"} <= set(self.columns):
            return MOODLE
        return CANVAS if self.columns[:1] == ("Student",) and {"ID", "Section"} <= set(self.columns) else OTHER

    def find(self, keys: Iterable[str]) -> int | None:
        """The place of the one student with the first of these keys that is known; None if no key names exactly one.

        >>> ada = Enrolled("Ada Lovelace", "4711", "", tuple(keys_of("Ada Lovelace", "4711")), {})
        >>> [Roster(["name", "id"], [ada]).find([key]) for key in ("lovelaceada", "4711", "Charles")]
        [0, 0, None]
        """
        for key in keys:
            places = self.by_key.get(plain(key), set())
            if len(places) == 1:
                return next(iter(places))
        return None

    def remarks(self, keys: Iterable[str], report_name: str) -> tuple[str, ...]:
        """Hints for whoever looks for a student that `find` did not find.

        Args:
            keys: that name nobody or several.
            report_name: the name in a report, which may be that of a classmate; another one is not looked at.

        >>> Roster(["name"], [Enrolled("Ada", "", "", ("ada",), {})]).remarks(["lab01"], "Ada")
        ('its report says that it is of Ada, who is in the roster',)
        """
        found = [f"several of the roster are called {key}" for key in keys if len(self.by_key.get(plain(key), ())) > 1]
        if (place := self.find([report_name])) is not None:
            found.append(f"its report says that it is of {self.students[place].name}, who is in the roster")
        return tuple(found)


def plain(text: str) -> str:
    """A name or number without what systems change in it: case, accents, blanks and signs.

    >>> plain("Lovelace, Ada"), plain("Zoë"), plain("Ada@uni.edu")
    ('lovelaceada', 'zoe', 'ada@uni.edu')
    """
    text = unicodedata.normalize("NFKD", text).casefold()
    return "".join(c for c in text if c.isalnum() or c in "@." * ("@" in text))


def keys_of(name: str, *others: str) -> list[str]:
    """The keys of a student: the numbers, and the name with its parts in each order that turning them around gives."""
    parts = [part for part in re.split(r"[\s,]+", name) if part]
    turned = ["".join(parts[i:] + parts[:i]) for i in range(len(parts))]
    local = [other.partition("@")[0] for other in others if "@" in other]
    return list(dict.fromkeys(filter(None, map(plain, (*others, *local, *turned)))))


def read_roster(path: Path) -> Roster:
    """Read a list of a class: CSV with a header, as Moodle, Canvas, Gradescope, nbgrader or a spreadsheet write it.

    Raises:
        ValueError: it is no such file, has no column for a name or an id, or has an id twice.
        OSError: it cannot be read.
    """
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not in UTF-8; save it again as “CSV UTF-8”") from None
    header = text.partition("\n")[0]
    delimiter = max(",;\t", key=header.count)
    try:
        reader = csv.DictReader(text.splitlines(keepends=True), delimiter=delimiter, strict=True)
        columns = [column or "" for column in reader.fieldnames or ()]
        rows = [{column: (row.get(column) or "").strip() for column in columns} for row in reader]
    except csv.Error as problem:
        raise ValueError(f"{path} is no CSV: {problem}") from None
    places = {part: _column(columns, names) for part, names in COLUMNS.items()}
    if not any(places[part] for part in ("id", "email", "name", "login", "last")):
        raise ValueError(f"{path} has no column for a name, an id or an e-mail; it has: {', '.join(columns)}")
    students: list[Enrolled] = []
    others: list[Enrolled] = []
    for row in rows:
        student = _enrolled(row, places, path)
        (others if NO_STUDENT.fullmatch(student.name or student.id or student.email) else students).append(student)
    if not students:
        raise ValueError(f"{path} has no student in it")
    for part in ("id", "email"):
        known = Counter(getattr(student, part) for student in students)
        twice = next((value for value, count in known.items() if value and count > 1), None)
        if twice:
            raise ValueError(f"{path} has the {part} {twice!r} twice")
    return Roster(columns, students, [other.row for other in others])


def _column(columns: Iterable[str], names: Iterable[str]) -> str:
    known = {column.strip().casefold(): column for column in columns}
    return next((known[name] for name in names if name in known), "")


def _enrolled(row: Mapping[str, str], places: Mapping[str, str], path: Path) -> Enrolled:
    part = {what: row[column] if column else "" for what, column in places.items()}
    name = part["name"] or f"{part['first']} {part['last']}".strip() or part["login"] or part["email"] or part["id"]
    submitted = None
    if part["submitted"]:
        try:
            submitted = datetime.fromisoformat(part["submitted"])
        except ValueError:
            raise ValueError(
                f"{path}: {part['submitted']!r} of {name} is no time such as 2026-10-05T23:59+02:00"
            ) from None
        if submitted.tzinfo is None:
            raise ValueError(f"{path}: {part['submitted']!r} of {name} needs its offset, such as +02:00")
    keys = keys_of(name, part["number"], part["id"], part["email"], part["login"])
    return Enrolled(name, part["id"], part["email"], tuple(keys), row, submitted)
