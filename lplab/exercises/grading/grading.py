"""A whole class at once: every answer of every file is judged in a fresh process, several at a time.

Marks depend on nothing but the files: equal sources are judged once, results are assigned by name, and the time limit
counts the computing of each answer alone.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from lplab.exercises.checks.judge import judge
from lplab.exercises.checks.verdict import Verdict
from lplab.exercises.grading.journal import Journal
from lplab.exercises.grading.judging import Judge, Task, judge_all
from lplab.exercises.grading.marks import MISSING, Class, Mark, Student, mark_of
from lplab.exercises.grading.merging import SubmittedFile, by_folder
from lplab.exercises.grading.submissions import Submission, clean, read_submission
from lplab.exercises.isolation import fences
from lplab.exercises.model import catalogue
from lplab.exercises.model.exercise import STAGES, Exercise

READ = (".ipynb", ".json")
REFUSED = (".py", ".pdf", ".html", ".htm", ".docx", ".zip", ".gz", ".tgz", ".tar", ".7z", ".rar")  # a row says why
SKIPPED = ("__MACOSX", "__pycache__")


def grade(
    folder: str | os.PathLike[str],
    labs: Sequence[str] = (),
    *,
    jobs: int | None = None,
    all_or_nothing: bool = False,
    each_file: bool = False,
    leave_out: Path | None = None,
    judged_by: Judge = judge,
    journal: Path | None = None,
) -> Class:
    """Grade all notebooks and reports in a folder and the folders in it.

    Args:
        folder: of the class.
        labs: such as ["01", "02"]; by default those with an answer in some file.
        jobs: answers judged at the same time; by default one for each processor. Marks do not depend on it.
        all_or_nothing: only a pass gives points.
        each_file: every file is one student; by default the files in a folder below that of the class are one student.
        leave_out: a folder that is not searched, where the marks go.
        judged_by: judges one answer.
        journal: a file that keeps the verdicts while it goes on, and gives those of a grading that was killed.

    Raises:
        OSError: the journal cannot be written.
        ValueError: the folder or a lab does not exist, or there is nothing to grade.
    """
    folder = Path(folder)
    wanted = [exercise for lab in dict.fromkeys(labs) for exercise in catalogue.of_lab(lab)]
    files = list(find_files(folder, leave_out))
    submitted: list[SubmittedFile] = [
        (path.relative_to(folder), _read(path, folder)) for path in tqdm(files, "reading", disable=None)
    ]
    count = len(submitted)
    submitted = submitted if each_file else by_folder(submitted)
    if not labs:
        seen = {exercise[:2] for _, submission in submitted for exercise in submission.answers}
        wanted = [exercise for lab in sorted(seen) for exercise in catalogue.of_lab(lab)]
    ids = {exercise.id for exercise in wanted}
    work = [[(key, answer) for key in sorted(ids & set(one.answers)) for answer in one.answers[key]]
            for _, one in submitted]  # fmt: skip
    verdicts = judge_all(work, jobs or os.cpu_count() or 1, judged_by, Journal(journal))
    students = [_student(str(path), one, wanted, verdicts, all_or_nothing) for path, one in submitted]
    students.sort(key=lambda student: (student.name.casefold(), student.name, student.file))
    return Class(tuple(wanted), tuple(_distinct(students)), all_or_nothing, count, each_file, fences.summary())


def find_files(folder: Path, leave_out: Path | None = None) -> Iterator[Path]:
    """The files that students may have handed in, sorted; hidden ones and ``leave_out`` apart. ValueError if none."""
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}")
    away = leave_out.resolve() if leave_out else None
    found = []
    for place, folders, names in os.walk(folder):
        named = [name for name in folders if name.lower().endswith(READ)]  # a folder that looks like a notebook
        folders[:] = [name for name in folders if _is_shown(name) and Path(place, name).resolve() != away]
        found += [Path(place, name) for name in [*names, *named] if _is_shown(name)]
    read = {path for path in found if path.suffix.lower() in READ}
    beside = {path.with_suffix("") for path in read}
    refused = {path for path in found if path.suffix.lower() in REFUSED and path.with_suffix("") not in beside}
    if not read | refused:
        raise ValueError(f"there is no notebook (.ipynb) and no report (.json) in {folder}")
    return iter(sorted(read | refused))


def _is_shown(name: str) -> bool:
    return not name.startswith(".") and name not in SKIPPED


def _read(path: Path, folder: Path) -> Submission:
    found = read_submission(path, folder)
    if path.suffix.lower() in READ or "unpack" in found.problem or not found.problem:
        return found
    return Submission(found.name, problem=f"is a {path.suffix.lower()} file; hand in the notebook or the report")


# ---- from verdicts to marks ------------------------------------------------------------------------------------------


def _student(
    file: str, one: Submission, exercises: Sequence[Exercise], verdicts: Mapping[Task, Verdict], all_or_nothing: bool
) -> Student:
    marks, notes = {}, list(one.notes)
    for exercise in exercises:
        answers = one.answers.get(exercise.id, ())
        marks[exercise.id] = Mark(exercise.id)
        if answers:
            best = max(range(len(answers)), key=lambda i: _rank(verdicts[exercise.id, answers[i]]))
            where = one.places[exercise.id][best]
            marks[exercise.id] = mark_of(verdicts[exercise.id, answers[best]], where, all_or_nothing)
            if len({_rank(verdicts[exercise.id, answer]) for answer in answers}) > 1:  # else it does not matter which
                notes.append(f"{exercise.id}: the best of {len(answers)} answers ({where})")
        checked = one.history.get(exercise.id, {}).get("version")
        if checked and checked != exercise.version:
            notes.append(f"{exercise.id}: checked with version {checked}, graded with version {exercise.version}")
    if not one.problem and exercises and all(mark.status == MISSING for mark in marks.values()):
        notes.append("no answer to an exercise that is graded")
    path = clean(file.replace(os.sep, "/"), 300)
    return Student(one.name, path, marks, tuple(notes), one.problem, one.predictions, one.history)


def _rank(verdict: Verdict) -> tuple[float, ...]:
    """The better of two answers has more points, then the later stage, then a larger share right in it."""
    stage = STAGES.index(verdict.ring) if verdict.ring in STAGES else -1
    return verdict.passed, verdict.points, stage, verdict.right / max(verdict.total, 1)


def _distinct(students: Sequence[Student]) -> Iterator[Student]:
    """Append the file to names that occur more than once."""
    count = Counter(student.name.casefold() for student in students)
    for student in students:
        if count[student.name.casefold()] > 1:
            yield replace(student, name=f"{student.name} ({student.file})")
        else:
            yield student
