"""Marks as files: CSV for spreadsheets, JSON, and the results form of Gradescope's autograder."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import tee
from pathlib import Path
from typing import Any, TextIO
from unicodedata import normalize

import lplab
from lplab.exercises.grading.gradebooks import gradebooks, remarks
from lplab.exercises.grading.marks import UNMARKED, Class, Mark, Similar, Student

SCHEMA = 1
BOM = "\ufeff"  # without it Excel takes UTF-8 for the encoding of Windows; the importer of Canvas refuses it
MOST_CHARACTERS = 30_000  # of a cell: Excel takes 32,767
MOST_BYTES = 120  # of the name of a form: a file system takes 255, one that encrypts 143
DEVICES = re.compile(r"^(con|prn|aux|nul|com\d|lpt\d)(\.|$)", re.IGNORECASE)  # no names of files on Windows
FORMULAS = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")  # what a formula begins with; also in full width
DETAILS = (
    "student", "exercise", "title", "status", "ring", "misconception", "convention", "points", "of", "right", "total",
    "attempts", "hints", "solution_seen", "where", "message",
)  # fmt: skip
FILES = ("file", "student", "read", "why not")


def write_marks(marks: Class, folder: Path) -> list[Path]:
    """Write all forms into a folder, which is made if needed, and return the files. OSError if that cannot be done.

    What has a part for each student is written student by student. Each file is there whole, or as it was before.
    """
    from lplab.exercises.grading.overview import overview_page  # pages need jinja2

    forms = folder / "gradescope"
    forms.mkdir(parents=True, exist_ok=True)
    files = [folder / name for name in ("marks.csv", "details.csv", "marks.json", "files.csv")]
    students, again = tee(marks.students)
    names = distinct_names(student.name for student in again if not student.absent)
    with ExitStack() as stack:
        table, details, objects, handed_in = [stack.enter_context(_opened(path)) for path in files]
        table.write(BOM + as_csv([_head(marks)]))
        details.write(BOM + as_csv([DETAILS]))
        frame = as_json({**_about(marks), "students": []}).removesuffix("[]\n}\n")
        for number, student in enumerate(students):
            table.write(as_csv([_row(student, marks)]))
            details.write(as_csv(_details(student, marks)))
            text = json.dumps(_student_object(student, marks), indent=1, allow_nan=False).replace("\n", "\n  ")
            objects.write(f",\n  {text}" if number else f"{frame}[\n  {text}")
            if not student.absent:
                files.append(forms / f"{next(names)}.json")
                with _opened(files[-1]) as form:
                    form.write(as_json(gradescope_object(student, marks)))
        objects.write("\n ]\n}\n")
        handed_in.write(BOM + as_csv([FILES]))
        for row in marks.handed_in():
            handed_in.write(as_csv([row]))
    texts = {"overview.html": overview_page(marks), **{name: as_csv(rows) for name, rows in gradebooks(marks).items()}}
    if marks.similar is not None:
        texts["similar.csv"] = BOM + as_csv(_similar(marks.similar))
    for name, text in texts.items():
        with _opened(folder / name) as file:
            file.write(text)
    return [*files[:4], *(folder / name for name in texts), *files[4:]]


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    """A file to write, which is put in its place when it is whole."""
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("w", encoding="utf-8", newline="") as file:
            yield file
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def as_csv(rows: Iterable[Iterable[Any]]) -> str:
    r"""Rows as CSV, every field quoted; text that a spreadsheet would take for a formula gets an apostrophe in front.

    Where a spreadsheet reads semicolons as commas, an unquoted ``;=1+1`` would begin a cell with a formula.

    >>> as_csv([["name", 1.5, "=SUM(A1)"]])
    '"name","1.5","\'=SUM(A1)"\n'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(
        [[_cell(value) for value in row] for row in rows]
    )
    return text.getvalue()


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.10g}"
    text = str(value)
    if len(text) > MOST_CHARACTERS:  # a spreadsheet would write the rest over other cells
        text = text[: MOST_CHARACTERS - 1] + "…"
    return f"'{text}" if isinstance(value, str) and text.startswith(FORMULAS) and text != "-" else text


def as_json(value: Any) -> str:
    """JSON as all other tools read it."""
    return json.dumps(value, indent=1, allow_nan=False) + "\n"


def _points(mark: Mark) -> float | str:
    """The points of a mark; an empty cell where there is no answer to mark, which is not the same as a wrong one."""
    return "" if mark.status in UNMARKED else mark.points


def _head(marks: Class) -> list[str]:
    """The first row of the table of marks."""
    identity = ["id", "email"] if marks.roster else []
    return ["student", *identity, *(exercise.id for exercise in marks.exercises), "total", "of", "notes"]


