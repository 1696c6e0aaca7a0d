"""The totals of a class as the gradebook imports them from which its roster came.

Moodle reads back its own grading worksheet: the columns "Identifier", "Grade" and "Last modified (grade)" must be
there (mod/assign/feedback/offline/importgradeslib.php). Canvas reads a gradebook whose first columns are those of its
export, up to "Section", and then one column for each assignment; a row may give the points possible
(lib/gradebook_importer.rb). Headings are found whatever their capital letters and blanks: Moodle has written both
"Maximum grade" and "Maximum Grade". For any other roster a table with e-mail and id is made, for the import of Moodle's
gradebook. Who handed in nothing gets no zero: the cell holds what the roster has there, mostly nothing. Moodle skips a
blank cell; Canvas would take one for the removal of a grade.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lplab.exercises.grading.marks import Class
from lplab.exercises.grading.roster import CANVAS, MOODLE, Enrolled, Roster
from lplab.exercises.grading.submissions import clean

MOST_NAMES = 20  # that a line names
POINTS_POSSIBLE = "    Points Possible"  # as Canvas writes it, in the column of names


def gradebooks(marks: Class) -> dict[str, list[list[Any]]]:
    """The rows of each file to import, by its name; none without a roster."""
    if marks.roster is None:
        return {}
    totals = {student.place: student.total for student in marks.students if not student.absent}
    if marks.roster.kind == MOODLE:
        return {"moodle.csv": _worksheet(marks, marks.roster, totals)}
    if marks.roster.kind == CANVAS:
        return {"canvas.csv": _canvas(marks, marks.roster, totals)}
    rows: list[list[Any]] = [["Email address", "ID number", title_of(marks)]]
    for place, student in enumerate(marks.roster.students):
        rows.append([student.email, student.id, _grade(totals.get(place))])
    return {"moodle.csv": rows}


def title_of(marks: Class) -> str:
    """The name of the column: as the weights give it, else the labs, such as "Lab 01"."""
    labs = dict.fromkeys(exercise.lab for exercise in marks.exercises)
    return marks.weights.title or f"Lab{'s' * (len(labs) > 1)} {' '.join(labs)}"


def _worksheet(marks: Class, roster: Roster, totals: Mapping[int | None, float]) -> list[list[Any]]:
    """Moodle's worksheet with its grades filled in, on its own scale; without comments, so that these stay."""
    filled, comments = roster.column("grade"), roster.column("feedback comments")
    columns = [column for column in roster.columns if column != comments]
    rows: list[list[Any]] = [columns]
    for place, student in enumerate(roster.students):
        most = _maximum(student, roster) or marks.most_points
        grade = _grade(totals.get(place), most / (marks.most_points or 1))
        rows.append([grade if column == filled and grade != "" else student.row[column] for column in columns])
    return rows


def _maximum(student: Enrolled, roster: Roster) -> float:
    """The maximum grade of a row of Moodle's worksheet, 0 if it has none."""
    return _number(student.row.get(roster.column("maximum grade"), ""))


def remarks(marks: Class) -> list[str]:
    """What is to be known of the files to import: whose grades are not on the scale of the gradebook."""
    if marks.roster is None or marks.roster.kind != MOODLE:
        return []
    if not marks.roster.column("maximum grade"):
        return [f"moodle.csv: the roster has no column “Maximum grade”; grades are out of {marks.most_points:g} points"]
    names = [clean(one.name) for one in marks.roster.students if not _maximum(one, marks.roster)]
    shown = ", ".join(names[:MOST_NAMES]) + f" and {len(names) - MOST_NAMES} more" * (len(names) > MOST_NAMES)
    said = f"moodle.csv: no maximum grade can be read for {shown}; their grades are out of {marks.most_points:g} points"
    return [said] if names else []


def _canvas(marks: Class, roster: Roster, totals: Mapping[int | None, float]) -> list[list[Any]]:
    """The columns of Canvas that say who it is, and one column with the grades.

    An assignment that the export has under this title keeps its heading, in which its number stands, and its scale.
    """
    who = list(roster.columns[: roster.columns.index(roster.column("section")) + 1])
    title = re.compile(re.escape(title_of(marks)) + r"( \(\d+\))?")
    column = next((column for column in roster.columns if title.fullmatch(column)), title_of(marks))
    possible = next((row for row in roster.others if "points possible" in row[who[0]].casefold()), {})
    most = _number(possible.get(column, "")) or marks.most_points
    rows: list[list[Any]] = [[*who, column], [POINTS_POSSIBLE, *[""] * (len(who) - 1), most]]
    for place, student in enumerate(roster.students):
        grade = _grade(totals.get(place), most / (marks.most_points or 1))
        rows.append([*(student.row[name] for name in who), student.row.get(column, "") if grade == "" else grade])
    return rows


def _number(text: str) -> float:
    """The number in a cell, whose decimal sign may be a comma; 0 if there is none.

    Three digits behind a comma may be thousandths or thousands: that is no number that can be read.

    >>> [_number(text) for text in ("100.00", "100,00", "1,000.00", "1 000,5", "1,000", "-")]
    [100.0, 100.0, 1000.0, 1000.5, 0.0, 0.0]
    """
    digits = r"(\d+|\d{1,3}(?:[.,'’]\d{3})+(?=[.,]))(?:(?!,\d{3}$)[.,](\d+))?"
    match = re.fullmatch(digits, "".join(text.split()))
    return float(f"{re.sub(r'[^0-9]', '', match[1])}.{match[2] or 0}") if match else 0.0


def _grade(total: float | None, scale: float = 1.0) -> float | str:
    """A total on the scale of the gradebook, with two decimals; "" for none."""
    return "" if total is None else round(total * scale, 2)
