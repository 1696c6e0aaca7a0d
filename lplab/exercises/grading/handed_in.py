"""What lies in the folder of a class: every file that was handed in, whatever its name, and what is passed over."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

READ = (".ipynb", ".json")
COPIES = (".py", ".pdf", ".html", ".htm", ".docx", ".zip", ".gz", ".tgz", ".tar", ".7z", ".rar")  # made from a notebook
PASSED_OVER = frozenset(  # what programs and systems put beside the files of a student
    (
        "__MACOSX", "__pycache__", "node_modules", "Thumbs.db", "desktop.ini",
        ".DS_Store", ".cache", ".conda", ".config", ".git", ".github", ".hg", ".idea", ".ipynb_checkpoints", ".ipython",
        ".jupyter", ".local", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".svn", ".tox", ".venv", ".vscode",
        ".Trash", ".Trashes", ".Spotlight-V100", ".fseventsd", ".virtual_documents",
        "$RECYCLE.BIN", "System Volume Information", "Icon\r",
    )
)  # fmt: skip
PASSED_OVER_ANYHOW = frozenset(name.casefold() for name in PASSED_OVER)  # Windows writes Desktop.ini and thumbs.db, too
PLACEHOLDER = re.compile(r"\.(?P<name>.+)\.icloud")  # macOS: the file itself is not on this computer
PASSED_OVER_PREFIXES = ("._", ".~lock.", "~$")  # of macOS, LibreOffice and Word, beside a file of theirs


@dataclass(frozen=True)
class HandedIn:
    """A file in the folder of a class, or a folder in it that is not looked into.

    Args:
        path: of it.
        owner: the path that says whose it is: its own, or that of the file beside which it stands.
        problem: why it is not read, "" if it is to be read.
        aside: it is passed over, or stands beside a notebook or report of the same name: no note of it is needed where
            the student has a file that is read.
    """

    path: Path
    owner: Path
    problem: str = ""
    aside: bool = False


def find_files(folder: Path, leave_out: Sequence[Path] = ()) -> Iterator[HandedIn]:
    """All files of a class, folder by folder, each folder sorted.

    A link to a folder is a file here: it is not followed. What programs put into the folder of the class itself is
    nobody's, and left out.

    Args:
        folder: of the class.
        leave_out: folders and files that are left out.

    Raises:
        ValueError: there is no such folder, or no file in it.
        OSError: the folder cannot be opened.
    """
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}")
    away = {os.path.realpath(path) for path in leave_out}
    away_names = {path.name for path in (*leave_out, *map(Path, away))}
    any_file, waiting = False, [folder]
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(here) as some:
                entries = sorted(some, key=lambda entry: entry.name)
        except OSError as error:
            if here == folder:
                raise
            any_file = True  # a zip may bring a folder that nobody can open: its student has a row that says so
            yield HandedIn(here, here, f"is a folder that cannot be opened: {error.strerror or error}")
            continue
        entries = [one for one in entries if one.name not in away_names or os.path.realpath(one.path) not in away]
        read = {Path(entry.name).stem: entry for entry in entries if _is_read(entry)}
        if not entries and here.suffix.lower() in READ:
            any_file = True
            yield HandedIn(here, here, "is a folder")
        folders = []
        for entry in entries:
            path, twin = Path(entry.path), read.get(Path(entry.name).stem)
            if (missing := PLACEHOLDER.fullmatch(entry.name)) and not _is_folder(entry):
                made = HandedIn(path, here / missing["name"], "is a placeholder of iCloud; download the file itself")
            elif is_passed_over(entry):
                if here == folder:
                    continue
                made = HandedIn(path, path, "is passed over", aside=True)
            elif _is_folder(entry):
                folders.append(path)
                continue
            elif twin is not None and path.suffix.lower() in COPIES:
                made = HandedIn(path, Path(twin.path), f"stands beside {twin.name}, which counts", aside=True)
            else:
                made = HandedIn(path, path)
            any_file = True
            yield made
        waiting += reversed(folders)
    if not any_file:
        raise ValueError(f"there is no notebook (.ipynb) and no report (.json) in {folder}")


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:  # reading it as a file will say why it cannot be opened
        return False


def _is_read(entry: os.DirEntry[str]) -> bool:
    return entry.name.lower().endswith(READ) and not is_passed_over(entry) and not _is_folder(entry)


def is_passed_over(entry: os.DirEntry[str]) -> bool:
    """Whether a program made it; of hidden files only those count that may be a notebook or a report."""
    if entry.name.casefold() in PASSED_OVER_ANYHOW or entry.name.startswith(PASSED_OVER_PREFIXES):
        return True
    return entry.name.startswith(".") and not entry.name.lower().endswith(READ) and not _is_folder(entry)
