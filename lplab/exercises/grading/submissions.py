"""The submission of one student: a notebook or a report, read without running any of it.

A file that cannot be graded gives a `Submission` whose ``problem`` says why, never an error: one broken file must not
stop a class.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from lplab.exercises.grading.cells import cells_of
from lplab.exercises.grading.collected_answers import CollectedAnswers
from lplab.exercises.grading.report_file import ReportError, read_report
from lplab.exercises.isolation.answers import Answer

MAX_FILE_BYTES = 64 * 2**20  # bytes of a file that is read
SIGNATURES = {  # of files that are neither, by their first bytes
    b"PK\x03\x04": "a zip archive; unpack it",
    b"\x1f\x8b": "a gzip archive; unpack it",
    b"7z\xbc\xaf": "a 7z archive; unpack it",
    b"Rar!": "a rar archive; unpack it",
    b"%PDF": "a PDF document; hand in the notebook itself",
}


@dataclass(frozen=True)
class Submission:
    """What one file holds.

    Args:
        name: of the student: as the report gives it, else the path without its ending.
        answers: by exercise id, in the order of the cells; where an exercise occurs several times, the best counts.
        predictions: by question id: question, guess, truth, unit (a notebook holds none).
        notes: what was left out, renamed or odd.
        places: by exercise id: where each answer was found.
        history: by exercise id: attempts, hints, solution_at, version (a notebook holds none).
        problem: why nothing can be graded, "" if something can.
        times: by exercise id: when each answer was handed in, None if that is not known; empty if it never is.
    """

    name: str
    answers: Mapping[str, tuple[Answer, ...]] = field(default_factory=dict)
    predictions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    places: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    history: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    problem: str = ""
    times: Mapping[str, tuple[datetime | None, ...]] = field(default_factory=dict)


class _BrokenError(Exception):
    """The file cannot be graded; the message says why."""


def read_submission(path: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None) -> Submission:
    """Read a notebook (.ipynb, format 4) or a report (.json, made by ``lplab report``); no error, whatever is in it.

    Args:
        path: of the file.
        folder: of the class; the student is named by the path from there.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "ada.ipynb")
    >>> _ = path.write_text("{")
    >>> read_submission(path).problem
    'is no JSON: expecting property name enclosed in double quotes (line 1, column 2)'
    """
    path = Path(path)
    shown = path.relative_to(folder) if folder else Path(path.name)
    name = clean(shown.with_suffix("").as_posix())
    try:
        data, notes = _load(path)
        found = _from_report(data, name) if "lplab_report" in data else _from_notebook(data, name)
    except _BrokenError as problem:
        return Submission(name, problem=clean(str(problem), 300))
    except (RecursionError, MemoryError):  # of Python's own parser, far from anything that a student would write
        return Submission(name, problem="has code that is too large or nested too deeply to be read")
    return replace(found, notes=tuple(clean(note, 300) for note in (*notes, *found.notes)))


def clean(text: str, longest: int = 120) -> str:
    r"""Text from a file as one line that can be printed and written: no control characters, no broken Unicode.

    >>> clean("Ada\tL.\n\udc80")
    'Ada L. ?'
    """
    text = " ".join(text.encode("utf-8", "replace").decode().split())
    text = "".join(character if character.isprintable() else "�" for character in text)
    return text if len(text) <= longest else text[: longest - 1] + "…"


# ---- the file --------------------------------------------------------------------------------------------------------


def _load(path: Path) -> tuple[dict[str, Any], list[str]]:
    """The JSON object in a file, and notes about its encoding."""
    raw = _bytes(path)
    try:
        data, notes = _json(raw)
    except json.JSONDecodeError as error:
        what = error.msg[:1].lower() + error.msg[1:]
        raise _BrokenError(f"is no JSON: {what} (line {error.lineno}, column {error.colno})") from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; thousands of brackets
        what = "a number is too long" if isinstance(error, ValueError) else "it is nested too deeply"
        raise _BrokenError(f"is no JSON that can be read: {what}") from None
    if not isinstance(data, dict) or not {"cells", "worksheets", "nbformat", "lplab_report"} & set(data):
        raise _BrokenError("is JSON, but neither a notebook nor a report")
    return data, notes


def _bytes(path: Path) -> bytes:
    if path.is_dir():
        raise _BrokenError("is a folder")
    try:
        if not path.is_file():
            raise _BrokenError("is no file" if path.exists() else "is not there")
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise _BrokenError(f"is too large: {size / 1e6:.0f} MB; clear its outputs and save it again")
        raw = path.read_bytes()
    except OSError as error:
        raise _BrokenError(f"cannot be opened: {error.strerror or error}") from None
    if not raw.strip(b"\0 \t\r\n"):
        raise _BrokenError("is empty")
    kind = next((text for start, text in SIGNATURES.items() if raw.startswith(start)), None)
    if kind:
        raise _BrokenError(f"is {kind}")
    return raw


def _json(raw: bytes) -> tuple[Any, list[str]]:
    """JSON in UTF-8, as it should be, in UTF-16 or UTF-32, or in a Windows encoding."""
    try:
        data = json.loads(raw)
    except UnicodeDecodeError:
        return json.loads(raw.decode("cp1252", "replace")), ["was not saved as UTF-8; read as Windows-1252"]
    wide = raw[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in raw[:4]
    return data, ["was saved as UTF-16 or UTF-32; read all the same"] if wide else []


# ---- notebooks -------------------------------------------------------------------------------------------------------


def _from_notebook(data: dict[str, Any], name: str) -> Submission:
    if "worksheets" in data or data.get("nbformat") in (1, 2, 3):
        raise _BrokenError("is a notebook of an old format; open it in JupyterLab and save it again")
    if not isinstance(data.get("cells"), list):
        raise _BrokenError("has no cells")
    cells = list(cells_of(data))
    if not any(cell.text.strip() for cell in cells):
        raise _BrokenError("has no code cells")
    collected = CollectedAnswers(cells)
    collected.collect()
    if not collected.answers:
        raise _BrokenError("; ".join(["checks no exercise", *collected.notes]))
    answers = {key: tuple(some) for key, some in sorted(collected.answers.items())}
    places = {key: tuple(some.values()) for key, some in sorted(collected.answers.items())}
    return Submission(name, answers, notes=tuple(collected.notes), places=places)


# ---- reports ---------------------------------------------------------------------------------------------------------


def _from_report(data: dict[str, Any], name: str) -> Submission:
    try:
        report = read_report(data)
    except ReportError as problem:
        raise _BrokenError(str(problem)) from None
    return Submission(
        name=clean(report.name) or name,
        answers={key: tuple(some) for key, some in report.answers.items()},
        predictions=report.predictions,
        notes=report.notes,
        places={key: tuple(some.values()) for key, some in report.answers.items()},
        history=report.history,
    )
