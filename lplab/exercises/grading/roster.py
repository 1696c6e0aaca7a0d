"""The list of a class: who is in it, by the names and numbers under which a submission may come."""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from unicodedata import category, combining, normalize

from lplab.exercises.grading.owners import Owner
from lplab.exercises.grading.submissions import clean

MOODLE, CANVAS, OTHER = "Moodle's grading worksheet", "Canvas's gradebook", "a list"
COLUMNS = {  # what a column may be called, in small letters
    "id": ("sis user id", "id number", "student id", "student number", "student_id", "sid", "id"),
    "email": ("email address", "email", "e-mail", "mail"),
    "name": ("full name", "student", "name"),
    "first": ("first name", "first_name", "firstname", "given name"),
    "last": ("last name", "last_name", "lastname", "surname", "family name"),
    "login": ("sis login id", "username", "login", "github_username"),
    "number": ("identifier", "id"),  # by which Moodle and Canvas know a participant
    "submitted": ("submitted",),  # when, in ISO 8601
}
# In the column of names of Canvas.
NO_STUDENT = re.compile(r"\s*(points possible\b.*|student, test)?\s*", re.IGNORECASE)
UNZIPPED = ("cp437", "cp850", "cp1252")  # as which programs that unpack a zip read its names, which are in UTF-8


@dataclass(frozen=True)
class Enrolled:
    """One student of the list.

    Args:
        name, id, email: as the list has them; "" where it has none.
        keys: all that may name the student in the path of a file.
        row: the whole row, by column.
        submitted: when something was handed in, if the list has such a column.
        number: by which Moodle or Canvas knows the student; "" in other lists.
        notes: what is odd about the row.
    """

    name: str
    id: str
    email: str
    keys: tuple[str, ...]
    row: Mapping[str, str]
    submitted: datetime | None = None
    number: str = ""
    notes: tuple[str, ...] = ()

    def is_called(self, name: str) -> bool:
        """Whether a system that has this list may write the name of the student so.

        Moodle puts the name of a group in front; a number may follow, where Moodle hides the names. A program that
        unpacks a zip may take its UTF-8 for another encoding.

        >>> ada = Enrolled("Zoë Li", "", "", tuple(keys_of("Zoë Li")), {})
        >>> [ada.is_called(name) for name in ("Zoë Li", "Group A-Zoë Li", "Zo├½ Li", "Group A")]
        [True, True, True, False]
        """
        parts = name.split("-")
        forms = [name, f"{name} {self.number.split(' ')[-1]}", *("-".join(parts[i:]) for i in range(1, len(parts)))]
        for encoding in UNZIPPED:
            try:
                forms.append(name.encode(encoding).decode("utf-8"))
            except UnicodeError:  # it was not read so
                continue
        keys = {unaccented(key) for key in self.keys}
        return any(unaccented(plain(form)) in keys for form in forms)


class Roster:
    """The students of a class.

    Args:
        columns: of the file, in their order.
        students: in the order of the file.
        others: rows that are no student, such as the points of Canvas.
        odd: for each row that could not be read its text and a note.
    """

    def __init__(
        self,
        columns: Iterable[str],
        students: Iterable[Enrolled],
        others: Iterable[Mapping[str, str]] = (),
        odd: Iterable[tuple[str, str]] = (),
    ) -> None:
        self.columns, self.students, self.others = tuple(columns), tuple(students), tuple(others)
        self.odd = tuple(odd)
        self.by_key: dict[str, set[int]] = defaultdict(set)
        self.by_unaccented: dict[str, set[int]] = defaultdict(set)
        self.by_unsigned: dict[str, set[int]] = defaultdict(set)
        for place, student in enumerate(self.students):
            for key in student.keys:
                self.by_key[key].add(place)
                self.by_unaccented[unaccented(key)].add(place)
                self.by_unsigned[key.replace("-", "")].add(place)

    @property
    def kind(self) -> str:
        """Which system wrote the list: `MOODLE`, `CANVAS` or `OTHER`."""
        return _kind(self.columns)

    def column(self, heading: str) -> str:
        """The column with a heading, however its letters and blanks are written; "" if there is none."""
        return _column(self.columns, (heading.casefold(),))

    def find(self, keys: Iterable[str]) -> int | None:
        """The place of the one student whom all keys mean that are known; None if there is none, or several.

        >>> ada = Enrolled("Ada Lovelace", "4711", "", tuple(keys_of("Ada Lovelace", "4711")), {})
        >>> [Roster(["name", "id"], [ada]).find([key]) for key in ("lovelaceada", "4711", "Charles")]
        [0, 0, None]
        """
        known = [places for key in keys if (places := self._places(key))]
        places = set.intersection(*known) if known else set()
        return next(iter(places)) if len(places) == 1 else None

    def place_of(self, owner: Owner) -> tuple[int | None, str]:
        """The place of the owner of a file, and a note where what the path tells does not agree with the list.

        Then the file is joined with nobody. A number alone is not enough: Moodle's folder of a group has the number of
        the group, and a list may have other numbers than the system.
        """
        place = self.find(owner.keys)
        if place is None:
            return None, self._contradiction(owner.keys)
        known, number = self.students[place], plain(owner.number)
        if number and place in self._places(owner.number) and not known.is_called(owner.keys[-1]):
            return None, (
                f"{owner.number} is the number of {clean(known.name)} in the roster, who is not called {owner.keys[-1]}"
            )
        if number and known.number and known.number.isdecimal() == number.isdecimal() and plain(known.number) != number:
            return None, f"{clean(known.name)} has the number {clean(known.number)} in the roster, not {owner.number}"
        return place, ""

    def remarks(self, keys: Sequence[str], report_name: str) -> tuple[str, ...]:
        """Hints for whoever looks for a student that `find` did not find.

        Args:
            keys: that name nobody or several.
            report_name: the name in a report, which may be that of a classmate; another one is not looked at.

        >>> Roster(["name"], [Enrolled("Ada", "", "", ("ada",), {})]).remarks(["lab01"], "Ada")
        ('its report says that it is of Ada, who is in the roster',)
        """
        problems = [f"several of the roster are called {key}" for key in keys if len(self._places(key)) > 1]
        if (place := self.find([report_name])) is not None:
            problems.append(f"its report says that it is of {clean(self.students[place].name)}, who is in the roster")
        return tuple(problems)

    def _places(self, key: str) -> set[int]:
        """The places of those whom a key may mean: with its accents if there are such students, else without.

        The same holds for signs within a number. Where the key and the roster both have signs, these must be the same.
        """
        key = plain(key)
        unsigned = self.by_key.get(key.replace("-", "")) if "-" in key else self.by_unsigned.get(key)
        return self.by_key.get(key) or self.by_unaccented.get(unaccented(key)) or unsigned or set()

    def _contradiction(self, keys: Sequence[str]) -> str:
        meant = [(key, self.find([key])) for key in keys]
        known = {place: key for key, place in meant if place is not None}
        if len(known) < 2:
            return ""
        texts = [f"{key} means {clean(self.students[place].name)}" for place, key in known.items()]
        return f"in the roster {' and '.join(texts)}: the file was joined with nobody"


