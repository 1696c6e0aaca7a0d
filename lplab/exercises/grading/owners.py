"""Whose file it is: from its path, as learning systems name what they let an instructor download.

Four forms are known. They are read by what the system itself writes, never by what a student may name: the first part
of a path for Moodle, the names of the files beside each other for Canvas, the file of metadata for Gradescope, the
folder ``submitted`` for nbgrader.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lplab.exercises.grading.submissions import clean

MOODLE = re.compile(r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)(?:_.*)?")
CANVAS = re.compile(r"(?P<name>[^_]+)_(?P<late>LATE_)?(?P<id>\d+)_\d+_.+")
METADATA = "submission_metadata.yml"  # of an export of Gradescope
TIMESTAMP = "timestamp.txt"  # of nbgrader, beside the notebooks of one student
PARTS = ("name", "id", "email")  # the groups that a pattern may have


@dataclass(frozen=True)
class Owner:
    """Whose file it is, as far as its path tells.

    Args:
        group: the files of one student have the same.
        name: for the marks; "" if the path tells none, then the submission has its own.
        keys: what may stand in a roster: ids, e-mail, name.
        time: when it was handed in, if that is known.
        late: whether the system marked it as late.
        others: names of those who handed it in together with the owner.
    """

    group: PurePath
    name: str = ""
    keys: tuple[str, ...] = ()
    time: datetime | None = None
    late: bool = False
    others: tuple[str, ...] = ()


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
        self.submitters = _submitters(folder / METADATA) if (folder / METADATA).is_file() else {}

    def of(self, path: PurePath) -> Owner:
        """The owner of one file, by its path from the folder of the class."""
        group = path.parent if path.parent.parts else path
        first = path.parts[0]
        if self.pattern is not None:
            found = self.pattern.search(path.as_posix())
            return _by_pattern(found) if found else Owner(group, keys=_plain_keys(path))
        if first in self.submitters:
            return self.submitters[first]
        if moodle := MOODLE.fullmatch(first):
            keys = (f"Participant {moodle['id']}", clean(moodle["name"]))
            return Owner(PurePath(f"{moodle['name']}_{moodle['id']}"), keys[1], keys)
        if len(path.parts) == 1 and (canvas := CANVAS.fullmatch(first)):
            group, name = PurePath(f"{canvas['name']}_{canvas['id']}"), clean(canvas["name"])
            return Owner(group, name, (canvas["id"], name), late=bool(canvas["late"]))
        if self.is_nbgrader and len(path.parts) == 3:
            time = _timestamp(self.folder / path.parent / TIMESTAMP)
            return Owner(PurePath(first), clean(first), (first,), time)
        return Owner(group, keys=_plain_keys(path))


def _plain_keys(path: PurePath) -> tuple[str, ...]:
    """The name of the folder that a file is in, or of the file itself if it is in none, as ``lplab report`` makes it.

    >>> _plain_keys(PurePath("s11/lab01.ipynb")), _plain_keys(PurePath("lplab-report_Ada_Lovelace.json"))
    (('s11',), ('Ada_Lovelace',))
    """
    return (path.parts[0] if len(path.parts) > 1 else path.stem.removeprefix("lplab-report_"),)


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
    known = {part: clean(groups[part]) for part in PARTS if groups.get(part)}
    name = known.get("name") or known.get("id") or known.get("email", "")
    return Owner(PurePath("_".join(known.values()).replace("/", "_") or "nobody"), name, tuple(known.values()))


def _submitters(path: Path) -> dict[str, Owner]:
    """The owner of each folder of an export of Gradescope, as its file of metadata tells."""
    import yaml  # for such an export alone

    try:
        entries: Mapping[str, Mapping[str, Any]] = yaml.safe_load(path.read_text("utf-8"))
        return {folder: _submitter(folder, entry) for folder, entry in entries.items()}
    except (yaml.YAMLError, UnicodeDecodeError, AttributeError, KeyError, IndexError, TypeError) as problem:
        raise ValueError(f"{path.name} is not as Gradescope writes it: {clean(str(problem))}") from None


def _submitter(folder: str, entry: Mapping[str, Any]) -> Owner:
    first = entry[":submitters"][0]
    known = [clean(str(first[key])) for key in (":sid", ":email", ":name") if first.get(key)]
    time = entry.get(":created_at")
    if isinstance(time, datetime) and time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    others = tuple(clean(str(one[":name"])) for one in entry[":submitters"][1:])
    handed_in = time if isinstance(time, datetime) else None
    return Owner(PurePath(folder), clean(str(first[":name"])), tuple(known), handed_in, others=others)


def _timestamp(path: Path) -> datetime | None:
    """The time in a file of nbgrader, such as "2026-10-05 12:30:00 UTC"; None if there is none that can be read."""
    try:
        day, clock, *zone = path.read_text("utf-8").split()
        return datetime.fromisoformat(f"{day} {clock}").replace(tzinfo=ZoneInfo(zone[0] if zone else "UTC"))
    except (OSError, ValueError, ZoneInfoNotFoundError):
        return None


def leads_outside(path: Path, folder: Path) -> bool:
    """Whether a file of a class is a link, or lies behind one, that leaves the student's own folder.

    A student's folder is the first one below that of the class; a file beside those folders has none.
    """
    parts = path.relative_to(folder).parts
    steps = [folder.joinpath(*parts[:count]) for count in range(1, len(parts) + 1)]
    if not any(step.is_symlink() for step in steps):
        return False
    own = steps[0]
    inside = os.path.realpath(folder) + os.sep + own.name
    return len(parts) == 1 or not Path(os.path.realpath(path)).is_relative_to(inside)
