"""Whose file it is: from its path, as learning systems name what they let an instructor download.

Five forms are known. They are read by what the system itself writes, never by what a student may name: the first part
of a path for Moodle and Sakai, the names of the files beside each other for Canvas, the file of metadata for
Gradescope, the folder ``submitted`` for nbgrader. In any other class the first folder of a path is one student.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any
from unicodedata import normalize
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lplab.exercises.grading.handed_in import READ, is_passed_over
from lplab.exercises.grading.submissions import clean, name_of

MOODLE = re.compile(r"(?P<name>.+?)(?:_(?P<id>\d+))?_assignsubmission_(?:file|onlinetext)(?:_.*)?", re.DOTALL)
CANVAS = re.compile(
    r"(?P<name>.+?)_(?P<late>LATE_)?(?P<id>[1-9]\d*)_(?:(?P<attachment>[1-9]\d*)_.+|(?:text|link)\.html)", re.DOTALL
)
SAKAI, ATTACHMENTS = re.compile(r"(?P<name>.+)\((?P<id>[^()]+)\)", re.DOTALL), "Submission attachment(s)"
METADATA = "submission_metadata.yml"  # of an export of Gradescope, beside its folders
GRADESCOPE = re.compile(r"submission_\d+")  # such a folder
TIMESTAMP = "timestamp.txt"  # of nbgrader, beside the notebooks of one student
MAX_TIMESTAMP = 200  # characters of it that are read
PARTS = ("name", "id", "email")  # the groups that a pattern may have
NOT_CANVAS = (
    "is named as Canvas names files, but not all such files here can be Canvas's: the file was joined with nobody"
)


@dataclass(frozen=True)
class Owner:
    """Whose file it is, as far as its path tells.

    Args:
        group: the files of one student have the same. It is that folder or file itself, or has two parts.
        name: for the marks; "" if the path tells none, then the submission has its own.
        keys: what may stand in a roster: ids, e-mail, name.
        time: when it was handed in, if that is known.
        late: whether the system marked it as late.
        others: names of those who handed it in together with the owner.
        number: of the participant as the system counts, which stands in the system's own roster, too; else "".
        notes: what is odd about it.
    """

    group: PurePath
    name: str = ""
    keys: tuple[str, ...] = ()
    time: datetime | None = None
    late: bool = False
    others: tuple[str, ...] = ()
    number: str = ""
    notes: tuple[str, ...] = ()


class Owners:
    """Finds the owner of each file in the folder of a class.

    Args:
        folder: of the class.
        pattern: a regular expression with the groups ``id``, ``email`` or ``name``, for a path from there.

    Raises:
        ValueError: the pattern is none or has no such group; the metadata of Gradescope cannot be read.

    >>> moodle = Owners(Path()).of(PurePath("Ada Lovelace_4711_assignsubmission_file_/lab 01.ipynb"))
    >>> moodle.name, moodle.keys
    ('Ada Lovelace', ('Participant 4711', 'Ada Lovelace'))
    >>> canvas = Owners(Path()).of(PurePath("lovelaceada_LATE_4711_815_lab01-1.ipynb"))
    >>> canvas.name, canvas.keys, canvas.late
    ('lovelaceada', ('4711', 'lovelaceada'), True)
    """

    def __init__(self, folder: Path, pattern: str = "") -> None:
        self.folder = folder
        self.is_nbgrader = folder.resolve().name == "submitted"
        self.pattern = _compiled(pattern) if pattern else None
        self.submitters: dict[str, Owner] = {}
        if (folder / METADATA).is_file() and any(map(_is_gradescopes, _listed(folder))):  # else a student wrote it
            self.submitters = _submitters(folder / METADATA)

    def of(self, path: PurePath) -> Owner:
        """The owner of one file, by its path from the folder of the class."""
        first = path.parts[0]
        group = PurePath(first)
        plain = Owner(group, keys=_plain_keys(path))
        if self.pattern is not None:
            match = self.pattern.search(path.as_posix())
            return _by_pattern(match) if match else plain
        if first in self.submitters:
            return self.submitters[first]
        if moodle := MOODLE.fullmatch(first):
            name, number = clean(moodle["name"]), f"Participant {moodle['id']}" if moodle["id"] else ""
            group = group_of("Moodle", normalize("NFC", moodle["name"]), str(moodle["id"]))
            return Owner(group, name, tuple(filter(None, (number, name))), number=number)
        if (len(path.parts) == 1 or first in self._unpacked) and (canvas := _canvas(first)):
            name = clean(canvas["name"])
            number, keys = canvas["id"], (canvas["id"], name)
            if first in self._not_canvas:
                return Owner(group, keys=keys, number=number, notes=(NOT_CANVAS,))
            group = group_of("Canvas", canvas["name"], number)
            return Owner(group, name, keys, late=bool(canvas["late"]), number=number)
        if self.is_nbgrader and len(path.parts) > 1:
            time = self._handed_in(PurePath(*path.parts[:2])) if len(path.parts) > 2 else None
            return Owner(group, clean(first), (first,), time)
        if (sakai := SAKAI.fullmatch(first)) and os.path.isdir(self.folder / first / ATTACHMENTS):
            return Owner(group, clean(first), (clean(sakai["id"]), clean(sakai["name"])))
        return plain

    def wrote(self, path: PurePath) -> bool:
        """Whether a file is one of the system, not of a student."""
        if self.is_nbgrader and len(path.parts) == 3:
            return path.name == TIMESTAMP
        return path.parts == (METADATA,) and bool(self.submitters)

    @cached_property
    def _not_canvas(self) -> set[str]:
        """The files beside each other that are named as Canvas names files, where it cannot be Canvas who did.

        Canvas gives each student one number, each file one of its own, and students have different names. Where all
        names are the same (``week_10_2_ada.ipynb``), a number has two names, or a file has the number of another one,
        somebody else has named them. A file that was saved twice or unpacked has its number twice.
        """
        names_of_files = [entry.name for entry in _listed(self.folder) if not is_passed_over(entry)]
        canvas_names = {name: canvas for name in names_of_files if (canvas := _canvas(name))}
        names: dict[str, set[str]] = defaultdict(set)  # by the number of the student
        for canvas in canvas_names.values():
            names[canvas["id"]].add(canvas["name"])
        attached = {(canvas["attachment"], _stem(PurePath(name))) for name, canvas in canvas_names.items()}
        files = Counter(attachment for attachment, _ in attached if attachment)
        odd = {number for number, some in names.items() if len(some) > 1}
        odd |= {canvas["id"] for canvas in canvas_names.values() if files[canvas["attachment"]] > 1}
        if len(canvas_names) > 1 and len(set().union(*names.values())) == 1:
            odd |= set(names)
        return {name for name, canvas in canvas_names.items() if canvas["id"] in odd}

    @cached_property
    def _unpacked(self) -> set[str]:
        """The folders beside a file of the same name, from which they were unpacked."""
        folders, files = set(), set()
        for entry in _listed(self.folder):
            if entry.is_dir(follow_symlinks=False):
                folders.add(entry.name)
            else:
                files.add(_stem(PurePath(entry.name)))
        return folders & files

    def _handed_in(self, folder: PurePath) -> datetime | None:
        path = self.folder / folder / TIMESTAMP
        return None if leads_outside(path, self.folder) else _timestamp(path)


def group_of(kind: str, *parts: str) -> PurePath:
    """The group of the files of one owner. It has two parts, so no file or folder of the class can be called so."""
    return PurePath("owner", " ".join([kind, *parts]).replace("/", "_"))


def _listed(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as some:
        return list(some)


def _is_gradescopes(entry: os.DirEntry[str]) -> bool:
    return GRADESCOPE.fullmatch(entry.name) is not None and entry.is_dir(follow_symlinks=False)


def _canvas(name: str) -> re.Match[str] | None:
    """The parts of a name that Canvas may have given: it writes names of students in small letters."""
    match = CANVAS.fullmatch(name)
    return match if match and match["name"] == match["name"].lower() else None


def _plain_keys(path: PurePath) -> tuple[str, ...]:
    """The name of the folder that a file is in, or of the file itself if it is in none, as ``lplab report`` makes it.

    What looks like an ending may be a part of the name, so the roster must not know somebody else by the whole name.

    >>> _plain_keys(PurePath("s11/lab01.ipynb")), _plain_keys(PurePath("lplab-report_Ada_Lovelace (1).json"))
    (('s11',), ('Ada_Lovelace',))
    >>> _plain_keys(PurePath("ada.lovelace"))
    ('ada.lovelace', 'ada')
    """
    if len(path.parts) > 1:
        return (path.parts[0],)
    name = _stem(path).removeprefix("lplab-report_")
    is_whole = path.suffix.lower() in READ or name == path.name
    return (name,) if is_whole else (clean(path.name), name)


def _stem(path: PurePath) -> str:
    """The name of a file without its ending and without the number by which a browser tells files of one name apart."""
    return re.sub(r"\s*\(\d+\)$", "", name_of(path))


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except re.error as problem:
        raise ValueError(f"{pattern!r} is no regular expression: {problem}") from None
    if not set(PARTS) & set(compiled.groupindex):
        raise ValueError(f"{pattern!r} has no group (?P<id>…), (?P<email>…) or (?P<name>…)")
    return compiled


def _by_pattern(found: re.Match[str]) -> Owner:
    groups = found.groupdict()
    parts = {part: clean(groups[part]) for part in PARTS if groups.get(part)}
    name = parts.get("name") or parts.get("id") or parts.get("email", "")
    return Owner(group_of("pattern", *parts.values()), name, tuple(parts.values()))


# ---- Gradescope's metadata -------------------------------------------------------------------------------------------


def _submitters(path: Path) -> dict[str, Owner]:
    """The owner of each folder of an export of Gradescope, as its file of metadata tells.

    An entry that is not as Gradescope writes it costs the others nothing: its folder is a student without a name.
    """
    import yaml  # for such an export alone

    text = path.read_bytes().decode("utf-8-sig", "replace")
    try:
        pairs = list(_entries(yaml.compose(text, yaml.SafeLoader)))
    except (yaml.YAMLError, RecursionError):  # then entry by entry: each begins at the beginning of a line
        pairs = []
        for block in re.split(r"^(?=[^\s#-])", text, flags=re.MULTILINE):
            try:
                pairs += _entries(yaml.compose(block, yaml.SafeLoader))
            except (yaml.YAMLError, RecursionError):
                pairs.append((block.partition(":")[0].strip("\"' \n"), None))
    submitters = {folder: _submitter(folder, entry) for folder, entry in pairs}
    if not submitters:
        raise ValueError(f"{path.name} is not as Gradescope writes it: it has no entries")
    return submitters


def _entries(mapping: Any) -> Iterator[tuple[str, Any]]:
    """The keys of a mapping in YAML and their values, which are not read yet."""
    import yaml

    if isinstance(mapping, yaml.MappingNode):
        yield from ((str(key.value), value) for key, value in mapping.value)


def _submitter(folder: str, node: Any) -> Owner:
    import yaml

    try:
        entry = dict(_entries(node))  # of the other keys none is read
        first, *rest = yaml.SafeLoader("").construct_document(entry[":submitters"])
        keys = [clean(str(first[key])) for key in (":sid", ":email", ":name") if first.get(key)]
        name = clean(str(first.get(":name") or keys[0]))
        others = tuple(clean(str(one.get(":name") or one.get(":email"))) for one in rest)
    except (yaml.YAMLError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as problem:
        note = f"its entry in {METADATA} is not as Gradescope writes it ({type(problem).__name__})"
        return Owner(PurePath(folder), keys=(folder,), notes=(note,))
    time: datetime | None = None
    notes: tuple[str, ...] = ()
    if ":created_at" in entry:
        try:
            time = yaml.SafeLoader("").construct_document(entry[":created_at"])
            time = time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
        except (yaml.YAMLError, AttributeError, ValueError, OverflowError):  # a day alone, a 13th month, no time at all
            time, notes = None, (f"its time in {METADATA} cannot be read",)
    return Owner(PurePath(folder), name, tuple(keys), time, others=others, notes=notes)


# ---- files beside those of students ----------------------------------------------------------------------------------


def _timestamp(path: Path) -> datetime | None:
    """The time in a file of nbgrader, such as "2026-10-05 12:30:00 UTC"; None if there is none that can be read."""
    try:
        if not path.is_file():  # a pipe would be waited for
            return None
        with path.open(encoding="utf-8") as file:
            day, clock, *zone = file.read(MAX_TIMESTAMP).split()
        time = datetime.fromisoformat(f"{day} {clock}").replace(tzinfo=ZoneInfo(zone[0] if zone else "UTC"))
        return time.astimezone(UTC)
    except (OSError, ValueError, OverflowError, ZoneInfoNotFoundError):
        return None


def leads_outside(path: Path, folder: Path) -> bool:
    """Whether a file of a class is a link, or lies behind one, that leaves the student's own folder.

    A student's folder is the first one below that of the class; a file beside those folders has none.
    """
    parts = path.relative_to(folder).parts
    steps = [folder.joinpath(*parts[:count]) for count in range(1, len(parts) + 1)]
    if not any(os.path.islink(step) for step in steps):
        return False
    own = steps[0]
    inside = os.path.realpath(folder) + os.sep + own.name
    return len(parts) == 1 or not Path(os.path.realpath(path)).is_relative_to(inside)