def plain(text: str) -> str:
    """A name or number without what systems change in it: case, blanks and signs. A sign between two digits stays one.

    >>> plain("Lovelace, Ada"), plain("Zoë"), plain("Ada@uni.edu")
    ('lovelaceada', 'zoë', 'ada@uni.edu')
    >>> plain("1-12"), plain("1 / 12"), plain("11_2"), plain("4711.0")
    ('1-12', '1-12', '11-2', '4711.0')
    """
    text = normalize("NFKC", normalize("NFKC", text).casefold())
    text = re.sub(r"(?<=\d)(?:[^\w.@]+|_+)(?=\d)", "\0", text.replace("\0", ""))
    text = text if "@" in text else re.sub(r"(?<!\d)\.|\.(?!\d)", "", text)
    kept = "".join(c for c in text if c.isalnum() or category(c)[0] == "M" or c in "@.\0")
    return kept.replace("\0", "-")


def unaccented(key: str) -> str:
    """What `plain` gives without accents. The vowels of Indic and Thai letters and the dots of kana are none.

    >>> unaccented("zoë"), unaccented("राम") == unaccented("रीमा")
    ('zoe', False)
    """
    return "".join(c for c in normalize("NFKD", key) if not (combining(c) >= 200 or 10 <= combining(c) <= 35))


def keys_of(name: str, *others: str) -> list[str]:
    """The keys of a student: the numbers, and the name with its parts in each order that turning them around gives."""
    parts = [part for part in re.split(r"[\s,]+", name) if part]
    turned = [" ".join(parts[i:] + parts[:i]) for i in range(len(parts))]
    local = [other.partition("@")[0] for other in others if "@" in other]
    return list(dict.fromkeys(filter(None, map(plain, (*others, *local, *turned)))))


def read_roster(path: Path) -> Roster:
    """Read a list of a class: CSV with a header, as Moodle, Canvas, Gradescope, nbgrader or a spreadsheet write it.

    A row that cannot be read costs the others nothing: the marks have a note about it.

    Raises:
        ValueError: it is no such file, or has no column for a name or an id, or no student.
        OSError: it cannot be read.
    """
    text = _text(path)
    first, _, below = text.partition("\n")
    if told := re.fullmatch(r'"?sep=(.)"?', first.strip()):  # a spreadsheet's word for the delimiter
        delimiter, text = told[1], below
    else:
        delimiter = max(",;\t", key=re.sub(r'"[^"]*"', "", first).count)
    rows, odd = _rows(text, delimiter)
    columns = rows[0][1] if rows else []
    places = {part: _column(columns, names) for part, names in COLUMNS.items()}
    if not any(places[part] for part in ("id", "email", "name", "login", "last", "number")):
        told_odd = f"; {odd[0][1]}" if odd else ""
        raise ValueError(f"{path} has no column for a name, an id or an e-mail; it has: {', '.join(columns)}{told_odd}")
    students: list[Enrolled] = []
    others: list[Enrolled] = []
    for line, cells in rows[1:]:
        if len(cells) > len(columns) and any(cells[len(columns) :]):
            note = f"row {line} of the roster has {len(cells)} cells for {len(columns)} headings: put names in quotes"
            odd.append((" ".join(cells), note))
            continue
        row = dict.fromkeys(columns, "") | dict(zip(columns, cells, strict=False))
        student = _enrolled(row, places, _kind(columns))
        (others if NO_STUDENT.fullmatch(student.name) else students).append(student)
    if not students:
        raise ValueError(f"{path} has no student in it{f'; {odd[0][1]}' if odd else ''}")
    told_times = [student for student in students if student.row.get(places["submitted"])]
    if told_times and not any(student.submitted for student in told_times):
        raise ValueError(f"{path}: {told_times[0].notes[0]}")
    return Roster(columns, _told_apart(students), [other.row for other in others], odd)


