"""The submission of one student: a notebook or a report, read without running any of it.

A file that cannot be graded gives a `Submission` whose ``problem`` says why, never an error: one broken file must not
stop a class.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path, PurePath
from typing import Any

from lplab.exercises.grading.collected_answers import CollectedAnswers
from lplab.exercises.grading.handed_in import READ
from lplab.exercises.grading.notebook_cells import CHECK_LINE, cells_of
from lplab.exercises.grading.report_file import ReportError, read_report
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.model import exercise_catalogue

MAX_FILE_BYTES = 64 * 2**20  # bytes of a file that is read
MAX_PARTS = 1_000_000  # lists and objects in it; each takes far more memory than in the file
MAX_CODE_CHARACTERS = 200_000  # of all code in it; a whole lab has 3,000, and reading code takes time and memory
SIGNATURES = {  # of files that are neither, by their first bytes
    b"PK\x03\x04": "a zip archive; unpack it",
    b"\x1f\x8b": "a gzip archive; unpack it",
    b"7z\xbc\xaf": "a 7z archive; unpack it",
    b"Rar!": "a rar archive; unpack it",
    b"\xfd7zXZ": "an xz archive; unpack it",
    b"BZh": "a bzip2 archive; unpack it",
    b"\x28\xb5\x2f\xfd": "a zstd archive; unpack it",
    b"%PDF": "a PDF document; hand in the notebook itself",
}
ARCHIVES = ("", ".zip", ".gz", ".tgz", ".tar", ".7z", ".rar", ".xz", ".bz2", ".zst")  # else a zip may be a document
ADVICE = "; hand in the notebook or the report"
JOINERS = "\u200c\u200d"  # without width: Persian and Indic names are spelled with them, and emoji
MARKS_OF_JSON = b"\xef\xbb\xbf\xff\xfe\0 \t\r\n"  # what may stand before the first brace
DEFINED = re.compile(r"^[ \t]*def[ \t]+(\w+)[ \t]*\(", re.MULTILINE)
ENDING = re.compile(r"\.(?:ipynb|json)(?:\.\w{1,9}|[ _-]?\(\d+\)|~)*$|\.[A-Za-z0-9]{1,9}$", re.IGNORECASE)


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
        is_claimed: the name stands in a report, where anyone may write it.
        aside: the file is passed over, or stands beside another one that counts.
    """

    name: str
    answers: Mapping[str, tuple[Answer, ...]] = field(default_factory=dict)
    predictions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    places: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    history: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    problem: str = ""
    times: Mapping[str, tuple[datetime | None, ...]] = field(default_factory=dict)
    is_claimed: bool = False
    aside: bool = False


class _BrokenError(Exception):
    """The file cannot be graded; the message says why."""


class _OtherKindError(_BrokenError):
    """The file is neither a notebook nor a report, as far as its content tells."""