def _row(student: Student, marks: Class) -> list[Any]:
    """The row of one student in it."""
    identity = [student.id, student.email] if marks.roster else []
    points = [_points(student.marks[exercise.id]) for exercise in marks.exercises]
    total = "" if student.absent else student.total
    return [student.name, *identity, *points, total, marks.most_points, student.remarks]


def _details(student: Student, marks: Class) -> Iterator[list[Any]]:
    """One row for each exercise of one student."""
    for exercise in marks.exercises:
        mark = student.marks[exercise.id]
        known = {**vars(mark), **_history(student, exercise.id), "message": mark.message or student.remarks}
        known["points"] = _points(mark)
        known |= {"student": student.name, "title": exercise.title, "of": marks.points_of(exercise)}
        yield [known[name] for name in DETAILS]


def _similar(groups: Iterable[Similar]) -> Iterator[list[Any]]:
    """One row for each group of answers that are alike."""
    yield ["exercise", "students", "equals the solution", "same text", "names", "files"]
    for group in groups:
        names, files = ("; ".join(some) for some in zip(*group.students, strict=True))
        flags = ["yes" if flag else "no" for flag in (group.alike.is_solution, group.alike.same_text)]
        yield [group.alike.exercise, len(group.students), *flags, names, files]


def _history(student: Student, exercise_id: str) -> dict[str, Any]:
    """Attempts, hints and whether the solution was seen, from a report; empty for notebooks."""
    history = student.history.get(exercise_id)
    if history is None:
        return {"attempts": "", "hints": "", "solution_seen": ""}
    seen = "yes" if history.get("solution_at") else "no"
    return {"attempts": history.get("attempts", ""), "hints": history.get("hints", ""), "solution_seen": seen}


def _about(marks: Class) -> dict[str, Any]:
    """The marks without the students; the same for the same files, whoever grades them and when."""
    return {
        "lplab_marks": SCHEMA,
        "lplab": lplab.__version__,
        "all_or_nothing": marks.all_or_nothing,
        "each_file": marks.each_file,
        "fence": marks.fence,
        "capstone_seeds": list(marks.capstone_seeds),
        "remarks": remarks(marks),
        "exercises": [
            {"id": e.id, "version": e.version, "title": e.title, "points": marks.points_of(e)} for e in marks.exercises
        ],
    }


def _student_object(student: Student, marks: Class) -> dict[str, Any]:
    return {
        "name": student.name,
        "file": student.file,
        "id": student.id,
        "email": student.email,
        "absent": student.absent,
        "total": student.total,
        "of": marks.most_points,
        "problem": student.problem,
        "notes": list(student.notes),
        "marks": [{**vars(mark), "lines": list(mark.lines)} for mark in student.marks.values()],
    }


def gradescope_object(student: Student, marks: Class) -> dict[str, Any]:
    """The results of one student as Gradescope's autograder expects them in ``results.json``.

    Source: "Autograder Specifications", gradescope-autograders.readthedocs.io, section Output format.
    """
    return {
        "score": student.total,
        "output": student.remarks or "All exercises of this lab were graded.",
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [_gradescope_test(student.marks[e.id], e.title, marks.points_of(e)) for e in marks.exercises],
        "extra_data": {"student": student.name, "file": student.file, "lplab": lplab.__version__},
    }


def _gradescope_test(mark: Mark, title: str, max_score: float) -> dict[str, Any]:
    return {
        "number": mark.exercise,
        "name": title,
        "score": mark.points,
        "max_score": max_score,
        "status": "passed" if mark.passed else "failed",
        "output": "\n".join(mark.lines) or "No answer was handed in.",
        "output_format": "text",
        "tags": [f"lab {mark.exercise[:2]}", mark.outcome],
        "visibility": "visible",
    }


def distinct_names(names: Iterable[str]) -> Iterator[str]:
    """Names of files for names of students: safe on every system, no two the same, also where case counts for nothing.

    >>> list(distinct_names(["Ada/lab 1", "ada lab 1", "../..", "Zoë"]))
    ['Ada_lab_1', 'ada_lab_1-2', 'student', 'Zoë']
    """
    taken = set()
    for name in names:
        plain = re.sub(r"[^\w.-]+", "_", normalize("NFC", name))[:80].encode()[:MOST_BYTES].decode("utf-8", "ignore")
        plain = again = DEVICES.sub(r"\1_\2", plain.strip("._-")) or "student"
        number = 1
        while _folded(again) in taken:
            number += 1
            again = f"{plain}-{number}"
        taken.add(_folded(again))
        yield again


def _folded(name: str) -> str:
    return normalize("NFC", normalize("NFD", name).casefold())