def _text(path: Path) -> str:
    """The text of a list, its rows ended by line feeds, whatever system wrote it."""
    raw = path.read_bytes()
    try:
        text = raw.decode("utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not in UTF-8; save it again as “CSV UTF-8”") from None
    text = text.strip("\ufeff").replace("\r\n", "\n")
    text = text.lstrip("\r\n")
    if "\r" in text.partition("\n")[0]:  # the heading ends so: an old Macintosh wrote it
        return text.replace("\n", " ").replace("\r", "\n")
    return text.replace("\r", " ")  # a blank in a name


def _rows(text: str, delimiter: str) -> tuple[list[tuple[int, list[str]]], list[tuple[str, str]]]:
    """The cells of each row with its number, and text and a note for each row that cannot be read."""
    odd: list[tuple[str, str]] = []
    reader = partial(csv.reader, delimiter=delimiter, skipinitialspace=True, strict=True)
    try:
        rows = [*enumerate(reader(io.StringIO(text, newline="")), 1)]
    except csv.Error:  # as where a quote is not closed: then line by line, so that it costs one row
        rows = []
        for number, line in enumerate(text.split("\n"), 1):
            try:
                rows += [(number, cells) for cells in reader([line])]
            except csv.Error as problem:
                odd.append((line, f"row {number} of the roster is no CSV: {problem}"))
    stripped = [(number, [cell.strip() for cell in cells]) for number, cells in rows]
    return [(number, cells) for number, cells in stripped if any(cells)], odd


def _heading(text: str) -> str:
    return " ".join(text.split()).casefold()


def _kind(columns: Sequence[str]) -> str:
    headings = [_heading(column) for column in columns]
    if {"identifier", "grade"} <= set(headings):
        return MOODLE
    return CANVAS if headings[:1] == ["student"] and {"id", "section"} <= set(headings) else OTHER


def _column(columns: Iterable[str], names: Iterable[str]) -> str:
    by_heading = {_heading(column): column for column in columns}
    return next((by_heading[name] for name in names if name in by_heading), "")


def _enrolled(row: Mapping[str, str], places: Mapping[str, str], kind: str) -> Enrolled:
    part = {what: row[column] if column else "" for what, column in places.items()}
    number = part["number"] if kind != OTHER else ""
    if kind == MOODLE and (found := re.fullmatch(r"\D*(\d+)", number)):  # the word is that of the teacher's language
        number = f"Participant {found[1]}"
    name = part["name"] or f"{part['first']} {part['last']}".strip() or part["login"] or part["email"] or part["id"]
    name = name or part["number"]
    submitted, notes = None, []
    if part["submitted"]:
        try:
            submitted = datetime.fromisoformat(part["submitted"])
            if submitted.tzinfo is None:
                submitted = None
                notes = [f"{part['submitted']!r} of {name} needs its offset, such as +02:00"]
        except ValueError:
            notes = [f"{part['submitted']!r} of {name} is no time such as 2026-10-05T23:59+02:00"]
    keys = keys_of(name, part["number"], number, part["id"], part["email"], part["login"])
    return Enrolled(name, part["id"], part["email"], tuple(keys), row, submitted, number, tuple(notes))


def _told_apart(students: Sequence[Enrolled]) -> list[Enrolled]:
    """The students, each once. Rows that agree in id, e-mail and name are one; where they do not, notes say so."""
    rows: dict[tuple[object, ...], list[Enrolled]] = defaultdict(list)
    for place, student in enumerate(students):
        told = (student.id, student.email.casefold(), plain(student.name)) if student.id or student.email else (place,)
        rows[told].append(student)
    kept = [
        replace(one, notes=(*one.notes, *[f"stands {1 + len(more)} times in the roster"] * bool(more)))
        for one, *more in rows.values()
    ]
    for part in ("id", "email"):
        places: dict[str, list[int]] = defaultdict(list)
        for place, one in enumerate(kept):
            places[getattr(one, part).casefold()].append(place)
        for value, several in places.items():
            if value and len(several) > 1:
                note = f"the roster has the {part} {value!r} twice: {', '.join(kept[place].name for place in several)}"
                for place in several:
                    kept[place] = replace(kept[place], notes=(*kept[place].notes, note))
    return kept