def read_submission(path: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None) -> Submission:
    """Read a notebook (.ipynb, format 4) or a report (.json, made by ``lplab report``); no error, whatever is in it.

    The content says what a file is. Another ending, as browsers and mail programs make it, gives a note.

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
    name = name_of(path.relative_to(folder) if folder else PurePath(path.name))
    is_named_so = any(ending.lower() in READ for ending in path.suffixes)
    try:
        data, notes = _load(path)
        submission = _from_report(data, name) if "lplab_report" in data else _from_notebook(data, name)
    except _OtherKindError as problem:
        text = str(problem)
        if not is_named_so and not (text.endswith("unpack it") and path.suffix.lower() in ARCHIVES):
            kind = f"is a {clean(path.suffix.lower())} file" if path.suffix else "is neither a notebook nor a report"
            text = f"{kind}{ADVICE}"
        return Submission(name, problem=clean(text, 300))
    except _BrokenError as problem:
        return Submission(name, problem=clean(str(problem), 300))
    except (RecursionError, MemoryError):  # of Python's own parser, far from anything that a student would write
        return Submission(name, problem="has code that is too large or nested too deeply to be read")
    if path.suffix.lower() not in READ:
        kind = "a report" if "lplab_report" in data else "a notebook"
        notes.append(f"is {kind} that is called {clean(path.name, 60)}; read all the same")
    return replace(submission, notes=tuple(clean(note, 300) for note in (*notes, *submission.notes)))


def name_of(path: PurePath) -> str:
    """The path of a file without the ending of its name, also one that a browser has added to it.

    >>> [name_of(PurePath(path)) for path in ("s11/lab01.ipynb", "ada.ipynb.txt", "ada.json (1)", "J. Lovelace")]
    ['s11/lab01', 'ada', 'ada', 'J. Lovelace']
    """
    shown = ENDING.sub("", path.name)
    return clean("/".join([*path.parts[:-1], shown]) if shown.strip(" .") else path.as_posix())


def clean(text: str, longest: int = 120) -> str:
    r"""Text from a file as one line that can be printed and written: no control characters, no broken Unicode.

    >>> clean("Ada\tL.\n\udc80")
    'Ada L. ?'
    """
    text = " ".join(text.encode("utf-8", "replace").decode().split())
    text = "".join(character if character.isprintable() or character in JOINERS else "�" for character in text)
    return text if len(text) <= longest else text[: longest - 1] + "…"


# ---- the file --------------------------------------------------------------------------------------------------------


def _load(path: Path) -> tuple[dict[str, Any], list[str]]:
    """The JSON object in a file, and notes about its encoding."""
    raw = _bytes(path)
    try:
        data, notes = _json(raw)
    except json.JSONDecodeError as error:
        what = error.msg[:1].lower() + error.msg[1:]
        raise _OtherKindError(f"is no JSON: {what} (line {error.lineno}, column {error.colno})") from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; thousands of brackets
        what = "a number is too long" if isinstance(error, ValueError) else "it is nested too deeply"
        raise _OtherKindError(f"is no JSON that can be read: {what}") from None
    if not isinstance(data, dict) or not {"cells", "worksheets", "nbformat", "lplab_report"} & set(data):
        raise _OtherKindError("is JSON, but neither a notebook nor a report")
    return data, notes


def _bytes(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise _BrokenError("is a link to a folder, which is not followed" if path.is_symlink() else "is a folder")
        if not path.is_file():
            lost = "is a link that leads nowhere" if path.is_symlink() else "is not there"
            raise _BrokenError("is no file" if path.exists() else lost)
        size = path.stat().st_size
        if path.suffix.lower() not in READ and size:  # it may be large, and is hardly ever a notebook
            with path.open("rb") as file:
                _check_kind(head := file.read(1024))
            if not head.lstrip(MARKS_OF_JSON).startswith(b"{"):
                raise _OtherKindError("is no JSON")
        if size > MAX_FILE_BYTES:
            raise _BrokenError(f"is too large: {size / 1e6:.0f} MB; clear its outputs and save it again")
        raw = path.read_bytes()
    except OSError as error:
        raise _BrokenError(f"cannot be opened: {error.strerror or error}") from None
    if raw.count(b"[") + raw.count(b"{") > MAX_PARTS:
        raise _BrokenError(f"holds more than {MAX_PARTS:,} lists; clear its outputs and save it again")
    if not raw.strip(b"\0 \t\r\n"):
        raise _BrokenError("is empty")
    _check_kind(raw)
    return raw


def _check_kind(raw: bytes) -> None:
    kind = next((text for start, text in SIGNATURES.items() if raw.startswith(start)), None)
    if kind:
        raise _OtherKindError(f"is {kind}")


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
    _check_code(
        cell.get("source") for cell in data["cells"] if isinstance(cell, dict) and cell.get("cell_type") == "code"
    )
    cells, others = list(cells_of(data)), list(_answers_in_other_cells(data["cells"]))
    if not any(cell.text.strip() for cell in cells):
        raise _BrokenError("; ".join(["has no code cells", *others]))
    collected = CollectedAnswers(cells)
    collected.collect()
    for note in others:
        collected.note(note)
    if not collected.answers:
        raise _BrokenError("; ".join(["checks no exercise", *collected.notes]))
    answers = {key: tuple(some) for key, some in sorted(collected.answers.items())}
    places = {key: tuple(some.values()) for key, some in sorted(collected.answers.items())}
    return Submission(name, answers, notes=tuple(collected.notes), places=places)


def _answers_in_other_cells(cells: list[Any]) -> Iterator[str]:
    """A note for each cell with an answer that is no code cell: one key of the notebook turns a cell into text."""
    functions: dict[str, list[str]] = {}
    for exercise in exercise_catalogue.names():
        functions.setdefault(exercise_catalogue.get(exercise).name, []).append(exercise)
    for number, cell in enumerate(cells, 1):
        if not isinstance(cell, dict) or cell.get("cell_type") == "code":
            continue
        source = cell.get("source", "")
        lines = source if isinstance(source, list) else [source]
        text = "".join(line for line in lines if isinstance(line, str))[:MAX_CODE_CHARACTERS]
        exercises = [exercise for exercise, _ in CHECK_LINE.findall(text)]
        exercises += [exercise for name in DEFINED.findall(text) for exercise in functions.get(name, ())]
        exercises += [each.id for each in exercise_catalogue.capstones() if f"{each.call}(" in text]
        if exercises:
            what = {"markdown": "a Markdown cell", "raw": "a raw cell"}.get(str(cell.get("cell_type")), "no code cell")
            ids = ", ".join(dict.fromkeys(exercises))
            yield f"cell {number} is {what} and has an answer to {ids}: it was not read; turn it into a code cell"


def _check_code(sources: Iterable[Any]) -> None:
    lines = (line for source in sources for line in (source if isinstance(source, list) else [source]))
    characters = sum(len(line) for line in lines if isinstance(line, str))
    if characters > MAX_CODE_CHARACTERS:
        raise _BrokenError(f"has {characters:,} characters of code; at most {MAX_CODE_CHARACTERS:,} are read")


# ---- reports ---------------------------------------------------------------------------------------------------------


def _from_report(data: dict[str, Any], name: str) -> Submission:
    try:
        report = read_report(data)
    except ReportError as problem:
        raise _BrokenError(str(problem)) from None
    _check_code(answer.source for some in report.answers.values() for answer in some)
    return Submission(
        name=clean(report.name) or name,
        answers={key: tuple(some) for key, some in report.answers.items()},
        predictions=report.predictions,
        notes=report.notes,
        places={key: tuple(some.values()) for key, some in report.answers.items()},
        history=report.history,
        is_claimed=bool(clean(report.name)),
    )
